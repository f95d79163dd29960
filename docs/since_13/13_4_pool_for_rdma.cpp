// SPDX-License-Identifier: MIT-0
// New: gpuDirectRDMACapable
#include <cuda.h>

// A pool for a network card, which reaches its memory by a dma-buf, and in no other way. In CUDA 13.3 the byte is still
// reserved.
CUresult pool_for_rdma(CUdevice gpu, CUmemoryPool* pool) {
  CUmemPoolProps wanted = {};
  wanted.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = gpu;
  wanted.gpuDirectRDMACapable = 1;
  return cuMemPoolCreate(pool, &wanted);
}
