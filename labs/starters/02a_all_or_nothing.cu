// SPDX-License-Identifier: MIT-0
// Lab 02a: All or nothing
//
// `grow` returns at its first error, and leaves new chunks mapped that `buffer.size` does not count. Make it undo them:
// - it grows to `wanted` bytes in place, without copying
// - each create, map and access call of it may fail: ./lab.sh makes each fail in turn
// - it then returns that error, and nothing is mapped or held that was not before
// - a growth to the size that the buffer has succeeds, and changes nothing
// Read 02_growable/README.md#3-fail-half-way. Step 2 there lists such a `grow`: write yours before you look.
#include "../lab.h"

const size_t chunk = 2 << 20;  // one granule

struct Buffer {
  CUdeviceptr address = 0;
  size_t size = 0;  // bytes that are mapped from `address` on, with access
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
};

// Grows to `wanted` bytes, a multiple of a chunk, or changes nothing and returns the error.
CUresult grow(Buffer& buffer, size_t wanted) {
  // >>> your part: undo what was done before the error
  for (size_t at = buffer.size; at < wanted; at += chunk) {
    CUmemGenericAllocationHandle memory;
    CUresult result = cuMemCreate(&memory, chunk, &buffer.properties, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuMemMap(buffer.address + at, chunk, 0, memory, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuMemRelease(memory);  // the mapping keeps the memory
    if (result != CUDA_SUCCESS) return result;
  }
  const CUresult result = cuMemSetAccess(buffer.address + buffer.size, wanted - buffer.size, &buffer.access, 1);
  if (result == CUDA_SUCCESS) buffer.size = wanted;
  return result;
  // <<<
}

int main() {
  lab::begin();
  Buffer buffer;
  buffer.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  buffer.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  buffer.access.location = buffer.properties.location;
  buffer.access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&buffer.address, 8 * chunk, 0, 0, 0));
  CHECK(grow(buffer, 2 * chunk));
  const size_t few = 2 * chunk / sizeof(int), many = 5 * chunk / sizeof(int);
  lab::fill<int>(buffer.address, few, 7);

  const CUresult result = grow(buffer, 5 * chunk);
  std::printf("grow: %s, size: %zu chunks, ", check::name(result), buffer.size / chunk);
  std::printf("%llu of %zu old integers are 7\n", lab::count<int>(buffer.address, few, 7), few);
  if (result != CUDA_SUCCESS) CHECK(grow(buffer, 5 * chunk));  // what failed once succeeds now
  lab::fill<int>(buffer.address + 2 * chunk, many - few, 7);
  std::printf("%llu of %zu integers are 7\n", lab::count<int>(buffer.address, many, 7), many);

  CHECK(cuMemUnmap(buffer.address, buffer.size));
  CHECK(cuMemAddressFree(buffer.address, 8 * chunk));
  return lab::end();
}
