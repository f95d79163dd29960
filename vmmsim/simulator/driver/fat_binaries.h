// SPDX-License-Identifier: MIT-0
// The PTX that fat binaries have for this machine.
#pragma once
#include <string>
#include <vector>

#include "../ptx/ptx.h"

namespace driver {

std::vector<ptx::Image> images_of(const void* fat_binary);
// The newest version of PTX that the driver takes: 90 of CUDA 13.0, 88 of 12.9.
unsigned newest_ptx_version();
unsigned capability();  // of the machine's GPUs: 90
[[noreturn]] void refuse_code(const std::vector<ptx::Image>&);
std::string unpack(const ptx::Image&);
// The PTX for this machine in a fat binary of at most this size. Throws Refused, and ptx::Error.
std::string choose_ptx(const void* fat_binary, size_t most);

}  // namespace driver
