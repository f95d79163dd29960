// SPDX-License-Identifier: MIT-0
// New: CU_MEM_CREATE_USAGE_GPU_DIRECT_RDMA_OVER_PCIE
#include <cuda.h>

// For memory in one part of a GPU that a network card is to reach: where the default path cannot, over PCIe. Then ask
// for the dma-buf with CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE.
CUresult want_rdma(CUdevice gpu, CUmemAllocationProp* localized) {
  int default_path = 0;
  const CUresult result =
      cuDeviceGetAttribute(&default_path, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED, gpu);
  if (result != CUDA_SUCCESS) return result;
  localized->allocFlags.gpuDirectRDMACapable = 1;
  if (!default_path) localized->allocFlags.usage |= CU_MEM_CREATE_USAGE_GPU_DIRECT_RDMA_OVER_PCIE;
  return CUDA_SUCCESS;
}
