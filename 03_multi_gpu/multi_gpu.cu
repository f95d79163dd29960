// SPDX-License-Identifier: MIT-0
// 03 Multi-GPU: one table in the memory of two GPUs, under one pointer, and who may do what with it.
// Build it alone:  nvcc -std=c++17 multi_gpu.cu -o multi_gpu -lcuda
#include "../common/check.h"

static const int gpus = 2;
static const int width = 128;    // integers in a row of the table, 512 bytes
static const int queries = 256;  // rows that are looked up at once

// A GPU and its rights, as cuMemSetAccess takes them. By itself it opens nothing.
static CUmemAccessDesc access_for(int gpu, CUmemAccess_flags rights) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = rights;
  return access;
}

// What a GPU may do at an address, as the driver sees it.
static const char* may(int gpu, CUdeviceptr address) {
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = gpu;
  unsigned long long rights;
  CHECK(cuMemGetAccess(&rights, &location, address));
  if (rights == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return "may read and write";
  return rights == CU_MEM_ACCESS_FLAGS_PROT_READ ? "may only read" : "may not touch";
}

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

// In managed memory, so that the CPU asks and checks, and kernels on either GPU answer.
__managed__ int wanted[queries];        // the numbers of the rows to look up
__managed__ int found[queries][width];  // those rows

// Block q fetches row wanted[q], and each of its threads copies one integer.
__global__ void look_up(const int* table) {
  const int q = blockIdx.x, column = threadIdx.x;
  found[q][column] = table[size_t(wanted[q]) * width + column];
}

// Lets a GPU look up the wanted rows, waits for it, and compares them with what fill wrote.
static void look_up_on(int gpu, const int* table, int first) {
  CHECK(cudaSetDevice(gpu));
  look_up<<<queries, width>>>(table);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());

  int wrong = 0;
  for (int q = 0; q < queries; ++q) {
    int column = 0;
    while (column < width && found[q][column] == first + wanted[q] * width + column) ++column;
    if (column < width) ++wrong;
  }
  EXPECT(wrong == 0, "GPU %d found %d rows, and %d were wrong", gpu, queries, wrong);
  say("GPU %d found %d rows, all as written", gpu, queries);
}

int main() {
  check::require_gpus(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    int reaches;
    CHECK(cuDeviceCanAccessPeer(&reaches, gpu, 1 - gpu));
    REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", gpu, 1 - gpu);
  }

  step("[1] Lay the table across the GPUs");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  size_t granule;  // of GPU 0, and of every GPU of the same model
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));

  const int stripes = 4;
  const size_t stripe = granule;  // for a large table a multiple of it, such as 64 MiB
  const size_t size = stripes * stripe;
  CUdeviceptr table;
  CHECK(cuMemAddressReserve(&table, size, 0, 0, 0));  // one range of addresses

  for (int s = 0; s < stripes; ++s) {
    properties.location.id = s % gpus;  // the GPUs take turns
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, stripe, &properties, 0));
    CHECK(cuMemMap(table + s * stripe, stripe, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping keeps it

    int gpu;
    CHECK(cuPointerGetAttribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, table + s * stripe));
    say("stripe %d lies on GPU %d", s, gpu);
  }

  step("[2] Let the loader in");
  const CUmemAccessDesc gpu_0_writes = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cuMemSetAccess(table, size, &gpu_0_writes, 1));
  say("GPU 0 %s stripe 1, GPU 1 %s it", may(0, table + stripe), may(1, table + stripe));

  int* const pointer = reinterpret_cast<int*>(table);
  const size_t n = size / sizeof *pointer;
  const int rows = n / width;
  CHECK(cudaSetDevice(0));  // a kernel runs on the current GPU, wherever its pointer leads
  fill<<<(n + 255) / 256, 256>>>(pointer, n, 100);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  say("GPU 0 wrote %d rows", rows);

  step("[3] Let the reader in");
  const CUmemAccessDesc gpu_1_reads = access_for(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(cuMemSetAccess(table, size, &gpu_1_reads, 1));
  say("GPU 0 %s stripe 1, GPU 1 %s it", may(0, table + stripe), may(1, table + stripe));

  // Rows from here and there, some of each stripe.
  for (int q = 0; q < queries; ++q) wanted[q] = q * 7919 % rows;
  look_up_on(1, pointer, 100);

  step("[4] Make the reader wait");
  cudaEvent_t loaded;
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreate(&loaded));
  fill<<<(n + 255) / 256, 256>>>(pointer, n, 200);  // fresh rows
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(loaded));

  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(0, loaded));  // GPU 1 waits; the CPU goes on
  look_up_on(1, pointer, 200);

  step("[5] Make it read-only");
  const CUmemAccessDesc gpu_0_reads = access_for(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(cuMemSetAccess(table, size, &gpu_0_reads, 1));
  say("GPU 0 %s stripe 1, GPU 1 %s it", may(0, table + stripe), may(1, table + stripe));
  look_up_on(0, pointer, 200);
  look_up_on(1, pointer, 200);

  CHECK(cudaEventDestroy(loaded));
  CHECK(cuMemUnmap(table, size));
  CHECK(cuMemAddressFree(table, size));
  std::puts("OK");
}
