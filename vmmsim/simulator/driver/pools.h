// SPDX-License-Identifier: MIT-0
// Memory pools, and to whom freed memory goes.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "../memory/pool.h"

struct CUmemPoolHandle_st {
  explicit CUmemPoolHandle_st(auto... arguments) : memory(arguments...) {}
  memory::Pool memory;
  bool is_default = false;
  bool is_destroyed = false;  // it lasts until its last memory is freed
  uint64_t threshold = 0;     // bytes that it may keep at a synchronisation
  unsigned imports = 0;       // of another process's pool: how often it was imported, and not destroyed
  uint64_t used = 0, most_used = 0, most_reserved = 0;     // of this process's own
  int follow_events = 1, opportunistic = 1, internal = 1;  // reuse policies: kept, without effect
};

namespace driver {

void give_back(const memory::Range&);  // what was taken from its owner
void give_back_pools();                // what pools hold beyond their thresholds: at each synchronisation
void forget_memory(CUcontext);         // which ends

}  // namespace driver
