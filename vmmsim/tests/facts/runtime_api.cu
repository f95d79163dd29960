// SPDX-License-Identifier: MIT-0
// The unusual in the runtime: the last error, wrong arguments, zero sizes, kinds of copies, symbols, launches that are
// too large, pointers of all kinds, events that were never recorded, faults. Each section is a process of its own.
#include "facts.h"

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

static std::string yes(bool it) { return it ? "yes" : "no"; }
static void number(const std::string& what, long long it) { say(what, std::to_string(it)); }
static void last(const std::string& what) { say("  last error after " + what, cudaGetLastError()); }

static void last_error() {
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

static void devices() {
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

static void contexts() {
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

static void allocations() {
  void *p = &p, *before;
  size_t pitch = 0, size = 0;
  unsigned flags = 0;
  say("cudaMalloc of 0 bytes", cudaMalloc(&p, 0));
  say("gives null", yes(p == nullptr));
  say("cudaMalloc to null", cudaMalloc((void**)nullptr, 16));
  say("cudaMalloc to null of 0 bytes", cudaMalloc((void**)nullptr, 0));
  p = &p;
  say("cudaMalloc of all there is", cudaMalloc(&p, ~size_t(0)));
  say("the pointer is as before", yes(p == &p));
  say("cudaMalloc of 1 byte", cudaMalloc(&p, 1));
  say("aligned to 256", yes(size_t(p) % 256 == 0));
  CHECK(cuMemGetAddressRange(nullptr, &size, CUdeviceptr(p)));
  number("size of its range", (long long)size);
  say("cudaFree inside", cudaFree((char*)p + 1));
  say("cudaFree", cudaFree(p));
  before = p;
  say("cudaFree again", cudaFree(before));
  last("it");
  say("cudaFree of null", cudaFree(nullptr));
  say("cudaFree of host memory", cudaFree(&p));
  say("cudaFreeHost of null", cudaFreeHost(nullptr));
  say("cudaFreeHost of the stack", cudaFreeHost(&p));
  CHECK(cudaMalloc(&p, 16));
  say("cudaFreeHost of cudaMalloc's", cudaFreeHost(p));
  CHECK(cudaFree(p));
  p = &p;
  say("cudaMallocHost of 0 bytes", cudaMallocHost(&p, 0));
  say("gives null", yes(p == nullptr));
  say("cudaMallocHost to null", cudaMallocHost((void**)nullptr, 4));
  say("cudaMallocHost", cudaMallocHost(&p, 100));
  say("cudaHostGetFlags", cudaHostGetFlags(&flags, p));
  number("flags", flags);
  say("cudaHostGetFlags inside", cudaHostGetFlags(&flags, (char*)p + 8));
  say("cudaHostGetFlags of the stack", cudaHostGetFlags(&flags, &flags));
  void* device = nullptr;
  say("cudaHostGetDevicePointer", cudaHostGetDevicePointer(&device, p, 0));
  say("the same address", yes(device == p));
  say("cudaHostGetDevicePointer with flags", cudaHostGetDevicePointer(&device, p, 1));
  say("cudaHostGetDevicePointer of the stack", cudaHostGetDevicePointer(&device, &device, 0));
  say("cudaFree of cudaMallocHost's", cudaFree(p));
  say("cudaFreeHost", cudaFreeHost(p));
  say("cudaHostAlloc with flags 0x100", cudaHostAlloc(&p, 16, 0x100));
  say("cudaHostAlloc mapped, write-combined", cudaHostAlloc(&p, 16, cudaHostAllocMapped | cudaHostAllocWriteCombined));
  CHECK(cudaHostGetFlags(&flags, p));
  number("flags", flags);
  CHECK(cudaFreeHost(p));
  p = &p;
  say("cudaMallocManaged of 0 bytes", cudaMallocManaged(&p, 0));
  say("gives null", yes(p == nullptr));
  say("cudaMallocManaged with flags 0", cudaMallocManaged(&p, 16, 0));
  say("cudaMallocManaged with flags 3", cudaMallocManaged(&p, 16, 3));
  say("cudaMallocManaged to null", cudaMallocManaged((void**)nullptr, 16));
  say("cudaMallocManaged", cudaMallocManaged(&p, 16));
  *(int*)p = 40;
  add<<<1, 1>>>((int*)p, 2);
  CHECK(cudaDeviceSynchronize());
  number("the kernel and the host share it", *(int*)p);
  say("cudaFreeHost of it", cudaFreeHost(p));
  say("cudaFree of it", cudaFree(p));
  say("cudaMallocPitch", cudaMallocPitch(&p, &pitch, 100, 10));
  number("pitch", (long long)pitch);
  say("cudaMemset2D wider than the pitch", cudaMemset2D(p, pitch, 1, pitch + 1, 2));
  say("cudaMemset2D", cudaMemset2D(p, pitch, 1, 100, 10));
  say("cudaMemset2D of no rows", cudaMemset2D(p, pitch, 1, 100, 0));
  char rows[4][100] = {};
  say("cudaMemcpy2D", cudaMemcpy2D(rows, 100, p, pitch, 50, 4, cudaMemcpyDeviceToHost));
  say("its last byte, and the next", std::to_string(rows[3][49]) + " " + std::to_string(rows[3][50]));
  say("cudaMemcpy2D wider than the pitch", cudaMemcpy2D(rows, 100, p, pitch, 101, 2, cudaMemcpyDeviceToHost));
  last("it");
  say("cudaMemcpy2D of no columns", cudaMemcpy2D(rows, 100, p, pitch, 0, 2, cudaMemcpyDeviceToHost));
  say("cudaMemcpy2D of kind 9", cudaMemcpy2D(rows, 100, p, pitch, 50, 2, cudaMemcpyKind(9)));
  CHECK(cudaFree(p));
  say("cudaMallocPitch of no rows", cudaMallocPitch(&p, &pitch, 100, 0));
  size_t total;
  say("cudaMemGetInfo", cudaMemGetInfo(&size, &total));
  say("cudaMemGetInfo to null", cudaMemGetInfo(nullptr, nullptr));
}

static void copies() {
  int *a, *b, *pinned, *managed, host = 5, back = 0;
  CHECK(cudaMalloc(&a, 1024));
  CHECK(cudaMalloc(&b, 1024));
  CHECK(cudaMallocHost(&pinned, 1024));
  CHECK(cudaMallocManaged(&managed, 1024));
  say("kind 5", cudaMemcpy(a, b, 4, cudaMemcpyKind(5)));
  say("kind 5 of 0 bytes", cudaMemcpy(a, b, 0, cudaMemcpyKind(5)));
  say("kind -1, asynchronously", cudaMemcpyAsync(a, b, 4, cudaMemcpyKind(-1)));
  say("0 bytes to null", cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  say("4 bytes to null", cudaMemcpy(nullptr, &host, 4, cudaMemcpyHostToDevice));
  say("4 bytes from null", cudaMemcpy(&back, nullptr, 4, cudaMemcpyDeviceToHost));
  say("4 bytes to null by default", cudaMemcpy(nullptr, a, 4, cudaMemcpyDefault));
  say("onto itself", cudaMemcpy(a, a, 1024, cudaMemcpyDeviceToDevice));
  say("overlapping", cudaMemcpy(a + 1, a, 512, cudaMemcpyDeviceToDevice));
  say("unaligned", cudaMemcpy((char*)a + 3, (char*)b + 1, 7, cudaMemcpyDeviceToDevice));
  say("0 bytes in the thread's stream", cudaMemcpyAsync(a, b, 0, cudaMemcpyDeviceToDevice, cudaStreamPerThread));
  say("cudaMemset of 0 bytes of null", cudaMemset(nullptr, 0, 0));
  say("cudaMemset of null", cudaMemset(nullptr, 0, 4));
  say("cudaMemset of pageable memory", cudaMemset(&host, 0, 4));
  say("cudaMemset of pinned memory", cudaMemset(pinned, 1, 4));
  say("cudaMemset of managed memory", cudaMemset(managed, 1, 4));
  CHECK(cudaDeviceSynchronize());
  number("pinned memory", pinned[0]);
  say("cudaMemset with 0x1ff", cudaMemset(a, 0x1ff, 4));
  CHECK(cudaMemcpy(&back, a, 4, cudaMemcpyDefault));
  number("stored", back);
  say("cudaMemcpyPeer 0 to 0", cudaMemcpyPeer(a, 0, b, 0, 4));
  say("cudaMemcpyPeer 0 to 99", cudaMemcpyPeer(a, 99, b, 0, 4));
  say("cudaMemcpyPeer of 0 bytes to 99", cudaMemcpyPeer(a, 99, b, 0, 0));
  CHECK(cudaFree(b));
  say("from freed memory", cudaMemcpy(a, b, 4, cudaMemcpyDeviceToDevice));
  say("freed memory to the host", cudaMemcpy(&back, b, 4, cudaMemcpyDeviceToHost));
  say("cudaMemset of freed memory", cudaMemset(b, 0, 4));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

static void copies_past_the_end() {
  char *a, *b;
  CHECK(cudaMalloc(&a, 4 * MiB));
  CHECK(cudaMalloc(&b, 4 * MiB));
  say("cudaMemcpy", cudaMemcpy(a, b, size_t(1) << 32, cudaMemcpyDeviceToDevice));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}
static void memset_past_the_end() {
  char* a;
  CHECK(cudaMalloc(&a, 4 * MiB));
  say("cudaMemset", cudaMemset(a, 0, size_t(1) << 32));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// Every kind of copy between every two kinds of memory.
static void kinds() {
  int *a, *b, *pinned, *managed, host = 5;
  CHECK(cudaMalloc(&a, 1024));
  CHECK(cudaMalloc(&b, 1024));
  CHECK(cudaMallocHost(&pinned, 1024));
  CHECK(cudaMallocManaged(&managed, 1024));
  static const char* const names[] = {"host to host", "host to device", "device to host", "device to device",
                                      "default"};
  const struct {
    const char* name;
    int* pointer;
  } sides[] = {{"device", a}, {"device, too", b}, {"pinned", pinned}, {"managed", managed}, {"pageable", &host}};
  for (int kind = 0; kind < 5; ++kind) {
    for (const auto& from : sides) {
      for (const auto& to : sides) {
        // A wrong kind of the two sides of the host reads or writes addresses that the host may not touch.
        const bool host_only = kind == cudaMemcpyHostToHost;
        if (to.pointer == from.pointer ||
            (host_only && (to.pointer == a || to.pointer == b || from.pointer == a || from.pointer == b)))
          continue;
        say(std::string(names[kind]) + ": " + from.name + " to " + to.name,
            cudaMemcpy(to.pointer, from.pointer, 4, cudaMemcpyKind(kind)));
        cudaGetLastError();
      }
    }
  }
}

static void symbols() {
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
static void launches() {
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

static void describe(const char* what, const void* pointer) {
  cudaPointerAttributes all;
  std::memset(&all, 0x55, sizeof all);
  const cudaError_t answer = cudaPointerGetAttributes(&all, pointer);
  static const char* const types[] = {"unregistered", "host", "device", "managed"};
  const auto is = [&](const void* it) { return std::string(!it ? "null" : it == pointer ? "it" : "another"); };
  say(what, check::name(answer) + (answer ? ""
                                          : std::string(" ") + (unsigned(all.type) < 4 ? types[all.type] : "?") +
                                                ", device " + std::to_string(all.device) + ", device pointer " +
                                                is(all.devicePointer) + ", host pointer " + is(all.hostPointer)));
}
static void pointers() {
  char *p, *host, *managed, *pool;
  describe("null", nullptr);
  describe("the stack", &p);
  describe("an address of nothing", (void*)0x123456789000);
  CHECK(cudaFree(nullptr));
  describe("the stack, later", &p);
  CHECK(cudaMalloc(&p, 1000));
  describe("cudaMalloc", p);
  describe("inside cudaMalloc", p + 10);
  CHECK(cudaFree(p));
  describe("freed", p);
  CHECK(cudaMallocHost(&host, 1000));
  describe("cudaMallocHost", host);
  describe("inside cudaMallocHost", host + 10);
  CHECK(cudaMallocManaged(&managed, 1000));
  describe("cudaMallocManaged", managed);
  CHECK(cudaMallocAsync((void**)&pool, 1000, cudaStream_t(nullptr)));
  describe("cudaMallocAsync", pool);
  CHECK(cudaFreeAsync(pool, nullptr));
  CHECK(cudaDeviceSynchronize());
  const CUdeviceptr vmm = reserve(2 * page);
  describe("reserved", (void*)vmm);
  map_new(vmm, page);
  describe("mapped", (void*)vmm);
  describe("inside mapped", (void*)(vmm + 100));
  describe("reserved behind the mapping", (void*)(vmm + page));
  CHECK(cuMemUnmap(vmm, page));
  describe("unmapped", (void*)vmm);
  say("cudaPointerGetAttributes to null", cudaPointerGetAttributes(nullptr, host));
}

static void ipc() {
  cudaIpcMemHandle_t handle;
  char *p, *host, *managed;
  void* opened;
  CHECK(cudaMalloc(&p, 4 * MiB));
  CHECK(cudaMallocHost(&host, 1000));
  CHECK(cudaMallocManaged(&managed, 1000));
  const CUdeviceptr vmm = reserve(page);
  map_new(vmm, page);
  say("cudaIpcGetMemHandle of VMM memory", cudaIpcGetMemHandle(&handle, (void*)vmm));
  say("cudaIpcGetMemHandle of pinned memory", cudaIpcGetMemHandle(&handle, host));
  say("cudaIpcGetMemHandle of managed memory", cudaIpcGetMemHandle(&handle, managed));
  say("cudaIpcGetMemHandle of the stack", cudaIpcGetMemHandle(&handle, &p));
  say("cudaIpcGetMemHandle of null", cudaIpcGetMemHandle(&handle, nullptr));
  say("cudaIpcGetMemHandle inside", cudaIpcGetMemHandle(&handle, p + 100));
  say("cudaIpcGetMemHandle", cudaIpcGetMemHandle(&handle, p));
  say("cudaIpcOpenMemHandle in the same process",
      cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  say("cudaIpcOpenMemHandle without flags", cudaIpcOpenMemHandle(&opened, handle, 0));
  std::memset(&handle, 0, sizeof handle);
  say("cudaIpcOpenMemHandle of zeros", cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  say("cudaIpcCloseMemHandle of cudaMalloc's", cudaIpcCloseMemHandle(p));
  say("cudaIpcCloseMemHandle of null", cudaIpcCloseMemHandle(nullptr));
}

static void pools() {
  cudaMemPool_t pool = nullptr, other = nullptr;
  void *p = &p, *q;
  say("cudaDeviceGetDefaultMemPool", cudaDeviceGetDefaultMemPool(&pool, 0));
  say("cudaDeviceGetDefaultMemPool of 99", cudaDeviceGetDefaultMemPool(&other, 99));
  say("cudaDeviceGetMemPool", cudaDeviceGetMemPool(&other, 0));
  say("the same", yes(pool == other));
  say("cudaMemPoolDestroy of the default pool", cudaMemPoolDestroy(pool));
  uint64_t bytes = 77;
  for (const auto& [name, what] :
       {std::pair<const char*, cudaMemPoolAttr>{"release threshold", cudaMemPoolAttrReleaseThreshold},
        {"used now", cudaMemPoolAttrUsedMemCurrent},
        {"reserved now", cudaMemPoolAttrReservedMemCurrent}}) {
    say(name, cudaMemPoolGetAttribute(pool, what, &bytes));
    number(name, (long long)bytes);
  }
  int follow = -1;
  say("reuse", cudaMemPoolGetAttribute(pool, cudaMemPoolReuseFollowEventDependencies, &follow));
  number("reuse", follow);
  say("attribute 99", cudaMemPoolGetAttribute(pool, cudaMemPoolAttr(99), &bytes));
  say("cudaMallocAsync of 0 bytes", cudaMallocAsync(&p, 0, cudaStream_t(nullptr)));
  say("gives null", yes(p == nullptr));
  say("cudaMallocAsync to null", cudaMallocAsync((void**)nullptr, 16, cudaStream_t(nullptr)));
  say("cudaMallocAsync", cudaMallocAsync(&p, 1000, cudaStream_t(nullptr)));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
  number("used now", (long long)bytes);
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  number("reserved now, MiB", (long long)(bytes / MiB));
  say("cudaFreeAsync", cudaFreeAsync(p, nullptr));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &bytes));
  number("used after cudaFreeAsync", (long long)bytes);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  number("reserved after synchronisation", (long long)bytes);
  say("cudaFreeAsync of null", cudaFreeAsync(nullptr, nullptr));
  say("cudaFreeAsync of the stack", cudaFreeAsync(&p, nullptr));
  CHECK(cudaMalloc(&q, 1000));
  say("cudaFreeAsync of cudaMalloc's", cudaFreeAsync(q, nullptr));
  CHECK(cudaDeviceSynchronize());
  say("cudaFree of it then", cudaFree(q));
  CHECK(cudaMallocAsync(&p, 1000, cudaStream_t(nullptr)));
  say("cudaFree of cudaMallocAsync's", cudaFree(p));
  say("cudaFreeAsync of it then", cudaFreeAsync(p, nullptr));
  uint64_t keep = ~uint64_t(0);
  say("cudaMemPoolSetAttribute", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
  CHECK(cudaMallocAsync(&p, 1000, cudaStream_t(nullptr)));
  CHECK(cudaFreeAsync(p, nullptr));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  number("reserved after synchronisation, MiB", (long long)(bytes / MiB));
  say("cudaMemPoolTrimTo 0", cudaMemPoolTrimTo(pool, 0));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &bytes));
  number("reserved after it", (long long)bytes);
  cudaMemPoolProps properties = {};
  say("cudaMemPoolCreate of nothing", cudaMemPoolCreate(&other, &properties));
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = 99;
  say("cudaMemPoolCreate on 99", cudaMemPoolCreate(&other, &properties));
  properties.location.id = 0;
  say("cudaMemPoolCreate", cudaMemPoolCreate(&other, &properties));
  say("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync(&p, 1000, other, cudaStream_t(nullptr)));
  say("cudaFreeAsync", cudaFreeAsync(p, nullptr));
  say("cudaMemPoolDestroy", cudaMemPoolDestroy(other));
  say("cudaMemPoolTrimTo of null", cudaMemPoolTrimTo(nullptr, 0));
}

static void events() {
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

static void stream_handles() {
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
static void bad_address() { fault("a store to nowhere", false); }
static void trap() { fault("__trap", true); }

// Wrong functions. Other null arguments crash the real runtime.
static void null_kernel() { say("answer", launched(nullptr, 1, 1)); }
static void host_function() { say("answer", launched((const void*)launches, 1, 1)); }
static void null_attributes() { say("answer", cudaFuncGetAttributes(nullptr, nothing)); }
static void attributes_of_null() {
  cudaFuncAttributes all;
  say("answer", cudaFuncGetAttributes(&all, (const void*)nullptr));
}
static void attributes_of_host_function() {
  cudaFuncAttributes all;
  say("answer", cudaFuncGetAttributes(&all, (const void*)launches));
}

static const struct {
  const char* name;
  void (*run)();
} sections[] = {{"last error", last_error},
                {"devices", devices},
                {"contexts", contexts},
                {"allocations", allocations},
                {"copies", copies},
                {"copy past the end", copies_past_the_end},
                {"memset past the end", memset_past_the_end},
                {"kinds", kinds},
                {"symbols", symbols},
                {"launches", launches},
                {"pointers", pointers},
                {"ipc", ipc},
                {"pools", pools},
                {"events", events},
                {"streams", stream_handles},
                {"bad address", bad_address},
                {"trap", trap},
                {"launch of a null kernel", null_kernel},
                {"launch of a host function", host_function},
                {"attributes to null", null_attributes},
                {"attributes of a null kernel", attributes_of_null},
                {"attributes of a host function", attributes_of_host_function}};

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);  // what was said before a crash is not lost
  if (argc > 1) {
    for (const auto& it : sections)
      if (argv[1] == std::string(it.name)) it.run();
    return 0;
  }
  check::require_gpus(1);
  for (const auto& it : sections) {
    section(it.name);
    say("end", run_again(it.name));
  }
  std::puts("OK");
}
