// SPDX-License-Identifier: MIT-0
// What the programs that measure share: a clock, the median, free memory, fresh random data with the check that it
// arrived, and the file of --json, from which the page on performance is made. That file holds a line of conditions, a
// line for each measurement, and a last line that says "complete".
#pragma once
#include "check.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
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

inline std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const unsigned char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", unsigned(c));
    if (c == '"' || c == '\\') json += '\\';
    if (c < ' ') json += code;
    else json += char(c);
  }
  return json + '"';
}

// One member of an object: its name, and its value as JSON has it.
struct Field {
  const char* name;
  std::string json;
  template <class Value> Field(const char* name, const Value& value) : name(name) {
    if constexpr (std::is_same_v<Value, bool>) json = value ? "true" : "false";
    else if constexpr (std::is_integral_v<Value>) json = std::to_string(value);
    else json = quoted(value);
  }
};

// The file of --json.
class Report {
 public:
  // Writes the conditions: the program, its arguments (one that is true is a flag), GPU 0, the driver, the day.
  Report(const char* path, const char* program, int gpus, std::initializer_list<Field> arguments)
      : path(path), file(std::fopen(path, "w")) {
    if (!file) {
      std::fprintf(stderr, "%s: cannot write %s: %s\n", program, path, std::strerror(errno));
      std::exit(2);
    }
    char device[256], date[16], driver[64] = "unknown";
    const time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%F", std::gmtime(&now));
    CHECK(cuDeviceGetName(device, sizeof device, 0));
    FILE* const version = std::fopen("/sys/module/nvidia/version", "r");
    if (version && std::fscanf(version, "%63s", driver) != 1) std::strcpy(driver, "unknown");
    if (version) std::fclose(version);
    const std::string cuda = std::to_string(CUDA_VERSION / 1000) + '.' + std::to_string(CUDA_VERSION % 1000 / 10);
    std::string words;
    for (const Field& argument : arguments)
      if (argument.json != "false")
        words += (words.empty() ? "" : " ") + std::string(argument.name) +
                 (argument.json == "true" ? "" : " " + argument.json);
    write(
        "program", program,
        {{"device", device}, {"gpus", gpus}, {"driver", driver}, {"cuda", cuda}, {"date", date}, {"arguments", words}});
    std::fputs("}\n", file);
  }
  Report(const Report&) = delete;

  // A line for a measurement, with its times in microseconds ("us") or milliseconds ("ms"). Returns their median.
  double add(const char* what, std::initializer_list<Field> fields, const std::vector<double>& times,
             const char* unit = "us") {
    write("what", what, fields);
    std::fprintf(file, R"(, "repeats": %zu, "median_%s": %.4f, "%s": )", times.size(), unit, median(times), unit);
    const char* before = "[";
    for (const double time : times) {
      std::fprintf(file, "%s%.4f", before, time);
      before = ", ";
    }
    std::fputs("]}\n", file);
    return median(times);
  }

  void complete() {
    write("what", "complete", {});
    std::fputs("}\n", file);
    EXPECT(!std::ferror(file) && !std::fclose(file), "%s could not be written", path);
  }

 private:
  // An object up to its last field. The line goes on.
  void write(const char* name, const char* text, std::initializer_list<Field> fields) {
    std::fprintf(file, "{\"%s\": %s", name, quoted(text).c_str());
    for (const Field& field : fields) std::fprintf(file, ", \"%s\": %s", field.name, field.json.c_str());
  }

  const char* path;
  FILE* file;
};
}  // namespace measure
