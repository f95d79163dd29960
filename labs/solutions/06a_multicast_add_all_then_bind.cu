// SPDX-License-Identifier: MIT-0
  // >>> your part: the size of an object, the two teams, and their memory
  size_t of_object = 0;
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  granule = std::max(granule, of_object);
  object_properties.size = (object_properties.size + granule - 1) / granule * granule;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMemCreate(&memory[gpu], 2 * object_properties.size, &of_gpu, 0));
  }
  for (int half = 0; half < 2; ++half) {
    const size_t size = object_properties.size;
    CHECK(cuMulticastCreate(&objects[half], &object_properties));
    for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(objects[half], gpu));
    for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastBindMem(objects[half], 0, memory[gpu], half * size, size, 0));
  }
  // <<<
