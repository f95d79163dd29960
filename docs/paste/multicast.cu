// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// A multicast object over GPUs 0 to n-1 of this process, backed by memory[i] of GPU i. *size is rounded up, and
// the memory of each GPU must be of that size: call it first with memory = null to learn the size. Undo with
// cuMulticastUnbind for each GPU, then cuMemRelease.
inline CUresult make_multicast(CUmemGenericAllocationHandle* object, const CUmemGenericAllocationHandle* memory,
                               size_t* size, unsigned n) {
  CUmulticastObjectProp prop = {};
  prop.numDevices = n;
  prop.size = *size;
  size_t granularity;
  CUresult result = cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  prop.size = *size = (*size + granularity - 1) / granularity * granularity;
  if (!memory) return CUDA_SUCCESS;

  if ((result = cuMulticastCreate(object, &prop)) != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < n && result == CUDA_SUCCESS; ++i) result = cuMulticastAddDevice(*object, CUdevice(i));
  unsigned bound = 0;  // binding waits for the whole team, so all are added before
  while (bound < n && result == CUDA_SUCCESS)
    if ((result = cuMulticastBindMem(*object, 0, memory[bound], 0, *size, 0)) == CUDA_SUCCESS) ++bound;
  if (result == CUDA_SUCCESS) return result;
  while (bound) cuMulticastUnbind(*object, CUdevice(--bound), 0, *size);
  cuMemRelease(*object);
  return result;
}

// Maps the object for one GPU of the team, at an address of its own; do so for each. Undo with cuMemUnmap and
// cuMemAddressFree. The alignment is the largest power of two that divides the size, the granularity at least.
inline CUresult map_multicast(CUdeviceptr* mc, CUmemGenericAllocationHandle object, size_t size, int gpu) {
  CUresult result = cuMemAddressReserve(mc, size, size & -size, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuMemMap(*mc, size, 0, object, 0)) == CUDA_SUCCESS) {
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuMemSetAccess(*mc, size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(*mc, size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(*mc, size);
  return result;
}
