// SPDX-License-Identifier: MIT-0
// What is asked of every launch of a kernel. These throw Refused.
#pragma once
#include "../gpu/gpu.h"
#include "work.h"

namespace driver {

void require_attributes(const Attributes&);  // as a launch may have them
void require_grid_size(const gpu::Dimensions&);

}  // namespace driver
