// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// Grants another GPU access to whole mappings, or takes it away with CU_MEM_ACCESS_FLAGS_PROT_NONE. The rights of other
// GPUs stay. No cudaDeviceEnablePeerAccess: it does nothing for such memory.
inline CUresult grant_to_peer(CUdeviceptr address, size_t size, int owner, int peer,
                              CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  int reaches = 0;
  const CUresult result = cuDeviceCanAccessPeer(&reaches, peer, owner);
  if (result != CUDA_SUCCESS) return result;
  if (!reaches) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = peer;
  access.flags = flags;
  return cuMemSetAccess(address, size, &access, 1);
}
