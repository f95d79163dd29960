// SPDX-License-Identifier: MIT-0
// Printed: does not compile: has no member "release_t"
// Right: compiles
#include <cuda/ptx>

__global__ void arrive(unsigned int* counter_mc) {
#ifdef AS_PRINTED
  cuda::ptx::multimem_red(cuda::ptx::release_t, cuda::ptx::scope_sys_t, cuda::ptx::op_add_t, counter_mc, 1u);
#else
  cuda::ptx::multimem_red(cuda::ptx::sem_release, cuda::ptx::scope_sys, cuda::ptx::op_add, counter_mc, 1u);
#endif
}
