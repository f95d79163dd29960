// SPDX-License-Identifier: MIT-0
// What the driver's compiler refuses: opcodes, modifiers and types that an instruction has not, operands that do not
// fit, and what the text's target or version lacks. All that the grammar lets by and is not simulated stays.
#pragma once
#include "ptx.h"

namespace ptx {

// For a GPU of this compute capability. Throws Error, mostly with the line, in words of ptxas's. What is in doubt is
// taken: that a text passes proves nothing.
void check(const Module&, unsigned capability);

}  // namespace ptx
