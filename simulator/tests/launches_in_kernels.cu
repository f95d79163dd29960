// SPDX-License-Identifier: MIT-0
// A kernel that launches another is refused, and the others of its module are not.
#include "../../common/check.h"

__device__ int launched;
__global__ void child(int* to) { *to = 1; }
__device__ __noinline__ void launch(int* to) {
  child<<<1, 1>>>(to);
  ++launched;
}
__global__ void parent(int* to) { launch(to); }
__global__ void plain(int* to) { *to = 7 + launched; }

int main() {
  check::require_gpus(1);
  int *number, found = 0;
  CHECK(cudaMalloc(&number, sizeof *number));
  plain<<<1, 1>>>(number);
  CHECK(cudaMemcpy(&found, number, sizeof found, cudaMemcpyDefault));
  EXPECT(found == 7, "it is %d", found);
  parent<<<1, 1>>>(number);
  REFUSED(cudaErrorNotSupported, cudaGetLastError());
  child<<<1, 1>>>(number);
  CHECK(cudaMemcpy(&found, number, sizeof found, cudaMemcpyDefault));
  EXPECT(found == 1, "it is %d", found);
  std::puts("OK");
}
