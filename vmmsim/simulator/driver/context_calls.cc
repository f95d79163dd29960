// SPDX-License-Identifier: MIT-0
// Calls about contexts.
#include <algorithm>

#include "../gpu/heap.h"
#include "../memory/this_machine.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "host_functions.h"
#include "modules.h"
#include "pools.h"
#include "streams.h"

namespace driver {
namespace {

void require_context_flags(unsigned flags) {
  const bool is_schedule = (flags & CU_CTX_SCHED_MASK) <= CU_CTX_SCHED_YIELD || (flags & CU_CTX_SCHED_MASK) == 4;
  require_flags(!(flags & ~unsigned(CU_CTX_FLAGS_MASK)) && is_schedule);
}

CUcontext retain_primary(CUdevice device) {
  const CUcontext context = primary_context(device);
  require(fault() != CUDA_ERROR_DEVICE_UNAVAILABLE, CUDA_ERROR_DEVICE_UNAVAILABLE,
          "a fault ended CUDA for this process: resetting its GPUs does not bring it back, start another");
  const MutexLock held(state().lock);
  ++context->retained;
  memory::take_addresses_of_context(device);
  return context;
}

// Waits for what a context does, and takes away all that belongs to it.
void end_context(CUcontext context) {
  if (!fault()) synchronize(context);
  end_host_functions(context);
  forget_streams(context);
  forget_modules(context);
  forget_memory(context);
  const MutexLock held(state().lock);
  if (context->of_graphs) memory::free_heap(context->of_graphs);
  context->of_graphs = 0;
  context->heap->end();
  renew_heap(*context);
}

CUcontext create(unsigned flags, CUdevice device) {
  checked(device);
  require_context_flags(flags);
  const MutexLock held(state().lock);
  thread().contexts.push_back(make_context(device, false, flags));
  memory::take_addresses_of_context(device);
  return thread().contexts.back();
}

void destroy(CUcontext context) {
  require_non_null(context, "ctx");
  checked(context);
  require(!context->is_primary, CUDA_ERROR_INVALID_CONTEXT, "a primary context is released, not destroyed");
  end_context(context);
  context->retained = 0;
  if (!thread().contexts.empty() && thread().contexts.back() == context) thread().contexts.pop_back();
}

// Whether a primary context of any GPU has not ended.
bool has_primary() {
  const MutexLock held(state().lock);
  return std::any_of(state().contexts.begin(), state().contexts.end(),
                     [](const auto& known) { return known->is_primary && known->retained; });
}

void release_primary(CUdevice device, bool all) {
  const CUcontext context = primary_context(device);
  {
    const MutexLock held(state().lock);
    require(all || context->retained, CUDA_ERROR_INVALID_CONTEXT, "the primary context has not been retained");
    if (!context->retained) return;
    context->retained = all ? 0 : context->retained - 1;
    if (context->retained) return;
  }
  end_context(context);
  if (all && !has_primary()) reset_fault();  // until then each GPU still answers with the fault
}

bool is_primary(CUcontext context) {
  const MutexLock held(state().lock);
  const auto is_this = [&](const auto& known) { return known.get() == context && known->is_primary; };
  return std::any_of(state().contexts.begin(), state().contexts.end(), is_this);
}

void set_current(CUcontext context) {
  if (context && !is_primary(context)) checked(context);  // a primary one may have been released
  if (!thread().contexts.empty()) thread().contexts.pop_back();
  if (context) thread().contexts.push_back(context);
}

// Of the primary context the device and flags stay known when it has been released.
CUcontext current_or_released() {
  if (thread().contexts.empty()) current();  // refuses
  const CUcontext context = thread().contexts.back();
  return context->is_primary ? context : current();
}

void wait_for_all(CUcontext context) {
  require_not_capturing(context);
  refuse_if_unsafe_in_capture();
  synchronize(context);
}

CUcontext pop() {
  require(!thread().contexts.empty(), CUDA_ERROR_INVALID_CONTEXT, "no context is current");
  const CUcontext context = thread().contexts.back();
  thread().contexts.pop_back();
  return context;
}

size_t& limit_of(CUcontext context, CUlimit limit) REQUIRES(state().lock) {
  require(limit >= 0 && limit < CU_LIMIT_MAX, "there is no such limit");
  require(context->limits.contains(limit), CUDA_ERROR_UNSUPPORTED_LIMIT, "this GPU has no such limit");
  return context->limits[limit];
}

void set_limit(CUlimit limit, size_t value) {
  refuse_if_unsafe_in_capture();
  const CUcontext context = current();
  {
    const MutexLock held(state().lock);
    limit_of(context, limit);
  }
  require(limit < 7, CUDA_ERROR_NOT_PERMITTED, "this limit is only queried");
  require(limit != CU_LIMIT_STACK_SIZE || value <= 511 << 10, "a stack has 511 KiB at most");
  if (limit == CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
    constexpr size_t unit = 3932160, most = 10 * unit;  // of an H200's second-level cache, which has 16
    require(value <= most, "of the second-level cache 37.5 MiB at most can be set aside");
    value = (value + unit - 1) / unit * unit;
  }
  if (limit == CU_LIMIT_MALLOC_HEAP_SIZE) {
    value = memory::round_up(std::max<size_t>(value, 4 << 20), 64 << 10);
    require(heap_of(*context)->resize(value),
            "kernels have allocated from the heap: set its size before the first of them");
  }
  const MutexLock held(state().lock);
  limit_of(context, limit) = value;
}

void set_peer(CUcontext peer, bool enable) {
  const CUcontext own = current();
  checked(peer);
  require(enable || own->device != peer->device, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
          "device and peer are the same GPU");
  require(own->device != peer->device, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
          "device and peer are the same GPU, which reaches its own memory without this call");
  require(memory::machine().reaches(own->device, peer->device), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED,
          "these GPUs do not reach each other; ask cuDeviceCanAccessPeer first");
  const MutexLock held(state().lock);
  const bool is_enabled = state().peers.contains({own, peer});
  require(!enable || !is_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "it has been enabled before");
  require(enable || is_enabled, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "it has not been enabled");
  // Memory knows GPUs only: one reaches another while any context may.
  const bool is_for_others = std::ranges::any_of(state().peers, [&](const auto& enabled) {
    const auto& [from, to] = enabled;
    return std::pair(from, to) != std::pair(own, peer) && from->device == own->device && to->device == peer->device;
  });
  if (!is_for_others && enable) memory::enable_peer(own->device, peer->device);
  if (!is_for_others && !enable) memory::disable_peer(own->device, peer->device);
  if (enable) state().peers.insert({own, peer});
  else state().peers.erase({own, peer});
}

}  // namespace

}  // namespace driver

using namespace driver;

CUresult cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return call(ARGUMENTS(pctx, dev), result_to(pctx, "pctx", [&] { return retain_primary(dev); }));
}
CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  return call(ARGUMENTS(dev), [&] { release_primary(dev, false); });
}
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  return call(ARGUMENTS(dev), after_fault, [&] { release_primary(dev, true); });
}
CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  return call(ARGUMENTS(dev, flags), [&] {
    checked(dev);
    require_context_flags(flags);
    primary_context(dev)->flags = flags;
  });
}
CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return call(ARGUMENTS(dev, flags, active), after_fault, [&] {
    require_non_null(flags, "flags");
    require_non_null(active, "active");
    const CUcontext context = primary_context(dev);
    *flags = context->flags;
    *active = context->retained > 0;
  });
}

CUresult cuCtxCreate(CUcontext* pctx, CUctxCreateParams* ctxCreateParams, unsigned int flags, CUdevice dev) {
  return call(ARGUMENTS(pctx, flags, dev), [&] {
    require_non_null(pctx, "pctx");
    if (ctxCreateParams && (ctxCreateParams->execAffinityParams || ctxCreateParams->cigParams))
      refuse_not_simulated("cuCtxCreate with execution affinity or graphics");
    *pctx = create(flags, dev);
  });
}
EXPORT CUresult cuCtxCreate_v2(CUcontext* pctx, unsigned int flags, CUdevice dev) {
  return call(ARGUMENTS(pctx, flags, dev), result_to(pctx, "pctx", [&] { return create(flags, dev); }));
}
CUresult cuCtxDestroy(CUcontext ctx) {
  return call(ARGUMENTS(ctx), [&] { destroy(ctx); });
}
CUresult cuCtxPushCurrent(CUcontext ctx) {
  return call(ARGUMENTS(ctx), after_fault, [&] {
    require_non_null(ctx, "ctx");
    thread().contexts.push_back(checked(ctx));
  });
}
CUresult cuCtxPopCurrent(CUcontext* pctx) {
  return call(ARGUMENTS(pctx), after_fault, [&] {
    const CUcontext top = pop();
    if (pctx) *pctx = top;
  });
}
CUresult cuCtxSetCurrent(CUcontext ctx) {
  return call(ARGUMENTS(ctx), after_fault, [&] { set_current(ctx); });
}
CUresult cuCtxGetCurrent(CUcontext* pctx) {
  return call(ARGUMENTS(pctx), after_fault,
              result_to(pctx, "pctx", [&] { return thread().contexts.empty() ? nullptr : thread().contexts.back(); }));
}
CUresult cuCtxGetDevice(CUdevice* device) {
  return call(ARGUMENTS(device), after_fault,
              result_to(device, "device", [] { return current_or_released()->device; }));
}
EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext ctx) {
  return call(ARGUMENTS(device, ctx), after_fault,
              result_to(device, "device", [&] { return (ctx ? checked(ctx) : current_or_released())->device; }));
}
CUresult cuCtxGetId(CUcontext ctx, unsigned long long* ctxId) {
  return call(ARGUMENTS(ctx, ctxId), after_fault,
              result_to(ctxId, "ctxId", [&] { return (ctx ? checked(ctx) : current())->id; }));
}
CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int* version) {
  return call(ARGUMENTS(ctx, version), after_fault, [&] {
    require_non_null(version, "version");
    if (ctx) checked(ctx);
    *version = 3020;
  });
}
CUresult cuCtxGetFlags(unsigned int* flags) {
  return call(ARGUMENTS(flags),
              result_to(flags, "flags", [&] { return current_or_released()->flags | CU_CTX_MAP_HOST; }));
}
CUresult cuCtxSetFlags(unsigned int flags) {
  return call(ARGUMENTS(flags), [&] {
    require_context_flags(flags);
    current()->flags = flags;
  });
}
CUresult cuCtxSynchronize(void) {
  return call(ARGUMENTS(), [&] { wait_for_all(current()); });
}
EXPORT CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  return call(ARGUMENTS(ctx), [&] { wait_for_all(ctx ? checked(ctx) : current()); });
}
CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  return call(ARGUMENTS(limit, value), [&] { set_limit(limit, value); });
}
CUresult cuCtxGetLimit(size_t* pvalue, CUlimit limit) {
  return call(ARGUMENTS(pvalue, limit), [&] {
    require_non_null(pvalue, "pvalue");
    const CUcontext context = current();
    const MutexLock held(state().lock);
    *pvalue = limit_of(context, limit);
  });
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* pconfig) {
  return call(ARGUMENTS(pconfig), result_to(pconfig, "pconfig", [&] { return current()->cache.load(); }));
}
CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  return call(ARGUMENTS(config), [&] { current()->cache = config; });
}
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* pConfig) {
  return call(ARGUMENTS(pConfig), [&] {
    require_non_null(pConfig, "pConfig");
    current();
    *pConfig = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  });
}
CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  return call(ARGUMENTS(config), [&] { current(); });
}
// There is no profiler, which is no error on hardware either.
EXPORT CUresult cuProfilerStart(void) {
  return call(ARGUMENTS(), [&] { current(); });
}
EXPORT CUresult cuProfilerStop(void) {
  return call(ARGUMENTS(), [&] { current(); });
}
CUresult cuCtxResetPersistingL2Cache(void) {
  return call(ARGUMENTS(), [&] { current(); });
}
CUresult cuCtxGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return call(ARGUMENTS(leastPriority, greatestPriority), [&] {
    current();
    if (leastPriority) *leastPriority = 0;
    if (greatestPriority) *greatestPriority = -5;
  });
}
CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
  return call(ARGUMENTS(peerContext, Flags), [&] {
    require(!Flags, "Flags must be 0");
    set_peer(peerContext, true);
  });
}
CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
  return call(ARGUMENTS(peerContext), [&] { set_peer(peerContext, false); });
}
