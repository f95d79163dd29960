// SPDX-License-Identifier: MIT-0
#include "allocate.cu"

#include <cuda_runtime.h>
#include <cstdio>

// Build it:  cp docs/paste/{example,allocate}.cu . && nvcc -std=c++17 example.cu -o example -lcuda
__global__ void fill(float* data, size_t n, float value) {
  const size_t threads = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += threads) data[i] = value;
}

int main() {
  if (cudaSetDevice(0) != cudaSuccess) return 1;  // starts the driver, and makes a context for the kernel
  CUdeviceptr address;
  size_t size = 1000000 * sizeof(float);  // becomes 4 MiB on an H200
  if (allocate(&address, &size, 0) != CUDA_SUCCESS) return 1;

  float last = 0, *data = reinterpret_cast<float*>(address);
  fill<<<256, 256>>>(data, 1000000, 1.5f);
  const cudaError_t launched = cudaGetLastError();  // a launch returns nothing, and a copy does not tell of it
  const cudaError_t copied = cudaMemcpy(&last, data + 999999, sizeof last, cudaMemcpyDeviceToHost);
  const bool right = launched == cudaSuccess && copied == cudaSuccess;
  if (right) std::printf("the last element is %g; %zu bytes are mapped\n", last, size);
  return deallocate(address, size) == CUDA_SUCCESS && right ? 0 : 1;
}
