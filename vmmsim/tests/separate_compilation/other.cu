// SPDX-License-Identifier: MIT-0
#include <cstdio>
#include "units.h"

__device__ int* where_counter_is = &counter;

static __device__ int own = 20;
static __device__ int of_this_unit() { return own; }

__device__ int sum_of_block(int x) {
  __shared__ int sum;
  extern __shared__ int of_launch[];
  if (threadIdx.x == 0) sum = of_launch[0];
  __syncthreads();
  atomicAdd(&sum, x);
  __syncthreads();
  if (threadIdx.x == 0) printf("sum %d\n", sum);
  return sum;
}

namespace {
__global__ void kernel(int* out) { *out = of_this_unit() + table[3]; }
}  // namespace

int from_other() {
  int *out, value = -1, changed = 21;
  cudaMalloc(&out, sizeof value);
  cudaMemcpyToSymbol(own, &changed, sizeof changed);
  kernel<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDefault);
  cudaFree(out);
  return value;
}

int use_in_other() {
  int *out, value = -1;
  cudaMalloc(&out, sizeof value);
  use<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDefault);
  cudaFree(out);
  return value;
}
