// SPDX-License-Identifier: MIT-0
// Printed: runs on a GPU, and prints: import: CUDA_ERROR_UNKNOWN
// Right: runs on a GPU, and prints: import: CUDA_SUCCESS
#include <cuda.h>
#include <unistd.h>
#include <cstdint>
#include <cstdio>

int main() {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle exported, imported;
  int fd;
  if (cuInit(0) || cuMemCreate(&exported, 2 << 20, &prop, 0) ||
      cuMemExportToShareableHandle(&fd, exported, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
    return 1;
#ifdef AS_PRINTED
  CUresult result = cuMemImportFromShareableHandle(&imported, (void*)&fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#else
  CUresult result =
      cuMemImportFromShareableHandle(&imported, (void*)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
#endif
  const char* name = "an error without a name";
  cuGetErrorName(result, &name);
  printf("import: %s\n", name);
  if (result == CUDA_SUCCESS) cuMemRelease(imported);
  close(fd);
  cuMemRelease(exported);
}
