// SPDX-License-Identifier: MIT-0
// What the programs that measure share: a clock, the median, free memory, fresh random data with the check that it
// arrived, and the file of --csv, from which the page on performance is made: a comment that says what ran, a row of
// names, and a row for each measurement.
#pragma once
#include "check.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

namespace measure {
// A clock that all processes of the machine share.
inline double microseconds() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
inline double milliseconds() { return microseconds() / 1000; }

inline double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
}

inline size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Of the current device.
inline size_t free_memory() {
  size_t bytes, total;
  CHECK(cuMemGetInfo(&bytes, &total));
  return bytes;
}

using Word = unsigned long long;
__device__ Word right;  // on each GPU: how many words the last check found right

// What place i holds under this seed. It looks random, and every GPU can work it out.
__device__ inline Word value(size_t i, Word seed) {
  const Word x = (i ^ seed) * 0x9e3779b97f4a7c15;
  return x ^ x >> 32;
}
__global__ void fill_words(Word* data, size_t first, size_t last, Word seed) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = first + size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < last; i += stride)
    data[i] = value(i, seed);
}
__global__ void count_right(const Word* data, size_t n, Word seed) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  Word mine = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) mine += data[i] == value(i, seed);
  atomicAdd(&right, mine);
}

// Fills the bytes from `from` up to `to` on the current device, so that nothing moves zeros or memory never touched.
inline void fill(CUdeviceptr data, size_t from, size_t to, Word seed, cudaStream_t stream = nullptr) {
  fill_words<<<1024, 256, 0, stream>>>(reinterpret_cast<Word*>(data), from / sizeof(Word), to / sizeof(Word), seed);
  CHECK(cudaGetLastError());
}
// Every word must hold its value, as the current device sees it. Returns when that is known.
inline void expect_filled(CUdeviceptr data, size_t bytes, Word seed, cudaStream_t stream = nullptr) {
  Word found = 0;
  CHECK(cudaMemcpyToSymbolAsync(right, &found, sizeof found, 0, cudaMemcpyHostToDevice, stream));
  count_right<<<1024, 256, 0, stream>>>(reinterpret_cast<Word*>(data), bytes / sizeof(Word), seed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbolAsync(&found, right, sizeof found, 0, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(found == bytes / sizeof(Word), "%llu of %zu words hold their value", found, bytes / sizeof(Word));
}

// A comment that says what runs: the command, GPU 0, the driver, the day.
inline std::string conditions(const std::string& command, int gpus) {
  char device[256], date[16], driver[64] = "unknown";
  const time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%F", std::gmtime(&now));
  CHECK(cuDeviceGetName(device, sizeof device, 0));
  FILE* const version = std::fopen("/sys/module/nvidia/version", "r");
  if (version && std::fscanf(version, "%63s", driver) != 1) std::strcpy(driver, "unknown");
  if (version) std::fclose(version);
  return "# " + command + ", " + std::to_string(gpus) + ' ' + device + ", driver " + driver + ", CUDA " +
         std::to_string(CUDA_VERSION / 1000) + '.' + std::to_string(CUDA_VERSION % 1000 / 10) + ", " + date + '\n';
}

// A cell of the file: its column, and what stands in it.
struct Field {
  std::string column, text;
  template <class Value> Field(const char* column, const Value& value) : column(column) {
    if constexpr (std::is_same_v<Value, bool>) text = value ? "true" : "false";
    else if constexpr (std::is_integral_v<Value>) text = std::to_string(value);
    else text = value;
  }
};

// The file of --csv. It is written when all is measured.
class Report {
 public:
  // Of the arguments one that is true is a flag.
  Report(const char* path, const std::string& program, int gpus, std::initializer_list<Field> arguments)
      : path(path), file(std::fopen(path, "w")) {
    if (!file) check::end(2, "%s: cannot write %s: %s", program.c_str(), path, std::strerror(errno));
    std::string command = program;
    for (const Field& argument : arguments)
      if (argument.text != "false")
        command += ' ' + argument.column + (argument.text == "true" ? "" : ' ' + argument.text);
    first_line = conditions(command, gpus);
  }
  Report(const Report&) = delete;

  // A row for a measurement: its fields, and of its times the median, the least and the greatest, in microseconds, of
  // which one unit of the times has `us`. Returns the median, in that unit.
  double add(const char* what, std::initializer_list<Field> fields, const std::vector<double>& times, int us = 1) {
    const auto [least, greatest] = std::minmax_element(times.begin(), times.end());
    rows.emplace_back()["what"] = what;
    for (const Field& field : fields) {
      rows.back()[field.column] = field.text;
      if (std::find(columns.begin(), columns.end(), field.column) == columns.end()) columns.push_back(field.column);
    }
    char text[128];
    std::snprintf(text, sizeof text, "%.3f,%.3f,%.3f", us * median(times), us * *least, us * *greatest);
    rows.back()["median_us,min_us,max_us"] = text;
    return median(times);
  }

  void complete() {
    columns.push_back("median_us,min_us,max_us");
    std::fprintf(file, "%swhat", first_line.c_str());
    for (const std::string& column : columns) std::fprintf(file, ",%s", column.c_str());
    for (auto& row : rows) {
      std::fprintf(file, "\n%s", row["what"].c_str());
      for (const std::string& column : columns) std::fprintf(file, ",%s", row[column].c_str());
    }
    std::fputs("\n", file);
    EXPECT(!std::ferror(file) && !std::fclose(file), "%s could not be written", path);
  }

 private:
  const char* path;
  FILE* file;
  std::string first_line;
  std::vector<std::string> columns;  // all that any row has
  std::vector<std::map<std::string, std::string>> rows;
};
}  // namespace measure
