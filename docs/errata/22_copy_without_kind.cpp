// SPDX-License-Identifier: MIT-0
// Printed: does not compile: cannot convert 'cudaStream_t'
// Right: compiles
#include <cuda_runtime.h>

void copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
#ifdef AS_PRINTED
  cudaMemcpyAsync(to, from, bytes, stream);
#else
  cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
#endif
}
