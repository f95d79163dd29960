// SPDX-License-Identifier: MIT-0
// 07 Aliasing, broken: four mistakes with two addresses of one memory, and what comes of them.
//
// Each try has a process of its own. The last step looks at the free memory of GPU 0, which nobody else may use
// meanwhile.
//
// Build it alone:  nvcc -std=c++17 -lineinfo aliasing_broken.cu -o aliasing_broken -lcuda
#include "../common/in_a_process.h"

#include <cuda/ptx>

#include <vector>

static const char usage[] = "usage: aliasing_broken\n";

constexpr int threads = 1024;

// Each thread reads a value through b, and writes it through a. Then another thread reads it through b.
__global__ void with_barrier(int* a, const int* b, int* seen) {
  const int i = threadIdx.x, other = threads - 1 - i, old = b[i];
  a[i] = old + 1;
  __syncthreads();
  seen[other] = b[other];
}

__global__ void with_fence(int* a, const int* b, int* seen) {
  const int i = threadIdx.x, other = threads - 1 - i, old = b[i];
  a[i] = old + 1;
  cuda::ptx::fence_proxy_alias();
  __syncthreads();
  seen[other] = b[other];
}

// Samples are numbers that count up: 0, 1, 2 ...
__global__ void write_samples(int* samples, int n) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) samples[i] = i;
}

// How many of n numbers are right: first, first + 1, and so on.
static int count_right(const int* numbers, int n, int first) {
  CHECK(cudaGetLastError());
  std::vector<int> on_host(n);
  CHECK(cudaMemcpy(on_host.data(), numbers, n * sizeof(int), cudaMemcpyDeviceToHost));
  int right = 0;
  for (int i = 0; i < n; ++i) right += on_host[i] == first + i;
  return right;
}

// A ring of one granule: its memory, and its two addresses, which GPU 0 may use.
struct Ring {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr a, b;
};

static Ring map_ring(const Granule& granule) {
  const auto [memory_on_gpu, gpu_0, size] = granule;
  Ring ring;
  CHECK(cuMemCreate(&ring.memory, size, &memory_on_gpu, 0));
  CHECK(cuMemAddressReserve(&ring.a, 2 * size, 0, 0, 0));
  ring.b = ring.a + size;
  for (const CUdeviceptr address : {ring.a, ring.b}) CHECK(cuMemMap(address, size, 0, ring.memory, 0));
  CHECK(cuMemSetAccess(ring.a, 2 * size, &gpu_0, 1));
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

  step("[1] Take a barrier for a fence");
  // Each thread reads what another one wrote, and waits for it. No call fails, and no kernel.
  for (auto* kernel : {with_barrier, with_fence})
    in_a_process(start_on_gpu_0, [kernel](Granule granule) {
      const auto [memory, a, b] = map_ring(granule);
      int* seen;
      CHECK(cudaMalloc(&seen, threads * sizeof(int)));
      CHECK(cudaMemset(seen, 0xff, threads * sizeof(int)));
      write_samples<<<1, threads>>>(reinterpret_cast<int*>(a), threads);
      kernel<<<1, threads>>>(reinterpret_cast<int*>(a), reinterpret_cast<int*>(b), seen);
      const int fresh = count_right(seen, threads, 1);
      EXPECT(kernel == with_barrier || fresh == threads, "%d of %d threads see it", fresh, threads);
      say("%s__syncthreads(): %d of %d threads see what the other has written",
          kernel == with_barrier ? "" : "right: fence_proxy_alias(), ", fresh, threads);
    });

  step("[2] Write a record that is longer than the ring");
  // No call fails, and no kernel. It ends where B ends, and writes each sample of the ring twice.
  for (const int rings : {2, 1})
    in_a_process(start_on_gpu_0, [rings](Granule granule) {
      const auto [memory, a, b] = map_ring(granule);
      const int n = int(granule.size / sizeof(int)), length = rings * n;
      int* const record = reinterpret_cast<int*>(a);
      CHECK(cudaMemset(record, 0xff, granule.size));
      write_samples<<<length / 256, 256>>>(record, length);
      const int kept = count_right(record, length, 0);
      EXPECT(kept == n, "%d of %d samples are there", kept, length);
      say("%sthe ring has room for %d samples; of a record of %d, %d are there", rings == 1 ? "right: " : "", n, length,
          kept);
    });

  step("[3] Map both halves in one call");
  // A call maps an allocation once.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [memory_on_gpu, gpu_0, size] = granule;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr ring;
    CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
    CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(ring, 2 * size, 0, memory, 0));
    CHECK(cuMemMap(ring, size, 0, memory, 0));
    CHECK(cuMemMap(ring + size, size, 0, memory, 0));
    CHECK(cuMemSetAccess(ring, 2 * size, &gpu_0, 1));
    say("right: one call for each half");
  });

  step("[4] Unmap one address, and expect the memory back");
  // No call fails. Each mapping holds the memory, and so does the handle: it is freed with the last of them.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t before = free_memory(), size = granule.size;
    const auto [memory, a, b] = map_ring(granule);
    EXPECT(before - free_memory() == size, "two mappings take %zu bytes", before - free_memory());
    CHECK(cuMemRelease(memory));
    CHECK(cuMemUnmap(a, size));
    EXPECT(before - free_memory() == size, "%zu bytes are taken", before - free_memory());
    say("A is unmapped, and %zu KiB are still taken", (before - free_memory()) >> 10);
    CHECK(cuMemUnmap(b, size));
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: B is unmapped as well, and 0 KiB are taken");
  });

  std::puts("OK");
  return 0;
}
