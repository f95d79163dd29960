// SPDX-License-Identifier: MIT-0
#ifndef VMM_ALLOCATE_CU
#define VMM_ALLOCATE_CU

#include <cuda.h>
#include <cstddef>

// Allocates memory on a GPU, mapped, for that GPU to read and write. *size: bytes wanted, and on success the bytes that
// there are, which are whole granules. Keep that number: it is the one to undo with.
// Error: the driver's; nothing stays, and *address and *size are as before. Threads: yes. Needs cuInit, and no context.
inline CUresult allocate(CUdeviceptr* address, size_t* size, int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  size_t granularity;
  CUresult result = cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  const size_t bytes = (*size + granularity - 1) / granularity * granularity;

  CUmemGenericAllocationHandle handle;
  if ((result = cuMemCreate(&handle, bytes, &prop, 0)) != CUDA_SUCCESS) return result;
  CUdeviceptr mapped;
  if ((result = cuMemAddressReserve(&mapped, bytes, 0, 0, 0)) != CUDA_SUCCESS) {
    cuMemRelease(handle);
    return result;
  }
  result = cuMemMap(mapped, bytes, 0, handle, 0);
  const CUresult released = cuMemRelease(handle);  // from here on the mapping alone holds the memory
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = released != CUDA_SUCCESS ? released : cuMemSetAccess(mapped, bytes, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(mapped, bytes);
  }
  if (result != CUDA_SUCCESS) {
    cuMemAddressFree(mapped, bytes);
    return result;
  }
  *address = mapped;
  *size = bytes;
  return CUDA_SUCCESS;
}

// Gives the memory and its addresses back. size: what allocate left in *size; the size that you wanted is refused, and
// nothing changes. Waits for nothing: no kernel and no copy may be using the memory. Error: the driver's; call it again
// with the right size, and it goes on where it stopped. Threads: yes, each with memory of its own.
inline CUresult deallocate(CUdeviceptr address, size_t size) {
  const CUresult result = cuMemUnmap(address, size);  // succeeds where nothing is mapped any more
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(address, size);
}

#endif
