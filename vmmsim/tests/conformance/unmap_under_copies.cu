// SPDX-License-Identifier: MIT-0
// Memory is unmapped while copies of it to the host are under way.
#include "conformance.h"

SECTION("unmapped under copies to the host") {
  constexpr size_t size = 256 * MiB;
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const CUdeviceptr memory = reserve(size);
  map_new(memory, size);
  void *host, *more;
  CHECK(cudaMallocHost(&host, size));
  CHECK(cuMemsetD8(memory, 5, size));
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 16; ++i)
    CHECK(cudaMemcpyAsync(host, reinterpret_cast<void*>(memory), size, cudaMemcpyDeviceToHost, stream));
  say("unmap", cuMemUnmap(memory, size));
  say("synchronize", cudaStreamSynchronize(stream));
  say("cudaMalloc", cudaMalloc(&more, 64));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
