// SPDX-License-Identifier: MIT-0
// cuda::ptx as `ptx`, for a program of lesson 06 that is also built for GPUs before Hopper. They have no multimem
// instructions, so require_multicast turns them away; but the program has to compile for them.
#pragma once
#include <cuda/ptx>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
namespace ptx = cuda::ptx;
#else
namespace ptx {
using namespace cuda::ptx;
template <class... Any> __device__ int multimem_ld_reduce(Any...) {
  __trap();
  return 0;
}
template <class... Any> __device__ void multimem_st(Any...) { __trap(); }
template <class... Any> __device__ void multimem_red(Any...) { __trap(); }
}  // namespace ptx
#endif
