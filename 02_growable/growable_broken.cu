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

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

// Writes one integer, when the host says so, or after some seconds.
__global__ void write_late(int* data, int value, const volatile int* go) {
  for (int i = 0; i < 10000000 && !*go; ++i) {
  }
  *data = value;
}

static void expect_found(CUdeviceptr address, int value) {
  int found = -1;
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == value, "the kernel left %d", found);
}

static int* pointer(CUdeviceptr address) { return reinterpret_cast<int*>(address); }

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet

  size_t granule;                  // a chunk has one granule
  CUmemAllocationProp properties;  // ordinary memory of GPU 0
  CUmemAccessDesc access;          // GPU 0 may read and write

  // How each try starts: with addresses for eight chunks, and no memory yet.
  const auto start = [&] {
    const Granule started = start_on_gpu_0();
    granule = started.size;
    properties = started.properties;
    access = started.access;
    CUdeviceptr address;
    CHECK(cuMemAddressReserve(&address, 8 * granule, 0, 0, 0));
    return address;
  };
  const auto add_chunk = [&](CUdeviceptr at) {
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, granule, &properties, 0));
    CHECK(cuMemMap(at, granule, 0, memory, 0));
    CHECK(cuMemRelease(memory));
  };
  in_a_process(start, [](CUdeviceptr) {});  // a machine that cannot do this says so first

  step("[1] Map a large allocation piece by piece");
  in_a_process(start, [&](CUdeviceptr address) {
    CUmemGenericAllocationHandle large;
    CHECK(cuMemCreate(&large, 4 * granule, &properties, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address, granule, 0, large, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(address + granule, granule, granule, large, 0));
    for (int i = 0; i < 4; ++i) add_chunk(address + i * granule);
    say("right: an allocation for each chunk; 4 chunks are mapped");
  });

  step("[2] Open the buffer once, at the beginning");
  for (const bool opens : {false, true})
    in_a_process(start, [&, opens](CUdeviceptr address) {
      add_chunk(address);
      CHECK(cuMemSetAccess(address, granule, &access, 1));
      add_chunk(address + granule);  // the buffer grows
      if (opens) CHECK(cuMemSetAccess(address + granule, granule, &access, 1));
      fill<<<1, 1>>>(pointer(address), 1, 42);
      CHECK(cudaGetLastError());
      CHECK(cudaDeviceSynchronize());  // the old chunk is as it was
      fill<<<1, 1>>>(pointer(address + granule), 1, 42);
      CHECK(cudaGetLastError());
      if (!opens) {
        REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        return;
      }
      expect_found(address + granule, 42);
      say("right: opened the new chunk too; the kernel wrote 42 there");
    });

  step("[3] Count chunks that are not open");
  for (const bool undoes : {false, true})
    in_a_process(start, [&, undoes](CUdeviceptr address) {
      add_chunk(address);
      CHECK(cuMemSetAccess(address, granule, &access, 1));
      size_t size = granule;
      add_chunk(address + size);  // the first of two new chunks; let's say that there's no memory for the second
      if (undoes) CHECK(cuMemUnmap(address + size, granule));
      else size += granule;  // counts the new chunk, which is mapped, and closed

      for (size_t at = size; at < 4 * granule; at += granule) add_chunk(address + at);  // the next growth
      CHECK(cuMemSetAccess(address + size, 4 * granule - size, &access, 1));            // opens what is new
      fill<<<1, 1>>>(pointer(address + granule), 1, 42);
      CHECK(cudaGetLastError());
      if (!undoes) {
        REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
        return;
      }
      expect_found(address + granule, 42);
      say("right: unmapped the new chunk first; the next growth opened all that is new");
    });

  step("[4] Keep the size that was asked for");
  in_a_process(start, [&](CUdeviceptr address) {
    const size_t wanted = granule - 1000;  // takes a whole chunk
    add_chunk(address);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, wanted, &access, 1));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(address, wanted));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, wanted));
    CHECK(cuMemSetAccess(address, granule, &access, 1));
    CHECK(cuMemUnmap(address, granule));
    CHECK(cuMemAddressFree(address, 8 * granule));
    say("right: opened and unmapped the whole chunk, and freed all addresses at once");
  });

  step("[5] Shrink under a running kernel");
  for (const bool waits : {false, true})
    in_a_process(start, [&, waits](CUdeviceptr address) {
      int* go;
      CHECK(cudaHostAlloc(&go, sizeof *go, cudaHostAllocDefault));
      *go = waits;
      add_chunk(address);
      CHECK(cuMemSetAccess(address, granule, &access, 1));
      write_late<<<1, 1>>>(pointer(address), 42, go);
      CHECK(cudaGetLastError());
      if (waits) CHECK(cudaDeviceSynchronize());
      CHECK(cuMemUnmap(address, granule));  // shrinks
      add_chunk(address);                   // grows: other memory comes to the same address
      CHECK(cuMemSetAccess(address, granule, &access, 1));
      if (waits) CHECK(cuMemsetD32(address, 7, 1));
      *static_cast<volatile int*>(go) = 1;
      CHECK(cudaDeviceSynchronize());
      expect_found(address, waits ? 7 : 42);
      say(waits ? "right: waited for the kernel first; the other memory holds its 7"
                : "no error, and the kernel wrote its 42 into the other memory");
    });

  std::puts("OK");
}
