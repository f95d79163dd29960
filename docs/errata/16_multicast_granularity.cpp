// SPDX-License-Identifier: MIT-0
// Printed: does not compile: cannot convert 'CUmemAllocationGranularity_flags_enum' to 'CUmulticastGranularity_flags'
// Right: compiles
#include <cuda.h>

size_t granule(const CUmulticastObjectProp* team) {
  size_t bytes = 0;
#ifdef AS_PRINTED
  cuMulticastGetGranularity(&bytes, team, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
#else
  cuMulticastGetGranularity(&bytes, team, CU_MULTICAST_GRANULARITY_MINIMUM);
#endif
  return bytes;
}
