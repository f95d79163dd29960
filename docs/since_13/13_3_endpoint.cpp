// SPDX-License-Identifier: MIT-0
// New: cuLogicalEndpointCreate
#include <cuda.h>

// The owner: a name for memory that other machines can write to. Not ready yet? Ask again, then bind.
CUresult make(CUdevice owner, size_t size, CUlogicalEndpointId* id) {
  CUlogicalEndpointProp what = {};
  what.type = CU_LOGICAL_ENDPOINT_TYPE_UNICAST;
  what.unicast.device = owner;
  what.size = size;  // a multiple of what cuLogicalEndpointGetLimits says
  what.ipcHandleTypes = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC;
  CUresult result = cuLogicalEndpointIdReserve(id, 1);
  if (result != CUDA_SUCCESS) return result;
  result = cuLogicalEndpointCreate(*id, &what);
  if (result != CUDA_SUCCESS) cuLogicalEndpointIdRelease(*id, 1);
  return result;
}
CUresult bind_when_ready(CUlogicalEndpointId id, CUdevice owner, CUmemGenericAllocationHandle memory, size_t size) {
  int ready = 0;
  const CUresult result = cuLogicalEndpointQuery(id, 1, &ready);
  if (result != CUDA_SUCCESS) return result;
  return ready ? cuLogicalEndpointBindMem(id, owner, 0, memory, 0, size, 0) : CUDA_ERROR_NOT_READY;
}

// The other memory, behind the same name: who has imported it imports nothing anew.
CUresult rebind(CUlogicalEndpointId id, CUdevice owner, CUmemGenericAllocationHandle other, size_t size) {
  const CUresult result = cuLogicalEndpointUnbind(id, owner, 0, size);
  return result == CUDA_SUCCESS ? cuLogicalEndpointBindMem(id, owner, 0, other, 0, size, 0) : result;
}

// What goes to the other machine, and the name that it has there: an id which that process has reserved.
CUresult hand_over(CUlogicalEndpointId mine, CUlogicalEndpointFabricHandle* handle) {
  return cuLogicalEndpointExport(handle, mine, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC);
}
CUresult take(const CUlogicalEndpointFabricHandle& handle, CUlogicalEndpointId reserved) {
  return cuLogicalEndpointImport(reserved, &handle, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC);
}
