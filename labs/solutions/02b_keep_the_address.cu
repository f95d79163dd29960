// SPDX-License-Identifier: MIT-0
// Lab 02b: Keep the address
//
// This buffer grows by a larger block and a copy: its address changes, and both take memory. Make it grow in place:
// - reserve addresses once, for the largest size, 16 MiB
// - with each growth create and map only what is new, and grant access with one call
// - copy nothing, and keep mapped what is mapped
// Read 02_growable/README.md#1-reserve-far-more-than-you-need. Steps 1 and 2 list such a buffer: write yours first.
#include "../lab.h"

const size_t granule = 2 << 20, most = 16 << 20;  // bytes

struct Buffer {
  CUdeviceptr address = 0;
  size_t size = 0;  // bytes that kernels may use, always whole granules
  // >>> your part: what else your buffer has to know; perhaps nothing
  CUmemAllocationProp memory = {};
  CUmemAccessDesc access = {};
  // <<<
};

// >>> your part: start() is called once, then grow() for each size, then end()
void start(Buffer& buffer) {
  buffer.memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  buffer.memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  buffer.memory.location.id = 0;
  buffer.access.location = buffer.memory.location;
  buffer.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&buffer.address, most, 0, 0, 0));
}

void grow(Buffer& buffer, size_t wanted) {
  const CUdeviceptr at = buffer.address + buffer.size;
  const size_t more = wanted - buffer.size;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, more, &buffer.memory, 0));
  CHECK(cuMemMap(at, more, 0, handle, 0));
  CHECK(cuMemRelease(handle));  // the mapping keeps the memory
  CHECK(cuMemSetAccess(at, more, &buffer.access, 1));
  buffer.size = wanted;
}

void end(Buffer& buffer) {
  CHECK(cuMemUnmap(buffer.address, buffer.size));
  CHECK(cuMemAddressFree(buffer.address, most));
}
// <<<

int main() {
  lab::begin();
  Buffer buffer;
  int moves = 0;
  start(buffer);
  for (size_t wanted = granule; wanted <= most; wanted *= 2) {
    const Buffer old = buffer;
    grow(buffer, wanted);
    moves += old.size > 0 && buffer.address != old.address;
    lab::fill<int>(buffer.address + old.size, (buffer.size - old.size) / sizeof(int), 7);
  }
  const size_t n = buffer.size / sizeof(int);
  std::printf("%llu of %zu integers are 7 after %d moves\n", lab::count<int>(buffer.address, n, 7), n, moves);
  end(buffer);
  return lab::end();
}
