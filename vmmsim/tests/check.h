// SPDX-License-Identifier: MIT-0
// What the tests check with. Exit status: 0 all holds, 1 something does not, 77 this machine cannot.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>

// A call must succeed; otherwise says where, which, and the error, exits 1.
#define CHECK(...) check::succeeded((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// This must hold; otherwise says where, what, and the message, exits 1.
#define EXPECT(condition, ...) \
  ((condition) ? void() : (check::failed(#condition, __FILE__, __LINE__), check::end(1, __VA_ARGS__)))

// A call must give this very error; otherwise says where, which, and what it gave, exits 1.
#define REFUSED(error, ...) check::refused((__VA_ARGS__), error, #__VA_ARGS__, __FILE__, __LINE__)

// The machine must have this; otherwise prints "SKIP: " and the message ("what is missing; how to get it"), exits 77.
#define REQUIRE(condition, message) ((condition) ? void() : check::end(77, "SKIP: " message))

namespace check {
template <class... Values> [[noreturn]] void end(int status, const char* format, Values... values) {
  std::fflush(stdout);
  std::FILE* file = status == 77 ? stdout : stderr;
  if constexpr (sizeof...(values) == 0) {
    std::fputs(format, file);
  } else {
    std::fprintf(file, format, values...);
  }
  std::fputs("\n", file);
  std::exit(status);
}

inline void failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: expected %s\n  ", file, line, what);
}

inline const char* name(cudaError_t error) { return cudaGetErrorName(error); }
inline const char* name(CUresult error) {
  const char* found = nullptr;
  return cuGetErrorName(error, &found) == CUDA_SUCCESS ? found : "unknown";
}

template <class Result> void succeeded(Result result, const char* call, const char* file, int line) {
  if (result != Result(0)) end(1, "%s:%d: failed %s\n  %s (%d)", file, line, call, name(result), int(result));
}

template <class Result> void refused(Result result, Result wanted, const char* call, const char* file, int line) {
  if (result != wanted) end(1, "%s:%d: %s gives %s, expected %s", file, line, call, name(result), name(wanted));
}

// A driver and this many GPUs; otherwise exits 77. Returns how many there are.
inline int require_gpus(int wanted) {
  int gpus = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&gpus) != CUDA_SUCCESS || gpus < wanted) {
    end(77, "SKIP: needs %d GPUs and their driver, sees %d; use a larger machine", wanted, gpus);
  }
  return gpus;
}
}  // namespace check
