// SPDX-License-Identifier: MIT-0
// Lab 02b: Keep the address
//
// This buffer grows by a larger block and a copy: its address changes, and both take memory. Make it grow in place:
// - reserve addresses once, for the largest size, 16 MiB
// - with each growth create and map only what is new, and grant access with one call
// - copy nothing, and keep mapped what is mapped; look at each answer with CHECK
// Read 02_growable/README.md#1-grow-in-a-loop. Steps 1 and 2 list such a buffer: write yours first.
#include "../lab.h"

const size_t granule = 2 << 20, most = 16 << 20;  // bytes

struct Buffer {
  CUdeviceptr address = 0;
  size_t size = 0;  // bytes that kernels may use, always whole granules
  // >>> your part: what else your buffer has to know; perhaps nothing
  // <<<
};

// >>> your part: start() is called once, then grow() for each size, then end()
void start(Buffer&) {}

void grow(Buffer& buffer, size_t wanted) {
  void *const old = reinterpret_cast<void*>(buffer.address), *larger;
  CHECK(cudaMalloc(&larger, wanted));
  CHECK(cudaMemcpy(larger, old, buffer.size, cudaMemcpyDeviceToDevice));
  CHECK(cudaFree(old));
  buffer.address = reinterpret_cast<CUdeviceptr>(larger);
  buffer.size = wanted;
}

void end(Buffer& buffer) { CHECK(cudaFree(reinterpret_cast<void*>(buffer.address))); }
// <<<

int main() {
  lab::begin();
  Buffer buffer;
  int moves = 0;
  start(buffer);
  for (size_t wanted = granule; wanted <= most; wanted *= 2) {
    const Buffer old = buffer;
    grow(buffer, wanted);
    moves += old.size > 0 && buffer.address != old.address;
    lab::fill<int>(buffer.address + old.size, (buffer.size - old.size) / sizeof(int), 7);
  }
  const size_t n = buffer.size / sizeof(int);
  std::printf("%llu of %zu integers are 7 after %d moves\n", lab::count<int>(buffer.address, n, 7), n, moves);
  end(buffer);
  return lab::end();
}
