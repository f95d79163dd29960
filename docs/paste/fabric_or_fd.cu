// SPDX-License-Identifier: MIT-0
#ifndef VMM_FABRIC_OR_FD_CU
#define VMM_FABRIC_OR_FD_CU

#include "share_fd.cu"

// Memory to share by a fabric handle where that can be had, and else by a file descriptor. No function needs a context;
// cuInit must have been called. Threads: yes, all of these.

// What the importer has to be told: send it as it is, by whatever you like. If `type` is
// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, a descriptor has to come too: export_fd, and send_fd.
struct ShareMessage {
  CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_NONE;
  uint64_t size = 0;              // bytes to map
  CUmemFabricHandle fabric = {};  // if `type` is CU_MEM_HANDLE_TYPE_FABRIC
};

// After which errors of creating, exporting or importing fabric memory to go on with a descriptor. A mistake of yours
// among them, such as a wrong size, comes back from that. Stop at all others: a descriptor does not cure OUT_OF_MEMORY,
// and would hide a fabric that is not ready yet (SYSTEM_NOT_READY, 919) or out of order (ILLEGAL_STATE).
inline bool try_descriptor(CUresult result) {
  return result == CUDA_ERROR_NOT_PERMITTED ||   // no IMEX channel that this process can open
         result == CUDA_ERROR_NOT_SUPPORTED ||   // an import, and there is no channel at all
         result == CUDA_ERROR_INVALID_VALUE ||   // an export, and the GPU has no fabric handles
         result == CUDA_ERROR_INVALID_HANDLE ||  // an import from another NVLink or IMEX domain
         result == CUDA_ERROR_INVALID_DEVICE;    // an import in a container without the exporter's GPU
}

// Exporter: creates memory, and fills in the message. size: bytes, a multiple of the granularity. The handle is yours:
// keep it, or a mapping, until every importer has its own. Error: the driver's; nothing stays, and *handle and *message
// are as before.
inline CUresult create_fabric_or_fd(CUmemGenericAllocationHandle* handle, ShareMessage* message, size_t size,
                                    int device) {
  const auto fabric = CU_MEM_HANDLE_TYPE_FABRIC, fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  ShareMessage made;
  made.size = size;
  CUmemGenericAllocationHandle memory;
  int able = 0;  // stays 0 with a driver that has never heard of the attribute, and answers INVALID_VALUE
  CUresult result = cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, device);
  if (result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_VALUE) return result;
  if (able) {
    prop.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(fabric | fd);  // fd: if an import is refused
    result = cuMemCreate(&memory, size, &prop, 0);
    if (result == CUDA_SUCCESS) {
      made.type = fabric;
      result = cuMemExportToShareableHandle(&made.fabric, memory, fabric, 0);
      if (result != CUDA_SUCCESS) cuMemRelease(memory);
    }
    if (result != CUDA_SUCCESS && !try_descriptor(result)) return result;
  }
  if (!able || result != CUDA_SUCCESS) {
    made.type = prop.requestedHandleTypes = fd;
    if ((result = cuMemCreate(&memory, size, &prop, 0)) != CUDA_SUCCESS) return result;
  }
  *handle = memory;
  *message = made;
  return CUDA_SUCCESS;
}

// Exporter: a descriptor of that memory, also if the message names the fabric. It is yours: close it when it has been
// sent. Error: the driver's, OPERATING_SYSTEM if this process may open no more; *fd is as before.
inline CUresult export_fd(int* fd, CUmemGenericAllocationHandle handle) {
  return cuMemExportToShareableHandle(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

// Importer: makes a handle from what the message names, and never from the other. fd: the descriptor that came, or -1;
// it is closed in any case. The handle is yours: map it, and release it. Error: INVALID_VALUE if a descriptor is
// missing, or came with another type; else the driver's; *handle is as before. If try_descriptor says so, an importer
// on the same machine asks the exporter for a descriptor, and imports that: set message.type.
inline CUresult import_fabric_or_fd(CUmemGenericAllocationHandle* handle, const ShareMessage& message, int fd) {
  if (message.type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && fd >= 0) return import_and_close(handle, fd);
  CUmemFabricHandle bytes = message.fabric;
  if (message.type == CU_MEM_HANDLE_TYPE_FABRIC && fd < 0)
    return cuMemImportFromShareableHandle(handle, &bytes, CU_MEM_HANDLE_TYPE_FABRIC);  // by its address, unlike an fd
  if (fd >= 0) close(fd);
  return CUDA_ERROR_INVALID_VALUE;
}

#endif
