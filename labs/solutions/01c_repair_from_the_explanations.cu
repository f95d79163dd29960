// SPDX-License-Identifier: MIT-0
  // >>> your part: find the first two mistakes
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;  // 0 is no default
  properties.location.id = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;  // lab::fill writes
  CHECK(cuMemSetAccess(address, size, &access, 1));
  // <<<
  // >>> your part: find the third
  CHECK(cuMemRelease(memory));  // frees nothing while the memory is mapped
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, size));
  // <<<
