// SPDX-License-Identifier: MIT-0
// New: PTX 9.3, sm_100
#include <cuda/ptx>
namespace ptx = cuda::ptx;

// One thread writes 16 bytes at an offset in an endpoint: by id and offset, without an address. A link that is down is
// no fault of the kernel: the barrier reports it.
__global__ void put(uint32_t endpoint, uint64_t offset, int value, bool* arrived) {
  __shared__ alignas(16) int data[4];
  __shared__ uint64_t barrier;
  for (int& each : data) each = value;
  ptx::mbarrier_init(ptx::layout_v1, &barrier, 1);
  ptx::fence_proxy_async(ptx::space_shared);  // the engine is to see the four integers
  ptx::fabric_try_put(ptx::space_shared, ptx::sem_relaxed, ptx::scope_sys, endpoint, offset, data, sizeof data,
                      &barrier);
  ptx::fabric_submit();
  const uint32_t units = sizeof data / 16;  // the barrier counts in 16 bytes
  ptx::mbarrier_arrive_expect_tx(ptx::sem_relaxed, ptx::scope_cta, ptx::space_shared, &barrier, units);
  bool failed = false;
  uint8_t status = 0;
  do {
  } while (!ptx::mbarrier_try_wait_parity(ptx::mbarrier_phase_primary, ptx::sem_relaxed, ptx::scope_cta, failed, status,
                                          &barrier, 0));
  *arrived = !failed;
}
