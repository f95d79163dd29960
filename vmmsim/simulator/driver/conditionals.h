// SPDX-License-Identifier: MIT-0
// Conditional nodes of graphs: if, while, switch. Such a node has graphs of its own, its bodies. Which of them runs is
// decided when the node's turn has come, by a value that the launch or a kernel has set.
#pragma once
#include <cuda.h>

#include <memory>
#include <span>
#include <vector>

#include "../gpu/conditions.h"
#include "graphs.h"
#include "streams.h"
#include "work.h"

namespace driver {

struct GraphCondition {  // of a graph, which hands it out as a handle
  std::shared_ptr<gpu::GraphCondition> value;
  CUcontext context;
  unsigned at_launch;
  bool is_set_at_launch;
  bool has_node = false;
};

CUgraphConditionalHandle create_condition(CUgraph, CUcontext, unsigned at_launch, unsigned flags)
    EXCLUDES(graphs().lock);  // throws Refused
// Adds a node, and gives its bodies to the program. Throws Refused.
CUgraphNode add_conditional(CUgraph, CUDA_CONDITIONAL_NODE_PARAMS&, std::span<const CUgraphNode> dependencies)
    REQUIRES(graphs().lock);
// Throws Refused unless handles of the graph have nodes, and its bodies only what can be there.
void require_conditionals(const CUgraph_st&) REQUIRES(graphs().lock);

// The work of a conditional node in a launch, whose bodies have these steps; and that which comes before all nodes and
// sets the values that are set at each launch.
SharedWork conditional_work(const Work& node, std::vector<std::vector<Step>> bodies);
SharedWork set_at_launch(const std::vector<SharedWork>& conditional_nodes);

}  // namespace driver
