// SPDX-License-Identifier: MIT-0
// How long GPUs took for kernels, copies and memsets: CUPTI's records of activities become lines `executed`.
#pragma once
#include <cupti.h>

#include <cstdint>

namespace recorder {

// Whether the members that are read lie in CUPTI's records where this file has them.
bool knows_activities_of(uint32_t cupti_version);
CUptiResult begin_activities();  // before the first context

}  // namespace recorder
