// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// Whether this process may use fabric memory: the attribute can be 1 where creating, exporting or importing is refused.
inline CUresult try_fabric(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  size_t granularity;
  CUmemGenericAllocationHandle handle, imported;
  CUmemFabricHandle shareable;  // 64 bytes: send them by whatever you like
  CUresult result = cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return result;
  if ((result = cuMemCreate(&handle, granularity, &prop, 0)) != CUDA_SUCCESS)
    return result;  // NOT_PERMITTED: no channel
  if ((result = cuMemExportToShareableHandle(&shareable, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0)) == CUDA_SUCCESS) {
    result = cuMemImportFromShareableHandle(&imported, &shareable, CU_MEM_HANDLE_TYPE_FABRIC);  // by its address
    if (result == CUDA_SUCCESS) result = cuMemRelease(imported);
  }
  const CUresult released = cuMemRelease(handle);
  return result != CUDA_SUCCESS ? result : released;
}
