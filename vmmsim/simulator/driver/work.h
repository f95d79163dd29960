// SPDX-License-Identifier: MIT-0
// The work that streams and graphs are given. A call that puts something into a stream makes a Work of what it was
// asked for, and so does a call that adds a node to a graph: one piece of code checks both. submit() gives the work to
// the stream or, while the stream captures, adds it to a graph as a node. A launch of a graph puts the work of all its
// nodes in at once, each after those that it depends on.
#pragma once
#include <cuda.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../gpu/gpu.h"
#include "operations.h"

namespace driver {

struct GraphCondition;  // conditionals.h
struct GraphMemory;     // graph_memory.h
using Attributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

struct Work {
  CUgraphNodeParams given = {};                                  // as a call that adds a node would give it
  CUcontext context = nullptr;                                   // whose GPU does it; null: nobody's
  std::function<void(const Work&, const Operation&)> start;      // as Start; none: nothing is done
  std::function<void()> task;                                    // of a copy or a memset, or a word in memory
  CUresult too_late = CUDA_ERROR_ILLEGAL_ADDRESS;                // the fault if it must not touch the memory any more
  bool begins_early = false;                                     // of a kernel: before the one before it has ended
  bool lacks_clusters = false;                                   // of a kernel's node: it cannot be launched so
  uint64_t microseconds = 0;                                     // of a copy or memset: that an H200 needs, or so
  gpu::Launch launch = {};                                       // of a kernel; given.kernel points to its parameters
  std::vector<void*> pointers;                                   // those of given.kernel
  size_t parameter_bytes = 0;                                    // what one of these points to
  CUfunction function = nullptr;                                 // of a kernel
  Attributes attributes;                                         // likewise
  std::shared_ptr<CUevent_st> event_of_begin, event_of_end;      // which a launch of a kernel records
  std::shared_ptr<CUevent_st> event;                             // of a node that records or awaits one
  std::shared_ptr<GraphCondition> condition;                     // of a conditional node
  std::shared_ptr<GraphMemory> memory;                           // of a node that allocates or frees it
  std::shared_ptr<std::vector<CUstreamBatchMemOpParams>> words;  // those of given.memOp
};
using SharedWork = std::shared_ptr<const Work>;

// Each throws Refused, and gives null where there is nothing to do. Without a context it is the function's, or the
// current one.
SharedWork kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3&, const Attributes&, CUcontext = nullptr);
SharedWork copy_work(const CUDA_MEMCPY_NODE_PARAMS&);
SharedWork memset_work(const CUDA_MEMSET_NODE_PARAMS_v2&, bool is_captured = false);  // then rights are not looked at
bool is_mapped(const CUDA_MEMSET_NODE_PARAMS_v2&);  // memory lies at all of its addresses
SharedWork host_work(const CUDA_HOST_NODE_PARAMS_v2&);
SharedWork words_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2&);  // reads, writes and waits for words of memory
SharedWork event_work(CUgraphNodeType, CUevent);
std::shared_ptr<Work> task_work(CUgraphNodeType, CUcontext, std::function<void()> task);

}  // namespace driver
