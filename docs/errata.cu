// SPDX-License-Identifier: MIT-0
// The rest of errata.cpp: kernels, and what calls the runtime.
#include <cuda/atomic>
#include <cuda/ptx>

// [3] Printed: does not compile: identifier "cudaEnablePeerAccess" is undefined
void enable_peer(int peer) {
#if AS_PRINTED == 3
  cudaEnablePeerAccess(peer, 0);
#else
  cudaDeviceEnablePeerAccess(peer, 0);
#endif
}

// [18] Printed: does not compile: has no member "release_t"
__global__ void arrive(unsigned int* counter_mc) {
#if AS_PRINTED == 18
  cuda::ptx::multimem_red(cuda::ptx::release_t, cuda::ptx::scope_sys_t, cuda::ptx::op_add_t, counter_mc, 1u);
#else
  cuda::ptx::multimem_red(cuda::ptx::sem_release, cuda::ptx::scope_sys, cuda::ptx::op_add, counter_mc, 1u);
#endif
}

// [19] Printed: does not compile: identifier "n" is undefined
__global__ void arrive_once(unsigned int* counter_mc, unsigned int expected_count) {
  using namespace cuda::ptx;
#if AS_PRINTED == 19
  multimem_red(sem_release, scope_sys, op_add, counter_mc, n);
#else
  multimem_red(sem_release, scope_sys, op_add, counter_mc, 1u);  // each GPU arrives once
#endif
}

// [20] Printed: does not compile: no instance of constructor
__global__ void wait(unsigned int* counter_uc, unsigned int expected_count) {
#if AS_PRINTED == 20
  cuda::atomic_ref<unsigned int, cuda::thread_scope_system> counter(counter_uc);
#else
  cuda::atomic_ref<unsigned int, cuda::thread_scope_system> counter(*counter_uc);
#endif
  while (expected_count > counter.load(cuda::memory_order_acquire)) {
  }
}

// [21] Printed: does not compile: #error .*multimem
__global__ void reduce(float* sum, const float* parts_mc) {
#if __CUDA_ARCH__ >= 900
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(*sum) : "l"(parts_mc) : "memory");
#elif AS_PRINTED == 21 || defined(__CUDA_ARCH__)  // printed: #else, where the host's side arrives too
#error "multimem takes compute capability 9.0"
#endif
}

// [22] Printed: does not compile: argument of type "cudaStream_t" .*is incompatible
void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
#if AS_PRINTED == 22
  cudaMemcpyAsync(to, from, bytes, stream);
#else
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
#endif
}
