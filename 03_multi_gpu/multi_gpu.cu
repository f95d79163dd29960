// SPDX-License-Identifier: MIT-0
// 03 Multi-GPU: one table in the memory of two GPUs, under one pointer, and who may do what with it.
//
// Build it alone:  nvcc -std=c++17 multi_gpu.cu -o multi_gpu -lcuda
#include "../common/check.h"

static const int gpus = 2;

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

// Asks the driver what each GPU may do with stripe 1, which lies on GPU 1. All stripes get their rights together.
static void say_rights(CUdeviceptr stripe_1) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CUmemLocation location = {};
    location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    location.id = gpu;
    unsigned long long right;
    CHECK(cuMemGetAccess(&right, &location, stripe_1));
    const char* words = "not touch";
    if (right == read_only) words = "read";
    if (right == read_write) words = "read and write";
    say("GPU %d may %s stripe 1", gpu, words);
  }
}

__global__ void fill(int* table, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;  // one thread for each number
  table[i] = first + int(i);
}

__device__ int wrong;  // one on each GPU; nobody resets it, because a wrong number ends the program

__global__ void count_wrong(const int* table, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (table[i] != first + int(i)) atomicAdd(&wrong, 1);
}

// A kernel on the current GPU reads the table, and must find what fill wrote. Waits for the kernel.
static void read_all(const int* table, size_t n, int first) {
  int gpu, found;
  CHECK(cudaGetDevice(&gpu));
  count_wrong<<<n / 256, 256>>>(table, first);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, wrong, sizeof found));
  EXPECT(found == 0, "GPU %d read %zu numbers, and %d were wrong", gpu, n, found);
  say("GPU %d read %zu numbers, all as written", gpu, n);
}

static void require_path(int from, int to) {
  int reaches;
  CHECK(cuDeviceCanAccessPeer(&reaches, from, to));
  REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", from, to);
}

int main() {
  check::require_gpus(gpus);
  require_path(0, 1);
  require_path(1, 0);

  step("[1] Lay the table across the GPUs");
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  size_t granule;  // of GPU 0, and of every GPU of the same model
  CHECK(cuMemGetAllocationGranularity(&granule, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t stripe = granule;  // or a multiple of it: 64 MiB for a large table
  const int stripes = 4;
  const size_t size = stripes * stripe;
  CUdeviceptr table;
  CHECK(cuMemAddressReserve(&table, size, 0, 0, 0));  // one range of addresses
  for (int s = 0; s < stripes; ++s) {
    CUmemGenericAllocationHandle memory;
    memory_on_gpu.location.id = s % gpus;  // the GPUs take turns
    CHECK(cuMemCreate(&memory, stripe, &memory_on_gpu, 0));
    CHECK(cuMemMap(table + s * stripe, stripe, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping keeps it
  }
  for (int s = 0; s < stripes; ++s) {
    int gpu;
    CHECK(cuPointerGetAttribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, table + s * stripe));
    say("stripe %d lies on GPU %d", s, gpu);
  }

  step("[2] Let the loader in");
  const CUmemAccessDesc loader = access_for(0, read_write);
  CHECK(cuMemSetAccess(table, size, &loader, 1));
  say_rights(table + stripe);
  int* const numbers = reinterpret_cast<int*>(table);
  const size_t n = size / sizeof *numbers;
  CHECK(cudaSetDevice(0));  // a kernel runs on the current GPU, wherever its pointer leads
  fill<<<n / 256, 256>>>(numbers, 100);
  CHECK(cudaGetLastError());
  read_all(numbers, n, 100);

  step("[3] Let the reader in");
  const CUmemAccessDesc reader = access_for(1, read_only);
  CHECK(cuMemSetAccess(table, size, &reader, 1));
  say_rights(table + stripe);
  CHECK(cudaSetDevice(1));
  read_all(numbers, n, 100);

  step("[4] Make the reader wait");
  cudaEvent_t loaded;
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreate(&loaded));
  fill<<<n / 256, 256>>>(numbers, 200);  // fresh numbers
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(loaded));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(0, loaded));  // GPU 1 waits; the call returns at once
  read_all(numbers, n, 200);

  step("[5] Make it read-only");
  const CUmemAccessDesc loader_is_done = access_for(0, read_only);
  CHECK(cuMemSetAccess(table, size, &loader_is_done, 1));
  say_rights(table + stripe);
  CHECK(cudaSetDevice(0));
  read_all(numbers, n, 200);

  CHECK(cudaEventDestroy(loaded));
  CHECK(cuMemUnmap(table, size));
  CHECK(cuMemAddressFree(table, size));
  std::puts("OK");
}
