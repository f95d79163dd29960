// SPDX-License-Identifier: MIT-0
#include "capture.h"

#include <algorithm>

#include "driver.h"

namespace driver {

namespace {
constexpr char of_an_ended_capture[] =
    "the event was last recorded in a stream that captured, and that capture has ended: record it anew";
constexpr char of_an_invalid_capture[] =
    "the event was last recorded in a stream that captures, and that capture is invalid: record it anew";
}  // namespace

// A kernel that may begin early does so behind kernels; behind anything else it waits as others do.
static std::vector<CUgraphEdgeData> early_edges(const Work& work, const std::vector<CUgraphNode>& before) {
  const bool is_early = work.kernel() && work.kernel()->begins_early &&
                        std::ranges::all_of(before, [](CUgraphNode node) { return node->work->kernel(); });
  return {before.size(), is_early ? programmatic : CUgraphEdgeData{}};
}

const char legacy_is_blocked[] =
    "stream 0 waits for all streams that were made without CU_STREAM_NON_BLOCKING, and one of these captures";

void refuse_and_end(Capture& capture, CUresult error, const std::string& reason) {
  if (capture.invalid.empty()) capture.invalid = memory::caller().call;
  refuse(error, reason);
}

void require_valid(const Capture& capture) {
  if (!capture.invalid.empty())
    refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
           "the capture is invalid since " + capture.invalid +
               ", which must not be made in it: end it (cuStreamEndCapture), and capture anew");
}

Capture* minded_by_legacy(CUcontext context) {
  for (const auto& capture : graphs().captures)
    for (const auto& stream : capture->streams)
      if (stream->context == context && !(stream->flags & CU_STREAM_NON_BLOCKING)) return capture.get();
  return nullptr;
}

// Lets all streams go on as they were before.
void end_capture(const std::shared_ptr<Capture>& capture) {
  for (const auto& stream : capture->streams) {
    stream->capture = nullptr;
    stream->captured.clear();
  }
  capture->streams.clear();
  capture->has_ended = true;
  --capture->graph->captures;
  std::erase(graphs().captures, capture);
  graphs().capturing = graphs().captures.size();
}

bool is_capturing(const CUstream_st& stream) {
  if (!graphs().capturing) return false;
  const MutexLock held(graphs().lock);
  return stream.capture != nullptr;
}

bool capture(CUstream_st& stream, const SharedWork& work) {
  if (!graphs().capturing) return false;
  const MutexLock held(graphs().lock);
  if (!stream.capture) return false;
  require_valid(*stream.capture);
  stream.captured = {
      add_node(stream.capture->graph, work, stream.captured, early_edges(*work, stream.captured).data())};
  return true;
}

bool capture_record(CUstream_st& stream, CUevent_st& event) {
  const MutexLock held(graphs().lock);
  if (stream.capture) require_valid(*stream.capture);
  event.capture = stream.capture;
  event.captured = stream.captured;
  return stream.capture != nullptr;
}

void require_open_capture(CUstream_st& stream, const CUevent_st& event) {
  const MutexLock held(graphs().lock);
  if (!event.capture || (!event.capture->has_ended && event.capture->invalid.empty())) return;
  const char* const reason = event.capture->has_ended ? of_an_ended_capture : of_an_invalid_capture;
  if (stream.capture) refuse_and_end(*stream.capture, CUDA_ERROR_INVALID_VALUE, reason);
  refuse(reason);
}

bool capture_wait(CUstream_st& stream, const CUevent_st& event) {
  require_open_capture(stream, event);
  const MutexLock held(graphs().lock);
  const auto capture = event.capture;
  if (!capture) {
    if (!stream.capture) return false;
    const MutexLock also_held(state().lock);
    if (event.recorded || (event.shared && memory::times_recorded(event.shared->number)))
      refuse_and_end(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                     "the event was recorded outside of the capture: what is captured would depend on it. "
                     "CU_EVENT_WAIT_EXTERNAL makes the wait a node");
    return true;  // it was never recorded
  }
  if (stream.is_legacy) refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_is_blocked);
  if (stream.capture && stream.capture != capture) {
    const char* const reason = "the event is of another capture than the stream: two captures do not become one";
    stream.capture->invalid = memory::caller().call;
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, reason);
  }
  if (!stream.capture) {
    capture->streams.push_back(stream.shared_from_this());
    stream.capture = capture;
  }
  for (const CUgraphNode node : event.captured)
    if (std::find(stream.captured.begin(), stream.captured.end(), node) == stream.captured.end())
      stream.captured.push_back(node);
  return true;
}

void leave_capture(CUstream_st& stream) {
  std::unique_ptr<CUgraph_st> unwanted;
  const MutexLock held(graphs().lock);
  const auto capture = stream.capture;
  if (!capture) return;
  if (capture->origin == &stream) {  // nobody can end it any more
    end_capture(capture);
    if (capture->own) forget(capture->graph);
    unwanted = std::move(capture->own);
    return;
  }
  capture->left_behind.insert(capture->left_behind.end(), stream.captured.begin(), stream.captured.end());
  stream.capture = nullptr;
  stream.captured.clear();
  std::erase_if(capture->streams, [&](const auto& member) { return member.get() == &stream; });
}

// --- Calls that must not be made meanwhile ---------------------------------------------------------------------------

void require_not_capturing(const CUstream_st& stream) {
  if (!graphs().capturing) return;
  const MutexLock held(graphs().lock);
  if (Capture* const capture = stream.is_legacy ? minded_by_legacy(stream.context) : nullptr)
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_is_blocked);
  if (!stream.capture) return;
  refuse_and_end(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 "the stream captures: what was put into it is not executed, so it cannot be waited for or asked");
}

void require_not_capturing(const CUevent_st& event, bool ends_capture) {
  const MutexLock held(graphs().lock);
  if (!event.capture) return;
  if (event.capture->has_ended) refuse(of_an_ended_capture);
  if (!event.capture->invalid.empty()) refuse(of_an_invalid_capture);
  const char* const reason = "the event was last recorded in a stream that captures: it stands for nodes of a graph";
  if (ends_capture) refuse_and_end(*event.capture, CUDA_ERROR_CAPTURED_EVENT, reason);
  refuse(CUDA_ERROR_CAPTURED_EVENT, reason);
}

void require_not_capturing(CUcontext context) {
  if (!graphs().capturing) return;
  const MutexLock held(graphs().lock);
  for (const auto& capture : graphs().captures)
    for (const auto& stream : capture->streams)
      if (stream->context == context)
        refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "a stream of the context captures: what was put into it is not executed, so it cannot be "
                       "waited for");
}

void refuse_if_unsafe_in_capture() {
  if (!graphs().capturing || thread().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  const MutexLock held(graphs().lock);
  Capture* prohibiting = nullptr;
  for (const auto& capture : graphs().captures) {
    const bool is_own = capture->thread == &thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_others =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_others) continue;
    prohibiting = capture.get();
    if (capture->invalid.empty()) capture->invalid = memory::caller().call;
  }
  if (prohibiting)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "a stream captures, and a call that does not go into a stream is not repeated when the graph is launched: "
           "make it before, or in a thread with CU_STREAM_CAPTURE_MODE_RELAXED (cuThreadExchangeStreamCaptureMode)");
}

}  // namespace driver
