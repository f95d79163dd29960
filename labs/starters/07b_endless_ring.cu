// SPDX-License-Identifier: MIT-0
// Lab 07b: Endless ring
//
// This ring copies a record that goes over its end in two pieces. Make its first byte follow its last one:
// - twice the addresses are reserved, in one call
// - the same memory is mapped twice in a row; the ring takes no more than its 2 MiB
// - each record is put into the ring by one copy, which is done before the record is read
// - both mappings are unmapped, all addresses freed, and the handle is released; look at each answer with CHECK
// Read 07_aliasing/README.md#1-map-a-ring-twice-in-a-row.
#include <algorithm>
#include "../lab.h"

const size_t size = 2 << 20, length = size / 4 * 3;  // bytes: of the ring, one granule, and of a record
const int records = 8;

struct Ring {
  CUdeviceptr address = 0;  // of its first byte
  CUmemGenericAllocationHandle memory;
};

// >>> your part: start() once, put() for each record, end() once
void start(Ring& ring, const CUmemAllocationProp& properties, const CUmemAccessDesc& access) {
  CHECK(cuMemCreate(&ring.memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&ring.address, size, 0, 0, 0));
  CHECK(cuMemMap(ring.address, size, 0, ring.memory, 0));
  CHECK(cuMemSetAccess(ring.address, size, &access, 1));
}

void put(Ring& ring, size_t at, const char* record) {
  const size_t rest = std::min(length, size - at);  // of the record, up to the ring's end
  CHECK(cudaMemcpy(reinterpret_cast<void*>(ring.address + at), record, rest, cudaMemcpyHostToDevice));
  if (length > rest)
    CHECK(cudaMemcpy(reinterpret_cast<void*>(ring.address), record + rest, length - rest, cudaMemcpyHostToDevice));
}

void end(Ring& ring) {
  CHECK(cuMemUnmap(ring.address, size));
  CHECK(cuMemAddressFree(ring.address, size));
  CHECK(cuMemRelease(ring.memory));
}
// <<<

int main() {
  lab::begin();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  Ring ring;
  start(ring, properties, access);
  unsigned long long right = 0;
  size_t at = 0;  // where the next record begins
  for (int i = 0; i < records; ++i) {
    const std::vector<char> record(length, char('a' + i));
    put(ring, at, record.data());
    const size_t rest = std::min(length, size - at);  // of the record, up to the ring's end
    right += lab::count<char>(ring.address + at, rest, char('a' + i));
    if (length > rest) right += lab::count<char>(ring.address, length - rest, char('a' + i));
    at = (at + length) % size;
  }
  std::printf("%llu of %zu bytes are in their place\n", right, records * length);
  end(ring);
  return lab::end();
}
