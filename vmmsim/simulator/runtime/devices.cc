// SPDX-License-Identifier: MIT-0
// What the devices are and can do: properties, attributes, limits, peers, versions, the driver's calls by name.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "runtime.h"

using namespace runtime;

namespace {

int attribute(int device, CUdevice_attribute attribute) {
  int value = 0;
  must(cuDeviceGetAttribute(&value, attribute, device));
  return value;
}

#define INT(field, name) {&cudaDeviceProp::field, CU_DEVICE_ATTRIBUTE_##name}
constexpr struct {
  int cudaDeviceProp::* field;
  CUdevice_attribute attribute;
} int_properties[] = {
    INT(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
    INT(warpSize, WARP_SIZE),
    INT(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
    INT(major, COMPUTE_CAPABILITY_MAJOR),
    INT(minor, COMPUTE_CAPABILITY_MINOR),
    INT(multiProcessorCount, MULTIPROCESSOR_COUNT),
    INT(integrated, INTEGRATED),
    INT(canMapHostMemory, CAN_MAP_HOST_MEMORY),
    INT(concurrentKernels, CONCURRENT_KERNELS),
    INT(ECCEnabled, ECC_ENABLED),
    INT(pciBusID, PCI_BUS_ID),
    INT(pciDeviceID, PCI_DEVICE_ID),
    INT(pciDomainID, PCI_DOMAIN_ID),
    INT(tccDriver, TCC_DRIVER),
    INT(asyncEngineCount, ASYNC_ENGINE_COUNT),
    INT(unifiedAddressing, UNIFIED_ADDRESSING),
    INT(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
    INT(l2CacheSize, L2_CACHE_SIZE),
    INT(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE),
    INT(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
    INT(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
    INT(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED),
    INT(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED),
    INT(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
    INT(managedMemory, MANAGED_MEMORY),
    INT(isMultiGpuBoard, MULTI_GPU_BOARD),
    INT(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID),
    INT(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED),
    INT(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS),
    INT(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
    INT(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED),
    INT(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    INT(cooperativeLaunch, COOPERATIVE_LAUNCH),
    INT(pageableMemoryAccessUsesHostPageTables, PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    INT(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    INT(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
    INT(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE),
    INT(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
    INT(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED),
    INT(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED),
    INT(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    INT(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
    INT(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED),
    INT(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING),
    INT(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    INT(ipcEventSupported, IPC_EVENT_SUPPORTED),
    INT(clusterLaunch, CLUSTER_LAUNCH),
    INT(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS),
#if CUDART_VERSION >= 13000
    INT(deviceNumaConfig, NUMA_CONFIG),
    INT(deviceNumaId, NUMA_ID),
    INT(hostNumaId, HOST_NUMA_ID),
#else
    INT(clockRate, CLOCK_RATE),
    INT(memoryClockRate, MEMORY_CLOCK_RATE),
    INT(computeMode, COMPUTE_MODE),
    INT(deviceOverlap, GPU_OVERLAP),
    INT(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT),
    INT(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO),
    INT(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH),
#endif
};
#undef INT
constexpr struct {
  size_t cudaDeviceProp::* field;
  CUdevice_attribute attribute;
} size_properties[] = {
    {&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    {&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    {&cudaDeviceProp::surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT},
    {&cudaDeviceProp::sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
    {&cudaDeviceProp::reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK},
};

// The limits of textures and surfaces are there though neither is simulated, for programs print them.
constexpr struct {
  size_t offset;
  int count;
  CUdevice_attribute first;
} size_lists[] = {
#define LIST(field, name) \
  {offsetof(cudaDeviceProp, field), sizeof(cudaDeviceProp::field) / sizeof(int), CU_DEVICE_ATTRIBUTE_MAXIMUM_##name}
    LIST(maxTexture1D, TEXTURE1D_WIDTH),
    LIST(maxTexture1DMipmap, TEXTURE1D_MIPMAPPED_WIDTH),
    LIST(maxTexture2D, TEXTURE2D_WIDTH),
    LIST(maxTexture2DMipmap, TEXTURE2D_MIPMAPPED_WIDTH),
    LIST(maxTexture2DLinear, TEXTURE2D_LINEAR_WIDTH),
    LIST(maxTexture2DGather, TEXTURE2D_GATHER_WIDTH),
    LIST(maxTexture3D, TEXTURE3D_WIDTH),
    LIST(maxTexture3DAlt, TEXTURE3D_WIDTH_ALTERNATE),
    LIST(maxTextureCubemap, TEXTURECUBEMAP_WIDTH),
    LIST(maxTexture1DLayered, TEXTURE1D_LAYERED_WIDTH),
    LIST(maxTexture2DLayered, TEXTURE2D_LAYERED_WIDTH),
    LIST(maxTextureCubemapLayered, TEXTURECUBEMAP_LAYERED_WIDTH),
    LIST(maxSurface1D, SURFACE1D_WIDTH),
    LIST(maxSurface2D, SURFACE2D_WIDTH),
    LIST(maxSurface3D, SURFACE3D_WIDTH),
    LIST(maxSurface1DLayered, SURFACE1D_LAYERED_WIDTH),
    LIST(maxSurface2DLayered, SURFACE2D_LAYERED_WIDTH),
    LIST(maxSurfaceCubemap, SURFACECUBEMAP_WIDTH),
    LIST(maxSurfaceCubemapLayered, SURFACECUBEMAP_LAYERED_WIDTH),
#undef LIST
};

void fill(cudaDeviceProp& all, int device) {
  std::memset(&all, 0, sizeof all);
  must(cuDeviceGetName(all.name, sizeof all.name, device));
  must(cuDeviceGetUuid(reinterpret_cast<CUuuid*>(&all.uuid), device));
  must(cuDeviceTotalMem(&all.totalGlobalMem, device));
  for (const auto& property : int_properties) all.*property.field = attribute(device, property.attribute);
  for (const auto& property : size_properties) all.*property.field = size_t(attribute(device, property.attribute));
  for (const auto& list : size_lists)  // the attributes of a list have successive numbers
    for (int i = 0; i < list.count; ++i) {
      const int value = attribute(device, CUdevice_attribute(list.first + i));
      std::memcpy(reinterpret_cast<char*>(&all) + list.offset + sizeof value * size_t(i), &value, sizeof value);
    }
  for (int i = 0; i < 3; ++i) {
    all.maxThreadsDim[i] = attribute(device, CUdevice_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
    all.maxGridSize[i] = attribute(device, CUdevice_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
  }
  all.gpuDirectRDMAFlushWritesOptions =
      unsigned(attribute(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS));
  all.memoryPoolSupportedHandleTypes = unsigned(attribute(device, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES));
}

// The driver refuses versions newer than itself.
unsigned own_version() {
  int driver = 0;
  must(cuDriverGetVersion(&driver));
  return unsigned(std::min(CUDART_VERSION, driver));
}

// A name that the driver does not know is no error here, but a null pointer and a status.
void find_driver_call(const char* symbol, void** call, unsigned version, unsigned long long flags,
                      cudaDriverEntryPointQueryResult* status) {
  require(symbol && *symbol && call, "symbol, the name of a driver call, is null or empty, or funcPtr is null");
  require(flags <= cudaEnablePerThreadDefaultStream, "there are no such flags: give cudaEnableDefault");
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (flags == cudaEnableDefault && this_thread.stream_0 == CU_STREAM_PER_THREAD)
    flags = cudaEnablePerThreadDefaultStream;
  *call = nullptr;
  const int result = cuGetProcAddress(symbol, call, int(version), flags, &found);
  if (status) *status = cudaDriverEntryPointQueryResult(found);
  if (result != CUDA_ERROR_NOT_FOUND) must(result);
}

}  // namespace

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return call(ARGUMENTS(prop, device), driver_only, [&] {
    require_non_null(prop, "prop");
    fill(*prop, checked(device));
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return call(ARGUMENTS(value, attr, device), driver_only,
              result_to(value, "value", [&] { return attribute(checked(device), CUdevice_attribute(attr)); }));
}
// All GPUs of the machine are alike, so the first fits as well as any.
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  return call(ARGUMENTS(device, prop), driver_only, [&] {
    require_non_null(device, "device");
    require_non_null(prop, "prop");
    *device = checked(0);
  });
}
cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return call(ARGUMENTS(len, device), driver_only, [&] { return cuDeviceGetPCIBusId(pciBusId, len, checked(device)); });
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return call(ARGUMENTS(device, pciBusId), driver_only, [&] { return cuDeviceGetByPCIBusId(device, pciBusId); });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return call(ARGUMENTS(canAccessPeer, device, peerDevice), driver_only,
              [&] { return cuDeviceCanAccessPeer(canAccessPeer, checked(device), checked(peerDevice)); });
}
cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice, int dstDevice) {
  return call(ARGUMENTS(value, attr, srcDevice, dstDevice), driver_only,
              [&] { return forward(cuDeviceGetP2PAttribute, value, attr, checked(srcDevice), checked(dstDevice)); });
}
cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return call(ARGUMENTS(peerDevice, flags),
              [&] { return cuCtxEnablePeerAccess(primary_context(checked(peerDevice)), flags); });
}
cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  return call(ARGUMENTS(peerDevice), [&] { return cuCtxDisablePeerAccess(primary_context(checked(peerDevice))); });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return call(ARGUMENTS(flags), driver_only,
              [&] { return cuDevicePrimaryCtxSetFlags(device(), flags & ~unsigned(cudaDeviceMapHost)); });
}
cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return call(ARGUMENTS(flags), driver_only, [&] {
    require_non_null(flags, "flags");
    int is_active;
    must(cuDevicePrimaryCtxGetState(device(), flags, &is_active));
    *flags |= cudaDeviceMapHost;
  });
}
FORWARD(cudaDeviceSetLimit, cuCtxSetLimit, (cudaLimit limit, size_t value), limit, value)
FORWARD(cudaDeviceGetLimit, cuCtxGetLimit, (size_t* pValue, cudaLimit limit), pValue, limit)
FORWARD(cudaDeviceGetCacheConfig, cuCtxGetCacheConfig, (cudaFuncCache * pCacheConfig), pCacheConfig)
FORWARD(cudaDeviceSetCacheConfig, cuCtxSetCacheConfig, (cudaFuncCache cacheConfig), cacheConfig)
// Deprecated are the configuration of shared memory, and cudaGetDriverEntryPoint, which a variant of it calls.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
FORWARD(cudaDeviceGetSharedMemConfig, cuCtxGetSharedMemConfig, (cudaSharedMemConfig * pConfig), pConfig)
FORWARD(cudaDeviceSetSharedMemConfig, cuCtxSetSharedMemConfig, (cudaSharedMemConfig config), config)
FORWARD(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int* leastPriority, int* greatestPriority),
        leastPriority, greatestPriority)
FORWARD(cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, (void))

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return call(ARGUMENTS(driverVersion), nothing, [&] { return cuDriverGetVersion(driverVersion); });
}
cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return call(ARGUMENTS(runtimeVersion), nothing,
              result_to(runtimeVersion, "runtimeVersion", [&] { return CUDART_VERSION; }));
}
STREAM_CALL(cudaGetDriverEntryPoint, _ptsz,
            (const char* symbol, void** funcPtr, unsigned long long flags,
             cudaDriverEntryPointQueryResult* driverStatus),
            (symbol, funcPtr, flags, driverStatus)) {
  return call(ARGUMENTS(symbol, funcPtr, flags, driverStatus), driver_only,
              [&] { find_driver_call(symbol, funcPtr, own_version(), flags, driverStatus); });
}
STREAM_CALL(cudaGetDriverEntryPointByVersion, _ptsz,
            (const char* symbol, void** funcPtr, unsigned int cudaVersion, unsigned long long flags,
             cudaDriverEntryPointQueryResult* driverStatus),
            (symbol, funcPtr, cudaVersion, flags, driverStatus)) {
  return call(ARGUMENTS(symbol, funcPtr, cudaVersion, flags, driverStatus), driver_only,
              [&] { find_driver_call(symbol, funcPtr, cudaVersion, flags, driverStatus); });
}

// There is no profiler, which is no error on hardware either.
EXPORT cudaError_t cudaProfilerStart(void) {
  return call(ARGUMENTS(), [] {});
}
EXPORT cudaError_t cudaProfilerStop(void) {
  return call(ARGUMENTS(), [] {});
}
