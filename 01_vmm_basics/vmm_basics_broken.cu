// SPDX-License-Identifier: MIT-0
// 01 VMM basics, broken: six mistakes, the answer that each gets, and the right way.
//
// A kernel that faults ends all CUDA work of its process, so every try has a process of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo vmm_basics_broken.cu -o vmm_basics_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: vmm_basics_broken\n";

__global__ void store(int* to, int value) { *to = value; }

static void launch_store(CUdeviceptr to) {
  store<<<1, 1>>>(reinterpret_cast<int*>(to), 42);
  CHECK(cudaGetLastError());
}

static CUmemGenericAllocationHandle handle;  // each try has a process of its own, and so its own handle

// Creates one granule of memory, and maps it. No GPU has access yet.
static CUdeviceptr reserve_and_map(const Granule& granule) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemCreate(&handle, granule.size, &granule.properties, 0));
  CHECK(cuMemMap(address, granule.size, 0, handle, 0));
  return address;
}

// The right form ends here: a kernel stores, and the value is read back.
static void expect_to_store(CUdeviceptr address, const char* what) {
  int found = -1;
  launch_store(address);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
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
    const CUdeviceptr address = reserve_and_map(granule);
    launch_store(address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    void* more;  // and from now on no kernel, copy or allocation works in this process
    REFUSED(cudaErrorIllegalAddress, cudaMalloc(&more, 8));
  });
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr address = reserve_and_map(granule);
    CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
    expect_to_store(address, "cuMemSetAccess before the kernel");
  });

  step("[2] Leave the location out");
  // Zeros are no default: a location type of 0 names no place.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const size_t size = granule.size;
    CUmemAllocationProp incomplete = {};
    incomplete.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, size, &incomplete, 0));
    incomplete.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    incomplete.location.id = 0;
    CHECK(cuMemCreate(&handle, size, &incomplete, 0));
    say("right: with location.type and location.id the memory is created");
  });

  step("[3] Map where nothing is reserved");
  // For mmap, address 0 means "anywhere". The driver maps into reservations only.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, descriptor, size] = granule;
    CUdeviceptr address = 0;
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, size, 0, handle, 0));
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    CHECK(cuMemMap(address, size, 0, handle, 0));
    CHECK(cuMemSetAccess(address, size, &descriptor, 1));
    expect_to_store(address, "reserved first");
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, size, 0, handle, 0));  // something is mapped there already
  });

  step("[4] Free it with cudaFree");
  // cudaFree undoes cudaMalloc only. Four calls made this memory, and addresses are freed when nothing is mapped there.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr address = reserve_and_map(granule);
    const size_t size = granule.size;
    REFUSED(cudaErrorInvalidValue, cudaFree(reinterpret_cast<void*>(address)));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, size));
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemAddressFree(address, size));
    say("right: unmapped, released, and the addresses freed");
  });

  step("[5] Use it after cuMemUnmap");
  // The handle and the memory still exist. No address leads to the memory any more.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr address = reserve_and_map(granule);
    CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
    expect_to_store(address, "before cuMemUnmap");
    CHECK(cuMemUnmap(address, granule.size));
    launch_store(address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  // Worse: by then, other memory is mapped there.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const CUdeviceptr address = reserve_and_map(granule);
    CHECK(cuMemUnmap(address, granule.size));
    CUmemGenericAllocationHandle other;
    CHECK(cuMemCreate(&other, granule.size, &granule.properties, 0));
    CHECK(cuMemMap(address, granule.size, 0, other, 0));
    CHECK(cuMemSetAccess(address, granule.size, &granule.descriptor, 1));
    launch_store(address);
    CHECK(cudaDeviceSynchronize());
    int found = -1;
    CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
    EXPECT(found == 42, "the other memory has %d", found);
    say("no error: what is mapped there now has the %d", found);
  });

  step("[6] Forget to round up");
  // cudaMalloc takes any size. These calls take whole granules, and they don't round.
  in_a_process(start_on_gpu_0, [](Granule granule) {
    const auto [properties, descriptor, granule_size] = granule;
    EXPECT(granule_size > 0, "a granule has no bytes");
    CUdeviceptr address;
    size_t size = (5 << 20) + 1;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, size, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, size, 0, 0, 0));
    size = (size + granule_size - 1) / granule_size * granule_size;
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    say("right: rounded up to %zu KiB", size >> 10);
  });

  std::puts("OK");
}
