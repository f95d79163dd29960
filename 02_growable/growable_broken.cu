// SPDX-License-Identifier: MIT-0
//
// 02 Growable, broken: what goes wrong when a buffer grows, and who notices?
//
// Each step makes one mistake, shows what the call returns, and then does it right. A kernel that faults ends all CUDA
// work of its process, so every try has a process of its own. Nobody else should use the GPU: step 4 looks at its free
// memory.
//
// Build it alone:  nvcc -std=c++17 -lineinfo growable_broken.cu -o growable_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: growable_broken\n";

__global__ void store(int* to, int value) { *to = value; }

// The same, when the host says so, or after some seconds.
__global__ void store_late(int* to, int value, const volatile int* go) {
  for (int i = 0; i < 10000000 && !*go; ++i) {
  }
  *to = value;
}

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
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t chunk = granule.size;
    const CUdeviceptr base = reserve(4 * chunk);
    const CUmemGenericAllocationHandle large = create(granule, 4 * chunk);
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base, chunk, 0, large, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + chunk, chunk, chunk, large, 0));
    for (int i = 0; i < 4; ++i) map_chunk(granule, base + i * chunk, chunk);
    say("right: an allocation for each chunk, 4 chunks mapped");
  });

  step("[2] Keep the size that was asked for");
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

  step("[4] Lose a handle");
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr base = reserve(granule.size);
    const size_t before = free_memory();
    const CUmemGenericAllocationHandle handle = create(granule, granule.size);
    CHECK(cuMemMap(base, granule.size, 0, handle, 0));
    CHECK(cuMemUnmap(base, granule.size));
    EXPECT(before - free_memory() == granule.size, "%zu bytes are taken", before - free_memory());
    say("unmapped, and %zu KiB are still taken", (before - free_memory()) >> 10);
    CHECK(cuMemRelease(handle));
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    say("right: the handle released, 0 KiB are taken");
  });

  step("[5] Shrink under a running kernel");
  for (const bool waits : {false, true})
    in_a_process(start_on_gpu_0, [waits](Granule granule) {
      const CUdeviceptr end = map_chunk(granule, reserve(granule.size), granule.size);
      CHECK(cuMemSetAccess(end, granule.size, &granule.descriptor, 1));
      int* go;
      CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocDefault));
      *go = waits;
      store_late<<<1, 1>>>(reinterpret_cast<int*>(end), 42, go);
      CHECK(cudaGetLastError());
      if (waits) CHECK(cudaDeviceSynchronize());
      CHECK(cuMemUnmap(end, granule.size));
      map_chunk(granule, end, granule.size);  // other memory, of somebody else
      CHECK(cuMemSetAccess(end, granule.size, &granule.descriptor, 1));
      if (waits) CHECK(cuMemsetD32(end, 7, 1));
      *static_cast<volatile int*>(go) = 1;
      if (waits) {
        expect_stored(end, 7);
        say("right: waited for the kernel first; the other memory holds its 7");
      } else {
        CHECK(cudaDeviceSynchronize());
        expect_stored(end, 42);
        say("no error, and the kernel stored its 42 in the other memory");
      }
    });

  std::puts("OK");
}
