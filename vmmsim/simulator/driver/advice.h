// SPDX-License-Identifier: MIT-0
// What programs say of managed memory (advice_calls.cc).
#pragma once
#include <cstddef>
#include <cstdint>

#include "driver.h"

namespace driver {

void forget_advice(uint64_t address, size_t size) EXCLUDES(state().lock);  // the memory is new

}  // namespace driver
