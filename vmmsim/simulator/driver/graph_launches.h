// SPDX-License-Identifier: MIT-0
// Changes of executable graphs.
#pragma once
#include <cuda.h>

#include <functional>

#include "work.h"

namespace driver {

// Lets a node do something else from the next launch on, and its child graph likewise.
void set_work(CUgraphExec, CUgraphNode, const std::function<SharedWork(const SharedWork&)>& changed);
void set_child(CUgraphExec, CUgraphNode, CUgraph);

}  // namespace driver
