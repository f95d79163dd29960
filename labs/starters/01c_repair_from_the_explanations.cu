// SPDX-License-Identifier: MIT-0
// Lab 01c: Repair from the explanations
//
// This program has four mistakes. ./lab.sh 01c shows the first in the simulator's words. They say what went wrong in
// one line; the mistake may be in another. Repair it, and run it again:
// - two chunks of memory lie one after the other, each created once
// - the kernels may read and write both
// - all is given back, each thing by the call that undoes it; each answer is looked at, with CHECK
// Read 01_vmm_basics/README.md#1-get-addresses-and-memory to #5-give-it-back.
#include "../lab.h"

int main() {
  lab::begin();
  const size_t chunk = 4 << 20, size = 2 * chunk, n = size / sizeof(int);  // a chunk is two granules of 2 MiB
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle memory[2] = {};
  CUdeviceptr address = 0;

  // >>> your part: find the first three mistakes
  CHECK(cuMemAddressReserve(&address, chunk, 0, 0, 0));
  for (size_t at = 0; at < size; at += chunk) {
    CHECK(cuMemCreate(&memory[0], chunk, &properties, 0));
    CHECK(cuMemMap(address + at, chunk, 0, memory[0], 0));
    CHECK(cuMemSetAccess(address, chunk, &access, 1));
  }
  // <<<

  lab::fill<int>(address, n, 7);
  std::printf("%llu of %zu integers are 7\n", lab::count<int>(address, n, 7), n);

  // >>> your part: find the last
  for (const CUmemGenericAllocationHandle one : memory) CHECK(cuMemRelease(one));
  CHECK(cuMemAddressFree(address, size));
  // <<<
  return lab::end();
}
