// SPDX-License-Identifier: MIT-0
// Calls that build graphs, look at them, and take them apart: graphs, nodes of any type, dependencies and user objects.
#include <algorithm>
#include <cstdio>

#include "conditionals.h"
#include "graphs.h"

namespace driver {
namespace {

bool contains(const std::vector<CUgraphNode>& all, CUgraphNode node) {
  return std::find(all.begin(), all.end(), node) != all.end();
}

// Gives a program a list of handles: how many there are if it gives no room, else as many as there is room for.
void give(std::span<const CUgraphNode> all, CUgraphNode* to, size_t* count) {
  require_non_null(count, "the number of nodes");
  require(!to || *count, "the list has room for 0: give null instead of it to be told how many there are");
  if (to)
    for (size_t i = 0; i < *count; ++i) to[i] = i < all.size() ? all[i] : nullptr;
  *count = to ? std::min(*count, all.size()) : all.size();
}

// The data of the first `count` edges, or a refusal if a program asks for the edges alone and they say more.
void give_data(std::span<const CUgraphNode> from, std::span<const CUgraphNode> to, size_t count, CUgraphEdgeData* data)
    REQUIRES(graphs().lock) {
  for (size_t i = 0; i < std::min(count, from.size()); ++i) {
    const CUgraphEdgeData is = edge(*from[i], *to[i]);
    require(data || is_usual(is), CUDA_ERROR_LOSSY_QUERY,
            "an edge has data (a programmatic dependency): give edgeData room for them");
    if (data) data[i] = is;
  }
}

void give_edges(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  require_non_null(count, "numEdges");
  require(!from == !to, "give room for both ends of the edges, or for none");
  const MutexLock held(graphs().lock);
  std::vector<CUgraphNode> sources, targets;
  for (const auto& node : checked(graph)->nodes)
    for (const CUgraphNode after : node->after) {
      sources.push_back(node.get());
      targets.push_back(after);
    }
  size_t room = *count;
  give(sources, from, &room);
  give(targets, to, count);
  give_data(sources, targets, from ? *count : 0, data);
}

void give_nodes(CUgraphNode node, bool are_before, CUgraphNode* to, CUgraphEdgeData* data, size_t* count) {
  require(!data || to, "edgeData without room for nodes");
  const MutexLock held(graphs().lock);
  const std::vector<CUgraphNode>& all = are_before ? checked(node)->before : checked(node)->after;
  const std::vector<CUgraphNode> same(all.size(), node);
  give(all, to, count);
  if (are_before) give_data(all, same, to ? *count : 0, data);
  else give_data(same, all, to ? *count : 0, data);
}

std::vector<CUgraphNode> nodes_of(CUgraph graph, bool roots_only) REQUIRES(graphs().lock) {
  std::vector<CUgraphNode> all;
  for (const auto& node : checked(graph)->nodes)
    if (!roots_only || node->before.empty()) all.push_back(node.get());
  return all;
}

struct Edges {
  CUgraph graph;
  std::span<const CUgraphNode> from, to;
  const CUgraphEdgeData* data;  // null: the usual ones
  CUgraphEdgeData data_of(size_t i) const { return data ? data[i] : CUgraphEdgeData{}; }
};
// Both ends are nodes of the graph, and are joined already or not, as `are_there` says. Refuses.
void require_ends(const Edges& edges, bool are_there) REQUIRES(graphs().lock) {
  checked(edges.graph);
  for (size_t i = 0; i < edges.from.size(); ++i) {
    const CUgraphNode from = checked(edges.from[i]), to = checked(edges.to[i]);
    require(from->graph == edges.graph && to->graph == edges.graph, "a node is another graph's");
    require(from != to, "a node depends on itself");
    require(contains(to->before, from) == are_there,
            are_there ? "there is no such dependency" : "the dependency is there already");
    if (!are_there) require_edge(edges.data_of(i), *from->work, *to->work);
  }
}

void add_edges(const Edges& edges) {
  const MutexLock held(graphs().lock);
  require_ends(edges, false);
  for (size_t i = 0; i < edges.from.size(); ++i) {
    require(!contains(edges.to[i]->before, edges.from[i]), "a dependency is given twice");
    join(edges.from[i], edges.to[i], edges.data_of(i));
  }
}

void remove_edges(const Edges& edges) {
  const MutexLock held(graphs().lock);
  require(!has_memory_nodes(*checked(edges.graph)), CUDA_ERROR_NOT_SUPPORTED,
          "nodes of the graph allocate or free memory: its dependencies stay");
  require_ends(edges, true);
  for (size_t i = 0; i < edges.from.size(); ++i) {
    std::erase(edges.to[i]->before, edges.from[i]);
    edges.to[i]->edges.erase(edges.from[i]);
    std::erase(edges.from[i]->after, edges.to[i]);
  }
}

void destroy_node(CUgraphNode node) {
  std::unique_ptr<CUgraphNode_st> unwanted;
  const MutexLock held(graphs().lock);
  CUgraph_st& graph = *checked(node)->graph;
  require(!graph.captures, CUDA_ERROR_ILLEGAL_STATE,
          "a stream captures into the graph: nothing can be removed meanwhile");
  require(!has_memory_nodes(graph), CUDA_ERROR_NOT_SUPPORTED,
          "nodes of the graph allocate or free memory: all its nodes stay");
  for (const CUgraphNode before : node->before) std::erase(before->after, node);
  for (const CUgraphNode after : node->after) {
    std::erase(after->before, node);
    after->edges.erase(node);
  }
  each_graph_in(*node, [](CUgraph_st& inside) REQUIRES(graphs().lock) { forget(&inside); });
  graphs().nodes.erase(node);
  const auto found =
      std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& owned) { return owned.get() == node; });
  unwanted = std::move(*found);
  graph.nodes.erase(found);
}

void destroy(CUgraph graph) {
  std::unique_ptr<CUgraph_st> unwanted;
  const MutexLock held(graphs().lock);
  checked(graph);
  require(!graph->parent, "the graph is a node's, and goes with it");
  require(!graph->captures, CUDA_ERROR_ILLEGAL_STATE, "a stream captures into the graph: end that first");
  forget(graph);
  unwanted.reset(graph);
}

CUgraphNode find_in_clone(CUgraphNode original, CUgraph graph) {
  const MutexLock held(graphs().lock);
  checked(original);
  for (const auto& node : checked(graph)->nodes)
    if (node->original == original->id) return node.get();
  refuse("the graph was not cloned from the node's, or the node is gone there");
}

// --- User objects ---------------------------------------------------------------------------------------------------

CUuserObject create_object(void* pointer, CUhostFn destroy, unsigned count, unsigned flags) {
  require(destroy, "destroy is null");
  require(count > 0 && count <= INT_MAX, "initialRefcount is 0, or more than INT_MAX");
  require(flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC, "flags must be CU_USER_OBJECT_NO_DESTRUCTOR_SYNC");
  const MutexLock held(graphs().lock);
  return *graphs().objects.insert(new CUuserObject_st{pointer, destroy, count}).first;
}

void require_count(unsigned count) { require(count > 0 && count <= INT_MAX, "count is 0, or more than INT_MAX"); }

void retain_object(CUuserObject object, unsigned count) {
  require_count(count);
  const MutexLock held(graphs().lock);
  checked(object)->references += count;
}

void release_object(CUuserObject object, unsigned count) {
  {
    const MutexLock held(graphs().lock);
    require(count <= checked(object)->references, "there are not so many references");
  }
  release(object, count);
}

void retain_by(CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
  require_count(count);
  require_flags(flags <= CU_GRAPH_USER_OBJECT_MOVE);
  const MutexLock held(graphs().lock);
  checked(graph);
  require(!(flags & CU_GRAPH_USER_OBJECT_MOVE) || count <= checked(object)->references,
          "there are not so many references");
  retain(graph->objects, object, count);
  if (flags & CU_GRAPH_USER_OBJECT_MOVE) object->references -= count;
}

void release_by(CUgraph graph, CUuserObject object, unsigned count) {
  {
    const MutexLock held(graphs().lock);
    const auto found = checked(graph)->objects.find(object);
    require(found != graph->objects.end() && count <= found->second, "the graph has not so many references");
    found->second -= count;
    if (!found->second) graph->objects.erase(found);
  }
  release(object, count);
}

// --- For people ------------------------------------------------------------------------------------------------------

std::string label_of(const CUgraphNode_st& node) {
  constexpr const char* names[] = {"KERNEL",     "MEMCPY",       "MEMSET", "HOST", "GRAPH",     "EMPTY",
                                   "WAIT_EVENT", "EVENT_RECORD", "",       "",     "MEM_ALLOC", "MEM_FREE"};
  const unsigned type = unsigned(node.work->given.type);
  const std::string name = type < std::size(names) ? names[type] : "BATCH_MEM_OP";
  if (node.work->condition()) return "CONDITIONAL";
  const KernelWork* const kernel = node.work->kernel();
  return kernel ? name + "\\n" + demangled(kernel->launch.kernel->name) : name;
}

void append_dot(const CUgraph_st& graph, std::string& text) REQUIRES(graphs().lock) {
  const std::string name = "graph_" + std::to_string(graph.id);
  text += "subgraph cluster_" + name + " {\nlabel=\"" + name + "\"\n";
  for (const auto& node : graph.nodes)
    text += "\"node_" + std::to_string(node->id) + "\" [label=\"" + label_of(*node) + "\" shape=rectangle];\n";
  for (const auto& node : graph.nodes)
    for (const CUgraphNode after : node->after)
      text += "\"node_" + std::to_string(node->id) + "\" -> \"node_" + std::to_string(after->id) + "\";\n";
  text += "}\n";
  for (const auto& node : graph.nodes)
    each_graph_in(*node, [&](const CUgraph_st& inside) REQUIRES(graphs().lock) { append_dot(inside, text); });
}

void write_dot(CUgraph graph, const char* path) {
  require_non_null(path, "path");
  std::string text = "digraph dot {\n";
  {
    const MutexLock held(graphs().lock);
    append_dot(*checked(graph), text);
  }
  text += "}\n";
  std::FILE* const file = std::fopen(path, "we");
  require(file, CUDA_ERROR_OPERATING_SYSTEM, "the file cannot be written");
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  return call(ARGUMENTS(phGraph, flags), [&] {
    require_non_null(phGraph, "phGraph");
    require_no_flags(flags);
    const MutexLock held(graphs().lock);
    *phGraph = make_graph().release();
  });
}
CUresult cuGraphDestroy(CUgraph hGraph) {
  return call(ARGUMENTS(hGraph), [&] { destroy(hGraph); });
}
CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  return call(ARGUMENTS(phGraphClone, originalGraph), [&] {
    require_non_null(phGraphClone, "phGraphClone");
    const MutexLock held(graphs().lock);
    require_not_owned(*checked(originalGraph));
    *phGraphClone = clone(*originalGraph).release();
  });
}
CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph) {
  return call(ARGUMENTS(phNode, hOriginalNode, hClonedGraph),
              result_to(phNode, "phNode", [&] { return find_in_clone(hOriginalNode, hClonedGraph); }));
}
CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  return call(ARGUMENTS(hNode), [&] { destroy_node(hNode); });
}
CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  return call(ARGUMENTS(hNode, type), [&] {
    require_non_null(type, "type");
    const MutexLock held(graphs().lock);
    *type = checked(hNode)->work->given.type;
  });
}
CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return call(ARGUMENTS(hGraph, nodes, numNodes), [&] {
    const MutexLock held(graphs().lock);
    give(nodes_of(hGraph, false), nodes, numNodes);
  });
}
CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return call(ARGUMENTS(hGraph, rootNodes, numRootNodes), [&] {
    const MutexLock held(graphs().lock);
    give(nodes_of(hGraph, true), rootNodes, numRootNodes);
  });
}
CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph* phGraph) {
  return call(ARGUMENTS(hNode, phGraph), [&] {
    require_non_null(phGraph, "phGraph");
    const MutexLock held(graphs().lock);
    require(checked(hNode)->child != nullptr, "the node is no graph");
    *phGraph = hNode->child.get();
  });
}
CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char* path, unsigned int flags) {
  return call(ARGUMENTS(hGraph, path, flags), [&] { write_dot(hGraph, path); });
}

EXPORT CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edgeData,
                                   size_t* numEdges) {
  return call(ARGUMENTS(hGraph, from, to, numEdges), [&] { give_edges(hGraph, from, to, edgeData, numEdges); });
}
EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode* dependencies, CUgraphEdgeData* edgeData,
                                              size_t* numDependencies) {
  return call(ARGUMENTS(hNode, dependencies, numDependencies),
              [&] { give_nodes(hNode, true, dependencies, edgeData, numDependencies); });
}
EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                                CUgraphEdgeData* edgeData, size_t* numDependentNodes) {
  return call(ARGUMENTS(hNode, dependentNodes, numDependentNodes),
              [&] { give_nodes(hNode, false, dependentNodes, edgeData, numDependentNodes); });
}
EXPORT CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                          const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return call(ARGUMENTS(hGraph, from, to, numDependencies),
              [&] { add_edges({hGraph, list(from, numDependencies), list(to, numDependencies), edgeData}); });
}
EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                             const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return call(ARGUMENTS(hGraph, from, to, numDependencies),
              [&] { remove_edges({hGraph, list(from, numDependencies), list(to, numDependencies), edgeData}); });
}
// As programs of CUDA 12 call them: without data of edges.
#undef cuGraphGetEdges
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuGraphAddDependencies
#undef cuGraphRemoveDependencies
EXPORT CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return cuGraphGetEdges_v2(hGraph, from, to, nullptr, numEdges);
}
EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode* dependencies, size_t* numDependencies) {
  return cuGraphNodeGetDependencies_v2(hNode, dependencies, nullptr, numDependencies);
}
EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode hNode, CUgraphNode* dependentNodes,
                                             size_t* numDependentNodes) {
  return cuGraphNodeGetDependentNodes_v2(hNode, dependentNodes, nullptr, numDependentNodes);
}
EXPORT CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                       size_t numDependencies) {
  return cuGraphAddDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}
EXPORT CUresult cuGraphRemoveDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                          size_t numDependencies) {
  return cuGraphRemoveDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle* pHandle_out, CUgraph hGraph, CUcontext ctx,
                                        unsigned int defaultLaunchValue, unsigned int flags) {
  return call(
      ARGUMENTS(pHandle_out, hGraph, ctx, defaultLaunchValue, flags),
      result_to(pHandle_out, "pHandle_out", [&] { return create_condition(hGraph, ctx, defaultLaunchValue, flags); }));
}

CUresult cuUserObjectCreate(CUuserObject* object_out, void* ptr, CUhostFn destroy, unsigned int initialRefcount,
                            unsigned int flags) {
  return call(ARGUMENTS(object_out, ptr, initialRefcount, flags),
              result_to(object_out, "object_out", [&] { return create_object(ptr, destroy, initialRefcount, flags); }));
}
CUresult cuUserObjectRetain(CUuserObject object, unsigned int count) {
  return call(ARGUMENTS(object, count), [&] { retain_object(object, count); });
}
CUresult cuUserObjectRelease(CUuserObject object, unsigned int count) {
  return call(ARGUMENTS(object, count), [&] { release_object(object, count); });
}
CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count, unsigned int flags) {
  return call(ARGUMENTS(graph, object, count, flags), [&] { retain_by(graph, object, count, flags); });
}
CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count) {
  return call(ARGUMENTS(graph, object, count), [&] { release_by(graph, object, count); });
}
