// SPDX-License-Identifier: MIT-0
// What every call of the driver and of the runtime has around it: --fail, --trace, --explain, the error that stays
// after a fault, and the rule that a call made by another call is not the program's own. A call is written so:
//
//   CUresult cuMemFree(CUdeviceptr dptr) {
//     return call(ARGUMENTS(dptr), [&] { free_now(dptr); });
//   }
//
// The function that is given does the work. It may return a result, and throw Refused (of the runtime: Failed).
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>
#include "../../trace/arguments.h"

// The function that this stands in as a call, with its arguments, which have the names of the header.
#define ARGUMENTS(...) driver::Call(__func__, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define EXPORT extern "C" __attribute__((visibility("default")))  // of what the toolkit's header does not declare

namespace gpu {
struct Kernel;
struct AliasFence;
struct UnorderedRead;
}  // namespace gpu

namespace driver {

using trace::Call;
using trace::Extent;
using trace::KernelName;
using trace::KernelNames;

enum CallFlags {
  none = 0,
  before_init = 1,
  after_fault = 2,       // answers even after a fault
  in_host_function = 4,  // and in a host function or callback of a stream, unless it asks for the current context
  after_exit = 8         // and when the driver has shut down because the process exits: of the runtime
};

// Runs `work`, which returns a result or throws memory::Refused, as a call of the program. Returns what the program
// gets: --fail's error instead of calling `work`; the error of an earlier fault; CUDA_ERROR_NOT_INITIALIZED before
// cuInit unless `flags` has before_init; else the result of `work`. Inside another call `work` just runs. `error_name`
// turns a result into its name, for the trace.
int run(const Call&, int flags, const char* (*error_name)(int), const std::function<int()>& work);

// What `work` returns; 0, success, if that is nothing.
template <class Work> int result_of(const Work& work) {
  if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
    work();
    return 0;
  } else {
    return work();
  }
}

// Says a text on stderr, once in this process.
void log_once(const std::string& text);

// What a GPU could have run and the simulator cannot: logged once; with --unsupported exit it ends the process.
void log_unsupported(const std::string& text);

// Says on stderr, once for each text, what a call cannot do here: "vmmsim: cuFoo is not simulated".
int not_simulated(const char* name);

// What cannot be simulated in a file, the program or a library of it, that has this address in it. If it is the program
// the process ends with status 125: of a library it may need something else.
std::string file_of(const void* address);
void cannot_run(const void* address, const std::string& reason);

// The kernels that an executable graph launches: --trace shows them with the launch. Without --trace none.
KernelNames kernels_of(CUgraphExec);

// What a process does beside its calls, for --trace: when a late kernel begins (the calls that launch it and that wait
// for it, "cudaFree #1", or none). Of its end ending.h tells.
void trace_begin(const gpu::Kernel&, const std::vector<std::byte>& parameters, int device, const std::string& launch,
                 const std::string& waiter);
// That the call in progress has waited long for work of a GPU, once: if it never ends, no other line tells of it.
void trace_wait();
void trace_aliases(const gpu::Kernel&, int device, const std::string& launch, const gpu::UnorderedRead&);
void trace_aliases(const gpu::Kernel&, int device, const std::string& launch, const gpu::AliasFence&);
// Lets the library that goes before libc (../interposed.cc) tell of descriptors and of the end: a line in the trace.
void watch_process();

// Says why the call in progress is going to be refused, for --explain.
void explain(const std::string& reason);

}  // namespace driver
