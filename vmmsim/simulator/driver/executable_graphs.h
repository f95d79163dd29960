// SPDX-License-Identifier: MIT-0
// Executable graphs: what cuGraphInstantiate makes of a graph, how it is changed, and its launches.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "graphs.h"
#include "operations.h"
#include "work.h"

namespace driver {

struct Plan;

struct PlannedNode {
  uint64_t node;  // of the graph, by its id
  SharedWork work;
  std::vector<size_t> before;
  std::map<size_t, CUgraphEdgeData> early;  // those of them that need only have let it begin
  bool is_enabled = true;
  std::unique_ptr<Plan> child;
  std::vector<Plan> bodies;  // of a conditional node
};

struct Plan {
  std::vector<PlannedNode> nodes;  // in the order in which they were added
  std::vector<size_t> order;       // in which they may begin
};

}  // namespace driver

struct CUgraphExec_st {
  driver::Plan plan;
  unsigned long long flags = 0;
  bool is_alone = false;  // of a graph with nodes for memory, which has no second executable graph beside it
  std::map<CUuserObject, unsigned> objects;
  Mutex launching;         // held while a launch is put in, before graphs().lock
  driver::Operation last;  // of the latest launch
  ~CUgraphExec_st() { driver::release(objects); }
};

namespace driver {

struct Problem {  // as a program may read it
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_ERROR;
  CUgraphNode node = nullptr;
};

// All of these throw Refused.
std::shared_ptr<CUgraphExec_st> checked(CUgraphExec) REQUIRES(graphs().lock);
CUgraphExec instantiate(CUgraph, unsigned long long flags, bool may_upload, Problem&) EXCLUDES(graphs().lock);
void make_ready(CUgraphExec) EXCLUDES(graphs().lock);  // uploads it
void destroy(CUgraphExec) EXCLUDES(graphs().lock);
void update(CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo*) EXCLUDES(graphs().lock);
PlannedNode& can_be_disabled(CUgraphExec, CUgraphNode) REQUIRES(graphs().lock);
void launch(CUgraphExec, CUstream) EXCLUDES(graphs().lock);

// Lets a node do something else from the next launch on, and its child graph likewise.
void set_work(CUgraphExec, CUgraphNode, const std::function<SharedWork(const SharedWork&)>& changed);
void set_child(CUgraphExec, CUgraphNode, CUgraph);

// Refuses a node that frees memory in a graph, where another node does, or has to.
void require_freeable(const CUgraph_st&, const Work&) REQUIRES(graphs().lock);
void require_freeable_in_capture(CUstream_st&, const Work&) EXCLUDES(graphs().lock);

}  // namespace driver
