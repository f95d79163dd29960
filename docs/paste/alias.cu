// SPDX-License-Identifier: MIT-0
#ifndef VMM_ALIAS_CU
#define VMM_ALIAS_CU

#include <cuda.h>
#include <cuda/atomic>
#include <cuda/ptx>

// A second address for the memory of one mapping, for `device` to read and write. address, size: where the mapping
// begins, and all of its bytes; some GPU has access there. The memory stays until both addresses are unmapped.
// Error: INVALID_VALUE if no mapping begins there, else the driver's; nothing stays, and *alias is as before.
// Threads: yes. Needs a current context, of any GPU. Waits for nothing.
inline CUresult map_again(CUdeviceptr* alias, CUdeviceptr address, size_t size, int device) {
  CUdeviceptr start;
  size_t whole;
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemGetAddressRange(&start, &whole, address);
  if (result != CUDA_SUCCESS) return result;
  if (start != address) return CUDA_ERROR_INVALID_VALUE;  // the alias would lead to the start, and not to `address`
  if ((result = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address))) != CUDA_SUCCESS) return result;
  CUdeviceptr mapped;
  if ((result = cuMemAddressReserve(&mapped, size, 0, 0, 0)) != CUDA_SUCCESS) {
    cuMemRelease(handle);
    return result;
  }
  result = cuMemMap(mapped, size, 0, handle, 0);
  const CUresult released = cuMemRelease(handle);  // retaining added a reference
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = released != CUDA_SUCCESS ? released : cuMemSetAccess(mapped, size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(mapped, size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(mapped, size);
  else *alias = mapped;
  return result;
}

// Undoes map_again. If the memory was created for RDMA, undo before you unmap its first address: that one goes last.
// Waits for nothing: no kernel and no copy may be using the alias. Error: the driver's; call it again, and it goes on
// where it stopped. Threads: yes, each with addresses of its own.
inline CUresult unmap_again(CUdeviceptr alias, size_t size) {
  const CUresult result = cuMemUnmap(alias, size);  // succeeds where nothing is mapped any more
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(alias, size);
}

// In one kernel, a thread that has written through one address reads its own value through the other.
__device__ inline int write_here_read_there(int* here, const int* there, int value) {
  *here = value;
  cuda::ptx::fence_proxy_alias();
  return *there;
}

// In a kernel that stays, waits until the writer has counted this record in *count, and then reads a sample of it at
// another address than the writer's. The writer's store to *count must be a release.
__device__ inline int wait_and_read(int* count, int record, const int* there) {
  cuda::atomic_ref<int, cuda::thread_scope_system> arrived(*count);
  while (arrived.load(cuda::memory_order_acquire) < record) {
  }
  cuda::ptx::fence_proxy_alias();
  return *there;
}

#endif
