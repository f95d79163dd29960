// SPDX-License-Identifier: MIT-0
// Memory that streams allocate and free while this or another stream is captured: which calls are refused, what that
// does to the capture, and whether memory whose freeing was refused is still there. Left out: memory of cuMemAlloc
// freed twice by cuMemFreeAsync, which an H100 lets pass until the stream gets there; and what an address of a node
// is that was never launched: no memory on an H100, memory on the simulator (docs/simulator.md).
#include "parts.h"

#include <vector>

static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};
static const char* const names_of_modes[] = {"global", "thread", "relaxed"};
static CUmemoryPool pool;

struct Scene {
  CUstream one, blocking, two, plain, other_blocking;
  CUdeviceptr before, inside = 0, in_two = 0, ordinary;
  bool is_ordinary_freed = false;
  CUgraph graph = nullptr;

  Scene(CUstreamCaptureMode mode, bool captures_blocking) {
    for (CUstream* each : {&one, &two, &plain}) CHECK(cuStreamCreate(each, CU_STREAM_NON_BLOCKING));
    for (CUstream* each : {&blocking, &other_blocking}) CHECK(cuStreamCreate(each, 0));
    CHECK(cuMemAllocAsync(&before, 1024, plain));
    CHECK(cuMemAlloc(&ordinary, 1024));
    CHECK(cuStreamSynchronize(plain));
    CHECK(cuStreamBeginCapture(captures_blocking ? blocking : one, mode));
    if (captures_blocking) return;
    CHECK(cuStreamBeginCapture(two, mode));
    CHECK(cuMemAllocAsync(&inside, 1024, one));
    CHECK(cuMemAllocAsync(&in_two, 1024, two));
  }
  ~Scene() {
    CUgraph ended;
    for (CUstream each : {one, two, blocking}) cuStreamEndCapture(each, &ended);
    for (CUstream each : {one, two, plain, blocking, other_blocking}) cuStreamDestroy(each);
    if (!is_ordinary_freed) cuMemFree(ordinary);
    CHECK(cuCtxSynchronize());
  }
  static std::string status(CUstream stream) {
    CUstreamCaptureStatus is = CUstreamCaptureStatus(9);
    const CUresult answer = cuStreamIsCapturing(stream, &is);
    return answer == CUDA_SUCCESS ? std::to_string(int(is)) : brief(answer);
  }
  static std::string end(CUstream stream) {
    CUgraph graph = nullptr;
    const CUresult answer = cuStreamEndCapture(stream, &graph);
    size_t nodes = 0;
    if (answer != CUDA_SUCCESS || !graph) return brief(answer);
    CHECK(cuGraphGetNodes(graph, nullptr, &nodes));
    return std::to_string(nodes) + " nodes";
  }
};

struct Where {
  const char* name;
  CUstream (*stream)(Scene&);
};
static const Where places[] = {{"the capturing one", [](Scene& s) { return s.one; }},
                               {"another capturing one", [](Scene& s) { return s.two; }},
                               {"one that does not capture", [](Scene& s) { return s.plain; }},
                               {"a blocking one", [](Scene& s) { return s.blocking; }},
                               {"another blocking one", [](Scene& s) { return s.other_blocking; }},
                               {"stream 0", [](Scene&) { return CU_STREAM_LEGACY; }},
                               {"the thread's", [](Scene&) { return CU_STREAM_PER_THREAD; }}};
struct What {
  const char* name;
  CUdeviceptr (*memory)(Scene&);
};
static const What all_memory[] = {{"memory of a pool", [](Scene& s) { return s.before; }},
                                  {"the capture's memory", [](Scene& s) { return s.inside; }},
                                  {"another capture's memory", [](Scene& s) { return s.in_two; }},
                                  {"memory of cuMemAlloc", [](Scene& s) { return s.ordinary; }}};

static void allocations(CUstreamCaptureMode mode, bool captures_blocking) {
  for (const Where& place : places)
    for (const size_t bytes : {size_t(0), size_t(1024), size_t(1) << 50})
      for (const bool from_pool : {false, true}) {
        Scene s(mode, captures_blocking);
        const std::string name = from_pool ? "from a pool" : "allocate";
        ask(name + ", " + (bytes > 1024 ? "too much" : std::to_string(bytes) + " bytes") + ", in " + place.name, [&] {
          CUdeviceptr address = 7;
          const CUresult answer = from_pool ? cuMemAllocFromPoolAsync(&address, bytes, pool, place.stream(s))
                                            : cuMemAllocAsync(&address, bytes, place.stream(s));
          const CUstream first = captures_blocking ? s.blocking : s.one;
          const char* const is = address == 7 ? "untouched" : address ? "an address" : "null";
          return listed({brief(answer), is, s.status(first), s.end(first)});
        });
      }
}

static void frees(CUstreamCaptureMode mode, bool captures_blocking) {
  for (const What& memory : all_memory)
    for (const Where& place : places) {
      Scene s(mode, captures_blocking);
      const CUdeviceptr address = memory.memory(s);
      if (!address) continue;
      ask(std::string("free ") + memory.name + " in " + place.name, [&] {
        const CUstream first = captures_blocking ? s.blocking : s.one;
        const CUresult freed = cuMemFreeAsync(address, place.stream(s));
        const std::string answer = brief(freed), is = s.status(first);
        s.is_ordinary_freed = address == s.ordinary && freed == CUDA_SUCCESS;
        const std::string ends = s.end(first) + (captures_blocking ? "" : ", " + s.end(s.two));
        if (address == s.ordinary) return listed({answer, is, ends});
        const std::string again = brief(cuMemFreeAsync(address, s.plain));
        return listed({answer, is, ends, "again at the end: " + again});
      });
    }
}

static void twice() {
  Scene s(CU_STREAM_CAPTURE_MODE_RELAXED, false);
  ask("free in the capture", [&] { return cuMemFreeAsync(s.inside, s.one); });
  ask("free twice in the capture", [&] { return listed({brief(cuMemFreeAsync(s.inside, s.one)), s.status(s.one)}); });
  ask("end", [&] { return s.end(s.one); });
}
static void plain_calls() {
  for (const auto mode : modes) {
    for (const What& memory : all_memory) {
      Scene s(mode, false);
      ask(std::string("cuMemFree of ") + memory.name + ", " + names_of_modes[mode],
          [&] { return listed({brief(cuMemFree(memory.memory(s))), s.status(s.one), s.end(s.one)}); });
    }
    Scene s(mode, false);
    ask(std::string("trim the pool, ") + names_of_modes[mode],
        [&] { return listed({brief(cuMemPoolTrimTo(pool, 0)), s.status(s.one)}); });
    ask(std::string("trim memory of graphs, ") + names_of_modes[mode],
        [&] { return listed({brief(cuDeviceGraphMemTrim(0)), s.status(s.one), s.end(s.one)}); });
  }
}

// Memory of a captured graph, after the capture: before a launch, after it, and after the graph has freed it.
static void after_the_capture() {
  for (const bool frees : {false, true}) {
    Scene s(CU_STREAM_CAPTURE_MODE_RELAXED, false);
    const std::string name = frees ? "freed by the graph: " : "kept by the graph: ";
    CUgraph graph;
    CUgraphExec instance;
    if (frees) CHECK(cuMemFreeAsync(s.inside, s.one));
    CHECK(cuStreamEndCapture(s.one, &graph));
    cuStreamEndCapture(s.two, &s.graph);
    ask(name + "free before a launch", [&] { return cuMemFreeAsync(s.inside, s.plain); });
    ask(name + "cuMemFree before a launch", [&] { return cuMemFree(s.inside); });
    CHECK(cuGraphInstantiate(&instance, graph, 0));
    ask(name + "launch", [&] { return cuGraphLaunch(instance, s.plain); });
    if (!frees)
      ask(name + "memset there", [&] {
        return listed({brief(cuMemsetD32Async(s.inside, 1, 4, s.plain)), brief(cuStreamSynchronize(s.plain))});
      });
    ask(name + "free in a capture", [&] {
      CHECK(cuStreamBeginCapture(s.one, CU_STREAM_CAPTURE_MODE_RELAXED));
      return listed({brief(cuMemFreeAsync(s.inside, s.one)), s.status(s.one), s.end(s.one)});
    });
    ask(name + "free after it", [&] { return cuMemFreeAsync(s.inside, s.plain); });
    ask(name + "free again", [&] { return cuMemFreeAsync(s.inside, s.plain); });
    ask(name + "launch again", [&] { return cuGraphLaunch(instance, s.plain); });
    ask(name + "cuMemFree", [&] { return cuMemFree(s.inside); });
    ask(name + "cuMemFree again", [&] { return cuMemFree(s.inside); });
    ask(name + "launch once more", [&] { return cuGraphLaunch(instance, s.plain); });
    ask(name + "launch when not freed", [&] { return cuGraphLaunch(instance, s.plain); });
    ask(name + "wait", [&] { return cuStreamSynchronize(s.plain); });
  }
}

int main(int argc, char** argv) {
  if (argc > 1) {
    const std::string part = argv[1];
    note_crashes(argc > 2 ? argv[2] : "");
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
    if (part == "twice") twice();
    if (part == "plain") plain_calls();
    if (part == "after") after_the_capture();
    for (const auto mode : modes)
      for (const bool is_blocking : {false, true})
        if (part == std::string(names_of_modes[mode]) + (is_blocking ? ", blocking" : ""))
          allocations(mode, is_blocking), frees(mode, is_blocking);
    return 0;
  }
  check::require_gpus(1);
  for (const char* part : {"global", "global, blocking", "thread", "thread, blocking", "relaxed", "relaxed, blocking",
                           "twice", "plain", "after"}) {
    section(part);
    run_part(part);
  }
  std::puts("OK");
}
