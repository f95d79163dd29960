// SPDX-License-Identifier: MIT-0
// Several operations on words of memory in one call, in a stream and as a node of a graph. Without an array, and with a
// count that is not 0, the driver crashes.
#include "places.h"

#include <vector>

using Operation = CUstreamBatchMemOpParams;
using Operations = std::vector<Operation>;

static CUdeviceptr words;
static CUcontext context;

static Operation wait_word(int bits, size_t at, uint64_t value, unsigned flags = CU_STREAM_WAIT_VALUE_GEQ) {
  Operation made = {};
  made.waitValue.operation = bits == 32 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
  made.waitValue.address = words + at;
  made.waitValue.value64 = value;
  made.waitValue.flags = flags;
  return made;
}
static Operation put_word(int bits, size_t at, uint64_t value, unsigned flags = 0) {
  Operation made = {};
  made.writeValue.operation = bits == 32 ? CU_STREAM_MEM_OP_WRITE_VALUE_32 : CU_STREAM_MEM_OP_WRITE_VALUE_64;
  made.writeValue.address = words + at;
  made.writeValue.value64 = value;
  made.writeValue.flags = flags;
  return made;
}
static Operation other(int type, unsigned flags = 0) {
  Operation made = {};
  made.memoryBarrier.operation = CUstreamBatchMemOpType(type);
  made.memoryBarrier.flags = flags;
  return made;
}
static Operation at(CUdeviceptr address, Operation made) {
  made.waitValue.address = address;
  return made;
}

static void set_up() {
  begin();
  CHECK(cuCtxGetCurrent(&context));
  CHECK(cuMemAlloc(&words, 4096));
  CHECK(cuMemsetD8(words, 0, 4096));
  CHECK(cuCtxSynchronize());
}
static std::string value_at(size_t where) {
  uint64_t value = 0;
  CHECK(cuMemcpyDtoH(&value, words + where, 8));
  return std::to_string(value);
}

struct Asked {
  const char* what;
  Operations operations;
};
static std::vector<Asked> asks() {
  static char pageable[4096];
  void* pinned;
  CUdeviceptr managed, hole = reserve(2 * MiB);
  CHECK(cuMemAllocHost(&pinned, 4096));
  CHECK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
  return {{"write 32", {put_word(32, 0, 1)}},
          {"write 64", {put_word(64, 8, 2)}},
          {"write, then wait for it", {put_word(32, 16, 3), wait_word(32, 16, 3, CU_STREAM_WAIT_VALUE_EQ)}},
          {"wait, then write", {wait_word(64, 24, 0), put_word(64, 24, 4)}},
          {"write 32, value of 64 bits", {put_word(32, 32, 0x100000005)}},
          {"write without a barrier", {put_word(32, 40, 6, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER)}},
          {"write, flags 2", {put_word(32, 40, 7, 2)}},
          {"wait, flags 4", {wait_word(32, 0, 0, 4)}},
          {"wait for nor", {wait_word(32, 0, 0, CU_STREAM_WAIT_VALUE_NOR)}},
          {"wait with a flush", {wait_word(32, 0, 0, CU_STREAM_WAIT_VALUE_FLUSH)}},
          {"a good one, then a bad one", {put_word(32, 48, 8), put_word(32, 49, 8)}},
          {"a bad one, then a good one", {put_word(32, 49, 8), put_word(32, 48, 9)}},
          {"write 64, at 4", {put_word(64, 52, 8)}},
          {"write 32, at 2", {put_word(32, 50, 8)}},
          {"wait 64, at 4", {wait_word(64, 4, 0)}},
          {"write to pinned memory", {at(CUdeviceptr(pinned), put_word(32, 0, 1))}},
          {"write to managed memory", {at(managed, put_word(32, 0, 1))}},
          {"write to pageable memory", {at(CUdeviceptr(pageable), put_word(32, 0, 1))}},
          {"write where nothing is mapped", {at(hole, put_word(32, 0, 1))}},
          {"write to null", {at(0, put_word(32, 0, 1))}},
          {"wait at null", {at(0, wait_word(32, 0, 0))}},
          {"wait at pageable memory", {at(CUdeviceptr(pageable), wait_word(32, 0, 0))}},
          {"barrier", {other(CU_STREAM_MEM_OP_BARRIER)}},
          {"barrier of the GPU", {other(CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEMORY_BARRIER_TYPE_GPU)}},
          {"barrier, flags 2", {other(CU_STREAM_MEM_OP_BARRIER, 2)}},
          {"flush", {other(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)}},
          {"flush, flags 1", {other(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 1)}},
          {"write, then flush", {put_word(32, 48, 9), other(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)}},
          {"write, then barrier", {put_word(32, 56, 10), other(CU_STREAM_MEM_OP_BARRIER)}},
          {"type 0", {other(0)}},
          {"type 7", {other(7)}},
          {"none", {}},
          {"256", Operations(256, put_word(32, 64, 11))},
          {"257", Operations(257, put_word(32, 72, 12))},
          {"1000", Operations(1000, put_word(32, 80, 13))}};
}

SECTION("in a stream") {
  set_up();
  for (Asked& each : asks()) {
    say(each.what, cuStreamBatchMemOp(a_stream, unsigned(each.operations.size()), each.operations.data(), 0));
  }
  CHECK(cuStreamSynchronize(a_stream));
  for (size_t where = 0; where < 88; where += 8) say("at " + std::to_string(where), value_at(where));
  Operation good = put_word(32, 0, 20);
  say("flags 1", cuStreamBatchMemOp(a_stream, 1, &good, 1));
}

SECTION("captured") {
  set_up();
  for (Asked& each : asks()) {
    CUgraph graph = nullptr;
    CUgraphNode nodes[8];
    CUgraphNodeType type = {};
    size_t count = 8;
    CHECK(cuStreamBeginCapture(a_stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    const CUresult result = cuStreamBatchMemOp(a_stream, unsigned(each.operations.size()), each.operations.data(), 0);
    const CUresult end = cuStreamEndCapture(a_stream, &graph);
    std::string text = plain(result) + ", end " + plain(end);
    if (!end) {
      CHECK(cuGraphGetNodes(graph, nodes, &count));
      text += ", nodes " + std::to_string(count);
      if (count) CHECK(cuGraphNodeGetType(nodes[0], &type));
      if (count) text += ", type " + std::to_string(type);
    }
    say(each.what, text);
  }
}

static CUresult add(CUgraphNode* node, CUgraph graph, Operations& given, CUcontext in, unsigned flags = 0) {
  const CUDA_BATCH_MEM_OP_NODE_PARAMS parameters = {in, unsigned(given.size()), given.data(), flags};
  return cuGraphAddBatchMemOpNode(node, graph, nullptr, 0, &parameters);
}
SECTION("nodes") {
  set_up();
  CUgraph graph;
  CUgraphNode node = nullptr, empty;
  CUgraphExec exec;
  for (Asked& each : asks()) {
    CHECK(cuGraphCreate(&graph, 0));
    const CUresult result = add(&node, graph, each.operations, context);
    say(each.what, plain(result) + (result ? "" : ", instantiate " + plain(cuGraphInstantiate(&exec, graph, 0))));
  }
  CHECK(cuGraphCreate(&graph, 0));
  Operations good = {put_word(32, 0, 30), put_word(64, 8, 31)}, one = {put_word(32, 0, 32)},
             bad = {put_word(32, 1, 33)};
  say("no context", add(&node, graph, good, nullptr));
  say("flags 1", add(&node, graph, good, context, 1));
  say("add", add(&node, graph, good, context));
  CHECK(cuGraphAddEmptyNode(&empty, graph, nullptr, 0));
  CUgraphNodeType type = {};
  CUresult result = cuGraphNodeGetType(node, &type);
  say("type", with(result, type));
  CUDA_BATCH_MEM_OP_NODE_PARAMS got = {};
  result = cuGraphBatchMemOpNodeGetParams(node, &got);
  say("get", with(result, got.count));
  say("its context", std::to_string(got.ctx == context) + ", flags " + std::to_string(got.flags));
  if (!result && got.count == 2) say("its first value", std::to_string(got.paramArray[0].writeValue.value));
  say("get of an empty node", cuGraphBatchMemOpNodeGetParams(empty, &got));
  say("instantiate", cuGraphInstantiate(&exec, graph, 0));
  const auto parameters = [](Operations& given) {
    return CUDA_BATCH_MEM_OP_NODE_PARAMS{context, unsigned(given.size()), given.data(), 0};
  };
  const CUDA_BATCH_MEM_OP_NODE_PARAMS fewer = parameters(one), wrong = parameters(bad), same = parameters(good);
  say("launch", cuGraphLaunch(exec, a_stream));
  CHECK(cuStreamSynchronize(a_stream));
  say("at 0, 8", value_at(0) + ", " + value_at(8));
  say("set the exec's, same count", cuGraphExecBatchMemOpNodeSetParams(exec, node, &same));
  say("set the exec's, fewer", cuGraphExecBatchMemOpNodeSetParams(exec, node, &fewer));
  say("set the exec's, bad", cuGraphExecBatchMemOpNodeSetParams(exec, node, &wrong));
  say("set the exec's, empty node", cuGraphExecBatchMemOpNodeSetParams(exec, empty, &same));
  say("set, bad", cuGraphBatchMemOpNodeSetParams(node, &wrong));
  say("set, empty node", cuGraphBatchMemOpNodeSetParams(empty, &same));
  say("set, fewer", cuGraphBatchMemOpNodeSetParams(node, &fewer));
  CUgraphExecUpdateResultInfo info = {};
  result = cuGraphExecUpdate(exec, graph, &info);
  say("update", plain(result) + ", " + std::to_string(info.result));
  say("disable", cuGraphNodeSetEnabled(exec, node, 0));
  say("launch", cuGraphLaunch(exec, a_stream));
  CHECK(cuStreamSynchronize(a_stream));
  say("at 0, 8", value_at(0) + ", " + value_at(8));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
