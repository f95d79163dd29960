// SPDX-License-Identifier: MIT-0
// Operations on words of memory, one or several at once: in a stream, and as a node of a graph.
#include <algorithm>
#include <atomic>
#include <span>
#include <type_traits>

#include "../gpu/gpu.h"
#include "../memory/this_machine.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "graphs.h"
#include "streams.h"
#include "work.h"

namespace driver {
namespace {

using Word = CUstreamBatchMemOpParams;  // what is done to a word
using Words = std::vector<Word>;

bool is_wait(const Word& word) {
  return word.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || word.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}
bool is_write(const Word& word) {
  return word.operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 || word.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

template <class Bits> bool is_reached(Bits now, Bits value, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: return std::make_signed_t<Bits>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    default: return Bits(~(now | value)) != 0;
  }
}

// Does to the word what it can. Returns whether that was all: a wait may not be over yet.
template <class Bits> bool advance(CUdevice device, const Word& word, Bits value) {
  bool is_done = false;
  const auto rights = is_wait(word) ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  memory::for_each_piece(device, word.waitValue.address, sizeof value, rights, [&](const memory::Piece& piece) {
    auto& bytes = *reinterpret_cast<std::atomic<Bits>*>(piece.bytes);
    is_done = !is_wait(word) || is_reached(bytes.load(), value, word.waitValue.flags);
    if (!is_wait(word)) bytes.store(value);
  });
  return is_done;
}
bool advance(CUdevice device, const Word& word) {
  switch (word.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return advance<uint32_t>(device, word, word.waitValue.value);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return advance<uint64_t>(device, word, word.waitValue.value64);
    default: return true;  // a barrier: all is written in order
  }
}

// A stream that waits for words, one after the other, and writes those between.
struct Watch {
  CUdevice device;
  std::shared_ptr<const Words> words;
  Operation op;
  size_t next = 0;
  // Goes as far as the words let it; true once all are past, or a fault ends it.
  bool proceed() {
    try {
      while (next < words->size() && fault() == CUDA_SUCCESS && advance(device, (*words)[next])) ++next;
      if (next < words->size() && fault() == CUDA_SUCCESS) return false;
    } catch (const memory::Refused& refused) {
      set_fault({CUDA_ERROR_ILLEGAL_ADDRESS, "cuStreamWaitValue: " + refused.reason, "", refused.address});
    }
    ended(op);
    return true;
  }
};

size_t size_of(const Word& word) {
  return word.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || word.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64 ? 8 : 4;
}

void require_address(CUdevice device, const Word& word) {
  const uint64_t address = word.waitValue.address;
  const auto range = memory::find(address);
  require(range.has_value(), "addr is not memory of a GPU or of cuMemHostAlloc");
  require(range->kind != memory::Range::multicast_range,
          "a multicast object is mapped at addr: only multimem instructions go there");
  require(range->kind != memory::Range::managed, "addr is managed memory");
  const auto rights = is_wait(word) ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  memory::for_each_piece(device, address, size_of(word), rights, [](const memory::Piece&) {});
}

// Looks at all but the address: the driver looks that up only for what goes into a stream, not for a node.
void require_word(const Word& word) {
  constexpr unsigned flush = CU_STREAM_WAIT_VALUE_FLUSH;
  require_flags(!is_wait(word) || !(word.waitValue.flags & ~(flush | CU_STREAM_WAIT_VALUE_NOR)));
  require(word.operation != CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES && !(is_wait(word) && word.waitValue.flags & flush),
          CUDA_ERROR_NOT_SUPPORTED, "GPUs do not flush remote writes");
  if (is_write(word)) {
    require(!word.writeValue.flags, "flags must be 0: CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER is for other GPUs");
  } else if (!is_wait(word)) {
    require(word.operation == CU_STREAM_MEM_OP_BARRIER, "operation is no wait, write or barrier");
    require_flags(word.memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU);
    return;
  }
  require(word.waitValue.address % size_of(word) == 0, "addr is not aligned to the word");
}

void put_words(CUstream stream_handle, Word* words, unsigned count, unsigned flags) {
  CUstream_st& stream = driver::stream(stream_handle);
  const SharedWork work = words_work({stream.context, count, words, flags});
  if (!is_capturing(stream)) {
    for (const Word& word : std::span(work->given.memOp.paramArray, count))
      if (is_wait(word) || is_write(word)) require_address(stream.context->device, word);
  }
  submit(stream, work);
}

// A wait or a write, which have the same members.
void put_word(CUstream stream_handle, CUstreamBatchMemOpType type, CUdeviceptr address, cuuint64_t value,
              unsigned flags) {
  Word word = {};
  word.waitValue.operation = type;
  word.waitValue.address = address;
  word.waitValue.value64 = value;
  word.waitValue.flags = flags;
  put_words(stream_handle, &word, 1, 0);
}

CUgraphNodeParams node_of(const CUDA_BATCH_MEM_OP_NODE_PARAMS* given) {
  require_non_null(given, "nodeParams");
  CUgraphNodeParams all = {};
  all.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  all.memOp = {given->ctx, given->count, given->paramArray, given->flags};
  return all;
}

}  // namespace

SharedWork words_work(const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& given) {
  constexpr unsigned most = 255;
  require_non_null(given.ctx, "ctx");
  require_no_flags(given.flags);
  if (given.count && !given.paramArray) log_crash("paramArray is null");
  if (given.count) require_non_null(given.paramArray, "paramArray");
  require(given.count <= most, "count is at most 255");
  const CUdevice device = checked(given.ctx)->device;
  const auto words = std::make_shared<Words>(given.paramArray, given.paramArray + given.count);
  for (const Word& word : *words) require_word(word);
  const auto work = task_work(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, given.ctx, [device, words] {
    for (const Word& word : *words) advance(device, word);
  });
  work->given.memOp = given;
  work->given.memOp.paramArray = words->data();
  if (std::any_of(words->begin(), words->end(), is_wait)) {
    work->start = [device, words](const Work&, const Operation& op) {
      gpu::poll([watch = Watch{device, words, op}]() mutable {
        memory::note_work(true);
        const bool is_through = watch.proceed();
        memory::note_work(false);
        return is_through;
      });
    };
  }
  return work;
}

}  // namespace driver

using namespace driver;

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags),
              [&] { put_word(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, addr, value, flags); });
}
CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags),
              [&] { put_word(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, addr, value, flags); });
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), in_host_function,
              [&] { put_word(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, addr, value, flags); });
}
CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  return call(ARGUMENTS(stream, addr, value, flags), in_host_function,
              [&] { put_word(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, addr, value, flags); });
}
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                            unsigned int flags) {
  return call(ARGUMENTS(stream, count, paramArray, flags), [&] { put_words(stream, paramArray, count, flags); });
}
CUresult cuGraphAddBatchMemOpNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams), [&] {
    CUgraphNodeParams all = node_of(nodeParams);
    return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, nullptr, numDependencies, &all);
  });
}
CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode, CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams_out) {
  return call(ARGUMENTS(hNode, nodeParams_out), [&] {
    require_non_null(nodeParams_out, "nodeParams_out");
    const SharedWork work = work_at(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    const CUDA_BATCH_MEM_OP_NODE_PARAMS_v2& given = work->given.memOp;
    *nodeParams_out = {given.ctx, given.count, given.paramArray, given.flags};
  });
}
CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] {
    CUgraphNodeParams all = node_of(nodeParams);
    return cuGraphNodeSetParams(hNode, &all);
  });
}
CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hGraphExec, hNode, nodeParams), [&] {
    CUgraphNodeParams all = node_of(nodeParams);
    return cuGraphExecNodeSetParams(hGraphExec, hNode, &all);
  });
}
