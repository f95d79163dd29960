// SPDX-License-Identifier: MIT-0
// Streams and events, nearly all of them the driver's own.
#include <memory>

#include "runtime.h"

using namespace runtime;

namespace {

struct Callback {
  cudaStreamCallback_t function;
  cudaStream_t stream;
  void* data;
};

void add_callback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags) {
  require(function && !flags, "callback is null, or flags is not 0");
  auto it = std::make_unique<Callback>(Callback{function, stream, data});
  must(cuStreamAddCallback(
      at(stream),
      [](CUstream, CUresult result, void* it) {
        const std::unique_ptr<Callback> callback(static_cast<Callback*>(it));
        callback->function(callback->stream, cudaError_t(result), callback->data);
      },
      it.get(), 0));
  it.release();
}

}  // namespace

FORWARD(cudaStreamCreate, (cudaStream_t * pStream), (pStream), cuStreamCreate(pStream, 0))
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * pStream, unsigned int flags), (pStream, flags),
        cuStreamCreate(pStream, flags))
FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * pStream, unsigned int flags, int priority),
        (pStream, flags, priority), cuStreamCreateWithPriority(pStream, flags, priority))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), (stream), cuStreamDestroy(stream))
STREAM_FORWARD(cudaStreamQuery, (cudaStream_t stream), (stream), cuStreamQuery(at(stream)))
STREAM_FORWARD(cudaStreamSynchronize, (cudaStream_t stream), (stream), cuStreamSynchronize(at(stream)))
STREAM_FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
               (stream, event, flags), cuStreamWaitEvent(at(stream), event, flags))
STREAM_CALL(cudaStreamAddCallback, _ptsz,
            (cudaStream_t stream, cudaStreamCallback_t callback, void* userData, unsigned int flags),
            (stream, callback, userData, flags), add_callback(stream, callback, userData, flags))
STREAM_FORWARD(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void* userData), (stream, fn, userData),
               cuLaunchHostFunc(at(stream), fn, userData))
STREAM_FORWARD(cudaStreamGetPriority, (cudaStream_t hStream, int* priority), (hStream, priority),
               cuStreamGetPriority(at(hStream), priority))
STREAM_FORWARD(cudaStreamGetFlags, (cudaStream_t hStream, unsigned int* flags), (hStream, flags),
               cuStreamGetFlags(at(hStream), flags))
STREAM_FORWARD(cudaStreamGetAttribute, (cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue* value_out),
               (hStream, attr, value_out),
               cuStreamGetAttribute(at(hStream), CUstreamAttrID(attr), reinterpret_cast<CUstreamAttrValue*>(value_out)))
STREAM_FORWARD(cudaStreamSetAttribute, (cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue* value),
               (hStream, attr, value),
               cuStreamSetAttribute(at(hStream), CUstreamAttrID(attr),
                                    reinterpret_cast<const CUstreamAttrValue*>(value)))
STREAM_FORWARD(cudaStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src), (dst, src),
               cuStreamCopyAttributes(at(dst), at(src)))
STREAM_FORWARD(cudaStreamGetId, (cudaStream_t hStream, unsigned long long* streamId), (hStream, streamId),
               cuStreamGetId(at(hStream), streamId))
STREAM_FORWARD(cudaStreamGetDevice, (cudaStream_t hStream, int* device), (hStream, device),
               cuStreamGetDevice(at(hStream), device))
STREAM_FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus),
               (stream, pCaptureStatus),
               cuStreamIsCapturing(at(stream), reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus)))

FORWARD(cudaEventCreate, (cudaEvent_t * event), (event), cuEventCreate(event, 0))
FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * event, unsigned int flags), (event, flags),
        cuEventCreate(event, flags))
STREAM_FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream),
               cuEventRecord(event, at(stream)))
STREAM_FORWARD(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
               (event, stream, flags), cuEventRecordWithFlags(event, at(stream), flags))
FORWARD(cudaEventQuery, (cudaEvent_t event), (event), cuEventQuery(event))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), (event), cuEventSynchronize(event))
FORWARD(cudaEventDestroy, (cudaEvent_t event), (event), cuEventDestroy(event))
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  CALL((handle, event), must(cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event)));
}
FORWARD(cudaIpcOpenEventHandle, (cudaEvent_t * event, cudaIpcEventHandle_t handle), (event),
        cuIpcOpenEventHandle(event, reinterpret_cast<CUipcEventHandle&>(handle)))
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  CALL((ms, start, end), need(ms, "ms"); must(cuEventElapsedTime(ms, start, end)));
}
