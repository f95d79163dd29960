// SPDX-License-Identifier: MIT-0
// Calls about streams, and those that put a function of the program into one.
#include "../gpu/gpu.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "host_functions.h"
#include "streams.h"

namespace driver {
namespace {

void destroy(CUstream handle) {
  require(handle != nullptr && handle != CU_STREAM_LEGACY && handle != CU_STREAM_PER_THREAD, CUDA_ERROR_INVALID_HANDLE,
          "the default streams are not destroyed");
  CUstream_st& stream = find_stream(handle);
  leave_capture(stream);
  stream.destroyed = true;
}

void get_attribute(const CUstream_st& stream, CUstreamAttrID attribute, CUstreamAttrValue& to) {
  const StreamAttributes& all = stream.attributes;
  const MutexLock held(state().lock);
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: to.accessPolicyWindow = all.window; break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: to.syncPolicy = all.policy; break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: to.priority = stream.priority; break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP: to.memSyncDomainMap = all.domains; break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: to.memSyncDomain = all.domain; break;
    default: refuse("streams have no such attribute");
  }
}

void set_attribute(CUstream_st& stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
  constexpr size_t most_bytes = 128 << 20;
  StreamAttributes& all = stream.attributes;
  const CUaccessPolicyWindow& window = value.accessPolicyWindow;
  const CUlaunchMemSyncDomainMap& domains = value.memSyncDomainMap;
  const MutexLock held(state().lock);
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      require(window.hitRatio >= 0 && window.hitRatio <= 1, "hitRatio is from 0 to 1");
      require(window.num_bytes <= most_bytes, "num_bytes is at most CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE");
      require(window.missProp != CU_ACCESS_PROPERTY_PERSISTING, "missProp cannot be CU_ACCESS_PROPERTY_PERSISTING");
      all.window = window;
      break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      require(value.syncPolicy >= CU_SYNC_POLICY_AUTO && value.syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC,
              "a policy is from CU_SYNC_POLICY_AUTO to _BLOCKING_SYNC, 1 to 4");
      all.policy = value.syncPolicy;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY: stream.priority = clamped_priority(value.priority); break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      require(domains.default_ < 4 && domains.remote < 4, "there are four domains, 0 to 3");
      all.domains = domains;
      break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      require(unsigned(value.memSyncDomain) <= CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE, "a domain is the default or remote");
      all.domain = value.memSyncDomain;
      break;
    default: refuse("streams have no such attribute");
  }
}

void copy_attributes(CUstream_st& to, const CUstream_st& from) {
  const MutexLock held(state().lock);
  to.attributes = from.attributes;
  to.priority = from.priority;
}

CUstream_st& not_capturing(CUstream stream_handle) {
  CUstream_st& stream = named_stream(stream_handle);
  require_not_capturing(stream);
  return stream;
}

// What an operation that is now put into the stream would wait for.
Operation tail(CUstream_st& stream) {
  require_not_capturing(stream);
  refuse_if_unsafe_in_capture();
  if (stream.is_legacy) return enqueue(stream, nullptr);
  const MutexLock held(state().lock);
  return stream.last;
}

void add_callback(CUstream stream_handle, CUstreamCallback callback, void* data) {
  CUstream_st& stream = named_stream(stream_handle);
  require_not_capturing(stream);
  enqueue(stream,
          [=](const Operation& op) { run_host_function(op, [=] { callback(stream_handle, CUDA_SUCCESS, data); }); });
}

}  // namespace

}  // namespace driver

using namespace driver;

CUresult cuStreamCreate(CUstream* phStream, unsigned int Flags) {
  return call(ARGUMENTS(phStream, Flags),
              result_to(phStream, "phStream", [&] { return create_stream(Flags, 0, current()).get(); }));
}
CUresult cuStreamCreateWithPriority(CUstream* phStream, unsigned int flags, int priority) {
  return call(ARGUMENTS(phStream, flags, priority),
              result_to(phStream, "phStream", [&] { return create_stream(flags, priority, current()).get(); }));
}
CUresult cuStreamDestroy(CUstream hStream) {
  return call(ARGUMENTS(hStream), [&] { destroy(hStream); });
}
CUresult cuStreamSynchronize(CUstream hStream) {
  return call(ARGUMENTS(hStream), in_host_function, [&] { wait_for(tail(named_stream(hStream))); });
}
CUresult cuStreamQuery(CUstream hStream) {
  return call(ARGUMENTS(hStream), in_host_function, [&] { return query(tail(named_stream(hStream))); });
}
CUresult cuStreamGetPriority(CUstream hStream, int* priority) {
  return call(ARGUMENTS(hStream, priority), in_host_function,
              result_to(priority, "priority", [&] { return stream(hStream).priority; }));
}
CUresult cuStreamGetFlags(CUstream hStream, unsigned int* flags) {
  return call(ARGUMENTS(hStream, flags), in_host_function,
              result_to(flags, "flags", [&] { return not_capturing(hStream).flags; }));
}
CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
  return call(ARGUMENTS(hStream, attr, value_out), [&] {
    require_non_null(value_out, "value_out");
    get_attribute(stream(hStream), attr, *value_out);
  });
}
CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
  return call(ARGUMENTS(hStream, attr, value), [&] {
    require_non_null(value, "value");
    set_attribute(stream(hStream), attr, *value);
  });
}
CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
  return call(ARGUMENTS(dst, src), [&] { copy_attributes(stream(dst), stream(src)); });
}
CUresult cuStreamGetId(CUstream hStream, unsigned long long* streamId) {
  return call(ARGUMENTS(hStream, streamId), in_host_function, [&] {
    require_non_null(streamId, "streamId");
    const CUstream_st& called = stream(hStream);
    *streamId = called.is_legacy ? 1 : called.id;
  });
}
CUresult cuStreamGetCtx(CUstream hStream, CUcontext* pctx) {
  return call(ARGUMENTS(hStream, pctx), in_host_function,
              result_to(pctx, "pctx", [&] { return stream(hStream).context; }));
}
CUresult cuStreamGetDevice(CUstream hStream, CUdevice* device) {
  return call(ARGUMENTS(hStream, device),
              result_to(device, "device", [&] { return not_capturing(hStream).context->device; }));
}
CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void* userData) {
  return call(ARGUMENTS(hStream, fn, userData), in_host_function, [&] {
    CUDA_HOST_NODE_PARAMS_v2 given = {};
    given.fn = fn;
    given.userData = userData;
    const SharedWork work = host_work(given);
    submit(stream(hStream), work);
  });
}
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags) {
  return call(ARGUMENTS(hStream, callback, userData, flags), [&] {
    require(callback && !flags, "no callback, or flags");
    add_callback(hStream, callback, userData);
  });
}
