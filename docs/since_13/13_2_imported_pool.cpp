// SPDX-License-Identifier: MIT-0
// New: CU_MEMPOOL_ATTR_LOCATION_TYPE
#include <cuda.h>

// On which GPU does a pool lie that another process exported? -1: on one that this process does not see, as one of
// another node.
CUresult gpu_of(CUmemoryPool pool, int* gpu) {
  CUmemLocationType type;
  CUresult result = cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_TYPE, &type);
  if (result != CUDA_SUCCESS) return result;
  *gpu = -1;
  if (type == CU_MEM_LOCATION_TYPE_INVISIBLE) return CUDA_SUCCESS;
  if (type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  return cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_LOCATION_ID, gpu);
}
