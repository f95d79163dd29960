// SPDX-License-Identifier: MIT-0
// Printed: does not compile: no instance of constructor
// Right: compiles
#include <cuda/atomic>

__global__ void wait(unsigned int* counter_uc, unsigned int expected_count) {
#ifdef AS_PRINTED
  cuda::atomic_ref<unsigned int, cuda::thread_scope_system> counter(counter_uc);
#else
  cuda::atomic_ref<unsigned int, cuda::thread_scope_system> counter(*counter_uc);
#endif
  while (expected_count > counter.load(cuda::memory_order_acquire)) {
  }
}
