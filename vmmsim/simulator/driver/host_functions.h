// SPDX-License-Identifier: MIT-0
// What a program gives the driver to run: host functions, callbacks of streams, destructors of user objects.
#pragma once
#include <functional>

#include "operations.h"

namespace driver {

// Runs it in a thread of the driver, one for each context, after what that was given before. It may wait for whatever
// it likes: kernels, copies and other contexts go on beside it, and no exit waits for it.
void run_for_program(CUcontext, std::function<void()>);
// The same of a function in a stream, which must not make most calls.
void run_host_function(const Operation&, std::function<void()>);
// The context ends, and its thread with it, when it has run all.
void end_host_functions(CUcontext);

}  // namespace driver
