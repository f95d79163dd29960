// SPDX-License-Identifier: MIT-0
// >>> your part: what each thread does between the writes and the reads
__device__ void there() { __syncthreads(); }
__device__ void between() {}  // nobody reads what others write next
__device__ void back() {
  cuda::ptx::fence_proxy_alias();  // behind all writes, at A and at B, and before all reads at the other address
  __syncthreads();
}
// <<<
