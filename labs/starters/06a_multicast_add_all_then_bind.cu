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
  std::vector<CUdeviceptr> mc(gpus), replica(gpus);
  CUmemGenericAllocationHandle object = 0;
  const CUmemAllocationProp properties = lab::memory_of(0);
  CUmulticastObjectProp team = {};
  team.numDevices = gpus;
  team.size = n * sizeof(int);
  size_t granularity = 0;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  // >>> your part: the size, the team, and its memory
  team.size = (team.size + granularity - 1) / granularity * granularity;
  CHECK(cuMulticastCreate(&object, &team));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMulticastAddDevice(object, gpu));
    CHECK(cuMemCreate(&memory[gpu], team.size, &of_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, team.size, 0));
  }
  // <<<

  for (int gpu = 0; gpu < gpus; ++gpu) {
    mc[gpu] = lab::map_for(gpu, object, team.size);
    replica[gpu] = lab::map_for(gpu, memory[gpu], team.size);
  }
  CHECK(cudaSetDevice(0));
  broadcast<<<4, 256>>>(reinterpret_cast<int*>(mc[0]), n, 7);
  CHECK(cudaDeviceSynchronize());
  int have_it = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    have_it += lab::count<int>(replica[gpu], n, 7) == n;
  }
  std::printf("GPU 0 stored to all replicas: %s\n", have_it == gpus ? "every GPU has it" : "not every GPU has it");

  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cuMulticastUnbind(object, gpu, 0, team.size));
    lab::unmap(mc[gpu], team.size);
    lab::unmap(replica[gpu], team.size);
    CHECK(cuMemRelease(memory[gpu]));
  }
  CHECK(cuMemRelease(object));
  return lab::end();
}
