// SPDX-License-Identifier: MIT-0
// Memory: allocations, pools, copies, memsets, and what a pointer points to.
#include "runtime.h"

namespace runtime {

static void require_kind(cudaMemcpyKind kind) {
  require(kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault,
          "kind is none of cudaMemcpyHostToHost to cudaMemcpyDefault, 0 to 4", cudaErrorInvalidMemcpyDirection);
}

// The kind says which sides are memory of a GPU, and the driver checks that they are.
void copy_async(void* to, const void* from, size_t size, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!size) return;  // whatever the kind
  require_kind(kind);
  const CUstream where = at(stream);
  switch (kind) {
    case cudaMemcpyHostToDevice: return must(cuMemcpyHtoDAsync(address(to), from, size, where));
    case cudaMemcpyDeviceToHost: return must(cuMemcpyDtoHAsync(to, address(from), size, where));
    case cudaMemcpyDeviceToDevice: return must(cuMemcpyDtoDAsync(address(to), address(from), size, where));
    default: return must(cuMemcpyAsync(address(to), address(from), size, where));
  }
}

static bool is_of_a_gpu(const void* pointer) {
  unsigned type = 0, is_managed = 0;
  return !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer)) &&
         type == CU_MEMORYTYPE_DEVICE &&
         !cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(pointer)) && !is_managed;
}

// Whether the host waits for a copy: not if both sides are memory of GPUs, which managed memory is not.
static bool waits(void* to, const void* from, cudaMemcpyKind kind) {
  return (kind != cudaMemcpyDefault && kind != cudaMemcpyDeviceToDevice) || !is_of_a_gpu(to) || !is_of_a_gpu(from);
}

// A capture does not prohibit what a call does that waits so, other than to wait for the stream.
static void wait_for_stream_0() {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  must(cuThreadExchangeStreamCaptureMode(&mode));
  const CUresult answer = cuStreamSynchronize(this_thread.stream_0);
  must(cuThreadExchangeStreamCaptureMode(&mode));
  must(answer);
}

void copy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  copy_async(to, from, size, kind, nullptr);
  if (size && waits(to, from, kind)) wait_for_stream_0();
}

// A memset of memory that the host may read has ended when the call returns.
static void wait_for_memset(const void* pointer) {
  unsigned type = 0, is_managed = 0;
  if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address(pointer))) return;
  if (cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address(pointer))) return;
  if (type == CU_MEMORYTYPE_HOST || is_managed) wait_for_stream_0();
}

// What 2D and 3D copies have in common.
template <class All>
static All rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                cudaMemcpyKind kind) {
  require_kind(kind);
  require(width <= to_pitch && width <= from_pitch, "width, in bytes, is more than the pitch of a side",
          cudaErrorInvalidPitchValue);
  All all = {};
  const bool any = kind == cudaMemcpyDefault;
  const bool from_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyHostToDevice;
  const bool to_host = kind == cudaMemcpyHostToHost || kind == cudaMemcpyDeviceToHost;
  all.srcMemoryType = any ? CU_MEMORYTYPE_UNIFIED : from_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  all.dstMemoryType = any ? CU_MEMORYTYPE_UNIFIED : to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  all.srcHost = from;
  all.srcDevice = address(from);
  all.srcPitch = from_pitch;
  all.dstHost = to;
  all.dstDevice = address(to);
  all.dstPitch = to_pitch;
  all.WidthInBytes = width;
  all.Height = height;
  return all;
}

// A copy between boxes, of one GPU or of two.
template <class All, class Given>
static All boxes(const Given& p, cudaMemcpyKind kind) {
  require(!p.srcArray && !p.dstArray, "arrays are not simulated", cudaErrorNotSupported);
  auto all =
      rows<All>(p.dstPtr.ptr, p.dstPtr.pitch, p.srcPtr.ptr, p.srcPtr.pitch, p.extent.width, p.extent.height, kind);
  all.srcXInBytes = p.srcPos.x;
  all.srcY = p.srcPos.y;
  all.srcZ = p.srcPos.z;
  all.srcHeight = p.srcPtr.ysize;
  all.dstXInBytes = p.dstPos.x;
  all.dstY = p.dstPos.y;
  all.dstZ = p.dstPos.z;
  all.dstHeight = p.dstPtr.ysize;
  all.Depth = p.extent.depth;
  return all;
}

void require_side(cudaMemcpyKind kind, cudaMemcpyKind host_side) {
  require(kind == host_side || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          "kind does not fit: the symbol is on the GPU", cudaErrorInvalidMemcpyDirection);
}

CUDA_MEMCPY3D as_driver(const cudaMemcpy3DParms& p) { return boxes<CUDA_MEMCPY3D>(p, p.kind); }
static CUDA_MEMCPY3D_PEER as_driver(const cudaMemcpy3DPeerParms* p) {
  require_non_null(p, "p");
  auto all = boxes<CUDA_MEMCPY3D_PEER>(*p, cudaMemcpyDeviceToDevice);
  all.dstContext = primary_context(checked(p->dstDevice));
  all.srcContext = primary_context(checked(p->srcDevice));
  return all;
}

}  // namespace runtime

using namespace runtime;

namespace {

// To allocate or copy nothing works even after a fault.
Needs unless_empty(size_t size) { return size ? context : driver_only; }

unsigned char byte(int value) { return static_cast<unsigned char>(value); }

// The driver refuses to allocate nothing; the runtime gives a null pointer.
template <class Allocate> void allocate(void** pointer, const char* name, size_t size, Allocate how) {
  require_non_null(pointer, name);
  *pointer = nullptr;
  if (size) must(how());
}

// Null is no error, other than in a capture, where cudaFree is refused all the same.
void free_memory(void* pointer, bool is_host) {
  if (pointer) return must(is_host ? cuMemFreeHost(pointer) : cuMemFree(address(pointer)));
  if (!is_host && cuMemFree(0) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) must(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

void copy_3d(const cudaMemcpy3DParms* p, CUstream where) {
  require_non_null(p, "p");
  if (!p->extent.width || !p->extent.height || !p->extent.depth) return;
  const CUDA_MEMCPY3D all = as_driver(*p);
  must(cuMemcpy3DAsync(&all, where));
}

void set_3d(const cudaPitchedPtr& to, int value, const cudaExtent& extent, CUstream where) {
  for (size_t layer = 0; layer < extent.depth; ++layer)
    must(cuMemsetD2D8Async(address(to.ptr) + layer * to.ysize * to.pitch, to.pitch, byte(value), extent.width,
                           extent.height, where));
}

template <class Value> Value pointer_attribute(CUpointer_attribute attribute, const void* pointer, Value otherwise) {
  Value value = otherwise;
  return cuPointerGetAttribute(&value, attribute, address(pointer)) == CUDA_SUCCESS ? value : otherwise;
}

// Memory that the driver does not know is no error.
cudaPointerAttributes describe(const void* pointer) {
  cudaPointerAttributes all = {};
  all.device = -2;
  all.hostPointer = const_cast<void*>(pointer);
  const auto kind = pointer_attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer, 0);
  if (!kind) return all;
  const bool is_managed = pointer_attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer, 0) & 1;
  all.type = is_managed                     ? cudaMemoryTypeManaged
             : kind == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                            : cudaMemoryTypeHost;
  all.device = pointer_attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer, -2);
  all.devicePointer = pointer_attribute<void*>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer, nullptr);
  all.hostPointer = pointer_attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer, nullptr);
  return all;
}

// Advice and prefetches change nothing that a program could see here.
void require_managed(const void* pointer, size_t count) {
  require(count && pointer_attribute<unsigned>(CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer, 0) & 1,
          "count is 0, or devPtr is not managed memory: only that of cudaMallocManaged can be advised or prefetched");
}

#if CUDART_VERSION >= 13000
CUmemLocation as_driver(const cudaMemLocation& location) {
  CUmemLocation same = {};
  same.type = CUmemLocationType(location.type);
  same.id = location.id;
  return same;
}
#else
CUmemLocation location_of(int device) {
  return {device < 0 ? CU_MEM_LOCATION_TYPE_HOST : CU_MEM_LOCATION_TYPE_DEVICE, std::max(device, 0)};
}
#endif

}  // namespace

// --- Allocations ----------------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return call(ARGUMENTS(devPtr, size), unless_empty(size),
              [&] { allocate(devPtr, "devPtr", size, [&] { return cuMemAlloc(address(devPtr), size); }); });
}
cudaError_t cudaFree(void* devPtr) {
  return call(ARGUMENTS(devPtr), [&] { free_memory(devPtr, false); });
}
cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  return call(ARGUMENTS(devPtr, pitch, width, height), [&] {
    require_non_null(pitch, "pitch");
    allocate(devPtr, "devPtr", width * height,
             [&] { return cuMemAllocPitch(address(devPtr), pitch, width, height, 4); });
  });
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  return call(ARGUMENTS(pitchedDevPtr), [&] {
    require_non_null(pitchedDevPtr, "pitchedDevPtr");
    *pitchedDevPtr = cudaPitchedPtr{nullptr, 0, extent.width, extent.height};
    allocate(&pitchedDevPtr->ptr, "ptr", extent.width * extent.height * extent.depth, [&] {
      return cuMemAllocPitch(address(&pitchedDevPtr->ptr), &pitchedDevPtr->pitch, extent.width,
                             extent.height * extent.depth, 4);
    });
  });
}
cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  return call(ARGUMENTS(devPtr, size, flags), [&] {
    allocate(devPtr, "devPtr", size, [&] { return cuMemAllocManaged(address(devPtr), size, flags); });
  });
}
cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return call(ARGUMENTS(ptr, size), [&] { allocate(ptr, "ptr", size, [&] { return cuMemHostAlloc(ptr, size, 0); }); });
}
cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return call(ARGUMENTS(pHost, size, flags), [&] {
    require(flags <= 7, "there are no such flags");
    allocate(pHost, "pHost", size, [&] { return cuMemHostAlloc(pHost, size, flags); });
  });
}
cudaError_t cudaFreeHost(void* ptr) {
  return call(ARGUMENTS(ptr), [&] { free_memory(ptr, true); });
}
FORWARD(cudaHostRegister, cuMemHostRegister, (void* ptr, size_t size, unsigned int flags), ptr, size, flags)
FORWARD(cudaHostUnregister, cuMemHostUnregister, (void* ptr), ptr)
FORWARD(cudaHostGetDevicePointer, cuMemHostGetDevicePointer, (void** pDevice, void* pHost, unsigned int flags), pDevice,
        pHost, flags)
FORWARD(cudaHostGetFlags, cuMemHostGetFlags, (unsigned int* pFlags, void* pHost), pFlags, pHost)
FORWARD(cudaMemGetInfo, cuMemGetInfo, (size_t* free, size_t* total), free, total)
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return call(ARGUMENTS(attributes, ptr), driver_only,
              result_to(attributes, "attributes", [&] { return describe(ptr); }));
}
#if CUDART_VERSION >= 13000
STREAM_CALL(cudaMemPrefetchAsync, _ptsz,
            (const void* devPtr, size_t count, cudaMemLocation location, unsigned int flags, cudaStream_t stream),
            (devPtr, count, location, flags, stream)) {
  return call(ARGUMENTS(devPtr, count, location, flags, stream), [&] {
    require(!flags, "flags must be 0");
    require_managed(devPtr, count);
    must(cuMemPrefetchAsync(address(devPtr), count, as_driver(location), flags, at(stream)));
  });
}
cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice, cudaMemLocation location) {
  return call(ARGUMENTS(devPtr, count, advice, location), [&] {
    require_managed(devPtr, count);
    must(cuMemAdvise(address(devPtr), count, CUmem_advise(advice), as_driver(location)));
  });
}
#else
STREAM_CALL(cudaMemPrefetchAsync, _ptsz, (const void* devPtr, size_t count, int dstDevice, cudaStream_t stream),
            (devPtr, count, dstDevice, stream)) {
  return call(ARGUMENTS(devPtr, count, dstDevice, stream), [&] {
    require_managed(devPtr, count);
    must(cuMemPrefetchAsync_v2(address(devPtr), count, location_of(dstDevice), 0, at(stream)));
  });
}
cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise advice, int device) {
  return call(ARGUMENTS(devPtr, count, advice, device), [&] {
    require_managed(devPtr, count);
    must(cuMemAdvise_v2(address(devPtr), count, CUmem_advise(advice), location_of(device)));
  });
}
#endif
FORWARD(cudaMemRangeGetAttribute, cuMemRangeGetAttribute,
        (void* data, size_t dataSize, cudaMemRangeAttribute attribute, const void* devPtr, size_t count), data,
        dataSize, attribute, devPtr, count)
cudaError_t cudaMemRangeGetAttributes(void** data, size_t* dataSizes, cudaMemRangeAttribute* attributes,
                                      size_t numAttributes, const void* devPtr, size_t count) {
  return call(ARGUMENTS(numAttributes, devPtr, count), [&] {
    return cuMemRangeGetAttributes(data, dataSizes, reinterpret_cast<CUmem_range_attribute*>(attributes), numAttributes,
                                   address(devPtr), count);
  });
}

// --- IPC of cudaMalloc's memory -------------------------------------------------------------------------------------
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* devPtr) {
  return call(ARGUMENTS(handle, devPtr), [&] {
    require_non_null(handle, "handle");
    must(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle*>(handle), address(devPtr)));
  });
}
cudaError_t cudaIpcOpenMemHandle(void** devPtr, cudaIpcMemHandle_t handle, unsigned int flags) {
  return call(ARGUMENTS(devPtr, flags),
              [&] { return cuIpcOpenMemHandle(address(devPtr), reinterpret_cast<CUipcMemHandle&>(handle), flags); });
}
FORWARD(cudaIpcCloseMemHandle, cuIpcCloseMemHandle, (void* devPtr), devPtr)

// --- Pools ----------------------------------------------------------------------------------------------------------
STREAM_CALL(cudaMallocAsync, _ptsz, (void** devPtr, size_t size, cudaStream_t hStream), (devPtr, size, hStream)) {
  return call(ARGUMENTS(devPtr, size, hStream), [&] {
    allocate(devPtr, "devPtr", size, [&] { return cuMemAllocAsync(address(devPtr), size, at(hStream)); });
  });
}
STREAM_CALL(cudaMallocFromPoolAsync, _ptsz, (void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream),
            (ptr, size, memPool, stream)) {
  return call(ARGUMENTS(ptr, size, memPool, stream), [&] {
    allocate(ptr, "ptr", size, [&] { return cuMemAllocFromPoolAsync(address(ptr), size, memPool, at(stream)); });
  });
}
STREAM_FORWARD(cudaFreeAsync, _ptsz, cuMemFreeAsync, (void* devPtr, cudaStream_t hStream), devPtr, hStream)
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return call(ARGUMENTS(memPool, device), driver_only,
              [&] { return cuDeviceGetDefaultMemPool(memPool, checked(device)); });
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return call(ARGUMENTS(memPool, device), [&] { return cuDeviceGetMemPool(memPool, checked(device)); });
}
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return call(ARGUMENTS(device, memPool), [&] { return cuDeviceSetMemPool(checked(device), memPool); });
}
#if CUDART_VERSION >= 13000
static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
FORWARD(cudaMemGetDefaultMemPool, cuMemGetDefaultMemPool,
        (cudaMemPool_t * memPool, cudaMemLocation* location, cudaMemAllocationType type), memPool, location, type)
FORWARD(cudaMemGetMemPool, cuMemGetMemPool,
        (cudaMemPool_t * memPool, cudaMemLocation* location, cudaMemAllocationType type), memPool, location, type)
FORWARD(cudaMemSetMemPool, cuMemSetMemPool,
        (cudaMemLocation * location, cudaMemAllocationType type, cudaMemPool_t memPool), location, type, memPool)
#endif
FORWARD(cudaMemPoolCreate, cuMemPoolCreate, (cudaMemPool_t * memPool, const cudaMemPoolProps* poolProps), memPool,
        poolProps)
FORWARD(cudaMemPoolDestroy, cuMemPoolDestroy, (cudaMemPool_t memPool), memPool)
FORWARD(cudaMemPoolTrimTo, cuMemPoolTrimTo, (cudaMemPool_t memPool, size_t minBytesToKeep), memPool, minBytesToKeep)
FORWARD(cudaMemPoolSetAttribute, cuMemPoolSetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value),
        memPool, attr, value)
FORWARD(cudaMemPoolGetAttribute, cuMemPoolGetAttribute, (cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value),
        memPool, attr, value)
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList, size_t count) {
  return call(ARGUMENTS(memPool, descList, count), [&] {
    const CUmemAccessDesc none = {};  // without a list the driver refuses even none
    must(cuMemPoolSetAccess(memPool, count ? reinterpret_cast<const CUmemAccessDesc*>(descList) : &none, count));
  });
}
FORWARD(cudaMemPoolGetAccess, cuMemPoolGetAccess,
        (cudaMemAccessFlags * flags, cudaMemPool_t memPool, cudaMemLocation* location), flags, memPool, location)
FORWARD(cudaMemPoolExportToShareableHandle, cuMemPoolExportToShareableHandle,
        (void* shareableHandle, cudaMemPool_t memPool, cudaMemAllocationHandleType handleType, unsigned int flags),
        shareableHandle, memPool, handleType, flags)
FORWARD(cudaMemPoolImportFromShareableHandle, cuMemPoolImportFromShareableHandle,
        (cudaMemPool_t * memPool, void* shareableHandle, cudaMemAllocationHandleType handleType, unsigned int flags),
        memPool, shareableHandle, handleType, flags)
FORWARD(cudaMemPoolExportPointer, cuMemPoolExportPointer, (cudaMemPoolPtrExportData * exportData, void* ptr),
        exportData, ptr)
FORWARD(cudaMemPoolImportPointer, cuMemPoolImportPointer,
        (void** ptr, cudaMemPool_t memPool, cudaMemPoolPtrExportData* exportData), ptr, memPool, exportData)

// --- Copies ---------------------------------------------------------------------------------------------------------
STREAM_CALL(cudaMemcpy, _ptds, (void* dst, const void* src, size_t count, cudaMemcpyKind kind),
            (dst, src, count, kind)) {
  return call(ARGUMENTS(dst, src, count, kind), unless_empty(count), [&] { copy(dst, src, count, kind); });
}
STREAM_CALL(cudaMemcpyAsync, _ptsz,
            (void* dst, const void* src, size_t count, cudaMemcpyKind kind, cudaStream_t stream),
            (dst, src, count, kind, stream)) {
  return call(ARGUMENTS(dst, src, count, kind, stream), unless_empty(count),
              [&] { copy_async(dst, src, count, kind, stream); });
}
STREAM_CALL(cudaMemcpy2D, _ptds,
            (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height,
             cudaMemcpyKind kind),
            (dst, dpitch, src, spitch, width, height, kind)) {
  return call(ARGUMENTS(dst, dpitch, src, spitch, width, height, kind), [&] {
    const auto all = rows<CUDA_MEMCPY2D>(dst, dpitch, src, spitch, width, height, kind);
    must(cuMemcpy2DAsync(&all, this_thread.stream_0));
    if (waits(dst, src, kind)) must(cuStreamSynchronize(this_thread.stream_0));
  });
}
STREAM_CALL(cudaMemcpy2DAsync, _ptsz,
            (void* dst, size_t dpitch, const void* src, size_t spitch, size_t width, size_t height, cudaMemcpyKind kind,
             cudaStream_t stream),
            (dst, dpitch, src, spitch, width, height, kind, stream)) {
  return call(ARGUMENTS(dst, dpitch, src, spitch, width, height, kind, stream), [&] {
    const auto all = rows<CUDA_MEMCPY2D>(dst, dpitch, src, spitch, width, height, kind);
    must(cuMemcpy2DAsync(&all, at(stream)));
  });
}
STREAM_CALL(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* p), (p)) {
  return call(ARGUMENTS(p), [&] {
    copy_3d(p, this_thread.stream_0);
    if (waits(p->dstPtr.ptr, p->srcPtr.ptr, p->kind)) must(cuStreamSynchronize(this_thread.stream_0));
  });
}
STREAM_CALL(cudaMemcpy3DAsync, _ptsz, (const cudaMemcpy3DParms* p, cudaStream_t stream), (p, stream)) {
  return call(ARGUMENTS(p, stream), [&] { copy_3d(p, at(stream)); });
}
STREAM_CALL(cudaMemcpy3DPeer, _ptds, (const cudaMemcpy3DPeerParms* p), (p)) {
  return call(ARGUMENTS(p), [&] {
    const CUDA_MEMCPY3D_PEER all = as_driver(p);
    must(cuMemcpy3DPeer(&all));
  });
}
STREAM_CALL(cudaMemcpy3DPeerAsync, _ptsz, (const cudaMemcpy3DPeerParms* p, cudaStream_t stream), (p, stream)) {
  return call(ARGUMENTS(p, stream), [&] {
    const CUDA_MEMCPY3D_PEER all = as_driver(p);
    must(cuMemcpy3DPeerAsync(&all, at(stream)));
  });
}
#if CUDART_VERSION >= 13000
// The runtime's structures are the driver's by other names.
STREAM_CALL(cudaMemcpyBatchAsync, _ptsz,
            (void* const* dsts, const void* const* srcs, const size_t* sizes, size_t count, cudaMemcpyAttributes* attrs,
             size_t* attrsIdxs, size_t numAttrs, cudaStream_t stream),
            (dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)) {
  static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));
  return call(ARGUMENTS(count, numAttrs, stream), [&] {
    must(cuMemcpyBatchAsync(reinterpret_cast<CUdeviceptr*>(const_cast<void**>(dsts)),
                            reinterpret_cast<CUdeviceptr*>(const_cast<const void**>(srcs)), const_cast<size_t*>(sizes),
                            count, reinterpret_cast<CUmemcpyAttributes*>(attrs), attrsIdxs, numAttrs, at(stream)));
  });
}
STREAM_CALL(cudaMemcpy3DBatchAsync, _ptsz,
            (size_t numOps, cudaMemcpy3DBatchOp* opList, unsigned long long flags, cudaStream_t stream),
            (numOps, opList, flags, stream)) {
  static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
  return call(ARGUMENTS(numOps, flags, stream), [&] {
    must(cuMemcpy3DBatchAsync(numOps, reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(opList), flags, at(stream)));
  });
}
#endif
cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
  return call(ARGUMENTS(dst, dstDevice, src, srcDevice, count), [&] {
    if (!count) return;
    checked(dstDevice);
    checked(srcDevice);
    must(cuMemcpyPeer(address(dst), primary_context(dstDevice), address(src), primary_context(srcDevice), count));
  });
}
cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
                                cudaStream_t stream) {
  return call(ARGUMENTS(dst, dstDevice, src, srcDevice, count, stream), [&] {
    if (!count) return;
    checked(dstDevice);
    checked(srcDevice);
    must(cuMemcpyPeerAsync(address(dst), primary_context(dstDevice), address(src), primary_context(srcDevice), count,
                           at(stream)));
  });
}

// --- Memsets --------------------------------------------------------------------------------------------------------
STREAM_CALL(cudaMemset, _ptds, (void* devPtr, int value, size_t count), (devPtr, value, count)) {
  return call(ARGUMENTS(devPtr, value, count), [&] {
    if (!count) return;
    must(cuMemsetD8Async(address(devPtr), byte(value), count, this_thread.stream_0));
    wait_for_memset(devPtr);
  });
}
STREAM_CALL(cudaMemsetAsync, _ptsz, (void* devPtr, int value, size_t count, cudaStream_t stream),
            (devPtr, value, count, stream)) {
  return call(ARGUMENTS(devPtr, value, count, stream), [&] {
    if (count) must(cuMemsetD8Async(address(devPtr), byte(value), count, at(stream)));
  });
}
STREAM_CALL(cudaMemset2D, _ptds, (void* devPtr, size_t pitch, int value, size_t width, size_t height),
            (devPtr, pitch, value, width, height)) {
  return call(ARGUMENTS(devPtr, pitch, value, width, height), [&] {
    must(cuMemsetD2D8Async(address(devPtr), pitch, byte(value), width, height, this_thread.stream_0));
    if (width && height) wait_for_memset(devPtr);
  });
}
STREAM_CALL(cudaMemset2DAsync, _ptsz,
            (void* devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
            (devPtr, pitch, value, width, height, stream)) {
  return call(ARGUMENTS(devPtr, pitch, value, width, height, stream),
              [&] { return cuMemsetD2D8Async(address(devPtr), pitch, byte(value), width, height, at(stream)); });
}
STREAM_CALL(cudaMemset3D, _ptds, (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent),
            (pitchedDevPtr, value, extent)) {
  return call(ARGUMENTS(value), [&] {
    set_3d(pitchedDevPtr, value, extent, this_thread.stream_0);
    if (extent.width && extent.height && extent.depth) wait_for_memset(pitchedDevPtr.ptr);
  });
}
STREAM_CALL(cudaMemset3DAsync, _ptsz, (cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent, cudaStream_t stream),
            (pitchedDevPtr, value, extent, stream)) {
  return call(ARGUMENTS(value, stream), [&] { set_3d(pitchedDevPtr, value, extent, at(stream)); });
}
