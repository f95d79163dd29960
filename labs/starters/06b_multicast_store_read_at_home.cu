// SPDX-License-Identifier: MIT-0
// Lab 06b: Store by multimem, read at home
//
// This program uses a multicast address as an ordinary one, and releases memory that is bound. Change both:
// - GPU 0 stores by multimem.st, which lab::store_all does
// - the memory of each GPU, its replica, has a unicast mapping to which this GPU alone has access, and it reads there
// - at the end, for each GPU: unbind before you release, and unmap both mappings; look at each answer with CHECK
// Read 06_multicast/README.md#2-map-two-addresses-for-each-gpu. It has never run on hardware.
#include "../multicast.h"

__global__ void broadcast(int* mc, int n, int value) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    // >>> your part: store to all replicas
    mc[i] = value;
    // <<<
  }
}

int main() {
  const int gpus = lab::begin_multicast(), n = 100000;
  std::vector<CUmemGenericAllocationHandle> memory(gpus);
  std::vector<CUdeviceptr> mc(gpus), own(gpus);
  CUmemGenericAllocationHandle object = 0;
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = gpus;
  object_properties.size = n * sizeof(int);
  const CUmemAllocationProp properties = lab::memory_of(0);
  size_t granule = 0, of_object = 0;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  granule = std::max(granule, of_object);
  object_properties.size = (object_properties.size + granule - 1) / granule * granule;
  CHECK(cuMulticastCreate(&object, &object_properties));
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMemCreate(&memory[gpu], object_properties.size, &of_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, object_properties.size, 0));
    mc[gpu] = lab::map_for(gpu, object, object_properties.size);
    // >>> your part: where the GPU reads; lab::map_for maps
    own[gpu] = mc[gpu];
    // <<<
  }

  CHECK(cudaSetDevice(0));
  broadcast<<<4, 256>>>(reinterpret_cast<int*>(mc[0]), n, 7);
  CHECK(cudaDeviceSynchronize());
  int have_it = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    have_it += lab::count<int>(own[gpu], n, 7) == n;
  }
  std::printf("GPU 0 stored once: %s\n", have_it == gpus ? "every GPU has it" : "not every GPU has it");

  for (int gpu = 0; gpu < gpus; ++gpu) {
    // >>> your part: tear down what is of this GPU; lab::unmap unmaps
    lab::unmap(mc[gpu], object_properties.size);
    CHECK(cuMemRelease(memory[gpu]));
    // <<<
  }
  CHECK(cuMemRelease(object));
  return lab::end();
}
