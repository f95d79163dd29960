// SPDX-License-Identifier: MIT-0
// The checking header: how every lesson tells its story, skips, checks, shows a refusal and fails. gate.h asks what the
// machine has, arguments.h reads the arguments of the programs that take some.
// A lesson's exit status: 0 it worked, 1 it did not, 2 bad arguments, 77 this machine cannot.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "arguments.h"

// A call of the driver or the runtime must succeed; otherwise says where, which, the error and its meaning, exits 1.
#define CHECK(...) check::succeeded((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

// A call must be refused with this very error; shows call and answer, as part of the story; exits 1 on any other.
#define REFUSED(error, ...) check::refused((__VA_ARGS__), error, #__VA_ARGS__, __FILE__, __LINE__)

// The machine must have this; otherwise prints "SKIP: " and the message ("what is missing; how to get it"), exits 77.
#define REQUIRE(condition, ...) ((condition) ? void() : check::end(77, "SKIP: " __VA_ARGS__))

// The lesson's own claim must hold; otherwise says where, which, and the message, exits 1.
#define EXPECT(condition, format, ...) \
  ((condition) ? void() : check::end(1, "%s:%d: expected %s\n  " format, __FILE__, __LINE__, #condition, ##__VA_ARGS__))

// The story: the heading of a step, "[1] Reserve addresses", and a line of what was seen there.
inline void step(const char* heading) { std::puts(heading); }
[[gnu::format(printf, 1, 2)]] inline void say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  std::fputs("    ", stdout);
  std::vprintf(format, values);
  std::fputs("\n", stdout);
  va_end(values);
}

namespace check {
// Ends the program: prints the message and a line's end, to stderr when something is wrong.
[[noreturn, gnu::format(printf, 2, 3)]] inline void end(int status, const char* format, ...) {
  std::fflush(stdout);  // the story so far comes before the error
  std::FILE* file = status == 77 ? stdout : stderr;
  va_list values;
  va_start(values, format);
  std::vfprintf(file, format, values);
  std::fputs("\n", file);
  std::exit(status);
}

inline const char* name(cudaError_t error) { return cudaGetErrorName(error); }
inline const char* text(cudaError_t error) { return cudaGetErrorString(error); }
inline const char* name(CUresult error) {
  const char* found;
  return cuGetErrorName(error, &found) == CUDA_SUCCESS ? found : "unknown";
}
inline const char* text(CUresult error) {
  const char* found;
  return cuGetErrorString(error, &found) == CUDA_SUCCESS ? found : "no text";
}

[[noreturn]] inline void end_without_code();  // skips: see gate.h
template <class Result> void succeeded(Result result, const char* call, const char* file, int line) {
  if (result == Result(0)) return;
  if (int(result) == cudaErrorUnsupportedPtxVersion || int(result) == cudaErrorNoKernelImageForDevice)
    end_without_code();
  end(1, "%s:%d: failed %s\n  %s (%d): %s", file, line, call, name(result), int(result), text(result));
}
template <class Result> void refused(Result result, Result error, const char* call, const char* file, int line) {
  std::printf("    %s\n      -> %s\n", call, name(result));
  if (result == error) return;
  end(1, "%s:%d: wrong answer from %s\n  %s, expected %s", file, line, call, name(result), name(error));
}
}  // namespace check

#include "gate.h"
