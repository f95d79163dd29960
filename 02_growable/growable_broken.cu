// SPDX-License-Identifier: MIT-0
//
// 02 Growable, broken: what goes wrong when a buffer grows and shrinks, and who notices?
//
// Each step makes one mistake, shows what the call returns, and then does it right. A kernel that faults ends all CUDA
// work of its process, so every try has a process of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo growable_broken.cu -o growable_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: growable_broken\n";

static size_t chunk;                // bytes of one allocation
static CUmemAllocationProp memory;  // where a chunk is: on GPU 0
static CUmemAccessDesc gpu_0;       // who may use it: GPU 0

// How each try starts: with the base of a buffer that has addresses for eight chunks, and no memory yet.
static CUdeviceptr start() {
  const Granule granule = start_on_gpu_0();
  chunk = granule.size;
  memory = granule.properties;
  gpu_0 = granule.descriptor;
  CUdeviceptr base;
  CHECK(cuMemAddressReserve(&base, 8 * chunk, 0, 0, 0));
  return base;
}

static void add_chunk(CUdeviceptr at) {
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, chunk, &memory, 0));
  CHECK(cuMemMap(at, chunk, 0, handle, 0));
  CHECK(cuMemRelease(handle));
}

__global__ void store(CUdeviceptr to, int value) { *reinterpret_cast<int*>(to) = value; }

// The same, when the host says so, or after some seconds.
__global__ void store_late(CUdeviceptr to, int value, const volatile int* go) {
  for (int i = 0; i < 10000000 && !*go; ++i) {
  }
  *reinterpret_cast<int*>(to) = value;
}

static void expect_stored(CUdeviceptr at, int value) {
  int found = -1;
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(at), sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == value, "the kernel left %d", found);
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](CUdeviceptr) {});   // a machine that cannot do this says so first

  step("[1] Map a large allocation piece by piece");
  in_a_process(start, [](CUdeviceptr base) {
    CUmemGenericAllocationHandle large;
    CHECK(cuMemCreate(&large, 4 * chunk, &memory, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base, chunk, 0, large, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(base + chunk, chunk, chunk, large, 0));
    for (int i = 0; i < 4; ++i) add_chunk(base + i * chunk);
    say("right: an allocation for each chunk; 4 chunks are mapped");
  });

  step("[2] Keep the size that was asked for");
  in_a_process(start, [](CUdeviceptr base) {
    const size_t wanted = chunk - 1000;  // takes a whole chunk
    add_chunk(base);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(base, wanted, &gpu_0, 1));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, wanted));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, wanted));
    CHECK(cuMemSetAccess(base, chunk, &gpu_0, 1));
    CHECK(cuMemUnmap(base, chunk));
    CHECK(cuMemAddressFree(base, 8 * chunk));
    say("right: access and unmapping for the whole chunk, and all addresses freed at once");
  });

  step("[3] Grow, and grant no access to the new part");
  in_a_process(start, [](CUdeviceptr base) {
    add_chunk(base);
    CHECK(cuMemSetAccess(base, chunk, &gpu_0, 1));
    add_chunk(base + chunk);  // grows, and says nothing of access
    store<<<1, 1>>>(base, 42);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());  // the old part is as it was
    store<<<1, 1>>>(base + chunk, 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](CUdeviceptr) {
    CUdeviceptr base;
    CHECK(cuMemAddressReserve(&base, 512 * chunk, 0, 0, 0));  // addresses for all that you could ever need
    size_t size = 0;
    for (const size_t wanted : {4 * chunk, 16 * chunk}) {  // two growths: to 4 chunks, and to 16
      const size_t old_size = size;
      for (; size < wanted; size += chunk) {
        CUmemGenericAllocationHandle handle;
        CHECK(cuMemCreate(&handle, chunk, &memory, 0));     // memory, without an address
        CHECK(cuMemMap(base + size, chunk, 0, handle, 0));  // its address: after what is there
        CHECK(cuMemRelease(handle));                        // the mapping keeps the memory
      }
      CHECK(cuMemSetAccess(base + old_size, size - old_size, &gpu_0, 1));  // GPU 0 may use all that is new
    }
    const CUdeviceptr grown = base + size - chunk;
    store<<<1, 1>>>(grown, 42);
    CHECK(cudaGetLastError());
    expect_stored(grown, 42);
    say("right: access to the new part too; the kernel stored 42 there");
  });

  step("[4] Shrink under a running kernel");
  for (const bool waits : {false, true})
    in_a_process(start, [waits](CUdeviceptr base) {
      int* go;
      CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocDefault));
      *go = waits;
      add_chunk(base);
      CHECK(cuMemSetAccess(base, chunk, &gpu_0, 1));
      store_late<<<1, 1>>>(base, 42, go);
      CHECK(cudaGetLastError());
      if (waits) CHECK(cudaDeviceSynchronize());
      CHECK(cuMemUnmap(base, chunk));  // shrinks
      add_chunk(base);                 // other memory comes to the same address
      CHECK(cuMemSetAccess(base, chunk, &gpu_0, 1));
      if (waits) CHECK(cuMemsetD32(base, 7, 1));
      *static_cast<volatile int*>(go) = 1;
      CHECK(cudaDeviceSynchronize());
      expect_stored(base, waits ? 7 : 42);
      say(waits ? "right: waited for the kernel first; the other memory holds its 7"
                : "no error, and the kernel stored its 42 in the other memory");
    });

  std::puts("OK");
}
