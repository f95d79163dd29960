// SPDX-License-Identifier: MIT-0
// Any bytes as PTX text: read or refused with a line, and what is read refers to nothing that is not there.
#include "ptx_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try_ptx({reinterpret_cast<const char*>(data), size});
  return 0;
}
