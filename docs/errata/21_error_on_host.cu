// SPDX-License-Identifier: MIT-0
// Printed: does not compile: #error .*multimem
// Right: compiles
__global__ void reduce(float* sum, const float* parts_mc) {
#ifdef AS_PRINTED
#if __CUDA_ARCH__ >= 900
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(*sum) : "l"(parts_mc) : "memory");
#else
#error "multimem takes compute capability 9.0"
#endif
#else
#if __CUDA_ARCH__ >= 900
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];" : "=f"(*sum) : "l"(parts_mc) : "memory");
#elif defined(__CUDA_ARCH__)  // not defined while the host's side is compiled
#error "multimem takes compute capability 9.0"
#endif
#endif
}
