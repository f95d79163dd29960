// SPDX-License-Identifier: MIT-0
#ifndef VMM_MULTICAST_CU
#define VMM_MULTICAST_CU

#include <cuda.h>
#include <cstddef>

// All in one process. Each function needs cuInit and no context. One thread at a time for an object.

// Bytes that an object over n GPUs takes, and that each of them gives, for `wanted` bytes: whole granules of multicast
// and of memory. ..._RECOMMENDED may round up much further than ..._MINIMUM. Error: the driver's, or INVALID_VALUE if
// that is more than a size_t holds; *size is as before.
inline CUresult multicast_size(size_t* size, size_t wanted, unsigned n,
                               CUmulticastGranularity_flags granules = CU_MULTICAST_GRANULARITY_MINIMUM) {
  CUmulticastObjectProp object = {};
  object.numDevices = n;
  object.size = wanted;
  CUmemAllocationProp memory = {};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t of_object, of_memory;
  CUresult result = cuMulticastGetGranularity(&of_object, &object, granules);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemGetAllocationGranularity(&of_memory, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  const size_t granule = of_object > of_memory ? of_object : of_memory;  // powers of two: the larger suits both
  const size_t bytes = (wanted + granule - 1) / granule * granule;
  if (bytes < wanted) return CUDA_ERROR_INVALID_VALUE;
  *size = bytes;
  return CUDA_SUCCESS;
}

// Takes an object apart: unmap it everywhere before, and unmap and release the memory after. Waits for nothing: no
// kernel may be using it. Goes on after an error, and returns the first: then the driver may still hold the memory.
inline CUresult unmake_multicast(CUmemGenericAllocationHandle object, const int* gpus, unsigned n, size_t size) {
  CUresult first = CUDA_SUCCESS;
  for (unsigned i = 0; i < n; ++i) {
    const CUresult result = cuMulticastUnbind(object, gpus[i], 0, size);
    if (first == CUDA_SUCCESS) first = result;
  }
  const CUresult result = cuMemRelease(object);
  return first != CUDA_SUCCESS ? first : result;
}

// A multicast object over n GPUs, two at least. memory[i] is of gpus[i] and of `size` bytes, which multicast_size has
// said; the handles stay yours. Error: the driver's; what was bound is unbound, and *object is as before.
inline CUresult make_multicast(CUmemGenericAllocationHandle* object, const int* gpus,
                               const CUmemGenericAllocationHandle* memory, unsigned n, size_t size) {
  CUmulticastObjectProp prop = {};
  prop.numDevices = n;
  prop.size = size;
  CUmemGenericAllocationHandle made;
  CUresult result = cuMulticastCreate(&made, &prop);
  if (result != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < n && result == CUDA_SUCCESS; ++i) result = cuMulticastAddDevice(made, gpus[i]);
  unsigned bound = 0;  // binding waits for the whole team, so all are added before
  while (bound < n && result == CUDA_SUCCESS)
    if ((result = cuMulticastBindMem(made, 0, memory[bound], 0, size, 0)) == CUDA_SUCCESS) ++bound;
  if (result != CUDA_SUCCESS) unmake_multicast(made, gpus, bound, size);
  else *object = made;
  return result;
}

// Maps the object for one GPU of the team, at an address of its own; do so for each. Only multimem instructions may use
// such an address. Error: the driver's; nothing stays mapped or reserved, and *mc is as before.
inline CUresult map_multicast(CUdeviceptr* mc, CUmemGenericAllocationHandle object, size_t size, int gpu) {
  CUdeviceptr mapped;  // aligned to the largest power of two that divides the size, the granularity at least
  CUresult result = cuMemAddressReserve(&mapped, size, size & -size, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuMemMap(mapped, size, 0, object, 0)) == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = gpu;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    result = cuMemSetAccess(mapped, size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(mapped, size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(mapped, size);
  else *mc = mapped;
  return result;
}

// Undoes map_multicast. Waits for nothing. Error: the driver's; call it again, and it goes on where it stopped.
inline CUresult unmap_multicast(CUdeviceptr mc, size_t size) {
  const CUresult result = cuMemUnmap(mc, size);  // succeeds where nothing is mapped any more
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(mc, size);
}

#endif
