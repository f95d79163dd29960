// SPDX-License-Identifier: MIT-0
// A stream that takes part in a capture and is destroyed: what stream 0, which minds streams that were made without
// NON_BLOCKING, may do from then on, and how the capture ends.
#include "conformance.h"

static CUstream origin, fork_;
static CUevent begun, joined;
static CUdeviceptr words;

// The capture begins in a stream that stream 0 does not mind; `fork_` comes into it, and goes back if it `joins`.
static void capture(unsigned kind, bool joins) {
  CHECK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(cuStreamCreate(&fork_, kind));
  CHECK(cuEventRecord(begun, origin));
  CHECK(cuStreamWaitEvent(fork_, begun, 0));
  CHECK(cuMemsetD32Async(words, 7, 1, fork_));
  if (!joins) return;
  CHECK(cuEventRecord(joined, fork_));
  CHECK(cuStreamWaitEvent(origin, joined, 0));
}

static std::string status() {
  CUstreamCaptureStatus found;
  const CUresult answer = cuStreamIsCapturing(origin, &found);
  return answer ? brief(answer) : "status " + std::to_string(found);
}
static std::string end() {
  CUgraph graph = nullptr;
  size_t nodes = 0;
  const CUresult answer = cuStreamEndCapture(origin, &graph);
  if (graph) CHECK(cuGraphGetNodes(graph, nullptr, &nodes)), CHECK(cuGraphDestroy(graph));
  return listed({brief(answer), std::to_string(nodes) + " nodes"});
}

static void begin() {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&words, 1024));
  CHECK(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&begun, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventCreate(&joined, CU_EVENT_DISABLE_TIMING));
}

static void questions(bool destroys, bool joins) {
  for (const unsigned kind : {unsigned(CU_STREAM_DEFAULT), unsigned(CU_STREAM_NON_BLOCKING)}) {
    struct {
      const char* what;
      CUresult (*call)();
    } const calls[] = {{"nothing", [] { return CUDA_SUCCESS; }},
                       {"memset in stream 0", [] { return cuMemsetD32Async(words + 4, 7, 1, CU_STREAM_LEGACY); }},
                       {"wait for stream 0", [] { return cuStreamSynchronize(CU_STREAM_LEGACY); }},
                       {"ask stream 0", [] { return cuStreamQuery(CU_STREAM_LEGACY); }},
                       {"record in stream 0", [] { return cuEventRecord(begun, CU_STREAM_LEGACY); }},
                       {"memset without a stream", [] { return cuMemsetD32(words + 4, 7, 1); }}};
    for (const auto& each : calls) {
      capture(kind, joins);
      if (destroys) CHECK(cuStreamDestroy(fork_));
      const std::string answer = brief(each.call()), then = status();
      say(std::string(kind ? "non-blocking, " : "blocking, ") + each.what, listed({answer, then, end()}));
      CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
      if (!destroys) CHECK(cuStreamDestroy(fork_));
    }
  }
}
SECTION("destroyed, joined") { begin(), questions(true, true); }
SECTION("destroyed, not joined") { begin(), questions(true, false); }
SECTION("not destroyed, joined") { begin(), questions(false, true); }
SECTION("not destroyed, not joined") { begin(), questions(false, false); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
