// SPDX-License-Identifier: MIT-0
// New: cuMulticastBindMem_v2
#include <cuda.h>

// Gives `gpu` its replica of a multicast object in host memory: in that of the NUMA node closest to the GPU, which the
// call demands. Its predecessor learned the GPU from the memory, so the memory had to be on one. The GPU must have been
// added to the object already.
CUresult bind_host_memory(CUmemGenericAllocationHandle object, CUdevice gpu, size_t size,
                          CUmemGenericAllocationHandle* memory) {
  CUmemAllocationProp near = {};
  near.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  near.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // the object's handle type
  near.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  CUresult result = cuDeviceGetAttribute(&near.location.id, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, gpu);
  if (result == CUDA_SUCCESS) result = cuMemCreate(memory, size, &near, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMulticastBindMem_v2(object, gpu, 0, *memory, 0, size, 0);
  if (result != CUDA_SUCCESS) cuMemRelease(*memory);
  return result;
}
