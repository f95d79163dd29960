// SPDX-License-Identifier: MIT-0
#include "contexts.h"

#include <algorithm>

#include "../gpu/heap.h"
#include "driver.h"

namespace driver {

void renew_heap(CUctx_st& context) {
  context.heap = std::make_shared<gpu::Heap>(context.device, context.limits[CU_LIMIT_MALLOC_HEAP_SIZE]);
}

void take_memory_of_graphs(CUctx_st& context) {
  const MutexLock held(state().lock);
  if (!context.of_graphs) context.of_graphs = memory::allocate_heap(context.device, memory::page_size);
}

CUcontext make_context(CUdevice device, bool is_primary, unsigned flags) {
  auto context = std::make_shared<CUctx_st>();
  context->device = device;
  context->is_primary = is_primary;
  context->retained = !is_primary;
  context->flags = flags;
  context->id = state().contexts.size() + 1;
  context->legacy.context = context.get();
  context->legacy.is_legacy = true;
  context->limits = {{CU_LIMIT_STACK_SIZE, 1024},
                     {CU_LIMIT_PRINTF_FIFO_SIZE, 8650752},
                     {CU_LIMIT_MALLOC_HEAP_SIZE, 8388608},
                     {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
                     {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
                     {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 11796480},
                     {CUlimit(7) /* SHMEM_SIZE */, 232448},
                     {CUlimit(8) /* CIG_ENABLED */, 0}};
  renew_heap(*context);
  state().contexts.push_back(std::move(context));
  return state().contexts.back().get();
}

CUdevice checked(CUdevice device) {
  memory::gpu_of(device);
  return device;
}

CUcontext primary_context(CUdevice device) {
  checked(device);
  const MutexLock held(state().lock);
  for (const auto& context : state().contexts)
    if (context->is_primary && context->device == device) return context.get();
  return make_context(device, true, 0);
}

CUcontext checked(CUcontext context) {
  const MutexLock held(state().lock);
  const auto is_this = [&](const auto& known) { return known.get() == context; };
  const bool is_known = std::any_of(state().contexts.begin(), state().contexts.end(), is_this);
  require(is_known, CUDA_ERROR_INVALID_CONTEXT, "this is no context");
  require(context->retained, CUDA_ERROR_CONTEXT_IS_DESTROYED,
          "the context has been destroyed, released or reset: make or retain another, and set it current");
  return context;
}

CUctx_st::SmallPieces& small_pieces_like(CUctx_st& context, unsigned flags) {
  return context.small_pieces[(flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0];
}

std::shared_ptr<gpu::Heap> heap_of(const CUctx_st& context) {
  const MutexLock held(state().lock);
  return context.heap;
}

bool has_current() { return !thread().contexts.empty(); }
int current_device() { return thread().contexts.empty() ? -1 : thread().contexts.back()->device; }

CUcontext current() {
  require(!thread().runs_host_function, CUDA_ERROR_NOT_PERMITTED, within_host_functions);
  require(!thread().contexts.empty(), CUDA_ERROR_INVALID_CONTEXT,
          "no context is current in this thread; call cuDevicePrimaryCtxRetain and cuCtxSetCurrent, or cudaSetDevice");
  return checked(thread().contexts.back());
}

}  // namespace driver
