// SPDX-License-Identifier: MIT-0
// 01 VMM basics: what cudaMalloc does in one call, made in four. Then the data moves, and not a byte is copied.
// Build it alone:  nvcc -std=c++17 vmm_basics.cu -o vmm_basics -lcuda
#include "../common/check.h"

#include <vector>

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

// Whether the n integers there are 0, 1, 2 and so on. The copy waits for the kernels before it.
static bool all_right(CUdeviceptr data, size_t n) {
  std::vector<int> host(n);
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(data), n * sizeof(int), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < n; ++i)
    if (host[i] != int(i)) return false;
  return true;
}

int main() {
  check::require_gpus(1, {});  // a driver and a GPU; what it can do, step 1 asks
  CHECK(cudaSetDevice(0));

  step("[1] Ask the GPU");
  int has_vmm;
  CHECK(cuDeviceGetAttribute(&has_vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  REQUIRE(has_vmm, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t wanted = 3'000'000;
  const size_t size = (wanted + granule - 1) / granule * granule;
  say("%zu bytes, in whole granules of %zu: %zu bytes", wanted, granule, size);

  step("[2] Reserve addresses");
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  say("%zu KiB of addresses from 0x%llx on, and no memory", size >> 10, address);

  step("[3] Create memory");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  say("%zu KiB of memory on GPU 0, and no address", size >> 10);

  step("[4] Map the memory");
  CHECK(cuMemMap(address, size, 0, memory, 0));
  unsigned long long may;
  CHECK(cuMemGetAccess(&may, &properties.location, address));
  say("0x%llx leads to the memory; GPU 0 may %s", address, may ? "use it" : "not use it yet");

  step("[5] Let the GPU in");
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(address, size, &access, 1));
  say("GPU 0 may use it now");

  step("[6] Use it like any pointer");
  const size_t n = size / sizeof(int);  // all of it, not only what we wanted
  fill<<<(n + 255) / 256, 256>>>(reinterpret_cast<int*>(address), n, 0);
  CHECK(cudaGetLastError());
  EXPECT(all_right(address, n), "a kernel wrote %zu integers, and they are not all there", n);
  say("a kernel wrote %zu integers: 0, 1, 2 ...", n);

  step("[7] Move it without copying");
  CUdeviceptr elsewhere;
  CHECK(cuMemAddressReserve(&elsewhere, 2 * size, 0, 0, 0));
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemMap(elsewhere, size, 0, memory, 0));
  CHECK(cuMemSetAccess(elsewhere, size, &access, 1));
  EXPECT(all_right(elsewhere, n), "the integers didn't move along");
  say("all %zu are at 0x%llx now", n, elsewhere);

  step("[8] Append more memory");
  CUmemGenericAllocationHandle more;
  CHECK(cuMemCreate(&more, size, &properties, 0));
  CHECK(cuMemMap(elsewhere + size, size, 0, more, 0));
  CHECK(cuMemSetAccess(elsewhere + size, size, &access, 1));
  fill<<<(n + 255) / 256, 256>>>(reinterpret_cast<int*>(elsewhere + size), n, int(n));
  CHECK(cudaGetLastError());
  EXPECT(all_right(elsewhere, 2 * n), "the two pieces are not one array");
  say("%zu integers from one pointer on, in two pieces of memory", 2 * n);

  step("[9] Give it back");
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(more));
  EXPECT(all_right(elsewhere, 2 * n), "the integers went with the handles");
  say("both handles are released, and all %zu integers are still there", 2 * n);
  CHECK(cuMemUnmap(elsewhere, 2 * size));  // the last references: now both pieces are free
  CHECK(cuMemAddressFree(elsewhere, 2 * size));
  CHECK(cuMemAddressFree(address, size));
  std::puts("OK");
}
