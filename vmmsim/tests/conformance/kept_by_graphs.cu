// SPDX-License-Identifier: MIT-0
// What a graph with a kernel in it keeps of a GPU's memory, and when it gives that back.
#include "conformance.h"

__global__ void store(int* to, int value) { *to = value; }

static cudaStream_t stream;
static int* memory;

static void begin() {
  alarm(20);
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&memory, 4096));
  store<<<1, 1, 0, stream>>>(memory, 1);  // loads the kernel
  CHECK(cudaMemsetAsync(memory, 0, 4096, stream));
  CHECK(cudaMemcpyAsync(memory, memory + 512, 1024, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaStreamSynchronize(stream));
}

template <class Call> static void ask(Call put_in) {
  begin();
  const size_t before = free_bytes();
  const auto taken = [&](const char* when) {
    say(when, std::to_string((long long)(before - free_bytes()) / 1024) + " KiB");
  };
  for (const char* time : {"first", "second"}) {
    cudaGraph_t graph;
    cudaGraphExec_t instance, other;
    section((std::string(time) + " graph").c_str());
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    put_in();
    CHECK(cudaStreamEndCapture(stream, &graph));
    taken("taken when it is captured");
    CHECK(cudaGraphInstantiate(&instance, graph, 0));
    taken("taken when it is instantiated");
    CHECK(cudaGraphInstantiate(&other, graph, 0));
    taken("taken when there is a second instance");
    CHECK(cudaGraphLaunch(instance, stream));
    CHECK(cudaStreamSynchronize(stream));
    taken("taken when it was launched");
    CHECK(cudaGraphExecDestroy(instance));
    taken("taken when the first instance is destroyed");
    CHECK(cudaGraphExecDestroy(other));
    taken("taken when both are destroyed");
    CHECK(cudaGraphDestroy(graph));
    taken("taken when the graph is destroyed");
  }
  CHECK(cudaDeviceGraphMemTrim(0));
  taken("taken when the memory of graphs is trimmed");
}

SECTION("a kernel") {
  ask([] { store<<<1, 1, 0, stream>>>(memory, 7); });
}
SECTION("100 kernels") {
  ask([] {
    for (int i = 0; i < 100; ++i) store<<<1, 1, 0, stream>>>(memory, i);
  });
}
SECTION("a memset") {
  ask([] { CHECK(cudaMemsetAsync(memory, 7, 4096, stream)); });
}
SECTION("a copy on the GPU") {
  ask([] { CHECK(cudaMemcpyAsync(memory, memory + 512, 1024, cudaMemcpyDeviceToDevice, stream)); });
}
SECTION("nothing") {
  ask([] {});
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
