// SPDX-License-Identifier: MIT-0
#include "calls.h"

#include <cuda_runtime_api.h>

namespace recorder {
namespace {

uint64_t bits(const void* address) { return reinterpret_cast<uint64_t>(address); }

// The runtime's structures are the driver's.
const CUmemAccessDesc* as_driver(const cudaMemAccessDesc* p) { return reinterpret_cast<const CUmemAccessDesc*>(p); }
const CUmemPoolProps* as_driver(const cudaMemPoolProps* p) { return reinterpret_cast<const CUmemPoolProps*>(p); }

int owner(const CUmemPoolProps* pool) {
  return pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? pool->location.id : -1;
}

// The functions for a call, of the members of CUPTI's structure, in their order; what a line shows of these; and what
// the call does to `model`.
#define UNPACK(...) __VA_ARGS__
#define ARGUMENTS_OF_CALL(...) trace::Call("", #__VA_ARGS__, __VA_ARGS__)
#define ENTRY(kind, id, structure, members, shown, change)                                                  \
  {                                                                                                         \
    id, {                                                                                                   \
      RecordedCall::kind,                                                                                   \
          [](const void* parameters) {                                                                      \
            [[maybe_unused]] const auto& [UNPACK members] = *static_cast<const structure*>(parameters);     \
            return ARGUMENTS_OF_CALL shown;                                                                 \
          },                                                                                                \
          []([[maybe_unused]] Model& model, const void* parameters, [[maybe_unused]] const void* context) { \
            [[maybe_unused]] const auto& [UNPACK members] = *static_cast<const structure*>(parameters);     \
            change;                                                                                         \
          }                                                                                                 \
    }                                                                                                       \
  }
#define DRIVER_SHOWN(kind, name, members, shown, change) \
  ENTRY(kind, CUPTI_DRIVER_TRACE_CBID_##name, name##_params, members, shown, change)
#define RUNTIME_SHOWN(kind, name, members, shown, change) \
  ENTRY(kind, CUPTI_RUNTIME_TRACE_CBID_##name, name##_params, members, shown, change)
#define DRIVER(kind, name, members, change) DRIVER_SHOWN(kind, name, members, members, change)
#define RUNTIME(kind, name, members, change) RUNTIME_SHOWN(kind, name, members, members, change)
// Calls that take a stream are two: programs compiled with a default stream for each thread call the second.
#define DRIVER_BOTH(kind, name, of_threads, members, shown, change) \
  DRIVER_SHOWN(kind, name, members, shown, change), DRIVER_SHOWN(kind, name##of_threads, members, shown, change)
#define DRIVER_STREAM(kind, name, members, shown, change) DRIVER_BOTH(kind, name, _ptsz, members, shown, change)
#define RUNTIME_BOTH(kind, name, version, of_threads, members, shown, change) \
  RUNTIME_SHOWN(kind, name##version, members, shown, change),                 \
      RUNTIME_SHOWN(kind, name##of_threads, members, shown, change)
#define RUNTIME_STREAM(kind, name, version, members, shown, change) \
  RUNTIME_BOTH(kind, name, version, _ptsz##version, members, shown, change)
// Without arguments, CUPTI has no structure.
#define WITHOUT_ARGUMENTS(kind, id)                                                                                \
  {                                                                                                                \
    id, {                                                                                                          \
      RecordedCall::kind, [](const void*) { return trace::Call("", ""); }, [](Model&, const void*, const void*) {} \
    }                                                                                                              \
  }
#define DRIVER_BARE(kind, name) WITHOUT_ARGUMENTS(kind, CUPTI_DRIVER_TRACE_CBID_##name)
#define RUNTIME_BARE(kind, name, version) WITHOUT_ARGUMENTS(kind, CUPTI_RUNTIME_TRACE_CBID_##name##version)

// Never destroyed: the program may call while it ends.
const RecordedCalls& of_driver = *new RecordedCalls{
    // Virtual memory management
    DRIVER(gives, cuMemAddressReserve, (ptr, size, alignment, addr, flags), model.reserve(*ptr, size)),
    DRIVER(takes, cuMemAddressFree, (ptr, size), model.free_reservation(ptr, size)),
    DRIVER(gives, cuMemCreate, (handle, size, prop, flags), model.create(*handle, size, prop)),
    DRIVER(takes, cuMemRelease, (handle), model.release(handle)),
    DRIVER(gives, cuMemMap, (ptr, size, offset, handle, flags), model.map(ptr, size, handle)),
    DRIVER_STREAM(asks, cuMemMapArrayAsync, (mapInfoList, count, hStream), (mapInfoList, count, hStream), ),
    DRIVER(takes, cuMemUnmap, (ptr, size), model.unmap(ptr, size)),
    DRIVER(gives, cuMemSetAccess, (ptr, size, desc, count), model.access(ptr, size, desc, count)),
    DRIVER(asks, cuMemGetAccess, (flags, location, ptr), ),
    DRIVER(gives, cuMemExportToShareableHandle, (shareableHandle, handle, handleType, flags),
           model.export_handle(shareableHandle, handle, handleType)),
    DRIVER(gives, cuMemImportFromShareableHandle, (handle, osHandle, shHandleType),
           model.import_handle(*handle, osHandle, shHandleType)),
    DRIVER(asks, cuMemGetAllocationGranularity, (granularity, prop, option), ),
    DRIVER(asks, cuMemGetAllocationPropertiesFromHandle, (prop, handle), ),
    DRIVER(gives, cuMemRetainAllocationHandle, (handle, addr), model.retain(*handle)),
    // Multicast objects
    DRIVER(gives, cuMulticastCreate, (mcHandle, prop), model.multicast_create(*mcHandle, prop)),
    DRIVER(gives, cuMulticastAddDevice, (mcHandle, dev), model.add_device(mcHandle, dev)),
    DRIVER(gives, cuMulticastBindMem, (mcHandle, mcOffset, memHandle, memOffset, size, flags),
           model.bind(mcHandle, mcOffset, memHandle, memOffset, size)),
    DRIVER(gives, cuMulticastBindAddr, (mcHandle, mcOffset, memptr, size, flags),
           model.bind_address(mcHandle, mcOffset, memptr, size)),
    DRIVER(gives, cuMulticastUnbind, (mcHandle, dev, mcOffset, size), model.unbind(mcHandle, dev, mcOffset, size)),
    DRIVER(asks, cuMulticastGetGranularity, (granularity, prop, option), ),
    // Ordinary memory
    DRIVER(asks, cuMemGetInfo_v2, (free, total), ),
    DRIVER(gives, cuMemAlloc_v2, (dptr, bytesize), model.allocate(*dptr, bytesize, model.device)),
    DRIVER(gives, cuMemAllocPitch_v2, (dptr, pPitch, WidthInBytes, Height, ElementSizeBytes),
           model.allocate(*dptr, *pPitch* Height, model.device)),
    DRIVER(gives, cuMemAllocManaged, (dptr, bytesize, flags), model.allocate(*dptr, bytesize, -1)),
    DRIVER(takes, cuMemFree_v2, (dptr), model.free(dptr)),
    DRIVER(gives, cuMemAllocHost_v2, (pp, bytesize), model.allocate(bits(*pp), bytesize, -1)),
    DRIVER(gives, cuMemHostAlloc, (pp, bytesize, Flags), model.allocate(bits(*pp), bytesize, -1)),
    DRIVER(takes, cuMemFreeHost, (p), model.free(bits(p))),
    DRIVER(asks, cuMemHostRegister_v2, (p, bytesize, Flags), ),
    DRIVER(asks, cuMemHostUnregister, (p), ),
    // Other processes and other GPUs
    DRIVER(asks, cuIpcGetMemHandle, (pHandle, dptr), ),
    DRIVER_SHOWN(gives, cuIpcOpenMemHandle_v2, (pdptr, handle, Flags), (pdptr, Flags),
                 model.allocate(*pdptr, {}, {}, true)),
    DRIVER(takes, cuIpcCloseMemHandle, (dptr), model.free(dptr)),
    DRIVER(gives, cuCtxEnablePeerAccess, (peerContext, Flags), model.peer(model.device_of_context(peerContext), true)),
    DRIVER(gives, cuCtxDisablePeerAccess, (peerContext), model.peer(model.device_of_context(peerContext), false)),
    DRIVER(asks, cuDeviceCanAccessPeer, (canAccessPeer, dev, peerDev), ),
    // Pools
    DRIVER(gives, cuDeviceGetDefaultMemPool, (pool_out, dev), model.made_pool(*pool_out, dev)),
    DRIVER(gives, cuDeviceGetMemPool, (pool, dev), model.made_pool(*pool, dev)),
    DRIVER(asks, cuDeviceSetMemPool, (dev, pool), ),
    DRIVER(gives, cuMemPoolCreate, (pool, poolProps), model.made_pool(*pool, owner(poolProps))),
    DRIVER(asks, cuMemPoolDestroy, (pool), ),
    DRIVER(gives, cuMemPoolSetAccess, (pool, map, count), model.open_pool(map, count)),
    DRIVER(asks, cuMemPoolGetAccess, (flags, memPool, location), ),
    DRIVER(asks, cuMemPoolTrimTo, (pool, minBytesToKeep), ),
    DRIVER(asks, cuMemPoolSetAttribute, (pool, attr, value), ),
    DRIVER(asks, cuMemPoolGetAttribute, (pool, attr, value), ),
    DRIVER_STREAM(gives, cuMemAllocAsync, (dptr, bytesize, hStream), (dptr, bytesize, hStream),
                  model.allocate(*dptr, bytesize, model.device)),
    DRIVER_STREAM(gives, cuMemAllocFromPoolAsync, (dptr, bytesize, pool, hStream), (dptr, bytesize, pool, hStream),
                  model.allocate(*dptr, bytesize, model.device_of_pool(pool))),
    DRIVER_STREAM(takes, cuMemFreeAsync, (dptr, hStream), (dptr, hStream), model.free(dptr)),
    // Launches
    DRIVER_STREAM(works, cuLaunchKernel,
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                   kernelParams, extra),
                  (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream), ),
    DRIVER_STREAM(
        works, cuLaunchCooperativeKernel,
        (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams),
        (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream), ),
    DRIVER_STREAM(works, cuLaunchKernelEx, (config, f, kernelParams, extra), (config, f), ),
    DRIVER_STREAM(works, cuGraphLaunch, (hGraphExec, hStream), (hGraphExec, hStream), ),
    // Copies and memsets that do not wait
    DRIVER_BOTH(works, cuMemcpyDtoD_v2, _ptds, (dstDevice, srcDevice, ByteCount), (dstDevice, srcDevice, ByteCount), ),
    DRIVER_STREAM(works, cuMemcpyHtoDAsync_v2, (dstDevice, srcHost, ByteCount, hStream),
                  (dstDevice, srcHost, ByteCount, hStream), ),
    DRIVER_STREAM(works, cuMemcpyDtoHAsync_v2, (dstHost, srcDevice, ByteCount, hStream),
                  (dstHost, srcDevice, ByteCount, hStream), ),
    DRIVER_STREAM(works, cuMemcpyDtoDAsync_v2, (dstDevice, srcDevice, ByteCount, hStream),
                  (dstDevice, srcDevice, ByteCount, hStream), ),
    DRIVER_STREAM(works, cuMemcpyAsync, (dst, src, ByteCount, hStream), (dst, src, ByteCount, hStream), ),
    DRIVER_STREAM(works, cuMemcpyPeerAsync, (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream),
                  (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream), ),
    DRIVER_BOTH(works, cuMemsetD8_v2, _ptds, (dstDevice, value, N), (dstDevice, value, N), ),
    DRIVER_BOTH(works, cuMemsetD32_v2, _ptds, (dstDevice, value, N), (dstDevice, value, N), ),
    DRIVER_STREAM(works, cuMemsetD8Async, (dstDevice, value, N, hStream), (dstDevice, value, N, hStream), ),
    DRIVER_STREAM(works, cuMemsetD32Async, (dstDevice, value, N, hStream), (dstDevice, value, N, hStream), ),
    // What is captured, and does not run
    DRIVER_STREAM(gives, cuStreamBeginCapture_v2, (hStream, mode), (hStream, mode), ++model.captures),
    DRIVER_STREAM(gives, cuStreamEndCapture, (hStream, phGraph), (hStream, phGraph), --model.captures),
    DRIVER_STREAM(joins, cuEventRecord, (hEvent, hStream), (hEvent, hStream), ),
    DRIVER_STREAM(joins, cuStreamWaitEvent, (hStream, hEvent, Flags), (hStream, hEvent, Flags), ),
    // What waits
    DRIVER_BARE(waits, cuCtxSynchronize),
    DRIVER_STREAM(waits, cuStreamSynchronize, (hStream), (hStream), ),
    DRIVER(waits, cuEventSynchronize, (hEvent), ),
    DRIVER_BOTH(waits, cuMemcpyHtoD_v2, _ptds, (dstDevice, srcHost, ByteCount), (dstDevice, srcHost, ByteCount), ),
    DRIVER_BOTH(waits, cuMemcpyDtoH_v2, _ptds, (dstHost, srcDevice, ByteCount), (dstHost, srcDevice, ByteCount), ),
    DRIVER_BOTH(waits, cuMemcpy, _ptds, (dst, src, ByteCount), (dst, src, ByteCount), ),
    // Whose contexts these are. The runtime calls these too.
    DRIVER(tells, cuDevicePrimaryCtxRetain, (pctx, dev), model.made_context(*pctx, dev)),
    DRIVER(tells, cuCtxCreate_v2, (pctx, flags, dev), model.made_context(*pctx, dev)),
    DRIVER(tells, cuCtxCreate_v3, (pctx, paramsArray, numParams, flags, dev), model.made_context(*pctx, dev)),
    DRIVER(tells, cuCtxCreate_v4, (pctx, ctxCreateParams, flags, dev), model.made_context(*pctx, dev)),
    DRIVER(tells, cuCtxGetDevice, (device), model.made_context(context, *device)),
#if CUDA_VERSION >= 13000
    DRIVER(tells, cuCtxGetDevice_v2, (device, ctx), model.made_context(ctx ? ctx : context, *device)),
#endif
};

const RecordedCalls& of_runtime = *new RecordedCalls{
    RUNTIME(asks, cudaMemGetInfo_v3020, (free, total), ),
    RUNTIME(gives, cudaMalloc_v3020, (devPtr, size), model.allocate(bits(*devPtr), size, model.device)),
    RUNTIME(gives, cudaMallocPitch_v3020, (devPtr, pitch, width, height),
            model.allocate(bits(*devPtr), *pitch* height, model.device)),
    RUNTIME_SHOWN(
        gives, cudaMalloc3D_v3020, (pitchedDevPtr, extent), (pitchedDevPtr),
        model.allocate(bits(pitchedDevPtr->ptr), pitchedDevPtr->pitch* extent.height* extent.depth, model.device)),
    RUNTIME(gives, cudaMallocManaged_v6000, (devPtr, size, flags), model.allocate(bits(*devPtr), size, -1)),
    RUNTIME(takes, cudaFree_v3020, (devPtr), model.free(bits(devPtr))),
    RUNTIME(gives, cudaMallocHost_v3020, (ptr, size), model.allocate(bits(*ptr), size, -1)),
    RUNTIME(gives, cudaHostAlloc_v3020, (pHost, size, flags), model.allocate(bits(*pHost), size, -1)),
    RUNTIME(takes, cudaFreeHost_v3020, (ptr), model.free(bits(ptr))),
    RUNTIME(asks, cudaHostRegister_v4000, (ptr, size, flags), ),
    RUNTIME(asks, cudaHostUnregister_v4000, (ptr), ),
    // Other processes and other GPUs
    RUNTIME(asks, cudaIpcGetMemHandle_v4010, (handle, devPtr), ),
    RUNTIME_SHOWN(gives, cudaIpcOpenMemHandle_v4010, (devPtr, handle, flags), (devPtr, flags),
                  model.allocate(bits(*devPtr), {}, {}, true)),
    RUNTIME(takes, cudaIpcCloseMemHandle_v4010, (devPtr), model.free(bits(devPtr))),
    RUNTIME(gives, cudaDeviceEnablePeerAccess_v4000, (peerDevice, flags), model.peer(peerDevice, true)),
    RUNTIME(gives, cudaDeviceDisablePeerAccess_v4000, (peerDevice), model.peer(peerDevice, false)),
    RUNTIME(asks, cudaDeviceCanAccessPeer_v4000, (canAccessPeer, device, peerDevice), ),
    // Pools
    RUNTIME(gives, cudaDeviceGetDefaultMemPool_v11020, (memPool, device), model.made_pool(*memPool, device)),
    RUNTIME(gives, cudaDeviceGetMemPool_v11020, (memPool, device), model.made_pool(*memPool, device)),
    RUNTIME(asks, cudaDeviceSetMemPool_v11020, (device, memPool), ),
    RUNTIME(gives, cudaMemPoolCreate_v11020, (memPool, poolProps),
            model.made_pool(*memPool, owner(as_driver(poolProps)))),
    RUNTIME(asks, cudaMemPoolDestroy_v11020, (memPool), ),
    RUNTIME(gives, cudaMemPoolSetAccess_v11020, (memPool, descList, count),
            model.open_pool(as_driver(descList), count)),
    RUNTIME(asks, cudaMemPoolGetAccess_v11020, (flags, memPool, location), ),
    RUNTIME(asks, cudaMemPoolTrimTo_v11020, (memPool, minBytesToKeep), ),
    RUNTIME(asks, cudaMemPoolSetAttribute_v11020, (memPool, attr, value), ),
    RUNTIME(asks, cudaMemPoolGetAttribute_v11020, (memPool, attr, value), ),
    RUNTIME_STREAM(gives, cudaMallocAsync, _v11020, (devPtr, size, hStream), (devPtr, size, hStream),
                   model.allocate(bits(*devPtr), size, model.device)),
    RUNTIME_STREAM(gives, cudaMallocFromPoolAsync, _v11020, (ptr, size, memPool, stream), (ptr, size, memPool, stream),
                   model.allocate(bits(*ptr), size, model.device_of_pool(memPool))),
    RUNTIME_STREAM(takes, cudaFreeAsync, _v11020, (devPtr, hStream), (devPtr, hStream), model.free(bits(devPtr))),
    // Launches
    RUNTIME_STREAM(works, cudaLaunchKernel, _v7000, (func, gridDim, blockDim, args, sharedMem, stream),
                   (func, gridDim, blockDim, sharedMem, stream), ),
    RUNTIME_STREAM(works, cudaLaunchCooperativeKernel, _v9000, (func, gridDim, blockDim, args, sharedMem, stream),
                   (func, gridDim, blockDim, sharedMem, stream), ),
    RUNTIME_STREAM(works, cudaLaunchKernelExC, _v11060, (config, func, args), (config, func, args), ),
    RUNTIME_STREAM(works, cudaGraphLaunch, _v10000, (graphExec, stream), (graphExec, stream), ),
    // Copies and memsets that do not wait
    RUNTIME_BOTH(works, cudaMemcpyAsync, _v3020, _ptsz_v7000, (dst, src, count, kind, stream),
                 (dst, src, count, kind, stream), ),
    RUNTIME(works, cudaMemcpyPeer_v4000, (dst, dstDevice, src, srcDevice, count), ),
    RUNTIME(works, cudaMemcpyPeerAsync_v4000, (dst, dstDevice, src, srcDevice, count, stream), ),
    RUNTIME_BOTH(works, cudaMemset, _v3020, _ptds_v7000, (devPtr, value, count), (devPtr, value, count), ),
    RUNTIME_BOTH(works, cudaMemsetAsync, _v3020, _ptsz_v7000, (devPtr, value, count, stream),
                 (devPtr, value, count, stream), ),
    // What is captured, and does not run
    RUNTIME_STREAM(gives, cudaStreamBeginCapture, _v10000, (stream, mode), (stream, mode), ++model.captures),
    RUNTIME_STREAM(gives, cudaStreamEndCapture, _v10000, (stream, pGraph), (stream, pGraph), --model.captures),
    RUNTIME_BOTH(joins, cudaEventRecord, _v3020, _ptsz_v7000, (event, stream), (event, stream), ),
    RUNTIME_BOTH(joins, cudaStreamWaitEvent, _v3020, _ptsz_v7000, (stream, event, flags), (stream, event, flags), ),
    // What waits
    RUNTIME_BARE(waits, cudaDeviceSynchronize, _v3020),
    RUNTIME_BOTH(waits, cudaStreamSynchronize, _v3020, _ptsz_v7000, (stream), (stream), ),
    RUNTIME(waits, cudaEventSynchronize_v3020, (event), ),
    RUNTIME_BOTH(waits, cudaMemcpy, _v3020, _ptds_v7000, (dst, src, count, kind), (dst, src, count, kind), ),
};

}  // namespace

const RecordedCalls& recorded_calls(CUpti_CallbackDomain domain) {
  return domain == CUPTI_CB_DOMAIN_DRIVER_API ? of_driver : of_runtime;
}

}  // namespace recorder
