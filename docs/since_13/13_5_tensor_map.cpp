// SPDX-License-Identifier: MIT-0
// New: cuTensorMapSetAllocationClass
#include <cuda.h>

// Lets a tensor map ask for the large class, if what is mapped behind its base suffices: 128 KiB where it matters, less
// than any granule. A buffer that shrinks below that must go back to SMALL first.
CUresult choose_class(CUtensorMap* map, size_t mapped, CUdevice gpu) {
  int needed = 0;
  const CUresult result = cuDeviceGetAttribute(&needed, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_LARGE_TENSOR_MIN_SIZE, gpu);
  if (result != CUDA_SUCCESS) return result;
  const bool enough = mapped >= static_cast<size_t>(needed);
  return cuTensorMapSetAllocationClass(map, enough ? CU_TENSOR_MAP_ALLOC_CLASS_LARGE : CU_TENSOR_MAP_ALLOC_CLASS_SMALL,
                                       nullptr);
}
