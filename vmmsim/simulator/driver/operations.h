// SPDX-License-Identifier: MIT-0
// Operations, each a kernel, a copy, or a mark that others wait for; and streams, which are queues of them.
#pragma once
#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver.h"

namespace driver {

struct OperationNode;
using Operation = std::shared_ptr<OperationNode>;
// What starts an operation sees to it that ended() is called once.
using Start = std::function<void(const Operation&)>;

struct OperationNode {
  Start start;                               // none: a mark
  CUcontext context = nullptr;               // of its stream
  memory::Submission asked_by = {};          // the call that puts it in, for --trace and --explain
  int awaited GUARDED_BY(state().lock) = 1;  // operations before it that have not ended, and one until it is put in
  std::vector<Operation> next GUARDED_BY(state().lock);  // those that wait for it
  bool has_ended GUARDED_BY(state().lock) = false;
  // Of a kernel that begins early, those that it depends on: it ends when they have ended, too.
  std::vector<Operation> prerequisites;
  bool is_kernel = false;
  bool has_triggered GUARDED_BY(state().lock) = false;  // a kernel that depends on it may begin
  Operation trigger GUARDED_BY(state().lock);           // the mark of that, if an operation waits for it
  Operation begin GUARDED_BY(state().lock);          // of a kernel: the mark that all its blocks have begun, likewise
  uint64_t until_end GUARDED_BY(state().lock) = 0;   // microseconds of a GPU for copies: before it, and its own
  bool is_long GUARDED_BY(state().lock) = false;     // or behind such a one: no call lets it go on first (settle)
  bool is_awaited GUARDED_BY(state().lock) = false;  // by a thread
  std::string awaited_by GUARDED_BY(state().lock);   // the call that it makes
  uint64_t number = 0;                               // in the order in which all were put in
  const void* stream GUARDED_BY(state().lock) = nullptr;  // that it was put into; it may be gone
  std::chrono::steady_clock::time_point end;
};

Operation make_operation(Start start, CUcontext) REQUIRES(state().lock);
void add_dependency(const Operation&, const Operation& before) REQUIRES(state().lock);
// Lets a kernel begin behind another, if that is one, by a programmatic edge: at the latest when the other has ended.
void let_begin_early(const Operation&, const Operation& before, const CUgraphEdgeData&) REQUIRES(state().lock);
constexpr CUgraphEdgeData programmatic = {
    CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
// A mark that a kernel that has not started has begun.
Operation begin_of(const Operation& kernel) REQUIRES(state().lock);
void begun(const Operation&) EXCLUDES(state().lock);      // all blocks of a kernel have
void triggered(const Operation&) EXCLUDES(state().lock);  // a kernel lets those begin that depend on it
bool may_go_on(const Operation&) EXCLUDES(state().lock);  // what a kernel that has begun early depends on has ended
// Of an operation that has its dependencies: so many microseconds of a GPU are its own.
void add_time(const Operation&, uint64_t microseconds) REQUIRES(state().lock);
// Starts these operations, and those that need not wait any more when one of them is only a mark.
void start_ready(std::vector<Operation>) EXCLUDES(state().lock);
void await_end(const Operation&) REQUIRES(state().lock);  // or a fault; it lets go of the lock while it waits

void ended(const Operation&) EXCLUDES(state().lock);
// The call that waits for this or for what comes after it; "": none does.
std::string waiter_of(const Operation&) EXCLUDES(state().lock);
bool has_ended(const Operation&) EXCLUDES(state().lock);  // true for none
CUresult query(const Operation&) EXCLUDES(state().lock);  // CUDA_ERROR_NOT_READY: it has not
// For each stream its latest operation, by the number, that a stream or the host has waited for. Whether that came
// after a time: the number of the operation that was the last then.
using Waits = std::map<const void*, uint64_t>;
void note_wait(Waits&, const Operation&) REQUIRES(state().lock);
void note_wait_of_host(const Operation&) REQUIRES(state().lock);
bool is_behind(const Waits&, const void* stream, uint64_t time) REQUIRES(state().lock);
bool host_is_behind(const void* stream, uint64_t time) REQUIRES(state().lock);
// Lets all that was put in go on until nothing of it ends any more.
void settle(bool also_long) EXCLUDES(state().lock);

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
  driver::Operation last GUARDED_BY(driver::state().lock);  // the operation that was put in last
  // What the GPU does, from the first that has not ended, or earlier; and of that for whose end nobody waits again.
  std::deque<driver::Operation> work GUARDED_BY(driver::state().lock);
  driver::Operation known_as_long GUARDED_BY(driver::state().lock);
  driver::Waits behind GUARDED_BY(driver::state().lock);  // for other streams, by events
  std::atomic<bool> destroyed = false;                    // it is kept until its operations have ended
  // Guarded by graphs().lock:
  std::shared_ptr<driver::Capture> capture;        // null: it does not capture
  std::vector<CUgraphNode> captured;               // what the next node will depend on
  std::vector<CUgraphEdgeData> edges_of_captured;  // as they are given to the program: zeros
};
