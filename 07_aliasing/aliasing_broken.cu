// SPDX-License-Identifier: MIT-0
// 07 Aliasing, broken: four mistakes with two addresses of one memory, and what comes of them.
//
// A kernel that faults ends all CUDA work of its process, so each try has a process of its own. The last step looks at
// the free memory of GPU 0, which nobody else may use meanwhile.
//
// Build it alone:  nvcc -std=c++17 -lineinfo aliasing_broken.cu -o aliasing_broken -lcuda
#include "../common/in_a_process.h"

#include <cuda/ptx>

static const char usage[] = "usage: aliasing_broken\n";

constexpr int threads = 1024;
__device__ int stale;  // how many threads have read the old value

// Each thread has a value of its own: it reads it through b, writes it through a, and reads it through b again.
__global__ void with_barrier(int* a, const int* b) {
  const int i = threadIdx.x, old = b[i];
  a[i] = old + 1;
  __syncthreads();
  if (b[i] == old) atomicAdd(&stale, 1);
}

__global__ void with_fence(int* a, const int* b) {
  const int i = threadIdx.x, old = b[i];
  a[i] = old + 1;
  cuda::ptx::fence_proxy_alias();
  if (b[i] == old) atomicAdd(&stale, 1);
}

static int count_stale() {
  int count;
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&count, stale, sizeof count));
  return count;
}

__global__ void store(int* to, int value) { *to = value; }

static int load(CUdeviceptr from) {
  int value;
  CHECK(cudaMemcpy(&value, reinterpret_cast<void*>(from), sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

// One granule of memory at two addresses. No GPU has access yet.
struct Aliases {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr a, b;
};

static Aliases map_twice(const Granule& granule) {
  Aliases made;
  CHECK(cuMemCreate(&made.memory, granule.size, &granule.properties, 0));
  for (CUdeviceptr* address : {&made.a, &made.b}) {
    CHECK(cuMemAddressReserve(address, granule.size, 0, 0, 0));
    CHECK(cuMemMap(*address, granule.size, 0, made.memory, 0));
  }
  return made;
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
  // The threads wait for each other. What they read is another matter: no call fails, and no kernel.
  for (auto* kernel : {with_barrier, with_fence})
    in_a_process(start_on_gpu_0, [kernel](Granule granule) {
      const auto [memory, a, b] = map_twice(granule);
      for (const CUdeviceptr address : {a, b}) CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
      CHECK(cuMemsetD32(a, 0, threads));
      kernel<<<1, threads>>>(reinterpret_cast<int*>(a), reinterpret_cast<int*>(b));
      const int count = count_stale();
      EXPECT(kernel == with_barrier || count == 0, "%d of %d threads read the old value", count, threads);
      say("%s: %d of %d threads read the old value",
          kernel == with_barrier ? "__syncthreads()" : "right: fence_proxy_alias()", count, threads);
    });

  step("[2] Open one address, and use the other");
  // Access belongs to a mapping, and a second mapping starts without any.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [memory, a, b] = map_twice(granule);
    CHECK(cuMemSetAccess(a, granule.size, &granule.descriptor, 1));
    store<<<1, 1>>>(reinterpret_cast<int*>(b), 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [memory, a, b] = map_twice(granule);
    CHECK(cuMemSetAccess(a, granule.size, &granule.descriptor, 1));
    CHECK(cuMemSetAccess(b, granule.size, &granule.descriptor, 1));
    store<<<1, 1>>>(reinterpret_cast<int*>(b), 42);
    CHECK(cudaGetLastError());
    EXPECT(load(a) == 42, "at the first address there is %d", load(a));
    say("right: both are open; stored at the second address, and at the first there is %d", load(a));
  });

  step("[3] Map a ring in one call");
  // No call maps an allocation twice, or a part of it.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [memory_on_gpu, gpu_0, size] = granule;
    CUmemGenericAllocationHandle memory;
    CUdeviceptr ring;
    CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
    CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(ring, 2 * size, 0, memory, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(ring, size / 2, size / 2, memory, 0));
    CHECK(cuMemMap(ring, size, 0, memory, 0));
    CHECK(cuMemMap(ring + size, size, 0, memory, 0));
    CHECK(cuMemSetAccess(ring, 2 * size, &gpu_0, 1));
    say("right: the whole allocation, twice in a row");
  });

  step("[4] Unmap one address, and expect the memory back");
  // No call fails. Each mapping holds the memory, and so does the handle: it is freed with the last of them.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t before = free_memory();
    const auto [memory, a, b] = map_twice(granule);
    CHECK(cuMemRelease(memory));
    CHECK(cuMemUnmap(a, granule.size));
    EXPECT(before - free_memory() == granule.size, "%zu bytes are taken", before - free_memory());
    say("the first address is unmapped, and %zu KiB are still taken", (before - free_memory()) >> 10);
    CHECK(cuMemUnmap(b, granule.size));
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: the second is unmapped as well, and 0 KiB are taken");
  });

  std::puts("OK");
  return 0;
}
