// SPDX-License-Identifier: MIT-0
// New: cuMemcpyWithAttributesAsync
#include <cuda.h>

// One copy that may be slower if the kernels beside it are faster for it. Until 13.1 such wishes needed a batch.
CUresult copy_behind_kernels(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  CUmemcpyAttributes wishes = {};
  wishes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  wishes.flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
  return cuMemcpyWithAttributesAsync(to, from, size, &wishes, stream);
}
