// SPDX-License-Identifier: MIT-0
#include <cuda.h>
#include <fcntl.h>
#include <unistd.h>
#include <cstdint>

// Exporter: memory that can leave the process, and an fd for it. The size is a multiple of the granularity.
inline CUresult create_and_export(CUmemGenericAllocationHandle* handle, int* fd, size_t size, int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;  // it cannot be asked for later
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device;
  CUresult result = cuMemCreate(handle, size, &prop, 0);
  if (result != CUDA_SUCCESS) return result;
  result = cuMemExportToShareableHandle(fd, *handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) cuMemRelease(*handle);
  return result;
}

// Importer: makes a handle from the fd, and closes the fd. Reserve, map and grant access as with memory of your own,
// and call cuMemRelease for the handle.
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
