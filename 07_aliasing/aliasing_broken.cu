// SPDX-License-Identifier: MIT-0
//
// 07 Aliasing, broken: what do two addresses of one memory not have in common?
//
// Each step makes one mistake, shows what comes of it, and then does it right. A kernel that faults ends all CUDA work
// of its process, so every try has a process of its own. Needs one GPU that supports VMM and that nobody else uses
// meanwhile: the last step looks at its free memory.
//
// Build it alone:  nvcc -std=c++17 -lineinfo aliasing_broken.cu -o aliasing_broken -lcuda
#include "../common/in_a_process.h"

#include <cuda/ptx>

static const char usage[] = "usage: aliasing_broken\n";

constexpr int threads = 1024;
__device__ int stale;  // how many threads read an old value

// Each thread has an element of its own, at the addresses a and b: it reads b, writes a, and reads b again.
__global__ void read_write_read(int* a, int* b, bool fence) {
  const int i = threadIdx.x, before = b[i];
  a[i] = before + 1;
  if (fence) cuda::ptx::fence_proxy_alias();
  else __syncthreads();
  if (b[i] == before) atomicAdd(&stale, 1);
}

__global__ void store(int* to, int value) { *to = value; }

// Each try has a process of its own, and so these of its own.
static CUmemGenericAllocationHandle handle;
static CUdeviceptr a, b;

// Creates one granule of memory, and maps it at a and at b. No GPU has access yet.
static void map_twice(const Granule& granule) {
  CHECK(cuMemCreate(&handle, granule.size, &granule.properties, 0));
  for (CUdeviceptr* address : {&a, &b}) {
    CHECK(cuMemAddressReserve(address, granule.size, 0, 0, 0));
    CHECK(cuMemMap(*address, granule.size, 0, handle, 0));
  }
}

static size_t free_memory() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);      // no child inherits a line that is not written yet
  in_a_process(start_on_gpu_0, [](Granule) {});  // a machine that cannot do this says so first

  step("[1] Take a barrier for a fence");
  // __syncthreads orders the accesses of a block, each at its address. It does not know that two addresses lead to the
  // same memory. No call fails, and no kernel.
  for (const bool fence : {false, true})
    in_a_process(start_on_gpu_0, [fence](Granule granule) {
      map_twice(granule);
      for (const CUdeviceptr address : {a, b}) CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
      CHECK(cudaMemset(reinterpret_cast<void*>(a), 0x5a, granule.size));
      read_write_read<<<1, threads>>>(reinterpret_cast<int*>(a), reinterpret_cast<int*>(b), fence);
      CHECK(cudaGetLastError());
      int found = -1;
      CHECK(cudaMemcpyFromSymbol(&found, stale, sizeof found));
      EXPECT(!fence || found == 0, "%d of %d threads read an old value after the fence", found, threads);
      say("%s: %d of %d threads read the old value", fence ? "right: fence.proxy.alias" : "__syncthreads", found,
          threads);
    });

  step("[2] Grant access at one address, and use the other");
  // Access belongs to the mapping, not to the memory: a second mapping starts without access.
  for (const bool both : {false, true})
    in_a_process(start_on_gpu_0, [both](Granule granule) {
      map_twice(granule);
      CHECK(cuMemSetAccess(a, granule.size, &granule.descriptor, 1));
      if (both) CHECK(cuMemSetAccess(b, granule.size, &granule.descriptor, 1));
      store<<<1, 1>>>(reinterpret_cast<int*>(b), 42);
      CHECK(cudaGetLastError());
      if (!both) {
        REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        return;
      }
      int found = -1;
      CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(a), sizeof found, cudaMemcpyDeviceToHost));
      EXPECT(found == 42, "at the first address there is %d", found);
      say("right: access at both; stored at the second address, read at the first: %d", found);
    });

  step("[3] Map a ring in one call");
  // No call maps an allocation twice, or a part of it: each half of the ring is a mapping of the whole allocation.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, descriptor, size] = granule;
    CUdeviceptr ring;
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(ring, 2 * size, 0, handle, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(ring, size / 2, size / 2, handle, 0));
    for (const CUdeviceptr half : {ring, ring + size}) CHECK(cuMemMap(half, size, 0, handle, 0));
    CHECK(cuMemSetAccess(ring, 2 * size, &descriptor, 1));
    say("right: the whole allocation twice in a row, access granted in one call");
  });

  step("[4] Unmap one address, and expect the memory back");
  // No call fails. Each mapping and the handle is a reference; the memory is freed with the last of them.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t before = free_memory();
    map_twice(granule);
    CHECK(cuMemRelease(handle));
    CHECK(cuMemUnmap(a, granule.size));
    EXPECT(before - free_memory() == granule.size, "%zu bytes are taken", before - free_memory());
    say("the first address unmapped, and %zu KiB are still taken", (before - free_memory()) >> 10);
    CHECK(cuMemUnmap(b, granule.size));
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: the second unmapped as well, 0 KiB are taken");
  });

  std::puts("OK");
  return 0;
}
