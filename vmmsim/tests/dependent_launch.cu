// SPDX-License-Identifier: MIT-0
// A kernel that begins before the one before it has ended, in a stream and in a graph, finds what it wrote only after
// griddepcontrol.wait. Both kernels wait for one another, so neither answer is a matter of luck.
#include "check.h"

struct Board {
  int began, data, before, after;
};
__global__ void first(volatile Board* board) {
  cudaTriggerProgrammaticLaunchCompletion();
  while (!board->began) continue;
  board->data = 2;
}
__global__ void second(volatile Board* board) {
  board->before = board->data;
  __threadfence();
  board->began = 1;
  cudaGridDependencySynchronize();
  board->after = board->data;
}
// A third, that depends on the second alone: what the first wrote is there, too.
__global__ void third(volatile Board* board, int* found) { *found = board->data; }

static Board* board;
static int* found;
static void launch_in(cudaStream_t stream) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  first<<<1, 1, 0, stream>>>(board);
  CHECK(cudaLaunchKernelEx(&config, second, (volatile Board*)board));
  third<<<1, 1, 0, stream>>>(board, found);
}
static void check_run(cudaStream_t stream) {
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(board->before == 0, "the second kernel found %d before it waited", board->before);
  EXPECT(board->after == 2, "the second kernel found %d when it had waited", board->after);
  EXPECT(*found == 2, "the third kernel found %d", *found);
  *board = {};
  *found = 0;
}

int main() {
  check::require_gpus(1);
  CHECK(cudaMallocManaged(&board, sizeof *board));
  CHECK(cudaMallocManaged(&found, sizeof *found));
  *board = {};
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int time = 0; time < 10; ++time) {
    launch_in(stream);
    check_run(stream);
  }
  cudaGraph_t graph;
  cudaGraphExec_t instance;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  launch_in(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&instance, graph, 0));
  for (int time = 0; time < 10; ++time) {
    CHECK(cudaGraphLaunch(instance, stream));
    check_run(stream);
  }
  std::puts("OK");
}
