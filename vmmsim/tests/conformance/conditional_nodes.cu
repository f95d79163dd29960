// SPDX-License-Identifier: MIT-0
// Conditional nodes of graphs: handles, what a node and its bodies may be, what may be done with such a graph, and what
// runs: if, else, while, switch, each by a value that a kernel or the launch has set.
#include "parts.h"

#include <vector>

__global__ void set(CUgraphConditionalHandle handle, unsigned value) { cudaGraphSetConditional(handle, value); }
// Counts, and lets a loop go on while there are less than `limit`.
__global__ void count(CUgraphConditionalHandle handle, unsigned* counter, unsigned limit) {
  cudaGraphSetConditional(handle, ++*counter < limit);
}
__global__ void note(unsigned* list, unsigned what) { list[++list[0]] = what; }
__global__ void set_from(CUgraphConditionalHandle handle, const unsigned* value) {
  cudaGraphSetConditional(handle, *value);
}

static cudaStream_t stream;
static CUcontext context;
static unsigned* list;  // how many follow, and these
static unsigned* value;
static CUdeviceptr words;

static CUgraph new_graph() {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  return graph;
}
static CUgraphConditionalHandle new_handle(CUgraph graph, unsigned first = 0, unsigned flags = 1) {
  CUgraphConditionalHandle handle;
  CHECK(cuGraphConditionalHandleCreate(&handle, graph, context, first, flags));
  return handle;
}
static CUgraphNodeParams conditional(CUgraphConditionalHandle handle, unsigned type, unsigned size) {
  CUgraphNodeParams parameters = {};
  parameters.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  parameters.conditional.handle = handle;
  parameters.conditional.type = CUgraphConditionalNodeType(type);
  parameters.conditional.size = size;
  parameters.conditional.ctx = context;
  return parameters;
}
static CUresult add(CUgraphNode* node, CUgraph graph, CUgraphNode after, CUgraphNodeParams* parameters) {
  return cuGraphAddNode(node, graph, after ? &after : nullptr, nullptr, after ? 1 : 0, parameters);
}
// A node, whose bodies `bodies` then has.
static CUgraphNode add_conditional(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle, unsigned type,
                                   unsigned size, std::vector<CUgraph>& bodies) {
  CUgraphNodeParams parameters = conditional(handle, type, size);
  CUgraphNode node;
  CHECK(add(&node, graph, after, &parameters));
  bodies.assign(parameters.conditional.phGraph_out, parameters.conditional.phGraph_out + size);
  return node;
}
template <class... Values>
static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, void (*kernel)(Values...), Values... values) {
  void* pointers[] = {&values...};
  const cudaKernelNodeParams parameters = {(void*)kernel, dim3(1), dim3(1), 0, pointers, nullptr};
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, after ? &after : nullptr, after ? 1 : 0, &parameters));
  return node;
}
static CUgraphNode add_note(CUgraph graph, CUgraphNode after, unsigned what) {
  return add_kernel(graph, after, note, list, what);
}

// --- Handles and nodes -----------------------------------------------------------------------------------------------

SECTION("handles and nodes") {
  CUgraphConditionalHandle handle = 0;
  CUgraph graph = new_graph(), other = new_graph();
  CUgraphNode node = nullptr;
  ask("a handle", [&] { return cuGraphConditionalHandleCreate(&handle, graph, context, 0, 0); });
  ask("with a default", [&] { return cuGraphConditionalHandleCreate(&handle, graph, context, 5, 1); });
  ask("with a default but no flag", [&] { return cuGraphConditionalHandleCreate(&handle, graph, context, 5, 0); });
  ask("flags 2", [&] { return cuGraphConditionalHandleCreate(&handle, graph, context, 0, 2); });
  ask("no place for it", [&] { return cuGraphConditionalHandleCreate(nullptr, graph, context, 0, 0); });
  ask("no graph", [&] { return cuGraphConditionalHandleCreate(&handle, nullptr, context, 0, 0); });
  ask("no context", [&] { return cuGraphConditionalHandleCreate(&handle, graph, nullptr, 0, 0); });
  for (const unsigned type : {0u, 1u, 2u, 3u})
    for (const unsigned size : {0u, 1u, 2u, 3u, 9u}) {
      CUgraph in = new_graph();
      CUgraphNodeParams parameters = conditional(new_handle(in), type, size);
      ask("a node of type " + std::to_string(type) + ", size " + std::to_string(size), [&] {
        const CUresult answer = add(&node, in, nullptr, &parameters);
        return listed({brief(answer), parameters.conditional.phGraph_out ? "bodies" : "no bodies"});
      });
    }
  CUgraphNodeParams parameters = conditional(0, 0, 1);
  ask("a node without a handle", [&] { return add(&node, graph, nullptr, &parameters); });
  parameters = conditional(new_handle(graph), 0, 1);
  parameters.conditional.ctx = nullptr;
  ask("a node without a context", [&] { return add(&node, graph, nullptr, &parameters); });
  parameters = conditional(new_handle(graph), 0, 1);
  ask("a node", [&] { return add(&node, graph, nullptr, &parameters); });
  ask("another with its handle", [&] { return add(&node, graph, nullptr, &parameters); });
  parameters = conditional(new_handle(other), 0, 1);
  ask("a node with another graph's handle", [&] { return add(&node, graph, nullptr, &parameters); });
  CUgraphNodeType type = CUgraphNodeType(99);
  ask("its type", [&] { return listed({brief(cuGraphNodeGetType(node, &type)), std::to_string(type)}); });
  CUgraphExec instance;
  ask("instantiate when handles have no node", [&] { return cuGraphInstantiate(&instance, graph, 0); });
  ask("set its parameters", [&] { return cuGraphNodeSetParams(node, &parameters); });
}

// --- Bodies ----------------------------------------------------------------------------------------------------------

static void CUDART_CB nothing(void*) {}
SECTION("bodies") {
  static cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  const auto ask_body = [&](const char* what, const auto& fill) {
    CUgraph graph = new_graph();
    std::vector<CUgraph> bodies;
    const CUgraphConditionalHandle handle = new_handle(graph, 1);
    add_conditional(graph, nullptr, handle, 0, 1, bodies);
    ask(what, [&] {
      CUgraphExec instance = nullptr;
      const std::string filled = brief(fill(bodies[0])), made = brief(cuGraphInstantiate(&instance, graph, 0));
      return listed(
          {filled, made, instance ? brief(cuGraphLaunch(instance, stream)) : "", brief(cuStreamSynchronize(stream))});
    });
  };
  static CUgraphNode node;
  ask_body("nothing", [](CUgraph) { return CUDA_SUCCESS; });
  ask_body("an empty node", [](CUgraph body) { return cuGraphAddEmptyNode(&node, body, nullptr, 0); });
  ask_body("a kernel", [](CUgraph body) { return add_note(body, nullptr, 1), CUDA_SUCCESS; });
  ask_body("a memset", [](CUgraph body) {
    const CUDA_MEMSET_NODE_PARAMS parameters = {words, 0, 1, 4, 4, 1};
    return cuGraphAddMemsetNode(&node, body, nullptr, 0, &parameters, context);
  });
  ask_body("a copy on the GPU", [](CUgraph body) {
    return CUresult(
        cudaGraphAddMemcpyNode1D(&node, body, nullptr, 0, (void*)words, (void*)(words + 64), 4, cudaMemcpyDefault));
  });
  ask_body("a copy from the host", [](CUgraph body) {
    static int home = 1;
    return CUresult(cudaGraphAddMemcpyNode1D(&node, body, nullptr, 0, (void*)words, &home, 4, cudaMemcpyDefault));
  });
  ask_body("a host function", [](CUgraph body) {
    const CUDA_HOST_NODE_PARAMS parameters = {nothing, nullptr};
    return cuGraphAddHostNode(&node, body, nullptr, 0, &parameters);
  });
  ask_body("an event", [](CUgraph body) { return cuGraphAddEventRecordNode(&node, body, nullptr, 0, event); });
  ask_body("a wait for an event", [](CUgraph body) { return cuGraphAddEventWaitNode(&node, body, nullptr, 0, event); });
  ask_body("an allocation", [](CUgraph body) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
    parameters.bytesize = 1024;
    parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return cuGraphAddMemAllocNode(&node, body, nullptr, 0, &parameters);
  });
  ask_body("a graph", [](CUgraph body) {
    CUgraph child = new_graph();
    add_note(child, nullptr, 1);
    return cuGraphAddChildGraphNode(&node, body, nullptr, 0, child);
  });
  ask_body("a graph with a host function", [](CUgraph body) {
    CUgraph child = new_graph();
    const CUDA_HOST_NODE_PARAMS parameters = {nothing, nullptr};
    CHECK(cuGraphAddHostNode(&node, child, nullptr, 0, &parameters));
    return cuGraphAddChildGraphNode(&node, body, nullptr, 0, child);
  });
  ask_body("another conditional node", [](CUgraph body) {
    CUgraphNodeParams parameters = conditional(new_handle(body), 0, 1);
    return add(&node, body, nullptr, &parameters);
  });
  ask_body("destroy the body", [](CUgraph body) { return cuGraphDestroy(body); });
  ask_body("clone the body", [](CUgraph body) {
    CUgraph copy;
    return cuGraphClone(&copy, body);
  });
  ask_body("instantiate the body", [](CUgraph body) {
    CUgraphExec instance;
    return cuGraphInstantiate(&instance, body, 0);
  });
  ask_body("a capture into the body", [](CUgraph body) {
    CHECK(cuStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    note<<<1, 1, 0, stream>>>(list, 1);
    CUgraph same;
    return cuStreamEndCapture(stream, &same);
  });
  ask_body("a captured host function", [](CUgraph body) {
    CHECK(cuStreamBeginCaptureToGraph(stream, body, nullptr, nullptr, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    const CUresult answer = cuLaunchHostFunc(stream, nothing, nullptr);
    CUgraph same;
    return cuStreamEndCapture(stream, &same), answer;
  });
}

// --- The graph that has such a node ----------------------------------------------------------------------------------

SECTION("the graph") {
  CUgraph graph = new_graph(), copy = nullptr;
  std::vector<CUgraph> bodies;
  const CUgraphConditionalHandle handle = new_handle(graph, 1);
  const CUgraphNode before = add_note(graph, nullptr, 1);
  const CUgraphNode node = add_conditional(graph, before, handle, 0, 1, bodies);
  add_note(bodies[0], nullptr, 2);
  CUgraphNode added;
  CUgraphExec one = nullptr, two = nullptr;
  CUgraphExecUpdateResultInfo info = {};
  ask("clone it", [&] { return cuGraphClone(&copy, graph); });
  ask("as a child", [&] { return cuGraphAddChildGraphNode(&added, new_graph(), nullptr, 0, graph); });
  ask("instantiate it for launches by kernels", [&] { return cuGraphInstantiate(&one, graph, 4); });
  ask("instantiate it", [&] { return cuGraphInstantiate(&one, graph, 0); });
  ask("a second time", [&] { return cuGraphInstantiate(&two, graph, 0); });
  ask("add to a body then", [&] { return cuGraphAddEmptyNode(&added, bodies[0], nullptr, 0); });
  ask("update by itself",
      [&] { return listed({brief(cuGraphExecUpdate(one, graph, &info)), std::to_string(info.result)}); });
  ask("switch the node off", [&] { return cuGraphNodeSetEnabled(one, node, 0); });
  ask("ask the node for a child graph", [&] { return cuGraphChildGraphNodeGetGraph(node, &copy); });
  ask("launch", [&] { return listed({brief(cuGraphLaunch(one, stream)), brief(cuStreamSynchronize(stream))}); });
  ask("destroy the instance", [&] { return cuGraphExecDestroy(one); });
  ask("instantiate again", [&] { return cuGraphInstantiate(&one, graph, 0); });
  ask("remove its dependency", [&] { return cuGraphRemoveDependencies(graph, &before, &node, nullptr, 1); });
  ask("destroy the node before", [&] { return cuGraphDestroyNode(before); });
  ask("destroy the node", [&] { return cuGraphDestroyNode(node); });
  ask("destroy the graph", [&] { return cuGraphDestroy(graph); });
  ask("launch then", [&] { return listed({brief(cuGraphLaunch(one, stream)), brief(cuStreamSynchronize(stream))}); });
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  note<<<1, 1, 0, stream>>>(list, 1);
  ask("a handle for a graph that a stream captures, and a node there", [&] {
    CUstreamCaptureStatus is;
    CUgraph captured;
    const CUgraphNode* last;
    size_t count;
    CHECK(cuStreamGetCaptureInfo(stream, &is, nullptr, &captured, &last, nullptr, &count));
    CUgraphConditionalHandle inside = 0;
    const std::string made = brief(cuGraphConditionalHandleCreate(&inside, captured, context, 1, 1));
    CUgraphNodeParams within = conditional(inside, 0, 1);
    const std::string put = brief(cuGraphAddNode(&added, captured, last, nullptr, count, &within));
    const std::string updated = brief(cuStreamUpdateCaptureDependencies(stream, &added, nullptr, 1, 1));
    return listed({made, put, updated, brief(cuStreamEndCapture(stream, &captured))});
  });
}

// --- Runs ------------------------------------------------------------------------------------------------------------

// What a graph notes in each of three launches.
static void ask_run(const std::string& what, CUgraph graph) {
  ask(what, [&] {
    CUgraphExec instance = nullptr;
    const CUresult made = cuGraphInstantiate(&instance, graph, 0);
    if (made != CUDA_SUCCESS) return brief(made);
    std::string all;
    for (int time = 0; time < 3; ++time) {
      CHECK(cudaMemset(list, 0, 4));
      CHECK(cudaDeviceSynchronize());  // the stream does not wait for stream 0
      CHECK(cuGraphLaunch(instance, stream));
      const CUresult ended = cuStreamSynchronize(stream);
      if (ended != CUDA_SUCCESS) return brief(ended);
      unsigned noted[64];
      CHECK(cudaMemcpy(noted, list, sizeof noted, cudaMemcpyDeviceToHost));
      for (unsigned i = 1; i <= noted[0] && i < 64; ++i) all += std::to_string(noted[i]) + " ";
      all += "| ";
    }
    return all;
  });
}

SECTION("branches") {
  std::vector<CUgraph> bodies;
  for (const unsigned type : {0u, 2u})
    for (const unsigned size : {1u, 2u, 3u})
      for (const unsigned first : {0u, 1u, 2u, 7u}) {
        if (type == 0 && size == 3) continue;
        const std::string name = (type ? "switch of " : "if of ") + std::to_string(size) + ", ";
        for (const bool is_set : {false, true}) {
          CUgraph graph = new_graph();
          const CUgraphConditionalHandle handle = new_handle(graph, is_set ? 0 : first);
          const CUgraphNode before =
              is_set ? add_kernel(graph, nullptr, set, handle, first) : add_note(graph, nullptr, 50);
          const CUgraphNode node = add_conditional(graph, before, handle, type, size, bodies);
          for (unsigned i = 0; i < size; ++i) add_note(bodies[i], nullptr, i);
          add_note(graph, node, 60);
          ask_run(name + std::to_string(first) + (is_set ? " by a kernel" : " by default"), graph);
        }
      }
  CUgraph graph = new_graph();
  CUgraphConditionalHandle handle = new_handle(graph, 0, 0);
  CUgraphNode before = add_kernel(graph, nullptr, set_from, handle, (const unsigned*)value);
  add_conditional(graph, before, handle, 0, 2, bodies);
  const CUgraphNode first = add_note(bodies[0], nullptr, 1);
  add_kernel(bodies[0], first, set, handle, 0u);
  add_note(bodies[1], nullptr, 2);
  CHECK(cudaMemset(value, 1, 4));
  ask_run("an if that sets its own value to 0", graph);
}

SECTION("loops") {
  std::vector<CUgraph> bodies, inner;
  for (const unsigned first : {0u, 1u})
    for (const unsigned limit : {1u, 3u}) {
      CUgraph graph = new_graph();
      const CUgraphConditionalHandle handle = new_handle(graph, first);
      const CUgraphNode node = add_conditional(graph, nullptr, handle, 1, 1, bodies);
      add_kernel(bodies[0], add_note(bodies[0], nullptr, 1), count, handle, list + 63, limit);
      const CUdeviceptr counter = CUdeviceptr(list + 63);
      const CUDA_MEMSET_NODE_PARAMS zero = {counter, 0, 0, 4, 1, 1};
      CUgraphNode reset;
      CHECK(cuGraphAddMemsetNode(&reset, graph, &node, 1, &zero, context));
      add_note(graph, reset, 60);
      CHECK(cudaMemset(list, 0, 256));
      ask_run("while, default " + std::to_string(first) + ", " + std::to_string(limit) + " times", graph);
    }
  CUgraph graph = new_graph();
  const CUgraphConditionalHandle outer_handle = new_handle(graph, 1), inner_handle = new_handle(graph, 1);
  add_conditional(graph, nullptr, outer_handle, 1, 1, bodies);
  const CUgraphNode begin = add_kernel(bodies[0], add_note(bodies[0], nullptr, 10), set, inner_handle, 1u);
  const CUgraphNode loop = add_conditional(bodies[0], begin, inner_handle, 1, 1, inner);
  add_kernel(inner[0], add_note(inner[0], nullptr, 20), count, inner_handle, list + 62, 2u);
  const CUDA_MEMSET_NODE_PARAMS zero = {CUdeviceptr(list + 62), 0, 0, 4, 1, 1};
  CUgraphNode reset;
  CHECK(cuGraphAddMemsetNode(&reset, bodies[0], &loop, 1, &zero, context));
  add_kernel(bodies[0], reset, count, outer_handle, list + 63, 2u);
  CHECK(cudaMemset(list, 0, 256));
  ask_run("a loop in a loop, the outer one's count is kept", graph);
  graph = new_graph();
  const CUgraphConditionalHandle kept = new_handle(graph, 0, 0);
  const CUgraphNode start = add_kernel(graph, nullptr, set, kept, 1u);
  const CUgraphNode node = add_conditional(graph, start, kept, 0, 1, bodies);
  add_note(bodies[0], nullptr, 1);
  add_kernel(graph, node, set, kept, 0u);
  ask_run("a handle without a default", graph);
}

static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuCtxGetCurrent(&context));
  CHECK(cudaMalloc(&list, 1024));
  CHECK(cudaMemset(list, 0, 1024));
  CHECK(cudaMalloc(&value, 1024));
  CHECK(cuMemAlloc(&words, 1024));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
}

int main(int argc, char** argv) { return run_parts(argc, argv, set_up); }
