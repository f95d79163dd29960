// SPDX-License-Identifier: MIT-0
// Lab 02c: Give memory back
//
// This buffer shrinks and takes as much memory as before, and it unmaps what a kernel may still use. Change both:
// - nothing is unmapped while a kernel may use it
// - with each shrink, memory is given back at once; the handles hold it, too
// - the chunks that stay keep their memory and their address; look at each answer with CHECK
// Read 02_growable/README.md#4-shrink.
#include "../lab.h"

const size_t chunk = 2 << 20;  // one granule

struct Buffer {
  CUdeviceptr address = 0;
  size_t size = 0;                                    // bytes that are mapped from `address` on
  std::vector<CUmemGenericAllocationHandle> handles;  // main releases those still in it after the last shrink
};

void grow(Buffer& buffer, size_t wanted) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (; buffer.size < wanted; buffer.size += chunk) {
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, chunk, &properties, 0));
    CHECK(cuMemMap(buffer.address + buffer.size, chunk, 0, memory, 0));
    CHECK(cuMemSetAccess(buffer.address + buffer.size, chunk, &access, 1));
    // >>> your part: shall the buffer keep this handle, or release it?
    buffer.handles.push_back(memory);
    // <<<
  }
}

void shrink(Buffer& buffer, size_t wanted) {
  // >>> your part: wait, and give back
  CHECK(cuMemUnmap(buffer.address + wanted, buffer.size - wanted));
  buffer.size = wanted;
  // <<<
}

int main() {
  lab::begin();
  const size_t free_before = lab::free_memory(0);
  Buffer buffer;
  CHECK(cuMemAddressReserve(&buffer.address, 8 * chunk, 0, 0, 0));
  grow(buffer, 8 * chunk);
  for (const size_t chunks : {5, 2}) {
    lab::fill_kernel<int><<<4, 256>>>(reinterpret_cast<int*>(buffer.address), buffer.size / sizeof(int), 7);
    shrink(buffer, chunks * chunk);
    const size_t taken = free_before - lab::free_memory(0);
    std::printf("%zu chunks: %zu KiB of memory are taken\n", buffer.size / chunk, taken >> 10);
  }
  const size_t n = buffer.size / sizeof(int);
  std::printf("%llu of %zu integers are 7\n", lab::count<int>(buffer.address, n, 7), n);

  shrink(buffer, 0);
  for (const CUmemGenericAllocationHandle memory : buffer.handles) CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(buffer.address, 8 * chunk));
  return lab::end();
}
