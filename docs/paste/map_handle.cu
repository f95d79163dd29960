// SPDX-License-Identifier: MIT-0
#ifndef VMM_MAP_HANDLE_CU
#define VMM_MAP_HANDLE_CU

#include <cuda.h>
#include <cstddef>

// Maps the memory of a handle, your own or an imported one, at new addresses, and lets `device` use it.
// size: bytes, the whole of what was created; an importer has to be told. alignment: bytes; 0 is the driver's choice.
// Error: the driver's; nothing stays mapped or reserved, and *address is as before. The handle stays yours either way:
// release it as soon as you like, for a mapping keeps the memory. Threads: yes. Needs cuInit, and no context.
inline CUresult map_handle(CUdeviceptr* address, CUmemGenericAllocationHandle handle, size_t size, int device,
                           CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE, size_t alignment = 0) {
  CUdeviceptr mapped;
  CUresult result = cuMemAddressReserve(&mapped, size, alignment, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemMap(mapped, size, 0, handle, 0);
  if (result == CUDA_SUCCESS) {
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device;
    access.flags = flags;
    result = cuMemSetAccess(mapped, size, &access, 1);
    if (result != CUDA_SUCCESS) cuMemUnmap(mapped, size);
  }
  if (result != CUDA_SUCCESS) cuMemAddressFree(mapped, size);
  else *address = mapped;
  return result;
}

// Undoes map_handle. Waits for nothing: no kernel and no copy may be using the memory. Error: the driver's; call it
// again with the same address and size, and it goes on where it stopped. Threads: yes, each with addresses of its own.
inline CUresult unmap_handle(CUdeviceptr address, size_t size) {
  const CUresult result = cuMemUnmap(address, size);  // succeeds where nothing is mapped any more
  return result != CUDA_SUCCESS ? result : cuMemAddressFree(address, size);
}

#endif
