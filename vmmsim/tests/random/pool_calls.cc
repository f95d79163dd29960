// SPDX-License-Identifier: MIT-0
// Pools of memory, and what streams allocate of them.
#include <unistd.h>

#include "world.h"

namespace {
using R = Random;

Argument<CUmemoryPool> any_pool(R& random) {
  const std::size_t index = any_of(random, world.pools);
  if (random.percent(12)) {
    CUmemoryPool pool = nullptr;
    cuDeviceGetDefaultMemPool(&pool, world.gpu);
    return {pool, "pool of the GPU"};
  }
  return {world.pools[index], place("pool", index)};
}

void print_pool(CUmemoryPool found) {
  CUmemoryPool usual = nullptr;
  cuDeviceGetDefaultMemPool(&usual, world.gpu);
  if (found == usual) return tell(" the GPU's");
  for (std::size_t i = 0; i < world.pools.size(); ++i) {
    if (found && world.pools[i] == found) return tell(" %lld", (long long)i);
  }
  tell(found ? " another" : " null");
}

Argument<CUmemAllocationType> type(R& random) {
  const auto type = choose<int>(random, {1, 1, 2}, {0, 3, 5}, 10);
  return {CUmemAllocationType(type.value), "type " + type.text};
}

void create(R& random) {
  const std::size_t index = any_of(random, world.pools);
  CUmemPoolProps given = {};
  const auto kind = type(random);
  const auto where =
      random.percent(50) ? shown<CUmemLocation>({CU_MEM_LOCATION_TYPE_DEVICE, 0}, "device:0") : any_location(random);
  const auto handle = choose<int>(random, {0, 0, 1}, {2, 4, 8, 9, 16}, 15);
  const auto most = choose<std::size_t>(random, {0, 0, 0, 64 * MiB}, {1, std::size_t(1) << 45}, 15);
  const auto usage = choose<int>(random, {0}, {1, 2, 4}, 10);
  given.allocType = kind.value;
  given.location = where.value;
  given.handleTypes = CUmemAllocationHandleType(handle.value);
  given.maxSize = most.value;
  given.usage = static_cast<unsigned short>(usage.value);
  const bool odd = random.percent(5);
  if (odd) given.reserved[0] = 1;
  const bool windows = random.percent(3);
  if (windows) given.win32SecurityAttributes = &world;
  const std::string text = kind.text + " " + where.text + " handle " + handle.text + " most " + most.text + " usage " +
                           usage.text + (odd ? " reserved" : "") + (windows ? " windows" : "");
  CUmemoryPool made = nullptr;
  if (FINE(cuMemPoolCreate, shown(&made, place("pool", index)), shown<const CUmemPoolProps*>(&given, text))) {
    world.pools[index] = made;
  }
}
void destroy(R& random) {
  const std::size_t index = any_of(random, world.pools);
  if (FINE(cuMemPoolDestroy, shown(world.pools[index], place("pool", index)))) world.pools[index] = nullptr;
}
void destroy_default(R& random) {
  CUmemoryPool pool = nullptr;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const bool managed = random.percent(50);
  cuMemGetDefaultMemPool(&pool, &location, managed ? CU_MEM_ALLOCATION_TYPE_MANAGED : CU_MEM_ALLOCATION_TYPE_PINNED);
  CALL(cuMemPoolDestroy, shown(pool, managed ? "default, managed" : "default"));
}

Block& any_block(R& random, std::string& text) {
  const std::size_t index = any_of(random, world.allocations);
  text = place("allocation", index);
  return world.allocations[index];
}
Argument<std::size_t> size(R& random) {
  return choose<std::size_t>(random, {1, 512, MiB, 3 * MiB, 5 * MiB}, {0, std::size_t(1) << 48, ~std::size_t(0)}, 10);
}
void allocate(R& random) {
  std::string text;
  Block& block = any_block(random, text);
  const auto bytes = size(random);
  CUdeviceptr made = 0;
  if (FINE(cuMemAllocAsync, shown(&made, text), bytes, any_stream(random))) block = {made, bytes.value};
}
void allocate_from(R& random) {
  std::string text;
  Block& block = any_block(random, text);
  const auto bytes = size(random);
  const auto pool = any_pool(random);
  CUdeviceptr made = 0;
  if (FINE(cuMemAllocFromPoolAsync, shown(&made, text), bytes, pool, any_stream(random))) block = {made, bytes.value};
}
void free_async(R& random) {
  std::string text;
  Block& block = any_block(random, text);
  if (FINE(cuMemFreeAsync, shown(block.address, text), any_stream(random))) block = {};
}
void free_now(R& random) {
  std::string text;
  Block& block = any_block(random, text);
  if (FINE(cuMemFree, shown(block.address, text))) block = {};
}
void free_inside(R& random) {
  std::string text;
  const Block& block = any_block(random, text);
  CALL(cuMemFreeAsync, shown(block.address ? block.address + 256 : 0, text + "+256"), any_stream(random));
}
void trim(R& random) {
  const auto pool = any_pool(random);
  CALL(cuMemPoolTrimTo, pool, choose<std::size_t>(random, {0, MiB, 64 * MiB}));
}

Argument<CUmemPool_attribute> attribute(R& random) {
  const auto id = choose<int>(random, {1, 2, 3, 4, 5, 6, 7, 8}, {0, 9, 99}, 8);
  return {CUmemPool_attribute(id.value), "attribute " + id.text};
}
void get_attribute(R& random) {
  cuuint64_t value = 0;
  const auto pool = any_pool(random);
  const auto id = attribute(random);
  settle();
  if (!FINE(cuMemPoolGetAttribute, pool, id, shown<void*>(&value, "&"))) return;
  tell(" %lld", id.value <= 3 ? *reinterpret_cast<int*>(&value) : (long long)value);
}
void set_attribute(R& random) {
  const auto pool = any_pool(random);
  const auto id = attribute(random);
  const auto number = choose<cuuint64_t>(random, {0, 1}, {2, MiB, ~0ull}, 30);
  cuuint64_t value = number.value;
  CALL(cuMemPoolSetAttribute, pool, id, shown<void*>(&value, number.text));
}
void get_access(R& random) {
  auto location = any_location(random);
  CUmemAccess_flags flags = {};
  if (FINE(cuMemPoolGetAccess, out(flags), any_pool(random), shown(&location.value, location.text))) {
    tell(" %lld", flags);
  }
}
void set_access(R& random) {
  const auto location = any_location(random);
  const auto flags = choose<int>(random, {3, 3, 1}, {0, 2, 4}, 25);
  const CUmemAccessDesc given = {location.value, CUmemAccess_flags(flags.value)};
  CALL(cuMemPoolSetAccess, any_pool(random), shown<const CUmemAccessDesc*>(&given, location.text + " " + flags.text),
       choose<std::size_t>(random, {1}, {0}, 5));
}

// The pool that is asked when no pool is named.
void device_default(R& random) {
  CUmemoryPool found = nullptr;
  if (FINE(cuDeviceGetDefaultMemPool, out(found), choose<CUdevice>(random, {0}, {1, -1, 99}))) print_pool(found);
}
void device_get(R& random) {
  CUmemoryPool found = nullptr;
  if (FINE(cuDeviceGetMemPool, out(found), choose<CUdevice>(random, {0}, {1, -1, 99}))) print_pool(found);
}
void device_set(R& random) {
  const auto gpu = choose<CUdevice>(random, {0}, {1, -1}, 10);
  CALL(cuDeviceSetMemPool, gpu, any_pool(random));
}
void get_default(R& random) {
  CUmemoryPool found = nullptr;
  auto location = any_location(random);
  if (FINE(cuMemGetDefaultMemPool, out(found), shown(&location.value, location.text), type(random))) print_pool(found);
}
void get(R& random) {
  CUmemoryPool found = nullptr;
  auto location = any_location(random);
  if (FINE(cuMemGetMemPool, out(found), shown(&location.value, location.text), type(random))) print_pool(found);
}
void set(R& random) {
  auto location = any_location(random);
  const auto kind = type(random);
  CALL(cuMemSetMemPool, shown(&location.value, location.text), kind, any_pool(random));
}

void export_pool(R& random) {
  int descriptor = -1;
  const auto handle = choose<int>(random, {1}, {0, 2, 8});
  const auto pool = any_pool(random);
  if (handle.value == 8) return tell("no fabric handle");  // it would need more room
  CALL(cuMemPoolExportToShareableHandle, shown<void*>(&descriptor, "&"), pool,
       shown(CUmemAllocationHandleType(handle.value), "handle " + handle.text),
       choose<unsigned long long>(random, {0}, {1}, 10));
  if (descriptor > 2) close(descriptor);
}
void export_pointer(R& random) {
  CUmemPoolPtrExportData data;
  std::string text;
  const Block& block = any_block(random, text);
  CALL(cuMemPoolExportPointer, out(data), shown(block.address, text));
}
void ask_pointer(R& random) {
  std::string text;
  const Block& block = any_block(random, text);
  const auto id = choose<int>(random, {2, 8, 9, 10, 13, 14, 16, 17}, {0, 22, 99}, 8);
  cuuint64_t value = 0;
  if (!FINE(cuPointerGetAttribute, shown<void*>(&value, "&"),
            shown(CUpointer_attribute(id.value), "attribute " + id.text), shown(block.address, text))) {
    return;
  }
  if (id.value == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE) return print_pool(reinterpret_cast<CUmemoryPool>(value));
  tell(" %lld", (long long)value);
}
}  // namespace

Makers pool_makers() {
  return {{"pools", 12, create},
          {"pools", 4, destroy},
          {"pools", 1, destroy_default},
          {"pools", 10, allocate},
          {"pools", 14, allocate_from},
          {"pools", 10, free_async},
          {"pools", 2, free_now},
          {"pools", 1, free_inside},
          {"pools", 3, trim},
          {"pools", 10, get_attribute},
          {"pools", 8, set_attribute},
          {"pools", 5, get_access},
          {"pools", 5, set_access},
          {"pools", 2, device_default},
          {"pools", 4, device_get},
          {"pools", 5, device_set},
          {"pools", 8, get_default},
          {"pools", 8, get},
          {"pools", 8, set},
          {"pools", 4, export_pool},
          {"pools", 2, export_pointer},
          {"pools", 8, ask_pointer}};
}
