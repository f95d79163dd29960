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
  auto callback = std::make_unique<Callback>(Callback{function, stream, data});
  must(cuStreamAddCallback(
      at(stream),
      [](CUstream, CUresult result, void* data) {
        const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
        callback->function(callback->stream, cudaError_t(result), callback->data);
      },
      callback.get(), 0));
  static_cast<void>(callback.release());  // the stream has it now
}

}  // namespace

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return call(ARGUMENTS(pStream), [&] { return cuStreamCreate(pStream, 0); });
}
FORWARD(cudaStreamCreateWithFlags, cuStreamCreate, (cudaStream_t * pStream, unsigned int flags), pStream, flags)
FORWARD(cudaStreamCreateWithPriority, cuStreamCreateWithPriority,
        (cudaStream_t * pStream, unsigned int flags, int priority), pStream, flags, priority)
FORWARD(cudaStreamDestroy, cuStreamDestroy, (cudaStream_t stream), stream)
STREAM_FORWARD(cudaStreamQuery, _ptsz, cuStreamQuery, (cudaStream_t stream), stream)
STREAM_FORWARD(cudaStreamSynchronize, _ptsz, cuStreamSynchronize, (cudaStream_t stream), stream)
STREAM_FORWARD(cudaStreamWaitEvent, _ptsz, cuStreamWaitEvent,
               (cudaStream_t stream, cudaEvent_t event, unsigned int flags), stream, event, flags)
STREAM_CALL(cudaStreamAddCallback, _ptsz,
            (cudaStream_t stream, cudaStreamCallback_t callback, void* userData, unsigned int flags),
            (stream, callback, userData, flags)) {
  return call(ARGUMENTS(stream, callback, userData, flags), [&] { add_callback(stream, callback, userData, flags); });
}
STREAM_FORWARD(cudaLaunchHostFunc, _ptsz, cuLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t fn, void* userData),
               stream, fn, userData)
STREAM_FORWARD(cudaStreamGetPriority, _ptsz, cuStreamGetPriority, (cudaStream_t hStream, int* priority), hStream,
               priority)
STREAM_FORWARD(cudaStreamGetFlags, _ptsz, cuStreamGetFlags, (cudaStream_t hStream, unsigned int* flags), hStream, flags)
STREAM_FORWARD(cudaStreamGetAttribute, _ptsz, cuStreamGetAttribute,
               (cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue* value_out), hStream, attr, value_out)
STREAM_FORWARD(cudaStreamSetAttribute, _ptsz, cuStreamSetAttribute,
               (cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue* value), hStream, attr, value)
STREAM_FORWARD(cudaStreamAttachMemAsync, _ptsz, cuStreamAttachMemAsync,
               (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags), stream, devPtr, length, flags)
STREAM_FORWARD(cudaStreamCopyAttributes, _ptsz, cuStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src), dst, src)
STREAM_FORWARD(cudaStreamGetId, _ptsz, cuStreamGetId, (cudaStream_t hStream, unsigned long long* streamId), hStream,
               streamId)
STREAM_FORWARD(cudaStreamGetDevice, _ptsz, cuStreamGetDevice, (cudaStream_t hStream, int* device), hStream, device)

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call(ARGUMENTS(event), [&] { return cuEventCreate(event, 0); });
}
FORWARD(cudaEventCreateWithFlags, cuEventCreate, (cudaEvent_t * event, unsigned int flags), event, flags)
STREAM_FORWARD(cudaEventRecord, _ptsz, cuEventRecord, (cudaEvent_t event, cudaStream_t stream), event, stream)
STREAM_FORWARD(cudaEventRecordWithFlags, _ptsz, cuEventRecordWithFlags,
               (cudaEvent_t event, cudaStream_t stream, unsigned int flags), event, stream, flags)
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(ARGUMENTS(event), of_event, [&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(ARGUMENTS(event), of_event, [&] { return cuEventSynchronize(event); });
}
FORWARD(cudaEventDestroy, cuEventDestroy, (cudaEvent_t event), event)
FORWARD(cudaIpcGetEventHandle, cuIpcGetEventHandle, (cudaIpcEventHandle_t * handle, cudaEvent_t event), handle, event)
cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  return call(ARGUMENTS(event),
              [&] { return cuIpcOpenEventHandle(event, reinterpret_cast<CUipcEventHandle&>(handle)); });
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return call(ARGUMENTS(ms, start, end), of_event, [&] {
    require_non_null(ms, "ms");
    must(cuEventElapsedTime(ms, start, end));
  });
}
