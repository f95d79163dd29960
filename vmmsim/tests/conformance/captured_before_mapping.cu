// SPDX-License-Identifier: MIT-0
// What a stream captures for addresses that are reserved, and where nothing is mapped yet.
#include "conformance.h"

__global__ void store(int* to, int value) { *to = value; }

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const CUdeviceptr room = reserve(2 * page);
  map_new(room, page);
  int *const here = reinterpret_cast<int*>(room), *const later = reinterpret_cast<int*>(room + page);
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  store<<<1, 1, 0, stream>>>(here, 1);  // loads the kernel
  CHECK(cudaStreamSynchronize(stream));
  const auto capture = [&](const char* node, const auto& put_in) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t instance = nullptr;
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    const cudaError_t answer = say(std::string(node) + ": capture", put_in());
    const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
    if (answer == cudaSuccess) say(std::string(node) + ": the end of the capture", ended);
    if (answer == cudaSuccess) say(std::string(node) + ": an instance", cudaGraphInstantiate(&instance, graph, 0));
    cudaGetLastError();
    return instance;
  };
  capture("a memset", [&] { return cudaMemsetAsync(later, 7, 4096, stream); });
  capture("a copy", [&] { return cudaMemcpyAsync(later, here, 4096, cudaMemcpyDeviceToDevice, stream); });
  const cudaGraphExec_t instance = capture("a kernel", [&] {
    store<<<1, 1, 0, stream>>>(later, 7);
    return cudaGetLastError();
  });
  map_new(room + page, page);
  CHECK(cudaGraphLaunch(instance, stream));
  say("a kernel: launched when memory is there", cudaStreamSynchronize(stream));
  int value = 0;
  CHECK(cudaMemcpy(&value, later, sizeof value, cudaMemcpyDeviceToHost));
  say("a kernel: what is there then", std::to_string(value));
  std::puts("OK");
}
