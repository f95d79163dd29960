// SPDX-License-Identifier: MIT-0
// 01 VMM basics, broken: three mistakes, the answer that each gets, and the right way.
//
// A kernel that faults ends all CUDA work of its process, so every try has a process of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo vmm_basics_broken.cu -o vmm_basics_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: vmm_basics_broken\n";

__global__ void store(int* to, int value) { *to = value; }

static CUmemGenericAllocationHandle memory;  // each try has a process of its own, and so its own memory

// Creates one granule of memory, and maps it. No GPU has access yet.
static CUdeviceptr reserve_and_map(const Granule& granule) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
  CHECK(cuMemMap(address, granule.size, 0, memory, 0));
  return address;
}

// What a kernel or a copy left at `from`.
static int read_back(const int* from) {
  int found = -1;
  CHECK(cudaMemcpy(&found, from, sizeof found, cudaMemcpyDeviceToHost));
  return found;
}

// The right form ends here: a kernel stores, and the value is read back.
static void expect_to_store(int* pointer, const char* what) {
  store<<<1, 1>>>(pointer, 42);
  CHECK(cudaGetLastError());
  const int found = read_back(pointer);
  EXPECT(found == 42, "the kernel left %d", found);
  say("right: %s; the kernel stored %d", what, found);
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);      // no child inherits a line that is not written yet
  in_a_process(start_on_gpu_0, [](Granule) {});  // a machine that cannot do this says so first

  step("[1] Forget the access descriptor");
  // The memory is mapped, and no GPU has access to it, not even the one that holds it.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    int* pointer = reinterpret_cast<int*>(reserve_and_map(granule));
    store<<<1, 1>>>(pointer, 42);
    CHECK(cudaGetLastError());  // the launch succeeds
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    void* more;  // and from now on no kernel, copy or allocation works in this process
    REFUSED(cudaErrorIllegalAddress, cudaMalloc(&more, 8));
  });
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr address = reserve_and_map(granule);
    CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
    expect_to_store(reinterpret_cast<int*>(address), "cuMemSetAccess before the kernel");
  });

  step("[2] Use it after cuMemUnmap");
  // The handle and the memory still exist. No address leads to the memory any more.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, access, size] = granule;
    const CUdeviceptr address = reserve_and_map(granule);
    CHECK(cuMemSetAccess(address, size, &access, 1));
    int* saved = reinterpret_cast<int*>(address);
    expect_to_store(saved, "before cuMemUnmap");
    CHECK(cuMemUnmap(address, size));
    store<<<1, 1>>>(saved, 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  // Worse: by then, other memory is mapped there.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, access, size] = granule;
    const CUdeviceptr address = reserve_and_map(granule);
    int* saved = reinterpret_cast<int*>(address);
    CUmemGenericAllocationHandle other;
    CHECK(cuMemCreate(&other, size, &properties, 0));
    CHECK(cuMemUnmap(address, size));             // your buffer is gone from here
    CHECK(cuMemMap(address, size, 0, other, 0));  // somebody else's moves in
    CHECK(cuMemSetAccess(address, size, &access, 1));
    CHECK(cudaMemset(saved, 0, size));  // their data: zeros
    store<<<1, 1>>>(saved, 42);         // your kernel, by the pointer that you saved
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const int found = read_back(saved);
    EXPECT(found == 42, "the other memory has %d", found);
    say("no error: what is mapped there now has the %d", found);
  });

  step("[3] Leave something out");
  // The driver takes nothing for granted: no place, no rounding, no reservation, and no other way to free.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, access, granule_size] = granule;
    CUmemAllocationProp nowhere = {};  // a location type of 0 names no place
    nowhere.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    const size_t size = 3 * granule_size, wanted = size - granule_size / 2 + 1;  // 6 MiB, and 5 MiB and a byte
    CUdeviceptr address = 0;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, size, &nowhere, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, wanted, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, wanted, 0, 0, 0));
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(0, size, 0, memory, 0));
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    CHECK(cuMemMap(address, size, 0, memory, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, size, 0, memory, 0));  // something is mapped there already
    CHECK(cuMemSetAccess(address, size, &access, 1));
    expect_to_store(reinterpret_cast<int*>(address), "a place, a rounded size, a reservation");
    REFUSED(cudaErrorInvalidValue, cudaFree(reinterpret_cast<void*>(address)));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, size));
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemRelease(memory));
    CHECK(cuMemAddressFree(address, size));
    say("right: unmapped, released, and the addresses freed");
  });

  std::puts("OK");
}
