// SPDX-License-Identifier: MIT-0
// Stream capture: where and when it can begin and end, what other threads may call meanwhile, what may be done with a
// graph that a stream captures into, and what a capture's dependencies may be set to.
// A second capture into the same graph is not asked for: the driver crashed when it ended.
#include "parts.h"

#include <thread>
#include <vector>

static CUdeviceptr words;
static CUstream one, branch, plain, blocking, per_thread = CU_STREAM_PER_THREAD, legacy = nullptr;
static CUevent event;
static CUgraph small;
static CUcontext context;
static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                            CU_STREAM_CAPTURE_MODE_RELAXED};
static const char* const names_of_modes[] = {"global", "thread", "relaxed"};

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
  CHECK(cuGraphDestroy(graph));
  return std::to_string(nodes) + " nodes";
}
static void begin(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED) {
  CHECK(cuStreamBeginCapture(stream, mode));
  CHECK(cuMemsetD32Async(words, 1, 4, stream));
}
static void fork_it(CUstream from, CUstream to) {
  CHECK(cuEventRecord(event, from));
  CHECK(cuStreamWaitEvent(to, event, 0));
}
static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuCtxGetCurrent(&context));
  CHECK(cuMemAlloc(&words, 1024));
  for (CUstream* each : {&one, &branch, &plain}) CHECK(cuStreamCreate(each, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&blocking, 0));
  CHECK(cuEventCreate(&event, 0));
  begin(one);
  CHECK(cuStreamEndCapture(one, &small));
}

struct Named {
  const char* name;
  CUstream* stream;
};
static const Named streams[] = {{"stream 0", &legacy},   {"the thread's", &per_thread}, {"a capturing one", &one},
                                {"its branch", &branch}, {"another", &plain},           {"a blocking one", &blocking}};

// --- Begin and end ---------------------------------------------------------------------------------------------------

SECTION("begins") {
  for (const bool is_invalid : {false, true})
    for (const Named& each : streams)
      for (int mode = -1; mode <= 3; ++mode) {
        begin(one);
        fork_it(one, branch);
        if (is_invalid) cuStreamSynchronize(one);
        ask(std::string("begin in ") + each.name + ", mode " + std::to_string(mode) + (is_invalid ? ", invalid" : ""),
            [&] {
              return listed({brief(cuStreamBeginCapture(*each.stream, CUstreamCaptureMode(mode))), status(one),
                             status(*each.stream), end(*each.stream), end(one)});
            });
      }
  for (const Named& each : streams) {
    begin(blocking);
    ask(std::string("while a blocking one captures, begin in ") + each.name, [&] {
      return listed({brief(cuStreamBeginCapture(*each.stream, CU_STREAM_CAPTURE_MODE_RELAXED)), status(blocking),
                     end(*each.stream), end(blocking)});
    });
    cuStreamEndCapture(blocking, &small);
  }
}

SECTION("ends") {
  for (const auto mode : modes)
    for (const bool is_elsewhere : {false, true})
      for (const Named& each : streams) {
        begin(one, mode);
        fork_it(one, branch);
        ask(std::string("end in ") + each.name + ", " + names_of_modes[mode] + (is_elsewhere ? ", another thread" : ""),
            [&] {
              std::string answer;
              const auto call = [&] { CHECK(cuCtxSetCurrent(context)), answer = end(*each.stream); };
              is_elsewhere ? std::thread(call).join() : call();
              return listed({answer, status(one), status(branch), end(one)});
            });
      }
  begin(one);
  fork_it(one, branch);
  ask("end twice", [&] { return listed({end(one), end(one)}); });
  begin(one);
  ask("end without a place for the graph",
      [&] { return listed({brief(cuStreamEndCapture(one, nullptr)), status(one)}); });
  begin(one);
  cuStreamSynchronize(one);
  ask("end an invalid one without a place",
      [&] { return listed({brief(cuStreamEndCapture(one, nullptr)), status(one)}); });
  ask("end without a capture or a place", [&] { return cuStreamEndCapture(one, nullptr); });
}

// --- Threads ---------------------------------------------------------------------------------------------------------

SECTION("threads") {
  static CUdeviceptr more;
  static CUgraphExec instance;
  static CUstream made;
  static const struct {
    const char* name;
    CUresult (*call)();
  } calls[] = {{"allocate", [] { return cuMemAlloc(&more, 4); }},
               {"allocate in another stream", [] { return cuMemAllocAsync(&more, 4, plain); }},
               {"create a stream", [] { return cuStreamCreate(&made, CU_STREAM_NON_BLOCKING); }},
               {"wait for another stream", [] { return cuStreamSynchronize(plain); }},
               {"ask another stream", [] { return cuStreamQuery(plain); }},
               {"wait for all", [] { return cuCtxSynchronize(); }},
               {"wait for the capturing one", [] { return cuStreamSynchronize(one); }},
               {"memset in the capturing one", [] { return cuMemsetD32Async(words, 1, 4, one); }},
               {"memset", [] { return cuMemsetD32(words, 1, 4); }},
               {"record in the capturing one", [] { return cuEventRecord(event, one); }},
               {"instantiate", [] { return cuGraphInstantiate(&instance, small, 0); }}};
  for (const auto mode : modes)
    for (const auto own : modes)
      for (const bool is_elsewhere : {false, true})
        for (const auto& each : calls) {
          begin(one, mode);
          ask(std::string(each.name) + ": captured " + names_of_modes[mode] + ", called " + names_of_modes[own] +
                  (is_elsewhere ? ", another thread" : ""),
              [&] {
                CUresult answer;
                const auto call = [&] {
                  CHECK(cuCtxSetCurrent(context));
                  CUstreamCaptureMode set = own;
                  CHECK(cuThreadExchangeStreamCaptureMode(&set));
                  answer = each.call();
                  CHECK(cuThreadExchangeStreamCaptureMode(&set));
                };
                is_elsewhere ? std::thread(call).join() : call();
                return listed({brief(answer), status(one), end(one)});
              });
          cuStreamEndCapture(one, &small);
          if (!small) begin(one), cuStreamEndCapture(one, &small);
        }
}

// --- Into a graph ----------------------------------------------------------------------------------------------------

static CUgraphNode first, second, foreign;
static CUgraph graph, other;
static void make_graphs() {
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphCreate(&other, 0));
  CHECK(cuGraphAddEmptyNode(&first, graph, nullptr, 0));
  CHECK(cuGraphAddEmptyNode(&second, graph, &first, 1));
  CHECK(cuGraphAddEmptyNode(&foreign, other, nullptr, 0));
}
static CUresult begin_to(CUgraph to, const std::vector<CUgraphNode>& after, const CUgraphEdgeData* edges = nullptr) {
  return cuStreamBeginCaptureToGraph(one, to, after.empty() ? nullptr : after.data(), edges, after.size(),
                                     CU_STREAM_CAPTURE_MODE_RELAXED);
}
// How many nodes are there, and is the first two's dependency?
static std::string shape(CUgraph of) {
  size_t nodes = 0, edges = 0;
  if (cuGraphGetNodes(of, nullptr, &nodes) != CUDA_SUCCESS) return "gone";
  CHECK(cuGraphGetEdges(of, nullptr, nullptr, nullptr, &edges));
  return std::to_string(nodes) + " nodes, " + std::to_string(edges) + " edges";
}

SECTION("into graphs") {
  const CUgraphEdgeData programmatic = {
      CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  static CUgraph out, copy;
  static CUgraphExec instance;
  static CUgraphNode added;
  const auto ask_begin = [&](const char* what, const auto& call) {
    make_graphs();
    ask(what, [&] {
      const CUresult answer = call();
      if (answer == CUDA_SUCCESS) cuMemsetD32Async(words, 1, 4, one);
      out = nullptr;
      const std::string is = status(one), ended = brief(cuStreamEndCapture(one, &out));
      return listed({brief(answer), is, ended, out == graph ? "the same graph" : "no graph", shape(graph)});
    });
  };
  ask_begin("begin into a graph", [] { return begin_to(graph, {}); });
  ask_begin("begin behind a node", [] { return begin_to(graph, {first}); });
  ask_begin("begin behind two", [] { return begin_to(graph, {first, second}); });
  ask_begin("begin behind one twice", [] { return begin_to(graph, {first, first}); });
  ask_begin("begin behind another graph's", [] { return begin_to(graph, {foreign}); });
  ask_begin("begin behind null", [] { return begin_to(graph, {nullptr}); });
  ask_begin("begin with a count alone", [] {
    return cuStreamBeginCaptureToGraph(one, graph, nullptr, nullptr, 1, CU_STREAM_CAPTURE_MODE_RELAXED);
  });
  ask_begin("begin into null", [] { return begin_to(nullptr, {}); });
  ask_begin("begin with a programmatic edge", [&] { return begin_to(graph, {first}, &programmatic); });
  const struct {
    const char* name;
    CUresult (*call)();
  } meanwhile[] = {
      {"destroy the graph", [] { return cuGraphDestroy(graph); }},
      {"destroy a node", [] { return cuGraphDestroyNode(second); }},
      {"add a node", [] { return cuGraphAddEmptyNode(&added, graph, &first, 1); }},
      {"add a dependency",
       [] {
         return cuGraphAddEmptyNode(&added, graph, nullptr, 0),
                cuGraphAddDependencies(graph, &first, &added, nullptr, 1);
       }},
      {"remove a dependency", [] { return cuGraphRemoveDependencies(graph, &first, &second, nullptr, 1); }},
      {"clone it", [] { return cuGraphClone(&copy, graph); }},
      {"make it a child", [] { return cuGraphAddChildGraphNode(&added, other, nullptr, 0, graph); }},
      {"instantiate it", [] { return cuGraphInstantiate(&instance, graph, 0); }}};
  for (const auto& each : meanwhile)
    ask_begin((std::string("meanwhile ") + each.name).c_str(),
              [&] { return CHECK(begin_to(graph, {first})), each.call(); });
}

// --- Dependencies ----------------------------------------------------------------------------------------------------

SECTION("dependencies") {
  const CUgraphEdgeData programmatic = {
      CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, 0, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, {}};
  const auto ask_update = [&](const char* what, std::vector<CUgraphNode> nodes, unsigned flags, CUstream in = nullptr,
                              const CUgraphEdgeData* edges = nullptr) {
    make_graphs();
    for (CUgraphNode& each : nodes)
      each = each == CUgraphNode(1) ? first : each == CUgraphNode(2) ? second : each == CUgraphNode(3) ? foreign : each;
    CHECK(begin_to(graph, {second}));
    ask(what, [&] {
      const CUresult answer = cuStreamUpdateCaptureDependencies(in ? in : one, nodes.empty() ? nullptr : nodes.data(),
                                                                edges, nodes.size(), flags);
      size_t count = 99;
      CUstreamCaptureStatus is;
      const CUresult info = cuStreamGetCaptureInfo(one, &is, nullptr, nullptr, nullptr, nullptr, &count);
      const std::string before = std::to_string(count) + " before the next";
      return brief(answer) + "; " + brief(info) + ", " + before + "; " + brief(cuStreamEndCapture(one, &graph));
    });
  };
  const CUgraphNode a = CUgraphNode(1), b = CUgraphNode(2), c = CUgraphNode(3);
  ask_update("add one", {a}, 0);
  ask_update("add the same", {b}, 0);
  ask_update("add one twice", {a, a}, 0);
  ask_update("add none", {}, 0);
  ask_update("set one", {a}, 1);
  ask_update("set one twice", {a, a}, 1);
  ask_update("set none", {}, 1);
  ask_update("flags 2", {a}, 2);
  ask_update("add another graph's", {c}, 0);
  ask_update("set another graph's", {c}, 1);
  ask_update("add null", {nullptr}, 0);
  ask_update("add by a programmatic edge", {a}, 0, nullptr, &programmatic);
  ask_update("in a stream that does not capture", {a}, 0, plain);
  ask_update("in stream 0", {a}, 0, CU_STREAM_LEGACY);
  CUstreamCaptureStatus is;
  cuuint64_t id;
  for (const Named& each : streams) {
    begin(one);
    fork_it(one, branch);
    ask(std::string("ask for nothing but the status of ") + each.name, [&] {
      const CUresult answer = cuStreamGetCaptureInfo(*each.stream, &is, &id, nullptr, nullptr, nullptr, nullptr);
      return brief(answer) + ", " + std::to_string(is);
    });
    ask(std::string("ask for no status of ") + each.name,
        [&] { return cuStreamGetCaptureInfo(*each.stream, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr); });
    CHECK(cuStreamEndCapture(one, &graph));
  }
  begin(one);
  cuStreamSynchronize(one);
  ask("ask an invalid one", [&] {
    CUgraph seen = reinterpret_cast<CUgraph>(1);
    const CUresult answer = cuStreamGetCaptureInfo(one, &is, &id, &seen, nullptr, nullptr, nullptr);
    return brief(answer) + ", " + std::to_string(is) +
           (seen == reinterpret_cast<CUgraph>(1) ? ", no graph" : ", a graph");
  });
  ask("update an invalid one", [&] { return cuStreamUpdateCaptureDependencies(one, nullptr, nullptr, 0, 0); });
  cuStreamEndCapture(one, &graph);
}

int main(int argc, char** argv) { return run_parts(argc, argv, set_up); }
