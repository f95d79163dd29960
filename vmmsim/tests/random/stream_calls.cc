// SPDX-License-Identifier: MIT-0
// Streams, and copies and memsets in them; events.
#include "world.h"

namespace {
using R = Random;

// A slot that a creation may fill: what was in it stays for ever.
template <class Handle> void keep(CUresult result, Handle made, Handle& slot) {
  if (result == CUDA_SUCCESS) slot = made;
}

void create(R& random) {
  const std::size_t index = any_of(random, world.streams);
  CUstream made = nullptr;
  keep(CALL(cuStreamCreate, shown(&made, place("stream", index)), choose<unsigned>(random, {0, 1}, {2, 3, 16, ~0u})),
       made, world.streams[index]);
}
void create_with_priority(R& random) {
  const std::size_t index = any_of(random, world.streams);
  CUstream made = nullptr;
  keep(CALL(cuStreamCreateWithPriority, shown(&made, place("stream", index)), choose<unsigned>(random, {0, 1}, {2}, 5),
            choose<int>(random, {-5, -1, 0}, {-99, 3, 99})),
       made, world.streams[index]);
}
void destroy(R& random) {
  const std::size_t index = any_of(random, world.streams);
  if (FINE(cuStreamDestroy, shown(world.streams[index], place("stream", index)))) world.streams[index] = nullptr;
}
void query(R& random) {
  make_call(
      "cuStreamQuery", [](CUstream stream) { return settled([&] { return cuStreamQuery(stream); }); },
      std::tuple{any_stream(random)});
}
void synchronize(R& random) { CALL(cuStreamSynchronize, any_stream(random)); }
void get_flags(R& random) {
  unsigned flags = 0;
  if (FINE(cuStreamGetFlags, any_stream(random), out(flags))) tell(" %lld", flags);
}
void get_priority(R& random) {
  int priority = 0;
  if (FINE(cuStreamGetPriority, any_stream(random), out(priority))) tell(" %lld", priority);
}
void get_device(R& random) {
  CUdevice device = -1;
  if (FINE(cuStreamGetDevice, any_stream(random), out(device))) tell(" %lld", device);
}
void get_context(R& random) {
  CUcontext context = nullptr;
  if (FINE(cuStreamGetCtx, any_stream(random), out(context))) tell(" %lld", context == world.context);
}
void get_id(R& random) {
  unsigned long long id = 0;
  CALL(cuStreamGetId, any_stream(random), out(id));
}
Argument<CUstreamAttrID> attribute(R& random) {
  const auto id = choose<int>(random, {1, 3, 6, 7, 9}, {0, 2, 4, 8, 10, 99});
  return {CUstreamAttrID(id.value), "attribute " + id.text};
}
void get_attribute(R& random) {
  CUstreamAttrValue value = {};
  const auto id = attribute(random);
  if (!FINE(cuStreamGetAttribute, any_stream(random), id, out(value))) return;
  if (id.value == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY) tell(" %lld", value.syncPolicy);
  if (id.value == CU_LAUNCH_ATTRIBUTE_PRIORITY) tell(" %lld", value.priority);
  if (id.value == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN) tell(" %lld", value.memSyncDomain);
}
void set_attribute(R& random) {
  CUstreamAttrValue value = {};
  const auto id = attribute(random);
  const auto number = choose<int>(random, {0, 1, 2}, {3, 4, 5, 99, -1});
  std::string text = number.text;
  if (id.value == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW) {
    value.accessPolicyWindow.base_ptr = reinterpret_cast<void*>(world.memory);
    value.accessPolicyWindow.num_bytes = number.value > 0 ? number.value * 4 * KiB : 0;
    value.accessPolicyWindow.hitRatio = 0.5f;
    text += " window";
  } else if (id.value == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP) {
    value.memSyncDomainMap.default_ = 0;
    value.memSyncDomainMap.remote = static_cast<unsigned char>(number.value);
  } else {
    value.priority = number.value;
  }
  CALL(cuStreamSetAttribute, any_stream(random), id, shown<const CUstreamAttrValue*>(&value, text));
}
void copy_attributes(R& random) { CALL(cuStreamCopyAttributes, any_stream(random), any_stream(random)); }
void launch_host_function(R& random) {
  const bool has = !random.percent(5);
  const auto stream = any_stream(random);
  CALL(cuLaunchHostFunc, stream, shown<CUhostFn>(has ? host_function : nullptr, has ? "function" : "null"),
       shown<void*>(nullptr, "null"));
}
void callback(CUstream, CUresult, void*) {}
void add_callback(R& random) {
  const auto flags = choose<unsigned>(random, {0}, {1});
  const auto stream = any_stream(random);
  CALL(cuStreamAddCallback, stream, shown<CUstreamCallback>(callback, "function"), shown<void*>(nullptr, "null"),
       flags);
}
Argument<std::size_t> size(R& random) { return choose<std::size_t>(random, {4, 256, 4000}, {0, 1, 3}, 30); }

void memset_8(R& random) {
  const auto memory = any_memory(random);
  const auto bytes = size(random);
  CALL(cuMemsetD8Async, memory, number<unsigned char>(7), bytes, any_stream(random));
}
void memset_32(R& random) {
  const auto memory = any_memory(random, random.percent(85) ? 4 : 1);
  const auto count = choose<std::size_t>(random, {0, 1, 64, 1000});
  CALL(cuMemsetD32Async, memory, number(7u), count, any_stream(random));
}
void memset_2d(R& random) {
  const auto memory = any_memory(random, 4);
  const auto pitch = choose<std::size_t>(random, {64, 128, 60}, {0, 30, 1});
  const auto width = choose<std::size_t>(random, {8, 16}, {0, 99});
  const auto height = choose<std::size_t>(random, {1, 4, 16}, {0});
  CALL(cuMemsetD2D32Async, memory, pitch, number(7u), width, height, any_stream(random));
}
void copy(R& random) {
  const auto to = any_memory(random);
  const auto from = any_memory(random);
  const auto bytes = size(random);
  CALL(cuMemcpyAsync, to, from, bytes, any_stream(random));
}
void copy_in(R& random) {
  const auto to = any_memory(random);
  const auto from = steady_host(random);
  const auto bytes = size(random);
  CALL(cuMemcpyHtoDAsync, to, shown<const void*>(from.value, from.text), bytes, any_stream(random));
}
void copy_out(R& random) {
  const auto to = steady_host(random);
  const auto from = any_memory(random);
  const auto bytes = size(random);
  CALL(cuMemcpyDtoHAsync, to, from, bytes, any_stream(random));
}
void copy_device(R& random) {
  const auto to = any_memory(random);
  const auto from = any_memory(random);
  const auto bytes = size(random);
  CALL(cuMemcpyDtoDAsync, to, from, bytes, any_stream(random));
}

// Events.
void event_create(R& random) {
  const std::size_t index = 4 + random.below(world.events.size() - 4);
  CUevent made = nullptr;
  const auto flags = choose<unsigned>(random, {0, 1, 2, 3, 6}, {4, 5, 7, 8, 16, ~0u});
  keep(CALL(cuEventCreate, shown(&made, place("event", index)), flags), made, world.events[index]);
}
void event_destroy(R& random) {
  const std::size_t index = 4 + random.below(world.events.size() - 4);
  if (FINE(cuEventDestroy, shown(world.events[index], place("event", index)))) world.events[index] = nullptr;
}
void event_record(R& random) {
  const auto event = any_event(random);
  CALL(cuEventRecord, event, any_stream(random));
}
void event_record_with_flags(R& random) {
  const auto event = any_event(random);
  const auto stream = any_stream(random);
  CALL(cuEventRecordWithFlags, event, stream, choose<unsigned>(random, {0, 1}, {2, 3}));
}
void event_query(R& random) {
  make_call(
      "cuEventQuery", [](CUevent event) { return settled([&] { return cuEventQuery(event); }); },
      std::tuple{any_event(random)});
}
void event_synchronize(R& random) { CALL(cuEventSynchronize, any_event(random)); }
void event_wait(R& random) {
  const auto stream = any_stream(random);
  const auto event = any_event(random);
  CALL(cuStreamWaitEvent, stream, event, choose<unsigned>(random, {0, 0, 1}, {2, 3}, 10));
}
void event_elapsed(R& random) {
  const auto between = [](CUevent from, CUevent to) {
    float milliseconds = 0;
    return settled([&] { return cuEventElapsedTime(&milliseconds, from, to); });
  };
  make_call("cuEventElapsedTime", between, std::tuple{any_event(random), any_event(random)});
}
void event_handle(R& random) {
  CUipcEventHandle handle;
  CALL(cuIpcGetEventHandle, out(handle), any_event(random));
}
}  // namespace

Makers stream_makers() {
  return {{"streams", 6, create},
          {"streams", 5, create_with_priority},
          {"streams", 4, destroy},
          {"streams", 6, query},
          {"streams", 5, synchronize},
          {"streams", 3, get_flags},
          {"streams", 3, get_priority},
          {"streams", 2, get_device},
          {"streams", 2, get_context},
          {"streams", 2, get_id},
          {"streams", 5, get_attribute},
          {"streams", 5, set_attribute},
          {"streams", 4, copy_attributes},
          {"streams", 4, launch_host_function},
          {"streams", 3, add_callback},
          {"streams", 5, memset_8},
          {"streams", 4, memset_32},
          {"streams", 3, memset_2d},
          {"streams", 6, copy},
          {"streams", 4, copy_in},
          {"streams", 4, copy_out},
          {"streams", 4, copy_device}};
}

Makers event_makers() {
  return {{"events", 6, event_create}, {"events", 3, event_destroy},     {"events", 12, event_record},
          {"events", 8, event_query},  {"events", 6, event_synchronize}, {"events", 6, event_record_with_flags},
          {"events", 10, event_wait},  {"events", 6, event_elapsed},     {"events", 3, event_handle}};
}
