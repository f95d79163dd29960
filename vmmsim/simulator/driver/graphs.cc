// SPDX-License-Identifier: MIT-0
// Graphs as programs build them: nodes, what depends on what, clones, and user objects. What a node does is
// graph_node_calls.cc's, what becomes of a graph that is launched executable_graphs.cc's.

#include "graphs.h"

#include <algorithm>
#include <cstring>

#include "../lasting.h"
#include "host_functions.h"

namespace driver {
static bool is_same(const CUgraphEdgeData& a, const CUgraphEdgeData& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

Graphs& graphs() { return lasting<Graphs>(); }

CUgraph checked(CUgraph graph) {
  require(graphs().all.contains(graph), "this is no graph, or it has been destroyed");
  return graph;
}

CUgraphNode checked(CUgraphNode node) {
  require(graphs().nodes.contains(node), "this is no node of a graph, or it has been destroyed");
  return node;
}

SharedWork work_at(CUgraphNode node, CUgraphNodeType type) {
  const MutexLock held(graphs().lock);
  require(checked(node)->work->given.type == type, "the node is of another type");
  return node->work;
}

void require_dependencies(CUgraph graph, std::span<const CUgraphNode> all) {
  for (size_t i = 0; i < all.size(); ++i) {
    require(checked(all[i])->graph == graph, "a dependency is another graph's");
    const bool is_twice = std::find(all.begin(), all.begin() + i, all[i]) != all.begin() + i;
    require(!is_twice, "a dependency is given twice");
  }
}

std::span<const CUgraphNode> list(const CUgraphNode* nodes, size_t count) {
  if (count) require_non_null(nodes, "the list of nodes");
  return {nodes, count};
}

bool is_usual(const CUgraphEdgeData& data) { return is_same(data, {}); }

CUgraphEdgeData edge(const CUgraphNode_st& from, const CUgraphNode_st& to) {
  const auto found = to.edges.find(const_cast<CUgraphNode>(&from));
  return found == to.edges.end() ? CUgraphEdgeData{} : found->second;
}

void require_edge(const CUgraphEdgeData& data, const Work& from, const Work& to) {
  if (is_usual(data)) return;
  const CUgraphEdgeData known[] = {
      programmatic,
      {CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, 0, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT, {}},
      {CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}}};
  require(std::any_of(std::begin(known), std::end(known), [&](const auto& usable) { return is_same(usable, data); }),
          "an edge is the usual one, all zeros, or begins at CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER (2), or at "
          "CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC (1) with the type CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC (1)");
  require(from.kernel() && to.kernel(), "such a dependency joins two kernels");
}

void require_edges(const CUgraphEdgeData* data, std::span<const CUgraphNode> from) {
  for (size_t i = 0; data && i < from.size(); ++i) {
    if (is_usual(data[i])) continue;
    require_edge(data[i], *from[i]->work, *from[i]->work);
    refuse_not_simulated("a programmatic dependency that is given to a capture");
  }
}

void join(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData& data) {
  to->before.push_back(from);
  from->after.push_back(to);
  if (!is_usual(data)) to->edges[from] = data;
}

std::unique_ptr<CUgraph_st> make_graph() {
  auto graph = std::make_unique<CUgraph_st>();
  graph->id = ++graphs().ids;
  graphs().all.insert(graph.get());
  return graph;
}

CUgraphNode add_node(CUgraph graph, SharedWork work, std::span<const CUgraphNode> dependencies,
                     const CUgraphEdgeData* edges) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->work = std::move(work);
  node->graph = graph;
  node->id = ++graphs().ids;
  graph->has_memory_nodes |= node->work->memory() != nullptr;
  const CUgraphNode added = node.get();
  for (size_t i = 0; i < dependencies.size(); ++i) join(dependencies[i], added, edges ? edges[i] : CUgraphEdgeData{});
  graphs().nodes.insert(added);
  graph->nodes.push_back(std::move(node));
  return added;
}

CUgraphNode add_child(CUgraph graph, std::unique_ptr<CUgraph_st> child, std::span<const CUgraphNode> dependencies) {
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_GRAPH;
  work->given.graph.graph = child.get();
  const CUgraphNode added = add_node(graph, work, dependencies);
  child->parent = added;
  added->child = std::move(child);
  return added;
}

void require_not_owned(const CUgraph_st& graph) {
  require(!graph.is_owned, CUDA_ERROR_NOT_SUPPORTED,
          "the graph is a body of a conditional node, or was moved into a node: it goes with the graph around it");
}

void require_clonable(const CUgraph_st& graph) {
  require(!has_memory_nodes(graph), CUDA_ERROR_NOT_SUPPORTED,
          "a graph that allocates or frees memory, or was asked to, has no clone, and is no node of another");
  for (const auto& node : graph.nodes) {
    require(!node->work->condition(), CUDA_ERROR_NOT_SUPPORTED,
            "a graph with conditional nodes has no clone, and is no node of another");
    if (node->child) require_clonable(*node->child);
  }
}

std::unique_ptr<CUgraph_st> clone(const CUgraph_st& graph) {
  require_clonable(graph);  // before it is begun: one that is given up would stay among the graphs
  auto copy = make_graph();
  copy->original = graph.id;
  std::map<CUgraphNode, CUgraphNode> clones;
  for (const auto& node : graph.nodes) {
    const CUgraphNode added =
        node->child ? add_child(copy.get(), clone(*node->child), {}) : add_node(copy.get(), node->work, {});
    added->original = node->id;
    clones[node.get()] = added;
  }
  for (const auto& node : graph.nodes) {
    for (const CUgraphNode before : node->before) clones[node.get()]->before.push_back(clones[before]);
    for (const auto& [before, data] : node->edges) clones[node.get()]->edges[clones[before]] = data;
    for (const CUgraphNode after : node->after) clones[node.get()]->after.push_back(clones[after]);
  }
  for (const auto& [object, count] : graph.objects) retain(copy->objects, object, count);
  return copy;
}

bool has_memory_nodes(const CUgraph_st& graph) {
  return graph.has_memory_nodes ||
         std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) REQUIRES(graphs().lock) {
           return node->child && has_memory_nodes(*node->child);
         });
}

bool has_conditional_nodes(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const auto& node) { return node->work->condition() != nullptr; });
}

void forget(CUgraph graph) {
  graphs().all.erase(graph);
  for (const auto& node : graph->nodes) {
    graphs().nodes.erase(node.get());
    each_graph_in(*node, [](CUgraph_st& inside) REQUIRES(graphs().lock) { forget(&inside); });
  }
}

std::set<CUgraphNode> and_all_before(std::span<const CUgraphNode> nodes) {
  std::set<CUgraphNode> found;
  std::vector<CUgraphNode> next(nodes.begin(), nodes.end());
  while (!next.empty()) {
    const CUgraphNode node = next.back();
    next.pop_back();
    if (found.insert(node).second) next.insert(next.end(), node->before.begin(), node->before.end());
  }
  return found;
}

CUuserObject checked(CUuserObject object) {
  require(graphs().objects.contains(object), "this is no user object, or it has ended");
  return object;
}

// The last reference ends the object: its destructor is called when nothing is locked, in the thread whose call it is,
// or, at the end of a launch, in the driver's. There are so many references.
void release(CUuserObject object, unsigned count) {
  {
    const MutexLock held(graphs().lock);
    object->references -= count;
    if (object->references) return;
    graphs().objects.erase(object);
  }
  const auto end = [object] {
    object->destroy(object->pointer);
    delete object;
  };
  if (thread().call) end();
  else run_for_program(nullptr, end);  // of no context
}

void retain(std::map<CUuserObject, unsigned>& by, CUuserObject object, unsigned count) {
  by[checked(object)] += count;
  object->references += count;
}

void release(std::map<CUuserObject, unsigned>& by) {
  for (const auto& [object, count] : by) release(object, count);
  by.clear();
}

}  // namespace driver

CUgraph_st::~CUgraph_st() { driver::release(objects); }
