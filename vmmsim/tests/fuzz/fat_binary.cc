// SPDX-License-Identifier: MIT-0
// Any bytes as a fat binary: read or refused.
#include "ptx_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_fat_binary(std::as_bytes(std::span(data, size)));
  return 0;
}
