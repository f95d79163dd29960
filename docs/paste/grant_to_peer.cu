// SPDX-License-Identifier: MIT-0
#ifndef VMM_GRANT_TO_PEER_CU
#define VMM_GRANT_TO_PEER_CU

#include <cuda.h>
#include <cstddef>

// Lets the GPU `peer` use memory of the GPU `owner`, or no longer: flags are ..._PROT_READWRITE, ..._PROT_READ or
// ..._PROT_NONE. peer may be owner. address, size: one or more whole mappings; what is mapped later needs a call of its
// own. Other GPUs keep their rights. cudaDeviceEnablePeerAccess is not needed, and does nothing for such memory.
// Waits for nothing: no kernel may be using a right that you take away, and a right is no signal that data is there.
// Error: PEER_ACCESS_UNSUPPORTED if peer cannot reach owner, else the driver's; of several mappings the first ones may
// then have the new right: call it again, or with ..._PROT_NONE. Threads: yes, each with memory of its own. Needs
// cuInit, and no context.
inline CUresult grant_to_peer(CUdeviceptr address, size_t size, int owner, int peer,
                              CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  if (peer != owner && flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) {
    int reaches = 0;
    const CUresult result = cuDeviceCanAccessPeer(&reaches, peer, owner);
    if (result != CUDA_SUCCESS) return result;
    if (!reaches) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
  }
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = peer;
  access.flags = flags;
  return cuMemSetAccess(address, size, &access, 1);
}

#endif
