// SPDX-License-Identifier: MIT-0
// New: CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

// A host address for memory on a GPU, or null. `address` and `size` are whole pages of the host; all of the range is
// mapped, from one GPU, with the same properties. On x86 write to it rather than read: the mapping is write-combined.
// End it by munmap. Mapped other memory there? Then this address still leads to the old.
void* map_for_host(CUdeviceptr address, size_t size, CUdevice gpu) {
  int supported = 0, fd = -1;
  if (cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED, gpu) != CUDA_SUCCESS || !supported)
    return nullptr;
  if (cuMemGetHandleForAddressRange(&fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) != CUDA_SUCCESS)
    return nullptr;
  void* const host = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);  // the mapping keeps what it needs
  return host == MAP_FAILED ? nullptr : host;
}
