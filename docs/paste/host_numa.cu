// SPDX-License-Identifier: MIT-0
#ifndef VMM_HOST_NUMA_CU
#define VMM_HOST_NUMA_CU

#include <cuda.h>
#include <cstddef>

// Memory of the host within a reservation of yours, at an address that GPU and CPU both use. No function needs a
// context; cuInit must have been called. Threads: yes, each with addresses of its own.

// The NUMA node next to a GPU, and the granularity of memory there: sizes and addresses below are multiples of it.
// Error: NOT_SUPPORTED if GPU or driver has no such memory, else the driver's; *node and *granularity are as before.
inline CUresult host_numa(int* node, size_t* granularity, CUdevice device) {
  int able = 0, nearest = -1;
  CUresult result =
      cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
  if (result == CUDA_ERROR_INVALID_VALUE || (result == CUDA_SUCCESS && !able)) return CUDA_ERROR_NOT_SUPPORTED;
  if (result != CUDA_SUCCESS) return result;
  result = cuDeviceGetAttribute(&nearest, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device);
  if (result != CUDA_SUCCESS) return result;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  prop.location.id = nearest < 0 ? 0 : nearest;  // -1 where the system knows of no nodes
  size_t granule;
  result = cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  if (result != CUDA_SUCCESS) return result;
  *node = prop.location.id;
  *granularity = granule;
  return CUDA_SUCCESS;
}

// Puts pinned memory of this node at [at, at + size), which you have reserved and where nothing is mapped, and lets the
// CPU and `device` read and write it. The CPU uses the address as a pointer. Error: the driver's, INVALID_VALUE for a
// node that is not there; nothing stays mapped, and the reservation is yours as before.
inline CUresult put_host_memory(CUdeviceptr at, size_t size, int node, CUdevice device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  prop.location.id = node;
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemCreate(&handle, size, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemMap(at, size, 0, handle, 0);
  const CUresult released = cuMemRelease(handle);  // from here on the mapping alone holds the memory
  if (result != CUDA_SUCCESS) return result;
  CUmemAccessDesc access[2] = {};
  access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].location.id = device;
  access[1].location = prop.location;  // the CPU: without it a read of *at is a SIGSEGV
  for (CUmemAccessDesc& each : access) each.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  result = released != CUDA_SUCCESS ? released : cuMemSetAccess(at, size, access, 2);
  if (result != CUDA_SUCCESS) cuMemUnmap(at, size);
  return result;
}

// Takes it out again; the addresses stay reserved. Waits for nothing: neither GPU nor CPU may be using the memory.
// Error: the driver's; call it again.
inline CUresult take_host_memory(CUdeviceptr at, size_t size) { return cuMemUnmap(at, size); }

#endif
