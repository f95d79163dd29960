// SPDX-License-Identifier: MIT-0
// Calls about events.
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "events.h"
#include "streams.h"

namespace driver {
namespace {

CUevent add_event(CUevent_st event) {
  auto owned = std::make_shared<CUevent_st>(std::move(event));
  const CUevent handle = owned.get();
  const MutexLock held(state().lock);
  state().events[handle] = std::move(owned);
  return handle;
}

CUevent create_event(unsigned flags) {
  const CUcontext context = current();
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  require_flags(!(flags & ~known));
  require(!(flags & CU_EVENT_INTERPROCESS) || flags & CU_EVENT_DISABLE_TIMING,
          "an event for other processes cannot take times; add CU_EVENT_DISABLE_TIMING");
  return add_event(
      {context, flags, nullptr,
       flags & CU_EVENT_INTERPROCESS ? std::make_shared<SharedEvent>(memory::make_event(), false) : nullptr});
}

CUevent open_event(const CUipcEventHandle& handle) {
  const CUcontext context = current();
  return add_event({context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, nullptr,
                    std::make_shared<SharedEvent>(memory::open_event(handle), true)});
}

CUevent_st& event(CUevent handle) { return *checked(handle); }

Operation recorded(CUevent handle) {
  const auto event = checked(handle);
  const MutexLock held(state().lock);
  return event->recorded;
}

void log_if_of_another_gpu(const CUevent_st& event) {
  if (event.shared && has_current() && event.context->device != current_device())
    log_crash("the event is for other processes and of GPU " + std::to_string(event.context->device) + ", and GPU " +
              std::to_string(current_device()) + " is current: make the event's GPU current first");
}

CUipcEventHandle export_event(CUevent handle) {
  require(handle, "event is null");
  log_if_of_another_gpu(event(handle));
  const auto shared = event(handle).shared;
  require(shared && !shared->is_opened, CUDA_ERROR_INVALID_HANDLE,
          "the event was made without CU_EVENT_INTERPROCESS, or by another process");
  return memory::export_event(shared->number);
}

CUresult query_event(CUevent handle) {
  require_not_capturing(event(handle), true);
  refuse_if_unsafe_in_capture();
  const auto shared = event(handle).shared;
  if (!shared || fault()) return query(recorded(handle));
  return memory::is_reached(shared->number, memory::times_recorded(shared->number)) ? CUDA_SUCCESS
                                                                                    : CUDA_ERROR_NOT_READY;
}

void synchronize_event(CUevent handle) {
  require_not_capturing(event(handle), true);
  refuse_if_unsafe_in_capture();
  const auto shared = event(handle).shared;
  if (!shared) return wait_for(recorded(handle));
  const uint64_t number = memory::times_recorded(shared->number);
  while (!fault() && !memory::is_reached(shared->number, number)) memory::await_event(shared->number, number);
  wait_for(nullptr);
}

void destroy_event(CUevent handle) {
  event(handle);
  const MutexLock held(state().lock);
  state().events.erase(handle);
}

void record(CUevent handle, CUstream stream_handle, unsigned flags = 0) {
  CUstream_st& stream = driver::stream(stream_handle);
  const auto event = checked(handle);
  log_if_of_another_gpu(*event);
  require_flags(!(flags & ~unsigned(CU_EVENT_RECORD_EXTERNAL)));
  require(event->context == stream.context, CUDA_ERROR_INVALID_HANDLE, "event and stream are of different contexts");
  if (flags & CU_EVENT_RECORD_EXTERNAL) {
    require(capture(stream, event_work(CU_GRAPH_NODE_TYPE_EVENT_RECORD, handle)), CUDA_ERROR_ILLEGAL_STATE,
            "CU_EVENT_RECORD_EXTERNAL is for streams that capture");
    return;
  }
  if (capture_record(stream, *event)) return;
  const Operation mark = enqueue(stream, start_to_record(*event));
  const MutexLock held(state().lock);
  event->recorded = mark;
}

float elapsed(CUevent from, CUevent to) {
  for (const CUevent handle : {from, to}) require_not_capturing(event(handle), false);
  require(event(from).context == event(to).context, CUDA_ERROR_INVALID_HANDLE, "the events are of different contexts");
  const bool timed = !((event(from).flags | event(to).flags) & CU_EVENT_DISABLE_TIMING);
  require(timed, CUDA_ERROR_INVALID_HANDLE, "an event was created with CU_EVENT_DISABLE_TIMING");
  const Operation first = recorded(from), last = recorded(to);
  require(first && last, CUDA_ERROR_INVALID_HANDLE, "an event was never recorded");
  require(has_ended(first) && has_ended(last), CUDA_ERROR_NOT_READY, "an event has not been reached");
  return std::chrono::duration<float, std::milli>(last->end - first->end).count();
}

void let_stream_wait(CUstream stream_handle, CUevent handle, unsigned flags) {
  CUstream_st& stream = driver::stream(stream_handle);
  require_flags(!(flags & ~unsigned(CU_EVENT_WAIT_EXTERNAL)));
  const auto event = checked(handle);
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    require_open_capture(stream, *event);
    require(capture(stream, event_work(CU_GRAPH_NODE_TYPE_WAIT_EVENT, handle)), CUDA_ERROR_ILLEGAL_STATE,
            "CU_EVENT_WAIT_EXTERNAL is for streams that capture");
    return;
  }
  if (capture_wait(stream, *event)) return;
  const Operation mark = recorded(handle);
  if (event->shared || (mark && !has_ended(mark))) {
    enqueue(stream, start_to_wait(*event), mark);
  } else {  // a stream does not get a wait for what has passed; a pool takes the order into account all the same
    const MutexLock held(state().lock);
    note_wait(stream.behind, mark);
  }
}

}  // namespace

SharedWork event_work(CUgraphNodeType type, CUevent handle) {
  const auto work = std::make_shared<Work>();
  work->given.type = type;
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) work->given.eventRecord.event = handle;
  else work->given.eventWait.event = handle;
  work->payload = checked(handle);
  work->context = work->event()->context;
  return work;
}

}  // namespace driver

using namespace driver;

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags) {
  return call(ARGUMENTS(hStream, hEvent, Flags), in_host_function, [&] { let_stream_wait(hStream, hEvent, Flags); });
}
CUresult cuEventCreate(CUevent* phEvent, unsigned int Flags) {
  return call(ARGUMENTS(phEvent, Flags), result_to(phEvent, "phEvent", [&] { return create_event(Flags); }));
}
CUresult cuEventDestroy(CUevent hEvent) {
  return call(ARGUMENTS(hEvent), in_host_function, [&] { destroy_event(hEvent); });
}
CUresult cuEventRecord(CUevent hEvent, CUstream hStream) {
  return call(ARGUMENTS(hEvent, hStream), in_host_function, [&] { record(hEvent, hStream); });
}
CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags) {
  return call(ARGUMENTS(hEvent, hStream, flags), in_host_function, [&] { record(hEvent, hStream, flags); });
}
CUresult cuEventQuery(CUevent hEvent) {
  return call(ARGUMENTS(hEvent), in_host_function, [&] { return query_event(hEvent); });
}
CUresult cuEventSynchronize(CUevent hEvent) {
  return call(ARGUMENTS(hEvent), in_host_function, [&] { synchronize_event(hEvent); });
}
CUresult cuIpcGetEventHandle(CUipcEventHandle* pHandle, CUevent event) {
  return call(ARGUMENTS(pHandle, event), result_to(pHandle, "pHandle", [&] { return export_event(event); }));
}
CUresult cuIpcOpenEventHandle(CUevent* phEvent, CUipcEventHandle handle) {
  return call(ARGUMENTS(phEvent), result_to(phEvent, "phEvent", [&] { return open_event(handle); }));
}
CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return call(ARGUMENTS(pMilliseconds, hStart, hEnd), in_host_function, [&] {
    require(pMilliseconds, CUDA_ERROR_INVALID_HANDLE, "pMilliseconds is null");
    *pMilliseconds = elapsed(hStart, hEnd);
  });
}
#if CUDA_VERSION >= 13000
#undef cuEventElapsedTime  // as programs of CUDA 12 call it
EXPORT CUresult cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}
#else
EXPORT CUresult cuEventElapsedTime_v2(float* pMilliseconds, CUevent hStart, CUevent hEnd) {
  return cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}
#endif
