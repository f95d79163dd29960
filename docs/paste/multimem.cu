// SPDX-License-Identifier: MIT-0
#ifndef VMM_MULTIMEM_CU
#define VMM_MULTIMEM_CU

#include <cuda/ptx>
#include <type_traits>

// `mc` leads to a multicast mapping, which nothing but these instructions may use. It is a multiple of the type's size.
// The accesses are relaxed, and of the system's scope: they order nothing. Compute capability 9.0 or later; code for an
// earlier one compiles, and traps.

// Stores the value in the memory of each GPU. Any type of 4 or 8 bytes.
template <class T> __device__ inline void broadcast(T* mc, T value) {
#if __CUDA_ARCH__ >= 900
  cuda::ptx::multimem_st(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, mc, value);
#else
  __trap();
#endif
}

// Adds the value to what each GPU has. int, unsigned, uint64_t or float.
template <class T> __device__ inline void add_to_all(T* mc, T value) {
#if __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<T, float>)  // of float cuda::ptx knows nothing
    asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(__cvta_generic_to_global(mc)), "f"(value)
                 : "memory");
  else cuda::ptx::multimem_red(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, cuda::ptx::op_add, mc, value);
#else
  __trap();
#endif
}

// The sum of what the GPUs have. int, unsigned, uint64_t or float.
template <class T> __device__ inline T sum_of_all(const T* mc) {
#if __CUDA_ARCH__ >= 900
  if constexpr (std::is_same_v<T, float>) {
    float sum;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
                 : "=f"(sum)
                 : "l"(__cvta_generic_to_global(mc))
                 : "memory");
    return sum;
  } else {
    return cuda::ptx::multimem_ld_reduce(cuda::ptx::sem_relaxed, cuda::ptx::scope_sys, cuda::ptx::op_add, mc);
  }
#else
  __trap();
  return {};
#endif
}

#endif
