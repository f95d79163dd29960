// SPDX-License-Identifier: MIT-0
// What a program gives the driver to run: host functions, callbacks of streams, destructors of user objects.
#pragma once
#include <functional>

#include "operations.h"

namespace driver {

// Runs it in the driver's thread for such functions, one after another. It may wait for whatever it likes: kernels and
// copies go on beside it, and no exit waits for it.
void run_for_program(std::function<void()>);
// The same of a function in a stream, which must not make most calls.
void run_host_function(const Operation&, std::function<void()>);

}  // namespace driver
