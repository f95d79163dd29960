// SPDX-License-Identifier: MIT-0
// Streams, and what is put into them.
#include "streams.h"

#include <algorithm>
#include <utility>

#include "../memory/this_machine.h"
#include "../memory/thread_slot.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "events.h"
#include "host_functions.h"
#include "pools.h"

namespace driver {
namespace {

// Kernels, copies and the like that a stream holds at most, then the call waits. An H200 takes 1021 to 1141 (of kernels
// with 4 KB of parameters 744), in each stream by itself; marks, host functions and frees it takes without end.
constexpr size_t most_work = 1024;
// A launch takes a microsecond, a simulated kernel hundreds: a thread that launches on would keep its stream full, and
// each cudaFree beside it wait for a thousand kernels, which a GPU has done at once. So with this much in the stream
// the call waits for the half of it, or until what is at the front has shown that it is long or waits for something.
constexpr size_t enough_work = 32;
constexpr auto patience = std::chrono::milliseconds(100);

// The streams that a thread calls 2. They go with the context, or with the thread.
struct OwnStreams {
  std::map<CUcontext, std::weak_ptr<CUstream_st>> of_context;
  ~OwnStreams() {
    for (const auto& [context, stream] : of_context)
      if (const auto alive = stream.lock()) alive->destroyed = true;
  }
};

// How much work of a stream has not ended.
size_t left_of(std::deque<Operation>& work) REQUIRES(state().lock) {
  while (!work.empty() && work.front()->has_ended) work.pop_front();
  return work.size();
}

// Returns when there is room in a stream. Lets go of the lock while it waits.
void make_room(CUstream_st& stream) REQUIRES(state().lock) {
  if (left_of(stream.work) >= enough_work && stream.work.front() != stream.known_as_long) {
    const Operation front = stream.work.front(), half = stream.work[enough_work / 2];
    half->is_awaited = true;
    state().an_end.wait_for(state().lock, patience,
                            [&]() REQUIRES(state().lock) { return half->has_ended || fault(); });
    if (!front->has_ended) stream.known_as_long = front;
  }
  while (left_of(stream.work) >= most_work && !fault()) await_end(stream.work.front());
}

void append(CUstream_st& stream, const Operation& op, bool begins_early = false) REQUIRES(state().lock) {
  if (begins_early) let_begin_early(op, stream.last, programmatic);
  else add_dependency(op, stream.last);
  if (stream.is_legacy) {
    for (const auto& [handle, blocking] : state().streams)
      if (blocking->context == stream.context && minds_legacy(*blocking)) add_dependency(op, blocking->last);
  } else if (minds_legacy(stream)) {
    add_dependency(op, stream.context->legacy.last);
  }
  stream.last = op;
  op->stream = &stream;
}

// Lets the events among a launch's attributes stand for its begin and end.
void record_events(const KernelWork& kernel, const Operation& op) REQUIRES(state().lock) {
  if (kernel.event_of_begin) kernel.event_of_begin->recorded = begin_of(op);
  if (kernel.event_of_end) kernel.event_of_end->recorded = op;
}

uint64_t microseconds_of(const Work& work) { return work.task() ? work.task()->microseconds : 0; }

memory::Submission submission() {
  const memory::Options& options = memory::options();
  if (!options.trace && !options.explain) return {};
  return {memory::caller().call, memory::ranges_given_back()};
}

// Without work it is a mark, or what other processes see.
Operation put_in(CUstream_st& stream, Start start, const Operation& also, const Work* work = nullptr) {
  require_not_capturing(stream);
  const bool is_of_gpu = work && work->given.type != CU_GRAPH_NODE_TYPE_HOST;  // there is always room for the others
  Operation op;
  bool is_ready = false;
  {
    MutexLock held(state().lock);
    if (is_of_gpu) make_room(stream);
    op = make_operation(std::move(start), stream.context);
    op->asked_by = submission();
    const KernelWork* const kernel = work ? work->kernel() : nullptr;
    op->is_kernel = kernel;
    if (is_of_gpu) stream.work.push_back(op);
    add_dependency(op, also);
    note_wait(stream.behind, also);
    append(stream, op, kernel && kernel->begins_early);
    if (work) add_time(op, microseconds_of(*work));
    if (kernel) record_events(*kernel, op);
    is_ready = --op->awaited == 0;
  }
  if (is_ready) start_ready({op});
  return op;
}

Start start_of(const SharedWork& work) {
  if (!work) return nullptr;
  if (work->given.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) return start_to_record(*work->event());
  if (work->given.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) return start_to_wait(*work->event());
  if (!work->start) return nullptr;
  return [work](const Operation& op) { work->start(*work, op); };
}

std::vector<Start> starts_of(const std::vector<Step>& steps) {
  std::vector<Start> starts;
  for (const Step& step : steps) starts.push_back(start_of(step.work));
  return starts;
}

// Makes operations of the steps, which wait for `begin`, and one behind all, which it returns and which waits until it
// has been put in.
Operation add_steps(const std::vector<Step>& steps, std::vector<Start> starts, const Operation& begin, Start at_end)
    REQUIRES(state().lock) {
  std::vector<Operation> all;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Operation& op = all.emplace_back(make_operation(std::move(starts[i]), begin->context));
    const SharedWork& work = steps[i].work;
    op->asked_by = begin->asked_by;
    op->is_kernel = work && work->kernel();
    add_dependency(op, begin);
    for (const size_t before : steps[i].before) add_dependency(op, all[before]);
    for (const auto& [before, edge] : steps[i].early) let_begin_early(op, all[before], edge);
    if (work && work->given.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) add_dependency(op, work->event()->recorded);
    if (work && work->given.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) work->event()->recorded = op;
    if (work) add_time(op, microseconds_of(*work));
    --op->awaited;  // `begin` has not ended
  }
  const Operation end = make_operation(std::move(at_end), begin->context);
  for (const Operation& op : all) add_dependency(end, op);
  add_dependency(end, begin);
  return end;
}

void start_task(const Work& work, const Operation& op) {
  gpu::run([op, task = *work.task()] {
    memory::note_work(true);
    try {
      task.run();
    } catch (const memory::Refused& refused) {  // it was allowed when it was put in
      const std::string unmapped =
          refused.address ? memory::unmapped_too_early(op->asked_by, *refused.address, "asked for it") : "";
      const std::string& reason = unmapped.empty() ? refused.reason : unmapped;
      set_fault({task.too_late, "a copy or memset came too late: " + reason, "", refused.address});
    }
    memory::note_work(false);
    ended(op);
  });
}

void start_host_function(const Work& work, const Operation& op) {
  run_host_function(op, [host = work.given.host] { host.fn(host.userData); });
}

void wait_for_all(const std::vector<Operation>& all) {
  {
    MutexLock held(state().lock);
    for (const Operation& op : all) {
      if (op) await_end(op);
      note_wait_of_host(op);
    }
  }
  gpu::print_output();
  if (fault()) refuse(fault(), "");
  give_back_pools();
}

}  // namespace

int clamped_priority(int wanted) { return std::clamp(wanted, -5, 0); }
bool minds_legacy(const CUstream_st& stream) { return !(stream.flags & CU_STREAM_NON_BLOCKING); }

std::shared_ptr<CUstream_st> create_stream(unsigned flags, int priority, CUcontext context) {
  require_flags(!(flags & ~unsigned(CU_STREAM_NON_BLOCKING)));
  const MutexLock held(state().lock);
  std::erase_if(state().streams, [](const auto& entry) REQUIRES(state().lock) {
    return entry.second->destroyed && (!entry.second->last || entry.second->last->has_ended);
  });
  const auto stream = std::make_shared<CUstream_st>();
  stream->context = context;
  stream->flags = flags;
  stream->priority = clamped_priority(priority);
  stream->id = ++state().last_stream;
  state().streams[stream.get()] = stream;
  return stream;
}

CUstream_st& find_stream(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return current()->legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    const CUcontext context = current();
    std::weak_ptr<CUstream_st>& found = memory::thread_slot<OwnStreams>().of_context[context];
    if (found.expired()) found = create_stream(CU_STREAM_DEFAULT, 0, context);
    return *found.lock();
  }
  const MutexLock held(state().lock);
  const auto found = state().streams.find(handle);
  const bool is_alive = found != state().streams.end() && !found->second->destroyed;
  require(is_alive, CUDA_ERROR_INVALID_HANDLE, "this is no stream, or it has been destroyed");
  return *found->second;
}

CUstream_st& named_stream(CUstream handle) {
  CUstream_st& found = find_stream(handle);
  if (!found.is_legacy || !graphs().capturing) return found;
  const MutexLock held(graphs().lock);
  if (Capture* const capture = minded_by_legacy(found.context))
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_is_blocked);
  return found;
}

CUstream_st& stream(CUstream handle) {
  named_stream(handle);
  return asked_stream(handle);
}

CUstream_st& asked_stream(CUstream handle) {
  CUstream_st& found = find_stream(handle);
  if (!graphs().capturing) return found;
  const MutexLock held(graphs().lock);
  if (found.capture) require_valid(*found.capture);
  return found;
}

Operation enqueue(CUstream_st& stream, Start start, const Operation& also) {
  return put_in(stream, std::move(start), also);
}

Operation submit(CUstream_st& stream, const SharedWork& work) {
  if (capture(stream, work)) return nullptr;
  return put_in(stream, start_of(work), nullptr, work.get());
}

Operation enqueue_all(CUstream_st& stream, const std::vector<Step>& steps, const Operation& also, Start at_end) {
  require_not_capturing(stream);
  std::vector<Start> starts = starts_of(steps);
  Operation begin, end;
  bool is_ready = false;
  {
    MutexLock held(state().lock);
    make_room(stream);
    begin = make_operation(nullptr, stream.context);
    begin->asked_by = submission();
    add_dependency(begin, also);
    append(stream, begin);
    end = add_steps(steps, std::move(starts), begin, std::move(at_end));
    stream.work.push_back(end);
    append(stream, end);
    --end->awaited;
    is_ready = --begin->awaited == 0;
  }
  if (is_ready) start_ready({begin});
  return end;
}

void run_steps(const std::vector<Step>& steps, const Operation& of, Start at_end) {
  std::vector<Start> starts = starts_of(steps);
  Operation begin;
  {
    const MutexLock held(state().lock);
    begin = make_operation(nullptr, of->context);
    begin->asked_by = of->asked_by;
    --add_steps(steps, std::move(starts), begin, std::move(at_end))->awaited;
    --begin->awaited;
  }
  start_ready({begin});
}

std::shared_ptr<Work> task_work(CUgraphNodeType type, CUcontext context, std::function<void()> task) {
  const auto work = std::make_shared<Work>();
  work->given.type = type;
  work->context = context;
  work->payload = TaskWork{std::move(task)};
  work->start = start_task;
  return work;
}

SharedWork host_work(const CUDA_HOST_NODE_PARAMS_v2& given) {
  require(given.fn, "fn is null");
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_HOST;
  work->given.host = given;
  work->start = start_host_function;
  return work;
}

void wait_for(const Operation& op) { wait_for_all({op}); }

void synchronize(CUcontext context) {
  std::vector<Operation> all;
  {
    const MutexLock held(state().lock);
    all.push_back(context->legacy.last);
    for (const auto& [handle, stream] : state().streams)
      if (stream->context == context) all.push_back(stream->last);
  }
  wait_for_all(all);  // only then do pools give memory back, which a kernel might still use
}

void forget_streams(CUcontext context) {
  std::vector<std::shared_ptr<CUstream_st>> capturing;
  {
    const MutexLock held(state().lock);
    for (const auto& [handle, stream] : state().streams)
      if (stream->context == context) capturing.push_back(stream);
  }
  for (const auto& stream : capturing) leave_capture(*stream);
  const MutexLock held(state().lock);
  std::erase_if(state().streams, [&](const auto& entry) { return entry.second->context == context; });
  std::erase_if(state().events, [&](const auto& entry) { return entry.second->context == context; });
  context->legacy.last = nullptr;
  context->legacy.attributes = {};
  context->legacy.priority = 0;
}

}  // namespace driver
