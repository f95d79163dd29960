// SPDX-License-Identifier: MIT-0
// Lab 01b: Move without copying
//
// This program moves 4 MiB of integers to another address by a copy into new memory. Move them without a copy:
// - memory is created once, and not a byte is copied or written again
// - the new address `to` leads to the same memory, and GPU 0 may read and write there
// - nothing is mapped at the old address `from` any more; look at each answer with CHECK
// Read 01_vmm_basics/README.md#3-move-the-data-without-copying-it.
#include "../lab.h"

int main() {
  lab::begin();
  const size_t size = 4 << 20, n = size / sizeof(int);  // two granules of 2 MiB
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  CUmemGenericAllocationHandle memory;
  CUdeviceptr from = 0, to = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&from, size, 0, 0, 0));
  CHECK(cuMemMap(from, size, 0, memory, 0));
  CHECK(cuMemSetAccess(from, size, &access, 1));
  lab::fill<int>(from, n, 7);

  CHECK(cuMemAddressReserve(&to, size, 0, 0, 0));
  // >>> your part: move the data from `from` to `to`
  CUmemGenericAllocationHandle more;
  CHECK(cuMemCreate(&more, size, &properties, 0));
  CHECK(cuMemMap(to, size, 0, more, 0));
  CHECK(cuMemSetAccess(to, size, &access, 1));
  CHECK(cudaMemcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), size, cudaMemcpyDeviceToDevice));
  CHECK(cuMemUnmap(from, size));
  CHECK(cuMemRelease(memory));
  memory = more;
  // <<<

  std::printf("%llu of %zu integers are 7 at the new address\n", lab::count<int>(to, n, 7), n);

  CHECK(cuMemUnmap(to, size));
  CHECK(cuMemAddressFree(to, size));
  CHECK(cuMemAddressFree(from, size));
  CHECK(cuMemRelease(memory));
  return lab::end();
}
