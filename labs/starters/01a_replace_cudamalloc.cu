// SPDX-License-Identifier: MIT-0
// Lab 01a: Replace cudaMalloc
//
// This program keeps its 5 MiB and 1 byte in memory of cudaMalloc, which cannot grow or move. Make it memory of VMM:
// - ask for the granularity, and create memory in whole granules, as few as hold 5 MiB and 1 byte
// - reserve addresses, map the memory there, and grant GPU 0 access, so that the kernels may use it
// - give each thing back by the call that undoes it; look at each answer with CHECK
// Read 01_vmm_basics/README.md#1-get-addresses-and-memory and #2-map-the-memory-and-let-the-gpu-in.
#include "../lab.h"

int main() {
  lab::begin();
  const size_t bytes = (5 << 20) + 1;
  CUdeviceptr address = 0;

  // >>> your part: make the memory
  CHECK(cudaMalloc(reinterpret_cast<void**>(&address), bytes));
  // <<<

  lab::fill<char>(address, bytes, 42);
  const unsigned long long right = lab::count<char>(address, bytes, 42);
  std::printf("%llu of %zu bytes are 42\n", right, bytes);

  // >>> your part: give it back
  CHECK(cudaFree(reinterpret_cast<void*>(address)));
  // <<<
  return lab::end();
}
