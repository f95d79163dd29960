// SPDX-License-Identifier: MIT-0
#ifndef VMM_SHARE_FD_CU
#define VMM_SHARE_FD_CU

#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>
#include <cstddef>
#include <cstdint>

// Exporter: memory that can leave the process, and a file descriptor for it. size: bytes, a multiple of the
// granularity. Both are yours: release the handle, and close the fd when it has been sent; while it is open, in any
// process or in a socket, the memory stays. Error: the driver's; nothing stays, and *handle and *fd are as before.
// Threads: yes. Needs cuInit, and no context.
inline CUresult create_and_export(CUmemGenericAllocationHandle* handle, int* fd, size_t size, int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // it cannot be asked for later
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  CUmemGenericAllocationHandle memory;
  CUresult result = cuMemCreate(&memory, size, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemExportToShareableHandle(fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) cuMemRelease(memory);
  else *handle = memory;
  return result;
}

// Importer: makes a handle from the fd, and closes the fd, also after an error. The handle is yours: map it, and
// release it. Error: the driver's, UNKNOWN if the fd is not one of exported memory; *handle is as before. Threads: yes.
// Needs cuInit, and no context.
inline CUresult import_and_close(CUmemGenericAllocationHandle* handle, int fd) {
  if (fd == 0) {  // standard input was closed; the driver would take 0 for a null pointer
    fd = fcntl(0, F_DUPFD_CLOEXEC, 1);
    close(0);
  }
  void* const value = reinterpret_cast<void*>(static_cast<intptr_t>(fd));  // the fd itself, not its address
  const CUresult result = cuMemImportFromShareableHandle(handle, value, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(fd);
  return result;
}

#endif
