// SPDX-License-Identifier: MIT-0
  // >>> your part: the size, the team, and its memory
  size_t of_object = 0;
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  granule = std::max(granule, of_object);
  object_properties.size = (object_properties.size + granule - 1) / granule * granule;
  CHECK(cuMulticastCreate(&object, &object_properties));
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMemCreate(&memory[gpu], object_properties.size, &of_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, object_properties.size, 0));
  }
  // <<<
