// SPDX-License-Identifier: MIT-0
// Options of the command line that are no properties of a machine. Whoever minds one asks options() (this_machine.h).
#pragma once
#include <cstdint>

namespace memory {

// Plain data: it lies in memory that processes share.
struct Options {
  char fail_call[64] = "";  // --fail CALL:N+@K=ERROR; empty: none
  uint64_t fail_number = 0;
  int fail_process = 0;     // 0: of all processes together; negative: of this thread alone
  int fail_error = 0;       // the CUresult or cudaError_t
  uint64_t fail_later = 0;  // 1: each from the Nth on
  bool explain = false, leaks = false, trace = false;
  bool strict = false;              // an ordinary access to a multicast address is a fault
  bool adversarial_timing = false;  // sleeps and time limits are over at once, processes end late, descriptors differ
  bool unsupported_ends = false;    // the launch of a kernel that is not simulated ends the process
  int slow_after = 10;              // seconds of a kernel, after which the user is told
  int slow_import = 0;              // seconds for which an import waits at most, until the memory's maker has ended
  int slow_process = 0;             // whose imports wait, for all others; 0: each import, for its memory's maker
  int late_kernels = 0;             // milliseconds for which a kernel does not begin, unless the program waits for it
};

}  // namespace memory
