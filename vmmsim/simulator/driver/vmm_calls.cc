// SPDX-License-Identifier: MIT-0
// The VMM calls: what they are asked goes to memory/, which does it.
#include <unistd.h>

#include "contexts.h"
#include "driver.h"
#include "operations.h"

using namespace driver;

namespace {

void export_handle(void* to, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                   unsigned long long flags) {
  require_non_null(to, "shareableHandle");
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) *static_cast<int*>(to) = memory::export_fd(handle, flags);
  else if (type == CU_MEM_HANDLE_TYPE_FABRIC)
    *static_cast<CUmemFabricHandle*>(to) = memory::export_fabric(handle, flags);
  else refuse("handleType is neither a file descriptor nor a fabric handle");
}

memory::Handle import_handle(void* from, CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return memory::import_fd(reinterpret_cast<intptr_t>(from));
  require_non_null(from, "osHandle");
  require(type != CU_MEM_HANDLE_TYPE_WIN32 && type != CU_MEM_HANDLE_TYPE_WIN32_KMT, CUDA_ERROR_NOT_SUPPORTED,
          "shHandleType is a handle of Windows, which this system does not have");
  require(type == CU_MEM_HANDLE_TYPE_FABRIC, "shHandleType is neither a file descriptor nor a fabric handle");
  return memory::import_fabric(*static_cast<const CUmemFabricHandle*>(from));
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  return call(ARGUMENTS(ptr, size, alignment, addr, flags), after_fault,
              result_to(ptr, "ptr", [&] { return memory::reserve(size, alignment, addr, flags); }));
}
CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return call(ARGUMENTS(ptr, size), after_fault, [&] { memory::free_reservation(ptr, size); });
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size, const CUmemAllocationProp* prop,
                     unsigned long long flags) {
  return call(ARGUMENTS(handle, size, prop, flags), after_fault,
              result_to(handle, "handle", [&] { return memory::create(size, given(prop, "prop"), flags); }));
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return call(ARGUMENTS(handle), after_fault, [&] { memory::release(handle); });
}
CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return call(ARGUMENTS(ptr, size, offset, handle, flags), after_fault,
              [&] { memory::map(ptr, size, offset, handle, flags); });
}
CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  // It waits for no kernel, but a short one that was launched just before still finds its memory, as on the H200.
  return call(ARGUMENTS(ptr, size), after_fault, [&] {
    settle(false);
    memory::unmap(ptr, size);
  });
}
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  return call(ARGUMENTS(ptr, size, desc, count), after_fault, [&] {
    require_non_null(desc, "desc");
    memory::set_access(ptr, size, {desc, count});
  });
}
CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  return call(ARGUMENTS(flags, location, ptr), after_fault,
              result_to(flags, "flags", [&] { return memory::get_access(given(location, "location"), ptr); }));
}
CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType, unsigned long long flags) {
  return call(ARGUMENTS(shareableHandle, handle, handleType, flags), after_fault,
              [&] { export_handle(shareableHandle, handle, handleType, flags); });
}
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  return call(ARGUMENTS(handle, osHandle, shHandleType), after_fault,
              result_to(handle, "handle", [&] { return import_handle(osHandle, shHandleType); }));
}
CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  return call(ARGUMENTS(granularity, prop, option), after_fault,
              result_to(granularity, "granularity", [&] { return memory::granularity(given(prop, "prop"), option); }));
}
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  return call(ARGUMENTS(prop, handle), after_fault,
              result_to(prop, "prop", [&] { return memory::properties(handle); }));
}
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return call(ARGUMENTS(handle, addr), after_fault,
              result_to(handle, "handle", [&] { return memory::retain(reinterpret_cast<uint64_t>(addr)); }));
}

CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size, CUmemRangeHandleType handleType,
                                       unsigned long long flags) {
  return call(ARGUMENTS(handle, dptr, size, handleType, flags), CallFlags(before_init | after_fault), [&] {
    require(state().initialized_in == getpid(), CUDA_ERROR_NOT_SUPPORTED, "call cuInit first");
    current();
    require_non_null(handle, "handle");
    require(handleType == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
            "handleType must be CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD");
    *static_cast<int*>(handle) = memory::export_dma_buf(dptr, size, flags);
  });
}

CUresult cuMulticastGetGranularity(size_t* granularity, const CUmulticastObjectProp* prop,
                                   CUmulticastGranularity_flags option) {
  return call(ARGUMENTS(granularity, prop, option), after_fault, result_to(granularity, "granularity", [&] {
                return memory::multicast_granularity(given(prop, "prop"), option);
              }));
}
CUresult cuMulticastCreate(CUmemGenericAllocationHandle* mcHandle, const CUmulticastObjectProp* prop) {
  return call(ARGUMENTS(mcHandle, prop), after_fault,
              result_to(mcHandle, "mcHandle", [&] { return memory::multicast_create(given(prop, "prop")); }));
}
CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
  return call(ARGUMENTS(mcHandle, dev), after_fault, [&] { memory::multicast_add_device(mcHandle, dev); });
}
CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags) {
  return call(ARGUMENTS(mcHandle, mcOffset, memHandle, memOffset, size, flags), after_fault,
              [&] { memory::multicast_bind(mcHandle, {}, mcOffset, memHandle, memOffset, size, flags); });
}
CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
                             unsigned long long flags) {
  return call(ARGUMENTS(mcHandle, mcOffset, memptr, size, flags), after_fault,
              [&] { memory::multicast_bind_address(mcHandle, {}, mcOffset, memptr, size, flags); });
}
CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size) {
  return call(ARGUMENTS(mcHandle, dev, mcOffset, size), after_fault,
              [&] { memory::multicast_unbind(mcHandle, dev, mcOffset, size); });
}
