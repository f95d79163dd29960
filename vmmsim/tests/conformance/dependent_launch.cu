// SPDX-License-Identifier: MIT-0
// Programmatic dependent launch: which kernels begin before the one before them has ended, what they read then, and
// what graphs make of it. The first kernel waits until the second has told that it runs, or until its patience is over:
// only one that begins early is seen by the first.
#include "parts.h"

#include <vector>

__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}
// Nanoseconds: long where the later kernel is expected early, so that no load of the machine changes the answer.
constexpr unsigned long long is_expected = 3'000'000'000, is_not_expected = 30'000'000;

struct Board {  // in memory of the GPU
  int began;    // the later kernel
  int seen;     // by the first kernel, before it wrote `data`
  int data;
  int before, after;  // what the later kernel read in `data`, before and behind its wait
};

enum Trigger { never, at_once, by_one_thread, by_one_block, others_exit };
__global__ void first(volatile Board* board, Trigger trigger, unsigned long long patience) {
  if (trigger == others_exit && blockIdx.x) return;
  if (trigger == at_once || trigger == others_exit || (trigger == by_one_thread && threadIdx.x == 0) ||
      (trigger == by_one_block && blockIdx.x == 0))
    cudaTriggerProgrammaticLaunchCompletion();
  if (blockIdx.x || threadIdx.x) return;
  const unsigned long long begin = now();
  while (!board->began && now() - begin < patience) __nanosleep(1000);
  board->seen = board->began;
  const unsigned long long seen = now();
  while (now() - seen < 20'000'000) __nanosleep(1000);  // who does not wait for the write reads what was there before
  board->data = 2;
  __threadfence();
}
__global__ void second(volatile Board* board, bool waits) {
  board->before = board->data;
  __threadfence();
  board->began = 1;
  if (waits) cudaGridDependencySynchronize();
  board->after = waits ? board->data : board->before;
}
__global__ void triggers_at_once() { cudaTriggerProgrammaticLaunchCompletion(); }
__global__ void waits_and_triggers() {
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
}

static cudaStream_t stream, other;
static Board* board;
static cudaEvent_t event;

template <class... Values>
static cudaError_t start(cudaStream_t in, int grid, int block, std::vector<cudaLaunchAttribute> attributes,
                         void (*kernel)(Values...), Values... values) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(block);
  config.stream = in;
  config.attrs = attributes.data();
  config.numAttrs = unsigned(attributes.size());
  return cudaLaunchKernelEx(&config, kernel, values...);
}
static cudaLaunchAttribute programmatic(int allowed = 1) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = allowed;
  return attribute;
}
static void clear() {
  CHECK(cudaMemset(board, 0, sizeof *board));
  CHECK(cudaDeviceSynchronize());
}
static std::string result() {
  Board all;
  const cudaError_t ended = cudaDeviceSynchronize();
  if (ended != cudaSuccess) return brief(CUresult(ended));
  CHECK(cudaMemcpy(&all, board, sizeof all, cudaMemcpyDeviceToHost));
  const auto of = [](int data) { return std::string(data == 2 ? "new" : "old"); };
  return std::string(all.seen ? "early" : "not early") + ", read " + of(all.before) + ", then " + of(all.after);
}
// Loads all kernels: a launch that loads one may wait for those that run.
static void load() {
  clear();
  for (const bool waits : {false, true}) {
    CHECK(cudaMemset(&board->began, 1, 4));
    first<<<1, 1, 0, stream>>>(board, never, is_not_expected);
    second<<<1, 1, 0, stream>>>(board, waits);
    triggers_at_once<<<1, 1, 0, stream>>>();
    waits_and_triggers<<<1, 1, 0, stream>>>();
    CHECK(cudaDeviceSynchronize());
  }
}

// --- Streams ---------------------------------------------------------------------------------------------------------

struct Pair {
  Trigger trigger = at_once;
  int grid = 1, block = 1, allowed = 1;
  bool waits = true;
  unsigned long long patience = is_expected;
  void (*between)() = [] {};
};
static void ask_pair(const char* what, const Pair& pair, cudaStream_t in) {
  clear();
  ask(what, [&] {
    CHECK(start(in, pair.grid, pair.block, {}, first, (volatile Board*)board, pair.trigger, pair.patience));
    pair.between();
    const cudaError_t answer =
        start(in, 1, 1, {programmatic(pair.allowed)}, second, (volatile Board*)board, pair.waits);
    return brief(CUresult(answer)) + "; " + result();
  });
}
SECTION("pairs") {
  Pair pair;
  ask_pair("triggers, waits", pair, stream);
  ask_pair("triggers, waits, in stream 0", pair, nullptr);
  pair.waits = false;
  ask_pair("triggers, does not wait", pair, stream);
  pair.allowed = 0;
  pair.patience = is_not_expected;
  ask_pair("triggers, an ordinary launch", pair, stream);
  pair = {};
  pair.trigger = never;
  pair.patience = is_not_expected;
  ask_pair("does not trigger, waits", pair, stream);
  pair.waits = false;
  ask_pair("does not trigger, does not wait", pair, stream);
  pair = {};
  pair.block = 64;
  ask_pair("64 threads trigger", pair, stream);
  pair.trigger = by_one_thread;
  ask_pair("one thread of 64 triggers", pair, stream);
  pair = {};
  pair.grid = 3;
  ask_pair("3 blocks trigger", pair, stream);
  pair.trigger = by_one_block;
  ask_pair("one block of 3 triggers, the others end", pair, stream);
  pair.trigger = others_exit;
  ask_pair("one block of 3 triggers, the others end at once", pair, stream);
  pair = {};
  pair.patience = is_not_expected;
  pair.between = [] { CHECK(cudaEventRecord(event, stream)); };
  ask_pair("an event is recorded between", pair, stream);
  pair.between = [] {
    CHECK(cudaEventRecord(event, other));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaStreamWaitEvent(stream, event, 0));
  };
  ask_pair("a wait for an event that has passed between", pair, stream);
  pair.between = [] { CHECK(cudaMemsetAsync(&board->before, 0, 4, stream)); };
  ask_pair("a memset between", pair, stream);
  pair.between = [] { CHECK(cudaLaunchHostFunc(stream, [](void*) {}, nullptr)); };
  ask_pair("a host function between", pair, stream);
  pair.between = [] { waits_and_triggers<<<1, 1, 0, stream>>>(); };
  ask_pair("an ordinary kernel between", pair, stream);
  pair.patience = is_expected;
  pair.between = [] { CHECK(start(stream, 1, 1, {programmatic()}, triggers_at_once)); };
  ask_pair("a kernel between that triggers without a wait", pair, stream);
  pair.patience = is_not_expected;
  pair.between = [] { CHECK(start(stream, 1, 1, {programmatic()}, waits_and_triggers)); };
  ask_pair("a kernel between that waits and triggers", pair, stream);
}

SECTION("behind") {  // an ordinary kernel behind one that began early and waited for nothing
  clear();
  ask("an ordinary kernel behind two", [] {
    first<<<1, 1, 0, stream>>>(board, at_once, is_not_expected);
    CHECK(start(stream, 1, 1, {programmatic()}, triggers_at_once));
    second<<<1, 1, 0, stream>>>(board, false);
    return result();
  });
  clear();
  ask("a copy behind two", [] {
    int data = 0;
    first<<<1, 1, 0, stream>>>(board, at_once, is_expected);
    CHECK(start(stream, 1, 1, {programmatic()}, second, (volatile Board*)board, false));
    CHECK(cudaMemcpyAsync(&data, &board->data, 4, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    return std::string(data == 2 ? "new" : "old");
  });
  clear();
  ask("waits behind nothing", [] {
    CHECK(start(stream, 1, 1, {programmatic()}, second, (volatile Board*)board, true));
    return result();
  });
  clear();
  ask("waits in an ordinary launch", [] {
    second<<<1, 1, 0, stream>>>(board, true);
    return result();
  });
}

// --- Attributes ------------------------------------------------------------------------------------------------------

SECTION("attributes") {
  const auto with_event = [](cudaLaunchAttributeID id, bool at_start, int flags = 0) {
    cudaLaunchAttribute attribute = {};
    attribute.id = id;
    if (id == cudaLaunchAttributeProgrammaticEvent) {
      attribute.val.programmaticEvent.event = event;
      attribute.val.programmaticEvent.flags = flags;
      attribute.val.programmaticEvent.triggerAtBlockStart = at_start;
    } else {
      attribute.val.launchCompletionEvent.event = event;
      attribute.val.launchCompletionEvent.flags = flags;
    }
    return attribute;
  };
  cudaLaunchAttribute cooperative = {};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  ask("allowed 2", [&] { return start(stream, 1, 1, {programmatic(2)}, triggers_at_once); });
  ask("twice", [&] { return start(stream, 1, 1, {programmatic(), programmatic(0)}, triggers_at_once); });
  ask("with cooperative", [&] { return start(stream, 1, 1, {programmatic(), cooperative}, triggers_at_once); });
  const auto id = cudaLaunchAttributeProgrammaticEvent, completion = cudaLaunchAttributeLaunchCompletionEvent;
  ask("a programmatic event with timing",
      [&] { return start(stream, 1, 1, {with_event(id, false)}, triggers_at_once); });
  CHECK(cudaEventDestroy(event));
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  ask("a programmatic event", [&] { return start(stream, 1, 1, {with_event(id, false)}, triggers_at_once); });
  ask("a programmatic event, flags 1",
      [&] { return start(stream, 1, 1, {with_event(id, false, 1)}, triggers_at_once); });
  ask("a completion event", [&] { return start(stream, 1, 1, {with_event(completion, false)}, triggers_at_once); });
  ask("a completion event, flags 1",
      [&] { return start(stream, 1, 1, {with_event(completion, false, 1)}, triggers_at_once); });
  CHECK(cudaDeviceSynchronize());
  for (const bool in_other : {false, true})
    for (const bool at_start : {false, true}) {
      const std::string name = std::string(at_start ? "triggered at the blocks' start" : "triggered by the kernel") +
                               (in_other ? ", another stream waits" : "");
      for (const bool allowed : {false, true}) {
        clear();
        ask(name + (allowed ? ", a dependent launch" : ""), [&] {
          const cudaError_t answer =
              start(stream, 1, 1, {with_event(id, at_start)}, first, (volatile Board*)board, at_start ? never : at_once,
                    allowed && !at_start ? is_expected : is_not_expected);
          if (answer != cudaSuccess) return brief(CUresult(answer));
          if (in_other) CHECK(cudaStreamWaitEvent(other, event, 0));
          CHECK(start(in_other ? other : stream, 1, 1, {programmatic(allowed)}, second, (volatile Board*)board, true));
          return result();
        });
      }
    }
  for (const bool in_other : {false, true}) {
    clear();
    ask(std::string("a completion event") + (in_other ? ", another stream waits" : ""), [&] {
      const cudaError_t answer = start(stream, 1, 1, {with_event(completion, false)}, first, (volatile Board*)board,
                                       never, in_other ? is_expected : is_not_expected);
      if (answer != cudaSuccess) return brief(CUresult(answer));
      if (in_other) CHECK(cudaStreamWaitEvent(other, event, 0));
      CHECK(start(in_other ? other : stream, 1, 1, {}, second, (volatile Board*)board, false));
      return result();
    });
  }
}

// --- Graphs ----------------------------------------------------------------------------------------------------------

static std::string edges_of(CUgraph graph) {
  size_t count = 0;
  CHECK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
  std::vector<CUgraphNode> from(count), to(count);
  std::vector<CUgraphEdgeData> data(count);
  if (count == 0) return "no edge";
  const CUresult answer = cuGraphGetEdges(graph, from.data(), to.data(), data.data(), &count);
  if (answer != CUDA_SUCCESS) return brief(answer);
  std::string all;
  for (const CUgraphEdgeData& each : data)
    all += std::string(all.empty() ? "" : ", ") + "port " + std::to_string(each.from_port) + " to " +
           std::to_string(each.to_port) + " type " + std::to_string(each.type);
  return all;
}
template <class... Values>
static CUgraphNode add_kernel(CUgraph graph, void (*kernel)(Values...), Values... values) {
  void* pointers[] = {&values...};
  const cudaKernelNodeParams parameters = {(void*)kernel, dim3(1), dim3(1), 0, pointers, nullptr};
  cudaGraphNode_t node;
  CHECK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &parameters));
  return node;
}
static std::string run(CUgraph graph) {
  CUgraphExec instance;
  const CUresult made = cuGraphInstantiate(&instance, graph, 0);
  if (made != CUDA_SUCCESS) return brief(made);
  clear();
  CHECK(cuGraphLaunch(instance, stream));
  return result();
}

SECTION("edges") {
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  CUgraphNode empty, memset;
  CHECK(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  const cudaMemsetParams parameters = {board, 0, 0, 4, 1, 1};
  CHECK(cudaGraphAddMemsetNode(&memset, graph, nullptr, 0, &parameters));
  for (unsigned char port = 0; port < 4; ++port)
    for (unsigned char type = 0; type < 3; ++type)
      for (unsigned char to = 0; to < 2; ++to) {
        CHECK(cuGraphCreate(&graph, 0));
        const CUgraphNode a = add_kernel(graph, first, (volatile Board*)board, port == 2 ? never : at_once,
                                         port == 1 || port == 2 ? is_expected : is_not_expected),
                          b = add_kernel(graph, second, (volatile Board*)board, true);
        const CUgraphEdgeData data = {port, to, type, {}};
        ask("port " + std::to_string(port) + " to " + std::to_string(to) + ", type " + std::to_string(type), [&] {
          const CUresult answer = cuGraphAddDependencies(graph, &a, &b, &data, 1);
          return listed({brief(answer), edges_of(graph), answer == CUDA_SUCCESS ? run(graph) : ""});
        });
      }
  const CUgraphEdgeData early = {1, 0, 1, {}}, usual = {}, odd = {1, 0, 1, {1}};
  const auto ask_edge = [&](const char* what, const auto& call) {
    CHECK(cuGraphCreate(&graph, 0));
    const CUgraphNode a = add_kernel(graph, first, (volatile Board*)board, at_once, is_expected),
                      b = add_kernel(graph, second, (volatile Board*)board, false);
    CHECK(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
    CHECK(cudaGraphAddMemsetNode(&memset, graph, nullptr, 0, &parameters));
    CUresult prepared = CUDA_SUCCESS;
    ask(what, [&] { return listed({brief(call(a, b, prepared)), brief(prepared), edges_of(graph)}); });
  };
  ask_edge("from a memset", [&](CUgraphNode, CUgraphNode b, CUresult&) {
    return cuGraphAddDependencies(graph, &memset, &b, &early, 1);
  });
  ask_edge("to a memset", [&](CUgraphNode a, CUgraphNode, CUresult&) {
    return cuGraphAddDependencies(graph, &a, &memset, &early, 1);
  });
  ask_edge("to an empty node",
           [&](CUgraphNode a, CUgraphNode, CUresult&) { return cuGraphAddDependencies(graph, &a, &empty, &early, 1); });
  ask_edge("a reserved byte",
           [&](CUgraphNode a, CUgraphNode b, CUresult&) { return cuGraphAddDependencies(graph, &a, &b, &odd, 1); });
  ask_edge("again, as usual", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    return cuGraphAddDependencies(graph, &a, &b, &usual, 1);
  });
  ask_edge("both ways", [&](CUgraphNode a, CUgraphNode b, CUresult&) {
    const CUgraphNode from[] = {a, a}, to[] = {b, b};
    const CUgraphEdgeData all[] = {usual, early};
    return cuGraphAddDependencies(graph, from, to, all, 2);
  });
  ask_edge("removed by other data", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    return cuGraphRemoveDependencies(graph, &a, &b, &usual, 1);
  });
  ask_edge("removed without data", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    return cuGraphRemoveDependencies(graph, &a, &b, nullptr, 1);
  });
  ask_edge("removed by its data", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    return cuGraphRemoveDependencies(graph, &a, &b, &early, 1);
  });
  ask_edge("asked for without room for its data", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    CUgraphNode from, to;
    size_t count = 1;
    return cuGraphGetEdges(graph, &from, &to, nullptr, &count);
  });
  ask_edge("dependencies without room for their data", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    CUgraphNode from;
    size_t count = 1;
    return cuGraphNodeGetDependencies(b, &from, nullptr, &count);
  });
  ask_edge("cloned", [&](CUgraphNode a, CUgraphNode b, CUresult& prepared) {
    prepared = cuGraphAddDependencies(graph, &a, &b, &early, 1);
    return cuGraphClone(&graph, graph);
  });
  CHECK(cuGraphCreate(&graph, 0));
  CUgraphNode a = add_kernel(graph, first, (volatile Board*)board, at_once, is_expected);
  CUgraphNode b = add_kernel(graph, second, (volatile Board*)board, false);
  ask("does not wait", [&] { return listed({brief(cuGraphAddDependencies(graph, &a, &b, &early, 1)), run(graph)}); });
}

SECTION("captured") {
  CUgraph graph;
  for (const bool waits : {false, true})
    for (const bool between : {false, true}) {
      CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
      first<<<1, 1, 0, stream>>>(board, at_once, between ? is_not_expected : is_expected);
      if (between) CHECK(cudaMemsetAsync(&board->before, 0, 4, stream));
      ask(std::string("captured") + (waits ? ", waits" : "") + (between ? ", a memset between" : ""), [&] {
        const cudaError_t answer = start(stream, 1, 1, {programmatic()}, second, (volatile Board*)board, waits);
        CHECK(cudaStreamEndCapture(stream, &graph));
        return listed({brief(CUresult(answer)), edges_of(graph), run(graph)});
      });
    }
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  ask("captured first", [&] {
    const cudaError_t answer = start(stream, 1, 1, {programmatic()}, second, (volatile Board*)board, true);
    CHECK(cudaStreamEndCapture(stream, &graph));
    return listed({brief(CUresult(answer)), edges_of(graph), run(graph)});
  });
  CUgraphNode nodes[1];
  size_t count = 1;
  CUlaunchAttributeValue value = {};
  CHECK(cuGraphGetNodes(graph, nodes, &count));
  const auto id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  ask("its attribute", [&] {
    const CUresult answer = cuGraphKernelNodeGetAttribute(nodes[0], id, &value);
    return listed({brief(answer), std::to_string(value.programmaticStreamSerializationAllowed)});
  });
  ask("set its attribute", [&] { return cuGraphKernelNodeSetAttribute(nodes[0], id, &value); });
}

static void set_up() {
  CHECK(cudaSetDevice(0));
  for (cudaStream_t* one : {&stream, &other}) CHECK(cudaStreamCreateWithFlags(one, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&board, sizeof *board));
  CHECK(cudaEventCreate(&event));
  load();
}

int main(int argc, char** argv) { return run_parts(argc, argv, set_up); }
