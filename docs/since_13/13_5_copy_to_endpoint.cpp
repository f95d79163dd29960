// SPDX-License-Identifier: MIT-0
// New: cuFabricCpyBatchAsync
#include <cuda.h>

// The copy engine writes to an endpoint. The stream must not be the default one, and `from` lies on its GPU or on the
// host.
CUresult put(CUdeviceptr from, CUlogicalEndpointId endpoint, size_t offset, size_t size, CUstream stream) {
  CUDA_FABRIC_COPY_BATCH_OP one = {};
  one.src.type = CU_FABRIC_COPY_OPERAND_TYPE_POINTER;
  one.src.op.ptr.ptr = from;
  one.dst.type = CU_FABRIC_COPY_OPERAND_TYPE_LOGICAL_ENDPOINT;
  one.dst.op.le.id = endpoint;
  one.dst.op.le.offset = offset;
  one.size = size;
  return cuFabricCpyBatchAsync(1, &one, 0, stream);
}
