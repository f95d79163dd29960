// SPDX-License-Identifier: MIT-0
// Memory pools, and to whom freed memory goes.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "../memory/pool.h"
#include "driver.h"

#if CUDA_VERSION < 13000  // whose headers brought these
constexpr auto CU_MEM_ALLOCATION_TYPE_MANAGED = static_cast<CUmemAllocationType>(2);
constexpr auto CU_MEM_LOCATION_TYPE_NONE = static_cast<CUmemLocationType>(0);
#endif

struct CUmemPoolHandle_st {
  explicit CUmemPoolHandle_st(driver::PoolPlace where, auto... arguments) : place(where), memory(arguments...) {}
  const driver::PoolPlace place;
  memory::Pool memory GUARDED_BY(driver::state().lock);
  bool is_default GUARDED_BY(driver::state().lock) = false;
  bool is_destroyed GUARDED_BY(driver::state().lock) = false;  // it lasts until its last memory is freed
  uint64_t threshold GUARDED_BY(driver::state().lock) = 0;     // bytes that it may keep at a synchronisation
  // Of another process's pool: how often it was imported, and not destroyed.
  unsigned imports GUARDED_BY(driver::state().lock) = 0;
  // Of this process's own.
  uint64_t used GUARDED_BY(driver::state().lock) = 0;
  uint64_t most_used GUARDED_BY(driver::state().lock) = 0;
  uint64_t most_reserved GUARDED_BY(driver::state().lock) = 0;
  // Policies of reuse. The last is kept, without effect.
  int follow_events GUARDED_BY(driver::state().lock) = 1;
  int opportunistic GUARDED_BY(driver::state().lock) = 1;
  int internal GUARDED_BY(driver::state().lock) = 1;
};

namespace driver {

// Field by field: since 13.4 the second is a union of several.
constexpr CUmemLocation location(CUmemLocationType type, int id) {
  CUmemLocation made = {};
  made.type = type;
  made.id = id;
  return made;
}
bool is_gpu(const CUmemLocation&);  // one of this process's
inline PoolPlace on_gpu(CUdevice device) {
  return {CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, device};
}
PoolPlace checked_place(const CUmemLocation&, CUmemAllocationType);  // throws Refused
std::shared_ptr<CUmemPoolHandle_st> make_pool(const PoolPlace&, unsigned handle_types = 0, uint64_t most = 0);
void give_back(const memory::Range&) REQUIRES(state().lock);  // what was taken from its owner
memory::Pool::MayHave settled_in(const CUmemPoolHandle_st&) REQUIRES(state().lock);
void give_back_pools() EXCLUDES(state().lock);  // what pools hold beyond their thresholds: at each synchronisation
void forget_memory(CUcontext) EXCLUDES(state().lock);  // which ends

}  // namespace driver
