// SPDX-License-Identifier: MIT-0
// Lab 07a: Fence it
//
// Each thread writes memory through A, and in spite of a barrier reads the old value through B, its other address. Make
// it read the new one:
// - no thread reads the old value after it has written
// - the alias fence stands between the write through A and the read through B
// - one launch reads, writes and reads again, at both addresses
// Read 07_aliasing/README.md#5-put-a-fence-between.
#include <cuda/ptx>
#include "../lab.h"

const unsigned threads = 1024;

__global__ void read_write_read(int* const a, const int* const b, int* first, int* second) {
  const unsigned i = threadIdx.x;
  first[i] = b[i];
  a[i] = 42;
  // >>> your part: order the write through A and the read through B
  __syncthreads();
  // <<<
  second[i] = b[i];
}

int main() {
  lab::begin();
  const size_t size = 2 << 20;  // one granule
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  CUmemGenericAllocationHandle memory;
  CUdeviceptr a = 0, b = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  for (CUdeviceptr* address : {&a, &b}) {
    CHECK(cuMemAddressReserve(address, size, 0, 0, 0));
    CHECK(cuMemMap(*address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(*address, size, &access, 1));
  }
  int* read;  // what the threads read: first, then second
  CHECK(cudaMalloc(&read, 2 * threads * sizeof(int)));
  lab::fill<int>(a, threads, 7);
  read_write_read<<<1, threads>>>(reinterpret_cast<int*>(a), reinterpret_cast<int*>(b), read, read + threads);

  const CUdeviceptr first = reinterpret_cast<CUdeviceptr>(read), second = first + threads * sizeof(int);
  std::printf("first read: %llu of %u old\n", lab::count<int>(first, threads, 7), threads);
  std::printf("second read: %llu of %u new\n", lab::count<int>(second, threads, 42), threads);

  CHECK(cudaFree(read));
  for (CUdeviceptr address : {a, b}) {
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  CHECK(cuMemRelease(memory));
  return lab::end();
}
