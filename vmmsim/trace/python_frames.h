// SPDX-License-Identifier: MIT-0
// Which lines of Python led to a call of this thread. The simulator's trace and the recorder for real GPUs name them.
#pragma once
#include <string>
#include <vector>

namespace trace {

// {"/home/me/program.py:12:main", ...}: file, line and function, the innermost first. Packages, and what comes with
// Python, are left out but for the innermost. Empty if no Python of 3.10 to 3.13 runs in this thread.
std::vector<std::string> python_frames();

}  // namespace trace
