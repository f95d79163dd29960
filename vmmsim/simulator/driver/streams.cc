// SPDX-License-Identifier: MIT-0
// Streams: a graph of operations. An operation waits for the one before it in its stream, an operation of
// the legacy stream for those of all streams that it blocks, and they for it; and for the events that it is told to
// wait for. It starts when the last of them has ended.
#include "graphs.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <iterator>
#include <set>
#include <utility>

struct driver::OperationNode {
  Start start;                                 // none: a mark
  int awaited = 1;                             // operations before it that have not ended, and one until it is put in
  std::vector<Operation> next;                 // those that wait for it
  bool has_ended = false, is_awaited = false;  // by a thread
  uint64_t number = 0;                         // in the order in which all were put in
  std::chrono::steady_clock::time_point end;
};

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

bool is_legacy(const CUstream_st& stream) { return &stream == &stream.context->legacy; }
bool minds_legacy(const CUstream_st& stream) { return !(stream.flags & CU_STREAM_NON_BLOCKING); }

// Starts these operations, and those that need not wait any more when one of them is only a mark.
void start(std::vector<Operation> ready) {
  while (!ready.empty()) {
    const Operation op = ready.back();
    ready.pop_back();
    if (const Start start = std::exchange(op->start, nullptr); start && !fault()) {
      start(op);
      continue;
    }
    const std::lock_guard held(state().lock);
    op->has_ended = true;
    state().under_way.erase(op->number);
    op->end = std::chrono::steady_clock::now();
    for (const Operation& next : op->next)
      if (--next->awaited == 0) ready.push_back(next);
    op->next.clear();
    if (op->is_awaited || fault()) state().an_end.notify_all();
  }
}

// The state is held, but while it waits.
void await(std::unique_lock<std::mutex>& held, const Operation op) {
  op->is_awaited = true;
  state().an_end.wait(held, [&] { return op->has_ended || fault(); });
}

int checked_priority(int wanted) { return std::clamp(wanted, -5, 0); }

std::shared_ptr<CUstream_st> create(unsigned flags, int priority, CUcontext context) {
  require(!(flags & ~unsigned(CU_STREAM_NON_BLOCKING)), CUDA_ERROR_INVALID_VALUE, "there are no such flags");
  const std::lock_guard held(state().lock);
  std::erase_if(state().streams, [](const auto& entry) {
    return entry.second->destroyed && (!entry.second->last || entry.second->last->has_ended);
  });
  const auto made = std::make_shared<CUstream_st>();
  made->context = context;
  made->flags = flags;
  made->priority = checked_priority(priority);
  made->id = ++state().last_stream;
  state().streams[made.get()] = made;
  return made;
}

void destroy(CUstream handle) {
  require(handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE,
          "the default streams are not destroyed");
  leave_capture(stream(handle));
  stream(handle).destroyed = true;
}

void get_attribute(const CUstream_st& stream, CUstreamAttrID what, CUstreamAttrValue& to) {
  const StreamAttributes& all = stream.attributes;
  const std::lock_guard held(state().lock);
  switch (what) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: to.accessPolicyWindow = all.window; break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: to.syncPolicy = all.policy; break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: to.priority = stream.priority; break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: to.memSyncDomainMap = all.domains; break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: to.memSyncDomain = all.domain; break;
    default: refuse(CUDA_ERROR_INVALID_VALUE, "streams have no such attribute");
  }
}

void set_attribute(CUstream_st& stream, CUstreamAttrID what, const CUstreamAttrValue& value) {
  constexpr size_t most_bytes = 128 << 20;
  StreamAttributes& all = stream.attributes;
  const CUaccessPolicyWindow& window = value.accessPolicyWindow;
  const CUlaunchMemSyncDomainMap& domains = value.memSyncDomainMap;
  const auto check = [](bool fits, const char* why) { require(fits, CUDA_ERROR_INVALID_VALUE, why); };
  const std::lock_guard held(state().lock);
  switch (what) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      check(window.hitRatio >= 0 && window.hitRatio <= 1, "hitRatio is from 0 to 1");
      check(window.num_bytes <= most_bytes, "num_bytes is at most CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE");
      check(window.missProp != CU_ACCESS_PROPERTY_PERSISTING, "missProp cannot be CU_ACCESS_PROPERTY_PERSISTING");
      all.window = window;
      break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      check(value.syncPolicy >= CU_SYNC_POLICY_AUTO && value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC,
            "a policy is from CU_SYNC_POLICY_AUTO to _BLOCKING_SYNC, 1 to 4");
      all.policy = value.syncPolicy;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: stream.priority = checked_priority(value.priority); break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      check(domains.default_ < 4 && domains.remote < 4, "there are four domains, 0 to 3");
      all.domains = domains;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      check(unsigned(value.memSyncDomain) <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE, "a domain is the default or remote");
      all.domain = value.memSyncDomain;
      break;
    default: refuse(CUDA_ERROR_INVALID_VALUE, "streams have no such attribute");
  }
}

void copy_attributes(CUstream_st& to, const CUstream_st& from) {
  const std::lock_guard held(state().lock);
  to.attributes = from.attributes;
  to.priority = from.priority;
}

// What an operation that is now put into the stream would wait for.
Operation tail(CUstream_st& stream) {
  must_not_capture(stream);
  forbid_in_capture();
  if (is_legacy(stream)) return enqueue(stream, nullptr);
  const std::lock_guard held(state().lock);
  return stream.last;
}

void start_host_function(const Work& work, const Operation& op) {
  gpu::run(
      [op, host = work.given.host] {
        thread().runs_host_function = true;
        host.fn(host.userData);
        thread().runs_host_function = false;
        ended(op);
      },
      true);
}

void add_callback(CUstream where, CUstreamCallback callback, void* data) {
  CUstream_st& stream = driver::stream(where);
  must_not_capture(stream);
  enqueue(stream, [=](const Operation& op) {
    gpu::run(
        [=] {
          thread().runs_host_function = true;
          callback(where, CUDA_SUCCESS, data);
          thread().runs_host_function = false;
          ended(op);
        },
        true);
  });
}

// A word in memory that a stream waits for.
template <class Word> struct Watch {
  CUdevice device;
  uint64_t address;
  Word value;
  unsigned flags;
  Operation op;
  bool is_over() const {
    bool reached = fault() != CUDA_SUCCESS;
    try {
      memory::for_each_piece(device, address, sizeof(Word), CU_MEM_ACCESS_FLAGS_PROT_READ, [&](const auto& piece) {
        const Word now = reinterpret_cast<std::atomic<Word>*>(piece.bytes)->load();
        switch (flags & 3) {
          case CU_STREAM_WAIT_VALUE_GEQ: reached |= std::make_signed_t<Word>(now - value) >= 0; break;
          case CU_STREAM_WAIT_VALUE_EQ: reached |= now == value; break;
          case CU_STREAM_WAIT_VALUE_AND: reached |= (now & value) != 0; break;
          default: reached |= Word(~(now | value)) != 0; break;
        }
      });
    } catch (const memory::Refused& refused) {
      set_fault({CUDA_ERROR_ILLEGAL_ADDRESS, "cuStreamWaitValue: " + refused.why});
      reached = true;
    }
    if (reached) ended(op);
    return reached;
  }
};

template <class Word> void check_word(CUdevice device, uint64_t address, CUmemAccess_flags access) {
  require(address % sizeof(Word) == 0, CUDA_ERROR_INVALID_VALUE, "addr is not aligned to the word");
  const auto range = memory::find(address);
  require(range.has_value(), CUDA_ERROR_INVALID_VALUE, "addr is not memory of a GPU or of cuMemHostAlloc");
  require(range->kind != memory::Range::multicast_range, CUDA_ERROR_INVALID_VALUE,
          "a multicast object is mapped at addr: only multimem instructions go there");
  memory::for_each_piece(device, address, sizeof(Word), access, [](const memory::Piece&) {});
}

template <class Word> void wait_value(CUstream where, uint64_t address, Word value, unsigned flags) {
  CUstream_st& stream = driver::stream(where);
  require(!(flags & ~3u), CUDA_ERROR_INVALID_VALUE, "there are no such flags, or CU_STREAM_WAIT_VALUE_FLUSH");
  const CUdevice device = stream.context->device;
  check_word<Word>(device, address, CU_MEM_ACCESS_FLAGS_PROT_READ);
  const auto work = task_work(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, stream.context, nullptr);
  work->start = [=](const Work&, const Operation& op) {
    gpu::poll([watch = Watch<Word>{device, address, value, flags, op}] { return watch.is_over(); });
  };
  put(stream, work);
}

template <class Word> void write_value(CUstream where, uint64_t address, Word value, unsigned flags) {
  CUstream_st& stream = driver::stream(where);
  require(!(flags & ~unsigned(CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)), CUDA_ERROR_INVALID_VALUE, "no such flags");
  const CUdevice device = stream.context->device;
  check_word<Word>(device, address, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  put(stream, task_work(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, stream.context, [=] {
        memory::for_each_piece(
            device, address, sizeof(Word), CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            [&](const memory::Piece& word) { reinterpret_cast<std::atomic<Word>*>(word.bytes)->store(value); });
      }));
}

}  // namespace

CUstream_st& stream(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY) return current()->legacy;
  if (handle == CU_STREAM_PER_THREAD) {
    const CUcontext context = current();
    std::weak_ptr<CUstream_st>& found = thread().streams[context];
    if (found.expired()) found = create(CU_STREAM_DEFAULT, 0, context);
    return *found.lock();
  }
  const std::lock_guard held(state().lock);
  const auto found = state().streams.find(handle);
  const bool is_alive = found != state().streams.end() && !found->second->destroyed;
  require(is_alive, CUDA_ERROR_INVALID_HANDLE, "this is no stream, or it has been destroyed");
  return *found->second;
}

// How much work of a stream has not ended. The state is held.
static size_t left_of(std::deque<Operation>& work) {
  while (!work.empty() && work.front()->has_ended) work.pop_front();
  return work.size();
}

// Returns when there is room in a stream. The state is held, but while it waits.
static void make_room(std::unique_lock<std::mutex>& held, CUstream_st& stream) {
  if (left_of(stream.work) >= enough_work && stream.work.front() != stream.known_as_long) {
    const Operation front = stream.work.front(), half = stream.work[enough_work / 2];
    half->is_awaited = true;
    state().an_end.wait_for(held, patience, [&] { return half->has_ended || fault(); });
    if (!front->has_ended) stream.known_as_long = front;
  }
  while (left_of(stream.work) >= most_work && !fault()) await(held, stream.work.front());
}

// The state is held for these three.
static Operation make_operation(Start start) {
  const Operation op = std::make_shared<OperationNode>();
  op->start = std::move(start);
  op->number = ++state().last_operation;
  state().under_way.insert(op->number);
  return op;
}
static void let_wait(const Operation& op, const Operation& before) {
  if (!before || before->has_ended) return;
  before->next.push_back(op);
  ++op->awaited;
}
static void append(CUstream_st& stream, const Operation& op) {
  let_wait(op, stream.last);
  if (is_legacy(stream)) {
    for (const auto& [handle, other] : state().streams)
      if (other->context == stream.context && minds_legacy(*other)) let_wait(op, other->last);
  } else if (minds_legacy(stream)) {
    let_wait(op, stream.context->legacy.last);
  }
  stream.last = op;
}

static Operation put_in(CUstream_st& stream, Start start, const Operation& also, bool is_work) {
  must_not_capture(stream);
  Operation op;
  bool is_ready = false;
  {
    std::unique_lock held(state().lock);
    if (is_work) make_room(held, stream);
    op = make_operation(std::move(start));
    if (is_work) stream.work.push_back(op);
    let_wait(op, also);
    append(stream, op);
    is_ready = --op->awaited == 0;
  }
  if (is_ready) driver::start({op});
  return op;
}

Operation enqueue(CUstream_st& stream, Start start, const Operation& also) {
  return put_in(stream, std::move(start), also, false);
}
Operation enqueue_work(CUstream_st& stream, Start start) { return put_in(stream, std::move(start), nullptr, true); }

static Start start_of(const SharedWork& work) {
  if (!work || work->given.type == CU_GRAPH_NODE_TYPE_EMPTY) return nullptr;
  if (work->given.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) return start_to_record(*work->event);
  if (work->given.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) return start_to_wait(*work->event);
  return [work](const Operation& op) { work->start(*work, op); };
}

Operation put(CUstream_st& stream, const SharedWork& work) {
  if (capture(stream, work)) return nullptr;
  const bool is_of_gpu = work->given.type != CU_GRAPH_NODE_TYPE_HOST;  // a stream holds host functions without end
  return put_in(stream, start_of(work), nullptr, is_of_gpu);
}

Operation enqueue_all(CUstream_st& stream, const std::vector<Step>& steps, const Operation& also, Start at_end) {
  must_not_capture(stream);
  std::vector<Start> starts;
  for (const Step& step : steps) starts.push_back(start_of(step.work));
  Operation begin, end;
  bool is_ready = false;
  {
    std::unique_lock held(state().lock);
    make_room(held, stream);
    begin = make_operation(nullptr);
    let_wait(begin, also);
    append(stream, begin);
    std::vector<Operation> all;
    for (size_t i = 0; i < steps.size(); ++i) {
      const Operation& op = all.emplace_back(make_operation(std::move(starts[i])));
      let_wait(op, begin);
      for (const size_t before : steps[i].before) let_wait(op, all[before]);
      const SharedWork& work = steps[i].work;
      if (work && work->given.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT) let_wait(op, work->event->recorded);
      if (work && work->given.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) work->event->recorded = op;
    }
    end = make_operation(std::move(at_end));
    stream.work.push_back(end);
    for (const Operation& op : all) let_wait(end, op);
    append(stream, end);
    for (const Operation& op : all) --op->awaited;  // they wait for `begin`, which has not ended
    --end->awaited;
    is_ready = --begin->awaited == 0;
  }
  if (is_ready) driver::start({begin});
  return end;
}

static void start_task(const Work& work, const Operation& op) {
  const CUresult too_late =
      work.given.type == CU_GRAPH_NODE_TYPE_MEMSET ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_ILLEGAL_ADDRESS;
  gpu::run([op, too_late, task = work.task] {
    try {
      task();
    } catch (const memory::Refused& refused) {  // it was allowed when it was put in
      set_fault({too_late, "a copy or memset came too late: " + refused.why});
    }
    ended(op);
  });
}

std::shared_ptr<Work> task_work(CUgraphNodeType type, CUcontext context, std::function<void()> task) {
  const auto work = std::make_shared<Work>();
  work->given.type = type;
  work->context = context;
  work->task = std::move(task);
  work->start = start_task;
  return work;
}

SharedWork host_work(const CUDA_HOST_NODE_PARAMS_v2& given) {
  require(given.fn, CUDA_ERROR_INVALID_VALUE, "fn is null");
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_HOST;
  work->given.host = given;
  work->start = start_host_function;
  return work;
}

uint64_t number_of(const Operation& op) { return op->number; }
std::chrono::steady_clock::time_point end_of(const Operation& op) { return op->end; }

CUresult query(const Operation& op) { return fault() ? fault() : has_ended(op) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }

void ended(const Operation& op) { start({op}); }

bool has_ended(const Operation& op) {
  const std::lock_guard held(state().lock);
  return !op || op->has_ended;
}

static void wait(const std::vector<Operation>& all) {
  {
    std::unique_lock held(state().lock);
    for (const Operation& op : all)
      if (op) await(held, op);
  }
  gpu::print_output();
  if (fault()) refuse(fault(), "");
  give_back_pools();
}

void wait(const Operation& op) { wait(std::vector{op}); }

void synchronize(CUcontext context) {
  std::vector<Operation> all;
  {
    const std::lock_guard held(state().lock);
    all.push_back(context->legacy.last);
    for (const auto& [handle, stream] : state().streams)
      if (stream->context == context) all.push_back(stream->last);
  }
  wait(all);  // only then do pools give memory back, which a kernel might still use
}

// A GPU is so much faster than the host that what was started before a call nearly always ends before the call does
// anything. Here it goes on for as long as it comes to anything: until, while all that can run has had a slice of time,
// neither an operation nor a block of a kernel has ended. What then still runs waits for something, or is long.
void settle() {
  static std::mutex& one_at_a_time = *new std::mutex;
  const std::lock_guard mine(one_at_a_time);
  uint64_t last = 0;
  const auto count = [&] {  // those that were put in before
    const std::lock_guard held(state().lock);
    if (!last && !state().under_way.empty()) last = *state().under_way.rbegin();
    return std::distance(state().under_way.begin(), state().under_way.upper_bound(last));
  };
  auto left = count();
  while (left && !fault()) {
    const bool a_block_ended = gpu::let_all_have_a_turn(last);
    const auto before = std::exchange(left, count());
    if (left == before && !a_block_ended) return;
  }
}

void forget_streams(CUcontext context) {
  std::vector<std::shared_ptr<CUstream_st>> capturing;
  {
    const std::lock_guard held(state().lock);
    for (const auto& [handle, stream] : state().streams)
      if (stream->context == context) capturing.push_back(stream);
  }
  for (const auto& stream : capturing) leave_capture(*stream);
  const std::lock_guard held(state().lock);
  std::erase_if(state().streams, [&](const auto& entry) { return entry.second->context == context; });
  std::erase_if(state().events, [&](const auto& entry) { return entry.second->context == context; });
  context->legacy.last = nullptr;
  context->legacy.attributes = {};
  context->legacy.priority = 0;
}

}  // namespace driver

using namespace driver;

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return call(ARGUMENTS(phStream, Flags),
              result_to(phStream, "phStream", [&] { return create(Flags, 0, current()).get(); }));
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return call(ARGUMENTS(phStream, flags, priority),
              result_to(phStream, "phStream", [&] { return create(flags, priority, current()).get(); }));
}
CUresult cuStreamDestroy(CUstream hStream) {
  return call(ARGUMENTS(hStream), [&] { destroy(hStream); });
}
CUresult cuStreamSynchronize(CUstream hStream) {
  return call(ARGUMENTS(hStream), [&] { wait(tail(stream(hStream))); });
}
CUresult cuStreamQuery(CUstream hStream) {
  return call(ARGUMENTS(hStream), [&] { return query(tail(stream(hStream))); });
}
CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  return call(ARGUMENTS(hStream, priority), result_to(priority, "priority", [&] { return stream(hStream).priority; }));
}
CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  return call(ARGUMENTS(hStream, flags), result_to(flags, "flags", [&] { return stream(hStream).flags; }));
}
CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  return call(ARGUMENTS(hStream, attr, value_out), [&] {
    need(value_out, "value_out");
    get_attribute(stream(hStream), attr, *value_out);
  });
}
CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  return call(ARGUMENTS(hStream, attr, value), [&] {
    need(value, "value");
    set_attribute(stream(hStream), attr, *value);
  });
}
CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
  return call(ARGUMENTS(dst, src), [&] { copy_attributes(stream(dst), stream(src)); });
}
CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  return call(ARGUMENTS(hStream, streamId), [&] {
    need(streamId, "streamId");
    const CUstream_st& it = stream(hStream);
    *streamId = is_legacy(it) ? 1 : it.id;
  });
}
CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return call(ARGUMENTS(hStream, pctx), result_to(pctx, "pctx", [&] { return stream(hStream).context; }));
}
CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return call(ARGUMENTS(hStream, device), result_to(device, "device", [&] { return stream(hStream).context->device; }));
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), [&] { wait_value<uint32_t>(stream, addr, value, flags); });
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), [&] { wait_value<uint64_t>(stream, addr, value, flags); });
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), [&] { write_value<uint32_t>(stream, addr, value, flags); });
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), [&] { write_value<uint64_t>(stream, addr, value, flags); });
}
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  return call(ARGUMENTS(hStream, fn, userData), [&] {
    const SharedWork work = host_work({fn, userData});
    put(stream(hStream), work);
  });
}
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  return call(ARGUMENTS(hStream, callback, userData, flags), [&] {
    require(callback && !flags, CUDA_ERROR_INVALID_VALUE, "no callback, or flags");
    add_callback(hStream, callback, userData);
  });
}
