// SPDX-License-Identifier: MIT-0
// >>> your part: what each thread does between the writes and the reads
__device__ void there() {
  cuda::ptx::fence_proxy_alias();  // its own write, before its reads at the other address
  __syncthreads();                 // its neighbour's
}
__device__ void back() { there(); }  // the fence knows no direction
// <<<
