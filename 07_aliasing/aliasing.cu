// SPDX-License-Identifier: MIT-0
// 07 Aliasing: map a ring buffer twice in a row, and it has no end. But every sample has two addresses now.
// Build it alone:  nvcc -std=c++17 aliasing.cu -o aliasing -lcuda
#include "../common/check.h"

#include <cuda/ptx>  // fence_proxy_alias; with CUDA 12 add -arch=native

#include <vector>

// Samples are numbers that count up: first, first + 1, and so on.
__global__ void write_samples(unsigned* samples, size_t n, unsigned first) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) samples[i] = first + unsigned(i);
}

// Copies samples to where the host looks for them.
__global__ void read_samples(const unsigned* samples, size_t n, unsigned* seen) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) seen[i] = samples[i];
}

// Corrects a record that has two addresses: where it was written, and where it lies in the window.
__global__ void correct(unsigned* record, const unsigned* in_window, size_t length, unsigned* seen) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= length) return;
  const unsigned old = in_window[i];
  record[i] = old + 1;
  seen[i] = in_window[i];  // a second read of memory: for all the compiler knows, record[i] is in_window[i]
}

__global__ void correct_with_fence(unsigned* record, const unsigned* in_window, size_t length, unsigned* seen) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= length) return;
  const unsigned old = in_window[i];
  record[i] = old + 1;
  cuda::ptx::fence_proxy_alias();
  seen[i] = in_window[i];
}

// So many blocks of 256 threads give each sample a thread.
static unsigned blocks(size_t samples) { return unsigned((samples + 255) / 256); }

// Copies n samples to the host. How many of them are right: first, first + 1, and so on?
static size_t count_right(const unsigned* samples, size_t n, size_t first) {
  CHECK(cudaGetLastError());  // of the kernel before
  std::vector<unsigned> on_host(n);
  CHECK(cudaMemcpy(on_host.data(), samples, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
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
  const size_t n = size / sizeof(unsigned);  // a whole number: a sample's size must divide the ring's
  unsigned* const a = reinterpret_cast<unsigned*>(ring);
  unsigned* const b = a + n;  // a[i] and b[i] are the same sample
  say("%zu KiB of memory: A is 0x%llx, B is 0x%llx", size >> 10, ring, ring + size);

  step("[2] Write past the end");
  const size_t length = 200'000;               // samples in a record
  write_samples<<<blocks(n), 256>>>(a, n, 0);  // the ring is full
  size_t total = n;
  unsigned* oldest = a;
  int past_the_end = 0;
  for (int i = 0; i < 16; ++i) {
    if (oldest + length > b) ++past_the_end;
    write_samples<<<blocks(length), 256>>>(oldest, length, unsigned(total));  // over the oldest samples
    total += length;
    oldest = a + total % n;
    const size_t right = count_right(oldest, n, total - n);  // one cudaMemcpy takes the whole window
    EXPECT(right == n, "after record %d the last %zu samples are not one array", i, n);
  }
  say("16 records, each written in one piece: %d go past the end", past_the_end);
  say("after each of them, the last %zu samples are one array", n);

  step("[3] Correct a record");
  unsigned* const record = oldest;  // the next record is written here, in A, and doesn't cross the end
  write_samples<<<blocks(length), 256>>>(record, length, unsigned(total));
  const size_t first = total;  // the record's first sample, to which each correct() below adds 1
  total += length;
  oldest = a + total % n;
  unsigned* const in_window = oldest + n - length;  // the window ends with the record, in B
  unsigned* seen;
  CHECK(cudaMalloc(&seen, length * sizeof(unsigned)));
  correct<<<blocks(length), 256>>>(record, in_window, length, seen);
  const size_t right = count_right(seen, length, first + 1);
  say("%zu of %zu threads see what they have written", right, length);  // undefined: no EXPECT

  step("[4] Ask the next kernel");
  read_samples<<<blocks(length), 256>>>(in_window, length, seen);
  EXPECT(count_right(seen, length, first + 1) == length, "the next kernel does not see what was written");
  say("it sees what all %zu threads have written", length);

  step("[5] Use one address");
  correct<<<blocks(length), 256>>>(in_window, in_window, length, seen);
  EXPECT(count_right(seen, length, first + 2) == length, "not all threads see what they have written, at one address");
  say("all %zu threads see what they have written", length);

  step("[6] Put a fence between");
  correct_with_fence<<<blocks(length), 256>>>(record, in_window, length, seen);
  EXPECT(count_right(seen, length, first + 3) == length, "not all threads see what they have written");
  say("all %zu threads see what they have written", length);

  CHECK(cudaFree(seen));
  CHECK(cuMemUnmap(ring, 2 * size));  // both mappings
  CHECK(cuMemAddressFree(ring, 2 * size));
  CHECK(cuMemRelease(memory));
  std::puts("OK");
}
