// SPDX-License-Identifier: MIT-0
// Operations, each a kernel, a copy, or a mark that others wait for; and streams, which are queues of them.
#pragma once
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace driver {

struct OperationNode;
using Operation = std::shared_ptr<OperationNode>;
// What starts an operation sees to it that ended() is called once.
using Start = std::function<void(const Operation&)>;

struct OperationNode {
  Start start;                                 // none: a mark
  int awaited = 1;                             // operations before it that have not ended, and one until it is put in
  std::vector<Operation> next;                 // those that wait for it
  bool has_ended = false, is_awaited = false;  // by a thread
  uint64_t number = 0;                         // in the order in which all were put in
  std::chrono::steady_clock::time_point end;
};

// The state is held for these two.
Operation make_operation(Start start);
void let_wait(const Operation&, const Operation& before);
// Starts these operations, and those that need not wait any more when one of them is only a mark.
void start_ready(std::vector<Operation>);
void await_end(std::unique_lock<std::mutex>& of_state, const Operation&);  // or a fault; held, but while it waits

void ended(const Operation&);
bool has_ended(const Operation&);  // true for none
CUresult query(const Operation&);  // CUDA_ERROR_NOT_READY: it has not
void settle();                     // lets all that was put in go on until nothing of it ends any more

struct Capture;  // of streams into a graph: capture.h

struct StreamAttributes {  // what can be set and is kept, without effect
  CUaccessPolicyWindow window = {};
  CUsynchronizationPolicy policy = CUsynchronizationPolicy(-1);
  CUlaunchMemSyncDomainMap domains = {0, 1};
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
};

}  // namespace driver

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  CUcontext context;
  bool is_legacy = false;  // its context's stream 0
  unsigned flags = 0;
  int priority = 0;
  driver::StreamAttributes attributes;
  unsigned long long id = 0;
  driver::Operation last;               // the operation that was put in last
  std::deque<driver::Operation> work;   // for the GPU, from the first that has not ended, or earlier
  driver::Operation known_as_long;      // of that: nobody waits again for its end before putting in more
  std::atomic<bool> destroyed = false;  // it is kept until its operations have ended
  // Guarded by graphs().lock:
  std::shared_ptr<driver::Capture> capture;        // null: it does not capture
  std::vector<CUgraphNode> captured;               // what the next node will depend on
  std::vector<CUgraphEdgeData> edges_of_captured;  // as they are given to the program: zeros
};
