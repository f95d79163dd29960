// SPDX-License-Identifier: MIT-0
  // >>> your part: memory of all GPUs
  int gpu = 0;  // whose turn it is
  for (size_t at = 0; at < size; gpu = (gpu + 1) % gpus) {
    if (room[gpu] == 0) continue;
    --room[gpu];
    CUmemGenericAllocationHandle memory;
    properties.location.id = gpu;
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    CHECK(cuMemMap(array + at, granule, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping holds the memory
    at += granule;
  }
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(array, size, everyone.data(), gpus));
  // <<<
