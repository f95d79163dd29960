// SPDX-License-Identifier: MIT-0
// New: PTX 9.1, sm_90

// Each block reduces into shared memory, and one thread sends the 1,024 bytes to every replica of a multicast object.
// Before 13.1 that took a multimem.st for each 16 bytes.
__global__ void send(float* multicast, const float* parts, int n) {
  __shared__ alignas(128) float sums[256];
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) sum += parts[i];
  sums[threadIdx.x] = sum;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy engine shall see the stores
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(sums));
    asm volatile(
        "multimem.cp.async.bulk.bulk_group.global.shared::cta [%0], [%1], %2;" ::"l"(multicast + 256 * blockIdx.x),
        "r"(from), "r"(1024)
        : "memory");
    asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
