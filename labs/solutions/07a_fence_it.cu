// SPDX-License-Identifier: MIT-0
  // >>> your part: order the write through A and the read through B
  cuda::ptx::fence_proxy_alias();
  // <<<
