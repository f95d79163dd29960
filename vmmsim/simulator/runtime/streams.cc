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
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return call(ARGUMENTS(pStream, flags), [&] { return cuStreamCreate(pStream, flags); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return call(ARGUMENTS(pStream, flags, priority),
              [&] { return cuStreamCreateWithPriority(pStream, flags, priority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call(ARGUMENTS(stream), [&] { return cuStreamDestroy(stream); });
}
STREAM_CALL(cudaStreamQuery, _ptsz, (cudaStream_t stream), (stream)) {
  return call(ARGUMENTS(stream), [&] { return cuStreamQuery(at(stream)); });
}
STREAM_CALL(cudaStreamSynchronize, _ptsz, (cudaStream_t stream), (stream)) {
  return call(ARGUMENTS(stream), [&] { return cuStreamSynchronize(at(stream)); });
}
STREAM_CALL(cudaStreamWaitEvent, _ptsz, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
            (stream, event, flags)) {
  return call(ARGUMENTS(stream, event, flags), [&] { return cuStreamWaitEvent(at(stream), event, flags); });
}
STREAM_CALL(cudaStreamAddCallback, _ptsz,
            (cudaStream_t stream, cudaStreamCallback_t callback, void* userData, unsigned int flags),
            (stream, callback, userData, flags)) {
  return call(ARGUMENTS(stream, callback, userData, flags), [&] { add_callback(stream, callback, userData, flags); });
}
STREAM_CALL(cudaLaunchHostFunc, _ptsz, (cudaStream_t stream, cudaHostFn_t fn, void* userData), (stream, fn, userData)) {
  return call(ARGUMENTS(stream, fn, userData), [&] { return cuLaunchHostFunc(at(stream), fn, userData); });
}
STREAM_CALL(cudaStreamGetPriority, _ptsz, (cudaStream_t hStream, int* priority), (hStream, priority)) {
  return call(ARGUMENTS(hStream, priority), [&] { return cuStreamGetPriority(at(hStream), priority); });
}
STREAM_CALL(cudaStreamGetFlags, _ptsz, (cudaStream_t hStream, unsigned int* flags), (hStream, flags)) {
  return call(ARGUMENTS(hStream, flags), [&] { return cuStreamGetFlags(at(hStream), flags); });
}
STREAM_CALL(cudaStreamGetAttribute, _ptsz,
            (cudaStream_t hStream, cudaStreamAttrID attr, cudaStreamAttrValue* value_out), (hStream, attr, value_out)) {
  return call(ARGUMENTS(hStream, attr, value_out), [&] {
    return cuStreamGetAttribute(at(hStream), CUstreamAttrID(attr), reinterpret_cast<CUstreamAttrValue*>(value_out));
  });
}
STREAM_CALL(cudaStreamSetAttribute, _ptsz,
            (cudaStream_t hStream, cudaStreamAttrID attr, const cudaStreamAttrValue* value), (hStream, attr, value)) {
  return call(ARGUMENTS(hStream, attr, value), [&] {
    return cuStreamSetAttribute(at(hStream), CUstreamAttrID(attr), reinterpret_cast<const CUstreamAttrValue*>(value));
  });
}
STREAM_CALL(cudaStreamAttachMemAsync, _ptsz, (cudaStream_t stream, void* devPtr, size_t length, unsigned int flags),
            (stream, devPtr, length, flags)) {
  return call(ARGUMENTS(stream, devPtr, length, flags),
              [&] { return cuStreamAttachMemAsync(at(stream), address(devPtr), length, flags); });
}
STREAM_CALL(cudaStreamCopyAttributes, _ptsz, (cudaStream_t dst, cudaStream_t src), (dst, src)) {
  return call(ARGUMENTS(dst, src), [&] { return cuStreamCopyAttributes(at(dst), at(src)); });
}
STREAM_CALL(cudaStreamGetId, _ptsz, (cudaStream_t hStream, unsigned long long* streamId), (hStream, streamId)) {
  return call(ARGUMENTS(hStream, streamId), [&] { return cuStreamGetId(at(hStream), streamId); });
}
STREAM_CALL(cudaStreamGetDevice, _ptsz, (cudaStream_t hStream, int* device), (hStream, device)) {
  return call(ARGUMENTS(hStream, device), [&] { return cuStreamGetDevice(at(hStream), device); });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call(ARGUMENTS(event), [&] { return cuEventCreate(event, 0); });
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return call(ARGUMENTS(event, flags), [&] { return cuEventCreate(event, flags); });
}
STREAM_CALL(cudaEventRecord, _ptsz, (cudaEvent_t event, cudaStream_t stream), (event, stream)) {
  return call(ARGUMENTS(event, stream), [&] { return cuEventRecord(event, at(stream)); });
}
STREAM_CALL(cudaEventRecordWithFlags, _ptsz, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
            (event, stream, flags)) {
  return call(ARGUMENTS(event, stream, flags), [&] { return cuEventRecordWithFlags(event, at(stream), flags); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call(ARGUMENTS(event), of_event, [&] { return cuEventQuery(event); });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return call(ARGUMENTS(event), of_event, [&] { return cuEventSynchronize(event); });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call(ARGUMENTS(event), [&] { return cuEventDestroy(event); });
}
cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  return call(ARGUMENTS(handle, event),
              [&] { return cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle*>(handle), event); });
}
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
