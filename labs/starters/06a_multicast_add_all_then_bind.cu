// SPDX-License-Identifier: MIT-0
// Lab 06a: Add all, then bind
//
// This program adds one GPU and binds its memory at once, so its first bind waits for ever. Change that and the size:
// - every GPU is added before memory is bound, then memory of every GPU is bound; look at each answer with CHECK
// - cuMulticastGetGranularity is asked before cuMulticastCreate
// - the size is rounded up to the larger of the two minimum granularities, and no further
// - it is right for any number of GPUs, and whichever granularity is the larger
// Read 06_multicast/README.md#1-add-every-gpu-then-bind. This lab has never run on hardware.
#include "../multicast.h"

__global__ void broadcast(int* mc, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) lab::store_all(mc + i, value);
}

int main() {
  const int gpus = lab::begin_multicast(), n = 1100000;
  std::vector<CUmemGenericAllocationHandle> memory(gpus);
  std::vector<CUdeviceptr> mc(gpus), own(gpus);
  CUmemGenericAllocationHandle object = 0;
  const CUmemAllocationProp properties = lab::memory_of(0);
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = gpus;
  object_properties.size = n * sizeof(int);
  size_t granule = 0;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  // >>> your part: the size, the team, and its memory
  object_properties.size = (object_properties.size + granule - 1) / granule * granule;
  CHECK(cuMulticastCreate(&object, &object_properties));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMulticastAddDevice(object, gpu));
    CHECK(cuMemCreate(&memory[gpu], object_properties.size, &of_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, object_properties.size, 0));
  }
  // <<<

  for (int gpu = 0; gpu < gpus; ++gpu) {
    mc[gpu] = lab::map_for(gpu, object, object_properties.size);
    own[gpu] = lab::map_for(gpu, memory[gpu], object_properties.size);
  }
  CHECK(cudaSetDevice(0));
  broadcast<<<4, 256>>>(reinterpret_cast<int*>(mc[0]), n, 7);
  CHECK(cudaDeviceSynchronize());
  int have_it = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    have_it += lab::count<int>(own[gpu], n, 7) == n;
  }
  std::printf("GPU 0 stored to all replicas: %s\n", have_it == gpus ? "every GPU has it" : "not every GPU has it");

  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cuMulticastUnbind(object, gpu, 0, object_properties.size));
    lab::unmap(mc[gpu], object_properties.size);
    lab::unmap(own[gpu], object_properties.size);
    CHECK(cuMemRelease(memory[gpu]));
  }
  CHECK(cuMemRelease(object));
  return lab::end();
}
