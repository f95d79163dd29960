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

// Begins a call that has a variant for programs whose default stream is the thread's own: cudaMemcpy, cudaMemcpy_ptds.
#define STREAM_CALL(name, suffix, parameters, arguments) \
  EXPORT cudaError_t name##suffix parameters {           \
    const runtime::PerThreadDefault scope;               \
    return name arguments;                               \
  }                                                      \
  cudaError_t name parameters

// A call that is the driver's with the same arguments; and one that has a variant as above.
#define FORWARD(name, driver_call, parameters, ...)                                                       \
  cudaError_t name parameters {                                                                           \
    return call(ARGUMENTS(__VA_ARGS__), [&] { return forward(driver_call __VA_OPT__(, ) __VA_ARGS__); }); \
  }
#define STREAM_FORWARD(name, suffix, driver_call, parameters, ...)                                    \
  STREAM_CALL(name, suffix, parameters, (__VA_ARGS__)) {                                              \
    return call(ARGUMENTS(__VA_ARGS__), [&] { return forward_in_stream(driver_call, __VA_ARGS__); }); \
  }

namespace runtime {

// An error that ends a call.
struct Failed {
  int error;
};
inline void must(int result) {
  if (result) throw Failed{result};
}
// `why` is for --explain.
inline void require(bool holds, const std::string& reason, cudaError_t error = cudaErrorInvalidValue) {
  if (holds) return;
  driver::explain(reason);
  throw Failed{error};
}
inline void require_non_null(const void* pointer, const char* name) {
  if (!pointer) require(false, std::string(name) + " is null: give the address of a variable");
}

const char* name_of(int error);        // "cudaErrorInvalidValue"; null: there is none
const char* shown_name_of(int error);  // "unrecognized error code" if there is none

enum Needs { nothing, driver_only, of_event, context };  // the context of the event; one that is current
cudaError_t run(const driver::Call&, Needs, const std::function<int()>& work);

// Runs `work` as a call of the program, see ../driver/call.h. An error becomes the thread's last one. What needs no
// context answers after a fault too.
template <class Work> cudaError_t call(const driver::Call& description, Needs needs, const Work& work) {
  return run(description, needs, [&] { return driver::result_of(work); });
}
template <class Work> cudaError_t call(const driver::Call& description, const Work& work) {
  return call(description, context, work);
}
// The work of a call that has one result, which goes to where the program wants it.
template <class Result, class Work> auto result_to(Result* to, const char* name, const Work& work) {
  return [=] {
    require_non_null(to, name);
    *to = work();
  };
}

void start_driver();                    // throws Failed
int device();                           // the thread's current one
CUcontext primary_context(int device);  // retained once, and anew after a reset
int checked(int device);                // itself; throws Failed{cudaErrorInvalidDevice}

// What is a thread's own.
struct Thread {
  int last_error = cudaSuccess;
  const char* last_call = "";            // which answered so
  int chosen_device = 0;                 // by cudaSetDevice; a current context goes before it
  CUcontext entered = nullptr;           // that the latest call found or made current
  CUstream stream_0 = CU_STREAM_LEGACY;  // what stream 0 is in this call: the legacy stream, or the thread's own
};
extern thread_local Thread this_thread;

struct PerThreadDefault {
  PerThreadDefault() { this_thread.stream_0 = CU_STREAM_PER_THREAD; }
  ~PerThreadDefault() { this_thread.stream_0 = CU_STREAM_LEGACY; }
};
inline CUstream at(cudaStream_t stream) { return stream ? stream : this_thread.stream_0; }

// Copies within a call of the given kind, in the order of stream 0 or of a stream. Throw Failed.
void copy(void* to, const void* from, size_t size, cudaMemcpyKind kind);
void copy_async(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream);

CUDA_MEMCPY3D as_driver(const cudaMemcpy3DParms&);  // throws Failed

// Copies to and from symbols are copies whose kind names one of the two sides only. Throws Failed.
void require_side(cudaMemcpyKind kind, cudaMemcpyKind host_side);

// The kernel that a host function stands for, and the other way round; the address of a part of a variable.
CUkernel kernel_of(const void* function);
const void* function_of(CUkernel);
void* part_of(const void* symbol, size_t count, size_t offset);

// An argument of the runtime's as the driver's: an enum of the same values, a struct of the same members, an address.
template <class To, class From> To same(From from) {
  if constexpr (std::is_convertible_v<From, To>) {
    return from;
  } else if constexpr (std::is_enum_v<From>) {
    return To(from);
  } else {
    if constexpr (std::is_pointer_v<To> && !std::is_void_v<std::remove_pointer_t<From>>)
      static_assert(sizeof(std::remove_pointer_t<From>) == sizeof(std::remove_pointer_t<To>));
    return reinterpret_cast<To>(from);
  }
}
template <class... Parameters, class... Arguments>
CUresult forward(CUresult (*driver_call)(Parameters...), Arguments... arguments) {
  return driver_call(same<Parameters>(arguments)...);
}
template <class Argument> Argument in_stream(Argument argument) { return argument; }
inline CUstream in_stream(CUstream stream) { return at(stream); }
template <class... Parameters, class... Arguments>
CUresult forward_in_stream(CUresult (*driver_call)(Parameters...), Arguments... arguments) {
  return forward(driver_call, in_stream(arguments)...);
}

inline CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }
inline CUdeviceptr* address(void** pointer) { return reinterpret_cast<CUdeviceptr*>(pointer); }

}  // namespace runtime
