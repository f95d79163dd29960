// SPDX-License-Identifier: MIT-0
// Printed: does not compile: invalid conversion from 'CUmemGenericAllocationHandle\*'
// Right: compiles
#include <cuda.h>

CUresult add(CUmemGenericAllocationHandle team, CUdevice device) {
#ifdef AS_PRINTED
  return cuMulticastAddDevice(&team, device);
#else
  return cuMulticastAddDevice(team, device);
#endif
}
