// SPDX-License-Identifier: MIT-0
// Two GPUs and ordinary CUDA: what of one may be used while the other is current, pools and IPC between them. Each case
// has a process of its own. Skips on one GPU.
#include "conformance.h"

#include <thread>

__global__ void load(const volatile int* p, int* to) { *to = *p; }
__global__ void store(volatile int* p, int v) { *p = v; }
__global__ void add(int* p, int v) { atomicAdd_system(p, v); }
__global__ void await(const volatile int* p, int v) { while (*p != v); }
static __device__ int cell = 3;
__global__ void count(int* to) { *to = atomicAdd(&cell, 1); }

static void on(int gpu) { CHECK(cudaSetDevice(gpu)); }
static void finish(const std::string& what) { say(what, cudaDeviceSynchronize()); }
static int value_at(const void* p) {
  int value = -1;
  CHECK(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDefault));
  return value;
}

static int* memory[2];  // of each GPU, 4 MiB of zeros
static int* result[2];
static cudaStream_t stream[2];
static cudaEvent_t event[2];
static void prepare() {
  for (int gpu : {1, 0}) {
    on(gpu), CHECK(cudaStreamCreate(&stream[gpu])), CHECK(cudaEventCreate(&event[gpu]));
    CHECK(cudaMalloc(&memory[gpu], 4 * MiB)), CHECK(cudaMemset(memory[gpu], 0, 4 * MiB));
    CHECK(cudaMalloc(&result[gpu], 4 * MiB)), CHECK(cudaDeviceSynchronize());
  }
}

SECTION("streams of the other GPU") {
  on(0);
  say("memset in the other's stream", cudaMemsetAsync(memory[1], 1, page, stream[1]));
  say("memset of its own memory there", cudaMemsetAsync(memory[0], 1, page, stream[1]));
  int value = 0;
  say("copy in the other's stream", cudaMemcpyAsync(memory[1], &value, 4, cudaMemcpyDefault, stream[1]));
  say("synchronise", cudaStreamSynchronize(stream[1]));
  int device = -1;
  say("device of the stream", cudaStreamGetDevice(stream[1], &device));
  say("is", std::to_string(device));
  say("host function there", cudaLaunchHostFunc(stream[1], [](void* p) { *static_cast<int*>(p) = 9; }, &value));
  say("synchronise", cudaStreamSynchronize(stream[1]));
  say("value", std::to_string(value));
  say("destroy", cudaStreamDestroy(stream[1]));
  finish("synchronise all");
}
SECTION("launches in a stream of the other GPU") {  // GPU 0 is current, the stream is GPU 1's
  on(1), count<<<1, 1>>>(result[1]), finish("GPU 1 counts"), on(0);
  count<<<1, 1, 0, stream[1]>>>(result[1]), say("launch in its stream", cudaGetLastError());
  say("synchronise", cudaStreamSynchronize(stream[1]));
  say("it counted from", std::to_string(value_at(result[1])));
  load<<<1, 1, 0, stream[1]>>>(memory[1], result[1]), say("launch of what GPU 1 has not run", cudaGetLastError());
  say("synchronise", cudaStreamSynchronize(stream[1]));
  int device = -1;
  CHECK(cudaGetDevice(&device)), say("current device", std::to_string(device));
  int value = 5, *p = memory[1];
  void* arguments[] = {&p, &value};
  const void* const kernel = (const void*)store;
  say("cooperative launch", cudaLaunchCooperativeKernel(kernel, 1, 1, arguments, 0, stream[1]));
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = 1, config.stream = stream[1];
  say("cudaLaunchKernelExC", cudaLaunchKernelExC(&config, kernel, arguments));
  say("synchronise", cudaStreamSynchronize(stream[1]));
  say("stored", std::to_string(value_at(memory[1])));
  const auto large = [&](int gpu) { return cudaLaunchKernel(kernel, 1, 1, arguments, 100 << 10, stream[gpu]); };
  say("allow 100 KiB of shared memory",
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  say("launch with 100 KiB in GPU 1's stream", large(1));
  p = memory[0], say("launch with 100 KiB in GPU 0's stream", large(0)), p = memory[1];
  cudaFunction_t of_gpu_0;
  cudaKernel_t of_all;
  CHECK(cudaGetFuncBySymbol(&of_gpu_0, kernel)), CHECK(cudaGetKernel(&of_all, kernel));
  const auto driver = [&](void* it) {
    return cuLaunchKernel(CUfunction(it), 1, 1, 1, 1, 1, 1, 0, stream[1], arguments, nullptr);
  };
  say("cuLaunchKernel of GPU 0's function", driver(of_gpu_0));
  say("cuLaunchKernel of the CUkernel", driver(of_all));
  finish("synchronise all");
}
SECTION("events of the other GPU") {
  on(0);
  say("record the other's event", cudaEventRecord(event[1], stream[0]));
  say("record its event in the other's stream", cudaEventRecord(event[0], stream[1]));
  say("record the other's event in the other's stream", cudaEventRecord(event[1], stream[1]));
  say("record its event", cudaEventRecord(event[0], stream[0]));
  say("wait for the other's event", cudaStreamWaitEvent(stream[0], event[1], 0));
  say("the other waits for its event", cudaStreamWaitEvent(stream[1], event[0], 0));
  say("stream 0 waits for the other's event", cudaStreamWaitEvent(0, event[1], 0));
  say("synchronise with the other's event", cudaEventSynchronize(event[1]));
  say("query the other's event", cudaEventQuery(event[1]));
  finish("synchronise all");
  float time;
  say("time between both", cudaEventElapsedTime(&time, event[0], event[1]));
  say("destroy the other's", cudaEventDestroy(event[1]));
}
SECTION("memory of the other GPU, no peer access") {
  on(0);
  say("memset", cudaMemset(memory[1], 1, page));
  int value = 0;
  say("copy in", cudaMemcpy(memory[1], &value, 4, cudaMemcpyDefault));
  say("copy out", cudaMemcpy(&value, memory[1], 4, cudaMemcpyDeviceToHost));
  say("copy from it", cudaMemcpy(memory[0], memory[1], page, cudaMemcpyDefault));
  say("copy to it", cudaMemcpy(memory[1], memory[0], page, cudaMemcpyDeviceToDevice));
  say("copy from it in its stream", cudaMemcpyAsync(memory[0], memory[1], page, cudaMemcpyDefault, stream[1]));
  say("cudaMemcpyPeer", cudaMemcpyPeer(memory[1], 1, memory[0], 0, page));
  say("cudaMemcpyPeer, devices exchanged", cudaMemcpyPeer(memory[1], 0, memory[0], 1, page));
  say("cudaMemcpyPeerAsync in the other's stream", cudaMemcpyPeerAsync(memory[1], 1, memory[0], 0, page, stream[1]));
  say("cudaMemcpyPeer, devices 0 and 99", cudaMemcpyPeer(memory[1], 0, memory[0], 99, page));
  finish("synchronise");
  cudaPointerAttributes all;
  say("attributes", cudaPointerGetAttributes(&all, memory[1]));
  say("device", std::to_string(all.device));
  CUdeviceptr base;
  size_t size;
  say("address range", cuMemGetAddressRange(&base, &size, CUdeviceptr(memory[1])));
  void* p = nullptr;
  say("device pointer", cuPointerGetAttribute(&p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CUdeviceptr(memory[1])));
  say("is it", yes(p == memory[1]));
  say("free", cudaFree(memory[1]));
  int* from_host;
  CHECK(cudaMallocHost(&from_host, page)), *from_host = 4;
  for (int gpu : {0, 1}) on(gpu), add<<<1, 1>>>(from_host, 1), finish("add to pinned memory");
  say("value", std::to_string(*from_host));
  int* managed;
  CHECK(cudaMallocManaged(&managed, page)), *managed = 4;
  for (int gpu : {0, 1}) on(gpu), add<<<1, 1>>>(managed, 1), finish("add to managed memory");
  say("value", std::to_string(*managed));
}
SECTION("peer access one way") {
  on(1), say("GPU 1 may use GPU 0's memory", cudaDeviceEnablePeerAccess(0, 0));
  store<<<1, 1>>>(memory[0], 5), finish("store by GPU 1");
  add<<<1, 1>>>(memory[0], 5), finish("atomic add by GPU 1");
  say("value", std::to_string(value_at(memory[0])));
  on(0), say("disable the other way", cudaDeviceDisablePeerAccess(1));
  int* later;
  CHECK(cudaMalloc(&later, page)), on(1), store<<<1, 1>>>(later, 6), finish("store by GPU 1 to later memory");
  on(0), say("value", std::to_string(value_at(later)));
  store<<<1, 1>>>(memory[1], 5), finish("store by GPU 0 to GPU 1's");
}
SECTION("one GPU waits for the other") {  // GPU 1 goes on when GPU 0 has stored
  on(1), CHECK(cudaDeviceEnablePeerAccess(0, 0));
  on(0), store<<<1, 1, 0, stream[0]>>>(memory[0], 7), CHECK(cudaEventRecord(event[0], stream[0]));
  on(1), CHECK(cudaStreamWaitEvent(stream[1], event[0], 0));
  load<<<1, 1, 0, stream[1]>>>(memory[0], result[1]);
  say("synchronise", cudaStreamSynchronize(stream[1]));
  say("loaded", std::to_string(value_at(result[1])));
  on(1), await<<<1, 1, 0, stream[1]>>>(memory[0], 8), say("GPU 1 waits", cudaGetLastError());
  on(0), say("GPU 1 is busy", cudaStreamQuery(stream[1]));
  store<<<1, 1, 0, stream[0]>>>(memory[0], 8), say("GPU 0 stores", cudaStreamSynchronize(stream[0]));
  say("GPU 1", cudaStreamSynchronize(stream[1]));
}
SECTION("variables of each GPU") {
  for (int gpu : {0, 1}) {
    on(gpu), count<<<1, 1>>>(result[gpu]), count<<<1, 1>>>(result[gpu]), finish("count");
    say("cell of GPU " + std::to_string(gpu), std::to_string(value_at(result[gpu])));
    const int value = 10;
    CHECK(cudaMemcpyToSymbol(cell, &value, sizeof value));
  }
  void* address[2];
  for (int gpu : {0, 1}) on(gpu), CHECK(cudaGetSymbolAddress(&address[gpu], cell));
  say("at the same address", yes(address[0] == address[1]));
  cudaFuncAttributes all;
  say("attributes of a kernel", cudaFuncGetAttributes(&all, (const void*)count));
}
SECTION("threads") {
  on(1);
  std::thread([] {
    int device = -1;
    CHECK(cudaGetDevice(&device)), say("device of a new thread", std::to_string(device));
    say("memset of GPU 1's memory", cudaMemset(memory[1], 0, 4)), cudaGetLastError();
    store<<<1, 1, 0, stream[0]>>>(memory[0], 3);
    say("launch in GPU 0's stream", cudaGetLastError()), say("synchronise", cudaStreamSynchronize(stream[0]));
  }).join();
  int device = -1;
  CHECK(cudaGetDevice(&device)), say("device of the first", std::to_string(device));
}
SECTION("reset of one GPU") {
  on(1), say("reset GPU 1", cudaDeviceReset());
  on(0), store<<<1, 1>>>(memory[0], 1), finish("kernel on GPU 0");
  say("memset of GPU 1's memory", cudaMemset(memory[1], 0, 4));
  say("free it", cudaFree(memory[1]));
  on(1), CHECK(cudaMalloc(&memory[1], page)), store<<<1, 1>>>(memory[1], 1), finish("kernel on GPU 1");
}
SECTION("contexts") {
  CUcontext context[2], now;
  for (int gpu : {0, 1}) on(gpu), CHECK(cuCtxGetCurrent(&context[gpu]));
  say("push", cuCtxPushCurrent(context[0]));
  int device = -1;
  CHECK(cudaGetDevice(&device)), say("device", std::to_string(device));
  say("memset of the other's memory", cuMemsetD8(CUdeviceptr(memory[1]), 1, page));
  say("enable the other", cuCtxEnablePeerAccess(context[1], 0));
  say("enable itself", cuCtxEnablePeerAccess(context[0], 0));
  say("cudaDeviceEnablePeerAccess then", cudaDeviceEnablePeerAccess(1, 0));
  cudaGetLastError();
  store<<<1, 1>>>(memory[1], 4), finish("store");
  say("pop", cuCtxPopCurrent(&now));
  CHECK(cudaGetDevice(&device)), say("device", std::to_string(device));
  say("value", std::to_string(value_at(memory[1])));
  CUcontext extra;
  CHECK(cuCtxCreate(&extra, nullptr, 0, 1));
  say("enable from a second context", cuCtxEnablePeerAccess(context[0], 0));
  say("again", cuCtxEnablePeerAccess(context[0], 0));
  say("enable the second context", (CHECK(cuCtxSetCurrent(context[0])), cuCtxEnablePeerAccess(extra, 0)));
  say("destroy it", cuCtxDestroy(extra));
}

static cudaMemPool_t pool;
static void say_pool(int gpu) {
  cudaMemLocation location = {};
  location.type = cudaMemLocationTypeDevice, location.id = gpu;
  cudaMemAccessFlags flags = cudaMemAccessFlags(99);
  const cudaError_t answer = cudaMemPoolGetAccess(&flags, pool, &location);
  say("pool's access for GPU " + std::to_string(gpu), answer ? check::name(answer) : std::to_string(flags));
}
static void set_pool(int gpu, cudaMemAccessFlags flags) {
  cudaMemAccessDesc descriptor = {};
  descriptor.location.type = cudaMemLocationTypeDevice, descriptor.location.id = gpu, descriptor.flags = flags;
  say("pool's access for GPU " + std::to_string(gpu) + " = " + std::to_string(flags),
      cudaMemPoolSetAccess(pool, &descriptor, 1));
}
SECTION("pools") {
  on(0), CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  int* other;
  say_pool(0), say_pool(1), on(1);
  say("allocate in the other's stream", cudaMallocAsync(&other, page, stream[0]));
  CUdevice device = -1;
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUdeviceptr(other)));
  say("lies on GPU", std::to_string(device));
  say("free in its own stream", cudaFreeAsync(other, stream[1]));
  say("allocate from the other's pool", cudaMallocFromPoolAsync(&other, page, pool, stream[1]));
  CHECK(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUdeviceptr(other)));
  say("lies on GPU", std::to_string(device));
  say("free", cudaFreeAsync(other, stream[1]));
  set_pool(1, cudaMemAccessFlagsProtRead);
  set_pool(1, cudaMemAccessFlagsProtNone), say_pool(1);
  finish("synchronise");
}

static int ends[2];
static void opener() {
  cudaIpcMemHandle_t handle;
  EXPECT(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
  on(1);
  int *p = nullptr, *q = nullptr;
  say("opener: open with GPU 1", cudaIpcOpenMemHandle((void**)&p, handle, cudaIpcMemLazyEnablePeerAccess));
  cudaPointerAttributes all;
  say("opener: attributes", cudaPointerGetAttributes(&all, p));
  say("opener: device", std::to_string(all.device));
  add<<<1, 1>>>(p, 5), finish("opener: add by GPU 1");
  on(0), say("opener: open with GPU 0", cudaIpcOpenMemHandle((void**)&q, handle, cudaIpcMemLazyEnablePeerAccess));
  add<<<1, 1>>>(q, 5), finish("opener: add by GPU 0");
  on(1), say("opener: enable peer access then", cudaDeviceEnablePeerAccess(0, 0));
  say("opener: close", cudaIpcCloseMemHandle(p));
}
SECTION("legacy IPC") {
  on(0);
  cudaIpcMemHandle_t handle;
  CHECK(cudaIpcGetMemHandle(&handle, memory[0]));
  EXPECT(pipe(ends) == 0 && write(ends[1], &handle, sizeof handle) == sizeof handle, "no pipe");
  say("opener", run_again("opener", std::to_string(ends[0])));
  say("value", std::to_string(value_at(memory[0])));
}

static void set_up() { prepare(); }

int main(int argc, char** argv) {
  if (argc > 2) return ends[0] = atoi(argv[2]), opener(), 0;
  if (argc == 1) require_peers();
  return run_sections(argc, argv, set_up);
}
