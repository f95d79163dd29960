// SPDX-License-Identifier: MIT-0
// Printed: does not compile: identifier "n" is undefined
// Right: compiles
#include <cuda/ptx>

__global__ void arrive(unsigned int* counter_mc, unsigned int expected_count) {
  using namespace cuda::ptx;
#ifdef AS_PRINTED
  multimem_red(sem_release, scope_sys, op_add, counter_mc, n);
#else
  multimem_red(sem_release, scope_sys, op_add, counter_mc, 1u);  // each GPU arrives once
#endif
}
