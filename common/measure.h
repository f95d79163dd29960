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

inline const char* json_path = "/dev/null";  // for the option --json
inline FILE* json;                           // a measurement begins here: fprintf(json, R"({"what": "copy", )")

// Writes the conditions: the program, its arguments (a format and what goes into it), GPU 0, the driver, the day.
template <class... Values>
void open_json(const char* program, int gpus, const char* arguments, Values... values) {
  char device[256], date[16], driver[64] = "unknown";
  const time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%F", std::gmtime(&now));
  CHECK(cuDeviceGetName(device, sizeof device, 0));
  FILE* const version = std::fopen("/sys/module/nvidia/version", "r");
  if (version && std::fscanf(version, "%63s", driver) != 1) std::strcpy(driver, "unknown");
  if (version) std::fclose(version);
  json = std::fopen(json_path, "w");
  if (!json) {
    std::fprintf(stderr, "%s: cannot write %s: %s\n", program, json_path, std::strerror(errno));
    std::exit(2);
  }
  std::fprintf(json, R"({"program": "%s", "device": "%s", "gpus": %d, "driver": "%s", "cuda": "%d.%d", "date": "%s", )",
               program, device, gpus, driver, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, date);
  std::fprintf(json, R"("arguments": ")");
  std::fprintf(json, arguments, values...);
  std::fputs("\"}\n", json);
}

// Ends the line of a measurement with its times, in microseconds ("us") or milliseconds ("ms"). Returns their median.
inline double write_times(const std::vector<double>& times, const char* unit = "us") {
  std::fprintf(json, R"("repeats": %zu, "median_%s": %.4f, "%s": )", times.size(), unit, median(times), unit);
  const char* before = "[";
  for (const double time : times) {
    std::fprintf(json, "%s%.4f", before, time);
    before = ", ";
  }
  std::fputs("]}\n", json);
  return median(times);
}

inline void close_json() {
  std::fputs("{\"what\": \"complete\"}\n", json);
  EXPECT(!std::ferror(json) && !std::fclose(json), "%s could not be written", json_path);
}
}  // namespace measure
