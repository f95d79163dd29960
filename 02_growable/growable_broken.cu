// SPDX-License-Identifier: MIT-0
//
// 02 Growable, broken: what goes wrong when a buffer grows, and who notices?
//
// Each step makes one mistake, shows the answer, and then does it right. A kernel that faults ends all CUDA work of its
// process, so every try has a process of its own. Needs one GPU that supports VMM, and that nobody
// else uses meanwhile: the last step looks at its free memory.
//
// Build it alone:  nvcc -std=c++17 -lineinfo growable_broken.cu -o growable_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: growable_broken\n";

static void start() { start_on_gpu_0(); }

__global__ void store(int* to, int value) { *to = value; }

static CUmemGenericAllocationHandle create(size_t bytes) {
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

static CUdeviceptr reserve(size_t bytes, CUdeviceptr wish = 0) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, bytes, 0, wish, 0));
  return address;
}

// One more chunk behind the buffer: created and mapped. No GPU has access yet.
static void map_chunk(CUdeviceptr at, size_t bytes) {
  const CUmemGenericAllocationHandle handle = create(bytes);
  CHECK(cuMemMap(at, bytes, 0, handle, 0));
  CHECK(cuMemRelease(handle));
}

static size_t free_memory() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process([] {});                       // a machine that cannot do this says so first

  // [1] Map a large allocation piece by piece
  // "Allocate much at once, map it as the buffer grows": the driver maps whole allocations only.
  std::printf("[1] Map a large allocation piece by piece\n");
  in_a_process([] {
    const CUdeviceptr base = reserve(4 * size);
    const CUmemGenericAllocationHandle large = create(4 * size);
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base, size, 0, large, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + size, size, size, large, 0));
    for (int chunk = 0; chunk < 4; ++chunk) map_chunk(base + chunk * size, size);
    std::printf("    right: an allocation for each chunk, 4 chunks mapped\n");
  });

  // [2] Keep the size that was asked for
  // The chunk has been rounded up. The calls that come later want the rounded size as well.
  std::printf("[2] Keep the size that was asked for\n");
  in_a_process([] {
    const size_t wanted = size + 1000, rounded = 2 * size;
    const CUdeviceptr base = reserve(rounded);
    map_chunk(base, rounded);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, wanted, &descriptor, 1));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, wanted));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, wanted));
    CHECK(cuMemSetAccess(base, rounded, &descriptor, 1));
    CHECK(cuMemUnmap(base, rounded));
    CHECK(cuMemAddressFree(base, rounded));
    std::printf("    right: access, unmapping and freeing with the rounded size\n");
  });

  // [3] Grow, and grant no access to the new part
  // Access belongs to a mapping. Access to the old part does not extend to the new one.
  std::printf("[3] Grow, and grant no access to the new part\n");
  for (const bool granted : {false, true})
    in_a_process([granted] {
      const CUdeviceptr base = reserve(2 * size);
      map_chunk(base, size);
      CHECK(cuMemSetAccess(base, size, &descriptor, 1));
      map_chunk(base + size, size);  // the buffer grows
      if (granted) CHECK(cuMemSetAccess(base + size, size, &descriptor, 1));
      store<<<1, 1>>>(reinterpret_cast<int*>(base), 1);
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());  // the old part is as it was
      store<<<1, 1>>>(reinterpret_cast<int*>(base + size), 42);
      CHECK(cudaGetLastError());
      if (!granted) {
        REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        return;
      }
      int found = -1;
      CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(base + size), sizeof found, cudaMemcpyDeviceToHost));
      EXPECT(found == 42, "the kernel left %d", found);
      std::printf("    right: access to the new part too; the kernel stored %d there\n", found);
    });

  // [4] Make one buffer of two reservations, and free it as one
  // A second reservation may follow the first without a gap, and mappings may lie in both. Two they remain.
  std::printf("[4] Make one buffer of two reservations, and free it as one\n");
  in_a_process([] {
    const CUdeviceptr room = reserve(8 * size);  // where there is room for both
    CHECK(cuMemAddressFree(room, 8 * size));
    const CUdeviceptr first = reserve(4 * size, room), second = reserve(4 * size, room + 4 * size);
    EXPECT(second == first + 4 * size, "0x%llx does not follow 0x%llx", second, first);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(first, 8 * size));
    CHECK(cuMemAddressFree(first, 4 * size));
    CHECK(cuMemAddressFree(second, 4 * size));
    std::printf("    right: each by itself, with its own size\n");
  });

  // [5] Keep the handle of a chunk that is unmapped
  // No call fails. The reference that cuMemCreate gave holds the memory, and the GPU fills up with each shrinking.
  std::printf("[5] Keep the handle of a chunk that is unmapped\n");
  in_a_process([] {
    const CUdeviceptr base = reserve(size);
    const size_t before = free_memory();
    const CUmemGenericAllocationHandle handle = create(size);
    CHECK(cuMemMap(base, size, 0, handle, 0));
    CHECK(cuMemUnmap(base, size));
    EXPECT(before - free_memory() == size, "%zu bytes are taken", before - free_memory());
    std::printf("    unmapped, and %zu KiB are still taken\n", (before - free_memory()) >> 10);
    CHECK(cuMemRelease(handle));  // right after cuMemMap is the best place for it
    EXPECT(before == free_memory(), "%zu bytes are taken", before - free_memory());
    std::printf("    right: the handle released, 0 KiB are taken\n");
  });

  std::printf("OK\n");
  return 0;
}
