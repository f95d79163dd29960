// SPDX-License-Identifier: MIT-0
// Conditional nodes by the runtime: a loop that a kernel ends, whose body a stream captures.
#include "check.h"

__global__ void count_down(cudaGraphConditionalHandle handle, int* left, int* rounds) {
  ++*rounds;
  cudaGraphSetConditional(handle, --*left > 0);
}

int main() {
  check::require_gpus(1);
  int *left, *rounds;
  CHECK(cudaMallocManaged(&left, sizeof *left));
  CHECK(cudaMallocManaged(&rounds, sizeof *rounds));
  *rounds = 0;
  cudaStream_t stream;
  cudaGraph_t graph, body;
  cudaGraphExec_t instance;
  cudaGraphNode_t node;
  cudaGraphConditionalHandle handle;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaGraphCreate(&graph, 0));
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams parameters = {};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeWhile;
  parameters.conditional.size = 1;
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
#else
  CHECK(cudaGraphAddNode(&node, graph, nullptr, 0, &parameters));
#endif
  body = parameters.conditional.phGraph_out[0];
  CHECK(cudaStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, cudaStreamCaptureModeGlobal));
  count_down<<<1, 1, 0, stream>>>(handle, left, rounds);
  CHECK(cudaStreamEndCapture(stream, &body));
  CHECK(cudaGraphInstantiate(&instance, graph, 0));
  for (const int times : {1, 5, 100}) {
    *left = times;
    *rounds = 0;
    CHECK(cudaGraphLaunch(instance, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(*rounds == times, "%d rounds of %d", *rounds, times);
  }
  static int at_home;  // the body must not copy pageable memory, on either side
  for (const bool to_home : {false, true}) {
    cudaGraphNode_t copy;
    int *const to = to_home ? &at_home : left, *const from = to_home ? left : &at_home;
    CHECK(cudaGraphExecDestroy(instance));
    CHECK(cudaGraphAddMemcpyNode1D(&copy, body, nullptr, 0, to, from, sizeof(int), cudaMemcpyDefault));
    REFUSED(cudaErrorInvalidValue, cudaGraphInstantiate(&instance, graph, 0));
    CHECK(cudaGraphDestroyNode(copy));
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
  }
  std::puts("OK");
}
