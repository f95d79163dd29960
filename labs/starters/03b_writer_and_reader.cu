// SPDX-License-Identifier: MIT-0
// Lab 03b: Writer and reader
//
// GPU 0 writes and GPU 1 reads, but both may write, and nothing orders the read after the write. Make it right:
// - GPU 0 may read and write, GPU 1 may only read
// - GPU 1's stream waits for an event that is recorded after the write, and the host does not wait
// - before memory is made, REQUIRE that GPU 1 reaches GPU 0; where it does not, the program skips, with status 77
// - peer access stays off: to ask is enough; look at each answer with CHECK
// Read 03_multi_gpu/README.md#4-make-the-reader-wait and #2-let-the-loader-in.
#include "../lab.h"

int main() {
  lab::begin(2);
  // >>> your part: skip where GPU 1 does not reach GPU 0
  // <<<
  const size_t size = 4 << 20, n = size / sizeof(int);  // two granules of 2 MiB
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CUmemAccessDesc access[2] = {};
  for (int gpu : {0, 1}) {
    access[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[gpu].location.id = gpu;
    access[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  // >>> your part: GPU 1 only reads
  // <<<
  CHECK(cuMemSetAccess(address, size, access, 2));

  lab::fill_kernel<<<4, 256>>>(reinterpret_cast<int*>(address), n, 7);  // on GPU 0; nobody waits for it here
  // >>> your part: the stream of GPU 1 waits for the write
  CHECK(cudaSetDevice(1));
  // <<<
  const unsigned long long found = lab::count<int>(address, n, 7);
  std::printf("GPU 1 read %llu of %zu integers as GPU 0 wrote them\n", found, n);

  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
  return lab::end();
}
