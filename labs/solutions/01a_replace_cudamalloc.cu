// SPDX-License-Identifier: MIT-0
  // >>> your part: make the memory
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  size_t granularity;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t size = (bytes + granularity - 1) / granularity * granularity;  // nobody rounds but you

  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(address, size, &access, 1));
  // <<<
  // >>> your part: give it back
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(address, size));
  // <<<
