// SPDX-License-Identifier: MIT-0
// The simulator's driver with what NVIDIA's does for a recorder: cuInit begins the library that CUDA_INJECTION64_PATH
// names, and that is told of calls as CUPTI would. Loaded with RTLD_GLOBAL, its functions of CUPTI come before those of
// libcupti, which needs NVIDIA's driver.
#include <dlfcn.h>
#include <cstdlib>

#include "as_cupti.h"

template <class Function>
Function* simulated(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// A call of the driver's that is told.
#define TOLD(name, parameters, ...) \
  CUresult name parameters { return DRIVER_AS(simulated(name, #name), name, nullptr, __VA_ARGS__); }

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle*, CUpti_CallbackFunc callback, void*) {
  subscriber = callback;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableDomain(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain) { return CUPTI_SUCCESS; }
CUptiResult cuptiEnableCallback(uint32_t, CUpti_SubscriberHandle, CUpti_CallbackDomain, CUpti_CallbackId) {
  return CUPTI_SUCCESS;
}

CUresult cuInit(unsigned flags) {
  void* const library = dlopen(std::getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
  if (!library || !reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"))()) return CUDA_ERROR_UNKNOWN;
  return simulated(cuInit, "cuInit")(flags);
}

TOLD(cuMemAddressReserve,
     (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr hint, unsigned long long flags), address, size,
     alignment, hint, flags)
TOLD(cuMemCreate,
     (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp* properties,
      unsigned long long flags),
     handle, size, properties, flags)
TOLD(cuMemMap,
     (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),
     address, size, offset, handle, flags)

}  // extern "C"
