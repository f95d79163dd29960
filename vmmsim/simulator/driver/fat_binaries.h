// SPDX-License-Identifier: MIT-0
// The PTX that fat binaries have for this machine.
#pragma once
#include <string>
#include <vector>

#include "../ptx/ptx.h"

namespace driver {

std::vector<ptx::Image> images_of(const void* fat_binary);
unsigned capability();  // of the machine's GPUs: 90
[[noreturn]] void refuse_code(const std::vector<ptx::Image>&);
std::string unpack(const ptx::Image&);
// The PTX for this machine in a fat binary of at most this size. Throws Refused, and ptx::Error.
std::string choose_ptx(const void* fat_binary, size_t most);

}  // namespace driver
