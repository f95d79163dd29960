// SPDX-License-Identifier: MIT-0
// Printed: does not compile: CUmemAllocationProp.* has no member named 'numDevices'
// Right: compiles
#include <cuda.h>

CUresult describe(int devices, CUmemGenericAllocationHandle* object) {
#ifdef AS_PRINTED
  CUmemAllocationProp team = {};
#else
  CUmulticastObjectProp team = {};
#endif
  team.numDevices = devices;
  team.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return cuMulticastCreate(object, &team);
}
