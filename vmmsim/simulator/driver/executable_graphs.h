// SPDX-License-Identifier: MIT-0
// Changes of executable graphs.
#pragma once
#include <cuda.h>

#include <functional>

#include "graphs.h"
#include "work.h"

namespace driver {

struct GraphMemory;

// Lets a node do something else from the next launch on, and its child graph likewise.
void set_work(CUgraphExec, CUgraphNode, const std::function<SharedWork(const SharedWork&)>& changed);
void set_child(CUgraphExec, CUgraphNode, CUgraph);

// Whether the graph's latest executable graph is there, and has a node that allocates this memory.
bool is_allocated_by_instance(const CUgraph_st&, const GraphMemory&) REQUIRES(graphs().lock);

}  // namespace driver
