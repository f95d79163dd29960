// SPDX-License-Identifier: MIT-0
// What is put into streams, and waiting for it.
#pragma once
#include <cuda.h>

#include <vector>

#include "driver.h"
#include "graphs.h"
#include "operations.h"
#include "work.h"

namespace driver {

// 0, 1 and 2 too. Each throws Refused{CUDA_ERROR_INVALID_HANDLE}, and stream() if the stream has an invalid capture.
// Before a call looks at anything else these two refuse the legacy stream while one that minds it captures.
CUstream_st& find_stream(CUstream) EXCLUDES(state().lock);
CUstream_st& named_stream(CUstream) EXCLUDES(graphs().lock, state().lock);
CUstream_st& stream(CUstream) EXCLUDES(graphs().lock, state().lock);
CUstream_st& asked_stream(CUstream) EXCLUDES(graphs().lock, state().lock);  // nothing is put into: its capture is valid
std::shared_ptr<CUstream_st> create_stream(unsigned flags, int priority, CUcontext);  // throws Refused
int clamped_priority(int wanted);
bool minds_legacy(const CUstream_st&);
void forget_streams(CUcontext) EXCLUDES(state().lock, graphs().lock);  // and events, of a context that ends

// Puts an operation into a stream: it starts when those before it have ended, and `also` if given. Without `start` it
// is a mark.
Operation enqueue(CUstream_st&, Start start, const Operation& also = nullptr) EXCLUDES(state().lock, graphs().lock);

// Gives work to a stream. It waits first while the stream holds as much of that as it can. Returns null if the stream
// captures it. Throws Refused.
Operation submit(CUstream_st&, const SharedWork&) EXCLUDES(state().lock, graphs().lock);

// An operation among those that enqueue_all() puts in.
struct Step {
  SharedWork work;             // null: a mark
  std::vector<size_t> before;  // the steps that it waits for; without any it waits for what the stream has
  std::vector<std::pair<size_t, CUgraphEdgeData>> early;  // those that need only have let it begin
};
// Puts all of them into a stream, and behind them what `at_end` starts, which it returns.
Operation enqueue_all(CUstream_st&, const std::vector<Step>&, const Operation& also, Start at_end)
    EXCLUDES(state().lock, graphs().lock);

// Runs them at once, behind nothing, as a part of this operation.
void run_steps(const std::vector<Step>&, const Operation&, Start at_end) EXCLUDES(state().lock);

void wait_for(const Operation&) EXCLUDES(state().lock, graphs().lock);  // throws Refused if there has been a fault
void synchronize(CUcontext) EXCLUDES(state().lock, graphs().lock);      // waits for all its streams; throws likewise

}  // namespace driver
