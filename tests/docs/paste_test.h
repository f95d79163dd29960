// SPDX-License-Identifier: MIT-0
// What the tests of several snippets look at: what is taken before, and after.
#pragma once
#include <filesystem>
#include "../../common/check.h"

inline int descriptors() {  // that this process has open
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) count += !each.path().empty();
  return count;
}

inline size_t free_memory() {  // of the current GPU, bytes
  size_t available, total;
  CHECK(cuMemGetInfo(&available, &total));
  return available;
}

inline void finish() {  // waits for a kernel, and fails if it has
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}
