// SPDX-License-Identifier: MIT-0
// Graphs, and the work that streams and graphs are given. A call that puts something into a stream makes a Work of what
// it was asked for, and so does a call that adds a node to a graph: one piece of code checks both. put() gives the work
// to the stream or, while the stream captures, adds it to a graph as a node. A launch of a graph puts the work of all
// its nodes in at once, each after those that it depends on.
#pragma once
#include "driver.h"

namespace driver {

using Attributes = std::map<CUlaunchAttributeID, CUlaunchAttributeValue>;

struct Work {
  CUgraphNodeParams given = {};                              // as a call that adds a node would give it
  CUcontext context = nullptr;                               // whose GPU does it; null: nobody's
  std::function<void(const Work&, const Operation&)> start;  // as Start; none: nothing is done
  std::function<void()> task;                                // of a copy or a memset, or a word in memory
  gpu::Launch launch = {};                                   // of a kernel; given.kernel points to its parameters
  std::vector<void*> pointers;                               // those of given.kernel
  size_t parameter_bytes = 0;                                // what one of these points to
  CUfunction function = nullptr;                             // of a kernel
  Attributes attributes;                                     // likewise
  std::shared_ptr<CUevent_st> event;                         // of a node that records or awaits one
};
using SharedWork = std::shared_ptr<const Work>;

// Each throws Refused, and gives null where there is nothing to do. Without a context it is the function's, or the
// current one.
SharedWork kernel_work(const CUDA_KERNEL_NODE_PARAMS_v3&, const Attributes&, CUcontext = nullptr);
SharedWork copy_work(const CUDA_MEMCPY_NODE_PARAMS&);
SharedWork memset_work(const CUDA_MEMSET_NODE_PARAMS_v2&, bool is_captured = false);  // then rights are not looked at
SharedWork host_work(const CUDA_HOST_NODE_PARAMS_v2&);
SharedWork event_work(CUgraphNodeType, CUevent);
std::shared_ptr<Work> task_work(CUgraphNodeType, CUcontext, std::function<void()> task);

// Gives work to a stream. Returns null if the stream captures it. Throws Refused.
Operation put(CUstream_st&, const SharedWork&);

// An operation among those that enqueue_all() puts in.
struct Step {
  SharedWork work;             // null: a mark
  std::vector<size_t> before;  // the steps that it waits for; without any it waits for what the stream has
};
// Puts all of them into a stream, and behind them what `at_end` starts, which it returns.
Operation enqueue_all(CUstream_st&, const std::vector<Step>&, const Operation& also, Start at_end);

// What is started to record an event of several processes, or to wait for one; none for the others, which stand for
// an operation.
Start start_to_record(const CUevent_st&);
Start start_to_wait(const CUevent_st&);

}  // namespace driver

// --- Graphs --------------------------------------------------------------------------------------------------------
// What follows is guarded by graphs().lock.

struct CUgraphNode_st {
  CUgraph graph;
  uint64_t id;            // no other node of the process ever has it
  uint64_t original = 0;  // of the node that this one was cloned from
  driver::SharedWork work;
  std::unique_ptr<CUgraph_st> child;  // of a node that is a graph
  std::vector<CUgraphNode> before, after;
};

struct CUuserObject_st {
  void* pointer;
  CUhostFn destroy;
  unsigned references;
};

struct CUgraph_st {
  uint64_t id;
  uint64_t original = 0;                               // of the graph that this one was cloned from
  std::vector<std::unique_ptr<CUgraphNode_st>> nodes;  // in the order in which they were added
  CUgraphNode parent = nullptr;                        // that this is the child of
  unsigned captures = 0;                               // that add nodes to it
  std::map<CUuserObject, unsigned> objects;            // how many references it has
  ~CUgraph_st();                                       // when nothing is locked: user objects may end
};

struct CUgraphExec_st;

namespace driver {

struct Capture;

struct Graphs {
  std::mutex lock;  // taken before the state's
  std::set<CUgraph> all;
  std::set<CUgraphNode> nodes;
  Owned<CUgraphExec_st> executables;
  std::set<CUuserObject> objects;
  uint64_t ids = 0;
  std::vector<std::shared_ptr<Capture>> captures;  // that have not ended
  std::atomic<size_t> capturing = 0;               // how many these are
};
Graphs& graphs();

// All of these with the lock held. They throw Refused.
CUgraph checked(CUgraph);
CUgraphNode checked(CUgraphNode);
std::unique_ptr<CUgraph_st> make_graph();
std::unique_ptr<CUgraph_st> clone(const CUgraph_st&);
void check_dependencies(CUgraph, std::span<const CUgraphNode>);  // for the two that follow
CUgraphNode add_node(CUgraph, SharedWork, std::span<const CUgraphNode> dependencies);
CUgraphNode add_child(CUgraph, std::unique_ptr<CUgraph_st> child, std::span<const CUgraphNode> dependencies);
void forget(CUgraph);                                                 // it and its nodes are no handles any more
std::set<CUgraphNode> and_all_before(std::span<const CUgraphNode>);   // with all that they depend on
std::span<const CUgraphNode> list(const CUgraphNode*, size_t count);  // what a program gives as dependencies
void check_edges(const CUgraphEdgeData*, size_t count);               // others than the usual are not simulated

// References to user objects that a graph or an executable one has. What ends with the last of them is called when
// nothing is locked.
void retain(std::map<CUuserObject, unsigned>& by, CUuserObject, unsigned count);
void release(std::map<CUuserObject, unsigned>& by);

// --- Executable graphs ----------------------------------------------------------------------------------------------
// Lets a node do something else from the next launch on, and its child graph likewise.
void set_work(CUgraphExec, CUgraphNode, const std::function<SharedWork(const SharedWork&)>& changed);
void set_child(CUgraphExec, CUgraphNode, CUgraph);

// --- Captures -------------------------------------------------------------------------------------------------------
// Adds work to the graph that a stream is captured into. False: it is not.
bool capture(CUstream_st&, const SharedWork&);
// A stream that captures takes the event for what it has captured, or goes on behind what the event stands for, and
// then captures too. False: the stream does not capture, nor does the event stand for what was captured.
bool capture_record(CUstream_st&, CUevent_st&);
bool capture_wait(CUstream_st&, const CUevent_st&);
bool is_capturing(const CUstream_st&);
void must_not_capture(const CUstream_st&);                    // to be waited for, or asked: throws if it captures
void must_not_capture(const CUevent_st&, bool ends_capture);  // likewise if it stands for what was captured
void must_not_capture(CUcontext);                             // likewise if one of its streams captures
void legacy_must_be_usable(
    const CUstream_st&);           // throws if it is the legacy stream, and a stream that it minds captures
void leave_capture(CUstream_st&);  // which is destroyed

}  // namespace driver
