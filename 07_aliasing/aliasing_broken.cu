// SPDX-License-Identifier: MIT-0
// 07 Aliasing, broken: four mistakes with two addresses of one memory, and what comes of them.
//
// Each try has a process of its own. The last step looks at the free memory of GPU 0, which nobody else may use
// meanwhile.
//
// Build it alone:  nvcc -std=c++17 -lineinfo aliasing_broken.cu -o aliasing_broken -lcuda
#include "../common/in_a_process.h"

#include <cuda/ptx>

#include <algorithm>
#include <vector>

static const char usage[] = "usage: aliasing_broken\n";

constexpr int length = 1000, offset = 100;  // samples in a record, and how much too high they come in

// The radio. Its samples count up: first, first + 1, and so on.
__global__ void fill(int* data, size_t count, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < count) data[i] = first + int(i);
}

// Calibrates a record, and finds how far each sample has risen above the one before it.
__global__ void calibrate(int* record, const int* newest, int* rise) {
  const int i = threadIdx.x;
  const int mine = newest[i] - offset;
  record[i] = mine;
  __syncthreads();
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

// Copies integers to the host, after the kernels before.
static std::vector<int> fetch(const int* from, int count) {
  CHECK(cudaGetLastError());
  std::vector<int> host(count);
  CHECK(cudaMemcpy(host.data(), from, count * sizeof(int), cudaMemcpyDeviceToHost));
  return host;
}

// A ring of one granule, mapped twice in a row: `address` is its first address, and GPU 0 may use both.
struct Ring {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
};

static Ring map_ring(const Granule& granule) {
  const auto [properties, access, size] = granule;
  Ring ring;
  CHECK(cuMemCreate(&ring.memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&ring.address, 2 * size, 0, 0, 0));
  CHECK(cuMemMap(ring.address, size, 0, ring.memory, 0));
  CHECK(cuMemMap(ring.address + size, size, 0, ring.memory, 0));
  CHECK(cuMemSetAccess(ring.address, 2 * size, &access, 1));
  return ring;
}

static size_t free_memory() {
  size_t bytes, total;
  CHECK(cuMemGetInfo(&bytes, &total));
  return bytes;
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);      // no child inherits a line that is not written yet
  in_a_process(start_on_gpu_0, [](Granule) {});  // a machine that cannot do this says so first

  step("[1] Map both halves in one call");
  // A call maps an allocation whole, and once.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, access, size] = granule;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr address;
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    CHECK(cuMemAddressReserve(&address, 2 * size, 0, 0, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, 2 * size, 0, memory, 0));
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemMap(address + size, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, 2 * size, &access, 1));
    say("right: one call for each half");
  });

  step("[2] Take a barrier for a fence");
  // Each thread reads at `newest` what its neighbour has written at `record`. No call fails, and no kernel.
  for (auto* kernel : {calibrate, calibrate_with_fence})
    in_a_process(start_on_gpu_0, [kernel](Granule granule) {
      int* const record = reinterpret_cast<int*>(map_ring(granule).address) + length;
      const int n = int(granule.size / sizeof(int));
      int* const newest = record + n;  // the same samples
      int* rise;
      CHECK(cudaMalloc(&rise, length * sizeof(int)));
      fill<<<1, length>>>(record - length, length, 0);       // the record before
      fill<<<1, length>>>(record, length, length + offset);  // not calibrated
      kernel<<<1, length>>>(record, newest, rise);
      const std::vector<int> host = fetch(rise, length);
      const int right = int(std::count(host.begin(), host.end(), 1));
      EXPECT(kernel == calibrate || right == length, "%d of %d rises are right", right, length);
      say("%s__syncthreads(): %d of %d rises right", kernel == calibrate ? "" : "right: fence_proxy_alias(), ", right,
          length);
    });

  step("[3] Write a record that is longer than the ring");
  // No call fails, and no kernel. It ends where the second half ends, and writes each sample of the ring twice.
  for (const int rings : {2, 1})
    in_a_process(start_on_gpu_0, [rings](Granule granule) {
      const int n = int(granule.size / sizeof(int)), samples = rings * n;
      int* const record = reinterpret_cast<int*>(map_ring(granule).address);
      CHECK(cudaMemset(record, 0xff, granule.size));
      fill<<<samples / 256, 256>>>(record, samples, 0);
      const std::vector<int> host = fetch(record, samples);
      int kept = 0;
      for (int i = 0; i < samples; ++i) kept += host[i] == i;
      EXPECT(kept == n, "%d of %d samples are there", kept, samples);
      say("%sthe ring has room for %d samples; of a record of %d, %d are there", rings == 1 ? "right: " : "", n,
          samples, kept);
    });

  step("[4] Unmap one half, and expect the memory back");
  // No call fails. Each mapping holds the memory, and so does the handle: it is freed with the last of them.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t before = free_memory(), size = granule.size;
    const auto [memory, address] = map_ring(granule);
    EXPECT(before - free_memory() == size, "two mappings take %zu bytes", before - free_memory());
    CHECK(cuMemRelease(memory));
    CHECK(cuMemUnmap(address, size));
    EXPECT(before - free_memory() == size, "%zu bytes are taken", before - free_memory());
    say("the first half is unmapped, and %zu MiB are still taken", (before - free_memory()) >> 20);
    CHECK(cuMemUnmap(address + size, size));
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: the second half is unmapped as well, and 0 MiB are taken");
  });

  std::puts("OK");
  return 0;
}
