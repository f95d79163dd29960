// SPDX-License-Identifier: MIT-0
#include "pools.h"

#include "contexts.h"
#include "driver.h"

namespace driver {

using memory::Range;

// Gives memory back to its pool, or to the machine; host memory that was registered is the program's own again.
void give_back(const Range& allocation) {
  const uint64_t address = allocation.range_base;
  if (const CUmemoryPool pool = allocation.owner.pool) pool->memory.free(address, nullptr, nullptr);
  else memory::free_allocation(address);
}

bool is_gpu(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_DEVICE && location.id >= 0 && location.id < memory::device_count();
}

void give_back_pools() {
  const MutexLock held(state().lock);
  for (const auto& [pool, owner] : state().pools)
    if (!pool->imports)  // which keeps what it has mapped
      pool->memory.trim(pool->threshold / memory::Pool::unit * memory::Pool::unit);
  std::erase_if(state().pools, [](const auto& entry) REQUIRES(state().lock) {
    return entry.first->is_destroyed && entry.first->memory.is_unused();
  });
}

// At the end of the process (null) only what pools keep goes: what else is left is the program's.
void forget_memory(CUcontext context) {
  const MutexLock held(state().lock);
  if (context)
    for (const Range& left : memory::allocations_of(context)) {
      if (const CUmemoryPool pool = left.owner.pool) pool->used -= left.range_size;
      give_back(left);
    }
  for (const auto& [pool, owner] : state().pools)
    if (!context || pool->memory.device() == context->device) pool->memory.trim(0);
}

}  // namespace driver
