// SPDX-License-Identifier: MIT-0
#include <cuda.h>
#include <cuda/ptx>

// A second address for the memory of a mapping, which begins at `address`, has `size` bytes, and may be used by a GPU.
// `device` gets access. Undo with cuMemUnmap and cuMemAddressFree.
inline CUresult map_again(CUdeviceptr* alias, CUdeviceptr address, size_t size, int device) {
  CUdeviceptr start;
  size_t whole;
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemGetAddressRange(&start, &whole, address);
  if (result != CUDA_SUCCESS) return result;
  if (start != address) return CUDA_ERROR_INVALID_VALUE;  // the alias would lead to the start, and not to `address`
  if ((result = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address))) != CUDA_SUCCESS) return result;
  if ((result = cuMemAddressReserve(alias, size, 0, 0, 0)) != CUDA_SUCCESS) {
    cuMemRelease(handle);
    return result;
  }
  result = cuMemMap(*alias, size, 0, handle, 0);
  const CUresult released = cuMemRelease(handle);  // retaining added a reference
  if (result == CUDA_SUCCESS) {
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = released != CUDA_SUCCESS ? released : cuMemSetAccess(*alias, size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(*alias, size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(*alias, size);
  return result;
}

// In one kernel, a thread that has written through one address reads its own value through the other.
__device__ inline int write_here_read_there(int* here, const int* there, int value) {
  *here = value;
  cuda::ptx::fence_proxy_alias();
  return *there;
}
