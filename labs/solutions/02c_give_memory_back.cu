// SPDX-License-Identifier: MIT-0
    // >>> your part: shall the buffer keep this handle, or release it?
    CHECK(cuMemRelease(memory));  // from here on the mapping alone
    // <<<
  // >>> your part: wait, and give back
  CHECK(cudaDeviceSynchronize());  // cuMemUnmap does not wait for kernels
  CHECK(cuMemUnmap(buffer.address + wanted, buffer.size - wanted));
  buffer.size = wanted;
  // <<<
