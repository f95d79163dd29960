// SPDX-License-Identifier: MIT-0
// Which calls a host function may make, and a callback of a stream: the rest would wait for themselves.
#include "driver_questions.h"

#include <atomic>

#include <cuda_runtime_api.h>

static CUevent behind, unused;  // recorded in the same stream after what asks; never
static std::atomic<bool> is_recorded;
static CUstream other, busy;  // which waits for another host function, and that for the end of this one
static CUgraph graph, made;
static CUgraphExec executable;
static CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
static unsigned flags;
static unsigned long long id;
static cudaPointerAttributes attributes;
static cudaMemPool_t runtime_pool;

static void do_nothing(void*) {}

#define RUNTIME(call)                         \
  {#call, [] {                                \
     const cudaError_t answer = call;         \
     cudaGetLastError();                      \
     return std::string(check::name(answer)); \
   }}

static const Question driver[] = {
    CALL("cuInit", cuInit(0)),
    CALL("cuDriverGetVersion", cuDriverGetVersion(&number)),
    ASK("cuGetErrorName",
        [] {
          const char* text;
          return plain(cuGetErrorName(CUDA_SUCCESS, &text));
        }()),
    ASK("cuGetProcAddress", plain(cuGetProcAddress("cuInit", &pointer, 13000, 0, nullptr))),
    CALL("cuDeviceGet", cuDeviceGet(&a_device, 0)),
    CALL("cuDeviceGetCount", cuDeviceGetCount(&number)),
    CALL("cuDeviceGetName", cuDeviceGetName(pageable, 100, gpu)),
    CALL("cuDeviceGetAttribute", cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, gpu)),
    CALL("cuDeviceTotalMem", cuDeviceTotalMem(&size, gpu)),
    CALL("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState(gpu, &flags, &number)),
    CALL("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&a_context, gpu)),
    CALL("cuCtxGetCurrent", cuCtxGetCurrent(&a_context)),
    CALL("cuCtxSetCurrent", cuCtxSetCurrent(context)),
    CALL("cuCtxPushCurrent", cuCtxPushCurrent(context)),
    CALL("cuCtxGetDevice", cuCtxGetDevice(&a_device)),
    CALL("cuCtxGetId", cuCtxGetId(context, &id)),
    CALL("cuCtxGetFlags", cuCtxGetFlags(&flags)),
    CALL("cuCtxGetLimit", cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE)),
    CALL("cuCtxSynchronize", cuCtxSynchronize()),
    CALL("cuStreamCreate", cuStreamCreate(&a_stream, 0)),
    CALL("cuStreamQuery of its own", cuStreamQuery(stream)),
    CALL("cuStreamQuery of another, idle", cuStreamQuery(other)),
    CALL("cuStreamQuery of the null stream", cuStreamQuery(nullptr)),
    CALL("cuStreamSynchronize of another, idle", cuStreamSynchronize(other)),
    CALL("cuStreamWaitEvent", cuStreamWaitEvent(busy, event, 0)),
    CALL("cuStreamGetPriority", cuStreamGetPriority(other, &number)),
    CALL("cuStreamGetFlags", cuStreamGetFlags(other, &flags)),
    CALL("cuStreamGetId", cuStreamGetId(other, &id)),
    CALL("cuStreamGetCtx", cuStreamGetCtx(other, &a_context)),
    ASK("cuStreamIsCapturing",
        [] {
          CUstreamCaptureStatus status;
          return plain(cuStreamIsCapturing(other, &status));
        }()),
    ASK("cuThreadExchangeStreamCaptureMode",
        [] {
          CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
          return plain(cuThreadExchangeStreamCaptureMode(&mode));
        }()),
    CALL("cuStreamWriteValue32", cuStreamWriteValue32(busy, memory, 1, 0)),
    CALL("cuLaunchHostFunc", cuLaunchHostFunc(busy, do_nothing, nullptr)),
    CALL("cuLaunchKernel", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr)),
    CALL("cuEventCreate", cuEventCreate(&an_event, 0)),
    CALL("cuEventRecord", cuEventRecord(unused, other)),
    CALL("cuEventQuery", cuEventQuery(event)),
    CALL("cuEventQuery of one never recorded", cuEventQuery(never)),
    CALL("cuEventQuery of one behind it", cuEventQuery(behind)),
    CALL("cuEventQuery of null", cuEventQuery(nullptr)),
    CALL("cuEventSynchronize", cuEventSynchronize(event)),
    CALL("cuEventElapsedTime", cuEventElapsedTime(&milliseconds, event, event)),
    CALL("cuEventElapsedTime of one behind it", cuEventElapsedTime(&milliseconds, event, behind)),
    CALL("cuEventElapsedTime without timing", cuEventElapsedTime(&milliseconds, event, untimed)),
    CALL("cuEventElapsedTime to null", cuEventElapsedTime(nullptr, event, event)),
    CALL("cuEventDestroy", cuEventDestroy(unused)),
    CALL("cuMemGetInfo", cuMemGetInfo(&size, &size)),
    CALL("cuMemAlloc", cuMemAlloc(&address, 4)),
    CALL("cuMemFree", cuMemFree(memory)),
    CALL("cuMemAllocHost", cuMemAllocHost(&pointer, 4)),
    CALL("cuMemAllocAsync", cuMemAllocAsync(&address, 4, other)),
    CALL("cuMemFreeAsync", cuMemFreeAsync(memory_async, other)),
    CALL("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&address, host, 0)),
    CALL("cuMemHostGetFlags", cuMemHostGetFlags(&flags, host)),
    CALL("cuMemGetAddressRange", cuMemGetAddressRange(&address, &size, memory)),
    CALL("cuMemcpyHtoD", cuMemcpyHtoD(memory, host, 4)),
    CALL("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(memory, host, 4, other)),
    CALL("cuMemsetD8Async", cuMemsetD8Async(memory, 1, 4, other)),
    CALL("cuPointerGetAttribute", cuPointerGetAttribute(&number, attribute, memory)),
    CALL("cuPointerGetAttributes", cuPointerGetAttributes(1, &attribute, &pointer, memory)),
    CALL("cuMemAddressReserve", cuMemAddressReserve(&address, page, 0, 0, 0)),
    CALL("cuMemCreate", cuMemCreate(&a_handle, page, &good, 0)),
    CALL("cuMemMap", cuMemMap(hole, page, 0, handle, 0)),
    CALL("cuMemSetAccess", cuMemSetAccess(mapping, 4 * MiB, &open_to_all, 1)),
    CALL("cuMemGetAccess", cuMemGetAccess(&id, &good.location, mapping)),
    CALL("cuMemGetAllocationGranularity",
         cuMemGetAllocationGranularity(&size, &good, CU_MEM_ALLOC_GRANULARITY_MINIMUM)),
    CALL("cuMemGetAllocationPropertiesFromHandle", cuMemGetAllocationPropertiesFromHandle(&good, handle)),
    CALL("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle(&a_handle, (void*)mapping)),
    CALL("cuMemExportToShareableHandle",
         cuMemExportToShareableHandle(&number, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)),
    CALL("cuMemUnmap", cuMemUnmap(mapping, 4 * MiB)),
    CALL("cuMemRelease", cuMemRelease(handle)),
    CALL("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool(&a_pool, gpu)),
    CALL("cuMemPoolGetAttribute", cuMemPoolGetAttribute(own_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &id)),
    CALL("cuMemPoolTrimTo", cuMemPoolTrimTo(own_pool, 0)),
    CALL("cuModuleLoadData", cuModuleLoadData(&a_module, other_ptx)),
    CALL("cuModuleGetFunction", cuModuleGetFunction(&a_function, module, "nothing")),
    CALL("cuModuleGetGlobal", cuModuleGetGlobal(&address, &size, module, "table")),
    CALL("cuFuncGetAttribute", cuFuncGetAttribute(&number, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing)),
    CALL("cuLibraryGetKernel", cuLibraryGetKernel(&a_kernel, library, "other")),
    CALL("cuKernelGetFunction", cuKernelGetFunction(&a_function, kernel)),
    CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor",
         cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nothing, 32, 0)),
    CALL("cuGraphCreate", cuGraphCreate(&made, 0)),
    CALL("cuGraphGetNodes", cuGraphGetNodes(graph, nullptr, &size)),
    CALL("cuGraphLaunch", cuGraphLaunch(executable, busy)),
    CALL("cuIpcGetMemHandle", cuIpcGetMemHandle(&ipc, memory)),
};

static const Question runtime[] = {
    RUNTIME(cudaDriverGetVersion(&number)),
    RUNTIME(cudaRuntimeGetVersion(&number)),
    RUNTIME(cudaGetLastError()),
    RUNTIME(cudaPeekAtLastError()),
    RUNTIME(cudaGetDeviceCount(&number)),
    RUNTIME(cudaGetDevice(&number)),
    RUNTIME(cudaSetDevice(0)),
    RUNTIME(cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0)),
    RUNTIME(cudaDeviceSynchronize()),
    RUNTIME(cudaStreamCreate(&a_stream)),
    RUNTIME(cudaStreamQuery(stream)),
    RUNTIME(cudaStreamQuery(other)),
    RUNTIME(cudaStreamQuery(nullptr)),
    RUNTIME(cudaStreamSynchronize(other)),
    RUNTIME(cudaStreamWaitEvent(other, event, 0)),
    RUNTIME(cudaStreamGetFlags(other, &flags)),
    RUNTIME(cudaStreamGetPriority(other, &number)),
    RUNTIME(cudaLaunchHostFunc(busy, do_nothing, nullptr)),
    RUNTIME(cudaEventCreate(&an_event)),
    RUNTIME(cudaEventRecord(event, other)),
    RUNTIME(cudaEventQuery(event)),
    RUNTIME(cudaEventQuery(never)),
    RUNTIME(cudaEventQuery(behind)),
    RUNTIME(cudaEventQuery(nullptr)),
    RUNTIME(cudaEventSynchronize(event)),
    RUNTIME(cudaEventElapsedTime(&milliseconds, event, event)),
    RUNTIME(cudaEventElapsedTime(&milliseconds, event, behind)),
    RUNTIME(cudaEventElapsedTime(nullptr, event, event)),
    RUNTIME(cudaEventDestroy(never)),
    RUNTIME(cudaMemGetInfo(&size, &size)),
    RUNTIME(cudaMalloc(&pointer, 4)),
    RUNTIME(cudaFree((void*)memory)),
    RUNTIME(cudaFree(nullptr)),
    RUNTIME(cudaMallocHost(&pointer, 4)),
    RUNTIME(cudaMallocAsync(&pointer, 4, other)),
    RUNTIME(cudaFreeAsync((void*)memory_async, other)),
    RUNTIME(cudaMemcpy((void*)memory, host, 4, cudaMemcpyHostToDevice)),
    RUNTIME(cudaMemcpyAsync((void*)memory, host, 4, cudaMemcpyHostToDevice, other)),
    RUNTIME(cudaMemsetAsync((void*)memory, 0, 4, other)),
    RUNTIME(cudaPointerGetAttributes(&attributes, (void*)memory)),
    RUNTIME(cudaHostGetDevicePointer(&pointer, host, 0)),
    RUNTIME(cudaDeviceGetDefaultMemPool(&runtime_pool, 0)),
    RUNTIME(cudaGraphCreate(&made, 0)),
    RUNTIME(cudaGraphLaunch(executable, busy)),
};

static void ask_both() {
  while (!is_recorded) std::this_thread::yield();
  section("driver");
  for (const Question& question : driver) ask(question);
  section("runtime");
  for (const Question& question : runtime) ask(question);
}

static void enqueue(bool is_callback) {
  if (is_callback) CHECK(cuStreamAddCallback(stream, [](CUstream, CUresult, void*) { ask_both(); }, nullptr, 0));
  else CHECK(cuLaunchHostFunc(stream, [](void*) { ask_both(); }, nullptr));
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  check::require_gpus(1);
  if (argc == 1) {
    for (const char* what : {"host function", "callback"}) {
      section(what);
      say("end", run_again(what));
    }
    return std::puts("OK"), 0;
  }
  set_up();
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  CHECK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&behind, 0));
  CHECK(cuEventCreate(&unused, 0));
  CHECK(cuGraphCreate(&graph, 0));
  CHECK(cuGraphInstantiate(&executable, graph, 0));
  alarm(60);
  enqueue(argv[1] == std::string("callback"));
  CHECK(cuEventRecord(behind, stream));
  is_recorded = true;
  CHECK(cuCtxSynchronize());
}
