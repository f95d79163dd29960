// SPDX-License-Identifier: MIT-0
// The snippets of docs/paste, with calls of the driver that can be made to fail, and are counted.
#pragma once
#include <cuda.h>
#include <atomic>

// The snippets' calls of the driver, which come by here. The one whose turn it is fails, without being made. But for
// cuMemRelease: a caller cannot try that again, so it is made, and answers an error.
static thread_local int calls, failing;       // since when; the number of the one that fails, 0 for none
static thread_local const char* failed_call;  // its name
static thread_local bool unmaps_fail, no_path;
static thread_local CUdevice_attribute unknown;           // to this driver
static std::atomic<int> handles, reservations, bindings;  // which the snippets have, and have not given back
static bool fails(const char* name) {
  if (++calls == failing) failed_call = name;
  return calls == failing;
}
template <class... P, class... A> CUresult by_way(const char* name, CUresult (*call)(P...), A... arguments) {
  return fails(name) ? CUDA_ERROR_UNKNOWN : call(arguments...);
}
template <class... A> CUresult counted(std::atomic<int>* count, int change, A... arguments) {
  const CUresult result = by_way(arguments...);
  if (result == CUDA_SUCCESS) *count += change;
  return result;
}
inline CUresult release(CUmemGenericAllocationHandle handle) {
  const bool failed = fails("cuMemRelease");
  const CUresult result = cuMemRelease(handle);
  if (result == CUDA_SUCCESS) --handles;
  return failed ? CUDA_ERROR_UNKNOWN : result;
}
inline CUresult unmap(CUdeviceptr address, size_t size) {
  return fails("cuMemUnmap") || unmaps_fail ? CUDA_ERROR_UNKNOWN : cuMemUnmap(address, size);
}
inline CUresult can_access(int* reaches, CUdevice peer, CUdevice owner) {
  const CUresult result = by_way("cuDeviceCanAccessPeer", cuDeviceCanAccessPeer, reaches, peer, owner);
  if (no_path) *reaches = 0;
  return result;
}
inline CUresult attribute(int* value, CUdevice_attribute which, CUdevice device) {
  if (unknown && which == unknown) return CUDA_ERROR_INVALID_VALUE;
  return by_way("cuDeviceGetAttribute", cuDeviceGetAttribute, value, which, device);
}
inline CUresult address_range(CUdeviceptr* start, size_t* size, CUdeviceptr address) {
  return by_way("cuMemGetAddressRange", cuMemGetAddressRange, start, size, address);
}
#define BY_WAY(call, ...) by_way(#call, call, __VA_ARGS__)
#undef cuMemGetAddressRange
#define cuMemRelease release
#define cuMemUnmap unmap
#define cuDeviceCanAccessPeer can_access
#define cuDeviceGetAttribute attribute
#define cuMemGetAddressRange address_range
#define cuMemCreate(...) counted(&handles, 1, "cuMemCreate", cuMemCreate, __VA_ARGS__)
#define cuMemImportFromShareableHandle(...) counted(&handles, 1, "import", cuMemImportFromShareableHandle, __VA_ARGS__)
#define cuMemRetainAllocationHandle(...) counted(&handles, 1, "retain", cuMemRetainAllocationHandle, __VA_ARGS__)
#define cuMulticastCreate(...) counted(&handles, 1, "cuMulticastCreate", cuMulticastCreate, __VA_ARGS__)
#define cuMemAddressReserve(...) counted(&reservations, 1, "cuMemAddressReserve", cuMemAddressReserve, __VA_ARGS__)
#define cuMemAddressFree(...) counted(&reservations, -1, "cuMemAddressFree", cuMemAddressFree, __VA_ARGS__)
#define cuMemMap(...) BY_WAY(cuMemMap, __VA_ARGS__)
#define cuMemSetAccess(...) BY_WAY(cuMemSetAccess, __VA_ARGS__)
#define cuMemGetAllocationGranularity(...) BY_WAY(cuMemGetAllocationGranularity, __VA_ARGS__)
#define cuMemExportToShareableHandle(...) BY_WAY(cuMemExportToShareableHandle, __VA_ARGS__)
#define cuMulticastGetGranularity(...) BY_WAY(cuMulticastGetGranularity, __VA_ARGS__)
#define cuMulticastAddDevice(...) BY_WAY(cuMulticastAddDevice, __VA_ARGS__)
#define cuMulticastBindMem(...) counted(&bindings, 1, "cuMulticastBindMem", cuMulticastBindMem, __VA_ARGS__)
#define cuMulticastUnbind(...) counted(&bindings, -1, "cuMulticastUnbind", cuMulticastUnbind, __VA_ARGS__)
#define main example_main
#include "../../docs/paste/example.cu"  // with allocate.cu
#undef main

#include "../../docs/paste/alias.cu"
#include "../../docs/paste/fabric.cu"
#include "../../docs/paste/grant_to_peer.cu"
#include "../../docs/paste/map_handle.cu"
#include "../../docs/paste/meet.cu"
#include "../../docs/paste/multicast.cu"
#include "../../docs/paste/multimem.cu"
#include "../../docs/paste/send_fd.cu"
#include "../../docs/paste/share_fd.cu"
#include "../../docs/paste/supported.cu"

#include "../../common/check.h"

#include "growable_buffer.cc"  // cut from lesson 02 when the build is configured
#undef cuMemRelease
#undef cuMemUnmap
#undef cuDeviceCanAccessPeer
#undef cuDeviceGetAttribute
#undef cuMemGetAddressRange
#undef cuMemCreate
#undef cuMemImportFromShareableHandle
#undef cuMemRetainAllocationHandle
#undef cuMulticastCreate
#undef cuMemAddressReserve
#undef cuMemAddressFree
#undef cuMemMap
#undef cuMemSetAccess
#undef cuMemGetAllocationGranularity
#undef cuMemExportToShareableHandle
#undef cuMulticastGetGranularity
#undef cuMulticastAddDevice
#undef cuMulticastBindMem
#undef cuMulticastUnbind
