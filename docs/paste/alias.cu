// SPDX-License-Identifier: MIT-0
#include <cuda.h>
#include <cuda/ptx>

// A second address for the memory at `address`, with access for `device`. Undo with cuMemUnmap and cuMemAddressFree.
inline CUresult map_again(CUdeviceptr* alias, CUdeviceptr address, size_t size, int device) {
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address));
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuMemAddressReserve(alias, size, 0, 0, 0)) == CUDA_SUCCESS) {
    if ((result = cuMemMap(*alias, size, 0, handle, 0)) == CUDA_SUCCESS) {
      CUmemAccessDesc access = {};
      access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      access.location.id = device;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      result = cuMemSetAccess(*alias, size, &access, 1);
      if (result != CUDA_SUCCESS) cuMemUnmap(*alias, size);
    }
    if (result != CUDA_SUCCESS) cuMemAddressFree(*alias, size);
  }
  const CUresult released = cuMemRelease(handle);  // retaining added a reference
  return result != CUDA_SUCCESS ? result : released;
}

// In one kernel, a thread that has written through one address reads its own value through the other.
__device__ inline int write_here_read_there(int* here, const int* there, int value) {
  *here = value;
  cuda::ptx::fence_proxy_alias();
  return *there;
}
