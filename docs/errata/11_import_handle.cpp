// SPDX-License-Identifier: MIT-0
// Printed: does not compile: invalid conversion from 'CUmemGenericAllocationHandle'
// Right: compiles
#include <cuda.h>

CUmemGenericAllocationHandle import(CUmemFabricHandle* shareable) {
  CUmemGenericAllocationHandle handle;
#ifdef AS_PRINTED
  cuMemImportFromShareableHandle(handle, shareable, CU_MEM_HANDLE_TYPE_FABRIC);
#else
  cuMemImportFromShareableHandle(&handle, shareable, CU_MEM_HANDLE_TYPE_FABRIC);
#endif
  return handle;
}
