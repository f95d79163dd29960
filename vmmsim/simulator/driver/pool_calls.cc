// SPDX-License-Identifier: MIT-0
// Calls about memory pools: what streams allocate of them and free, and how processes share them.
#include <algorithm>
#include <functional>

#include "../memory/this_machine.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "executable_graphs.h"
#include "graph_memory.h"
#include "pools.h"
#include "streams.h"

namespace driver {
namespace {

using memory::Range;

CUmemoryPool checked_pool(CUmemoryPool pool) REQUIRES(state().lock) {
  require(state().pools.contains(pool) && !pool->is_destroyed, "this is no memory pool, or it has been destroyed");
  return pool;
}

CUmemoryPool checked_own(CUmemoryPool pool) REQUIRES(state().lock) {
  require(!checked_pool(pool)->imports, "the pool is an import: only the process that made it can do that");
  return pool;
}

CUmemoryPool add_pool(std::shared_ptr<CUmemPoolHandle_st> pool) REQUIRES(state().lock) {
  const CUmemoryPool handle = pool.get();
  state().pools[handle] = std::move(pool);
  return handle;
}

CUmemoryPool default_pool(const PoolPlace& place) {
  const MutexLock held(state().lock);
  CUmemoryPool& pool = state().default_pools[place];
  if (pool) return pool;
  pool = add_pool(make_pool(place));
  pool->is_default = true;
  return pool;
}

CUmemoryPool pool_in_use(const PoolPlace& place) {
  const CUmemoryPool usual = default_pool(place);
  const MutexLock held(state().lock);
  const auto found = state().pools_in_use.find(place);
  return found == state().pools_in_use.end() ? usual : found->second;
}

void use_pool(const PoolPlace& place, CUmemoryPool pool) {
  const MutexLock held(state().lock);
  checked_own(pool);
  require(pool->place == place, "the pool is of another place, or of another type");
  state().pools_in_use[place] = pool;
}

// A pool of managed memory is used for managed memory at the GPU, any other for its pinned memory.
void use_pool_of_gpu(CUdevice device, CUmemoryPool pool) {
  bool is_managed;
  {
    const MutexLock held(state().lock);
    is_managed = std::get<0>(checked_own(pool)->place) == CU_MEM_ALLOCATION_TYPE_MANAGED;
  }
  PoolPlace place = on_gpu(device);
  if (is_managed) std::get<0>(place) = CU_MEM_ALLOCATION_TYPE_MANAGED;
  use_pool(place, pool);
}

#if CUDA_VERSION >= 13000
// The place whose pool a program asks for.
PoolPlace asked_place(const CUmemLocation* location, CUmemAllocationType type) {
  require_non_null(location, "location");
  require(location->type >= CU_MEM_LOCATION_TYPE_NONE && location->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA,
          CUDA_ERROR_NOT_SUPPORTED, "pools are not asked for by such a type of location");
  return checked_place(*location, type);
}
#endif

CUmemoryPool create_pool(const CUmemPoolProps& properties) {
  const bool is_managed = properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
  require(!is_managed || (!properties.maxSize && !properties.usage && !properties.handleTypes),
          "a pool of managed memory has no maxSize, no usage and no handleTypes");
  const PoolPlace place = checked_place(properties.location, properties.allocType);
  const auto has_reserved = std::any_of(std::begin(properties.reserved), std::end(properties.reserved),
                                        [](unsigned char byte) { return byte != 0; });
  require(!has_reserved, "reserved is not 0");
  require(!properties.handleTypes || memory::machine().pool_fds,
          "this system refuses pools that can be exported, whatever CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES "
          "says: make handleTypes 0");
  require(properties.maxSize >> 47 == 0, CUDA_ERROR_OUT_OF_MEMORY, "no process has maxSize bytes of addresses");
  const MutexLock held(state().lock);
  return add_pool(make_pool(place, unsigned(properties.handleTypes), properties.maxSize));
}

void destroy_pool(CUmemoryPool pool) {
  {
    const MutexLock held(state().lock);
    checked_pool(pool);
    require(!pool->is_default, "a default pool is not destroyed");
    require(!pool->imports || !pool->memory.has_blocks(),
            "the pool is an import, and blocks of it are too: free these first (cuMemFree)");
    if (pool->imports) --pool->imports;
    if (pool->imports) return;
    pool->is_destroyed = true;
    pool->threshold = 0;
    // On an H100 each place where it was in use has the default of the GPU then, even the host.
    const CUmemoryPool of_gpu = state().default_pools[on_gpu(0)];
    for (auto& [place, in_use] : state().pools_in_use)
      if (in_use == pool) in_use = place == pool->place && place == on_gpu(std::get<2>(place)) ? nullptr : of_gpu;
    std::erase_if(state().pools_in_use, [&](const auto& entry) { return !entry.second; });
  }
  give_back_pools();
}

// The host may be let into managed memory and into its own, where it is at home.
void require_access_descriptor(const CUmemPoolHandle_st& pool, const CUmemAccessDesc& descriptor)
    REQUIRES(state().lock) {
  const auto& [location, flags] = descriptor;
  const bool is_of_gpu = pool.imports || pool.place == on_gpu(pool.memory.device());  // others are not shared
  const bool is_managed = std::get<0>(pool.place) == CU_MEM_ALLOCATION_TYPE_MANAGED;
  const bool is_host = location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  require((location.type == CU_MEM_LOCATION_TYPE_DEVICE || !is_of_gpu) && flags != CU_MEM_ACCESS_FLAGS_PROT_READ,
          CUDA_ERROR_NOT_SUPPORTED, "a pool of a GPU is opened to GPUs only, and no pool for reading alone");
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    require(is_host, "location is no GPU, and not the host");
    require(is_managed || flags, CUDA_ERROR_NOT_SUPPORTED, "a pool on the host stays open to the host");
    return;
  }
  checked(location.id);
  const bool is_own = location.id == pool.memory.device() || !is_of_gpu;
  require(!is_own || flags || !is_of_gpu, CUDA_ERROR_INVALID_DEVICE, "a pool stays open to its own GPU");
  require(is_own || memory::machine().reaches(location.id, pool.memory.device()), CUDA_ERROR_INVALID_DEVICE,
          "these GPUs do not reach each other; ask cuDeviceCanAccessPeer first");
}

void set_pool_access(CUmemoryPool pool, std::span<const CUmemAccessDesc> descriptors) {
  const MutexLock held(state().lock);
  checked_pool(pool);
  require_non_null(descriptors.data(), "map");
  for (const CUmemAccessDesc& descriptor : descriptors) require_access_descriptor(*pool, descriptor);
  for (const auto& [location, flags] : descriptors)
    require(!flags || flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            "flags must be CU_MEM_ACCESS_FLAGS_PROT_NONE or _READWRITE (0 or 3)");
  for (const auto& [location, flags] : descriptors)
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) pool->memory.open(location.id, flags);
}

CUmemAccess_flags pool_access(CUmemoryPool pool, const CUmemLocation& location) {
  const MutexLock held(state().lock);
  checked_pool(pool);
  if (location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return pool->memory.is_pinned_on_host() ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  require(is_gpu(location), "location is no GPU of this process, and not the host");
  return pool->memory.access(location.id);
}

uint64_t allocate_from(size_t size, CUstream stream_handle, const std::function<CUmemoryPool(CUstream_st&)>& pool_of) {
  CUstream_st& stream = driver::stream(stream_handle);
  if (is_capturing(stream)) {
    if (!size) return 0;  // and no node
    const SharedWork work = allocation_work(on_gpu(stream.context->device), size);
    if (capture(stream, work)) return work->memory()->address;
  }
  refuse_if_unsafe_in_capture();
  const CUmemoryPool pool = pool_of(stream);
  if (!size) return 0;
  const MutexLock held(state().lock);
  checked_own(pool);
  const uint64_t address = pool->memory.allocate(
      size, &stream, {stream.context, 0, pool}, settled_in(*pool),
      [&](const void* freed_in, uint64_t time, bool)
          REQUIRES(state().lock) { return pool->follow_events && is_behind(stream.behind, freed_in, time); });
  pool->used += size;
  pool->most_used = std::max(pool->most_used, pool->used);
  pool->most_reserved = std::max(pool->most_reserved, pool->memory.reserved());
  return address;
}

void free_later(uint64_t address, CUstream stream_handle) {
  CUstream_st& stream = driver::stream(stream_handle);
  if (address && is_capturing(stream)) {
    const SharedWork work = free_work({address});
    require_freeable_in_capture(stream, *work);
    if (capture(stream, work)) return;
  }
  refuse_if_unsafe_in_capture();
  if (address) require_not_capturing(stream);  // once the memory has been taken nothing may be refused
  if (!address || free_graph_memory(address)) return;
  const Range taken = memory::take_from_owner(address, {Range::ordinary, Range::pool});
  const CUmemoryPool pool = taken.owner.pool;
  const auto reached = pool ? std::make_shared<std::atomic<bool>>() : nullptr;
  if (pool) {  // the program has it no more, and the stream may have it again
    const MutexLock held(state().lock);
    pool->used -= taken.range_size;
    pool->memory.free(address, &stream, reached, state().last_operation);
  }
  enqueue(stream, [=](const Operation& op) {
    if (reached) {
      *reached = true;
    } else {
      const MutexLock held(state().lock);
      give_back(taken);
    }
    ended(op);
  });
}

// --- Pools that processes share

CUmemoryPool import_pool(const void* handle, CUmemAllocationHandleType type, unsigned long long flags) {
  require_no_flags(flags);
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) refuse_not_simulated("a fabric handle of a memory pool");
  require(type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
          "handleType must be CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
  const auto shared = memory::Pool::shared_by(reinterpret_cast<intptr_t>(handle));
  const MutexLock held(state().lock);
  CUmemoryPool import = nullptr;
  for (const auto& [pool, owner] : state().pools)
    if (pool->memory.is_import_of(shared) && !pool->is_destroyed) import = pool;
  if (!import) import = add_pool(std::make_shared<CUmemPoolHandle_st>(PoolPlace(), shared));
  ++import->imports;
  return import;
}

CUmemPoolPtrExportData export_block(uint64_t address) {
  const auto range = memory::find(address);
  require(range && range->owner.pool && range->range_base == address, "ptr is not where a block of a pool begins");
  const MutexLock held(state().lock);
  require(!range->owner.pool->imports, "the block is an import: only the process that made it exports it");
  return range->owner.pool->memory.export_block(address);
}

uint64_t import_block(CUmemoryPool pool, const CUmemPoolPtrExportData& data) {
  CUdevice device;
  {
    const MutexLock held(state().lock);
    device = checked_pool(pool)->memory.device();
  }
  const CUcontext context = has_current() ? current() : primary_context(device);  // it needs none
  const MutexLock held(state().lock);
  checked_pool(pool);
  return pool->memory.import_block(data, {context, 0, pool});
}

// Those that came with 13.2 and 13.4, by their numbers. From the header: never asked of hardware.
CUresult later_pool_attribute(CUmemoryPool pool, int attribute, void* value, bool set) REQUIRES(state().lock) {
  enum { type = 9, handle_types, location_id, location_type, max_size, decompresses, locality_domain };
  const int driver = memory::machine().driver;
  require(attribute >= type && attribute <= (driver >= 13040 ? locality_domain : decompresses) && driver >= 13020,
          "there is no such attribute, or it came with a later driver");
  require(!set, read_only_attribute);
  auto& number = *static_cast<int*>(value);
  switch (attribute) {
    case type: number = std::get<0>(pool->place); break;
    case handle_types: number = pool->imports ? 0 : int(pool->memory.handle_types()); break;
    case location_id: number = std::get<2>(pool->place); break;
    case location_type: number = std::get<1>(pool->place); break;
    case max_size: *static_cast<cuuint64_t*>(value) = 0; break;  // no pool has a limit of its own here
    case decompresses: number = 0; break;
    default: number = -1;  // in no part of a GPU
  }
  return CUDA_SUCCESS;
}

CUresult pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void* value, bool set) {
  const MutexLock held(state().lock);
  require_non_null(value, "value");
  if (checked_pool(pool); int(attribute) > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    return later_pool_attribute(pool, attribute, value, set);
  checked_own(pool);
  auto number = [&](auto& field, bool may_set) {
    auto& of_program = *static_cast<std::remove_reference_t<decltype(field)>*>(value);
    require(may_set || !set, read_only_attribute);
    if (set) field = of_program;
    else of_program = field;
    return CUDA_SUCCESS;
  };
  const auto watermark = [&](uint64_t& highest, uint64_t now) {  // can be set to 0: then it is what it is now
    require(!set || !*static_cast<uint64_t*>(value), "a watermark can only be set to 0");
    if (set) highest = now;
    else *static_cast<uint64_t*>(value) = highest;
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES: return number(pool->follow_events, true);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC: return number(pool->opportunistic, true);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: return number(pool->internal, true);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: return number(pool->threshold, true);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: {
      uint64_t reserved = pool->memory.reserved();
      return number(reserved, false);
    }
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: return watermark(pool->most_reserved, pool->memory.reserved());
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: return number(pool->used, false);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: return watermark(pool->most_used, pool->used);
    default: refuse(no_such_attribute);
  }
}

// Work that a capture forbids before anything else is looked at.
template <class Work> auto unless_captured(const Work& work) {
  return [=] {
    refuse_if_unsafe_in_capture();
    return work();
  };
}

}  // namespace

}  // namespace driver

using namespace driver;

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return call(ARGUMENTS(pool_out, dev),
              result_to(pool_out, "pool_out", [&] { return default_pool(on_gpu(checked(dev))); }));
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return call(ARGUMENTS(pool, dev), result_to(pool, "pool", [&] {
                require(is_gpu(location(CU_MEM_LOCATION_TYPE_DEVICE, dev)), no_such_gpu);
                return pool_in_use(on_gpu(dev));
              }));
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return call(ARGUMENTS(dev, pool), unless_captured([&] { use_pool_of_gpu(dev, pool); }));
}
#if CUDA_VERSION >= 13000
CUresult cuMemGetDefaultMemPool(CUmemoryPool* pool_out, CUmemLocation* location, CUmemAllocationType type) {
  return call(ARGUMENTS(pool_out, location, type),
              result_to(pool_out, "pool_out", [&] { return default_pool(asked_place(location, type)); }));
}
CUresult cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location, CUmemAllocationType type) {
  return call(ARGUMENTS(pool, location, type),
              result_to(pool, "pool", [&] { return pool_in_use(asked_place(location, type)); }));
}
CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  return call(ARGUMENTS(location, type, pool), [&] {
    refuse_if_unsafe_in_capture();
    require_non_null(pool, "pool");
    use_pool(asked_place(location, type), pool);
  });
}
#endif
CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  return call(ARGUMENTS(pool, poolProps),
              unless_captured(result_to(pool, "pool", [&] { return create_pool(given(poolProps, "poolProps")); })));
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return call(ARGUMENTS(pool), unless_captured([&] { destroy_pool(pool); }));
}
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  return call(ARGUMENTS(pool, map, count), unless_captured([&] { set_pool_access(pool, {map, count}); }));
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool, CUmemLocation* location) {
  return call(
      ARGUMENTS(flags, memPool, location),
      unless_captured(result_to(flags, "flags", [&] { return pool_access(memPool, given(location, "location")); })));
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return call(ARGUMENTS(pool, minBytesToKeep), [&] {
    refuse_if_unsafe_in_capture();
    const MutexLock held(state().lock);
    checked_own(pool);
    pool->memory.trim(minBytesToKeep);
  });
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return call(ARGUMENTS(pool, attr, value), unless_captured([&] { return pool_attribute(pool, attr, value, true); }));
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return call(ARGUMENTS(pool, attr, value), unless_captured([&] { return pool_attribute(pool, attr, value, false); }));
}
CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool, CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  return call(ARGUMENTS(handle_out, pool, handleType, flags), [&] {
    refuse_if_unsafe_in_capture();
    require_non_null(handle_out, "handle_out");
    const MutexLock held(state().lock);
    checked_own(pool);
    require_no_flags(flags);
    *static_cast<int*>(handle_out) = pool->memory.export_fd(handleType);
  });
}
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle, CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  return call(ARGUMENTS(pool_out, handle, handleType, flags),
              result_to(pool_out, "pool_out", [&] { return import_pool(handle, handleType, flags); }));
}
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  return call(ARGUMENTS(shareData_out, ptr),
              result_to(shareData_out, "shareData_out", unless_captured([&] { return export_block(ptr); })));
}
CUresult cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData* shareData) {
  return call(ARGUMENTS(ptr_out, pool, shareData),
              result_to(ptr_out, "ptr_out", [&] { return import_block(pool, given(shareData, "shareData")); }));
}
CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return call(ARGUMENTS(dptr, bytesize, hStream), [&] {
    require_non_null(dptr, "dptr");
    *dptr = 0;  // whatever comes of it
    *dptr = allocate_from(bytesize, hStream,
                          [](CUstream_st& stream) { return pool_in_use(on_gpu(stream.context->device)); });
  });
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
  return call(ARGUMENTS(dptr, bytesize, pool, hStream), [&] {
    require_non_null(dptr, "dptr");
    *dptr = 0;  // whatever comes of it
    *dptr = allocate_from(bytesize, hStream, [&](CUstream_st&) {
      require_non_null(pool, "pool");
      return pool;
    });
  });
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return call(ARGUMENTS(dptr, hStream), [&] { free_later(dptr, hStream); });
}
