// SPDX-License-Identifier: MIT-0
//
// 02 Growable, broken: what goes wrong when a buffer grows, and who notices?
//
// Each step makes one mistake, shows what the call returns, and then does it right. A kernel that faults ends all CUDA
// work of its process, so every try has a process of its own. Needs one GPU that supports VMM, and that nobody else
// uses meanwhile: the last step looks at its free memory.
//
// Build it alone:  nvcc -std=c++17 -lineinfo growable_broken.cu -o growable_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: growable_broken\n";

__global__ void store(int* to, int value) { *to = value; }

static void launch_store(CUdeviceptr to, int value) {
  store<<<1, 1>>>(reinterpret_cast<int*>(to), value);
  CHECK(cudaGetLastError());
}

static void expect_stored(CUdeviceptr at, int value) {
  int found = -1;
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(at), sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == value, "the kernel left %d", found);
}

static CUmemGenericAllocationHandle create(const Granule& granule, size_t bytes) {
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, bytes, &granule.properties, 0));
  return handle;
}

static CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  return address;
}

// Creates one more chunk and maps it at this address, which it returns. No GPU has access yet.
static CUdeviceptr map_chunk(const Granule& granule, CUdeviceptr at, size_t bytes) {
  const CUmemGenericAllocationHandle handle = create(granule, bytes);
  CHECK(cuMemMap(at, bytes, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  return at;
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

  step("[1] Map a large allocation piece by piece");
  // The driver maps whole allocations only.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t size = granule.size;
    const CUdeviceptr base = reserve(4 * size);
    const CUmemGenericAllocationHandle large = create(granule, 4 * size);
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base, size, 0, large, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + size, size, size, large, 0));
    for (int chunk = 0; chunk < 4; ++chunk) map_chunk(granule, base + chunk * size, size);
    say("right: an allocation for each chunk, 4 chunks mapped");
  });

  step("[2] Keep the size that was asked for");
  // The chunk has been rounded up. The calls that come later want the rounded size as well.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUmemAccessDesc descriptor = granule.descriptor;
    const size_t wanted = granule.size + 1000, rounded = 2 * granule.size;
    const CUdeviceptr base = map_chunk(granule, reserve(rounded), rounded);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, wanted, &descriptor, 1));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, wanted));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, wanted));
    CHECK(cuMemSetAccess(base, rounded, &descriptor, 1));
    CHECK(cuMemUnmap(base, rounded));
    CHECK(cuMemAddressFree(base, rounded));
    say("right: access, unmapping and freeing with the rounded size");
  });

  step("[3] Grow, and grant no access to the new part");
  // Access belongs to a mapping. Access to the old part does not extend to the new one.
  for (const bool granted : {false, true})
    in_a_process(start_on_gpu_0, [granted](Granule granule) {
      const CUdeviceptr base = map_chunk(granule, reserve(2 * granule.size), granule.size);
      CHECK(cuMemSetAccess(base, granule.size, &granule.descriptor, 1));
      const CUdeviceptr grown = map_chunk(granule, base + granule.size, granule.size);
      if (granted) CHECK(cuMemSetAccess(grown, granule.size, &granule.descriptor, 1));
      launch_store(base, 1);
      CHECK(cudaDeviceSynchronize());  // the old part is as it was
      launch_store(grown, 42);
      if (granted) {
        expect_stored(grown, 42);
        say("right: access to the new part too; the kernel stored 42 there");
      } else {
        REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
      }
    });

  step("[4] Keep the handle of a chunk that is unmapped");
  // No call fails. The handle holds the memory, and the GPU fills up with each shrinking.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr base = reserve(granule.size);
    const size_t before = free_memory();
    const CUmemGenericAllocationHandle handle = create(granule, granule.size);
    CHECK(cuMemMap(base, granule.size, 0, handle, 0));
    CHECK(cuMemUnmap(base, granule.size));
    EXPECT(before - free_memory() == granule.size, "%zu bytes are taken", before - free_memory());
    say("unmapped, and %zu KiB are still taken", (before - free_memory()) >> 10);
    CHECK(cuMemRelease(handle));  // right after cuMemMap is the best place for it
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: the handle released, 0 KiB are taken");
  });

  std::puts("OK");
  return 0;
}
