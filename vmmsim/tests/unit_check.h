// SPDX-License-Identifier: MIT-0
// For a component's test by itself: each condition that does not hold is told with its place, and counted.
#pragma once
#include <cstdio>

inline int failures = 0;

#define CHECK(condition)                                                                      \
  do {                                                                                        \
    if (!(condition)) ++failures, std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
  } while (false)

// Says how it went; the exit status.
inline int end_of_checks() {
  std::puts(failures ? "FAILED" : "OK");
  return failures ? 1 : 0;
}
