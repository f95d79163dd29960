// SPDX-License-Identifier: MIT-0
// Contexts: the primary one of each GPU and others, and which of them is a thread's current one.
#pragma once
#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>

#include "driver.h"
#include "operations.h"

namespace gpu {
class Heap;
}

struct CUctx_st {
  CUdevice device;
  bool is_primary = false;
  std::atomic<int> retained = 0;  // a context that is not primary has 1 until it is destroyed
  std::atomic<unsigned> flags = 0;
  unsigned long long id = 0;
  std::atomic<CUfunc_cache> cache = CU_FUNC_CACHE_PREFER_NONE;
  std::map<CUlimit, size_t> limits GUARDED_BY(driver::state().lock);
  std::shared_ptr<gpu::Heap> heap GUARDED_BY(driver::state().lock);  // of the size that the limits say
  // Pieces of host memory of less than a page come from one block, which is as portable as the first of them asked for;
  // those that are write-combined from another.
  struct SmallPieces {
    unsigned count = 0, portable = 0;
  } small_pieces[2] GUARDED_BY(driver::state().lock) = {};
  uint64_t of_graphs GUARDED_BY(driver::state().lock) = 0;  // memory that executable graphs have once there was one
  CUstream_st legacy;                                       // the stream called 0
};

namespace driver {

CUdevice checked(CUdevice);  // throws Refused{CUDA_ERROR_INVALID_DEVICE}
bool has_current();          // a context, which may have ended
CUcontext current()
    EXCLUDES(state().lock);  // of this thread; throws Refused{CUDA_ERROR_INVALID_CONTEXT or _CONTEXT_IS_DESTROYED}
CUcontext checked(CUcontext) EXCLUDES(state().lock);  // throws likewise
int current_device();                                 // of this thread; -1: no context is current

CUcontext primary_context(CUdevice) EXCLUDES(state().lock);  // it may have been released
CUcontext make_context(CUdevice, bool is_primary, unsigned flags) REQUIRES(state().lock);
void renew_heap(CUctx_st&) REQUIRES(state().lock);
void take_memory_of_graphs(CUctx_st&) EXCLUDES(state().lock);  // with the first executable graph, as on an H100
CUctx_st::SmallPieces& small_pieces_like(CUctx_st&, unsigned flags) REQUIRES(state().lock);
std::shared_ptr<gpu::Heap> heap_of(const CUctx_st&) EXCLUDES(state().lock);

}  // namespace driver
