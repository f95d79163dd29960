// SPDX-License-Identifier: MIT-0
// A program of several units, compiled with -rdc=true and linked on the device: names that are found in another unit,
// and names that mean something else in each.
#include "../check.h"
#include "units.h"

static __device__ int own = 1;
static __device__ int of_this_unit() { return own; }

namespace {

__global__ void kernel(int* out) {
  extern __shared__ int of_launch[];
  __shared__ int sum;  // other.cu has one of this name
  if (threadIdx.x == 0) of_launch[0] = 1000;
  if (threadIdx.x == 0) sum = 50;
  __syncthreads();
  const int all = sum_of_block(1);
  if (threadIdx.x != 0) return;
  out[0] = of_this_unit();
  out[1] = scaled(3);
  out[2] = all;
  out[3] = sum;
  out[4] = table[1];
  out[5] = atomicAdd(where_counter_is, 2);
  out[6] = counter;
}

}  // namespace

int main() {
  int *out, got[7], counted = -1, set = 40;
  CHECK(cudaMalloc(&out, sizeof got));
  CHECK(cudaMemcpyToSymbol(table, &set, sizeof set, sizeof set));
  kernel<<<1, 64, 64>>>(out);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(got, out, sizeof got, cudaMemcpyDefault));
  const int expected[] = {1, 900, 1064, 50, 40, 5, 7};
  for (int i = 0; i < 7; ++i) EXPECT(got[i] == expected[i], "the kernel's word %d is %d", i, got[i]);
  CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  EXPECT(counted == 7, "counter is %d", counted);
  EXPECT(from_library() == 307, "library.cu's kernel: its static variable, and the counter");
  EXPECT(from_other() == 1021, "other.cu's kernel: its static variable, which the host set, and the table");
  use<<<1, 1>>>(out);
  CHECK(cudaMemcpy(got, out, sizeof *got, cudaMemcpyDefault));
  EXPECT(got[0] == 101 && use_in_other() == 102, "two units have one variable of a template");
  CHECK(cudaFree(out));
  std::puts("OK");
}
