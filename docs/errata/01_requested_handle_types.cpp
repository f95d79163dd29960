// SPDX-License-Identifier: MIT-0
// Printed: does not compile: has no member named 'requestedHandleType'
// Right: compiles
#include <cuda.h>

CUmemAllocationProp exportable() {
  CUmemAllocationProp prop = {};
#ifdef AS_PRINTED
  prop.requestedHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
#else
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
#endif
  return prop;
}
