// SPDX-License-Identifier: MIT-0
// 01 VMM basics, broken: the mistakes of the lesson's page and a few more, the answer each gets, and the right way.
//
// A kernel that faults ends all CUDA work of its process, so every try has a process of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo vmm_basics_broken.cu -o vmm_basics_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: vmm_basics_broken\n";

// As in the lesson: writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

// Waits until the host has set *go, and then writes.
__global__ void late(int* data, const volatile int* go) {
  while (*go == 0) continue;
  *data = 42;
}

// What each try begins with, in a process of its own: addresses, and memory mapped there. No GPU has access yet.
static CUdeviceptr address;
static CUmemGenericAllocationHandle memory;
static int* map_memory(const CUmemAllocationProp& properties, size_t size) {
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  return reinterpret_cast<int*>(address);
}

// Launches the kernel that waits. What it waits for is in memory of the host that the GPU sees.
static int* launch_late(int* data) {
  int* go;
  CHECK(cudaMallocHost(&go, sizeof *go));
  *go = 0;
  late<<<1, 1>>>(data, go);
  CHECK(cudaGetLastError());
  return go;
}

// A kernel has written 42 there.
static void expect_42(const int* data, const char* story) {
  int found = -1;
  CHECK(cudaMemcpy(&found, data, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 42, "the kernel left %d", found);
  say("%s %d", story, found);
}

static void write_42(int* data, const char* story) {
  fill<<<1, 1>>>(data, 1, 42);
  CHECK(cudaGetLastError());
  expect_42(data, story);
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);      // no child inherits a line that is not written yet
  in_a_process(start_on_gpu_0, [](Granule) {});  // a machine that cannot do this says so first

  step("[1] Ask for it as you would ask cudaMalloc");
  // The driver rounds nothing up, and takes no place for granted.
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, granule] = started;
    const size_t wanted = granule + granule / 2, size = 2 * granule;
    CUmemAllocationProp nowhere = {};  // a location type of 0 names no place
    nowhere.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&address, wanted, 0, 0, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, wanted, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&memory, size, &nowhere, 0));
    int* const data = map_memory(properties, size);
    CHECK(cuMemSetAccess(address, size, &access, 1));
    write_42(data, "right: a rounded size, and a place; the kernel wrote");
  });

  step("[2] Forget the access descriptor");
  // The memory is mapped, and no GPU has access to it, not even the one that holds it.
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    fill<<<1, 1>>>(data, 1, 42);
    CHECK(cudaGetLastError());  // the launch succeeds
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
    void* more;  // and from now on no kernel, copy or allocation works in this process
    REFUSED(cudaErrorIllegalAddress, cudaMalloc(&more, 8));
  });
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    CHECK(cuMemSetAccess(address, size, &access, 1));
    write_42(data, "right: cuMemSetAccess before the kernel, which wrote");
  });

  step("[3] Unmap under a running kernel");
  // The kernel cannot end before *go is set. Had cuMemUnmap waited for it, both would wait for ever.
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    CHECK(cuMemSetAccess(address, size, &access, 1));
    int* const go = launch_late(data);
    CHECK(cuMemUnmap(address, size));
    const cudaError_t asked = cudaStreamQuery(0);
    EXPECT(asked == cudaErrorNotReady, "cudaStreamQuery(0) answers %s", cudaGetErrorName(asked));
    say("unmapped, and the kernel is still running");
    *go = 1;
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    CHECK(cuMemSetAccess(address, size, &access, 1));
    int* const go = launch_late(data);
    *go = 1;
    CHECK(cudaDeviceSynchronize());
    expect_42(data, "right: wait first, then unmap: the kernel has written");
    CHECK(cuMemUnmap(address, size));
  });

  step("[4] Keep the old pointer");
  // The handle and the memory still exist. No address leads to the memory any more.
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    CHECK(cuMemUnmap(address, size));
    fill<<<1, 1>>>(data, 1, 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  // Worse: by then, other memory is mapped there.
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    CHECK(cuMemUnmap(address, size));  // your buffer is gone from here
    CUmemGenericAllocationHandle other;
    CHECK(cuMemCreate(&other, size, &properties, 0));
    CHECK(cuMemMap(address, size, 0, other, 0));  // somebody else's moves in
    CHECK(cuMemSetAccess(address, size, &access, 1));
    CHECK(cudaMemset(data, 0, size));                               // with zeros
    write_42(data, "no error: the first of the others' zeros is");  // your kernel, through the pointer that you saved

    CUdeviceptr elsewhere;
    CHECK(cuMemAddressReserve(&elsewhere, size, 0, 0, 0));
    CHECK(cuMemMap(elsewhere, size, 0, memory, 0));
    CHECK(cuMemSetAccess(elsewhere, size, &access, 1));
    write_42(reinterpret_cast<int*>(elsewhere), "right: a pointer made of the new address; the kernel wrote");
  });

  step("[5] Map where nothing is reserved, or something is mapped");
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    map_memory(properties, size);
    CUmemGenericAllocationHandle more;
    CHECK(cuMemCreate(&more, size, &properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(address + size, size, 0, more, 0));  // the reservation ends there
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(address, size, 0, more, 0));         // it replaces nothing
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(0, size, 0, more, 0));               // 0 is not "anywhere"
    CUdeviceptr enough;
    CHECK(cuMemAddressReserve(&enough, 2 * size, 0, 0, 0));
    CHECK(cuMemMap(enough + size, size, 0, more, 0));
    CHECK(cuMemSetAccess(enough + size, size, &access, 1));
    write_42(reinterpret_cast<int*>(enough + size), "right: addresses for both; the kernel wrote");
  });

  step("[6] Give it back as you would to cudaFree");
  in_a_process(start_on_gpu_0, [](Granule started) {
    const auto [properties, access, size] = started;
    int* const data = map_memory(properties, size);
    REFUSED(cudaErrorInvalidValue, cudaFree(data));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(address, size));  // while something is mapped there
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemRelease(memory));
    CHECK(cuMemAddressFree(address, size));
    say("right: unmapped, released, and the addresses freed");
  });

  std::puts("OK");
}
