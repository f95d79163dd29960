// SPDX-License-Identifier: MIT-0
// Unusual calls of the driver and their answers: ordinary memory, copies, pools, VMM with two things wrong at once; and
// what a call about memory answers while a kernel waits.
#include "driver_questions.h"

static std::string pointer_attribute(CUpointer_attribute what, CUdeviceptr pointer, CUdeviceptr base) {
  unsigned long long value = 0;
  const CUresult result = cuPointerGetAttribute(&value, what, pointer);
  if (result == CUDA_SUCCESS && value >= base && value < base + 16 * MiB)
    return plain(result) + ", " + std::to_string(value - base) + " bytes into it";
  if (what == CU_POINTER_ATTRIBUTE_CONTEXT || what == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
      what == CU_POINTER_ATTRIBUTE_BUFFER_ID || what == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
    return plain(result) + (result ? "" : value ? ", something" : ", nothing");
  return shown(result, int(value));
}
static std::string pool_attribute(CUmemoryPool which, CUmemPool_attribute what) {
  CHECK(cuCtxSynchronize());
  cuuint64_t value = 0;
  const CUresult result = cuMemPoolGetAttribute(which, what, &value);
  return shown(result, what <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? int(value) : (long long)value);
}
static std::string fill_2d(size_t pitch, size_t width, size_t height) {
  return plain(cuMemsetD2D8(memory, pitch, 1, width, height));
}
// 8 rows of 8 bytes to the GPU.
static CUresult copy_2d(size_t from_pitch, size_t to_pitch) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = pageable;
  copy.srcPitch = from_pitch;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = memory;
  copy.dstPitch = to_pitch;
  copy.WidthInBytes = copy.Height = 8;
  return cuMemcpy2D(&copy);
}
// What an allocation takes of its block.
static std::string allocated(size_t bytes) {
  CHECK(cuMemAlloc(&address, bytes));
  CHECK(cuMemGetAddressRange(nullptr, &size, address));
  return std::to_string(size);
}

// Every attribute of every kind of memory that the header has.
static void tables() {
  const struct {
    const char* name;
    CUdeviceptr address, base;
  } kinds[] = {{"cuMemAlloc's memory", memory + 8, memory},
               {"cuMemAllocAsync's memory", memory_async + 8, memory_async},
               {"host memory", CUdeviceptr(host) + 8, CUdeviceptr(host)},
               {"managed memory", managed + 8, managed},
               {"a mapping", mapping + 8, mapping},
               {"a hole", hole, hole},
               {"a host variable", CUdeviceptr(pageable), CUdeviceptr(pageable)}};
  for (const auto& kind : kinds)
    for (int what = 1; what <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; ++what)
      if (what != CU_POINTER_ATTRIBUTE_P2P_TOKENS &&
          (what != CU_POINTER_ATTRIBUTE_MAPPING_SIZE || kind.address != memory_async + 8))  // pools take more at a time
        say("pointer attribute " + std::to_string(what) + " of " + kind.name,
            pointer_attribute(CUpointer_attribute(what), kind.address, kind.base));
  for (const auto& kind : kinds) {  // several at once: no error for what a pointer has not
    unsigned type = 77, is_managed = 77;
    int ordinal = 77;
    void* values[] = {&type, &is_managed, &ordinal};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    const CUresult result = cuPointerGetAttributes(3, wanted, values, kind.address);
    say(std::string("type, managed, ordinal of ") + kind.name,
        shown(result, type) + ", " + std::to_string(int(is_managed)) + ", " + std::to_string(ordinal));
  }
}

static const Question questions[] = {
    // Ordinary memory.
    CALL("cuMemAlloc of 0 bytes", cuMemAlloc(&address, 0)),
    CALL("cuMemAlloc of 2^60 bytes", cuMemAlloc(&address, size_t(1) << 60)),
    CALL("cuMemAlloc of 2^64 - 1 bytes", cuMemAlloc(&address, ~size_t(0))),
    CALL("cuMemFree 1 byte in", cuMemFree(memory + 1)),
    CALL("cuMemFree of a host pointer", cuMemFree(CUdeviceptr(pageable))),
    CALL("cuMemFree of cuMemAllocHost's memory", cuMemFree(CUdeviceptr(host))),
    ASK("cuMemFree twice",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAlloc(&p, 8 * MiB));
          const CUresult r = cuMemFree(p);
          return both(r, cuMemFree(p));
        }()),
    CALL("cuMemFree of cuMemAllocAsync's memory", (CHECK(cuMemAllocAsync(&address, 8, stream)), cuMemFree(address))),
    CALL("cuMemFree of managed memory",
         (CHECK(cuMemAllocManaged(&address, 8, CU_MEM_ATTACH_GLOBAL)), cuMemFree(address))),
    ASK("alignment of cuMemAlloc of 1 byte",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAlloc(&p, 1));
          return p % 512 ? "less than 512" : "512";
        }()),
    ASK("size of cuMemAlloc of 1 byte", allocated(1)),
    ASK("size of cuMemAlloc of 3 MiB", allocated(3 * MiB)),
    CALL("address range of host memory", cuMemGetAddressRange(nullptr, nullptr, CUdeviceptr(host))),
    CALL("address range of managed memory", cuMemGetAddressRange(nullptr, nullptr, managed)),
    CALL("address range of cuMemAllocAsync's memory", cuMemGetAddressRange(nullptr, nullptr, memory_async)),
    CALL("cuMemAllocPitch, element 3", cuMemAllocPitch(&address, &size, 100, 10, 3)),
    CALL("cuMemAllocPitch, width 0", cuMemAllocPitch(&address, &size, 0, 10, 4)),
    CALL("cuMemAllocPitch, height 0", cuMemAllocPitch(&address, &size, 100, 0, 4)),
    VALUE("pitch of rows of 100 bytes", size, cuMemAllocPitch(&address, &size, 100, 10, 4)),
    CALL("cuMemAllocHost of 0 bytes", cuMemAllocHost(&pointer, 0)),
    CALL("cuMemHostAlloc, flags 0x80", cuMemHostAlloc(&pointer, 8, 0x80)),
    CALL("cuMemFreeHost of null", cuMemFreeHost(nullptr)),
    CALL("cuMemFreeHost 1 byte in", cuMemFreeHost(host + 1)),
    CALL("cuMemFreeHost of a host variable", cuMemFreeHost(pageable)),
    CALL("cuMemFreeHost of device memory", cuMemFreeHost((void*)memory)),
    ASK("device pointer of host memory",
        [] {
          CUdeviceptr p = 0;
          const CUresult r = cuMemHostGetDevicePointer(&p, host + 8, 0);
          return plain(r) + (p == CUdeviceptr(host + 8) ? ", the same" : ", another");
        }()),
    CALL("device pointer of host memory, flags 1", cuMemHostGetDevicePointer(&address, host, 1)),
    CALL("device pointer of a host variable", cuMemHostGetDevicePointer(&address, pageable, 0)),
    VALUE("flags of host memory", word, cuMemHostGetFlags(&word, host)),
    CALL("flags of a host variable", cuMemHostGetFlags(&word, pageable)),
    CALL("cuMemAllocManaged of 0 bytes", cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL)),
    CALL("cuMemAllocManaged, flags 0", cuMemAllocManaged(&address, 8, 0)),
    CALL("cuMemAllocManaged, flags 3", cuMemAllocManaged(&address, 8, 3)),
    CALL("prefetch ordinary memory", cuMemPrefetchAsync(memory, 4096, good.location, 0, stream)),
    CALL("prefetch managed memory", cuMemPrefetchAsync(managed, 4096, good.location, 0, stream)),
    CALL("advise ordinary memory", cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, good.location)),
    CALL("advise managed memory", cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, good.location)),
    CALL("IPC handle of cuMemAlloc's memory", cuIpcGetMemHandle(&ipc, memory)),
    CALL("IPC handle 1 byte in", cuIpcGetMemHandle(&ipc, memory + 1)),
    CALL("IPC handle of cuMemAllocAsync's memory", cuIpcGetMemHandle(&ipc, memory_async)),
    CALL("IPC handle of host memory", cuIpcGetMemHandle(&ipc, CUdeviceptr(host))),
    CALL("IPC handle of managed memory", cuIpcGetMemHandle(&ipc, managed)),
    CALL("IPC handle of null", cuIpcGetMemHandle(&ipc, 0)),
    CALL("open an IPC handle of zeros", cuIpcOpenMemHandle(&address, {}, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)),
    CALL("open one's own IPC handle", (CHECK(cuIpcGetMemHandle(&ipc, memory)),
                                       cuIpcOpenMemHandle(&address, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))),
    CALL("open an IPC handle, flags 0", (CHECK(cuIpcGetMemHandle(&ipc, memory)), cuIpcOpenMemHandle(&address, ipc, 0))),
    CALL("close IPC memory that is none", cuIpcCloseMemHandle(memory)),
    // Copies and memsets.
    CALL("copy 0 bytes from null to null", cuMemcpy(0, 0, 0)),
    CALL("copy from null", cuMemcpy(memory, 0, 8)),
    CALL("copy between host variables", cuMemcpy(CUdeviceptr(pageable), CUdeviceptr(pageable + 100), 8)),
    CALL("copy HtoD to a host variable", cuMemcpyHtoD(CUdeviceptr(pageable), pageable + 100, 8)),
    CALL("copy HtoD from device memory", cuMemcpyHtoD(memory, (void*)(memory + 4096), 8)),
    CALL("copy HtoD from null", cuMemcpyHtoD(memory, nullptr, 8)),
    CALL("copy HtoD to host memory", cuMemcpyHtoD(CUdeviceptr(host), pageable, 8)),
    CALL("copy DtoH from a host variable", cuMemcpyDtoH(pageable, CUdeviceptr(pageable + 100), 8)),
    CALL("copy DtoH to device memory", cuMemcpyDtoH((void*)memory, memory + 4096, 8)),
    CALL("copy DtoD from a host variable", cuMemcpyDtoD(memory, CUdeviceptr(pageable), 8)),
    CALL("copy DtoD from host memory", cuMemcpyDtoD(memory, CUdeviceptr(host), 8)),
    CALL("copy past the end of 4 MiB", cuMemcpyDtoH(pageable, memory + 4 * MiB - 4, 8)),
    CALL("copy 1 byte past a small allocation", (CHECK(cuMemAlloc(&address, 1)), cuMemcpyDtoH(pageable, address, 2))),
    CALL("copy in the legacy stream", cuMemcpyHtoDAsync(memory, pageable, 8, CU_STREAM_LEGACY)),
    CALL("copy in the per-thread stream", cuMemcpyHtoDAsync(memory, pageable, 8, CU_STREAM_PER_THREAD)),
    CALL("copy to a peer, null contexts", cuMemcpyPeer(memory, nullptr, memory + 4096, nullptr, 8)),
    CALL("copy to a peer that is itself", cuMemcpyPeer(memory, context, memory + 4096, context, 8)),
    CALL("2D copy of nothing asked", cuMemcpy2D(nullptr)),
    CALL("2D copy, no types", cuMemcpy2D(temporary(CUDA_MEMCPY2D{}))),
    CALL("2D copy, no types, 8 x 8",
         [] {
           CUDA_MEMCPY2D c = {};
           c.WidthInBytes = c.Height = 8;
           return cuMemcpy2D(&c);
         }()),
    CALL("2D copy, pitch smaller than a row", copy_2d(4, 8)),
    CALL("2D copy", copy_2d(16, 512)),
    CALL("memset of a host variable", cuMemsetD8(CUdeviceptr(pageable), 1, 8)),
    CALL("memset of host memory", cuMemsetD8(CUdeviceptr(host), 1, 8)),
    CALL("memset of managed memory", cuMemsetD8(managed, 1, 8)),
    CALL("memset past the end", cuMemsetD8(memory + 4 * MiB - 4, 1, 8)),
    CALL("memset of 2^62 words", cuMemsetD32(memory, 1, size_t(1) << 62)),
    ASK("2D memset", fill_2d(512, 100, 10)),
    ASK("2D memset, pitch smaller than a row", fill_2d(50, 100, 10)),
    ASK("2D memset, pitch smaller than a row, one row", fill_2d(50, 100, 1)),
    ASK("2D memset, no rows", fill_2d(512, 100, 0)),
    ASK("2D memset past the end", fill_2d(MiB, 100, 6)),
    // Pools.
    CALL("cuMemAllocAsync of 0 bytes", cuMemAllocAsync(&address, 0, stream)),
    CALL("cuMemAllocAsync of 2^60 bytes", cuMemAllocAsync(&address, size_t(1) << 60, stream)),
    CALL("cuMemFreeAsync of null", cuMemFreeAsync(0, stream)),
    CALL("cuMemFreeAsync of cuMemAlloc's memory", (CHECK(cuMemAlloc(&address, 8)), cuMemFreeAsync(address, stream))),
    CALL("cuMemFreeAsync of a mapping", cuMemFreeAsync(mapping, stream)),
    CALL("cuMemFreeAsync 1 byte in", cuMemFreeAsync(memory_async + 1, stream)),
    ASK("cuMemFreeAsync twice",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAllocAsync(&p, 8, stream));
          const CUresult r = cuMemFreeAsync(p, stream);
          return both(r, cuMemFreeAsync(p, stream));
        }()),
    CALL("allocate from the null pool", cuMemAllocFromPoolAsync(&address, 8, nullptr, stream)),
    CALL("allocate from its own pool", cuMemAllocFromPoolAsync(&address, 8, own_pool, stream)),
    CALL("destroy the default pool", cuMemPoolDestroy(pool)),
    CALL("destroy the null pool", cuMemPoolDestroy(nullptr)),
    CALL("trim the null pool", cuMemPoolTrimTo(nullptr, 0)),
    CALL("trim the default pool", cuMemPoolTrimTo(pool, 0)),
    CALL("use the null pool", cuDeviceSetMemPool(gpu, nullptr)),
    CALL("use its own pool, on GPU 99", cuDeviceSetMemPool(99, own_pool)),
    CALL("default pool of GPU 99", cuDeviceGetDefaultMemPool(&a_pool, 99)),
    ASK("pool in use",
        [] {
          CUmemoryPool p;
          CHECK(cuDeviceGetMemPool(&p, gpu));
          return p == pool ? "the default" : "another";
        }()),
    ASK("follow event dependencies", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)),
    ASK("opportunistic reuse", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)),
    ASK("internal dependencies", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)),
    ASK("release threshold", pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)),
    ASK("used in the default pool", pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)),
    ASK("used in an empty pool", pool_attribute(own_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)),
    ASK("pool attribute 99", pool_attribute(pool, CUmemPool_attribute(99))),
    CALL("set what is used", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, temporary(cuuint64_t(5)))),
    CALL("set the most used to 0",
         cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, temporary(cuuint64_t(0)))),
    CALL("set the most used to 5",
         cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, temporary(cuuint64_t(5)))),
    CALL("pool of no properties", cuMemPoolCreate(&a_pool, temporary(CUmemPoolProps{}))),
    CALL("pool on GPU 99",
         [] {
           CUmemPoolProps p = {};
           p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
           p.location = good.location;
           p.location.id = 99;
           CUmemoryPool made;
           return cuMemPoolCreate(&made, &p);
         }()),
    // VMM, with two things wrong at once.
    CALL("create: bad size, bad flags", cuMemCreate(&a_handle, 5, &good, 1)),
    CALL("create: bad size, GPU 99", cuMemCreate(&a_handle, 5, temporary(on_gpu(99)), 0)),
    CALL("create: good size, GPU 99", cuMemCreate(&a_handle, page, temporary(on_gpu(99)), 0)),
    CALL("create: fabric and a bad size",
         cuMemCreate(&a_handle, 5, temporary(on_gpu(gpu, CU_MEM_HANDLE_TYPE_FABRIC)), 0)),
    CALL("create: too much, bad flags", cuMemCreate(&a_handle, size_t(1) << 50, &good, 1)),
    CALL("create: too much", cuMemCreate(&a_handle, size_t(1) << 50, &good, 0)),
    CALL("map: offset over a mapping", cuMemMap(mapping, 4 * MiB, page, handle, 0)),
    CALL("map: half the size over a mapping", cuMemMap(mapping, page, 0, handle, 0)),
    CALL("map: half the size, bad address", cuMemMap(hole + 1, page, 0, handle, 0)),
    CALL("set access: bad size, count 0", cuMemSetAccess(mapping, 5, &open_to_all, 0)),
    CALL("set access: null descriptors, a hole", cuMemSetAccess(hole, page, nullptr, 1)),
    CALL("export: bad handle, bad type",
         cuMemExportToShareableHandle(&number, 12345, CUmemAllocationHandleType(77), 0)),
    CALL("export: bad flags, other type", cuMemExportToShareableHandle(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 1)),
    CALL("granularity: option 9", cuMemGetAllocationGranularity(&size, &good, CUmemAllocationGranularity_flags(9))),
    CALL("granularity: option 9, GPU 99",
         cuMemGetAllocationGranularity(&size, temporary(on_gpu(99)), CUmemAllocationGranularity_flags(9))),
};

// Each has a process of its own.
static const Question endings[] = {
    ASK("kernel waits, cuMemUnmap elsewhere", while_a_kernel_waits([] { return cuMemUnmap(mapping, 4 * MiB); })),
    ASK("kernel waits, cuMemCreate", while_a_kernel_waits([] { return cuMemCreate(&a_handle, page, &good, 0); })),
    ASK("kernel waits, cuMemMap", while_a_kernel_waits([] { return cuMemMap(hole, 4 * MiB, 0, handle, 0); })),
    ASK("kernel waits, cuMemSetAccess",
        while_a_kernel_waits([] { return cuMemSetAccess(mapping, 4 * MiB, &open_to_all, 1); })),
    ASK("kernel waits, cuMemRelease", while_a_kernel_waits([] { return cuMemRelease(handle); })),
    ASK("kernel waits, cuMemAddressReserve",
        while_a_kernel_waits([] { return cuMemAddressReserve(&address, page, 0, 0, 0); })),
    ASK("kernel waits, cuMemAlloc", while_a_kernel_waits([] { return cuMemAlloc(&address, 64 * MiB); })),
    ASK("kernel waits, cuMemFree", while_a_kernel_waits([] { return cuMemFree(memory); })),
    ASK("kernel waits, cuMemFreeAsync in another stream",
        while_a_kernel_waits([] { return cuMemFreeAsync(memory_async, nullptr); })),
    ASK("kernel waits, cuMemAllocHost", while_a_kernel_waits([] { return cuMemAllocHost(&pointer, 4096); })),
    ASK("kernel waits, cuMemsetD8 in the null stream",
        while_a_kernel_waits([] { return cuMemsetD8(memory, 1, 4 * MiB); })),
    ASK("kernel waits, cuMemcpyDtoD in the null stream",
        while_a_kernel_waits([] { return cuMemcpyDtoD(memory, memory + 2 * MiB, 2 * MiB); })),
    ASK("kernel waits, cuMemcpyDtoHAsync in its stream to a host variable",
        while_a_kernel_waits([] { return cuMemcpyDtoHAsync(pageable, memory, 8, stream); })),
    ASK("kernel waits, cuMemcpyDtoHAsync in its stream to host memory",
        while_a_kernel_waits([] { return cuMemcpyDtoHAsync(host, memory, 8, stream); })),
    ASK("kernel waits, cuMemcpyHtoDAsync in its stream from a host variable",
        while_a_kernel_waits([] { return cuMemcpyHtoDAsync(memory, pageable, 8, stream); })),
};

int main(int argc, char** argv) { return ask_all(tables, questions, endings, argc, argv); }
