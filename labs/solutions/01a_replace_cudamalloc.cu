// SPDX-License-Identifier: MIT-0
// Lab 01a: Replace cudaMalloc
//
// This program keeps its 5 MiB and 1 byte in memory of cudaMalloc, which cannot grow or move. Make it memory of VMM:
// - ask for the granularity, and create memory in whole granules, as few as hold 5 MiB and 1 byte
// - reserve addresses, map the memory there, and grant GPU 0 access, so that the kernels may use it
// - give each thing back by the call that undoes it
// Read 01_vmm_basics/README.md#1-ask-the-gpu to #5-let-the-gpu-in.
#include "../lab.h"

int main() {
  lab::begin();
  const size_t bytes = (5 << 20) + 1;
  CUdeviceptr address = 0;

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

  lab::fill<char>(address, bytes, 42);
  const unsigned long long right = lab::count<char>(address, bytes, 42);
  std::printf("%llu of %zu bytes are 42\n", right, bytes);

  // >>> your part: give it back
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(address, size));
  // <<<
  return lab::end();
}
