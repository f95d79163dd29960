// SPDX-License-Identifier: MIT-0
#ifndef VMM_GROWABLE_CU
#define VMM_GROWABLE_CU

#include <cuda.h>
#include <fcntl.h>
#include <cstddef>
#include <vector>

// A buffer that grows without moving, used by one GPU or several, and by RDMA if you ask for it. All sizes are bytes.
// Every function returns CUDA_SUCCESS or the driver's error, and none waits: no kernel, copy or network card may be
// using what you take away. Needs cuInit; only dma_buf needs a context. One thread at a time. There is no destructor:
// it would have to stop the GPUs first, and could not report an error.
struct Growable {
  CUdeviceptr base = 0;                 // its first address, which never changes
  size_t reserved = 0;                  // of addresses, from there on
  size_t size = 0;                      // that all of its GPUs may use
  size_t mapped = 0;                    // that have memory; more than `size` only after a growth that was not undone
  size_t chunk = 0;                     // of one allocation, whole granules
  CUmemAllocationProp memory = {};      // where the memory is
  std::vector<CUmemAccessDesc> access;  // who may use it, its own GPU first

  // Takes addresses, and no memory yet. The memory will be the GPU's, in chunks of this size. rdma: a network card may
  // use it; NOT_SUPPORTED if GPU or driver cannot.
  CUresult reserve(int gpu, size_t max_bytes, size_t chunk_bytes, bool rdma = false) {
    if (reserved > 0) return CUDA_ERROR_INVALID_VALUE;  // it has its addresses already
    if (rdma) {
      int able = 0;
      const auto attribute = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;
      const CUresult result = cuDeviceGetAttribute(&able, attribute, gpu);
      if (result != CUDA_SUCCESS) return result;
      if (!able) return CUDA_ERROR_NOT_SUPPORTED;
    }
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = gpu;
    prop.allocFlags.gpuDirectRDMACapable = rdma;
    size_t granule;
    CUresult result = cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) return result;
    const size_t unit = round_up(chunk_bytes > 0 ? chunk_bytes : 1, granule);
    const size_t bytes = round_up(max_bytes, unit);
    CUdeviceptr start;
    if ((result = cuMemAddressReserve(&start, bytes, 0, 0, 0)) != CUDA_SUCCESS) return result;
    base = start, reserved = bytes, chunk = unit, memory = prop;
    access.assign(1, descriptor(gpu));
    return CUDA_SUCCESS;
  }

  // To at least so many bytes; changes nothing if it fails. OUT_OF_MEMORY also if that is more than was reserved. If
  // the driver refuses the undoing too, `size` is as before, and the next grow, shrink or destroy goes on from there.
  CUresult grow(size_t wanted) {
    if (wanted > reserved) return CUDA_ERROR_OUT_OF_MEMORY;
    if (wanted <= size) return CUDA_SUCCESS;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && mapped < wanted) result = add_chunk();
    if (result == CUDA_SUCCESS) result = cuMemSetAccess(base + size, mapped - size, access.data(), access.size());
    if (result == CUDA_SUCCESS) size = mapped;
    else shrink(size);
    return result;
  }

  // To as few chunks as hold so many bytes. If it fails nothing has changed.
  CUresult shrink(size_t wanted) {
    const size_t kept = wanted < mapped ? round_up(wanted, chunk) : mapped;
    if (kept == mapped) return CUDA_SUCCESS;
    const CUresult result = cuMemUnmap(base + kept, mapped - kept);
    if (result != CUDA_SUCCESS) return result;
    mapped = kept;
    if (size > kept) size = kept;
    return CUDA_SUCCESS;
  }

  // Lets one more GPU use all that is there, and all that will be. PEER_ACCESS_UNSUPPORTED if it cannot reach the
  // memory. If it fails, that GPU is not let in; rights that it got for some chunks are taken back. If the driver
  // refuses that too, call let_in again, or keep_out.
  CUresult let_in(int gpu) {
    for (const CUmemAccessDesc& each : access)
      if (each.location.id == gpu) return CUDA_SUCCESS;
    int reaches = 0;
    CUresult result = cuDeviceCanAccessPeer(&reaches, gpu, memory.location.id);
    if (result != CUDA_SUCCESS) return result;
    if (!reaches) return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    access.push_back(descriptor(gpu));
    if (size == 0) return CUDA_SUCCESS;
    CUmemAccessDesc& added = access.back();
    if ((result = cuMemSetAccess(base, size, &added, 1)) == CUDA_SUCCESS) return result;
    added.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    cuMemSetAccess(base, size, &added, 1);
    access.pop_back();
    return result;
  }

  // Takes a GPU's right away, now and for what will be added; not that of the buffer's own GPU (INVALID_VALUE). If it
  // fails, that GPU may have lost its right to some chunks: call it again.
  CUresult keep_out(int gpu) {
    if (access.empty() || gpu == memory.location.id) return CUDA_ERROR_INVALID_VALUE;
    CUmemAccessDesc none = descriptor(gpu);
    none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const CUresult result = size > 0 ? cuMemSetAccess(base, size, &none, 1) : CUDA_SUCCESS;
    for (size_t i = 1; i < access.size() && result == CUDA_SUCCESS; ++i)
      if (access[i].location.id == gpu) access.erase(access.begin() + static_cast<std::ptrdiff_t>(i));
    return result;
  }

  // A dma-buf of [base, base + size), all chunks together, by which an RDMA library registers it. The fd is yours to
  // close. It is for the memory of this moment: get a new one after each growth, and deregister before you shrink.
  // Error: INVALID_CONTEXT without a current context, NOT_SUPPORTED if GPU or driver has no dma-buf, INVALID_VALUE if
  // the buffer is empty; *fd is as before.
  CUresult dma_buf(int* fd) const {
    int made = -1;
    if (size == 0) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = cuMemGetHandleForAddressRange(&made, base, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (result != CUDA_SUCCESS) return result;
    fcntl(made, F_SETFD, FD_CLOEXEC);
    *fd = made;
    return CUDA_SUCCESS;
  }

  // Gives everything back; then it can be reserved anew. After an error call it again: it goes on where it stopped.
  CUresult destroy() {
    CUresult result = shrink(0);
    if (result == CUDA_SUCCESS && reserved > 0) result = cuMemAddressFree(base, reserved);
    if (result == CUDA_SUCCESS) base = reserved = 0;
    return result;
  }

  Growable() = default;
  Growable(const Growable&) = delete;  // two would free the same memory
  Growable& operator=(const Growable&) = delete;

 private:
  // 0 if that is more than a size_t holds; the driver refuses to reserve 0 bytes.
  static size_t round_up(size_t bytes, size_t unit) { return unit > 0 ? (bytes + unit - 1) / unit * unit : 0; }
  static CUmemAccessDesc descriptor(int gpu) {
    CUmemAccessDesc one = {};
    one.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    one.location.id = gpu;
    one.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return one;
  }
  CUresult add_chunk() {
    CUmemGenericAllocationHandle handle;
    CUresult result = cuMemCreate(&handle, chunk, &memory, 0);
    if (result != CUDA_SUCCESS) return result;
    if (memory.allocFlags.gpuDirectRDMACapable) {  // a request, which may be granted or not
      CUmemAllocationProp granted = {};
      result = cuMemGetAllocationPropertiesFromHandle(&granted, handle);
      if (result == CUDA_SUCCESS && !granted.allocFlags.gpuDirectRDMACapable) result = CUDA_ERROR_NOT_SUPPORTED;
    }
    if (result == CUDA_SUCCESS) result = cuMemMap(base + mapped, chunk, 0, handle, 0);
    if (result == CUDA_SUCCESS) mapped += chunk;
    const CUresult released = cuMemRelease(handle);  // the mapping keeps the memory; without one this frees it
    return result != CUDA_SUCCESS ? result : released;
  }
};

#endif
