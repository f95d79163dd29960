// SPDX-License-Identifier: MIT-0
// A memset, or a copy to the host, that waits in a stream behind a kernel when the right to its memory is taken away.
#include "conformance.h"

__global__ void wait_for(const volatile int* word) {
  while (!*word) {
  }
}

static void ask(bool copies) {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  int *word, *host;
  CHECK(cudaMallocHost(&word, sizeof *word));
  CHECK(cudaMallocHost(&host, 4096));
  *word = 0;
  const CUdeviceptr memory = reserve(page);
  map_new(memory, page);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  wait_for<<<1, 1, 0, stream>>>(word);
  CHECK(cudaGetLastError());
  void* const at = reinterpret_cast<void*>(memory);
  say("put into the stream",
      copies ? cudaMemcpyAsync(host, at, 4096, cudaMemcpyDeviceToHost, stream) : cudaMemsetAsync(at, 1, 4096, stream));
  const CUmemAccessDesc none = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
  say("the right is taken away", cuMemSetAccess(memory, page, &none, 1));
  *static_cast<volatile int*>(word) = 1;
  say("synchronize", cudaStreamSynchronize(stream));
}

SECTION("a memset that comes too late") { ask(false); }
SECTION("a copy to the host that comes too late") { ask(true); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
