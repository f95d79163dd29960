// SPDX-License-Identifier: MIT-0
#pragma once
#include <cstdint>
#include <string>

namespace memory {

// Work that a call put into a stream: what the call was, and how many ranges this process had given back before it.
struct Submission {
  std::string call = {};
  uint64_t after_ranges = ~uint64_t(0);  // without --trace and --explain: no range is given back after so many
};

}  // namespace memory
