// SPDX-License-Identifier: MIT-0
// Captures, what a capture forbids, and operations of a stream on words of memory.
#include "world.h"

namespace {
using R = Random;

Argument<CUstreamCaptureMode> mode(R& random) {
  const auto mode = choose<int>(random, {0, 1, 2}, {3, -1}, 5);
  return {CUstreamCaptureMode(mode.value), "mode " + mode.text};
}

void begin(R& random) {
  const auto stream = any_stream(random);
  CALL(cuStreamBeginCapture, stream, mode(random));
}

void begin_to_graph(R& random) {
  const auto stream = any_stream(random);
  const std::size_t index = any_of(random, world.graphs);
  Graph& graph = world.graphs[index];
  graph.kept = true;  // whatever the answer is, so that a wrong one has no more effect than it must
  const std::size_t node = any_of(random, world.nodes);
  const bool depends = random.percent(30) && world.nodes[node].handle;
  CALL(cuStreamBeginCaptureToGraph, stream, shown(graph.handle, place("graph", index)),
       shown<const CUgraphNode*>(depends ? &world.nodes[node].handle : nullptr, depends ? place("node", node) : "null"),
       shown<const CUgraphEdgeData*>(nullptr, "null"), number<std::size_t>(depends), mode(random));
}

void end(R& random) {
  const auto stream = any_stream(random);
  const std::size_t index = any_of(random, world.graphs);
  CUgraph made = nullptr;
  if (!FINE(cuStreamEndCapture, stream, shown(&made, place("graph", index)))) return;
  for (std::size_t i = 0; i < world.graphs.size(); ++i) {
    if (made && world.graphs[i].handle == made) return tell(" the same as graph %lld", (long long)i);
  }
  std::size_t nodes = 0;
  if (made && cuGraphGetNodes(made, nullptr, &nodes) == CUDA_SUCCESS) tell(" %lld", (long long)nodes);
  for (Node& node : world.nodes) {
    if (node.graph == int(index)) node.graph = -1;
  }
  world.graphs[index] = {made, false};
}

void is_capturing(R& random) {
  CUstreamCaptureStatus status = {};
  if (FINE(cuStreamIsCapturing, any_stream(random), out(status))) tell(" %lld", status);
}

void info(R& random) {
  CUstreamCaptureStatus status = {};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  std::size_t count = 0;
  if (FINE(cuStreamGetCaptureInfo, any_stream(random), out(status), out(id), out(graph), out(nodes), out(edges),
           out(count))) {
    tell(" %lld", status);
    if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE) tell(" %lld", (long long)count);
  }
}

void update_dependencies(R& random) {
  const auto stream = any_stream(random);
  const std::size_t node = any_of(random, world.nodes);
  const unsigned which = unsigned(random.below(3));
  CUstreamCaptureStatus status = {};
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  std::vector<CUgraphNode> given;
  std::string text = "none";
  if (which == 1 && world.nodes[node].handle) {
    given = {world.nodes[node].handle}, text = place("node", node);
  } else if (which == 2) {
    text = "own";
    const CUgraphEdgeData* edges = nullptr;
    if (cuStreamGetCaptureInfo(stream.value, &status, &id, &graph, &nodes, &edges, &count) == CUDA_SUCCESS && count) {
      given.assign(nodes, nodes + 1);
    }
  }
  CALL(cuStreamUpdateCaptureDependencies, stream, shown(given.data(), text),
       shown<const CUgraphEdgeData*>(nullptr, "null"), shown(given.size(), "number"),
       choose<unsigned>(random, {0, 1}, {2}, 10));
}

void exchange_mode(R& random) {
  auto wanted = mode(random);
  CUstreamCaptureMode mode = wanted.value;
  if (FINE(cuThreadExchangeStreamCaptureMode, shown(&mode, wanted.text))) tell(" %lld", mode);
}

// A capture by several streams, as programs make it.
void fork_capture(R& random) {
  const std::size_t from = any_of(random, world.streams), to = any_of(random, world.streams);
  const auto event = any_event(random);
  CALL(cuEventRecord, event, shown(world.streams[from], place("stream", from)));
  tell("; ");
  CALL(cuStreamWaitEvent, shown(world.streams[to], place("stream", to)), event, number(0u));
}

// What may be forbidden while a stream captures.
void synchronize_context(R&) { CALL(cuCtxSynchronize); }
void allocate(R& random) {
  CUdeviceptr made = 0;
  const auto size = choose<std::size_t>(random, {1, 4 * KiB, MiB}, {0});
  if (!FINE(cuMemAlloc, out(made), size)) return;
  tell("; ");
  CALL(cuMemFree, shown(made, "it"));
}
void allocate_host(R&) {
  void* made = nullptr;
  if (!FINE(cuMemAllocHost, out(made), number(4 * KiB))) return;
  tell("; ");
  CALL(cuMemFreeHost, shown(made, "it"));
}
void memset_now(R& random) { CALL(cuMemsetD8, any_memory(random), number<unsigned char>(3), number<std::size_t>(64)); }
void copy_now(R& random) {
  const auto to = steady_host(random);
  CALL(cuMemcpyDtoH, to, any_memory(random), number<std::size_t>(64));
}
void priority_range(R&) {
  int least = 0, greatest = 0;
  if (FINE(cuCtxGetStreamPriorityRange, out(least), out(greatest))) tell(" %lld", least), tell(" %lld", greatest);
}

// Words of memory: the first half of `words` is always 0, the second half all ones.
struct Wait {
  std::size_t at;
  std::uint64_t value;
  unsigned flags;
};
constexpr Wait waits[] = {{0, 0, CU_STREAM_WAIT_VALUE_GEQ},           {8, 0, CU_STREAM_WAIT_VALUE_EQ},
                          {16, 0, CU_STREAM_WAIT_VALUE_NOR},          {2 * KiB, ~0ull, CU_STREAM_WAIT_VALUE_EQ},
                          {2 * KiB + 8, 1, CU_STREAM_WAIT_VALUE_AND}, {2 * KiB + 16, ~0ull, CU_STREAM_WAIT_VALUE_GEQ}};

struct Waiting {
  Argument<CUdeviceptr> address;
  std::uint64_t value;
  Argument<unsigned> flags;
};
// A wait that is over at once. One that may be refused would be over too, whichever way a driver read it.
Waiting waiting(R& random) {
  const bool odd = random.percent(35);
  const Wait& wait = waits[random.below(odd ? 3 : std::size(waits))];
  Waiting made = {{world.words + wait.at, "words+" + std::to_string(wait.at)}, wait.value, number(wait.flags)};
  if (!odd) return made;
  switch (random.below(8)) {
    case 0: made.address.value += 2, made.address.text += "+2"; break;
    case 1: made.address.value += 1, made.address.text += "+1"; break;
    case 2: made.address.value += 4, made.address.text += "+4"; break;
    case 3: made.address = {world.hole, "hole"}; break;
    case 4: made.address = {0, "null"}; break;
    case 5: made.address = {reinterpret_cast<CUdeviceptr>(world.pageable), "pageable"}; break;
    case 6: made.flags = number(wait.flags | CU_STREAM_WAIT_VALUE_FLUSH); break;
    default: made.flags = choose<unsigned>(random, {4, 5, 8, ~0u});
  }
  return made;
}
Argument<CUdeviceptr> written_word(R& random) {
  return random.percent(50) ? any_memory(random, 8) : any_memory(random, random.percent(50) ? 4 : 1);
}
Argument<unsigned> write_flags(R& random) { return choose<unsigned>(random, {0, 1}, {2, 3, ~0u}, 10); }

void wait_32(R& random) {
  const Waiting wait = waiting(random);
  CALL(cuStreamWaitValue32, any_stream(random), wait.address, number(cuuint32_t(wait.value)), wait.flags);
}
void wait_64(R& random) {
  const Waiting wait = waiting(random);
  CALL(cuStreamWaitValue64, any_stream(random), wait.address, number(cuuint64_t(wait.value)), wait.flags);
}
void write_32(R& random) {
  const auto address = written_word(random);
  const auto flags = write_flags(random);
  CALL(cuStreamWriteValue32, any_stream(random), address, number<cuuint32_t>(7), flags);
}
void write_64(R& random) {
  const auto address = written_word(random);
  const auto flags = write_flags(random);
  CALL(cuStreamWriteValue64, any_stream(random), address, number<cuuint64_t>(7), flags);
}

CUstreamBatchMemOpParams operation(R& random, std::string& text) {
  CUstreamBatchMemOpParams made = {};
  const auto type = choose<int>(random, {1, 2, 4, 5, 6}, {3, 0, 7, 99}, 15);
  made.operation = CUstreamBatchMemOpType(type.value);
  text += "{" + type.text;
  if (type.value == 1 || type.value == 4) {
    const Waiting wait = waiting(random);
    made.waitValue.address = wait.address.value;
    made.waitValue.value64 = wait.value;
    made.waitValue.flags = wait.flags.value;
    text += " " + wait.address.text + " " + wait.flags.text;
  } else if (type.value == 2 || type.value == 5) {
    const auto address = written_word(random);
    const auto flags = write_flags(random);
    made.writeValue.address = address.value, made.writeValue.value64 = 9, made.writeValue.flags = flags.value;
    text += " " + address.text + " " + flags.text;
  } else {
    const auto flags = choose<unsigned>(random, {0, 1}, {2, 99}, 15);
    made.memoryBarrier.flags = flags.value;
    text += " " + flags.text;
  }
  text += "}";
  return made;
}

struct Operations {
  std::vector<CUstreamBatchMemOpParams> list;
  std::string text;
};
Operations operations(R& random) {
  Operations made;
  for (std::size_t left = random.percent(90) ? 1 + random.below(4) : 0; left > 0; --left) {
    made.list.push_back(operation(random, made.text));
  }
  return made;
}

void batch(R& random) {
  auto given = operations(random);
  const auto stream = any_stream(random);
  const auto count = random.percent(3) ? number(300u) : number(unsigned(given.list.size()));
  if (count.value == 300) given.list.resize(300, {});
  CALL(cuStreamBatchMemOp, stream, count, shown(given.list.data(), given.text),
       choose<unsigned>(random, {0}, {1, 2}, 10));
}

void batch_node(R& random) {
  auto given = operations(random);
  const std::size_t graph = any_of(random, world.graphs), index = any_of(random, world.nodes);
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters = {};
  parameters.ctx = random.percent(90) ? world.context : nullptr;
  parameters.count = unsigned(given.list.size());
  parameters.paramArray = given.list.data();
  parameters.flags = choose<unsigned>(random, {0}, {1}, 10).value;
  CUgraphNode made = nullptr;
  const std::string text = given.text + (parameters.ctx ? "" : " no context") + (parameters.flags ? " flag" : "");
  if (FINE(cuGraphAddBatchMemOpNode, shown(&made, place("node", index)),
           shown(world.graphs[graph].handle, place("graph", graph)), shown<const CUgraphNode*>(nullptr, "null"),
           number<std::size_t>(0), shown<const CUDA_BATCH_MEM_OP_NODE_PARAMS*>(&parameters, text))) {
    world.nodes[index] = {made, int(graph)};
  }
}
void batch_node_get(R& random) {
  const std::size_t index = any_of(random, world.nodes);
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters = {};
  if (FINE(cuGraphBatchMemOpNodeGetParams, shown(world.nodes[index].handle, place("node", index)), out(parameters))) {
    tell(" %lld", parameters.count);
  }
}
void batch_node_set(R& random) {
  auto given = operations(random);
  const std::size_t index = any_of(random, world.nodes);
  CUDA_BATCH_MEM_OP_NODE_PARAMS parameters = {world.context, unsigned(given.list.size()), given.list.data(), 0};
  CALL(cuGraphBatchMemOpNodeSetParams, shown(world.nodes[index].handle, place("node", index)),
       shown<const CUDA_BATCH_MEM_OP_NODE_PARAMS*>(&parameters, given.text));
}
}  // namespace

Makers capture_makers() {
  return {{"capture", 14, begin},        {"capture", 5, begin_to_graph}, {"capture", 14, end},
          {"capture", 6, is_capturing},  {"capture", 6, info},           {"capture", 7, update_dependencies},
          {"capture", 5, exchange_mode}, {"capture", 9, fork_capture},   {"capture", 2, synchronize_context},
          {"capture", 3, allocate},      {"capture", 2, allocate_host},  {"capture", 2, memset_now},
          {"capture", 2, copy_now},      {"capture", 1, priority_range}};
}

Makers batch_makers() {
  return {{"batch", 8, wait_32}, {"batch", 8, wait_64},    {"batch", 8, write_32},       {"batch", 8, write_64},
          {"batch", 20, batch},  {"batch", 8, batch_node}, {"batch", 3, batch_node_get}, {"batch", 4, batch_node_set}};
}
