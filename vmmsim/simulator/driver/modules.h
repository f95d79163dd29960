// SPDX-License-Identifier: MIT-0
// Modules, libraries, and their functions and kernels.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "../gpu/gpu.h"
#include "driver.h"
#include "images.h"

namespace driver {

// Of a module, or of all modules of a library: each is one allocation, at the same address on the host and all GPUs.
struct ManagedVariables {
  std::map<std::string, gpu::Module::Global> all;
  ManagedVariables() = default;
  ManagedVariables(const ManagedVariables&) = delete;
  ~ManagedVariables();
};

}  // namespace driver

struct CUfunc_st {
  CUmodule module;
  std::string name;
  gpu::Kernel* kernel;
  std::atomic<int> dynamic_shared, carveout = -1;  // what attributes set: most bytes of a launch, per cent
  std::atomic<int> cluster[3] = {}, non_portable_cluster = 0, cluster_policy = 0;
};

struct CUmod_st {
  CUcontext context;
  CUlibrary library = nullptr;
  std::shared_ptr<gpu::Module> module;
  uint64_t variables = 0;  // where the memory of its variables begins, 0: it has none
  std::shared_ptr<driver::ManagedVariables> managed = {};
  int constants = 0;  // bytes of those in constant memory
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions GUARDED_BY(driver::state().lock);
  CUmod_st() = default;
  CUmod_st(const CUmod_st&) = delete;
  ~CUmod_st();
};

struct CUkern_st {
  CUlibrary library;
  std::string name;
  std::map<CUdevice, int> dynamic_shared GUARDED_BY(driver::state().lock);  // what attributes set for its functions
};

struct CUlib_st {
  driver::Code code;  // null: it could not be compiled, as these tell
  CUresult error = CUDA_SUCCESS;
  std::string reason;
  std::map<CUcontext, CUmodule> modules GUARDED_BY(driver::state().lock);  // loaded where it is first asked for
  std::shared_ptr<driver::ManagedVariables> managed = std::make_shared<driver::ManagedVariables>();
  std::map<std::string, std::unique_ptr<CUkern_st>> kernels;
};

namespace driver {

constexpr int usual_shared = 49152;  // without asking for more
constexpr int most_shared = 232448;  // bytes a block can have, static and dynamic

// They throw Refused. What a handle names is kept while a call works on it: another thread may reset the context
// meanwhile, and with it go its modules, those of libraries too.
std::shared_ptr<CUmod_st> checked(CUmodule) EXCLUDES(state().lock);
std::shared_ptr<CUlib_st> checked(CUlibrary);
CUkernel checked(CUkernel);
// A function, or a context's function of a kernel: the driver takes either. The context is the current one if null.
CUfunction checked(CUfunction, CUcontext = nullptr);
CUfunction checked_function(CUfunction);  // no kernel

CUmodule load_module(const Code&);  // into the current context
void unload_module(CUmodule) EXCLUDES(state().lock);
CUfunction function_of(CUmodule, const char* name);
gpu::Module::Global variable_of(CUmodule, const char* name);

// Code that cannot be read makes a library too, and whoever asks for something in it is told.
CUlibrary make_library(const std::function<Code()>& read);
void unload_library(CUlibrary) EXCLUDES(state().lock);
CUmodule module_of(CUlibrary);                            // in the current context; loaded when it is first asked for
std::string kernel_name(const void* function_or_kernel);  // as the compiler writes it; empty: it is neither
CUkernel kernel_named(CUlibrary, const char* name);
CUfunction function_of(CUkernel);  // likewise

std::optional<gpu::Module::Global> variable_at(uint64_t address);  // of a module
void forget_modules(CUcontext);                                    // which ends; null: all

}  // namespace driver
