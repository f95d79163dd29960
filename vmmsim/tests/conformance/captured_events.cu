// SPDX-License-Identifier: MIT-0
// Events and captures: each call that takes an event, of an event that was recorded in the same capture, in another, in
// one that is invalid or has ended, or in none, in streams that capture and in others. An answer is followed by the
// states of both captures, and by what their ends answer.
#include "parts.h"

#include <vector>

static CUdeviceptr words;

// Two captures, each of one stream, but that `branch` takes part in the first and has been joined; and streams that
// capture nothing.
struct Scene {
  CUstreamCaptureMode mode;
  CUstream one, branch, two, plain, blocking;
  CUevent event, outside, helper;

  explicit Scene(CUstreamCaptureMode mode) : mode(mode) {
    for (CUstream* each : {&one, &branch, &two, &plain}) CHECK(cuStreamCreate(each, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&blocking, 0));
    for (CUevent* each : {&event, &outside, &helper}) CHECK(cuEventCreate(each, 0));
    CHECK(cuEventRecord(outside, plain));
    CHECK(cuStreamSynchronize(plain));
  }
  ~Scene() {
    CUgraph graph;
    for (CUstream each : {one, two})
      if (each) cuStreamEndCapture(each, &graph);
    for (CUstream each : {one, branch, two, plain, blocking})
      if (each) cuStreamDestroy(each);
    for (CUevent each : {event, outside, helper})
      if (each) cuEventDestroy(each);
    CHECK(cuCtxSynchronize());
  }
  void begin_one() {
    CHECK(cuStreamBeginCapture(one, mode));
    CHECK(cuMemsetD32Async(words, 1, 4, one));
    CHECK(cuEventRecord(helper, one));
    CHECK(cuStreamWaitEvent(branch, helper, 0));
    CHECK(cuMemsetD32Async(words, 2, 4, branch));
    CHECK(cuEventRecord(helper, branch));
    CHECK(cuStreamWaitEvent(one, helper, 0));
  }
  void begin_two() {
    CHECK(cuStreamBeginCapture(two, mode));
    CHECK(cuMemsetD32Async(words, 3, 4, two));
  }
  void begin() { begin_one(), begin_two(); }
  void record_outside() {
    CHECK(cuEventRecord(event, plain));
    CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_RELAXED;  // to wait for it also while streams capture
    CHECK(cuThreadExchangeStreamCaptureMode(&own));
    CHECK(cuStreamSynchronize(plain));
    CHECK(cuThreadExchangeStreamCaptureMode(&own));
  }
  static std::string status(CUstream stream) {
    if (!stream) return "gone";
    CUstreamCaptureStatus is = CUstreamCaptureStatus(9);
    const CUresult answer = cuStreamIsCapturing(stream, &is);
    return answer == CUDA_SUCCESS ? std::to_string(int(is)) : brief(answer);
  }
  static std::string end(CUstream stream) {
    if (!stream) return "gone";
    CUgraph graph = nullptr;
    const CUresult answer = cuStreamEndCapture(stream, &graph);
    size_t nodes = 0;
    if (answer || !graph) return brief(answer);
    CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
    CHECK(cuGraphDestroy(graph));
    return std::to_string(nodes) + " nodes";
  }
};

struct State {
  const char* what;
  void (*prepare)(Scene&);
};
static const State states[] = {
    {"never recorded", [](Scene& s) { s.begin(); }},
    {"recorded outside", [](Scene& s) { s.record_outside(), s.begin(); }},
    {"of the first", [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.one)); }},
    {"of the first's branch", [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.branch)); }},
    {"of the second", [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.two)); }},
    {"a node of the second", [](Scene& s) { s.begin(), CHECK(cuEventRecordWithFlags(s.event, s.two, 1)); }},
    {"of the first, invalid",
     [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.one)), cuStreamSynchronize(s.one); }},
    {"of the second, invalid",
     [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.two)), cuStreamSynchronize(s.two); }},
    {"of the first, ended, which began anew",
     [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.one)), s.end(s.one), s.begin_one(); }},
    {"of the second, ended", [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.two)), s.end(s.two); }},
    {"of the second, ended when invalid",
     [](Scene& s) {
       s.begin(), CHECK(cuEventRecord(s.event, s.two));
       cuStreamSynchronize(s.two), s.end(s.two);
     }},
    {"of the second, its stream gone",
     [](Scene& s) {
       s.begin(), CHECK(cuEventRecord(s.event, s.two));
       CHECK(cuStreamDestroy(s.two)), s.two = nullptr;
     }},
    {"recorded outside since", [](Scene& s) { s.begin(), CHECK(cuEventRecord(s.event, s.two)), s.record_outside(); }},
};

struct Where {
  const char* name;
  CUstream (*stream)(Scene&);
};
static const Where places[] = {
    {"the first", [](Scene& s) { return s.one; }},           {"its branch", [](Scene& s) { return s.branch; }},
    {"the second", [](Scene& s) { return s.two; }},          {"none", [](Scene& s) { return s.plain; }},
    {"a blocking one", [](Scene& s) { return s.blocking; }}, {"stream 0", [](Scene&) { return CU_STREAM_LEGACY; }}};

struct Call {
  const char* name;
  CUresult (*call)(Scene&, CUstream);
};
static const Call calls_with_stream[] = {
    {"record", [](Scene& s, CUstream stream) { return cuEventRecord(s.event, stream); }},
    {"record as a node", [](Scene& s, CUstream stream) { return cuEventRecordWithFlags(s.event, stream, 1); }},
    {"wait", [](Scene& s, CUstream stream) { return cuStreamWaitEvent(stream, s.event, 0); }},
    {"wait as a node", [](Scene& s, CUstream stream) { return cuStreamWaitEvent(stream, s.event, 1); }},
};
static float milliseconds;
static const Call calls_alone[] = {
    {"query", [](Scene& s, CUstream) { return cuEventQuery(s.event); }},
    {"synchronize", [](Scene& s, CUstream) { return cuEventSynchronize(s.event); }},
    {"elapsed from", [](Scene& s, CUstream) { return cuEventElapsedTime(&milliseconds, s.event, s.outside); }},
    {"elapsed to", [](Scene& s, CUstream) { return cuEventElapsedTime(&milliseconds, s.outside, s.event); }},
    {"destroy",
     [](Scene& s, CUstream) {
       const CUresult answer = cuEventDestroy(s.event);
       s.event = nullptr;
       return answer;
     }},
};

static void ask_in_scene(const std::string& what, const State& state, CUstreamCaptureMode mode, const Call& call,
                         CUstream (*where)(Scene&)) {
  Scene scene(mode);
  state.prepare(scene);
  if (where && !where(scene)) return;  // it is gone
  ask(what, [&] {
    return listed({brief(call.call(scene, where ? where(scene) : nullptr)), scene.status(scene.one),
                   scene.status(scene.two), scene.end(scene.one), scene.end(scene.two)});
  });
}

static void ask_all(CUstreamCaptureMode mode) {
  for (const State& state : states) {
    for (const Where& place : places)
      for (const Call& call : calls_with_stream)
        ask_in_scene(std::string(state.what) + ": " + call.name + " in " + place.name, state, mode, call, place.stream);
    for (const Call& call : calls_alone)
      ask_in_scene(std::string(state.what) + ": " + call.name, state, mode, call, nullptr);
  }
}

int main(int argc, char** argv) {
  if (argc > 1) {
    note_crashes(argc > 2 ? argv[2] : "");
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    CHECK(cuMemAlloc(&words, 1024));
    ask_all(argv[1] == std::string("relaxed") ? CU_STREAM_CAPTURE_MODE_RELAXED : CU_STREAM_CAPTURE_MODE_GLOBAL);
    return 0;
  }
  check::require_gpus(1);
  for (const char* mode : {"relaxed", "global"}) {
    section(mode);
    run_part(mode);
  }
  std::puts("OK");
}
