// SPDX-License-Identifier: MIT-0
// The checking header: how every lesson skips, checks, shows a refusal, fails and reads its arguments.
// A lesson's exit status: 0 it worked, 1 it did not, 2 bad arguments, 77 this machine cannot.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
// A call of the driver or the runtime must succeed; otherwise says where, which, the error and its meaning, exits 1.
#define CHECK(...) check::succeeded((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// A call must be refused with this very error; shows call and answer, as part of the story; exits 1 on any other.
#define REFUSED(error, ...) check::refused((__VA_ARGS__), error, #__VA_ARGS__, __FILE__, __LINE__)

// The machine must have this; otherwise prints "SKIP: " and the message ("what is missing; how to get it"), exits 77.
#define REQUIRE(condition, ...) ((condition) ? void() : (printf("SKIP: " __VA_ARGS__), std::puts(""), std::exit(77)))

// The lesson's own claim must hold; otherwise says where, which, and the message, exits 1.
#define EXPECT(condition, ...)                                                                                  \
  ((condition) ? void()                                                                                         \
               : (check::report(__FILE__, __LINE__, "expected", #condition), std::fprintf(stderr, __VA_ARGS__), \
                  std::fputs("\n", stderr), std::exit(1)))

namespace check {
inline void report(const char* file, int line, const char* verb, const char* expression) {
  std::fflush(stdout);  // the story so far comes before the error
  std::fprintf(stderr, "%s:%d: %s %s\n  ", file, line, verb, expression);
}
inline const char* name(cudaError_t error) { return cudaGetErrorName(error); }
inline const char* text(cudaError_t error) { return cudaGetErrorString(error); }
inline const char* name(CUresult error) {
  const char* s = nullptr;
  return cuGetErrorName(error, &s), s ? s : "unknown";
}
inline const char* text(CUresult error) {
  const char* s = nullptr;
  return cuGetErrorString(error, &s), s ? s : "no text";
}

template <class Result> void succeeded(Result result, const char* call, const char* file, int line) {
  if (result == Result(0)) return;
  report(file, line, "failed", call);
  std::fprintf(stderr, "%s (%d): %s\n", name(result), int(result), text(result));
  std::exit(1);
}
template <class Result> void refused(Result result, Result error, const char* call, const char* file, int line) {
  std::printf("    %s\n      -> %s\n", call, name(result));
  if (result == error) return;
  report(file, line, "wrong answer from", call);
  std::fprintf(stderr, "%s, expected %s\n", name(result), name(error));
  std::exit(1);
}

// The gate of every lesson: a driver, not older than the toolkit, and this many GPUs. Returns how many there are.
inline int require_gpus(int wanted) {
  int driver = 0, gpus = 0;
  CUresult result = cuInit(0);
  REQUIRE(result != CUDA_ERROR_STUB_LIBRARY, "only the toolkit's stub of a driver; install the NVIDIA driver");
  REQUIRE(result != CUDA_ERROR_NO_DEVICE, "the driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  CHECK(cuDriverGetVersion(&driver));
  REQUIRE(driver >= CUDA_VERSION, "the driver is for CUDA %d.%d, this program for %d.%d; update the driver",
          driver / 1000, driver % 1000 / 10, CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  succeeded(result, "cuInit(0)", __FILE__, __LINE__);
  CHECK(cuDeviceGetCount(&gpus));
  REQUIRE(gpus >= wanted, "needs %d GPUs, sees %d; use a larger machine, or widen CUDA_VISIBLE_DEVICES", wanted, gpus);
  return gpus;
}

// Reads "--name N", N from min to max; a flag (max 0) is just "--name", a text any word. Else exits 2 with the usage.
struct Option {
  const char* name;
  long* value;
  long min, max;
  const char** text = nullptr;
};
inline void arguments(int argc, char** argv, const char* usage, std::initializer_list<Option> options = {}) {
  for (int i = 1; i < argc; ++i) {
    const Option* found = nullptr;
    for (const Option& option : options)
      if (!std::strcmp(argv[i], option.name)) found = &option;
    if (!std::strcmp(argv[i], "--help")) std::exit((std::fputs(usage, stdout), 0));
    if (found && found->max == 0) {
      *found->value = 1;
      continue;
    }
    char none[] = "", *end = nullptr, *value = found && i + 1 < argc ? argv[++i] : none;
    if (*value && found->text) {
      *found->text = value;
      continue;
    }
    if (*value) *found->value = std::strtol(value, &end, 10);
    if (end > value && !*end && *found->value >= found->min && *found->value <= found->max) continue;
    std::fprintf(stderr, "%s: bad argument: %s %s\n%s", argv[0], found ? found->name : argv[i], value, usage);
    std::exit(2);
  }
}
}  // namespace check
