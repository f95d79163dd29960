// SPDX-License-Identifier: MIT-0
// The simulator's driver with what NVIDIA's does for a recorder: cuInit begins the library that CUDA_INJECTION64_PATH
// names, and that is told of calls as CUPTI would. Loaded with RTLD_GLOBAL, its functions of CUPTI come before those of
// libcupti, which needs NVIDIA's driver.
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "as_cupti.h"

template <class Function>
Function* simulated(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// A call of the driver's that is told.
#define TOLD(name, parameters, ...) \
  CUresult name parameters { return DRIVER_AS(simulated(name, #name), name, nullptr, __VA_ARGS__); }

// What GPUs have done and was not yet given to the recorder. They have no clock: a record has made-up times.
CUpti_BuffersCallbackRequestFunc give_buffer;
CUpti_BuffersCallbackCompleteFunc take_buffer;
CUpti_TimestampCallbackFunc now;
#if CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#else
using Kernel = CUpti_ActivityKernel9;
#endif
std::mutex lock;
std::vector<Kernel> kernels;
std::vector<CUpti_ActivityMemset4> memsets;

template <class Record>
void note(std::vector<Record>& all, Record record, CUpti_ActivityKind kind, uint64_t nanoseconds) {
  if (!now) return;
  const std::lock_guard held(lock);
  record.kind = kind;
  record.correlationId = correlation;
  record.deviceId = 0;
  record.end = now();
  record.start = record.end - nanoseconds;
  all.push_back(record);
}

template <class Record> void deliver(std::vector<Record>& records) {
  std::unique_lock held(lock);
  const std::vector<Record> all = std::exchange(records, {});
  held.unlock();
  for (const Record& record : all) {
    uint8_t* buffer = nullptr;
    size_t size = 0, most = 0;
    give_buffer(&buffer, &size, &most);
    std::memcpy(buffer, &record, sizeof record);
    take_buffer(nullptr, 0, buffer, size, sizeof record);
  }
}

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  const char* const wanted = std::getenv("CUPTI_VERSION");
  *version = wanted ? uint32_t(std::atoi(wanted)) : CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  now = function;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  give_buffer = give;
  take_buffer = take;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) {
  return std::getenv("CUPTI_REFUSES") ? CUPTI_ERROR_NOT_SUPPORTED : CUPTI_SUCCESS;
}
CUptiResult cuptiGetResultString(CUptiResult, const char** words) {
  *words = "CUPTI_ERROR_NOT_SUPPORTED";
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t, CUpti_Activity** record) {
  if (*record) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(buffer);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityFlushAll(uint32_t) {
  deliver(kernels);
  deliver(memsets);
  return CUPTI_SUCCESS;
}

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

CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared, CUstream stream, void** parameters, void** extra) {
  const auto result = DRIVER_AS(simulated(cuLaunchKernel, "cuLaunchKernel"), cuLaunchKernel, "_Z4fillPi", function, x,
                                y, z, block_x, block_y, block_z, shared, stream, parameters, extra);
  note(kernels, {}, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 12'345);
  return result;
}
CUresult cuMemsetD8_v2(CUdeviceptr address, unsigned char value, size_t count) {
  const auto result =
      DRIVER_AS(simulated(cuMemsetD8_v2, "cuMemsetD8_v2"), cuMemsetD8_v2, nullptr, address, value, count);
  CUpti_ActivityMemset4 record = {};
  record.bytes = count;
  note(memsets, record, CUPTI_ACTIVITY_KIND_MEMSET, 1'000);
  return result;
}

}  // extern "C"
