// SPDX-License-Identifier: MIT-0
// A unit in a static library.
#include "units.h"

__device__ int counter = 5;
__constant__ int table[4] = {1, 10, 100, 1000};

static __device__ int own = 300;
static __device__ int of_this_unit() { return own; }
__device__ int scaled(int x) { return twice(x) * table[2] + of_this_unit(); }

namespace {
__global__ void kernel(int* out) { *out = of_this_unit() + counter; }
}  // namespace

int from_library() {
  int *out, value = -1;
  cudaMalloc(&out, sizeof value);
  kernel<<<1, 1>>>(out);
  cudaMemcpy(&value, out, sizeof value, cudaMemcpyDefault);
  cudaFree(out);
  return value;
}
