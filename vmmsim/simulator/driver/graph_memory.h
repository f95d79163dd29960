// SPDX-License-Identifier: MIT-0
// Memory that nodes of graphs allocate and free. A node's address is known when it is added, and has memory from then
// until nothing can use it any more: the graph and what was instantiated of it are gone, and it is free. Whether it is
// allocated is decided when a graph is launched, and by the calls that free it.
#pragma once
#include <cuda.h>

#include <memory>
#include <vector>

#include "driver.h"
#include "graphs.h"

namespace driver {

struct GraphMemory : std::enable_shared_from_this<GraphMemory> {
  CUmemoryPool pool;  // of the GPU, for all its graphs
  uint64_t address;
  size_t size;
  std::shared_ptr<GraphMemory> itself GUARDED_BY(graphs().lock);  // while it is allocated: it may outlive its graph
  bool is_used GUARDED_BY(graphs().lock) = false;  // counts as used: allocated, or made ready by an upload
  GraphMemory(const PoolPlace&, size_t size, CUcontext) EXCLUDES(state().lock);
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;
  ~GraphMemory();
};

// The work of nodes; `given` gets the address. These throw Refused.
SharedWork allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS_v2& given);
SharedWork free_work(const CUDA_MEM_FREE_NODE_PARAMS&) EXCLUDES(graphs().lock);
SharedWork allocation_work(const PoolPlace&, size_t);  // of a call that a stream captures

// A call that frees memory: true if it was a node's, and is free now.
bool free_graph_memory(uint64_t address) EXCLUDES(graphs().lock);

// For a launch of nodes in this order: what they allocate is allocated from now on, and what they free is free. With
// `frees_first` what they allocate may be allocated still.
void allocate_and_free(const std::vector<SharedWork>&, bool frees_first) REQUIRES(graphs().lock);
// Memory that a node allocates is ready for its next launch, or no more.
void set_ready(const Work&, bool is_ready) REQUIRES(graphs().lock);
bool awaits_launch(uint64_t address) EXCLUDES(graphs().lock, state().lock);  // to be allocated by a node

// How much memory of a GPU graphs use; throw Refused.
void use_attribute(CUdevice, CUgraphMem_attribute, void* value, bool sets) EXCLUDES(state().lock);
void trim_graph_memory(CUdevice) EXCLUDES(graphs().lock, state().lock);

}  // namespace driver
