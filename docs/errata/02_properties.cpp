// SPDX-License-Identifier: MIT-0
// Printed: does not compile: static assertion failed: what describes the memory has fields
// Right: compiles
#include <cuda.h>
#include <type_traits>

#ifdef AS_PRINTED
using Description = CUmemGenericAllocationHandle;
#else
using Description = CUmemAllocationProp;
#endif
static_assert(std::is_class_v<Description>, "what describes the memory has fields; a handle is a number");
