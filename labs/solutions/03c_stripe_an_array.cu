// SPDX-License-Identifier: MIT-0
  // >>> your part: stripes, and who may write them
  const auto next_gpu = [](const std::vector<size_t>& room, int gpu) {  // in turn; -1: none has room left
    for (size_t asked = 0; asked < room.size(); ++asked) {
      gpu = (gpu + 1) % int(room.size());
      if (room[gpu] > 0) return gpu;
    }
    return -1;
  };
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  }
  CUdeviceptr stripe = array;
  for (int gpu = next_gpu(room, -1); gpu >= 0; gpu = next_gpu(room, gpu)) {
    --room[gpu];
    CUmemGenericAllocationHandle memory;
    properties.location.id = gpu;
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    CHECK(cuMemMap(stripe, granule, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping holds the memory
    CHECK(cuMemSetAccess(stripe, granule, everyone.data(), gpus));
    CUmemAccessDesc owner = everyone[gpu];
    owner.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemSetAccess(stripe, granule, &owner, 1));  // leaves the others' rights alone
    stripe += granule;
  }
  // <<<
