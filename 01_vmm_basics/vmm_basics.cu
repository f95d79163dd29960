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

// Whether the n integers at data are 0, 1, 2 and so on. The copy waits for the kernels before it.
static bool all_right(const int* data, size_t n) {
  std::vector<int> host(n);
  CHECK(cudaMemcpy(host.data(), data, n * sizeof(int), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < n; ++i)
    if (host[i] != int(i)) return false;
  return true;
}

int main() {
  check::require_gpus(1);  // a driver, and a GPU that has VMM
  CHECK(cudaSetDevice(0));

  step("[1] Get addresses and memory");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  const size_t MiB = 1 << 20, wanted = 3 * MiB;
  const size_t size = (wanted + granule - 1) / granule * granule;  // rounded up
  say("%zu MiB, in whole granules of %zu MiB: %zu MiB", wanted / MiB, granule / MiB, size / MiB);

  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  say("%zu MiB of addresses, from 0x%llx on", size / MiB, address);

  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  say("%zu MiB of memory, at no address", size / MiB);

  step("[2] Map the memory, and let the GPU in");
  CHECK(cuMemMap(address, size, 0, memory, 0));
  unsigned long long rights;
  CHECK(cuMemGetAccess(&rights, &properties.location, address));
  say("mapped: GPU 0 may %s it", rights ? "use" : "not use");

  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(address, size, &access, 1));
  CHECK(cuMemGetAccess(&rights, &properties.location, address));
  say("and now: GPU 0 may %s it", rights ? "use" : "not use");

  int* const data = reinterpret_cast<int*>(address);
  const size_t n = size / sizeof(int);  // all of it, not only what we wanted
  fill<<<(n + 255) / 256, 256>>>(data, n, 0);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  EXPECT(all_right(data, n), "the kernel's integers are not all there");
  say("a kernel wrote %zu integers: 0, 1, 2 ...", n);

  step("[3] Move the data without copying it");
  CUdeviceptr elsewhere;
  CHECK(cuMemAddressReserve(&elsewhere, 2 * size, 0, 0, 0));
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemMap(elsewhere, size, 0, memory, 0));
  CHECK(cuMemSetAccess(elsewhere, size, &access, 1));

  int* const moved = reinterpret_cast<int*>(elsewhere);
  EXPECT(all_right(moved, n), "the integers did not move along");
  say("all %zu integers are at 0x%llx now", n, elsewhere);

  step("[4] Append more memory");
  CUmemGenericAllocationHandle more;
  CHECK(cuMemCreate(&more, size, &properties, 0));
  CHECK(cuMemMap(elsewhere + size, size, 0, more, 0));
  CHECK(cuMemSetAccess(elsewhere + size, size, &access, 1));

  fill<<<(n + 255) / 256, 256>>>(moved + n, n, int(n));
  CHECK(cudaGetLastError());
  EXPECT(all_right(moved, 2 * n), "the two pieces are not one array");
  say("%zu integers in one array, in two pieces of memory", 2 * n);

  step("[5] Give it back");
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(more));
  EXPECT(all_right(moved, 2 * n), "the integers went with the handles");
  say("both handles are released, and all %zu integers are still there", 2 * n);

  CHECK(cuMemUnmap(elsewhere, 2 * size));  // the last references: now both pieces are free
  CHECK(cuMemAddressFree(elsewhere, 2 * size));
  CHECK(cuMemAddressFree(address, size));
  std::puts("OK");
}
