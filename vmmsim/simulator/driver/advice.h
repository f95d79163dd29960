// SPDX-License-Identifier: MIT-0
// What programs say of managed memory: kept and told, without effect. Managed memory lies still here.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "driver.h"

namespace driver {

void advise(uint64_t address, size_t size, CUmem_advise, CUmemLocation) EXCLUDES(state().lock);  // throws Refused
void must_be_a_place(const CUmemLocation&);                                                      // throws Refused
void note_prefetch(uint64_t address, size_t size, CUmemLocation) EXCLUDES(state().lock);         // likewise
void forget_advice(uint64_t address, size_t size) EXCLUDES(state().lock);                        // the memory is new

}  // namespace driver
