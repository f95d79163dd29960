// SPDX-License-Identifier: MIT-0
// 07 Aliasing: when two addresses lead to the same memory, does a read at one see a write at the other?
// Build it alone:  nvcc -std=c++17 aliasing.cu -o aliasing -lcuda
#include "../common/check.h"

#include <cuda/ptx>

const unsigned threads = 1024;
__device__ unsigned right;  // how many values the kernels have found right

// Each thread has a sample of its own: it reads it through b, writes it through a, and reads it through b again. The
// compiler keeps the second read: for all it knows, a and b may be the same.
__global__ void without_fence(unsigned* a, const unsigned* b) {
  const unsigned i = threadIdx.x, old = b[i];
  a[i] = old + 1;
  if (b[i] == old + 1) atomicAdd(&right, 1);
}

__global__ void with_fence(unsigned* a, const unsigned* b) {
  const unsigned i = threadIdx.x, old = b[i];
  a[i] = old + 1;
  cuda::ptx::fence_proxy_alias();
  if (b[i] == old + 1) atomicAdd(&right, 1);
}

// Samples are numbers that count up: first, first + 1, and so on.
__global__ void write(unsigned* samples, unsigned n, unsigned first) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) samples[i] = first + i;
}

__global__ void check_samples(const unsigned* samples, unsigned n, unsigned first) {
  unsigned mine = 0;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (samples[i] == first + i) ++mine;
  atomicAdd(&right, mine);
}

// Waits for the kernels, and returns what they have counted.
static unsigned count_right() {
  CHECK(cudaGetLastError());
  unsigned count;
  const unsigned zero = 0;
  CHECK(cudaMemcpyFromSymbol(&count, right, sizeof count));
  CHECK(cudaMemcpyToSymbol(right, &zero, sizeof zero));
  return count;
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  CUmemAccessDesc gpu_0 = {};
  gpu_0.location = memory_on_gpu.location;
  gpu_0.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  size_t size;  // one granule
  CHECK(cuMemGetAllocationGranularity(&size, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  step("[1] Map a ring buffer twice in a row");
  CUmemGenericAllocationHandle memory;
  CUdeviceptr ring;
  CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
  CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
  CHECK(cuMemMap(ring, size, 0, memory, 0));
  CHECK(cuMemMap(ring + size, size, 0, memory, 0));  // the same memory again
  CHECK(cuMemSetAccess(ring, 2 * size, &gpu_0, 1));
  const unsigned n = size / sizeof(unsigned);
  unsigned* const a = reinterpret_cast<unsigned*>(ring);
  unsigned* const b = a + n;  // a[i] and b[i] are the same sample
  say("%zu KiB of memory: A is 0x%llx, B is 0x%llx", size >> 10, ring, ring + size);

  step("[2] Write through A, read through B");
  write<<<256, 256>>>(a, n, 0);
  without_fence<<<1, threads>>>(a, b);
  say("%u of %u threads see what they have just written", count_right(), threads);

  step("[3] Ask the next kernel");
  check_samples<<<1, threads>>>(b, threads, 1);  // each was old + 1, and old was 0, 1, 2, ...
  const unsigned seen = count_right();
  EXPECT(seen == threads, "the next kernel sees %u of %u", seen, threads);
  say("through B it sees what %u of %u threads have written", seen, threads);

  step("[4] Put a fence between");
  with_fence<<<1, threads>>>(a, b);
  const unsigned fenced = count_right();
  EXPECT(fenced == threads, "%u of %u threads see what they have written", fenced, threads);
  say("%u of %u threads see what they have just written", fenced, threads);

  step("[5] Wait for another stream");
  cudaStream_t writer;
  cudaStream_t reader;
  cudaEvent_t written;
  CHECK(cudaStreamCreate(&writer));
  CHECK(cudaStreamCreate(&reader));
  CHECK(cudaEventCreate(&written));
  write<<<256, 256, 0, writer>>>(a, n, 1000);
  CHECK(cudaEventRecord(written, writer));
  CHECK(cudaStreamWaitEvent(reader, written));
  check_samples<<<256, 256, 0, reader>>>(b, n, 1000);
  const unsigned arrived = count_right();
  EXPECT(arrived == n, "%u of %u samples have arrived", arrived, n);
  say("written through A in one, read through B in the other: all %u samples", arrived);

  step("[6] Write past the end");
  const unsigned length = n / 4 * 3 - 1;  // of a record
  unsigned total = n, past_the_end = 0;
  write<<<256, 256>>>(a, n, 0);  // the ring is full
  for (int record = 0; record < 16; ++record) {
    const unsigned at = total % n;
    write<<<256, 256>>>(a + at, length, total);
    total += length;
    if (at + length > n) ++past_the_end;
    check_samples<<<256, 256>>>(a + total % n, n, total - n);  // the last n samples, the oldest first
    const unsigned in_order = count_right();
    EXPECT(in_order == n, "after record %d, %u of the last %u samples are in order", record, in_order, n);
  }
  say("16 records, each written in one piece: %u go past the end", past_the_end);
  say("after each of them, the last %u samples are one array", n);

  CHECK(cudaEventDestroy(written));
  CHECK(cudaStreamDestroy(reader));
  CHECK(cudaStreamDestroy(writer));
  CHECK(cuMemUnmap(ring, 2 * size));
  CHECK(cuMemAddressFree(ring, 2 * size));
  CHECK(cuMemRelease(memory));
  std::puts("OK");
}
