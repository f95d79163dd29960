// SPDX-License-Identifier: MIT-0
// Threads of one process that make, map, use and give back memory at the same time, each with a stream of its own.
#include "conformance.h"

#include <atomic>
#include <thread>
#include <vector>

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = seed + i;
}
__global__ void count(const unsigned* data, size_t n, unsigned seed, unsigned* right) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (data[i] == seed + unsigned(i)) atomicAdd(right, 1);
}

constexpr int threads = 4, rounds = 12;

static std::atomic<int> done = 0;

// Two allocations side by side, one of them also at a second address: filled at the first, counted at both.
static void work(unsigned number) {
  CHECK(cudaSetDevice(0));
  cudaStream_t stream;
  unsigned* right;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&right, sizeof *right));
  for (int round = 0; round < rounds; ++round) {
    const unsigned seed = 1000 * number + round, n = 2 * page / sizeof(unsigned);
    const CUdeviceptr a = reserve(4 * page);
    map_new(a, page);
    const CUmemGenericAllocationHandle handle = create(page);
    for (size_t offset : {page, 3 * page}) CHECK(cuMemMap(a + offset, page, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CUmemAccessDesc descriptor = access_of(0);
    CHECK(cuMemSetAccess(a + page, page, &descriptor, 1));
    CHECK(cuMemSetAccess(a + 3 * page, page, &descriptor, 1));
    CHECK(cudaMemsetAsync(right, 0, sizeof *right, stream));
    fill<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(a), n, seed);
    count<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(a), n, seed, right);
    count<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(a + 3 * page), n / 2, seed + n / 2, right);
    CHECK(cudaGetLastError());
    unsigned found = 0;
    CHECK(cudaMemcpyAsync(&found, right, sizeof found, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(found == n + n / 2, "thread %u, round %d: %u of %u words", number, round, found, n + n / 2);
    CHECK(cuMemUnmap(a, 2 * page));
    CHECK(cuMemUnmap(a + 3 * page, page));
    CHECK(cuMemAddressFree(a, 4 * page));
    ++done;
  }
  CHECK(cudaFree(right));
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  CHECK(cudaFuncGetAttributes(&loaded, count));
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i);
  for (std::thread& thread : all) thread.join();
  say("rounds that went well", std::to_string(done));
  std::printf("OK\n");
}
