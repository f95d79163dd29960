// SPDX-License-Identifier: MIT-0
//
// 03 Multi-GPU, broken: what happens to a GPU that was granted no access, and what grants it?
//
// Each step makes one mistake, shows what the call returns, and then does it right. A kernel that faults ends all CUDA
// work of its process, so every try has a process of its own. Needs two GPUs that support VMM and reach each other.
//
// Build it alone:  nvcc -std=c++17 -lineinfo multi_gpu_broken.cu -o multi_gpu_broken -lcuda
#include "../common/in_a_process.h"

static const char usage[] = "usage: multi_gpu_broken\n";

static Granule start() {
  check::require_gpus(2);
  const Granule granule = start_on_gpu_0();
  for (const CUdevice gpu : {0, 1}) {
    int supported = 0, reaches = 0;
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
    REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
    CHECK(cuDeviceCanAccessPeer(&reaches, gpu, 1 - gpu));
    REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", gpu, 1 - gpu);
  }
  return granule;
}

__global__ void store(int* to, int value) { *to = value; }
__global__ void copy(const int* from, int* to) { *to = *from; }

// Memory of GPU 0, mapped. No GPU has access to it.
static CUdeviceptr mapped(const Granule& granule) {
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  CHECK(cuMemCreate(&handle, granule.size, &granule.properties, 0));
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemMap(address, granule.size, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  return address;
}

static CUmemAccessDesc access_of(int gpu, CUmemAccess_flags flags) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = flags;
  return access;
}
static const CUmemAccess_flags read_only = CU_MEM_ACCESS_FLAGS_PROT_READ,
                               read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

static void store_on(int gpu, CUdeviceptr address) {
  CHECK(cudaSetDevice(gpu));  // a launch goes to the current device
  store<<<1, 1>>>(reinterpret_cast<int*>(address), 42);
  CHECK(cudaGetLastError());
}

// The right form ends here: both GPUs have access, one of them stores, and the value is read back.
static void expect_to_store(const Granule& granule, int gpu, const char* what) {
  const CUdeviceptr address = mapped(granule);
  const CUmemAccessDesc both[] = {access_of(0, read_write), access_of(1, read_write)};
  int found = -1;
  CHECK(cuMemSetAccess(address, granule.size, both, 2));
  store_on(gpu, address);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 42, "the kernel left %d", found);
  say("right: %s; GPU %d stored %d", what, gpu, found);
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Rely on cudaDeviceEnablePeerAccess");
  // It is for memory of cudaMalloc. Access to memory of cuMemCreate is granted by cuMemSetAccess alone.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc owner = access_of(0, read_write);
    CHECK(cuMemSetAccess(address, granule.size, &owner, 1));
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    store_on(1, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) {
    expect_to_store(granule, 1, "a descriptor for GPU 1, and no peer access enabled");
  });

  step("[2] Leave the owner out");
  // The descriptors say who has access. That the memory is on GPU 0 gives GPU 0 none.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc other = access_of(1, read_write);
    CHECK(cuMemSetAccess(address, granule.size, &other, 1));
    store_on(0, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) { expect_to_store(granule, 0, "a descriptor for GPU 0 as well"); });

  step("[3] Write where only reading is allowed");
  // A load works, so the mapping looks fine. The first store ends it.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc rights[] = {access_of(0, read_write), access_of(1, read_only)};
    int* to;
    CHECK(cuMemSetAccess(address, granule.size, rights, 2));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&to, sizeof *to));
    copy<<<1, 1>>>(reinterpret_cast<int*>(address), to);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    say("GPU 1 may read: its load works");
    store_on(1, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) { expect_to_store(granule, 1, "read and write for GPU 1"); });

  step("[4] Name a GPU that this process does not see");
  // A device number counts what CUDA_VISIBLE_DEVICES leaves, from 0 on. It is no rank and no number of nvidia-smi. One
  // bad descriptor spoils the call: the good one beside it has no effect either.
  in_a_process(start, [](Granule granule) {
    const size_t size = granule.size;
    const CUdeviceptr address = mapped(granule);
    int gpus;
    CHECK(cuDeviceGetCount(&gpus));
    const CUmemAccessDesc rights[] = {access_of(0, read_write), access_of(gpus, read_write)};
    unsigned long long flags = ~0ull;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, size, rights, 2));
    CHECK(cuMemGetAccess(&flags, &granule.properties.location, address));
    EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the access of GPU 0 is %llu", flags);
    say("the access of GPU 0 is still none");
    expect_to_store(granule, 1, "numbers below that of cuDeviceGetCount");
  });

  step("[5] Ask one address for the whole array");
  // No call fails. cuMemGetAddressRange returns one mapping, not the array that you made of several: whoever registers
  // or copies "the whole buffer" by it gets one stripe.
  in_a_process(start, [](Granule granule) {
    auto [properties, descriptor, size] = granule;
    CUdeviceptr array, base;
    size_t found = 0, all = 0;
    CHECK(cuMemAddressReserve(&array, 2 * size, 0, 0, 0));
    for (const int gpu : {0, 1}) {
      CUmemGenericAllocationHandle handle;
      properties.location.id = gpu;
      CHECK(cuMemCreate(&handle, size, &properties, 0));
      CHECK(cuMemMap(array + gpu * size, size, 0, handle, 0));
      CHECK(cuMemRelease(handle));
    }
    const CUmemAccessDesc both[] = {access_of(0, read_write), access_of(1, read_write)};
    CHECK(cuMemSetAccess(array, 2 * size, both, 2));
    CHECK(cuMemGetAddressRange(&base, &found, array));
    say("an array of %zu KiB; cuMemGetAddressRange returns %zu KiB", 2 * size >> 10, found >> 10);
    for (; all < 2 * size; all += found) CHECK(cuMemGetAddressRange(&base, &found, array + all));
    EXPECT(all == 2 * size, "%zu bytes in all", all);
    say("right: asked again past each mapping, %zu KiB in all", all >> 10);
  });

  std::puts("OK");
  return 0;
}
