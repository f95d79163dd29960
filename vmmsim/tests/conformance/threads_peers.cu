// SPDX-License-Identifier: MIT-0
// Threads of one process, each with a GPU of its own, that make, map, open, use and give back memory at the same time.
// Every other round the memory is the other GPU's, and each range has a page of each.
#include "conformance.h"

#include <atomic>
#include <thread>

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = seed + i;
}
__global__ void count(const unsigned* data, size_t n, unsigned seed, unsigned* right) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    if (data[i] == seed + unsigned(i)) atomicAdd(right, 1);
}

constexpr int threads = 4, rounds = 12;
static std::atomic<int> done = 0;

static void work(unsigned number) {
  const int gpu = number % 2;
  CHECK(cudaSetDevice(gpu));
  cudaStream_t stream;
  unsigned* right;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&right, sizeof *right));
  for (int round = 0; round < rounds; ++round) {
    const unsigned seed = 1000 * number + round, n = 2 * page / sizeof(unsigned);
    const CUdeviceptr range = reserve(2 * page);
    map_new(range, page, 0, (gpu + round) % 2);
    map_new(range + page, page, 0, (gpu + round + 1) % 2);
    const CUmemAccessDesc both[] = {access_of(0), access_of(1)};
    CHECK(cuMemSetAccess(range, 2 * page, round % 3 ? both : both + gpu, round % 3 ? 2 : 1));
    CHECK(cudaMemsetAsync(right, 0, sizeof *right, stream));
    fill<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(range), n, seed);
    count<<<4, 256, 0, stream>>>(reinterpret_cast<unsigned*>(range), n, seed, right);
    CHECK(cudaGetLastError());
    unsigned found = 0;
    CHECK(cudaMemcpyAsync(&found, right, sizeof found, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(found == n, "thread %u, round %d: %u of %u words", number, round, found, n);
    unmap_and_free(range, 2 * page, 2 * page);
    ++done;
  }
  CHECK(cudaFree(right));
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  require_peers();
  cudaFuncAttributes loaded;
  for (int gpu : {1, 0}) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFuncGetAttributes(&loaded, fill));
    CHECK(cudaFuncGetAttributes(&loaded, count));
  }
  std::vector<std::thread> all;
  for (unsigned i = 0; i < threads; ++i) all.emplace_back(work, i);
  for (std::thread& thread : all) thread.join();
  say("rounds that went well", std::to_string(done));
  std::printf("OK\n");
}
