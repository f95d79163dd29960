// SPDX-License-Identifier: MIT-0
  // >>> your part: memory of all GPUs
  for (size_t stripe = 0; stripe < stripes; ++stripe) {
    CUmemGenericAllocationHandle memory;
    properties.location.id = int(stripe % gpus);
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    CHECK(cuMemMap(array + stripe * granule, granule, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping holds the memory
  }
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(array, size, everyone.data(), gpus));
  // <<<
