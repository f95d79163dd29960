// SPDX-License-Identifier: MIT-0
// Printed: runs on a GPU, and prints: after cuMemRelease: 2097152 bytes returned
// Right: runs on a GPU, and prints: after cuMemRelease: 0 bytes returned, after cuMemUnmap: 2097152 bytes returned
#include <cuda.h>
#include <cstdio>

static size_t free_bytes() {
  size_t available = 0, total = 0;
  cuMemGetInfo(&available, &total);
  return available;
}

int main() {
  const size_t size = 2 << 20;
  CUcontext context;
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
      cuMemCreate(&handle, size, &prop, 0) || cuMemAddressReserve(&address, size, 0, 0, 0) ||
      cuMemMap(address, size, 0, handle, 0))
    return 1;
  const size_t before = free_bytes();
#ifdef AS_PRINTED
  if (cuMemUnmap(address, size) || cuMemRelease(handle)) return 1;
  printf("after cuMemRelease: %zu bytes returned\n", free_bytes() - before);
#else
  if (cuMemRelease(handle)) return 1;  // allowed: the mapping still holds the memory
  printf("after cuMemRelease: %zu bytes returned, ", free_bytes() - before);
  if (cuMemUnmap(address, size)) return 1;
  printf("after cuMemUnmap: %zu bytes returned\n", free_bytes() - before);
#endif
  if (cuMemAddressFree(address, size) || cuDevicePrimaryCtxRelease(0)) return 1;
}
