// SPDX-License-Identifier: MIT-0
// Graphs whose nodes allocate and free memory: what may be done with the graph, with a second instance of it and with
// its nodes; and allocations of nothing while a stream captures.
#include "conformance.h"

#include <vector>

static cudaStream_t stream;

static cudaGraphNode_t allocation_in(cudaGraph_t graph, void** address, size_t bytes = 1024) {
  cudaMemAllocNodeParams parameters = {};
  parameters.bytesize = bytes;
  parameters.poolProps.allocType = cudaMemAllocationTypePinned;
  parameters.poolProps.location.type = cudaMemLocationTypeDevice;
  cudaGraphNode_t node;
  CHECK(cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  *address = parameters.dptr;
  return node;
}

static void run_twice(const char* what, cudaGraphExec_t instance) {
  for (const char* time : {"first", "second"}) {
    say(std::string(what) + ", " + time + " launch", cudaGraphLaunch(instance, stream));
    say(std::string(what) + ", " + time + " end", cudaStreamSynchronize(stream));
    cudaGetLastError();
  }
}

static void a_graph(bool frees) {
  cudaGraph_t graph, copy, parent;
  cudaGraphNode_t free_node, child, empty;
  void* address;
  CHECK(cudaGraphCreate(&graph, 0));
  const cudaGraphNode_t allocation = allocation_in(graph, &address);
  if (frees) CHECK(cudaGraphAddMemFreeNode(&free_node, graph, &allocation, 1, address));
  say("clone", cudaGraphClone(&copy, graph));
  CHECK(cudaGraphCreate(&parent, 0));
  say("as a child of another graph", cudaGraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  say("destroy the node that allocates", cudaGraphDestroyNode(allocation));
  if (frees) {
    say("destroy the node that frees", cudaGraphDestroyNode(free_node));
    say("remove the dependency", cudaGraphRemoveDependencies(graph, &allocation, &free_node, nullptr, 1));
  }
  cudaGraphExec_t one = nullptr, two = nullptr;
  say("an instance", cudaGraphInstantiate(&one, graph, 0));
  say("a second instance", cudaGraphInstantiate(&two, graph, 0));
  say("a second instance that frees by itself",
      cudaGraphInstantiate(&two, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  say("another node", cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
  run_twice("the instance", one);
  say("destroy the instance", cudaGraphExecDestroy(one));
  say("an instance after that", cudaGraphInstantiate(&one, graph, 0));
  say("destroy the graph", cudaGraphDestroy(graph));
  say("the instance of a destroyed graph", cudaGraphLaunch(one, stream));
  say("its end", cudaStreamSynchronize(stream));
  cudaGetLastError();
}

SECTION("a graph that only allocates") { a_graph(false); }
SECTION("a graph that frees what it allocates") { a_graph(true); }

SECTION("what a node may ask for") {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  for (const int id : {-1, 0, 1000}) {
    cudaMemAllocNodeParams parameters = {};
    parameters.bytesize = 1024;
    parameters.poolProps.allocType = cudaMemAllocationTypePinned;
    parameters.poolProps.location.type = cudaMemLocationTypeDevice;
    parameters.poolProps.location.id = id;
    cudaGraphNode_t node;
    say("a node on GPU " + std::to_string(id), cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
    parameters.poolProps.location.id = 0;
    parameters.bytesize = id == 0 ? 0 : 1024;
    if (id == 0) say("a node of 0 bytes", cudaGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  }
}

SECTION("nothing, in a capture") {
  cudaMemPool_t pool;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed})
    for (const bool from_pool : {false, true}) {
      auto address = reinterpret_cast<CUdeviceptr>(&pool);
      cudaGraph_t graph = nullptr;
      size_t nodes = 99;
      CHECK(cudaStreamBeginCapture(stream, mode));
      const std::string name = from_pool ? "cuMemAllocFromPoolAsync" : "cuMemAllocAsync";
      say(name + " of 0 bytes, mode " + std::to_string(mode),
          from_pool ? cuMemAllocFromPoolAsync(&address, 0, pool, stream) : cuMemAllocAsync(&address, 0, stream));
      say("its address is", std::string(address ? "not null" : "null"));
      say("the end of the capture", cudaStreamEndCapture(stream, &graph));
      if (graph) CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
      say("nodes", std::to_string(nodes));
      cudaGetLastError();
    }
}

// What is known of a graph after a call that would have given it a node that frees was refused.
SECTION("after a refusal") {
  void *ordinary, *theirs;
  cudaGraph_t other;
  CHECK(cudaMalloc(&ordinary, 1024));
  CHECK(cudaGraphCreate(&other, 0));
  const cudaGraphNode_t of_other = allocation_in(other, &theirs);
  for (const std::string what :
       {"nothing", "null", "cudaMalloc's", "the inside of another graph's", "behind another graph's node"}) {
    cudaGraph_t graph, copy, parent;
    cudaGraphNode_t empty, node;
    cudaGraphExec_t instance;
    CHECK(cudaGraphCreate(&graph, 0));
    CHECK(cudaGraphCreate(&parent, 0));
    CHECK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
    const bool behind = what == "behind another graph's node";
    void* const address = what == "null"           ? nullptr
                          : what == "cudaMalloc's" ? ordinary
                          : behind                 ? theirs
                                                   : (char*)theirs + 512;
    if (what != "nothing")
      say("free " + what, cudaGraphAddMemFreeNode(&node, graph, behind ? &of_other : nullptr, behind, address));
    say("  a clone then", cudaGraphClone(&copy, graph));
    say("  a child then", cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, graph));
    say("  an instance", cudaGraphInstantiate(&instance, graph, 0));
    say("  a second instance", cudaGraphInstantiate(&instance, graph, 0));
    say("  destroy its node", cudaGraphDestroyNode(empty));
    cudaGetLastError();
  }
}

// What a GPU has for graphs, and has had at most.
static void say_use(const std::string& when) {
  unsigned long long value[4] = {};
  const cudaGraphMemAttributeType all[] = {cudaGraphMemAttrUsedMemCurrent, cudaGraphMemAttrUsedMemHigh,
                                           cudaGraphMemAttrReservedMemCurrent, cudaGraphMemAttrReservedMemHigh};
  for (int i = 0; i < 4; ++i) CHECK(cudaDeviceGetGraphMemAttribute(0, all[i], &value[i]));
  say(when, "used " + mib(value[0]) + ", at most " + mib(value[1]) + "; kept " + mib(value[2]) + ", at most " +
                mib(value[3]));
}
static void set_highest(unsigned long long value) {
  for (const auto what : {cudaGraphMemAttrUsedMemHigh, cudaGraphMemAttrReservedMemHigh}) {
    unsigned long long given = value;
    say("set the highest to " + std::to_string(value), cudaDeviceSetGraphMemAttribute(0, what, &given));
  }
  say_use("then");
}
SECTION("watermarks") {
  cudaGraph_t graphs[2];
  cudaGraphExec_t instances[2];
  void* addresses[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaGraphCreate(&graphs[i], 0));
    allocation_in(graphs[i], &addresses[i], (i ? 64 : 96) * MiB);
    CHECK(cudaGraphInstantiate(&instances[i], graphs[i], 0));
  }
  say_use("two graphs");
  for (const auto instance : instances) CHECK(cudaGraphLaunch(instance, stream));
  CHECK(cudaStreamSynchronize(stream));
  say_use("launched");
  CHECK(cudaFreeAsync(addresses[0], stream));
  CHECK(cudaStreamSynchronize(stream));
  say_use("one is freed");
  set_highest(1);
  set_highest(0);
  CHECK(cudaDeviceGraphMemTrim(0));
  say_use("trimmed");
  set_highest(0);
  CHECK(cudaGraphLaunch(instances[0], stream));
  CHECK(cudaStreamSynchronize(stream));
  say_use("launched again");
  for (void* const address : addresses) CHECK(cudaFreeAsync(address, stream));
  CHECK(cudaStreamSynchronize(stream));
  say_use("both are freed");
  set_highest(0);
}

static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
