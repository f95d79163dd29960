// SPDX-License-Identifier: MIT-0
// Graphs, their nodes, and what depends on what. What a node does is a Work (work.h); what becomes of a graph that is
// launched is executable_graphs.cc's. All that is here is guarded by graphs().lock.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "driver.h"
#include "work.h"

struct CUgraphNode_st {
  CUgraph graph;
  uint64_t id;            // no other node of the process ever has it
  uint64_t original = 0;  // of the node that this one was cloned from
  driver::SharedWork work;
  std::unique_ptr<CUgraph_st> child;                // of a node that is a graph
  std::vector<std::unique_ptr<CUgraph_st>> bodies;  // of a conditional node
  std::vector<CUgraph> handles_of_bodies;           // as the program gets them
  std::vector<CUgraphNode> before, after;
  std::map<CUgraphNode, CUgraphEdgeData> edges;  // of those before it, where they are not the usual ones
};

struct CUuserObject_st {
  void* pointer;
  CUhostFn destroy;
  unsigned references;
};

struct CUgraphExec_st;

struct CUgraph_st {
  uint64_t id;
  uint64_t original = 0;                               // of the graph that this one was cloned from
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // in the order in which they were added
  CUgraphNode parent = nullptr;                        // that this is the child of, or a body
  std::vector<std::shared_ptr<driver::GraphCondition>> conditions;
  bool is_owned = false;                     // as a body, or as a child that was moved
  bool has_memory_nodes = false;             // or was asked for one that frees, and refused it
  unsigned captures = 0;                     // that add nodes to it
  std::map<CUuserObject, unsigned> objects;  // how many references it has
  std::weak_ptr<CUgraphExec_st> instance;    // the latest
  ~CUgraph_st();                             // when nothing is locked: user objects may end
};

namespace driver {

struct Capture;

struct Graphs {
  Mutex lock;  // taken before the state's
  std::set<CUgraph> all GUARDED_BY(lock);
  std::set<CUgraphNode> nodes GUARDED_BY(lock);
  Owned<CUgraphExec_st> executables GUARDED_BY(lock);
  std::set<CUuserObject> objects GUARDED_BY(lock);
  uint64_t ids GUARDED_BY(lock) = 0;
  std::vector<std::shared_ptr<Capture>> captures GUARDED_BY(lock);  // that have not ended
  std::atomic<size_t> capturing = 0;                                // how many these are
};
Graphs& graphs();

// These throw Refused.
CUgraph checked(CUgraph) REQUIRES(graphs().lock);
CUgraphNode checked(CUgraphNode) REQUIRES(graphs().lock);
CUuserObject checked(CUuserObject) REQUIRES(graphs().lock);
SharedWork work_at(CUgraphNode, CUgraphNodeType) EXCLUDES(graphs().lock);
std::unique_ptr<CUgraph_st> make_graph() REQUIRES(graphs().lock);
void require_clonable(const CUgraph_st&) REQUIRES(graphs().lock);
std::unique_ptr<CUgraph_st> clone(const CUgraph_st&) REQUIRES(graphs().lock);
void require_dependencies(CUgraph, std::span<const CUgraphNode>) REQUIRES(graphs().lock);
CUgraphEdgeData edge(const CUgraphNode_st& from, const CUgraphNode_st& to) REQUIRES(graphs().lock);
bool is_usual(const CUgraphEdgeData&);
void require_edge(const CUgraphEdgeData&, const Work& from, const Work& to);  // refuses what cannot join such nodes
void join(CUgraphNode from, CUgraphNode to, const CUgraphEdgeData&) REQUIRES(graphs().lock);
// Without data of its edges they are the usual ones.
CUgraphNode add_node(CUgraph, SharedWork, std::span<const CUgraphNode> dependencies, const CUgraphEdgeData* = nullptr)
    REQUIRES(graphs().lock);
CUgraphNode add_child(CUgraph, std::unique_ptr<CUgraph_st> child, std::span<const CUgraphNode> dependencies)
    REQUIRES(graphs().lock);
bool has_memory_nodes(const CUgraph_st&) REQUIRES(graphs().lock);  // also in graphs in it
bool has_conditional_nodes(const CUgraph_st&) REQUIRES(graphs().lock);
template <class Visit> void each_graph_in(const CUgraphNode_st& node, Visit visit) REQUIRES(graphs().lock) {
  if (node.child) visit(*node.child);
  for (const auto& body : node.bodies) visit(*body);
}
void require_not_owned(const CUgraph_st&) REQUIRES(graphs().lock);  // throws Refused if a node owns it
void forget(CUgraph) REQUIRES(graphs().lock);                       // it and its nodes are no handles any more
// With all that they depend on.
std::set<CUgraphNode> and_all_before(std::span<const CUgraphNode>) REQUIRES(graphs().lock);

std::span<const CUgraphNode> list(const CUgraphNode*, size_t count);  // what a program gives as dependencies
// Edges that a program gives to a capture, whose next node is not known: only the usual ones are simulated.
void require_edges(const CUgraphEdgeData*, std::span<const CUgraphNode> from) REQUIRES(graphs().lock);

// References to user objects that a graph or an executable one has. What ends with the last of them is called when
// nothing is locked.
void retain(std::map<CUuserObject, unsigned>& by, CUuserObject, unsigned count) REQUIRES(graphs().lock);
void release(std::map<CUuserObject, unsigned>& by) EXCLUDES(graphs().lock);
void release(CUuserObject, unsigned count) EXCLUDES(graphs().lock);  // so many references there are

}  // namespace driver
