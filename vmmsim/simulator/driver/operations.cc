// SPDX-License-Identifier: MIT-0
// An operation waits for the one before it in its stream, an operation of the legacy stream for those of all streams
// that it blocks, and they for it; and for the events that it is told to wait for. It starts when the last of them has
// ended.
#include "operations.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "../gpu/gpu.h"
#include "../memory/memory.h"
#include "driver.h"

namespace driver {

Operation make_operation(Start start, CUcontext context) {
  const Operation op = std::make_shared<OperationNode>();
  op->start = std::move(start);
  op->context = context;
  op->number = ++state().last_operation;
  state().under_way.insert(op->number);
  return op;
}

static void note_long(const Operation& op) REQUIRES(state().lock) {
  op->is_long = true;
  state().long_ones.insert(op->number);
}

void add_dependency(const Operation& op, const Operation& before) {
  if (!before || before->has_ended) return;
  before->next.push_back(op);
  ++op->awaited;
  op->until_end = std::max(op->until_end, before->until_end);
  if (before->is_long) note_long(op);
}

void add_time(const Operation& op, uint64_t microseconds) {
  constexpr uint64_t of_a_call = 300;  // longer than any of the host
  op->until_end += microseconds;
  if (op->until_end > of_a_call) note_long(op);
}

static Operation made(Operation& mark, const Operation& kernel) REQUIRES(state().lock) {
  if (!mark) mark = make_operation(nullptr, kernel->context);
  return mark;
}
Operation begin_of(const Operation& kernel) { return made(kernel->begin, kernel); }

void let_begin_early(const Operation& op, const Operation& before, const CUgraphEdgeData& edge) {
  if (!before || !before->is_kernel) return add_dependency(op, before);
  if (before->has_ended) return;
  if (edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) op->prerequisites.push_back(before);
  if (edge.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) add_dependency(op, begin_of(before));
  else if (!before->has_triggered) add_dependency(op, made(before->trigger, before));
}

// Ends a mark that others wait for.
static void reach(const Operation& op, Operation OperationNode::* mark) {
  Operation reached;
  {
    const MutexLock held(state().lock);
    op->has_triggered |= mark == &OperationNode::trigger;
    reached = std::exchange((*op).*mark, nullptr);
  }
  if (reached) start_ready({reached});
}
void triggered(const Operation& op) { reach(op, &OperationNode::trigger); }
void begun(const Operation& op) { reach(op, &OperationNode::begin); }

bool may_go_on(const Operation& op) {
  if (op->prerequisites.empty() || fault()) return true;
  const MutexLock held(state().lock);
  return std::ranges::all_of(
      op->prerequisites, [](const Operation& prerequisite) REQUIRES(state().lock) { return prerequisite->has_ended; });
}

void start_ready(std::vector<Operation> ready) {
  while (!ready.empty()) {
    const Operation op = ready.back();
    ready.pop_back();
    if (const Start start = std::exchange(op->start, nullptr); start && !fault()) {
      start(op);
      continue;
    }
    const MutexLock held(state().lock);
    op->has_ended = true;
    state().under_way.erase(op->number);
    state().long_ones.erase(op->number);
    op->end = std::chrono::steady_clock::now();
    for (const Operation& next : op->next)
      if (--next->awaited == 0) ready.push_back(next);
    op->next.clear();
    for (Operation* const mark : {&op->trigger, &op->begin})
      if (*mark) ready.push_back(std::exchange(*mark, nullptr));
    if (op->is_awaited || fault()) state().an_end.notify_all();
  }
}

constexpr std::chrono::seconds long_wait(3);  // may be one without end: a trace tells of it

void await_end(const Operation& op) {
  op->is_awaited = true;
  op->awaited_by = memory::caller().call;
  const auto is_over = [&]() REQUIRES(state().lock) { return op->has_ended || fault(); };
  if (state().an_end.wait_for(state().lock, long_wait, is_over)) return;
  state().lock.unlock();
  trace_wait();
  state().lock.lock();
  while (!is_over()) state().an_end.wait(state().lock);
}

void ended(const Operation& op) {
  if (!op->prerequisites.empty()) {
    triggered(op);
    const MutexLock held(state().lock);
    for (const Operation& before : std::exchange(op->prerequisites, {})) add_dependency(op, before);
    if (op->awaited) return;  // it ends with the last of them
  }
  start_ready({op});
}

std::string waiter_of(const Operation& op) {
  const MutexLock held(state().lock);
  std::set<Operation> seen = {op};
  std::vector<Operation> unseen = {op};
  while (!unseen.empty()) {
    const Operation here = unseen.back();
    unseen.pop_back();
    if (!here->awaited_by.empty()) return here->awaited_by;
    for (const Operation& next : here->next)
      if (seen.insert(next).second) unseen.push_back(next);
  }
  return "";
}

bool has_ended(const Operation& op) {
  const MutexLock held(state().lock);
  return !op || op->has_ended;
}

CUresult query(const Operation& op) { return fault() ? fault() : has_ended(op) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }

static Waits& waits_of_host() REQUIRES(state().lock) {
  static Waits& all = *new Waits;
  return all;
}
void note_wait(Waits& waits, const Operation& op) {
  if (op && op->stream) waits[op->stream] = std::max(waits[op->stream], op->number);
}
void note_wait_of_host(const Operation& op) { note_wait(waits_of_host(), op); }

bool is_behind(const Waits& waits, const void* stream, uint64_t time) {
  const auto found = waits.find(stream);
  return found != waits.end() && found->second > time;
}
bool host_is_behind(const void* stream, uint64_t time) { return is_behind(waits_of_host(), stream, time); }

// A GPU is so much faster than the host that what was started before a call nearly always ends before the call does
// anything. Here it goes on for as long as it comes to anything: until, while all that can run has had a slice of time,
// neither an operation nor a block of a kernel has ended. What then still runs waits for something, or is long. What is
// known to be long counts only if the call waits for it on a GPU, too.
void settle(bool also_long) {
  static Mutex& one_at_a_time = *new Mutex;
  const MutexLock turn(one_at_a_time);
  uint64_t last = 0;
  const auto count = [&] {  // those that were put in before
    const MutexLock held(state().lock);
    if (!last && !state().under_way.empty()) last = *state().under_way.rbegin();
    const auto up_to_last = [&](const auto& all) { return std::distance(all.begin(), all.upper_bound(last)); };
    return up_to_last(state().under_way) - (also_long ? 0 : up_to_last(state().long_ones));
  };
  auto running = count();
  while (running && !fault()) {
    const bool a_block_ended = gpu::let_all_have_a_turn(last);
    const auto before = std::exchange(running, count());
    if (running == before && !a_block_ended) return;
  }
}

}  // namespace driver
