// SPDX-License-Identifier: MIT-0
// What every call of the CUDA runtime has around it. The runtime has no state of the GPUs of its own: it starts the
// driver, makes a device's primary context current, asks the driver, and remembers the last error of each thread.
#pragma once
#include <cuda.h>
#pragma GCC visibility push(default)  // what the header declares is what the library exports
#include <cuda_runtime_api.h>
#pragma GCC visibility pop

#include <functional>
#include <string>
#include <type_traits>

#include "../driver/call.h"

// Makes the rest of a function a call: its arguments in brackets for the trace, then the statements that do the work.
#define ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
#define CALL_OF(name, needs, arguments, ...) \
  return runtime::call(name, needs, #arguments, [&] { __VA_ARGS__; } ARGUMENTS arguments)
#define CALL(arguments, ...) CALL_OF(__func__, runtime::context, arguments, __VA_ARGS__)
// A call that needs no context, and answers after a fault too.
#define QUERY(arguments, ...) CALL_OF(__func__, runtime::driver_only, arguments, __VA_ARGS__)

#define EXPORT extern "C" __attribute__((visibility("default")))
// Defines a call that only asks the driver: its parameters, its arguments, the driver's call.
#define FORWARD(name, parameters, arguments, ...) \
  cudaError_t name parameters { CALL(arguments, runtime::must(__VA_ARGS__)); }
// Defines a call and its variant for programs whose default stream is the thread's own: cudaMemcpy, cudaMemcpy_ptds.
#define STREAM_CALL_OF(name, suffix, needs, parameters, arguments, ...)          \
  cudaError_t name parameters { CALL_OF(#name, needs, arguments, __VA_ARGS__); } \
  EXPORT cudaError_t name##suffix parameters {                                   \
    const runtime::PerThreadDefault scope;                                       \
    CALL_OF(#name, needs, arguments, __VA_ARGS__);                               \
  }
#define STREAM_CALL(name, suffix, ...) STREAM_CALL_OF(name, suffix, runtime::context, __VA_ARGS__)
#define STREAM_FORWARD(name, parameters, arguments, ...) \
  STREAM_CALL(name, _ptsz, parameters, arguments, runtime::must(__VA_ARGS__))

namespace runtime {

// An error that ends a call.
struct Failed {
  int error;
};
inline void must(int result) {
  if (result) throw Failed{result};
}
// `why` is for --explain.
inline void require(bool holds, const std::string& why, cudaError_t error = cudaErrorInvalidValue) {
  if (holds) return;
  driver::explain(why);
  throw Failed{error};
}
inline void need(const void* pointer, const char* name) {
  if (!pointer) require(false, std::string(name) + " is null: give the address of a variable");
}

const char* name_of(int error);        // "cudaErrorInvalidValue"; null: there is none
const char* shown_name_of(int error);  // "unrecognized error code" if there is none

enum Needs { nothing, driver_only, context };
cudaError_t call(const char* name, Needs needs, const std::function<void()>& work,
                 const std::function<int(int flags, const std::function<int()>& work)>& wrapped);

// Handles and functions are shown as addresses, locations as their numbers.
template <class T> auto shown(T value) {
  if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    if constexpr (std::is_class_v<Target> || std::is_function_v<Target>) return reinterpret_cast<const void*>(value);
    else return value;
  } else if constexpr (std::is_same_v<T, cudaMemLocation>) {
    return value.id;
  } else {
    return value;
  }
}

// Runs `work` as the call `name` of the program. An error becomes the thread's last one.
template <class... Values>
cudaError_t call(const char* name, Needs needs, const char* names, const std::function<void()>& work,
                 Values... values) {
  return call(name, needs, work, [&](int flags, const std::function<int()>& attempt) {
    return driver::call(name, flags, shown_name_of, names, attempt, shown(values)...);
  });
}

void start_driver();                    // throws Failed
int device();                           // the thread's current one
CUcontext primary_context(int device);  // retained once, and anew after a reset
void check_device(int device);          // throws Failed{cudaErrorInvalidDevice}

// What stream 0 is in this call: the legacy stream, or the thread's own.
extern thread_local CUstream stream_0;
struct PerThreadDefault {
  PerThreadDefault() { stream_0 = CU_STREAM_PER_THREAD; }
  ~PerThreadDefault() { stream_0 = CU_STREAM_LEGACY; }
};
inline CUstream at(cudaStream_t stream) { return stream ? stream : stream_0; }

// Copies within a call of the given kind, in the order of stream 0 or of a stream. Throw Failed.
void copy(void* to, const void* from, size_t size, cudaMemcpyKind kind);
void copy_async(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream);

inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr* address(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

}  // namespace runtime
