// SPDX-License-Identifier: MIT-0
// 07 Aliasing: map a ring buffer twice in a row, and its newest samples are one array. But each has two addresses then.
// Build it alone:  nvcc -std=c++17 aliasing.cu -o aliasing -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cuda/ptx>  // fence_proxy_alias; with CUDA 12 add -arch=native
#include <vector>

constexpr int length = 1000, offset = 100;  // samples in a record, and how much too high they come in

// The radio. Its samples count up: first, first + 1, and so on.
__global__ void fill(int* data, size_t count, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] = first + int(i);
}

__global__ void write_and_read(int* a, const int* b, int* seen) {  // two addresses of one sample
  seen[0] = *b;
  *a = 1;
  seen[1] = *b;
}

// Calibrates a record, and finds how far each sample has risen above the one before it.
__global__ void calibrate(int* record, const int* newest, int* rise) {
  const int i = threadIdx.x;
  const int mine = newest[i] - offset;
  record[i] = mine;
  __syncthreads();  // now the sample before mine is calibrated, too
  rise[i] = mine - newest[i - 1];
}

__global__ void calibrate_with_fence(int* record, const int* newest, int* rise) {
  const int i = threadIdx.x;
  const int mine = newest[i] - offset;
  record[i] = mine;
  cuda::ptx::fence_proxy_alias();
  __syncthreads();
  rise[i] = mine - newest[i - 1];
}

static std::vector<int> fetch(const int* from, int count) {  // to the host, after the kernels before
  CHECK(cudaGetLastError());
  std::vector<int> host(count);
  CHECK(cudaMemcpy(host.data(), from, count * sizeof(int), cudaMemcpyDeviceToHost));
  return host;
}

static bool in_order(const int* samples, int count, int first) {  // first, first + 1, and so on
  for (const int sample : fetch(samples, count))
    if (sample != first++) return false;
  return true;
}

static int count_right(const int* rise, int number) {  // a right rise is 1
  const std::vector<int> host = fetch(rise, length);
  const int right = std::count(host.begin(), host.end(), 1), raw = std::count(host.begin(), host.end(), 1 - offset);
  say("record %d: %d of %d rises right, %d are %d", number, right, length, raw, 1 - offset);
  return right;
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;  // GPU 0
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t size;  // one granule
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  step("[1] Map a ring twice in a row");
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, 2 * size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemMap(address + size, size, 0, memory, 0));  // the same memory again
  CHECK(cuMemSetAccess(address, 2 * size, &access, 1));
  int* const ring = reinterpret_cast<int*>(address);
  const int n = int(size / sizeof(int));  // samples in the ring: ring[i] and ring[i + n] are one

  int total = n / length * length;  // samples received: all whole records that fit
  fill<<<total / length, length>>>(ring, total, 0);
  int* record = ring + total;  // where the next record goes
  fill<<<1, length>>>(record, length, total);
  total += length;
  int* window = ring + total % n;  // the oldest sample: from here on, all n are in order
  EXPECT(in_order(window, n, total - n), "the newest %d samples are not one array", n);
  say("record %d: %d samples before the ring's end, %d past it", total / length, n + length - total, total - n);
  say("the newest %d samples are one array", n);

  step("[2] Write at one address, read at the other");
  int* result;
  CHECK(cudaMalloc(&result, length * sizeof(int)));
  write_and_read<<<1, 1>>>(window, window + n, result);
  const std::vector<int> seen = fetch(result, 2);
  say("it was %d; a thread wrote 1 and read %d; then the host read %d", seen[0], seen[1], fetch(window + n, 1)[0]);

  step("[3] Calibrate a record");
  int* newest = window + n - length;                             // the window ends with the record
  fill<<<1, length>>>(record, length, total - length + offset);  // record 525 once more, too high
  calibrate<<<1, length>>>(record, newest, result);
  EXPECT(count_right(result, total / length) == length, "a thread does not see its neighbour's sample");

  record = window;  // the next record goes over the oldest samples
  total += length;
  window = ring + total % n;
  newest = window + n - length;
  fill<<<1, length>>>(record, length, total - length + offset);
  calibrate<<<1, length>>>(record, newest, result);
  count_right(result, total / length);  // undefined: nothing to expect

  step("[4] Use one address");
  fill<<<1, length>>>(record, length, total - length + offset);  // the same record once more
  calibrate<<<1, length>>>(newest, newest, result);
  EXPECT(count_right(result, total / length) == length, "a thread does not see its neighbour's sample");

  step("[5] Put a fence between");
  fill<<<1, length>>>(record, length, total - length + offset);  // and again
  calibrate_with_fence<<<1, length>>>(record, newest, result);
  EXPECT(count_right(result, total / length) == length, "a thread does not see its neighbour's sample");

  CHECK(cudaFree(result));
  CHECK(cuMemUnmap(address, 2 * size));  // both mappings
  CHECK(cuMemAddressFree(address, 2 * size));
  CHECK(cuMemRelease(memory));
  std::puts("OK");
}
