// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// Memory on a GPU, mapped, with access for that GPU. Rounds *size up to whole granules. If a call fails, nothing stays
// mapped or reserved.
inline CUresult allocate(CUdeviceptr* address, size_t* size, int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  size_t granularity;
  CUresult result = cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  *size = (*size + granularity - 1) / granularity * granularity;

  CUmemGenericAllocationHandle handle;
  if ((result = cuMemCreate(&handle, *size, &prop, 0)) != CUDA_SUCCESS) return result;
  if ((result = cuMemAddressReserve(address, *size, 0, 0, 0)) != CUDA_SUCCESS) {
    cuMemRelease(handle);
    return result;
  }
  result = cuMemMap(*address, *size, 0, handle, 0);
  const CUresult released = cuMemRelease(handle);  // from here on the mapping alone holds the memory
  if (result == CUDA_SUCCESS) {
    const CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = released != CUDA_SUCCESS ? released : cuMemSetAccess(*address, *size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(*address, *size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(*address, *size);
  return result;
}

// Frees the memory and the addresses. No kernel and no copy may be using them.
inline CUresult deallocate(CUdeviceptr address, size_t size) {
  const CUresult result = cuMemUnmap(address, size);
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(address, size);
}
