// SPDX-License-Identifier: MIT-0
// Memory of the host: allocated, registered, managed.
#include "world.h"

namespace {
using R = Random;

void allocate(R& random) {
  const std::size_t index = any_of(random, world.host);
  void* made = nullptr;
  const auto size = choose<std::size_t>(random, {1, 4 * KiB, 100000}, {0, std::size_t(1) << 60}, 12);
  if (FINE(cuMemAllocHost, shown(&made, place("host", index)), size)) world.host[index] = made;
}
void allocate_with(R& random) {
  const std::size_t index = any_of(random, world.host);
  void* made = nullptr;
  const auto size = choose<std::size_t>(random, {1, 4 * KiB, 100000}, {0}, 8);
  const auto flags = choose<unsigned>(random, {0, 1, 2, 3, 4, 7}, {8, 16, 9, ~0u}, 25);
  if (FINE(cuMemHostAlloc, shown(&made, place("host", index)), size, flags)) world.host[index] = made;
}

// Of the memory that is registered: its first 512 KiB, in pages.
Argument<void*> registrable(R& random) {
  const std::size_t at = random.below(8) * 4 * KiB + (random.percent(15) ? 100 : 0);
  return {world.pageable + at, "pageable+" + std::to_string(at)};
}
void enter(R& random) {
  const auto address = registrable(random);
  const auto size = choose<std::size_t>(random, {4 * KiB, 8 * KiB, 20 * KiB}, {0, 1, 100, 5000}, 25);
  CALL(cuMemHostRegister, address, size, choose<unsigned>(random, {0, 1, 2, 3, 8}, {4, 6, 9, 16, 32, ~0u}, 30));
}
void leave(R& random) { CALL(cuMemHostUnregister, registrable(random)); }

Argument<void*> any_address(R& random) {
  const std::size_t index = any_of(random, world.host);
  const std::size_t which = random.below(100), offset = random.percent(80) ? 0 : 1000;
  const std::string after = offset ? "+1000" : "";
  if (which < 50 && world.host[index]) {
    return {static_cast<char*>(world.host[index]) + offset, place("host", index) + after};
  }
  if (which < 75) return registrable(random);
  if (which < 82) return {world.pinned + offset, "pinned" + after};
  if (which < 88) return {reinterpret_cast<void*>(world.steady_managed + offset), "managed" + after};
  if (which < 93) return {reinterpret_cast<void*>(world.memory + offset), "memory" + after};
  if (which < 97) return {world.pageable + pageable_size - 4 * KiB, "pageable"};
  return {nullptr, "null"};
}
void release(R& random) {
  const std::size_t index = any_of(random, world.host);
  if (random.percent(25)) {
    const auto address = random.percent(50) ? registrable(random) : steady_host(random);
    if (address.value == world.pinned) return tell("not freed");
    CALL(cuMemFreeHost, address);
  } else if (FINE(cuMemFreeHost, shown(world.host[index], place("host", index)))) {
    world.host[index] = nullptr;
  }
}
void device_pointer(R& random) {
  CUdeviceptr found = 0;
  const auto address = any_address(random);
  if (FINE(cuMemHostGetDevicePointer, out(found), address, choose<unsigned>(random, {0}, {1, 2}, 10))) {
    tell(" %lld", found == reinterpret_cast<CUdeviceptr>(address.value));
  }
}
void flags(R& random) {
  unsigned found = 0;
  if (FINE(cuMemHostGetFlags, out(found), any_address(random))) tell(" %lld", found);
}
void ask(R& random) {
  const auto address = any_address(random);
  const auto id = choose<int>(random, {1, 2, 3, 4, 6, 8, 9, 10, 12, 13, 14, 15, 16, 17, 21}, {0, 5, 22, 99}, 8);
  cuuint64_t value[2] = {};
  if (!FINE(cuPointerGetAttribute, shown<void*>(value, "&"),
            shown(CUpointer_attribute(id.value), "attribute " + id.text),
            shown(reinterpret_cast<CUdeviceptr>(address.value), address.text))) {
    return;
  }
  const bool is_address = id.value == 1 || id.value == 3 || id.value == 4 || id.value == 17;
  tell(" %lld", is_address ? value[0] != 0 : (long long)value[0]);
}
void set_attribute(R& random) {
  const auto address = any_address(random);
  const auto id = choose<int>(random, {6}, {2, 8, 99}, 25);
  const unsigned value = unsigned(random.below(2));
  CALL(cuPointerSetAttribute, shown<const void*>(&value, std::to_string(value)),
       shown(CUpointer_attribute(id.value), "attribute " + id.text),
       shown(reinterpret_cast<CUdeviceptr>(address.value), address.text));
}
void range(R& random) {
  const auto address = any_address(random);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  if (FINE(cuMemGetAddressRange, out(base), out(size),
           shown(reinterpret_cast<CUdeviceptr>(address.value), address.text))) {
    tell(" %lld", (long long)size), tell(" %lld", reinterpret_cast<CUdeviceptr>(address.value) - base);
  }
}

// Managed memory.
void managed_allocate(R& random) {
  const std::size_t index = any_of(random, world.managed);
  CUdeviceptr made = 0;
  const auto size = choose<std::size_t>(random, {1, 64 * KiB, 4 * MiB}, {0}, 8);
  if (FINE(cuMemAllocManaged, shown(&made, place("managed", index)), size,
           choose<unsigned>(random, {1, 2}, {0, 3, 4, ~0u}, 20))) {
    world.managed[index] = {made, size.value};
  }
}
void managed_free(R& random) {
  const std::size_t index = any_of(random, world.managed);
  if (FINE(cuMemFree, shown(world.managed[index].address, place("managed", index)))) world.managed[index] = {};
}
// A range, mostly of managed memory.
struct Range {
  Argument<CUdeviceptr> address;
  Argument<std::size_t> size;
};
Range any_range(R& random) {
  const std::size_t index = any_of(random, world.managed);
  const Block& block = world.managed[index];
  const std::size_t offset = choose<std::size_t>(random, {0, 0, 4096}, {100, 65536}, 10).value;
  const std::size_t which = random.below(100);
  const auto size = choose<std::size_t>(random, {1, 4096, 60000}, {0, 65536, 4 * MiB, 8 * MiB}, 30);
  const std::string after = offset ? "+" + std::to_string(offset) : "";
  if (which < 75) return {{block.address ? block.address + offset : 0, place("managed", index) + after}, size};
  if (which < 82) return {{world.memory + offset, "memory" + after}, size};
  if (which < 88) return {{reinterpret_cast<CUdeviceptr>(world.pinned) + offset, "pinned" + after}, size};
  if (which < 94) return {{reinterpret_cast<CUdeviceptr>(world.pageable) + offset, "pageable" + after}, size};
  if (which < 97) return {{world.hole, "hole"}, size};
  return {{0, "null"}, size};
}
void advise(R& random) {
  const Range range = any_range(random);
  const auto advice = choose<int>(random, {1, 2, 3, 4, 5, 6}, {0, 7, 99}, 8);
  CALL(cuMemAdvise, range.address, range.size, shown(CUmem_advise(advice.value), "advice " + advice.text),
       any_location(random));
}
void prefetch(R& random) {
  const Range range = any_range(random);
  const auto where = any_location(random);
  const auto flags = choose<unsigned>(random, {0}, {1, 2}, 8);
  CALL(cuMemPrefetchAsync, range.address, range.size, where, flags, any_stream(random));
}
void get_attribute(R& random) {
  const Range range = any_range(random);
  const auto id = choose<int>(random, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 9, 99}, 8);
  const auto room = choose<std::size_t>(random, {4}, {0, 1, 8, 16}, 20);
  int found[4] = {-9, -9, -9, -9};
  settle();
  if (FINE(cuMemRangeGetAttribute, shown<void*>(found, "&"), room,
           shown(CUmem_range_attribute(id.value), "attribute " + id.text), range.address, range.size)) {
    for (std::size_t i = 0; i < room.value / 4; ++i) tell(" %lld", found[i]);
  }
}
void get_attributes(R& random) {
  const Range range = any_range(random);
  int values[2] = {-9, -9};
  const auto first = choose<int>(random, {1, 2, 5}, {0}, 8), second = choose<int>(random, {4, 6, 7, 8}, {9}, 8);
  CUmem_range_attribute ids[] = {CUmem_range_attribute(first.value), CUmem_range_attribute(second.value)};
  void* places[] = {&values[0], &values[1]};
  std::size_t sizes[] = {4, 4};
  settle();
  if (FINE(cuMemRangeGetAttributes, shown<void**>(places, "&"), shown<std::size_t*>(sizes, "4 4"),
           shown<CUmem_range_attribute*>(ids, first.text + " " + second.text),
           choose<std::size_t>(random, {2, 1}, {0}, 5), range.address, range.size)) {
    tell(" %lld", values[0]), tell(" %lld", values[1]);
  }
}
void attach(R& random) {
  const Range range = any_range(random);
  const auto stream = any_stream(random);
  const bool whole = random.percent(70);
  CALL(cuStreamAttachMemAsync, stream, range.address, whole ? number<std::size_t>(0) : range.size,
       choose<unsigned>(random, {1, 2, 4}, {0, 3, 8}, 15));
}
void batches(R& random) {
  const Range first = any_range(random), second = any_range(random);
  CUdeviceptr addresses[] = {first.address.value, second.address.value};
  std::size_t sizes[] = {first.size.value, second.size.value};
  auto where = any_location(random);
  std::size_t starts[] = {0, random.percent(90) ? 1u : 5u};
  const auto count = choose<std::size_t>(random, {1, 2}, {0}, 8);
  const auto locations = choose<std::size_t>(random, {1}, {0, 2}, 8);
  const auto flags = choose<unsigned long long>(random, {0}, {1}, 8);
  const auto stream = any_stream(random);
  CUmemLocation wheres[] = {where.value, where.value};
  const auto given = shown<CUdeviceptr*>(addresses, first.address.text + " " + second.address.text);
  const auto lengths = shown<std::size_t*>(sizes, first.size.text + " " + second.size.text);
  const auto to = shown<CUmemLocation*>(wheres, where.text);
  const auto from = shown<std::size_t*>(starts, "0 " + std::to_string(starts[1]));
  switch (random.below(3)) {
    case 0: CALL(cuMemPrefetchBatchAsync, given, lengths, count, to, from, locations, flags, stream); break;
    case 1: CALL(cuMemDiscardBatchAsync, given, lengths, count, flags, stream); break;
    default: CALL(cuMemDiscardAndPrefetchBatchAsync, given, lengths, count, to, from, locations, flags, stream);
  }
}
}  // namespace

Makers host_makers() {
  return {{"host", 6, allocate}, {"host", 10, allocate_with}, {"host", 5, release}, {"host", 12, enter},
          {"host", 8, leave},    {"host", 7, device_pointer}, {"host", 9, flags},   {"host", 12, ask},
          {"host", 2, range},    {"host", 2, set_attribute}};
}

Makers managed_makers() {
  return {{"managed", 6, managed_allocate}, {"managed", 3, managed_free},   {"managed", 20, advise},
          {"managed", 14, prefetch},        {"managed", 14, get_attribute}, {"managed", 5, get_attributes},
          {"managed", 6, attach},           {"managed", 6, batches}};
}
