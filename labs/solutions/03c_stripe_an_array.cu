// SPDX-License-Identifier: MIT-0
  // >>> your part: memory of all GPUs
  for (size_t stripe = 0; stripe < stripes; ++stripe) {
    CUmemGenericAllocationHandle handle;
    properties.location.id = int(stripe % gpus);
    CHECK(cuMemCreate(&handle, granularity, &properties, 0));
    CHECK(cuMemMap(array + stripe * granularity, granularity, 0, handle, 0));
    CHECK(cuMemRelease(handle));  // the mapping holds the memory
  }
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(array, size, everyone.data(), gpus));
  // <<<
