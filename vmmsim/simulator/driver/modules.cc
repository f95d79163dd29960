// SPDX-License-Identifier: MIT-0
#include "modules.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "streams.h"

CUmod_st::~CUmod_st() {
  if (variables) memory::free_allocation(variables);
}

namespace driver {

ManagedVariables::~ManagedVariables() {
  for (const auto& [name, variable] : all) memory::free_allocation(variable.address);
}

namespace {

constexpr char no_module[] = "this is no module, or it has been unloaded";
constexpr char no_library[] = "this is no library, or it has been unloaded";

template <class T>
std::shared_ptr<T> named(const Owned<T>& all, T* handle, const char* otherwise) REQUIRES(state().lock) {
  const auto found = all.find(handle);
  require(found != all.end(), CUDA_ERROR_INVALID_HANDLE, otherwise);
  return found->second;
}

// Makes the managed variables that are not there. Returns the names of the others.
std::set<std::string> place(const Code& code, ManagedVariables& managed) {
  std::set<std::string> known;
  for (const ptx::Variable& variable : code->variables) {
    if (!variable.is_managed || !variable.size) continue;
    if (managed.all.contains(variable.name)) known.insert(variable.name);
    else
      managed.all[variable.name] = {reinterpret_cast<uint64_t>(memory::allocate_host(variable.size, true)),
                                    variable.size};
  }
  return known;
}

// The module is known from then on.
CUmodule add_module(const std::shared_ptr<CUmod_st>& module) {
  const MutexLock held(state().lock);
  if (const CUlibrary library = module->library) {
    require(state().libraries.contains(library), CUDA_ERROR_INVALID_HANDLE, no_library);  // unloaded meanwhile
    library->modules[module->context] = module.get();
  }
  state().modules[module.get()] = module;
  return module.get();
}

// Loads a module on the GPU of a context.
CUmodule load(const Code& code, CUcontext context, CUlibrary library) {
  const auto module = std::make_shared<CUmod_st>();
  module->managed = library ? library->managed : std::make_shared<ManagedVariables>();
  const std::set<std::string> known = place(code, *module->managed);
  size_t size = 0;
  std::map<std::string, size_t> offsets;
  for (const ptx::Variable& variable : code->variables) {
    if (variable.space != ptx::Space::global && variable.space != ptx::Space::constant) continue;
    if (module->managed->all.contains(variable.name)) continue;
    const size_t alignment = std::max<size_t>(variable.alignment, 256);
    offsets[variable.name] = size;
    size += memory::round_up(variable.size, alignment);
    if (variable.space == ptx::Space::constant) module->constants += int(variable.size);
  }
  module->context = context;
  module->library = library;
  if (size) module->variables = memory::allocate(context->device, size);
  try {
    const auto place = [&](const ptx::Variable& variable) {
      const auto managed = module->managed->all.find(variable.name);
      return managed == module->managed->all.end() ? module->variables + offsets.at(variable.name)
                                                   : managed->second.address;
    };
    const auto keeps = [&](const ptx::Variable& variable) { return known.contains(variable.name); };
    module->module = std::make_shared<gpu::Module>(code, context->device, place, keeps);
  } catch (const ptx::Error& error) {
    refuse(CUDA_ERROR_INVALID_PTX, error.what());
  }
  return add_module(module);
}

// Kernels that still run keep the instructions.
void unload(CUmodule module) REQUIRES(state().lock) {
  std::erase_if(state().functions, [&](CUfunction function) { return function->module == module; });
  if (module->library) module->library->modules.erase(module->context);
  state().modules.erase(module);
}

}  // namespace

std::shared_ptr<CUmod_st> checked(CUmodule module) {
  const MutexLock held(state().lock);
  return named(state().modules, module, no_module);
}
std::shared_ptr<CUlib_st> checked(CUlibrary library) {
  const MutexLock held(state().lock);
  return named(state().libraries, library, no_library);
}

CUkernel checked(CUkernel kernel) {
  const MutexLock held(state().lock);
  require(state().kernels.contains(kernel), CUDA_ERROR_INVALID_HANDLE,
          "this is no kernel, or its library has been unloaded");
  return kernel;
}

// Waits for what runs on the GPU, as the driver does.
CUmodule load_module(const Code& code) {
  synchronize(current());
  return load(code, current(), nullptr);
}

void unload_module(CUmodule handle) {
  const auto module = checked(handle);
  require(!module->library, CUDA_ERROR_NOT_PERMITTED, "the module is a library's, which is unloaded whole");
  refuse_if_unsafe_in_capture();
  synchronize(module->context);
  const MutexLock held(state().lock);
  if (state().modules.contains(handle)) unload(handle);  // unless the context was reset meanwhile
}

CUfunction function_of(CUmodule handle, const char* name) {
  const auto module = checked(handle);
  require_non_null(name, "name");
  require(*name, "name is empty");
  gpu::Kernel* const kernel = module->module->kernel(name);
  if (!kernel) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no kernel ") + name);
  const MutexLock held(state().lock);
  require(state().modules.contains(handle), CUDA_ERROR_INVALID_HANDLE, no_module);  // unloaded meanwhile
  auto& function = module->functions[name];
  const int dynamic_shared = std::max(0, usual_shared - int(kernel->static_shared));
  if (!function) {
    function = std::unique_ptr<CUfunc_st>(new CUfunc_st{handle, name, kernel, dynamic_shared});
    for (size_t k = 0; k < 3; ++k) function->cluster[k] = int(kernel->cluster[k]);
  }
  state().functions.insert(function.get());
  return function.get();
}

gpu::Module::Global variable_of(CUmodule handle, const char* name) {
  require_non_null(name, "name");
  const auto module = checked(handle);
  require(*name, "name is empty");
  const gpu::Module::Global* const found = module->module->variable(name);
  require(found || !module->module->kernel(name), "this is the name of a kernel");
  if (!found) refuse(CUDA_ERROR_NOT_FOUND, std::string("the module has no variable ") + name);
  return *found;
}

// --- Libraries: loaded once, for whatever context asks ---------------------------------------------------------------

CUlibrary make_library(const std::function<Code()>& read) {
  auto owned = std::make_shared<CUlib_st>();
  try {
    owned->code = read();
  } catch (const memory::Refused& refused) {
    owned->error = CUresult(refused.error);
    owned->reason = refused.reason;
  }
  const std::vector<ptx::Function> none;
  const MutexLock held(state().lock);
  const CUlibrary library = owned.get();
  for (const ptx::Function& function : owned->code ? owned->code->functions : none) {
    if (!function.is_entry || function.is_declared_only) continue;
    auto& kernel = owned->kernels[function.name];
    kernel = std::make_unique<CUkern_st>(CUkern_st{library, function.name, {}});
    state().kernels.insert(kernel.get());
  }
  state().libraries[library] = std::move(owned);
  return library;
}

void unload_library(CUlibrary handle) {
  const auto library = checked(handle);
  refuse_if_unsafe_in_capture();
  std::vector<CUcontext> contexts;
  {
    const MutexLock held(state().lock);
    for (const auto& [context, module] : library->modules) contexts.push_back(context);
  }
  for (const CUcontext context : contexts) synchronize(context);
  const MutexLock held(state().lock);
  while (!library->modules.empty()) unload(library->modules.begin()->second);
  std::erase_if(state().kernels, [&](CUkernel kernel) { return kernel->library == handle; });
  state().libraries.erase(handle);
}

static void require_code(const CUlib_st& library) {
  if (!library.code) refuse(library.error, "the library's code could not be loaded: " + library.reason);
}

static CUmodule module_of(CUlibrary handle, CUcontext context) {
  static Mutex& loading = *new Mutex;  // or two threads would load it twice
  const auto library = checked(handle);
  const MutexLock held(loading);
  {
    const MutexLock held(state().lock);
    if (const auto found = library->modules.find(context); found != library->modules.end()) return found->second;
  }
  require_code(*library);
  return load(library->code, context, handle);
}

static CUfunction function_of(CUkernel kernel, CUcontext context) {
  const CUmodule module = module_of(checked(kernel)->library, context);
  const CUfunction function = function_of(module, kernel->name.c_str());
  const MutexLock held(state().lock);
  if (const auto set = kernel->dynamic_shared.find(context->device); set != kernel->dynamic_shared.end())
    function->dynamic_shared = set->second;
  return function;
}

CUmodule module_of(CUlibrary library) { return module_of(library, current()); }
CUfunction function_of(CUkernel kernel) { return function_of(kernel, current()); }

CUfunction checked(CUfunction function, CUcontext context) {
  require(function, CUDA_ERROR_INVALID_HANDLE,
          "the function is null: get one with cuModuleGetFunction or cuLibraryGetKernel");
  {
    const MutexLock held(state().lock);
    if (state().functions.contains(function)) return function;
  }
  const CUkernel kernel = reinterpret_cast<CUkernel>(function);
  return function_of(kernel, context ? context : current());
}

CUfunction checked_function(CUfunction function) {
  const MutexLock held(state().lock);
  require(state().functions.contains(function), CUDA_ERROR_INVALID_HANDLE,
          "this is no function of a module, or it has been unloaded: of a kernel cuKernelGetFunction gives one");
  return function;
}

CUkernel kernel_named(CUlibrary handle, const char* name) {
  const auto library = checked(handle);
  require_non_null(name, "name");
  require_code(*library);
  const auto found = library->kernels.find(name);
  if (found == library->kernels.end()) refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no kernel ") + name);
  return found->second.get();
}

std::string kernel_name(const void* handle) {
  const MutexLock held(state().lock);
  const CUfunction function = static_cast<CUfunction>(const_cast<void*>(handle));
  if (state().functions.contains(function)) return function->name;
  const CUkernel kernel = reinterpret_cast<CUkernel>(function);
  return state().kernels.contains(kernel) ? kernel->name : "";
}

std::optional<gpu::Module::Global> variable_at(uint64_t address) {
  const MutexLock held(state().lock);
  for (const auto& [module, owner] : state().modules)
    if (const auto* const found = module->variables ? module->module->variable_at(address) : nullptr) return *found;
  return std::nullopt;
}

void forget_modules(CUcontext context) {
  const MutexLock held(state().lock);
  std::vector<CUmodule> all;
  for (const auto& [module, owner] : state().modules)
    if (!context || module->context == context) all.push_back(module);
  for (const CUmodule module : all) unload(module);
  if (context) return;
  for (const auto& [library, owner] : state().libraries) library->managed.reset();
}

}  // namespace driver
