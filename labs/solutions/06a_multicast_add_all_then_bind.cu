// SPDX-License-Identifier: MIT-0
  // >>> your part: the size, the team, and its memory
  size_t of_object = 0;
  CHECK(cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
  granularity = std::max(granularity, of_object);
  team.size = (team.size + granularity - 1) / granularity * granularity;
  CHECK(cuMulticastCreate(&object, &team));
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAllocationProp of_gpu = lab::memory_of(gpu);
    CHECK(cuMemCreate(&memory[gpu], team.size, &of_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, team.size, 0));
  }
  // <<<
