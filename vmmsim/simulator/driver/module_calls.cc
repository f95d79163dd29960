// SPDX-License-Identifier: MIT-0
// Calls about modules, libraries, functions and kernels.
#include "../memory/this_machine.h"
#include "contexts.h"
#include "driver.h"
#include "images.h"
#include "modules.h"

namespace driver {
namespace {

void give_variable(const gpu::Module::Global& variable, CUdeviceptr* address, size_t* size) {
  require(address || size, "both dptr and bytes are null");
  if (address) *address = variable.address;
  if (size) *size = variable.size;
}

int function_attribute(CUfunction handle, CUfunction_attribute attribute) {
  const CUfunction function = checked(handle);
  const gpu::Kernel& kernel = *function->kernel;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: return int(kernel.max_threads);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: return int(kernel.static_shared);
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: return function->module->constants;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: return int(kernel.local_bytes);
    case CU_FUNC_ATTRIBUTE_NUM_REGS: return int(kernel.registers);
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: return int(kernel.target);
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: return memory::machine().capability;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: return function->dynamic_shared;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return function->carveout;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: return kernel.needs_cluster;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return function->cluster[0];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return function->cluster[1];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return function->cluster[2];
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return function->non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return function->cluster_policy;
    default: break;
  }
  require(attribute > 0 && attribute < CU_FUNC_ATTRIBUTE_MAX, no_such_attribute);
  return 0;
}

// Attributes about clusters; null: it is none of them.
std::atomic<int>* cluster_attribute(CUfunc_st& function, CUfunction_attribute attribute) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: return &function.cluster[0];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: return &function.cluster[1];
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: return &function.cluster[2];
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: return &function.non_portable_cluster;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE: return &function.cluster_policy;
    default: return nullptr;
  }
}

void set_cluster_attribute(CUfunc_st& function, std::atomic<int>& attribute, int value) {
  const bool is_size = &attribute >= function.cluster && &attribute < std::end(function.cluster);
  require(!is_size || !function.kernel->cluster[0] || attribute == value,
          "the kernel was compiled for clusters of one size");
  require((value >= 0 || &attribute == &function.non_portable_cluster) &&
              (&attribute != &function.cluster_policy || value <= 2),
          "the attribute cannot have this value");
  attribute = &attribute == &function.non_portable_cluster ? value != 0 : value;
}

int checked_attribute(const gpu::Kernel& kernel, CUfunction_attribute attribute, int value) {
  if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    require(value >= -1 && value <= 100, "the carveout is -1, or 0 to 100 per cent");
    return value;
  }
  require(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, read_only_attribute);
  require(value >= 0 && value + int(kernel.static_shared) <= most_shared,
          "static and dynamic shared memory of a block are 227 KiB at most");
  return value;
}

void set_attribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  const CUfunction function = checked(handle);
  if (std::atomic<int>* const cluster = cluster_attribute(*function, attribute))
    return set_cluster_attribute(*function, *cluster, value);
  const int fits = checked_attribute(*function->kernel, attribute, value);
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) function->dynamic_shared = fits;
  else function->carveout = fits;
}

void set_attribute(CUkernel kernel, CUfunction_attribute attribute, int value, CUdevice device) {
  checked(device);
  const CUfunction function = function_of(kernel);
  if (std::atomic<int>* const cluster = cluster_attribute(*function, attribute))
    return set_cluster_attribute(*function, *cluster, value);
  const int fits = checked_attribute(*function->kernel, attribute, value);
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return;
  const MutexLock held(state().lock);
  kernel->dynamic_shared[device] = fits;
  for (const auto& [context, module] : kernel->library->modules)
    if (context->device == device && module->functions.contains(kernel->name))
      module->functions[kernel->name]->dynamic_shared = fits;
}

// Queries that look at the handle before they ask whether cuInit was called.
template <class Handle> Handle checked_handle(Handle handle, CUresult if_null) {
  require(handle, if_null,
          "the handle is null: get one with cuLibraryLoadData, cuLibraryGetKernel or cuModuleGetFunction");
  require_initialized();
  return handle;
}

void give_parameter(const gpu::Kernel& kernel, size_t index, size_t* offset, size_t* size) {
  require_non_null(offset, "paramOffset");
  require(index < kernel.parameters.size(), "the kernel has fewer parameters");
  *offset = kernel.parameters[index].offset;
  if (size) *size = kernel.parameters[index].size;
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
  return call(ARGUMENTS(module, fname),
              result_to(module, "module", [&] { return current(), load_module(read_image_file(fname)); }));
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return call(ARGUMENTS(module, image),
              result_to(module, "module", [&] { return current(), load_module(read_image(image)); }));
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions, CUjit_option* options,
                            void** optionValues) {
  return call(ARGUMENTS(module, image), result_to(module, "module", [&] {
                return current(), load_module(read_image(image, numOptions, options, optionValues));
              }));
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
  return call(ARGUMENTS(module, fatCubin),
              result_to(module, "module", [&] { return current(), load_module(read_image(fatCubin)); }));
}
CUresult cuModuleUnload(CUmodule hmod) {
  return call(ARGUMENTS(hmod), [&] {
    if (hmod) current();
    unload_module(hmod);
  });
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return call(ARGUMENTS(mode), result_to(mode, "mode", [&] { return CU_MODULE_LAZY_LOADING; }));
}
CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
  return call(ARGUMENTS(hfunc, hmod, name), result_to(hfunc, "hfunc", [&] { return function_of(hmod, name); }));
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
  return call(ARGUMENTS(count, mod),
              result_to(count, "count", [&] { return unsigned(checked(mod)->module->kernel_names().size()); }));
}
CUresult cuModuleEnumerateFunctions(CUfunction* list, unsigned int numFunctions, CUmodule mod) {
  return call(ARGUMENTS(list, numFunctions, mod), [&] {
    require_non_null(list, "functions");
    unsigned i = 0;
    const auto module = checked(mod);
    for (const std::string& name : module->module->kernel_names()) {
      if (i < numFunctions) list[i++] = function_of(mod, name.c_str());
    }
  });
}
CUresult cuModuleGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
  return call(ARGUMENTS(dptr, bytes, hmod, name), [&] { give_variable(variable_of(hmod, name), dptr, bytes); });
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions, void** jitOptionsValues,
                           unsigned int numJitOptions, CUlibraryOption*, void**, unsigned int) {
  return call(ARGUMENTS(library, code), result_to(library, "library", [&] {
                require_non_null(code, "code");
                return make_library([&] { return read_image(code, numJitOptions, jitOptions, jitOptionsValues); });
              }));
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option*, void**, unsigned int,
                               CUlibraryOption*, void**, unsigned int) {
  return call(ARGUMENTS(library, fileName), result_to(library, "library", [&] {
                const std::string content = content_of(fileName);
                return make_library([&] { return read_image_of(content); });
              }));
}
CUresult cuLibraryUnload(CUlibrary library) {
  return call(ARGUMENTS(library), before_init, [&] {
    checked_handle(library, CUDA_ERROR_INVALID_HANDLE);
    unload_library(library);
  });
}
CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
  return call(ARGUMENTS(pKernel, library, name),
              result_to(pKernel, "pKernel", [&] { return kernel_named(library, name); }));
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
  return call(ARGUMENTS(count, lib), result_to(count, "count", [&] { return unsigned(checked(lib)->kernels.size()); }));
}
CUresult cuLibraryEnumerateKernels(CUkernel* list, unsigned int numKernels, CUlibrary lib) {
  return call(ARGUMENTS(list, numKernels, lib), [&] {
    require_non_null(list, "kernels");
    unsigned i = 0;
    const auto library = checked(lib);
    for (const auto& [name, kernel] : library->kernels) {
      if (i < numKernels) list[i++] = kernel.get();
    }
  });
}
CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
  return call(ARGUMENTS(pMod, library), result_to(pMod, "pMod", [&] { return module_of(library); }));
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return call(ARGUMENTS(dptr, bytes, library, name),
              [&] { give_variable(variable_of(module_of(library), name), dptr, bytes); });
}
CUresult cuLibraryGetUnifiedFunction(void** fptr, CUlibrary library, const char* symbol) {
  return call(ARGUMENTS(fptr, library, symbol), [&] {
    require_non_null(fptr, "fptr");
    checked(library);
    require_non_null(symbol, "symbol");
    refuse("the library has no unified function of this name");
  });
}
CUresult cuLibraryGetManaged(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
  return call(ARGUMENTS(dptr, bytes, library, name), [&] {
    require_non_null(name, "name");
    require(*name, "name is empty");
    module_of(library);
    const auto managed = checked(library)->managed;
    const auto found = managed->all.find(name);
    if (found == managed->all.end())
      refuse(CUDA_ERROR_NOT_FOUND, std::string("the library has no managed variable ") + name);
    give_variable(found->second, dptr, bytes);
  });
}
CUresult cuKernelGetFunction(CUfunction* pFunc, CUkernel kernel) {
  return call(ARGUMENTS(pFunc, kernel), before_init, result_to(pFunc, "pFunc", [&] {
                return function_of(checked_handle(kernel, CUDA_ERROR_INVALID_HANDLE));
              }));
}
CUresult cuKernelGetLibrary(CUlibrary* pLib, CUkernel kernel) {
  return call(ARGUMENTS(pLib, kernel), before_init, result_to(pLib, "pLib", [&] {
                return checked(checked_handle(kernel, CUDA_ERROR_INVALID_HANDLE))->library;
              }));
}
CUresult cuKernelGetName(const char** name, CUkernel hfunc) {
  return call(ARGUMENTS(name, hfunc), before_init, result_to(name, "name", [&] {
                return checked(checked_handle(hfunc, CUDA_ERROR_INVALID_VALUE))->name.c_str();
              }));
}
CUresult cuKernelGetAttribute(int* pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev) {
  return call(ARGUMENTS(pi, attrib, kernel, dev), before_init, result_to(pi, "pi", [&] {
                checked_handle(kernel, CUDA_ERROR_INVALID_HANDLE);
                checked(dev);
                return function_attribute(function_of(kernel), attrib);
              }));
}
CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev) {
  return call(ARGUMENTS(attrib, val, kernel, dev), [&] { set_attribute(kernel, attrib, val, dev); });
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev) {
  return call(ARGUMENTS(kernel, config, dev), [&] {
    checked(dev);
    checked(kernel);
  });
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return call(ARGUMENTS(kernel, paramIndex, paramOffset, paramSize), before_init, [&] {
    const CUfunction function = function_of(checked_handle(kernel, CUDA_ERROR_INVALID_VALUE));
    give_parameter(*function->kernel, paramIndex, paramOffset, paramSize);
  });
}

CUresult cuFuncGetAttribute(int* pi, CUfunction_attribute attrib, CUfunction hfunc) {
  return call(ARGUMENTS(pi, attrib, hfunc), before_init, result_to(pi, "pi", [&] {
                return function_attribute(checked_function(checked_handle(hfunc, CUDA_ERROR_INVALID_HANDLE)), attrib);
              }));
}
CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value) {
  return call(ARGUMENTS(hfunc, attrib, value), [&] { set_attribute(checked_function(hfunc), attrib, value); });
}
CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config) {
  return call(ARGUMENTS(hfunc, config), [&] {
    checked_function(hfunc);
    require(config <= CU_FUNC_CACHE_PREFER_EQUAL, "there is no such configuration");
  });
}
CUresult cuFuncGetModule(CUmodule* hmod, CUfunction hfunc) {
  return call(ARGUMENTS(hmod, hfunc), result_to(hmod, "hmod", [&] {
                return checked_function(checked_handle(hfunc, CUDA_ERROR_INVALID_VALUE))->module;
              }));
}
CUresult cuFuncGetName(const char** name, CUfunction hfunc) {
  return call(ARGUMENTS(name, hfunc), before_init, result_to(name, "name", [&] {
                return checked_function(checked_handle(hfunc, CUDA_ERROR_INVALID_VALUE))->name.c_str();
              }));
}
CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t* paramOffset, size_t* paramSize) {
  return call(ARGUMENTS(func, paramIndex, paramOffset, paramSize), before_init, [&] {
    const CUfunction function = checked_function(checked_handle(func, CUDA_ERROR_INVALID_VALUE));
    give_parameter(*function->kernel, paramIndex, paramOffset, paramSize);
  });
}
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return call(ARGUMENTS(state, function), [&] {
    require_non_null(state, "state");
    checked_function(function);
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
  });
}
CUresult cuFuncLoad(CUfunction function) {
  return call(ARGUMENTS(function), [&] { checked_function(function); });
}
