// SPDX-License-Identifier: MIT-0
// 07 Aliasing: map a ring buffer twice in a row, and it has no end. But every sample has two addresses now.
// Build it alone:  nvcc -std=c++17 aliasing.cu -o aliasing -lcuda
#include "../common/check.h"

#include <cuda/ptx>

#include <vector>

// Samples are numbers that count up: first, first + 1, and so on.
__global__ void write_samples(unsigned* samples, size_t n, unsigned first) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) samples[i] = first + i;
}

// Stands for what you do with the samples: here it copies them to where the host looks.
__global__ void read_samples(const unsigned* samples, size_t n, unsigned* seen) {
  const size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) seen[i] = samples[i];
}

// Each thread has a sample of its own, and uses both of its addresses.
__global__ void without_fence(unsigned* a, const unsigned* b, unsigned* seen) {
  const unsigned i = threadIdx.x;
  const unsigned old = b[i];
  a[i] = old + 1;
  seen[i] = b[i];  // the compiler does read again: for all it knows, a and b are one address
}

__global__ void with_fence(unsigned* a, const unsigned* b, unsigned* seen) {
  const unsigned i = threadIdx.x;
  const unsigned old = b[i];
  a[i] = old + 1;
  cuda::ptx::fence_proxy_alias();
  seen[i] = b[i];
}

// How many of the n numbers are right: first, first + 1, and so on.
static size_t count_right(const unsigned* seen, size_t n, unsigned first) {
  CHECK(cudaGetLastError());
  std::vector<unsigned> on_host(n);
  CHECK(cudaMemcpy(on_host.data(), seen, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  size_t right = 0;
  for (size_t i = 0; i < n; ++i) right += on_host[i] == unsigned(first + i);
  return right;
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp on_gpu_0 = {};
  on_gpu_0.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  on_gpu_0.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  on_gpu_0.location.id = 0;
  CUmemAccessDesc gpu_0 = {};
  gpu_0.location = on_gpu_0.location;
  gpu_0.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  size_t size;  // one granule
  CHECK(cuMemGetAllocationGranularity(&size, &on_gpu_0, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  step("[1] Map a ring buffer twice in a row");
  CUmemGenericAllocationHandle memory;
  CUdeviceptr ring;
  CHECK(cuMemCreate(&memory, size, &on_gpu_0, 0));
  CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
  CHECK(cuMemMap(ring, size, 0, memory, 0));
  CHECK(cuMemMap(ring + size, size, 0, memory, 0));  // the same memory again
  CHECK(cuMemSetAccess(ring, 2 * size, &gpu_0, 1));
  const size_t n = size / sizeof(unsigned);
  unsigned* const a = reinterpret_cast<unsigned*>(ring);
  unsigned* const b = a + n;  // a[i] and b[i] are the same sample
  say("%zu KiB of memory: A is 0x%llx, B is 0x%llx", size >> 10, ring, ring + size);

  step("[2] Write past the end");
  const size_t length = n / 8 * 3 + 1;  // of a record: it will cross the end at another place each time
  const unsigned blocks = n / 256;
  unsigned* seen;
  CHECK(cudaMalloc(&seen, size));
  write_samples<<<blocks, 256>>>(a, n, 0);  // the ring is full
  size_t total = n;
  unsigned* oldest = a;
  int past_the_end = 0;
  for (int record = 0; record < 16; ++record) {
    if (oldest + length > b) ++past_the_end;
    write_samples<<<blocks, 256>>>(oldest, length, total);  // over the oldest samples
    total += length;
    oldest = a + total % n;
    read_samples<<<blocks, 256>>>(oldest, n, seen);  // the last n samples, in order
    EXPECT(count_right(seen, n, total - n) == n, "after record %d the last %zu samples are not one array", record, n);
  }
  say("16 records, each written in one piece: %d go past the end", past_the_end);
  say("after each of them, the last %zu samples are one array", n);

  step("[3] Write through A, read through B");
  const unsigned threads = 1024;
  write_samples<<<blocks, 256>>>(a, n, 0);
  without_fence<<<1, threads>>>(a, b, seen);
  say("%zu of %u threads see what they have written", count_right(seen, threads, 1), threads);  // undefined: no EXPECT

  step("[4] Ask the next kernel");
  CHECK(cudaMemset(seen, 0, size));
  read_samples<<<1, threads>>>(b, threads, seen);
  EXPECT(count_right(seen, threads, 1) == threads, "the next kernel does not see what was written");
  say("it sees what all %u threads have written", threads);

  step("[5] Put a fence between");
  with_fence<<<1, threads>>>(a, b, seen);
  EXPECT(count_right(seen, threads, 2) == threads, "not all threads see what they have written");
  say("all %u threads see what they have written", threads);

  CHECK(cudaFree(seen));
  CHECK(cuMemUnmap(ring, 2 * size));  // both mappings
  CHECK(cuMemAddressFree(ring, 2 * size));
  CHECK(cuMemRelease(memory));
  std::puts("OK");
}
