// SPDX-License-Identifier: MIT-0
#include "pools.h"

#include "contexts.h"
#include "driver.h"
#include "operations.h"

namespace driver {

using memory::Range;

// Gives memory back to its pool, or to the machine; host memory that was registered is the program's own again.
void give_back(const Range& allocation) {
  const uint64_t address = allocation.range_base;
  const auto [context, flags, pool] = allocation.owner;
  if (pool) pool->memory.free(address, nullptr, nullptr);
  else memory::free_allocation(address);
  const bool is_small = allocation.kind == Range::host && allocation.range_size < memory::page_size;
  if (is_small && context && !pool) --small_pieces_like(*context, flags).count;
}

bool is_gpu(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0 && location.id < memory::device_count();
}

PoolPlace checked_place(const CUmemLocation& location, CUmemAllocationType type) {
  const bool is_managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  require(is_managed || type == CU_MEM_ALLOCATION_TYPE_PINNED, "the allocation type is pinned or managed");
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: require(is_gpu(location), no_such_gpu); return {type, location.type, location.id};
    case CU_MEM_LOCATION_TYPE_HOST: return {type, location.type, 0};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      require(location.id == 0, "the host has one NUMA node, 0");
      return {type, location.type, location.id};
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
    case CU_MEM_LOCATION_TYPE_NONE:
      require(is_managed, "only managed memory is nowhere, or at the thread's own node");
      return {type, location.type, 0};
    default:
      refuse(is_managed ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE,
             "a pool has a GPU, the host, or a NUMA node of it as its location");
  }
}

std::shared_ptr<CUmemPoolHandle_st> make_pool(const PoolPlace& place, unsigned handle_types, uint64_t most) {
  const auto [type, location, id] = place;
  if (place == on_gpu(id)) return std::make_shared<CUmemPoolHandle_st>(place, id, handle_types, most);
  constexpr unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
  const bool is_on_node = type == CU_MEM_ALLOCATION_TYPE_PINNED && location == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  require(!(handle_types & ~(is_on_node ? known : 0)),
          "handleTypes: other processes import pools of GPUs and of NUMA nodes only");
  return std::make_shared<CUmemPoolHandle_st>(
      place, type == CU_MEM_ALLOCATION_TYPE_MANAGED ? memory::Pool::OnHost::managed : memory::Pool::OnHost::pinned,
      most);
}

// What was freed in a stream is everybody's once the host has waited for it; or, if the pool is opportunistic, at once
// when the stream has got there.
memory::Pool::MayHave settled_in(const CUmemPoolHandle_st& pool) {
  return [&pool](const void* stream, uint64_t time, bool is_reached)
             REQUIRES(state().lock) { return is_reached && (pool.opportunistic || host_is_behind(stream, time)); };
}

void give_back_pools() {
  const MutexLock held(state().lock);
  for (const auto& [pool, owner] : state().pools)
    if (!pool->imports)  // which keeps what it has mapped
      pool->memory.trim(pool->threshold / memory::Pool::unit * memory::Pool::unit, settled_in(*pool));
  std::erase_if(state().pools, [](const auto& entry) REQUIRES(state().lock) {
    return entry.first->is_destroyed && entry.first->memory.is_unused();
  });
}

// At the end of the process (null) only what pools keep goes: what else is left is the program's. Blocks of pools are
// the GPU's, and stay.
void forget_memory(CUcontext context) {
  const MutexLock held(state().lock);
  if (context)
    for (const Range& allocation : memory::allocations_of(context))
      if (!allocation.owner.pool) give_back(allocation);
  for (const auto& [pool, owner] : state().pools)
    if (!context || pool->memory.device() == context->device) pool->memory.trim(0);
}

}  // namespace driver
