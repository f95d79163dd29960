// SPDX-License-Identifier: MIT-0
// --leaks: what the program has not given back when it ends.
#pragma once

namespace driver {

void note_place();  // after a call: what it has made, and may be left, was made here
void log_leaks();   // a line for each place, and one for all

}  // namespace driver
