// SPDX-License-Identifier: MIT-0
// What the labs share: the checking header of the lessons, TODO, how a lab begins and ends, and two kernels.
#pragma once
#include <vector>
#include "../common/check.h"

// Stands where your part is missing: says where and what, and ends the program with status 1.
#define TODO(text) check::end(1, "%s:%d: TODO: %s", __FILE__, __LINE__, text)
namespace lab {
__device__ unsigned long long counted;     // by the kernel below
inline std::vector<size_t> free_at_start;  // bytes, of each GPU

inline size_t free_memory(int gpu) {
  size_t free = 0, total = 0;
  void* loaded = nullptr;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaGetSymbolAddress(&loaded, counted));  // what is loaded later would take memory then
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

// The machine must have so many GPUs. GPU 0 is then the current one.
inline void begin(int gpus = 1) {
  check::require_gpus(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) free_at_start.push_back(free_memory(gpu));
  CHECK(cudaSetDevice(0));
}

// Says how much less memory is free than at the start; main returns what it returns.
inline int end() {
  long long missing = 0;
  for (size_t gpu = 0; gpu < free_at_start.size(); ++gpu) missing += free_at_start[gpu] - free_memory(int(gpu));
  return std::printf("%lld KiB are not given back\nOK\n", missing / 1024) < 0;
}

template <class T> __global__ void fill_kernel(T* data, size_t n, T value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value;
}

template <class T> __global__ void count_kernel(const T* data, size_t n, T value) {
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) mine += data[i] == value;
  atomicAdd(&counted, mine);
}

// The current GPU writes `value` to each of the n elements at `address`, and is waited for.
template <class T> void fill(CUdeviceptr address, size_t n, T value) {
  fill_kernel<<<4, 256>>>(reinterpret_cast<T*>(address), n, value);
  CHECK(cudaDeviceSynchronize());
}

// How many of the n elements at `address` are `value`, as the current GPU reads them.
template <class T> unsigned long long count(CUdeviceptr address, size_t n, T value) {
  unsigned long long found = 0;
  CHECK(cudaMemcpyToSymbol(counted, &found, sizeof found));
  count_kernel<<<4, 256>>>(reinterpret_cast<const T*>(address), n, value);
  CHECK(cudaMemcpyFromSymbol(&found, counted, sizeof found));
  return found;
}

// Made here, so that nobody can make them otherwise.
template void fill(CUdeviceptr, size_t, char);
template void fill(CUdeviceptr, size_t, int);
template unsigned long long count(CUdeviceptr, size_t, char);
template unsigned long long count(CUdeviceptr, size_t, int);
}  // namespace lab
