// SPDX-License-Identifier: MIT-0
// fill N: N numbers in the memory of each GPU. fill tensor: tensor cores, which nobody simulates.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                \
  if (const cudaError_t error = (call)) {                                                          \
    std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error)); \
    std::exit(1);                                                                                  \
  }

__global__ void fill(int* numbers, int count) {
  const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) numbers[i] = 2 * i;
}

__global__ void multiply() {
  int d[4];
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
               : "=r"(d[0]), "=r"(d[1])
               : "r"(1), "r"(1), "r"(0), "r"(0));
}

int main(int, char** words) {
  if (!std::strcmp(words[1], "tensor")) {
    multiply<<<1, 32>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    return 0;
  }
  const int count = std::atoi(words[1]);
  int gpus = 0;
  CHECK(cudaGetDeviceCount(&gpus));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    int* numbers = nullptr;
    CHECK(cudaMalloc(&numbers, count * sizeof(int)));
    fill<<<(count + 255) / 256, 256>>>(numbers, count);
    CHECK(cudaGetLastError());
    std::vector<int> copy(count);
    CHECK(cudaMemcpy(copy.data(), numbers, count * sizeof(int), cudaMemcpyDefault));
    CHECK(cudaFree(numbers));
    for (int i = 0; i < count; ++i)
      if (copy[i] != 2 * i) return std::fprintf(stderr, "GPU %d: number %d is %d\n", gpu, i, copy[i]), 1;
  }
  std::printf("%d numbers on each of %d GPUs\n", count, gpus);
}
