// SPDX-License-Identifier: MIT-0
// 03 Multi-GPU: a buffer for chosen GPUs only, and one table that lies across all of them.
//
// Build it alone:  nvcc -std=c++17 multi_gpu.cu -o multi_gpu -lcuda
#include "../common/check.h"

#include <vector>

static const CUmemAccess_flags none = CU_MEM_ACCESS_FLAGS_PROT_NONE;
static const CUmemAccess_flags read_only = CU_MEM_ACCESS_FLAGS_PROT_READ;
static const CUmemAccess_flags read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

// A GPU and its right, as cuMemSetAccess takes them. By itself it grants nothing.
static CUmemAccessDesc access_for(int gpu, CUmemAccess_flags right) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = right;
  return access;
}

// What the driver says that this GPU may do at this address.
static const char* right_of(int gpu, CUdeviceptr address) {
  const CUmemLocation location = access_for(gpu, none).location;
  unsigned long long right;
  CHECK(cuMemGetAccess(&right, &location, address));
  return right == read_write ? "read and write" : right == read_only ? "read" : "nothing";
}

__global__ void fill(int* data, size_t n, int first) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * size_t(blockDim.x))
    data[i] = first + int(i);
}

__device__ unsigned long long matches;  // each GPU has its own

__global__ void count_matches(const int* data, size_t n, int first) {
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * size_t(blockDim.x))
    mine += data[i] == first + int(i);
  atomicAdd(&matches, mine);
}

// Starts a kernel on this GPU that writes first, first + 1, and so on. Doesn't wait for it.
static void fill_on(int gpu, CUdeviceptr data, size_t n, int first) {
  CHECK(cudaSetDevice(gpu));  // a kernel runs on the current GPU, wherever its pointers lead
  fill<<<256, 256>>>(reinterpret_cast<int*>(data), n, first);
  CHECK(cudaGetLastError());
}

// A kernel on this GPU must find first, first + 1, and so on. Waits for it.
static void check_on(int gpu, CUdeviceptr data, size_t n, int first) {
  const unsigned long long zero = 0;
  unsigned long long found;
  CHECK(cudaSetDevice(gpu));
  count_matches<<<256, 256>>>(reinterpret_cast<int*>(data), n, first);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, matches, sizeof found));
  CHECK(cudaMemcpyToSymbol(matches, &zero, sizeof zero));
  EXPECT(found == n, "GPU %d read %zu numbers, and %llu were right", gpu, n, found);
  say("GPU %d read %zu numbers, all as written", gpu, n);
}

static void require_peers(int gpus) {
  int reaches;
  for (int from = 0; from < gpus; ++from)
    for (int to = 0; to < gpus; ++to) {
      if (from == to) continue;
      CHECK(cuDeviceCanAccessPeer(&reaches, from, to));
      REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", from, to);
    }
}

int main() {
  const int gpus = check::require_gpus(2);
  require_peers(gpus);
  CHECK(cudaSetDevice(0));

  step("[1] Create memory on GPU 0");
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  CUdeviceptr buffer;
  CHECK(cuMemAddressReserve(&buffer, granule, 0, 0, 0));
  CHECK(cuMemCreate(&memory, granule, &memory_on_gpu, 0));
  CHECK(cuMemMap(buffer, granule, 0, memory, 0));
  CHECK(cuMemRelease(memory));  // the mapping keeps it
  say("GPU 0 may: %s. GPU 1 may: %s", right_of(0, buffer), right_of(1, buffer));

  step("[2] Let GPU 1 in, and nobody else");
  const CUmemAccessDesc gpu_1 = access_for(1, read_write);
  CHECK(cuMemSetAccess(buffer, granule, &gpu_1, 1));
  say("GPU 0 may: %s. GPU 1 may: %s", right_of(0, buffer), right_of(1, buffer));
  const size_t n = granule / sizeof(int);
  fill_on(1, buffer, n, 100);
  check_on(1, buffer, n, 100);

  step("[3] One writes, the other reads");
  const CUmemAccessDesc writer_and_reader[] = {access_for(0, read_write), access_for(1, read_only)};
  CHECK(cuMemSetAccess(buffer, granule, writer_and_reader, 2));
  say("GPU 0 may: %s. GPU 1 may: %s", right_of(0, buffer), right_of(1, buffer));
  fill_on(0, buffer, n, 200);
  cudaEvent_t written;
  CHECK(cudaEventCreate(&written));  // on GPU 0, still the current one
  CHECK(cudaEventRecord(written));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(0, written));  // GPU 1 waits for GPU 0, and the CPU for nobody
  check_on(1, buffer, n, 200);

  step("[4] Take access away");
  const CUmemAccessDesc gpu_1_out = access_for(1, none);
  CHECK(cuMemSetAccess(buffer, granule, &gpu_1_out, 1));
  say("GPU 0 may: %s. GPU 1 may: %s", right_of(0, buffer), right_of(1, buffer));
  check_on(0, buffer, n, 200);
  CHECK(cudaEventDestroy(written));
  CHECK(cuMemUnmap(buffer, granule));
  CHECK(cuMemAddressFree(buffer, granule));

  step("[5] Lay one table across all GPUs");
  const int stripes = 2 * gpus;
  CUdeviceptr table;
  CHECK(cuMemAddressReserve(&table, stripes * granule, 0, 0, 0));  // one range of addresses
  for (int s = 0; s < stripes; ++s) {
    memory_on_gpu.location.id = s % gpus;  // a stripe on each GPU in turn
    CHECK(cuMemCreate(&memory, granule, &memory_on_gpu, 0));
    CHECK(cuMemMap(table + s * granule, granule, 0, memory, 0));
    CHECK(cuMemRelease(memory));
  }
  std::vector<CUmemAccessDesc> everyone;
  for (int gpu = 0; gpu < gpus; ++gpu) everyone.push_back(access_for(gpu, read_write));
  CHECK(cuMemSetAccess(table, stripes * granule, everyone.data(), everyone.size()));
  say("%d stripes of %zu KiB on %d GPUs", stripes, granule >> 10, gpus);

  fill_on(0, table, stripes * n, 300);
  CHECK(cudaDeviceSynchronize());  // this time the CPU waits
  for (int gpu = 0; gpu < gpus; ++gpu) check_on(gpu, table, stripes * n, 300);
  CHECK(cuMemUnmap(table, stripes * granule));
  CHECK(cuMemAddressFree(table, stripes * granule));
  std::puts("OK");
}
