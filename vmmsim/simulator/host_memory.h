// SPDX-License-Identifier: MIT-0
// The memory of the machine that simulates: frames are made of it once they are touched.
#pragma once
#include <cstdint>

namespace host_memory {

// Bytes that are left for this process and those that it starts: of the machine, and of the cgroups that it is in.
uint64_t available();

// How many processes the kernel has ended since it started because memory had run out.
uint64_t kills();

}  // namespace host_memory
