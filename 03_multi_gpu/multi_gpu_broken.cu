// SPDX-License-Identifier: MIT-0
// 03 Multi-GPU, broken: what happens to a GPU that was not let in, and what lets it in?
//
// Each step makes one mistake, shows the answer, and then does it right. A kernel that faults ends all CUDA work of its
// process, so every try has a process of its own. Needs two GPUs that support VMM and reach each other.
//
// Build it alone:  nvcc -std=c++17 -lineinfo multi_gpu_broken.cu -o multi_gpu_broken -lcuda
#include "../common/in_a_process.h"

static const CUmemAccess_flags read_only = CU_MEM_ACCESS_FLAGS_PROT_READ;
static const CUmemAccess_flags read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

static CUmemAccessDesc access_for(int gpu, CUmemAccess_flags rights) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = rights;
  return access;
}

static Granule start() {
  check::require_gpus(2);
  for (const int gpu : {0, 1}) {
    int reaches = 0;
    CHECK(cuDeviceCanAccessPeer(&reaches, gpu, 1 - gpu));
    REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", gpu, 1 - gpu);
  }
  return start_on_gpu_0();
}

// Memory of GPU 0, mapped. No GPU has access to it.
static CUdeviceptr mapped(const Granule& granule) {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemMap(address, granule.size, 0, memory, 0));
  CHECK(cuMemRelease(memory));
  return address;
}

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

__global__ void copy(const int* from, int* to) { *to = *from; }

static void store_on(int gpu, CUdeviceptr address) {
  CHECK(cudaSetDevice(gpu));  // a kernel runs on the current GPU
  fill<<<1, 1>>>(reinterpret_cast<int*>(address), 1, 42);
  CHECK(cudaGetLastError());
}

static void load_on(int gpu, CUdeviceptr address) {
  int* to;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMalloc(&to, sizeof *to));
  copy<<<1, 1>>>(reinterpret_cast<int*>(address), to);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(to));
}

// The right form ends here: what the kernel stored is read back.
static void expect_42(CUdeviceptr address, int gpu, const char* what) {
  int found = -1;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 42, "the kernel left %d", found);
  say("right: %s; GPU %d stored %d", what, gpu, found);
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Leave the owner out");
  // The descriptors say who has access. That the memory is on GPU 0 gives GPU 0 none.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc others[] = {access_for(1, read_write)};
    CHECK(cuMemSetAccess(address, granule.size, others, 1));
    store_on(0, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc both[] = {access_for(0, read_write), access_for(1, read_write)};
    CHECK(cuMemSetAccess(address, granule.size, both, 2));
    store_on(0, address);
    expect_42(address, 0, "a descriptor for GPU 0 as well");
  });

  step("[2] Rely on cudaDeviceEnablePeerAccess");
  // It is for memory of cudaMalloc. Memory of cuMemCreate is opened by cuMemSetAccess alone.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc gpu_0 = access_for(0, read_write);
    CHECK(cuMemSetAccess(address, granule.size, &gpu_0, 1));
    CHECK(cudaSetDevice(1));
    CHECK(cudaDeviceEnablePeerAccess(0, 0));
    store_on(1, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc both[] = {access_for(0, read_write), access_for(1, read_write)};
    CHECK(cuMemSetAccess(address, granule.size, both, 2));
    store_on(1, address);
    expect_42(address, 1, "a descriptor for GPU 1, and no peer access enabled");
  });

  step("[3] Write where only reading is allowed");
  // A load works, so the mapping looks fine. The first store ends it.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc both[] = {access_for(0, read_write), access_for(1, read_only)};
    CHECK(cuMemSetAccess(address, granule.size, both, 2));
    load_on(1, address);
    say("GPU 1 may read: its load works");
    store_on(1, address);
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    const CUmemAccessDesc both[] = {access_for(0, read_write), access_for(1, read_write)};
    CHECK(cuMemSetAccess(address, granule.size, both, 2));
    store_on(1, address);
    expect_42(address, 1, "read and write for GPU 1");
  });

  step("[4] Name a GPU that this process does not see");
  // A device number counts what CUDA_VISIBLE_DEVICES leaves, from 0 on. It is no rank and no number of nvidia-smi. One
  // bad descriptor spoils the call: the good one beside it has no effect either.
  in_a_process(start, [](Granule granule) {
    const CUdeviceptr address = mapped(granule);
    int gpus;
    CHECK(cuDeviceGetCount(&gpus));
    const int rank = gpus + 1, local_rank = 1;  // as on the second machine; the launcher tells both
    CUmemAccessDesc both[] = {access_for(0, read_write), access_for(rank, read_write)};
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(address, granule.size, both, 2));
    unsigned long long rights = ~0ull;
    CHECK(cuMemGetAccess(&rights, &granule.properties.location, address));
    EXPECT(rights == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the rights of GPU 0 are %llu", rights);
    say("the access of GPU 0 is still none");

    both[1] = access_for(local_rank, read_write);
    CHECK(cuMemSetAccess(address, granule.size, both, 2));
    store_on(1, address);
    expect_42(address, 1, "numbers below that of cuDeviceGetCount");
  });

  step("[5] Take one stripe for the whole table");
  // No call fails. cuMemGetAddressRange knows mappings, and not the table that you made of them: whoever copies or
  // registers "the whole buffer" by its answer gets one stripe.
  in_a_process(start, [](Granule granule) {
    const size_t stripe = granule.size, MiB = 1 << 20;
    CUdeviceptr table, base;
    size_t found = 0;
    CHECK(cuMemAddressReserve(&table, 2 * stripe, 0, 0, 0));
    for (const int gpu : {0, 1}) {
      granule.properties.location.id = gpu;
      CUmemGenericAllocationHandle memory;
      CHECK(cuMemCreate(&memory, stripe, &granule.properties, 0));
      CHECK(cuMemMap(table + gpu * stripe, stripe, 0, memory, 0));
      CHECK(cuMemRelease(memory));
    }
    const CUmemAccessDesc both[] = {access_for(0, read_write), access_for(1, read_write)};
    CHECK(cuMemSetAccess(table, 2 * stripe, both, 2));
    CHECK(cuMemGetAddressRange(&base, &found, table));
    say("a table of %zu MiB; cuMemGetAddressRange returns %zu MiB", 2 * stripe / MiB, found / MiB);

    size_t all = 0;
    while (all < 2 * stripe) {
      CHECK(cuMemGetAddressRange(&base, &found, table + all));
      all += found;
    }
    EXPECT(all == 2 * stripe, "%zu bytes in all", all);
    say("right: asked again at the end of each mapping, %zu MiB in all", all / MiB);
  });

  std::puts("OK");
}
