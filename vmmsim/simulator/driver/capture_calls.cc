// SPDX-License-Identifier: MIT-0
// Calls about stream capture.
#include <algorithm>
#include <utility>

#include "capture.h"
#include "driver.h"
#include "streams.h"

namespace driver {
namespace {

// Whether all that was captured in other streams comes before what the origin has.
bool is_joined(const Capture& capture) REQUIRES(graphs().lock) {
  const std::set<CUgraphNode> before = and_all_before(capture.origin->captured);
  std::vector<CUgraphNode> last = capture.left_behind;
  for (const auto& stream : capture.streams) last.insert(last.end(), stream->captured.begin(), stream->captured.end());
  return std::all_of(last.begin(), last.end(), [&](CUgraphNode node) { return before.contains(node); });
}

// Those that are not there yet.
void append_new(std::vector<CUgraphNode>& to, std::span<const CUgraphNode> nodes) {
  for (const CUgraphNode node : nodes)
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
}

void begin_capture(CUstream stream_handle, CUstreamCaptureMode mode, CUgraph into,
                   std::span<const CUgraphNode> dependencies, const CUgraphEdgeData* edges = nullptr) {
  require(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED, "there is no such mode");
  CUstream_st& stream = named_stream(stream_handle);
  require(!stream.is_legacy, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          "stream 0 is not captured: make a stream, or take CU_STREAM_PER_THREAD");
  const MutexLock held(graphs().lock);
  require(!stream.capture, CUDA_ERROR_ILLEGAL_STATE, "the stream captures already");
  if (into) checked(into);
  for (const CUgraphNode node : dependencies) require(checked(node)->graph == into, "a dependency is another graph's");
  require_edges(edges, dependencies);
  const auto capture = std::make_shared<Capture>();
  if (!into) capture->own = make_graph();
  capture->id = ++graphs().ids;
  capture->mode = mode;
  capture->thread = &thread();
  capture->origin = &stream;
  capture->graph = into ? into : capture->own.get();
  capture->streams.push_back(stream.shared_from_this());
  ++capture->graph->captures;
  stream.capture = capture;
  stream.captured.clear();
  append_new(stream.captured, dependencies);
  graphs().captures.push_back(capture);
  graphs().capturing = graphs().captures.size();
}

// The graph; null if nobody wants it.
CUgraph take_graph(CUstream stream_handle, bool is_wanted) {
  CUstream_st& stream = named_stream(stream_handle);
  std::unique_ptr<CUgraph_st> unwanted;  // its user objects end when nothing is locked
  const MutexLock held(graphs().lock);
  const auto capture = stream.capture;
  require(capture != nullptr, CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
  if (capture->origin != &stream)
    refuse_and_end(*capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                   "the capture began in another stream, where it has to end");
  const bool is_threads = capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED || capture->thread == &thread();
  const bool has_joined = is_joined(*capture);
  end_capture(capture);
  if (is_wanted && is_threads && capture->invalid.empty() && has_joined) {
    static_cast<void>(capture->own.release());  // the program's now
    return capture->graph;
  }
  if (capture->own) forget(capture->graph);
  unwanted = std::move(capture->own);
  require(is_threads, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
          "the capture began in another thread, and is over now without a graph: end the next one where it begins, or "
          "begin it with CU_STREAM_CAPTURE_MODE_RELAXED");
  require_valid(*capture);
  if (has_joined) return nullptr;
  refuse(
      CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
      "another stream took part, and its last nodes are not awaited: record an event there, and let this stream wait "
      "for it");
}

// What a program asks of a stream that may be the legacy one.
CUstreamCaptureStatus status_of(const CUstream_st& stream) REQUIRES(graphs().lock) {
  require(!stream.is_legacy || !minded_by_legacy(stream.context), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
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
void give_info(CUstream stream_handle, const Info& to) {
  require_non_null(to.status, "captureStatus_out");
  CUstream_st& stream = driver::find_stream(stream_handle);
  const MutexLock held(graphs().lock);
  *to.status = status_of(stream);
  if (*to.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return;
  stream.edges_of_captured.assign(stream.captured.size(), {});
  if (to.id) *to.id = stream.capture->id;
  if (to.graph) *to.graph = stream.capture->graph;
  if (to.dependencies) *to.dependencies = stream.captured.data();
  if (to.edges) *to.edges = stream.edges_of_captured.data();
  if (to.count) *to.count = stream.captured.size();
}

void update(CUstream stream_handle, const CUgraphNode* nodes, const CUgraphEdgeData* edges, size_t count,
            unsigned flags) {
  CUstream_st& stream = named_stream(stream_handle);
  const MutexLock held(graphs().lock);
  require(stream.capture != nullptr, CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
  require_valid(*stream.capture);
  require_flags(flags <= CU_STREAM_SET_CAPTURE_DEPENDENCIES);
  const auto given = list(nodes, count);
  for (const CUgraphNode node : given)
    require(checked(node)->graph == stream.capture->graph,
            "a dependency is another graph's than the one that is captured into");
  require_edges(edges, given);
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) stream.captured.clear();
  append_new(stream.captured, given);
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode) {
  return call(ARGUMENTS(hStream, mode), [&] { begin_capture(hStream, mode, nullptr, {}); });
}
CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode) {
  return call(ARGUMENTS(hStream, hGraph, dependencies, numDependencies, mode), [&] {
    require_non_null(hGraph, "hGraph");
    begin_capture(hStream, mode, hGraph, list(dependencies, numDependencies), dependencyData);
  });
}
CUresult cuStreamEndCapture(CUstream hStream, CUgraph* phGraph) {
  return call(ARGUMENTS(hStream, phGraph), [&] {
    if (phGraph) *phGraph = nullptr;
    const CUgraph graph = take_graph(hStream, phGraph);
    if (phGraph) *phGraph = graph;
  });
}
CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus* captureStatus) {
  return call(ARGUMENTS(hStream, captureStatus), in_host_function, [&] {
    require_non_null(captureStatus, "captureStatus");
    const CUstream_st& asked = find_stream(hStream);
    const MutexLock held(graphs().lock);
    *captureStatus = status_of(asked);
  });
}
EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          size_t* numDependencies_out) {
  return call(ARGUMENTS(hStream, captureStatus_out), [&] {
    give_info(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out});
  });
}
EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus* captureStatus_out,
                                          cuuint64_t* id_out, CUgraph* graph_out, const CUgraphNode** dependencies_out,
                                          const CUgraphEdgeData** edgeData_out, size_t* numDependencies_out) {
  return call(ARGUMENTS(hStream, captureStatus_out), [&] {
    require(!edgeData_out || dependencies_out, "edgeData_out without dependencies_out");
    give_info(hStream, {captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out});
  });
}
EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode* dependencies,
                                                     const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                                     unsigned int flags) {
  return call(ARGUMENTS(hStream, numDependencies, flags),
              [&] { update(hStream, dependencies, dependencyData, numDependencies, flags); });
}
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return call(ARGUMENTS(mode), in_host_function, [&] {
    if (!mode) {
      log_crash("mode is null");
      refuse("mode is null");
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
