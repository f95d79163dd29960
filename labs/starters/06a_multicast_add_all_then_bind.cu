// SPDX-License-Identifier: MIT-0
// Lab 06a: Add all, then bind
//
// Two multicast objects are to share one allocation of each GPU: its first half is the replica of the first object, its
// second half that of the second. This program adds one GPU and binds at once, so its first bind waits for ever:
// - every GPU is added to an object before memory is bound to it; look at each answer with CHECK
// - each GPU has one allocation, and half of it is bound to each object: own[gpu] has the 7s first, and then the 9s
// - the size of an object is rounded up to the larger of the two minimum granularities, and no further
// - it is right for any number of GPUs, and whichever granularity is the larger
// Read 06_multicast/README.md#1-add-every-gpu-then-bind. This lab has never run on hardware.
#include "../multicast.h"

__global__ void broadcast(int* mc, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) lab::store_all(mc + i, value);
}

int main() {
  const int gpus = lab::begin_multicast(), n = 1100000;
  std::vector<CUmemGenericAllocationHandle> memory(gpus);
  std::vector<CUdeviceptr> own(gpus);
  CUmemGenericAllocationHandle objects[2] = {};
  const CUmemAllocationProp properties = lab::memory_of(0);
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = gpus;
  object_properties.size = n * sizeof(int);
  size_t granule = 0;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  // >>> your part: the size of an object, the two teams, and their memory
  object_properties.size = (object_properties.size + granule - 1) / granule * granule;
  for (CUmemGenericAllocationHandle& object : objects) {
    CHECK(cuMulticastCreate(&object, &object_properties));
    for (int gpu = 0; gpu < gpus; ++gpu) {
      const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
      CHECK(cuMulticastAddDevice(object, gpu));
      CHECK(cuMemCreate(&memory[gpu], object_properties.size, &of_gpu, 0));
      CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, object_properties.size, 0));
    }
  }
  // <<<

  const size_t replica = object_properties.size;
  for (int gpu = 0; gpu < gpus; ++gpu) own[gpu] = lab::map_for(gpu, memory[gpu], 2 * replica);
  for (int half = 0; half < 2; ++half) {
    const CUdeviceptr mc = lab::map_for(0, objects[half], replica);
    CHECK(cudaSetDevice(0));
    broadcast<<<4, 256>>>(reinterpret_cast<int*>(mc), n, half ? 9 : 7);
    CHECK(cudaDeviceSynchronize());
    int have_it = 0;
    for (int gpu = 0; gpu < gpus; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      have_it += lab::count<int>(own[gpu] + half * replica, n, half ? 9 : 7) == n;
    }
    std::printf("object %d: %s\n", half + 1, have_it == gpus ? "every GPU has it" : "not every GPU has it");
    for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastUnbind(objects[half], gpu, 0, replica));
    lab::unmap(mc, replica);
    CHECK(cuMemRelease(objects[half]));
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    lab::unmap(own[gpu], 2 * replica);
    CHECK(cuMemRelease(memory[gpu]));
  }
  return lab::end();
}
