// SPDX-License-Identifier: MIT-0
#ifndef VMM_FABRIC_CU
#define VMM_FABRIC_CU

#include <cuda.h>
#include <cstddef>

// Exporter: memory that processes of the same IMEX channel may map, on this machine or another of the NVLink domain,
// and the 64 bytes by which they find it: send those by whatever you like, and close nothing. size: bytes, a multiple
// of the granularity. The handle is yours: keep it, or a mapping, until every importer has its own. Error: the
// driver's, NOT_PERMITTED if this process can open no channel; nothing stays. Threads: yes. Needs cuInit, and no
// context.
inline CUresult create_and_export_fabric(CUmemGenericAllocationHandle* handle, CUmemFabricHandle* bytes, size_t size,
                                         int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;  // it cannot be asked for later
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  CUmemGenericAllocationHandle memory;
  CUresult result = cuMemCreate(&memory, size, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemExportToShareableHandle(bytes, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0);
  if (result != CUDA_SUCCESS) cuMemRelease(memory);
  else *handle = memory;
  return result;
}

// Importer: makes a handle from the 64 bytes. It is yours: map it, and release it. Error: the driver's; *handle is as
// before. Threads: yes. Needs cuInit, and no context.
inline CUresult import_fabric(CUmemGenericAllocationHandle* handle, CUmemFabricHandle bytes) {
  return cuMemImportFromShareableHandle(handle, &bytes, CU_MEM_HANDLE_TYPE_FABRIC);  // by its address, unlike an fd
}

// Whether this process may use fabric memory: the attribute can be 1 where creating, exporting or importing is refused.
// Takes one granule for a moment. An import elsewhere can still fail. Error: that of the stage which is refused.
inline CUresult try_fabric(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  size_t granularity;
  CUmemFabricHandle bytes;
  CUmemGenericAllocationHandle handle, imported;
  CUresult result = cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return result;
  result = create_and_export_fabric(&handle, &bytes, granularity, device);
  if (result != CUDA_SUCCESS) return result;
  result = import_fabric(&imported, bytes);
  if (result == CUDA_SUCCESS) result = cuMemRelease(imported);
  const CUresult released = cuMemRelease(handle);
  return result != CUDA_SUCCESS ? result : released;
}

#endif
