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
#include <variant>
#include <vector>

#include "../gpu/gpu.h"
#include "operations.h"

namespace driver {

struct GraphCondition;  // conditionals.h
struct GraphMemory;     // graph_memory.h
using Attributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

struct KernelWork {
  CUfunction function = nullptr;
  gpu::Launch launch = {};
  Attributes attributes;
  std::shared_ptr<CUevent_st> event_of_begin, event_of_end;  // which the launch records
  bool begins_early = false;                                 // before the kernel before it has ended
  bool lacks_clusters = false;                               // of a node: it cannot be launched so
  std::vector<void*> pointers;                               // those of given.kernel, to the launch's parameters
  size_t parameter_bytes = 0;                                // to which one of these points
};
struct TaskWork {  // a copy, a memset, or writes to words of memory
  std::function<void()> run;
  CUresult too_late = CUDA_ERROR_ILLEGAL_ADDRESS;  // the fault if it must not touch the memory any more
  uint64_t microseconds = 0;                       // that an H200 needs, or so
};

struct Work {
  CUgraphNodeParams given = {};                              // as a call that adds a node would give it
  CUcontext context = nullptr;                               // whose GPU does it; null: nobody's
  std::function<void(const Work&, const Operation&)> start;  // as Start; none: nothing is done
  std::variant<std::monostate, KernelWork, TaskWork, std::shared_ptr<CUevent_st>, std::shared_ptr<GraphCondition>,
               std::shared_ptr<GraphMemory>>
      payload;

  const KernelWork* kernel() const { return std::get_if<KernelWork>(&payload); }  // null: it is another kind of work
  const TaskWork* task() const { return std::get_if<TaskWork>(&payload); }
  TaskWork* task() { return std::get_if<TaskWork>(&payload); }
  auto event() const { return shared<CUevent_st>(); }  // that a node records or awaits
  auto condition() const { return shared<GraphCondition>(); }
  auto memory() const { return shared<GraphMemory>(); }  // that a node allocates or frees

 private:
  template <class T> std::shared_ptr<T> shared() const {
    const auto* const found = std::get_if<std::shared_ptr<T>>(&payload);
    return found ? *found : nullptr;
  }
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
