// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// Adds one chunk behind the first `used` bytes of a reservation; `chunk` is a multiple of the granularity. The
// addresses of what is there stay. If it fails, nothing has changed. What shrinks it is cuMemUnmap of the last chunk.
inline CUresult grow(CUdeviceptr base, size_t used, size_t chunk, int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemCreate(&handle, chunk, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuMemMap(base + used, chunk, 0, handle, 0)) == CUDA_SUCCESS) {
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuMemSetAccess(base + used, chunk, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(base + used, chunk);
  }
  const CUresult released = cuMemRelease(handle);
  return result != CUDA_SUCCESS ? result : released;
}
