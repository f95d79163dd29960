// SPDX-License-Identifier: MIT-0
  // >>> your part: grant access
  CUmemAccessDesc access[2] = {};
  access[0].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].location.id = 0;  // to hold the memory is no right
  access[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  access[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[1].location.id = 1;
  access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  CHECK(cuMemSetAccess(open, size, access, 2));
  CHECK(cuMemSetAccess(secret, size, access, 1));
  // <<<
