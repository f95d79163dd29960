// SPDX-License-Identifier: MIT-0
// Lab 01c: Repair from the explanations
//
// This program has three mistakes. ./lab.sh 01c shows the first in the simulator's words; repair it, and run it again:
// - cuMemCreate gets all that it needs
// - the kernels have the rights that they need
// - each thing is given back by the call that undoes it; each answer is looked at, with CHECK
// Read 01_vmm_basics/README.md#1-get-addresses-and-memory to #5-give-it-back.
#include "../lab.h"

int main() {
  lab::begin();
  const size_t size = 4 << 20, n = size / sizeof(int);  // two granules of 2 MiB
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;

  // >>> your part: find the first two mistakes
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.id = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  CHECK(cuMemSetAccess(address, size, &access, 1));
  // <<<

  lab::fill<int>(address, n, 7);
  std::printf("%llu of %zu integers are 7\n", lab::count<int>(address, n, 7), n);

  // >>> your part: find the third
  CHECK(cuMemRelease(memory));
  CHECK(cudaFree(reinterpret_cast<void*>(address)));
  // <<<
  return lab::end();
}
