// SPDX-License-Identifier: MIT-0
  // >>> your part: what else your buffer has to know; perhaps nothing
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  // <<<
// >>> your part: start() is called once, then grow() for each size, then end()
void start(Buffer& buffer) {
  buffer.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  buffer.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  buffer.properties.location.id = 0;
  buffer.access.location = buffer.properties.location;
  buffer.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&buffer.address, most, 0, 0, 0));
}

void grow(Buffer& buffer, size_t wanted) {
  const CUdeviceptr at = buffer.address + buffer.size;
  const size_t more = wanted - buffer.size;
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, more, &buffer.properties, 0));
  CHECK(cuMemMap(at, more, 0, memory, 0));
  CHECK(cuMemRelease(memory));  // the mapping keeps the memory
  CHECK(cuMemSetAccess(at, more, &buffer.access, 1));
  buffer.size = wanted;
}

void end(Buffer& buffer) {
  CHECK(cuMemUnmap(buffer.address, buffer.size));
  CHECK(cuMemAddressFree(buffer.address, most));
}
// <<<
