// SPDX-License-Identifier: MIT-0
// Stream capture: what a program puts into a stream becomes nodes of a graph. A capture begins in one stream, its
// origin. Other streams take part from when they wait for an event that stands for captured nodes, until the origin
// ends the capture. A call that must not be made meanwhile is refused, and the capture is invalid from then on.
#include "graphs.h"

#include <algorithm>

namespace driver {

struct Capture {
  unsigned long long id;
  CUstreamCaptureMode mode;
  const Thread* thread;  // that began it
  const CUstream_st* origin;
  CUgraph graph;
  std::unique_ptr<CUgraph_st> made;                   // if the capture made it
  std::vector<std::shared_ptr<CUstream_st>> streams;  // that take part, the origin too
  std::vector<CUgraphNode> left_behind;               // by streams that were destroyed
  std::string invalid;                                // since this call; empty: it is valid
  bool has_ended = false;
};

namespace {

using Shared = std::shared_ptr<Capture>;

// Where the lock is held these refuse a call.
[[noreturn]] void refuse_and_end(Capture& capture, CUresult error, const std::string& why) {
  if (capture.invalid.empty()) capture.invalid = memory::current_call;
  refuse(error, why);
}
void must_be_valid(const Capture& capture) {
  if (!capture.invalid.empty())
    refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
           "the capture is invalid since " + capture.invalid +
               ", which must not be made in it: end it (cuStreamEndCapture), and capture anew");
}

// A capture whose streams the legacy stream minds, null for none.
Capture* minded_by_legacy(CUcontext context) {
  for (const Shared& capture : graphs().captures)
    for (const auto& stream : capture->streams)
      if (stream->context == context && !(stream->flags & CU_STREAM_NON_BLOCKING)) return capture.get();
  return nullptr;
}
bool is_legacy(const CUstream_st& stream) { return &stream == &stream.context->legacy; }
constexpr char legacy_is_blocked[] =
    "stream 0 waits for all streams that were made without CU_STREAM_NON_BLOCKING, and one of these captures";

constexpr char of_an_ended_capture[] =
    "the event was last recorded in a stream that captured, and that capture has ended: record it anew";

// Lets all streams go on as they were before. The lock is held.
void end(const Shared& capture) {
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

// Whether all that was captured in other streams comes before what the origin has.
bool is_joined(const Capture& capture) {
  const std::set<CUgraphNode> before = and_all_before(capture.origin->captured);
  std::vector<CUgraphNode> last = capture.left_behind;
  for (const auto& stream : capture.streams) last.insert(last.end(), stream->captured.begin(), stream->captured.end());
  return std::all_of(last.begin(), last.end(), [&](CUgraphNode node) { return before.contains(node); });
}

void begin(CUstream where, CUstreamCaptureMode mode, CUgraph into, std::span<const CUgraphNode> dependencies) {
  CUstream_st& stream = driver::stream(where);
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, CUDA_ERROR_INVALID_VALUE,
          "there is no such mode");
  require(!is_legacy(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "stream 0 is not captured: make a stream, or take CU_STREAM_PER_THREAD");
  const std::lock_guard held(graphs().lock);
  require(!stream.capture, CUDA_ERROR_ILLEGAL_STATE, "the stream captures already");
  if (into) checked(into);
  for (const CUgraphNode node : dependencies)
    require(checked(node)->graph == into, CUDA_ERROR_INVALID_VALUE, "a dependency is another graph's");
  const auto made = std::make_shared<Capture>();
  if (!into) made->made = make_graph();
  made->id = ++graphs().ids;
  made->mode = mode;
  made->thread = &thread();
  made->origin = &stream;
  made->graph = into ? into : made->made.get();
  made->streams.push_back(stream.shared_from_this());
  ++made->graph->captures;
  stream.capture = made;
  stream.captured.assign(dependencies.begin(), dependencies.end());
  graphs().captures.push_back(made);
  graphs().capturing = graphs().captures.size();
}

// The graph; null if nobody wants it.
CUgraph end(CUstream where, bool is_wanted) {
  CUstream_st& stream = driver::stream(where);
  std::unique_ptr<CUgraph_st> unwanted;  // its user objects end when nothing is locked
  const std::lock_guard held(graphs().lock);
  const Shared capture = stream.capture;
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
  if (capture->origin != &stream)
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                   "the capture began in another stream, where it has to end");
  const bool is_threads = capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == &thread();
  const bool has_joined = is_joined(*capture);
  end(capture);
  if (is_wanted && is_threads && capture->invalid.empty() && has_joined) {
    static_cast<void>(capture->made.release());  // the program's now
    return capture->graph;
  }
  if (capture->made) forget(capture->graph);
  unwanted = std::move(capture->made);
  require(is_threads, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "the capture began in another thread: end it there, or begin it with CU_STREAM_CAPTURE_MODE_RELAXED");
  must_be_valid(*capture);
  if (has_joined) return nullptr;
  refuse(
      CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
      "another stream took part, and its last nodes are not awaited: record an event there, and let this stream wait "
      "for it");
}

// What a program asks of a stream that may be the legacy one.
CUstreamCaptureStatus status_of(const CUstream_st& stream) {
  require(!is_legacy(stream) || !minded_by_legacy(stream.context), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          legacy_is_blocked);
  if (!stream.capture) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalid.empty() ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

struct Info {
  CUstreamCaptureStatus* status;
  cuuint64_t* id;
  CUgraph* graph;
  const CUgraphNode** dependencies;
  const CUgraphEdgeData** edges;
  size_t* count;
};
void tell(CUstream where, const Info& to) {
  need(to.status, "captureStatus_out");
  CUstream_st& stream = driver::stream(where);
  const std::lock_guard held(graphs().lock);
  *to.status = status_of(stream);
  if (*to.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  stream.edges_of_captured.assign(stream.captured.size(), {});
  if (to.id) *to.id = stream.capture->id;
  if (to.graph) *to.graph = stream.capture->graph;
  if (to.dependencies) *to.dependencies = stream.captured.data();
  if (to.edges) *to.edges = stream.edges_of_captured.data();
  if (to.count) *to.count = stream.captured.size();
}

void update(CUstream where, const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count, unsigned flags) {
  CUstream_st& stream = driver::stream(where);
  require(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES, CUDA_ERROR_INVALID_VALUE, "there are no such flags");
  check_edges(edges, count);
  const std::lock_guard held(graphs().lock);
  require(stream.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
  must_be_valid(*stream.capture);
  const auto given = list(nodes, count);
  for (const CUgraphNode node : given)
    require(checked(node)->graph == stream.capture->graph, CUDA_ERROR_INVALID_VALUE,
            "a dependency is another graph's than the one that is captured into");
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream.captured.clear();
  for (const CUgraphNode node : given)
    if (std::find(stream.captured.begin(), stream.captured.end(), node) == stream.captured.end())
      stream.captured.push_back(node);
}

}  // namespace

// --- For those who put something into streams ------------------------------------------------------------------------

bool is_capturing(const CUstream_st& stream) {
  if (!graphs().capturing) return false;
  const std::lock_guard held(graphs().lock);
  return stream.capture != nullptr;
}

bool capture(CUstream_st& stream, const SharedWork& work) {
  if (!graphs().capturing) return false;
  const std::lock_guard held(graphs().lock);
  if (!stream.capture) return false;
  must_be_valid(*stream.capture);
  stream.captured = {add_node(stream.capture->graph, work, stream.captured)};
  return true;
}

bool capture_record(CUstream_st& stream, CUevent_st& event) {
  const std::lock_guard held(graphs().lock);
  if (stream.capture) must_be_valid(*stream.capture);
  event.capture = stream.capture;
  event.captured = stream.captured;
  return stream.capture != nullptr;
}

bool capture_wait(CUstream_st& stream, const CUevent_st& event) {
  const std::lock_guard held(graphs().lock);
  const Shared capture = event.capture;
  if (stream.capture) must_be_valid(*stream.capture);
  if (!capture || capture->has_ended) {
    if (capture) {
      if (stream.capture) refuse_and_end(*stream.capture, CUDA_ERROR_INVALID_VALUE, of_an_ended_capture);
      refuse(CUDA_ERROR_INVALID_VALUE, of_an_ended_capture);
    }
    if (!stream.capture) return false;
    if (event.recorded || (event.shared && memory::times_recorded(event.shared->number)))
      refuse_and_end(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                     "the event was recorded outside of the capture: what is captured would depend on it. "
                     "CU_EVENT_WAIT_EXTERNAL makes the wait a node");
    return true;  // it was never recorded
  }
  require(capture->invalid.empty(), CUDA_ERROR_INVALID_VALUE,
          "the event stands for nodes of a capture that is invalid");
  if (is_legacy(stream)) refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_is_blocked);
  if (stream.capture && stream.capture != capture) {
    const char* const why = "the event is of another capture than the stream: two captures do not become one";
    stream.capture->invalid = memory::current_call;
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_MERGE, why);
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
  const std::lock_guard held(graphs().lock);
  const Shared capture = stream.capture;
  if (!capture) return;
  if (capture->origin == &stream) {  // nobody can end it any more
    end(capture);
    if (capture->made) forget(capture->graph);
    unwanted = std::move(capture->made);
    return;
  }
  capture->left_behind.insert(capture->left_behind.end(), stream.captured.begin(), stream.captured.end());
  stream.capture = nullptr;
  stream.captured.clear();
  std::erase_if(capture->streams, [&](const auto& each) { return each.get() == &stream; });
}

// --- Calls that must not be made meanwhile ---------------------------------------------------------------------------

void must_not_capture(const CUstream_st& stream) {
  if (!graphs().capturing) return;
  const std::lock_guard held(graphs().lock);
  if (Capture* const capture = is_legacy(stream) ? minded_by_legacy(stream.context) : nullptr)
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, legacy_is_blocked);
  if (!stream.capture) return;
  refuse_and_end(*stream.capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                 "the stream captures: what was put into it is not executed, so it cannot be waited for or asked");
}

void must_not_capture(const CUevent_st& event, bool ends_capture) {
  const std::lock_guard held(graphs().lock);
  if (!event.capture) return;
  if (event.capture->has_ended) refuse(CUDA_ERROR_INVALID_VALUE, of_an_ended_capture);
  const char* const why = "the event was last recorded in a stream that captures: it stands for nodes of a graph";
  if (ends_capture) refuse_and_end(*event.capture, CUDA_ERROR_CAPTURED_EVENT, why);
  refuse(CUDA_ERROR_CAPTURED_EVENT, why);
}

void must_not_capture(CUcontext context) {
  if (!graphs().capturing) return;
  const std::lock_guard held(graphs().lock);
  for (const Shared& capture : graphs().captures)
    for (const auto& stream : capture->streams)
      if (stream->context == context)
        refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "a stream of the context captures: what was put into it is not executed, so it cannot be "
                       "waited for");
}

void forbid_in_capture() {
  if (!graphs().capturing || thread().capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return;
  const std::lock_guard held(graphs().lock);
  Capture* prohibiting = nullptr;
  for (const Shared& capture : graphs().captures) {
    const bool is_own = capture->thread == &thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool is_others =
        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread().capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!is_own && !is_others) continue;
    prohibiting = capture.get();
    if (capture->invalid.empty()) capture->invalid = memory::current_call;
  }
  if (prohibiting)
    refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
           "a stream captures, and a call that does not go into a stream is not repeated when the graph is launched: "
           "make it before, or in a thread with CU_STREAM_CAPTURE_MODE_RELAXED (cuThreadExchangeStreamCaptureMode)");
}

}  // namespace driver

using namespace driver;

CUresult cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode) {
  return call(ARGUMENTS(hStream, mode), [&] { begin(hStream, mode, nullptr, {}); });
}
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
  return call(ARGUMENTS(hStream, hGraph, dependencies, numDependencies, mode), [&] {
    need(hGraph, "hGraph");
    check_edges(dependencyData, numDependencies);
    begin(hStream, mode, hGraph, list(dependencies, numDependencies));
  });
}
CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return call(ARGUMENTS(hStream, phGraph), [&] {
    if (phGraph) *phGraph = nullptr;
    const CUgraph graph = end(hStream, phGraph);
    if (phGraph) *phGraph = graph;
  });
}
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return call(ARGUMENTS(hStream, captureStatus), [&] {
    need(captureStatus, "captureStatus");
    const CUstream_st& it = stream(hStream);
    const std::lock_guard held(graphs().lock);
    *captureStatus = status_of(it);
  });
}
EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          size_t* numDependencies_out) {
  return call(ARGUMENTS(hStream, captureStatus_out), [&] {
    tell(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out});
  });
}
EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  return call(ARGUMENTS(hStream, captureStatus_out), [&] {
    require(!edgeData_out || dependencies_out, CUDA_ERROR_INVALID_VALUE, "edgeData_out without dependencies_out");
    tell(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out});
  });
}
EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                     unsigned int flags) {
  return call(ARGUMENTS(hStream, numDependencies, flags),
              [&] { update(hStream, dependencies, dependencyData, numDependencies, flags); });
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call(ARGUMENTS(mode), [&] {
    if (!mode) {
      tell_of_crash("mode is null");
      refuse(CUDA_ERROR_INVALID_VALUE, "mode is null");
    }
    *mode = std::exchange(thread().capture_mode, *mode);  // whatever it is, as on the H200
  });
}
// As programs of earlier versions call them.
#undef cuStreamGetCaptureInfo
#undef cuStreamUpdateCaptureDependencies
EXPORT CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus* captureStatus_out, cuuint64_t* id_out) {
  return cuStreamGetCaptureInfo_v2(hStream, captureStatus_out, id_out, nullptr, nullptr, nullptr);
}
EXPORT CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode* dependencies, size_t numDependencies,
                                                  unsigned int flags) {
  return cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, nullptr, numDependencies, flags);
}
