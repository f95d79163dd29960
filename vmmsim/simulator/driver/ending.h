// SPDX-License-Identifier: MIT-0
// The end of the process, and the trace of which it is the last line.
#pragma once
#include <cstdint>

#include "../../trace/line.h"

namespace driver {

bool is_traced();      // this process, and it has called cuInit
uint64_t next_line();  // its number
trace::File& the_trace();

void watch_end();             // from cuInit on
void trace_exit(int status);  // once, whatever ends the process: safe in a handler of a signal

}  // namespace driver
