// SPDX-License-Identifier: MIT-0
// Graphs as the documentation has them: nodes of each type, what depends on what, changes, clones, memory, captures.
#include "check.h"

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

__global__ void store(int* to, int value) { *to = value; }
__global__ void add(int* to, const int* a, const int* b) { *to = *a + *b; }
__global__ void append(int* list, int value) { list[atomicAdd(list, 1) + 1] = value; }
__device__ int variable;

int* numbers;  // of the host and of the GPU, 64 of them
cudaStream_t stream, other;

void clear() { std::memset(numbers, 0, 64 * sizeof *numbers); }
std::string listed() {
  std::string all;
  for (int i = 1; i <= numbers[0]; ++i) all += std::to_string(numbers[i]) + " ";
  return all;
}

cudaGraph_t make() {
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  return graph;
}

// Nodes that do one thing each, after others.
using Nodes = std::vector<cudaGraphNode_t>;
template <class... Parameters>
cudaKernelNodeParams call_of(void (*kernel)(Parameters...), void** pointers) {
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(kernel);
  params.gridDim = params.blockDim = dim3(1);
  params.kernelParams = pointers;
  return params;
}
cudaGraphNode_t appending(cudaGraph_t graph, int value, const Nodes& after = {}) {
  void* pointers[] = {&numbers, &value};
  const cudaKernelNodeParams params = call_of(append, pointers);
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}
cudaGraphNode_t storing(cudaGraph_t graph, int* to, int value, const Nodes& after = {}) {
  void* pointers[] = {&to, &value};
  const cudaKernelNodeParams params = call_of(store, pointers);
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

cudaGraphExec_t instantiate(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}
void launch(cudaGraphExec_t exec) {
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaStreamSynchronize(stream));
}
void run(cudaGraph_t graph) {
  const cudaGraphExec_t exec = instantiate(graph);
  launch(exec);
  CHECK(cudaGraphExecDestroy(exec));
}

// Two kernels behind a memset, their sum behind both, that to the host, and the host doubles it.
void test_every_type() {
  clear();
  int* there;
  CHECK(cudaMalloc(&there, 4 * sizeof(int)));
  const cudaGraph_t graph = make();
  cudaGraphNode_t zero, sum, back, host, empty;
  cudaMemsetParams fill = {there, 0, 0x01010101, 4, 4, 1};
  CHECK(cudaGraphAddMemsetNode(&zero, graph, nullptr, 0, &fill));
  const cudaGraphNode_t first = storing(graph, there, 5, {zero}), second = storing(graph, there + 1, 6, {zero});
  const cudaGraphNode_t both[] = {first, second};
  CHECK(cudaGraphAddEmptyNode(&empty, graph, both, 2));
  int *to = there + 2, *a = there, *b = there + 1;
  void* pointers[] = {&to, &a, &b};
  const cudaKernelNodeParams params = call_of(add, pointers);
  CHECK(cudaGraphAddKernelNode(&sum, graph, &empty, 1, &params));
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &sum, 1, numbers, there, 4 * sizeof(int), cudaMemcpyDeviceToHost));
  const cudaHostNodeParams doubling = {[](void* list) { static_cast<int*>(list)[2] *= 2; }, numbers};
  CHECK(cudaGraphAddHostNode(&host, graph, &back, 1, &doubling));
  for (int i = 0; i < 3; ++i) {
    clear();
    run(graph);
    EXPECT(numbers[0] == 5 && numbers[1] == 6 && numbers[2] == 22 && numbers[3] == 0x01010101, "%d %d %d %d",
           numbers[0], numbers[1], numbers[2], numbers[3]);
  }
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(there));
}

void test_order() {  // the edges come after the nodes, the other way round
  const cudaGraph_t graph = make();
  Nodes nodes;
  for (int i = 0; i < 8; ++i) nodes.push_back(appending(graph, i));
  for (int i = 7; i > 0; --i) CHECK(cudaGraphAddDependencies(graph, &nodes[i], &nodes[i - 1], nullptr, 1));
  clear();
  run(graph);
  EXPECT(listed() == "7 6 5 4 3 2 1 0 ", "%s", listed().c_str());

  size_t count = 0, more = 20;
  cudaGraphNode_t from[20], to[20];
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  CHECK(cudaGraphGetEdges(graph, from, to, nullptr, &more));
  EXPECT(count == 7 && more == 7 && !from[7] && !to[19], "%zu, %zu edges", count, more);
  CHECK(cudaGraphGetRootNodes(graph, from, &(more = 20)));
  EXPECT(more == 1 && from[0] == nodes[7], "%zu roots", more);
  CHECK(cudaGraphNodeGetDependencies(nodes[3], from, nullptr, &(more = 20)));
  CHECK(cudaGraphNodeGetDependentNodes(nodes[3], to, nullptr, &count));
  EXPECT(more == 1 && from[0] == nodes[4] && count == 1 && to[0] == nodes[2], "%zu, %zu nodes", more, count);

  REFUSED(cudaErrorInvalidValue, cudaGraphAddDependencies(graph, &nodes[1], &nodes[0], nullptr, 1));
  REFUSED(cudaErrorInvalidValue, cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
  CHECK(cudaGraphAddDependencies(graph, &nodes[0], &nodes[7], nullptr, 1));  // a circle
  cudaGraphExec_t exec;
  cudaGraphInstantiateParams all = {};
  REFUSED(cudaErrorInvalidValue, cudaGraphInstantiateWithParams(&exec, graph, &all));
  EXPECT(all.result_out == cudaGraphInstantiateInvalidStructure && all.errNode_out, "result %d", all.result_out);
  CHECK(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[7], nullptr, 1));
  CHECK(cudaGraphDestroyNode(nodes[7]));
  clear();
  run(graph);
  EXPECT(listed() == "6 5 4 3 2 1 0 ", "%s", listed().c_str());
  CHECK(cudaGraphDestroyNode(nodes[4]));
  CHECK(cudaGraphNodeGetDependencies(nodes[3], nullptr, nullptr, &(more = 20)));
  EXPECT(more == 0, "%zu dependencies of a node whose only one is destroyed", more);
  CHECK(cudaGraphDestroy(graph));
  REFUSED(cudaErrorInvalidValue, cudaGraphInstantiate(&exec, graph, 0));
}

void test_parameters() {
  const cudaGraph_t graph = make();
  const cudaGraphNode_t first = storing(graph, numbers, 1), second = storing(graph, numbers + 1, 2, {first});
  cudaGraphExec_t exec = instantiate(graph);
  cudaKernelNodeParams params;
  CHECK(cudaGraphKernelNodeGetParams(first, &params));
  EXPECT(params.func == reinterpret_cast<void*>(store) && *static_cast<int*>(params.kernelParams[1]) == 1, "not store");
  int value = 3;
  void* pointers[] = {&numbers, &value};
  params.kernelParams = pointers;
  CHECK(cudaGraphKernelNodeSetParams(first, &params));
  launch(exec);
  EXPECT(numbers[0] == 1, "the executable graph has changed with its graph: %d", numbers[0]);
  CHECK(cudaGraphExecKernelNodeSetParams(exec, first, &params));
  launch(exec);
  EXPECT(numbers[0] == 3 && numbers[1] == 2, "%d, %d", numbers[0], numbers[1]);

  CHECK(cudaGraphNodeSetEnabled(exec, second, 0));
  clear();
  launch(exec);
  EXPECT(numbers[0] == 3 && numbers[1] == 0, "%d, %d", numbers[0], numbers[1]);
  unsigned is_enabled = 1;
  CHECK(cudaGraphNodeGetEnabled(exec, second, &is_enabled));
  EXPECT(!is_enabled, "it is enabled");
  params.gridDim.x = 0;
  REFUSED(cudaErrorInvalidValue, cudaGraphExecKernelNodeSetParams(exec, first, &params));
  const cudaHostNodeParams host = {[](void*) {}, nullptr};
  REFUSED(cudaErrorInvalidValue, cudaGraphHostNodeSetParams(first, &host));
  CHECK(cudaGraphExecDestroy(exec));
  REFUSED(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
  CHECK(cudaGraphDestroy(graph));
}

void test_copies() {
  int* there;
  CHECK(cudaMalloc(&there, 64 * sizeof(int)));
  const cudaGraph_t graph = make();
  cudaGraphNode_t in, symbol, back, fill;
  for (int i = 0; i < 64; ++i) numbers[i] = i;
  static int at_home[64], alone;
  CHECK(cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, there, numbers, 64 * sizeof(int), cudaMemcpyHostToDevice));
  const cudaMemsetParams columns = {there + 8, 8 * sizeof(int), 0x7f, 1, 4, 3};  // the first element of 3 rows
  CHECK(cudaGraphAddMemsetNode(&fill, graph, &in, 1, &columns));
  CHECK(cudaGraphAddMemcpyNode1D(&back, graph, &fill, 1, at_home, there, 64 * sizeof(int), cudaMemcpyDefault));
  CHECK(cudaGraphAddMemcpyNodeToSymbol(&symbol, graph, &back, 1, variable, there + 5, sizeof(int), 0,
                                       cudaMemcpyDeviceToDevice));
  cudaGraphNode_t last;
  CHECK(
      cudaGraphAddMemcpyNodeFromSymbol(&last, graph, &symbol, 1, &alone, variable, sizeof(int), 0, cudaMemcpyDefault));
  const cudaGraphExec_t exec = instantiate(graph);
  launch(exec);
  for (int i = 0; i < 64; ++i)
    EXPECT(at_home[i] == (i == 8 || i == 16 || i == 24 ? 0x7f7f7f7f : i), "%d: %d", i, at_home[i]);
  EXPECT(alone == 5, "%d", alone);

  cudaMemcpy3DParms params = {}, given = {};
  given.srcPtr = make_cudaPitchedPtr(numbers, 32, 32, 8), given.dstPtr = make_cudaPitchedPtr(there, 32, 32, 8);
  given.srcPos = make_cudaPos(4, 1, 0), given.dstPos = make_cudaPos(8, 2, 0), given.extent = make_cudaExtent(16, 3, 1);
  given.kind = cudaMemcpyDefault;
  const cudaGraph_t other_graph = make();
  CHECK(cudaGraphAddMemcpyNode(&last, other_graph, nullptr, 0, &given));
  CHECK(cudaGraphMemcpyNodeGetParams(last, &params));
  EXPECT(params.srcPos.x == 4 && params.srcPos.y == 1 && params.dstPos.x == 8 && params.dstPos.y == 2,
         "from row %zu to row %zu", params.srcPos.y, params.dstPos.y);
  CHECK(cudaGraphDestroy(other_graph));
  CHECK(cudaGraphMemcpyNodeGetParams(in, &params));
  EXPECT(params.kind == cudaMemcpyHostToDevice && params.dstPtr.ptr == there && params.extent.width == 256,
         "kind %d, %zu bytes", params.kind, params.extent.width);
  CHECK(cudaGraphExecMemcpyNodeSetParams1D(exec, in, there + 1, numbers, 63 * sizeof(int), cudaMemcpyHostToDevice));
  launch(exec);
  EXPECT(at_home[63] == 62 && alone == 4, "%d, %d", at_home[63], alone);
  cudaMemsetParams changed;
  CHECK(cudaGraphMemsetNodeGetParams(fill, &changed));
  changed.value = 0;
  CHECK(cudaGraphExecMemsetNodeSetParams(exec, fill, &changed));
  launch(exec);
  EXPECT(at_home[16] == 0, "%d", at_home[16]);
  CHECK(cudaGraphNodeSetEnabled(exec, fill, 0));
  launch(exec);
  EXPECT(at_home[16] == 15, "a memset that is switched off was done: %d", at_home[16]);
  changed.height = 2;
  REFUSED(cudaErrorInvalidValue, cudaGraphExecMemsetNodeSetParams(exec, fill, &changed));
  REFUSED(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, there, numbers, 0, cudaMemcpyDefault));
  CUdeviceptr nothing;
  CHECK(cuMemAddressReserve(&nothing, 2 << 20, 0, 0, 0));
  void* const hole = reinterpret_cast<void*>(nothing);
  REFUSED(cudaErrorInvalidValue,
          cudaGraphAddMemcpyNode1D(&in, graph, nullptr, 0, hole, there, 4, cudaMemcpyDeviceToDevice));
  CHECK(cuMemAddressFree(nothing, 2 << 20));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaFree(there));
}

void test_children_and_clones() {
  const cudaGraph_t child = make(), graph = make();
  const cudaGraphNode_t inner = appending(child, 2);
  appending(child, 3, {inner});
  const cudaGraphNode_t before = appending(graph, 1);
  cudaGraphNode_t inside, found;
  CHECK(cudaGraphAddChildGraphNode(&inside, graph, &before, 1, child));
  appending(graph, 4, {inside});
  appending(child, 99);  // not in the clone that the node has
  clear();
  run(graph);
  EXPECT(listed() == "1 2 3 4 ", "%s", listed().c_str());

  cudaGraph_t clone, of_node;
  CHECK(cudaGraphClone(&clone, graph));
  CHECK(cudaGraphNodeFindInClone(&found, before, clone));
  EXPECT(found != before, "the node itself");
  CHECK(cudaGraphDestroy(graph));
  REFUSED(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&found, before, clone));
  clear();
  run(clone);
  EXPECT(listed() == "1 2 3 4 ", "%s", listed().c_str());

  size_t count = 3;
  cudaGraphNode_t nodes[3];
  CHECK(cudaGraphGetNodes(clone, nodes, &count));
  cudaGraphNodeType type;
  CHECK(cudaGraphNodeGetType(nodes[1], &type));
  EXPECT(count == 3 && type == cudaGraphNodeTypeGraph, "%zu nodes, type %d", count, type);
  CHECK(cudaGraphChildGraphNodeGetGraph(nodes[1], &of_node));
  REFUSED(cudaErrorInvalidValue, cudaGraphDestroy(of_node));
  const cudaGraphExec_t exec = instantiate(clone);
  const cudaGraph_t changed = make();
  const cudaGraphNode_t five = appending(changed, 5);
  appending(changed, 6, {five});
  CHECK(cudaGraphExecChildGraphNodeSetParams(exec, nodes[1], changed));
  clear();
  launch(exec);
  EXPECT(listed() == "1 5 6 4 ", "%s", listed().c_str());
  appending(changed, 7);
  REFUSED(cudaErrorGraphExecUpdateFailure, cudaGraphExecChildGraphNodeSetParams(exec, nodes[1], changed));
  CHECK(cudaGraphExecDestroy(exec));
  for (const cudaGraph_t each : {child, clone, changed}) CHECK(cudaGraphDestroy(each));
}

// An event that a node records is awaited by another stream, and one that a stream records by a node.
void test_events() {
  cudaEvent_t recorded, awaited;
  CHECK(cudaEventCreate(&recorded));
  CHECK(cudaEventCreate(&awaited));
  const cudaGraph_t graph = make();
  cudaGraphNode_t wait, record;
  CHECK(cudaGraphAddEventWaitNode(&wait, graph, nullptr, 0, awaited));
  const cudaGraphNode_t two = appending(graph, 2, {wait});
  CHECK(cudaGraphAddEventRecordNode(&record, graph, &two, 1, recorded));
  const cudaGraphExec_t exec = instantiate(graph);
  clear();
  static std::atomic<bool> may_go_on = false;
  const auto wait_for_host = [](void*) {
    while (!may_go_on) std::this_thread::yield();
  };
  CHECK(cudaLaunchHostFunc(other, wait_for_host, nullptr));
  append<<<1, 1, 0, other>>>(numbers, 1);
  CHECK(cudaEventRecord(awaited, other));
  CHECK(cudaGraphLaunch(exec, stream));
  REFUSED(cudaErrorNotReady, cudaStreamQuery(stream));  // whatever can run has run then
  may_go_on = true;
  CHECK(cudaStreamWaitEvent(other, recorded, 0));
  append<<<1, 1, 0, other>>>(numbers, 3);
  CHECK(cudaStreamSynchronize(other));
  EXPECT(listed() == "1 2 3 ", "%s", listed().c_str());
  CHECK(cudaEventSynchronize(recorded));
  cudaEvent_t found;
  CHECK(cudaGraphEventWaitNodeGetEvent(wait, &found));
  EXPECT(found == awaited, "another event");
  REFUSED(cudaErrorInvalidValue, cudaGraphEventRecordNodeGetEvent(wait, &found));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
}

// Launches of one executable graph come one after another, whatever stream they are in; one that is destroyed ends.
void test_launches() {
  const cudaGraph_t graph = make();
  Nodes last;
  for (int i = 0; i < 4; ++i) last = {appending(graph, i, last)};
  const cudaGraphExec_t exec = instantiate(graph);
  clear();
  for (int i = 0; i < 5; ++i) CHECK(cudaGraphLaunch(exec, i % 2 ? stream : other));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaDeviceSynchronize());
  EXPECT(listed() == "0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3 0 1 2 3 ", "%s", listed().c_str());
}

uint64_t used_by_graphs() {
  uint64_t used = 0;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
  return used;
}

size_t free_memory() {
  size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

// A graph that allocates memory, works there and frees it.
void test_memory_within() {
  const cudaGraph_t graph = make();
  cudaMemAllocNodeParams memory = {};
  memory.poolProps.allocType = cudaMemAllocationTypePinned;
  memory.poolProps.location = {cudaMemLocationTypeDevice, 0};
  memory.bytesize = 3 << 20;
  cudaGraphNode_t allocate, copy, free;
  CHECK(cudaGraphAddMemAllocNode(&allocate, graph, nullptr, 0, &memory));
  const auto last = static_cast<int*>(memory.dptr) + (3 << 18) - 1;
  const cudaGraphNode_t stored = storing(graph, last, 7, {allocate});
  CHECK(cudaGraphAddMemcpyNode1D(&copy, graph, &stored, 1, numbers, last, sizeof(int), cudaMemcpyDefault));
  REFUSED(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&free, graph, &copy, 1, numbers));
  CHECK(cudaGraphAddMemFreeNode(&free, graph, &copy, 1, memory.dptr));
  REFUSED(cudaErrorInvalidValue, cudaGraphAddMemFreeNode(&free, graph, &copy, 1, memory.dptr));
  cudaGraph_t clone;
  REFUSED(cudaErrorNotSupported, cudaGraphClone(&clone, graph));
  const cudaGraphExec_t exec = instantiate(graph);
  for (int i = 0; i < 2; ++i) {
    clear();
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(numbers[0] == 7, "%d", numbers[0]);
  }
  EXPECT(used_by_graphs() == 0, "the graph has freed all, and %llu bytes are used",
         static_cast<unsigned long long>(used_by_graphs()));
  REFUSED(cudaErrorInvalidValue, cudaFreeAsync(memory.dptr, stream));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  REFUSED(cudaErrorInvalidValue, cudaFree(memory.dptr));
}

// A captured graph that leaves its memory to the program: it is launched again once that is free.
void test_memory_left() {
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceGraphMemTrim(0));
  const size_t free_before = free_memory();
  cudaGraph_t graph, freeing;
  int* memory;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&memory, 1000, stream));
  store<<<1, 1, 0, stream>>>(memory, 9);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaFreeAsync(memory, stream));
  CHECK(cudaStreamEndCapture(stream, &freeing));
  const cudaGraphExec_t exec = instantiate(graph), freeing_exec = instantiate(freeing);
  REFUSED(cudaErrorInvalidValue, cudaGraphLaunch(freeing_exec, stream));
  CHECK(cudaGraphLaunch(exec, stream));
  REFUSED(cudaErrorInvalidValue, cudaGraphLaunch(exec, stream));
  EXPECT(used_by_graphs() >= 1000, "the memory that the graph left does not count");
  CHECK(cudaGraphLaunch(freeing_exec, stream));
  CHECK(cudaGraphLaunch(exec, stream));
  CHECK(cudaFreeAsync(memory, stream));
  cudaGraphExec_t again;
  REFUSED(cudaErrorNotSupported, cudaGraphInstantiate(&again, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphInstantiate(&again, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
  for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(again, stream));
  for (const cudaGraphExec_t each : {freeing_exec, again}) CHECK(cudaGraphExecDestroy(each));
  for (const cudaGraph_t each : {graph, freeing}) CHECK(cudaGraphDestroy(each));
  CHECK(cudaStreamSynchronize(stream));                                // which stream 0 does not wait for
  CHECK(cudaMemcpy(numbers, memory, sizeof(int), cudaMemcpyDefault));  // it outlives the graph
  EXPECT(numbers[0] == 9, "%d", numbers[0]);
  CHECK(cudaFree(memory));
  REFUSED(cudaErrorInvalidValue, cudaFree(memory));
  CHECK(cudaDeviceGraphMemTrim(0));
  uint64_t reserved = 1;
  CHECK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
  EXPECT(reserved == 0, "nothing is allocated, and %llu bytes are reserved", static_cast<unsigned long long>(reserved));
  EXPECT(free_memory() == free_before, "the GPU had %zu bytes free, and has %zu", free_before, free_memory());
}

void test_user_objects() {
  static std::atomic<int> ended;
  ended = 0;
  cudaUserObject_t object;
  CHECK(cudaUserObjectCreate(
      &object, &ended, [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, 1,
      cudaUserObjectNoDestructorSync));
  const cudaGraph_t graph = make();
  CHECK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  const cudaGraphExec_t exec = instantiate(graph);
  cudaGraph_t clone;
  CHECK(cudaGraphClone(&clone, graph));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaGraphDestroy(clone));
  EXPECT(ended == 0, "it ended though an executable graph has it");
  CHECK(cudaGraphExecDestroy(exec));
  EXPECT(ended == 1, "it ended %d times", int(ended));
  REFUSED(cudaErrorInvalidValue, cudaUserObjectRetain(object, 1));
}

size_t edges_of(cudaGraph_t graph) {
  size_t count = 0;
  CHECK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  return count;
}
cudaGraph_t end_capture() {
  cudaGraph_t graph;
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

// What a program reads of a capture, and how it changes what comes next.
void test_captures() {
  cudaStreamCaptureStatus is;
  unsigned long long id = 0, again = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  const cudaGraphEdgeData* edges = nullptr;
  size_t count = 9;
  CHECK(cudaStreamGetCaptureInfo(stream, &is, nullptr, nullptr, nullptr, nullptr, nullptr));
  EXPECT(is == cudaStreamCaptureStatusNone, "status %d", is);
  REFUSED(cudaErrorIllegalState, cudaStreamUpdateCaptureDependencies(stream, nullptr, nullptr, 0, 0));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaStreamGetCaptureInfo(stream, &is, &id, &graph, &nodes, &edges, &count));
  EXPECT(is == cudaStreamCaptureStatusActive && id && graph && count == 0, "status %d, %zu nodes", is, count);
  append<<<1, 1, 0, stream>>>(numbers, 1);
  append<<<1, 1, 0, stream>>>(numbers, 2);
  CHECK(cudaStreamGetCaptureInfo(stream, &is, &again, &graph, &nodes, &edges, &count));
  EXPECT(again == id && count == 1, "id %llu, %zu nodes", again, count);
  cudaGraphNode_t by_hand;
  CHECK(cudaGraphAddEmptyNode(&by_hand, graph, nodes, 1));
  REFUSED(cudaErrorIllegalState, cudaGraphDestroyNode(by_hand));
  REFUSED(cudaErrorIllegalState, cudaGraphDestroy(graph));
  CHECK(cudaStreamUpdateCaptureDependencies(stream, &by_hand, nullptr, 1, cudaStreamSetCaptureDependencies));
  append<<<1, 1, 0, stream>>>(numbers, 3);
  EXPECT(end_capture() == graph && edges_of(graph) == 3, "%zu edges", edges_of(graph));

  cudaGraphNode_t all[4];  // more behind the first node of the same graph
  CHECK(cudaGraphGetNodes(graph, all, &(count = 4)));
  CHECK(cudaStreamBeginCaptureToGraph(stream, graph, all, nullptr, 1, cudaStreamCaptureModeGlobal));
  append<<<1, 1, 0, stream>>>(numbers, 4);
  EXPECT(end_capture() == graph && edges_of(graph) == 4, "%zu edges", edges_of(graph));
  clear();
  run(graph);
  CHECK(cudaGraphDestroy(graph));
  EXPECT(numbers[0] == 4 && numbers[1] == 1, "%s", listed().c_str());
}

}  // namespace

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMallocHost(&numbers, 64 * sizeof *numbers));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  test_every_type();
  test_order();
  test_parameters();
  test_copies();
  test_children_and_clones();
  test_events();
  test_launches();
  test_memory_within();
  test_memory_left();
  test_user_objects();
  test_captures();
  std::puts("OK");
}
