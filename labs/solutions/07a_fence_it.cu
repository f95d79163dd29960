// SPDX-License-Identifier: MIT-0
// >>> your part: what each thread does between its steps
__device__ void after_questions() { __syncthreads(); }  // read next at the address where they were written
__device__ void before_answers() {}                     // each thread writes what it has read
__device__ void after_answers() {
  cuda::ptx::fence_proxy_alias();  // behind all writes, at A and at B, and before all reads at the other address
  __syncthreads();
}
// <<<
