// SPDX-License-Identifier: MIT-0
// The unusual in the runtime: the last error, wrong arguments, symbols, launches that are too large, events that were
// never recorded, faults.
#include "conformance.h"

#include <initializer_list>
#include <thread>

__device__ int cell = 7;
__constant__ int constants[4] = {1, 2, 3, 4};
__device__ int table[8];
static int on_host_only;

__global__ void nothing() {}
__global__ void add(int* to, int value) { *to += value; }
__global__ void __launch_bounds__(64) narrow() {}
__global__ void uses_shared(int* to) {
  extern __shared__ int room[];
  room[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) *to = room[blockDim.x - 1];
}
__global__ void uses_static_shared(int* to) {
  __shared__ int room[1024];
  room[threadIdx.x] = int(threadIdx.x);
  __syncthreads();
  if (threadIdx.x == 0) *to = room[blockDim.x - 1];
}
__global__ void wait_for(volatile int* flag) {
  for (long i = 0; !*flag && i < 100000000; ++i) {
  }
}
__global__ void stop() { __trap(); }
__global__ void set_symbols() { table[3] = constants[2] + cell; }

static void number(const std::string& what, long long it) { say(what, std::to_string(it)); }
static void last(const std::string& what) { say("  last error after " + what, cudaGetLastError()); }

SECTION("last error") {
  void* p;
  say("cudaPeekAtLastError at first", cudaPeekAtLastError());
  say("cudaSetDevice of 99", cudaSetDevice(99));
  say("cudaPeekAtLastError", cudaPeekAtLastError());
  say("cudaFree of null, which works", cudaFree(nullptr));
  say("cudaPeekAtLastError", cudaPeekAtLastError());
  say("cudaMalloc to null", cudaMalloc((void**)nullptr, 4));
  say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError again", cudaGetLastError());
  say("cudaMalloc of 1 EiB", cudaMalloc(&p, size_t(1) << 60));
  std::thread([] { say("cudaGetLastError in another thread", cudaGetLastError()); }).join();
  say("cudaGetLastError in this thread", cudaGetLastError());
  say("a driver's call fails: cuMemFree(1)", cuMemFree(1));
  say("cudaGetLastError", cudaGetLastError());
  nothing<<<1, 2048>>>();
  say("cudaDeviceSynchronize after a refused launch", cudaDeviceSynchronize());
  say("cudaGetLastError", cudaGetLastError());
  say("name of error 12345", std::string(cudaGetErrorName(cudaError_t(12345))));
  say("text of error 12345", std::string(cudaGetErrorString(cudaError_t(12345))));
  say("text of error 9", std::string(cudaGetErrorString(cudaErrorInvalidConfiguration)));
  int* flag;
  CHECK(cudaMallocHost(&flag, sizeof *flag));
  *flag = 0;
  cudaEvent_t event;
  CHECK(cudaEventCreate(&event));
  wait_for<<<1, 1>>>(flag);
  CHECK(cudaEventRecord(event));
  say("cudaStreamQuery of a busy stream", cudaStreamQuery(nullptr));
  last("it");
  say("cudaEventQuery of an event to come", cudaEventQuery(event));
  last("it");
  float time;
  say("cudaEventElapsedTime of an event to come", cudaEventElapsedTime(&time, event, event));
  last("it");
  *(volatile int*)flag = 1;
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
  say("cudaStreamQuery of an idle stream", cudaStreamQuery(nullptr));
}

SECTION("devices") {
  int value = -1, other = -1;
  say("cudaGetDevice", cudaGetDevice(&value));
  number("device", value);
  unsigned flags = 0;
  int active = -1;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  number("primary context active after cudaGetDevice", active);
  say("cudaSetDevice of 0", cudaSetDevice(0));
  CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  number("primary context active after cudaSetDevice", active);
  CUcontext context = nullptr;
  say("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  say("a context is current", yes(context != nullptr));
  for (int wrong : {-1, 99, 1 << 30}) say("cudaSetDevice of " + std::to_string(wrong), cudaSetDevice(wrong));
  CHECK(cudaGetDevice(&value));
  number("device after them", value);
  say("cudaGetDevice to null", cudaGetDevice(nullptr));
  say("cudaGetDeviceCount to null", cudaGetDeviceCount(nullptr));
  say("cudaDriverGetVersion to null", cudaDriverGetVersion(nullptr));
  say("cudaRuntimeGetVersion to null", cudaRuntimeGetVersion(nullptr));
  cudaDeviceProp all;
  say("cudaGetDeviceProperties of 99", cudaGetDeviceProperties(&all, 99));
  say("cudaGetDeviceProperties of -1", cudaGetDeviceProperties(&all, -1));
  say("cudaGetDeviceProperties to null", cudaGetDeviceProperties(nullptr, 0));
  say("cudaGetDeviceProperties", cudaGetDeviceProperties(&all, 0));
  say("compute capability", std::to_string(all.major) + "." + std::to_string(all.minor));
  number("threads of a block", all.maxThreadsPerBlock);
  number("threads of a multiprocessor", all.maxThreadsPerMultiProcessor);
  number("blocks of a multiprocessor", all.maxBlocksPerMultiProcessor);
  number("multiprocessors", all.multiProcessorCount);
  number("shared memory of a block", (long long)all.sharedMemPerBlock);
  number("shared memory of a block, opt-in", (long long)all.sharedMemPerBlockOptin);
  number("shared memory of a multiprocessor", (long long)all.sharedMemPerMultiprocessor);
  number("shared memory reserved", (long long)all.reservedSharedMemPerBlock);
  number("registers of a block", all.regsPerBlock);
  number("registers of a multiprocessor", all.regsPerMultiprocessor);
  number("constant memory", (long long)all.totalConstMem);
  number("second-level cache", all.l2CacheSize);
  number("persisting part of it", all.persistingL2CacheMaxSize);
  number("bus width", all.memoryBusWidth);
  number("warp", all.warpSize);
  number("pitch", (long long)all.memPitch);
  number("copy engines", all.asyncEngineCount);
  number("integrated", all.integrated);
  number("ECC", all.ECCEnabled);
  number("TCC", all.tccDriver);
  number("texture alignment", (long long)all.textureAlignment);
  number("surface alignment", (long long)all.surfaceAlignment);
  number("unified addressing", all.unifiedAddressing);
  number("managed memory", all.managedMemory);
  number("concurrent managed access", all.concurrentManagedAccess);
  number("pools", all.memoryPoolsSupported);
  number("cooperative launch", all.cooperativeLaunch);
  number("stream priorities", all.streamPrioritiesSupported);
  number("access policy window", all.accessPolicyMaxWindowSize);
  number("direct managed access from the host", all.directManagedMemAccessFromHost);
  say("name is the driver's", yes(std::strlen(all.name) > 0));
  say("cudaDeviceGetAttribute of 9999", cudaDeviceGetAttribute(&value, cudaDeviceAttr(9999), 0));
  say("cudaDeviceGetAttribute of 0", cudaDeviceGetAttribute(&value, cudaDeviceAttr(0), 0));
  say("cudaDeviceGetAttribute to null", cudaDeviceGetAttribute(nullptr, cudaDevAttrWarpSize, 0));
  say("cudaDeviceGetAttribute of device 99", cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
  say("cudaDeviceCanAccessPeer 0, 0", cudaDeviceCanAccessPeer(&value, 0, 0));
  number("peer of itself", value);
  say("cudaDeviceCanAccessPeer 0, 99", cudaDeviceCanAccessPeer(&value, 0, 99));
  say("cudaDeviceCanAccessPeer to null", cudaDeviceCanAccessPeer(nullptr, 0, 0));
  say("cudaDeviceEnablePeerAccess of itself", cudaDeviceEnablePeerAccess(0, 0));
  say("cudaDeviceEnablePeerAccess of 99", cudaDeviceEnablePeerAccess(99, 0));
  say("cudaDeviceDisablePeerAccess of itself", cudaDeviceDisablePeerAccess(0));
  say("cudaDeviceDisablePeerAccess of 99", cudaDeviceDisablePeerAccess(99));
  say("cudaDeviceGetP2PAttribute 0, 0", cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0));
  say("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&value, &other));
  say("priorities", std::to_string(value) + " to " + std::to_string(other));
  say("cudaDeviceGetStreamPriorityRange to null", cudaDeviceGetStreamPriorityRange(nullptr, nullptr));
  say("cudaSetDeviceFlags of 0x1000", cudaSetDeviceFlags(0x1000));
  say("cudaSetDeviceFlags of blocking synchronisation", cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
  say("cudaGetDeviceFlags", cudaGetDeviceFlags(&flags));
  number("flags", flags);
  say("cudaInitDevice of 99", cudaInitDevice(99, 0, 0));
  say("cudaInitDevice with flags 77", cudaInitDevice(0, 0, 77));
  size_t limit;
  for (int i = 0; i < 9; ++i) {
    limit = 0;
    const cudaError_t answer = cudaDeviceGetLimit(&limit, cudaLimit(i));
    say("cudaDeviceGetLimit " + std::to_string(i), check::name(answer) + (" " + std::to_string(limit)));
  }
  say("cudaDeviceGetLimit to null", cudaDeviceGetLimit(nullptr, cudaLimitStackSize));
  say("cudaDeviceSetLimit of the stack", cudaDeviceSetLimit(cudaLimitStackSize, 2000));
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  number("stack", (long long)limit);
  cudaFuncCache cache;
  say("cudaDeviceGetCacheConfig", cudaDeviceGetCacheConfig(&cache));
  number("cache config", cache);
  char bus[32] = "";
  say("cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  number("length of the PCI bus id", (long long)std::strlen(bus));
  say("cudaDeviceGetByPCIBusId", cudaDeviceGetByPCIBusId(&value, bus));
  number("device", value);
  say("cudaDeviceGetByPCIBusId of nonsense", cudaDeviceGetByPCIBusId(&value, "nonsense"));
  say("cudaDeviceGetPCIBusId with room for 4", cudaDeviceGetPCIBusId(bus, 4, 0));
}

SECTION("contexts") {
  int value;
  CUcontext context = nullptr;
  CHECK(cudaSetDevice(0));
  CHECK(cuCtxSetCurrent(nullptr));
  int* p;
  say("cudaMalloc with no context current", cudaMalloc(&p, 4));
  CHECK(cuCtxGetCurrent(&context));
  say("a context is current", yes(context != nullptr));
  std::thread([&] {
    CUcontext mine = nullptr;
    CHECK(cuCtxGetCurrent(&mine));
    say("another thread at first has a context", yes(mine != nullptr));
    say("cudaMemset in it", cudaMemset(p, 0, 4));
    CHECK(cuCtxGetCurrent(&mine));
    say("then it has the same", yes(mine == context));
  }).join();
  add<<<1, 1>>>(p, 5);
  say("cudaDeviceReset", cudaDeviceReset());
  say("cudaFree of memory from before the reset", cudaFree(p));
  CHECK(cudaMemcpyFromSymbol(&value, cell, sizeof value));
  number("variable after the reset", value);
  say("cudaMalloc after the reset", cudaMalloc(&p, 4));
  say("cudaDeviceReset twice", cudaDeviceReset());
  say("again", cudaDeviceReset());
  say("cudaDeviceSynchronize after it", cudaDeviceSynchronize());
  void* call = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
  say("entry point of cuMemCreate", cudaGetDriverEntryPointByVersion("cuMemCreate", &call, 12000, 0, &status));
  say("found", yes(call != nullptr && status == cudaDriverEntryPointSuccess));
  call = &value;
  say("entry point of cuNoSuchCall", cudaGetDriverEntryPointByVersion("cuNoSuchCall", &call, 12000, 0, &status));
  say("a null pointer", yes(call == nullptr));
  number("status", status);
  say("cuNoSuchCall without a status", cudaGetDriverEntryPointByVersion("cuNoSuchCall", &call, 12000, 0, nullptr));
  say("cuMemCreate of version 9000", cudaGetDriverEntryPointByVersion("cuMemCreate", &call, 9000, 0, &status));
  number("status", status);
  say("flags of 99", cudaGetDriverEntryPointByVersion("cuMemCreate", &call, 12000, 99, &status));
}

SECTION("symbols") {
  int value = 11, back[4] = {};
  void* address = nullptr;
  size_t size = 0;
  say("cudaGetSymbolSize", cudaGetSymbolSize(&size, table));
  number("size", (long long)size);
  say("cudaGetSymbolAddress", cudaGetSymbolAddress(&address, table));
  say("cudaMemset of it", cudaMemset(address, 0, size));
  say("cudaGetSymbolAddress of a constant", cudaGetSymbolAddress(&address, constants));
  say("cudaMemcpy from it", cudaMemcpy(back, address, sizeof back, cudaMemcpyDeviceToHost));
  number("its last element", back[3]);
  say("cudaGetSymbolAddress of a host variable", cudaGetSymbolAddress(&address, (const void*)&on_host_only));
  say("cudaGetSymbolAddress of null", cudaGetSymbolAddress(&address, (const void*)nullptr));
  say("cudaGetSymbolAddress of a name", cudaGetSymbolAddress(&address, (const void*)"table"));
  say("cudaGetSymbolSize of a kernel", cudaGetSymbolSize(&size, (const void*)nothing));
  say("cudaMemcpyToSymbol", cudaMemcpyToSymbol(constants, &value, sizeof value, 8));
  set_symbols<<<1, 1>>>();
  say("cudaMemcpyFromSymbol", cudaMemcpyFromSymbol(&value, table, sizeof value, 12));
  number("value", value);
  say("past the end", cudaMemcpyToSymbol(table, &value, 4, 30));
  say("offset past the end", cudaMemcpyToSymbol(table, &value, 4, 1000));
  say("larger than the symbol", cudaMemcpyFromSymbol(back, cell, 8));
  say("0 bytes", cudaMemcpyToSymbol(table, &value, 0));
  say("kind device to host", cudaMemcpyToSymbol(table, &value, 4, 0, cudaMemcpyDeviceToHost));
  say("kind host to host", cudaMemcpyFromSymbol(&value, table, 4, 0, cudaMemcpyHostToHost));
  say("kind default", cudaMemcpyFromSymbol(&value, table, 4, 0, cudaMemcpyDefault));
  say("to null", cudaMemcpyFromSymbol(nullptr, table, 4));
  say("of an unknown symbol", cudaMemcpyToSymbol((const void*)&on_host_only, &value, 4));
}

static cudaError_t launched(const void* kernel, dim3 grid, dim3 block, size_t shared = 0,
                            cudaStream_t stream = nullptr) {
  static int* room = nullptr;
  if (!room) CHECK(cudaMalloc(&room, 4));
  void* arguments[] = {&room};
  cudaGetLastError();
  const cudaError_t answer = cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
  if (cudaPeekAtLastError() != answer) last("the next");
  return answer;
}
SECTION("launches") {
  const void* const it = (const void*)nothing;
  say("1 block of 1024", launched(it, 1, 1024));
  say("1 block of 1025", launched(it, 1, 1025));
  say("block of 32 x 32 x 2", launched(it, 1, dim3(32, 32, 2)));
  say("block of 1 x 1 x 64", launched(it, 1, dim3(1, 1, 64)));
  say("block of 1 x 1 x 65", launched(it, 1, dim3(1, 1, 65)));
  say("no block", launched(it, 0, 1));
  say("no threads", launched(it, 1, 0));
  say("grid of 1 x 65535", launched(it, dim3(1, 65535), 1));
  say("grid of 1 x 65536", launched(it, dim3(1, 65536), 1));
  say("grid of 1 x 1 x 65536", launched(it, dim3(1, 1, 65536), 1));
  say("grid of 2147483648", launched(it, 2147483648u, 1));
  say("launch bounds of 64, 65 threads", launched((const void*)narrow, 1, 65));
  say("48 KiB of dynamic shared memory", launched((const void*)uses_shared, 1, 32, 48 << 10));
  say("1 byte more", launched((const void*)uses_shared, 1, 32, (48 << 10) + 1));
  say("static and dynamic together 48 KiB", launched((const void*)uses_static_shared, 1, 32, 44 << 10));
  say("1 byte more", launched((const void*)uses_static_shared, 1, 32, (44 << 10) + 1));
  const auto shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
  say("opt-in to 227 KiB", cudaFuncSetAttribute(uses_shared, shared, 227 << 10));
  say("227 KiB", launched((const void*)uses_shared, 1, 32, 227 << 10));
  say("1 byte more", launched((const void*)uses_shared, 1, 32, (227 << 10) + 1));
  say("opt-in to 227 KiB and a byte", cudaFuncSetAttribute(uses_shared, shared, (227 << 10) + 1));
  say("opt-in to 227 KiB beside 4 KiB", cudaFuncSetAttribute(uses_static_shared, shared, 227 << 10));
  say("opt-in to -1", cudaFuncSetAttribute(uses_shared, shared, -1));
  say("carveout of 50", cudaFuncSetAttribute(uses_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 50));
  say("carveout of 101", cudaFuncSetAttribute(uses_shared, cudaFuncAttributePreferredSharedMemoryCarveout, 101));
  say("attribute 0", cudaFuncSetAttribute(uses_shared, cudaFuncAttribute(0), 1));
  say("attribute 77", cudaFuncSetAttribute(uses_shared, cudaFuncAttribute(77), 1));
  say("4 GiB and a byte of shared memory", launched(it, 1, 1, (size_t(1) << 32) + 1));
  nothing<<<1, 1025>>>();
  say("<<<1, 1025>>>", cudaGetLastError());
  nothing<<<0, 1>>>();
  say("<<<0, 1>>>", cudaGetLastError());
  nothing<<<dim3(1, 65536), 1>>>();
  say("<<<dim3(1, 65536), 1>>>", cudaGetLastError());
  uses_static_shared<<<1, 32, 45 << 10>>>(nullptr);
  say("<<<1, 32, 45 KiB>>> beside 4 KiB", cudaGetLastError());
  say("in the legacy stream", launched(it, 1, 1, 0, cudaStreamLegacy));
  say("in the thread's stream", launched(it, 1, 1, 0, cudaStreamPerThread));
  cudaFuncAttributes all;
  say("cudaFuncGetAttributes", cudaFuncGetAttributes(&all, narrow));
  number("most threads of the narrow one", all.maxThreadsPerBlock);
  CHECK(cudaFuncGetAttributes(&all, uses_static_shared));
  number("most threads", all.maxThreadsPerBlock);
  number("static shared memory", (long long)all.sharedSizeBytes);
  number("dynamic shared memory", all.maxDynamicSharedSizeBytes);
  number("local memory", (long long)all.localSizeBytes);
  number("carveout", all.preferredShmemCarveout);
  CHECK(cudaFuncGetAttributes(&all, uses_shared));
  number("dynamic shared memory after opt-in", all.maxDynamicSharedSizeBytes);
  number("carveout after 50", all.preferredShmemCarveout);
  const char* name = nullptr;
  say("cudaFuncGetName", cudaFuncGetName(&name, (const void*)nothing));
  say("name", std::string(name ? name : "null"));
  int blocks = 0;
  say("occupancy of 1024", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
  number("blocks", blocks);
  say("occupancy of 32", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 0));
  number("blocks", blocks);
  say("occupancy of 0", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 0, 0));
  say("occupancy of 2048", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 2048, 0));
  number("blocks", blocks);
  say("occupancy with 100 KiB", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, uses_shared, 32, 100 << 10));
  number("blocks", blocks);
  say("cooperative, too many", cudaLaunchCooperativeKernel((const void*)nothing, 1 << 20, 1024, nullptr, 0, nullptr));
  last("it");
  say("cooperative", cudaLaunchCooperativeKernel((const void*)nothing, 2, 32, nullptr, 0, nullptr));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

SECTION("events") {
  cudaEvent_t a, b, untimed;
  float time = -1;
  say("cudaEventCreate to null", cudaEventCreate((cudaEvent_t*)nullptr));
  say("cudaEventCreateWithFlags of 0x100", cudaEventCreateWithFlags(&a, 0x100));
  say("cudaEventCreateWithFlags interprocess, timed", cudaEventCreateWithFlags(&a, cudaEventInterprocess));
  CHECK(cudaEventCreate(&a));
  CHECK(cudaEventCreate(&b));
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  say("cudaEventQuery, not recorded", cudaEventQuery(a));
  say("cudaEventSynchronize, not recorded", cudaEventSynchronize(a));
  say("cudaStreamWaitEvent, not recorded", cudaStreamWaitEvent(nullptr, a, 0));
  say("cudaEventElapsedTime, not recorded", cudaEventElapsedTime(&time, a, b));
  last("it");
  CHECK(cudaEventRecord(a));
  say("cudaEventElapsedTime, one recorded", cudaEventElapsedTime(&time, a, b));
  CHECK(cudaEventRecord(b));
  CHECK(cudaEventSynchronize(b));
  say("cudaEventElapsedTime", cudaEventElapsedTime(&time, a, b));
  say("not negative", yes(time >= 0));
  say("cudaEventElapsedTime backwards", cudaEventElapsedTime(&time, b, a));
  say("not positive", yes(time <= 0));
  say("cudaEventElapsedTime of one", cudaEventElapsedTime(&time, a, a));
  say("zero", yes(time == 0));
  CHECK(cudaEventRecord(untimed));
  CHECK(cudaEventSynchronize(untimed));
  say("cudaEventElapsedTime, no timing", cudaEventElapsedTime(&time, a, untimed));
  say("cudaEventElapsedTime to null", cudaEventElapsedTime(nullptr, a, b));
  say("cudaEventRecordWithFlags of 9", cudaEventRecordWithFlags(a, nullptr, 9));
  say("cudaStreamWaitEvent with flags 9", cudaStreamWaitEvent(nullptr, a, 9));
  say("cudaEventRecord of null", cudaEventRecord(nullptr, nullptr));
  say("cudaEventQuery of null", cudaEventQuery(nullptr));
  say("cudaEventSynchronize of null", cudaEventSynchronize(nullptr));
  say("cudaStreamWaitEvent of null", cudaStreamWaitEvent(nullptr, nullptr, 0));
  say("cudaEventDestroy of null", cudaEventDestroy(nullptr));
  say("cudaEventDestroy", cudaEventDestroy(a));
}

SECTION("streams") {
  cudaStream_t stream;
  int value = -1;
  unsigned flags = 9;
  unsigned long long id = 0, other = 0;
  say("cudaStreamCreate to null", cudaStreamCreate(nullptr));
  say("cudaStreamCreateWithFlags of 2", cudaStreamCreateWithFlags(&stream, 2));
  say("cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  say("cudaStreamGetFlags", cudaStreamGetFlags(stream, &flags));
  number("flags", flags);
  say("cudaStreamGetPriority", cudaStreamGetPriority(stream, &value));
  number("priority", value);
  say("cudaStreamGetId", cudaStreamGetId(stream, &id));
  say("cudaStreamDestroy", cudaStreamDestroy(stream));
  for (int priority : {-100, -3, 0, 100}) {
    say("cudaStreamCreateWithPriority", cudaStreamCreateWithPriority(&stream, 0, priority));
    CHECK(cudaStreamGetPriority(stream, &value));
    say("priority " + std::to_string(priority) + " becomes", std::to_string(value));
    CHECK(cudaStreamDestroy(stream));
  }
  const struct {
    const char* name;
    cudaStream_t stream;
  } given[] = {
      {"stream 0", nullptr}, {"the legacy stream", cudaStreamLegacy}, {"the thread's stream", cudaStreamPerThread}};
  for (const auto& it : given) {
    section(it.name);
    say("cudaStreamQuery", cudaStreamQuery(it.stream));
    say("cudaStreamSynchronize", cudaStreamSynchronize(it.stream));
    say("cudaStreamGetFlags", cudaStreamGetFlags(it.stream, &flags));
    number("flags", flags);
    say("cudaStreamGetPriority", cudaStreamGetPriority(it.stream, &value));
    number("priority", value);
    say("cudaStreamGetId", cudaStreamGetId(it.stream, &other));
    say("another id than the stream's", yes(other != id));
    say("cudaStreamDestroy", cudaStreamDestroy(it.stream));
    cudaGetLastError();
  }
  say("cudaStreamAddCallback of null", cudaStreamAddCallback(nullptr, nullptr, nullptr, 0));
  say("cudaLaunchHostFunc of null", cudaLaunchHostFunc(nullptr, nullptr, nullptr));
  say("cudaStreamAddCallback with flags",
      cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 1));
  cudaStreamCaptureStatus status;
  say("cudaStreamIsCapturing", cudaStreamIsCapturing(nullptr, &status));
  number("capturing", status);
}

static void fault(const char* what, bool trap) {
  int value = 0, *p;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECK(cudaMalloc(&p, 4));
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaEventCreate(&event));
  if (trap) stop<<<1, 1>>>();
  else add<<<1, 1>>>((int*)0x10, 1);
  say(std::string(what) + ": launch", cudaGetLastError());
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
  say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError again", cudaGetLastError());
  say("cudaDeviceSynchronize again", cudaDeviceSynchronize());
  say("cudaPeekAtLastError", cudaPeekAtLastError());
  nothing<<<1, 1>>>();
  say("another launch", cudaGetLastError());
  say("cudaMemcpy", cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
  say("cudaMemcpy of 0 bytes", cudaMemcpy(&value, p, 0, cudaMemcpyDeviceToHost));
  say("cudaMemset", cudaMemset(p, 0, 4));
  say("cudaFree of null", cudaFree(nullptr));
  say("cudaMalloc of 0 bytes", cudaMalloc(&p, 0));
  say("cudaMallocAsync", cudaMallocAsync(&p, 10, stream));
  cudaStream_t another;
  say("cudaStreamCreate", cudaStreamCreate(&another));
  say("cudaStreamQuery", cudaStreamQuery(stream));
  say("cudaEventRecord", cudaEventRecord(event, nullptr));
  say("cudaEventQuery", cudaEventQuery(event));
  say("cudaGetSymbolAddress", cudaGetSymbolAddress((void**)&p, cell));
  cudaPointerAttributes all;
  say("cudaPointerGetAttributes", cudaPointerGetAttributes(&all, p));
  cudaDeviceProp properties;
  say("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, 0));
  say("cudaDeviceCanAccessPeer", cudaDeviceCanAccessPeer(&value, 0, 0));
  size_t limit;
  say("cudaDeviceGetLimit", cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  say("cudaDeviceGetStreamPriorityRange", cudaDeviceGetStreamPriorityRange(&value, &value));
  unsigned flags;
  say("cudaGetDeviceFlags", cudaGetDeviceFlags(&flags));
  void* call;
  cudaDriverEntryPointQueryResult status;
  say("cudaGetDriverEntryPointByVersion", cudaGetDriverEntryPointByVersion("cuInit", &call, 12000, 0, &status));
  cudaMemPool_t pool;
  say("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, 0));
  say("cudaSetDevice of 99", cudaSetDevice(99));
  say("cudaGetLastError", cudaGetLastError());
}
SECTION("bad address") { fault("a store to nowhere", false); }
SECTION("trap") { fault("__trap", true); }

// Wrong functions. Other null arguments crash the real runtime.
SECTION("launch of a null kernel") { say("answer", launched(nullptr, 1, 1)); }
SECTION("launch of a host function") { say("answer", launched((const void*)launched, 1, 1)); }
SECTION("attributes to null") { say("answer", cudaFuncGetAttributes(nullptr, nothing)); }
SECTION("attributes of a null kernel") {
  cudaFuncAttributes all;
  say("answer", cudaFuncGetAttributes(&all, (const void*)nullptr));
}
SECTION("attributes of a host function") {
  cudaFuncAttributes all;
  say("answer", cudaFuncGetAttributes(&all, (const void*)launched));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
