// SPDX-License-Identifier: MIT-0
#include <cuda/ptx>

// `mc` leads to a multicast mapping; nothing but multimem instructions may use such an address. Compute capability 9.0.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
__device__ inline void broadcast(int* mc, int value) {
  cuda::ptx::multimem_st(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, mc, value);
}

__device__ inline void add_to_all(int* mc, int value) {
  cuda::ptx::multimem_red(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, cuda::ptx::op_add, mc, value);
}

__device__ inline int sum_of_all(const int* mc) {
  return cuda::ptx::multimem_ld_reduce(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, cuda::ptx::op_add, mc);
}
#endif
