// SPDX-License-Identifier: MIT-0
// What may be done with a graph whose nodes allocate or free memory: with each of its nodes and dependencies, with
// executable graphs of it, with graphs that hold it, and in which order graphs may free what others allocate.
#include "parts.h"

#include <vector>

static CUstream stream;
static CUdeviceptr words;
using Nodes = std::vector<CUgraphNode>;

static CUDA_MEM_ALLOC_NODE_PARAMS wanted(size_t bytes = 1024) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.bytesize = bytes;
  parameters.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  parameters.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return parameters;
}
static CUgraph new_graph() {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  return graph;
}
static CUgraphNode add_allocation(CUgraph graph, CUdeviceptr* address) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = wanted();
  CUgraphNode node;
  CHECK(cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &parameters));
  *address = parameters.dptr;
  return node;
}
static CUresult add_free(CUgraphNode* node, CUgraph graph, const Nodes& after, CUdeviceptr address) {
  return cuGraphAddMemFreeNode(node, graph, after.data(), after.size(), address);
}
static CUresult add_memset(CUgraphNode* node, CUgraph graph, const Nodes& after, CUdeviceptr to) {
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  const CUDA_MEMSET_NODE_PARAMS parameters = {to, 0, 1, 4, 4, 1};
  return cuGraphAddMemsetNode(node, graph, after.data(), after.size(), &parameters, context);
}
static std::string shape(CUgraph graph) {
  size_t nodes = 0, edges = 0;
  if (cuGraphGetNodes(graph, nullptr, &nodes) != CUDA_SUCCESS) return "gone";
  CHECK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &edges));
  return std::to_string(nodes) + " nodes, " + std::to_string(edges) + " edges";
}

// Two empty nodes in a row, an allocation, a memset behind it and, perhaps, what frees it.
struct Graph {
  CUgraph graph = new_graph();
  CUgraphNode one, two, allocation, memset, free = nullptr;
  CUdeviceptr address;
  explicit Graph(bool frees) {
    CHECK(cuGraphAddEmptyNode(&one, graph, nullptr, 0));
    CHECK(cuGraphAddEmptyNode(&two, graph, &one, 1));
    allocation = add_allocation(graph, &address);
    CHECK(add_memset(&memset, graph, {allocation}, address));
    if (frees) CHECK(add_free(&free, graph, {memset}, address));
  }
};

static void edits(bool frees) {
  const auto ask_edit = [&](const char* what, const auto& call) {
    for (const bool is_instantiated : {false, true}) {
      Graph g(frees);
      CUgraphExec instance = nullptr;
      if (is_instantiated) CHECK(cuGraphInstantiate(&instance, g.graph, 0));
      ask(std::string(what) + (is_instantiated ? ", instantiated" : ""),
          [&] { return listed({brief(call(g)), shape(g.graph)}); });
      if (instance) CHECK(cuGraphExecDestroy(instance));
      ask("  an instance then", [&] { return cuGraphInstantiate(&instance, g.graph, 0); });
    }
  };
  ask_edit("destroy an empty node", [](Graph& g) { return cuGraphDestroyNode(g.two); });
  ask_edit("destroy the memset", [](Graph& g) { return cuGraphDestroyNode(g.memset); });
  ask_edit("destroy the allocation", [](Graph& g) { return cuGraphDestroyNode(g.allocation); });
  if (frees) ask_edit("destroy what frees", [](Graph& g) { return cuGraphDestroyNode(g.free); });
  ask_edit("remove a dependency of empty nodes",
           [](Graph& g) { return cuGraphRemoveDependencies(g.graph, &g.one, &g.two, nullptr, 1); });
  ask_edit("remove the memset's dependency",
           [](Graph& g) { return cuGraphRemoveDependencies(g.graph, &g.allocation, &g.memset, nullptr, 1); });
  ask_edit("remove a dependency that is not there",
           [](Graph& g) { return cuGraphRemoveDependencies(g.graph, &g.two, &g.one, nullptr, 1); });
  ask_edit("remove no dependency",
           [](Graph& g) { return cuGraphRemoveDependencies(g.graph, nullptr, nullptr, nullptr, 0); });
  ask_edit("add a dependency of empty nodes and the allocation",
           [](Graph& g) { return cuGraphAddDependencies(g.graph, &g.two, &g.allocation, nullptr, 1); });
  ask_edit("add a dependency of the allocation and an empty node",
           [](Graph& g) { return cuGraphAddDependencies(g.graph, &g.allocation, &g.one, nullptr, 1); });
  ask_edit("add the same dependency again",
           [](Graph& g) { return cuGraphAddDependencies(g.graph, &g.one, &g.two, nullptr, 1); });
  ask_edit("add an empty node", [](Graph& g) { return cuGraphAddEmptyNode(&g.one, g.graph, &g.memset, 1); });
  ask_edit("add another allocation", [](Graph& g) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters = wanted();
    return cuGraphAddMemAllocNode(&g.one, g.graph, nullptr, 0, &parameters);
  });
  ask_edit("free it behind the memset", [](Graph& g) { return add_free(&g.one, g.graph, {g.memset}, g.address); });
  ask_edit("free it behind nothing", [](Graph& g) { return add_free(&g.one, g.graph, {}, g.address); });
  ask_edit("free it behind an empty node", [](Graph& g) { return add_free(&g.two, g.graph, {g.one}, g.address); });
  ask_edit("free a part of it", [](Graph& g) { return add_free(&g.one, g.graph, {g.memset}, g.address + 512); });
  ask_edit("free memory of cuMemAlloc", [](Graph& g) { return add_free(&g.one, g.graph, {g.memset}, words); });
  ask_edit("free null", [](Graph& g) { return add_free(&g.one, g.graph, {g.memset}, 0); });
  ask_edit("parameters of the allocation", [](Graph& g) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    return cuGraphMemAllocNodeGetParams(g.allocation, &parameters);
  });
  ask_edit("parameters of the memset as the allocation's", [](Graph& g) {
    CUDA_MEM_ALLOC_NODE_PARAMS parameters;
    return cuGraphMemAllocNodeGetParams(g.memset, &parameters);
  });
  ask_edit("set the allocation's parameters", [](Graph& g) {
    CUgraphNodeParams parameters = {};
    parameters.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    parameters.alloc.poolProps = wanted().poolProps;
    parameters.alloc.bytesize = 2048;
    return cuGraphNodeSetParams(g.allocation, &parameters);
  });
  ask_edit("set the memset's parameters", [](Graph& g) {
    const CUDA_MEMSET_NODE_PARAMS parameters = {g.address, 0, 2, 4, 4, 1};
    return cuGraphMemsetNodeSetParams(g.memset, &parameters);
  });
  ask_edit("clone", [](Graph& g) { return cuGraphClone(&g.graph, g.graph); });
  ask_edit("a child of another graph",
           [](Graph& g) { return cuGraphAddChildGraphNode(&g.one, new_graph(), nullptr, 0, g.graph); });
  ask_edit("destroy the graph", [](Graph& g) { return cuGraphDestroy(g.graph); });
}
SECTION("edits of a graph that keeps its memory") { edits(false); }
SECTION("edits of one that frees it") { edits(true); }

// --- Executable graphs -----------------------------------------------------------------------------------------------

static void instances(bool frees) {
  CUgraphExec instance = nullptr, second = nullptr;
  CUgraphExecUpdateResultInfo info = {};
  for (const unsigned flags : {0u, 1u, 4u, 8u}) {
    Graph g(frees);
    ask("instantiate, flags " + std::to_string(flags), [&] { return cuGraphInstantiate(&instance, g.graph, flags); });
    ask("  a second one", [&] { return cuGraphInstantiate(&second, g.graph, flags); });
  }
  Graph g(frees), other(frees);
  CHECK(cuGraphInstantiate(&instance, g.graph, 0));
  ask("update by itself",
      [&] { return listed({brief(cuGraphExecUpdate(instance, g.graph, &info)), std::to_string(info.result)}); });
  ask("update by one alike",
      [&] { return listed({brief(cuGraphExecUpdate(instance, other.graph, &info)), std::to_string(info.result)}); });
  CUgraphNode added;
  CHECK(cuGraphAddEmptyNode(&added, g.graph, nullptr, 0));
  ask("update by itself with one more node",
      [&] { return listed({brief(cuGraphExecUpdate(instance, g.graph, &info)), std::to_string(info.result)}); });
  const CUDA_MEMSET_NODE_PARAMS elsewhere = {words, 0, 2, 4, 4, 1};
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  ask("set the memset's parameters there",
      [&] { return cuGraphExecMemsetNodeSetParams(instance, g.memset, &elsewhere, context); });
  ask("switch off the allocation", [&] { return cuGraphNodeSetEnabled(instance, g.allocation, 0); });
  ask("switch off the memset", [&] { return cuGraphNodeSetEnabled(instance, g.memset, 0); });
  ask("upload", [&] { return cuGraphUpload(instance, stream); });
  for (const char* time : {"first", "second", "third"})
    ask(std::string("launch, the ") + time, [&] { return cuGraphLaunch(instance, stream); });
  ask("wait", [&] { return cuStreamSynchronize(stream); });
  ask("a second instance while it is not launched", [&] { return cuGraphInstantiate(&second, g.graph, 0); });
  ask("destroy the instance", [&] { return cuGraphExecDestroy(instance); });
  ask("free what it allocated", [&] { return cuMemFreeAsync(g.address, stream); });
  ask("instantiate again", [&] { return cuGraphInstantiate(&instance, g.graph, 1); });
  for (const char* time : {"first", "second", "third"})
    ask(std::string("launch one that frees by itself, the ") + time, [&] { return cuGraphLaunch(instance, stream); });
  ask("destroy the graph", [&] { return cuGraphDestroy(g.graph); });
  ask("launch then", [&] { return cuGraphLaunch(instance, stream); });
  ask("destroy the instance at last", [&] { return cuGraphExecDestroy(instance); });
  ask("wait at last", [&] { return cuStreamSynchronize(stream); });
}
SECTION("instances of a graph that keeps its memory") { instances(false); }
SECTION("instances of one that frees it") { instances(true); }

// One graph allocates, another frees.
SECTION("one allocates, another frees") {
  const auto started = [](CUgraphExec instance) {
    return listed({brief(cuGraphLaunch(instance, stream)), brief(cuStreamSynchronize(stream))});
  };
  Graph g(false);
  CUgraph freeing = new_graph(), second = new_graph();
  CUgraphNode node;
  CUgraphExec allocates = nullptr, frees = nullptr, again = nullptr;
  ask("a node that frees in another graph", [&] { return add_free(&node, freeing, {}, g.address); });
  ask("and one in a third", [&] { return add_free(&node, second, {}, g.address); });
  ask("and another in the second", [&] { return add_free(&node, freeing, {}, g.address); });
  ask("and one in the graph itself", [&] { return add_free(&node, g.graph, {g.memset}, g.address); });
  ask("clone the graph that frees", [&] {
    CUgraph copy;
    return cuGraphClone(&copy, freeing);
  });
  ask("the graph that frees as a child",
      [&] { return cuGraphAddChildGraphNode(&node, new_graph(), nullptr, 0, freeing); });
  ask("instantiate what frees", [&] { return cuGraphInstantiate(&frees, freeing, 0); });
  ask("  a second time", [&] { return cuGraphInstantiate(&again, freeing, 0); });
  ask("instantiate the third", [&] { return cuGraphInstantiate(&again, second, 0); });
  ask("launch what frees first", [&] { return started(frees); });
  ask("instantiate what allocates", [&] { return cuGraphInstantiate(&allocates, g.graph, 0); });
  ask("launch what allocates", [&] { return started(allocates); });
  ask("  again", [&] { return started(allocates); });
  ask("launch what frees", [&] { return started(frees); });
  ask("  again", [&] { return started(frees); });
  ask("launch the third", [&] { return started(again); });
  ask("launch what allocates, then", [&] { return started(allocates); });
  ask("launch the third, then", [&] { return started(again); });
  ask("destroy the instance that allocates", [&] { return cuGraphExecDestroy(allocates); });
  ask("destroy the graph that allocates", [&] { return cuGraphDestroy(g.graph); });
  ask("launch what frees, of a graph that is gone", [&] { return started(frees); });
  ask("a node that frees what is gone", [&] { return add_free(&node, new_graph(), {}, g.address); });
  ask("free what is gone", [&] { return cuMemFreeAsync(g.address, stream); });
}

// --- Children that are moved -----------------------------------------------------------------------------------------

SECTION("children that are moved") {
#if CUDA_VERSION >= 13000
  for (const bool has_memory : {false, true}) {
    const std::string name = has_memory ? "with memory nodes: " : "without: ";
    CUgraph child = new_graph(), parent = new_graph(), found = nullptr, other = new_graph();
    CUgraphNode node = nullptr, inside = nullptr, twice = nullptr;
    CUdeviceptr address;
    CUgraphExec one = nullptr, two = nullptr;
    has_memory ? void(inside = add_allocation(child, &address)) : CHECK(add_memset(&inside, child, {}, words));
    CUgraphNodeParams parameters = {};
    parameters.type = CU_GRAPH_NODE_TYPE_GRAPH;
    parameters.graph.graph = child;
    parameters.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    ask(name + "move", [&] { return cuGraphAddNode(&node, parent, nullptr, nullptr, 0, &parameters); });
    ask(name + "move again", [&] { return cuGraphAddNode(&twice, other, nullptr, nullptr, 0, &parameters); });
    ask(name + "ask for it", [&] {
      const CUresult answer = cuGraphChildGraphNodeGetGraph(node, &found);
      return listed({brief(answer), found == child ? "the same" : "another"});
    });
    ask(name + "destroy the child", [&] { return cuGraphDestroy(child); });
    ask(name + "add to the child",
        [&] { return listed({brief(cuGraphAddEmptyNode(&inside, child, nullptr, 0)), shape(child)}); });
    ask(name + "instantiate the child", [&] { return cuGraphInstantiate(&one, child, 0); });
    ask(name + "instantiate the parent", [&] { return cuGraphInstantiate(&two, parent, 0); });
    ask(name + "launch the parent",
        [&] { return listed({brief(cuGraphLaunch(two, stream)), brief(cuStreamSynchronize(stream))}); });
    ask(name + "a second instance", [&] { return cuGraphInstantiate(&one, parent, 0); });
    ask(name + "clone the parent", [&] { return cuGraphClone(&found, parent); });
    ask(name + "the parent as a child", [&] { return cuGraphAddChildGraphNode(&twice, other, nullptr, 0, parent); });
    ask(name + "destroy the node", [&] { return cuGraphDestroyNode(node); });
    ask(name + "ownership 7", [&] {
      parameters.graph.ownership = CUgraphChildGraphNodeOwnership(7);
      parameters.graph.graph = new_graph();
      return cuGraphAddNode(&node, other, nullptr, nullptr, 0, &parameters);
    });
  }
#endif
}

static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuMemAlloc(&words, 1024));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

int main(int argc, char** argv) { return run_parts(argc, argv, set_up); }
