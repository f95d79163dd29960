// SPDX-License-Identifier: MIT-0
// Two contexts on one GPU, pools, memory taken away from a running kernel, and legacy IPC between processes. Each case
// has a process of its own.
#include "conformance.h"

#include <vector>

__global__ void store(volatile int* p, int v) { *p = v; }
__global__ void add(int* p, int v) { atomicAdd(p, v); }
// Waits until the host lets it go on, or its patience is over; says that it goes on; then stores.
struct Gate {
  int is_open, is_passed;
};
__global__ void store_late(volatile int* p, int v, volatile Gate* gate, long long nanoseconds) {
  unsigned long long from, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(from));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (!gate->is_open && now - from < nanoseconds);
  gate->is_passed = 1;
  __threadfence_system();
  *p = v;
}
constexpr long long patience = 2'000'000'000;
static volatile Gate* gate;
static void store_when_open(int* p, int v) {
  Gate* made;
  CHECK(cudaMallocHost(&made, sizeof *made));
  *made = {};
  gate = made;
  CHECK(cudaFuncGetAttributes(new cudaFuncAttributes, (const void*)store_late));
  store_late<<<1, 1>>>(p, v, gate, patience);
}
static volatile __device__ int a_variable = 3;
__global__ void read_variable(int* to) { *to = a_variable++; }

static int value_at(const void* p) {
  int value = -1;
  CHECK(cudaMemcpy(&value, p, sizeof value, cudaMemcpyDefault));
  return value;
}
static void finish(const char* what) { say(what, cudaDeviceSynchronize()); }
static size_t before;
static void start_count() { before = free_bytes(); }
static void say_taken(const char* what) { say(std::string(what) + ": taken", mib((long long)(before - free_bytes()))); }

// Says whether a call came back while store_late was still waiting.
template <class Call> static void at_once(const char* what, Call call) {
  const auto answer = call();
  const bool waited = gate->is_passed;
  say(what, answer);
  say(std::string(what) + ": waited for the kernel", yes(waited));
}

// --- Contexts -----------------------------------------------------------------------------------------------------

static CUcontext make_context() {
  CUcontext context;
  CHECK(cuCtxCreate(&context, nullptr, 0, 0));
  return context;
}

SECTION("two contexts on one GPU") {
  const CUcontext a = make_context();
  CUstream stream_a, stream_b;
  CUevent event_a, event_b;
  CUdeviceptr p, q;
  CHECK(cuStreamCreate(&stream_a, 0)), CHECK(cuEventCreate(&event_a, 0)), CHECK(cuMemAlloc(&p, page));
  const CUcontext b = make_context();
  CHECK(cuStreamCreate(&stream_b, 0)), CHECK(cuEventCreate(&event_b, 0)), CHECK(cuMemAlloc(&q, page));
  say("memset of the other's memory", cuMemsetD8(p, 1, page));
  say("copy between both", cuMemcpyDtoD(q, p, page));
  say("copy in", cuMemcpyHtoD(p, &before, 8));
  say("memset in the other's stream", cuMemsetD8Async(p, 1, page, stream_a));
  say("synchronise the other's stream", cuStreamSynchronize(stream_a));
  say("record the other's event in the other's stream", cuEventRecord(event_a, stream_a));
  say("record the other's event in its own stream", cuEventRecord(event_a, stream_b));
  say("record its own event in the other's stream", cuEventRecord(event_b, stream_a));
  say("wait for the other's event", cuStreamWaitEvent(stream_b, event_a, 0));
  say("query of the other's event", cuEventQuery(event_a));
  say("free the other's memory", cuMemFree(p));
  say("synchronise", cuCtxSynchronize());
  CUcontext of;
  say("context of the other's stream", cuStreamGetCtx(stream_a, &of));
  say("is the other", yes(of == a));
  say("pointer's context", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, q));
  say("is its own", yes(of == b));
  say("destroy the other", cuCtxDestroy(a));
  say("memset then", cuMemsetD8(q, 1, page));
  say("destroy", cuCtxDestroy(b));
  CUcontext now;
  say("current", cuCtxGetCurrent(&now));
  say("is none", yes(!now));
  say("is the destroyed other", yes(now == a));
  say("memset then", cuMemsetD8(q, 1, page));
}

SECTION("the memory of a context") {
  CHECK(cudaSetDevice(0));
  CUcontext first;
  CHECK(cuCtxGetCurrent(&first));
  const CUdeviceptr address = reserve(page);
  const CUcontext a = make_context();
  CUdeviceptr p;
  CHECK(cuMemAlloc(&p, 8 * MiB)), map_new(address, page), CHECK(cuMemsetD32(address, 9, page / 4));
  say("VMM memory in the other context", std::to_string(value_at((void*)address)));
  CHECK(cuCtxDestroy(a)), CHECK(cuCtxSetCurrent(first));
  say("VMM memory when the context is gone", std::to_string(value_at((void*)address)));
  say("memset of its ordinary memory", cuMemsetD8(p, 1, page));
  say("free it", cuMemFree(p));
  say("kernel on VMM memory", (add<<<1, 1>>>((int*)address, 1), cudaDeviceSynchronize()));
  say("value", std::to_string(value_at((void*)address)));
  say("unmap", cuMemUnmap(address, page));
}

SECTION("the variables of a context") {
  CHECK(cudaSetDevice(0));
  int* p;
  CHECK(cudaMalloc(&p, 4));
  for (int i = 0; i < 2; ++i) {
    read_variable<<<1, 1>>>(p), finish("kernel");
    say("variable", std::to_string(value_at(p)));
  }
  const CUcontext other = make_context();
  read_variable<<<1, 1>>>(p), finish("kernel in another context");
  say("variable", std::to_string(value_at(p)));
  say("destroy", cuCtxDestroy(other));
}

SECTION("VMM memory after a reset") {
  CHECK(cudaSetDevice(0));
  const CUdeviceptr address = reserve(page);
  map_new(address, page), CHECK(cuMemsetD32(address, 9, page / 4));
  say("reset", cudaDeviceReset());
  int value = -1;
  say("copy", cudaMemcpy(&value, (void*)address, 4, cudaMemcpyDefault));
  say("value", std::to_string(value));
  CUmemLocation location = access_of(0).location;
  unsigned long long flags = 99;
  say("access", cuMemGetAccess(&flags, &location, address));
  say("is", std::to_string(flags));
  say("unmap", cuMemUnmap(address, page));
  say("free", cuMemAddressFree(address, page));
}

SECTION("calls in a host function") {  // it might wait for itself
  CHECK(cudaSetDevice(0));
  const CUdeviceptr address = reserve(2 * page);
  map_new(address, page);
  CHECK(cudaStreamSynchronize(0));
  alarm(20);
  static CUdeviceptr a;
  a = address;
  CHECK(cudaLaunchHostFunc(
      0,
      [](void*) {
        int number;
        CUdevice device;
        CUcontext context;
        CUdeviceptr reserved;
        CUmemGenericAllocationHandle handle;
        const CUmemAllocationProp properties = on_gpu(0);
        const CUmemAccessDesc access = access_of(0);
        say("cudaGetDeviceCount", cudaGetDeviceCount(&number));
        say("cudaGetDevice", cudaGetDevice(&number));
        say("cudaGetLastError", cudaGetLastError());
        say("cuDeviceGet", cuDeviceGet(&device, 0));
        say("cuCtxGetCurrent", cuCtxGetCurrent(&context));
        say("cuMemAddressReserve", cuMemAddressReserve(&reserved, page, 0, 0, 0));
        say("cuMemCreate", cuMemCreate(&handle, page, &properties, 0));
        say("cuMemMap", cuMemMap(a + page, page, 0, handle, 0));
        say("cuMemSetAccess", cuMemSetAccess(a + page, page, &access, 1));
        say("cuMemUnmap", cuMemUnmap(a + page, page));
        say("cuMemRelease", cuMemRelease(handle));
        say("cuPointerGetAttribute", cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, a));
        say("cudaStreamQuery", cudaStreamQuery(0));
        say("cudaSetDevice", cudaSetDevice(0));
      },
      nullptr));
  finish("synchronise");
}

// --- Kernels that still run ---------------------------------------------------------------------------------------

static CUdeviceptr start_late(size_t size = page) {
  CHECK(cudaSetDevice(0));
  const CUdeviceptr address = reserve(2 * size);
  map_new(address, size);
  CHECK(cuMemsetD8(address, 0, size));
  store<<<1, 1>>>((int*)address, 1), CHECK(cudaDeviceSynchronize());
  store_when_open((int*)address, 5);
  return address;
}
SECTION("unmapped while a kernel runs that then stores there") {
  const CUdeviceptr a = start_late();
  at_once("unmap", [&] { return cuMemUnmap(a, page); });
  gate->is_open = 1;
  finish("synchronise");
}
SECTION("closed while a kernel runs that then stores there") {
  const CUdeviceptr a = start_late();
  const CUmemAccessDesc none = access_of(0, 0);
  at_once("take away the access", [&] { return cuMemSetAccess(a, page, &none, 1); });
  gate->is_open = 1;
  finish("synchronise");
}
SECTION("grown while a kernel runs") {
  const CUdeviceptr a = start_late();
  CUmemGenericAllocationHandle handle;
  const CUmemAllocationProp properties = on_gpu(0);
  const CUmemAccessDesc access = access_of(0);
  at_once("create", [&] { return cuMemCreate(&handle, page, &properties, 0); });
  at_once("map", [&] { return cuMemMap(a + page, page, 0, handle, 0); });
  at_once("open", [&] { return cuMemSetAccess(a + page, page, &access, 1); });
  at_once("release", [&] { return cuMemRelease(handle); });
  at_once("unmap what no kernel uses", [&] { return cuMemUnmap(a + page, page); });
  at_once("query", [&] { return cudaStreamQuery(0); });
  at_once("synchronise", [&] { return cudaDeviceSynchronize(); });
  say("value", std::to_string(value_at((void*)a)));
}
SECTION("freed while a kernel runs") {
  CHECK(cudaSetDevice(0));
  int *p, *q;
  CHECK(cudaMalloc(&p, page)), CHECK(cudaMalloc(&q, page));
  store_when_open(p, 5);
  at_once("cudaFree of other memory", [&] { return cudaFree(q); });
  finish("synchronise");
}
// As a growable buffer that moves would do without waiting.
SECTION("other memory at the address while a kernel runs") {
  const CUdeviceptr a = start_late();
  say("unmap", cuMemUnmap(a, page));
  map_new(a, page);
  gate->is_open = 1;
  finish("synchronise");
}

// --- Pools --------------------------------------------------------------------------------------------------------

static cudaMemPool_t pool;
static void say_pool(const char* when) {
  uint64_t reserved = 0, used = 0;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  say(when, "reserved " + mib((long long)reserved) + ", used " + std::to_string(used));
  say_taken(when);
}
static void* from_pool(size_t size) {
  void* p;
  CHECK(cudaMallocAsync(&p, size, 0));
  return p;
}
SECTION("what pools take") {
  CHECK(cudaSetDevice(0));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  CHECK(cudaFree(from_pool(8))), CHECK(cudaDeviceSynchronize());
  start_count();
  say_pool("at first");
  std::vector<void*> all;
  for (size_t size : {size_t(8), size_t(1000), MiB, page, 3 * MiB, 20 * MiB, 40 * MiB, 100 * MiB}) {
    all.push_back(from_pool(size));
    say_pool(("allocated " + std::to_string(size)).c_str());
  }
  for (void* p : all) CHECK(cudaFreeAsync(p, 0));
  CHECK(cudaStreamSynchronize(0));
  say_pool("freed and synchronised");
  uint64_t threshold = 50 * MiB;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  all.clear();
  for (size_t size : {MiB, 40 * MiB, 100 * MiB}) all.push_back(from_pool(size));
  say_pool("three with a threshold of 50 MiB");
  for (void* p : all) CHECK(cudaFreeAsync(p, 0));
  CHECK(cudaStreamSynchronize(0));
  say_pool("freed and synchronised");
  CHECK(cudaMemPoolTrimTo(pool, 40 * MiB));
  say_pool("trimmed to 40 MiB");
  CHECK(cudaMemPoolTrimTo(pool, 1));
  say_pool("trimmed to 1");
  void* p = from_pool(5 * MiB);
  CHECK(cudaMemPoolTrimTo(pool, 0));
  say_pool("5 MiB, trimmed to 0");
  CHECK(cudaFree(p));
  say_pool("cudaFree");
}
SECTION("memory of a pool") {
  CHECK(cudaSetDevice(0));
  void* const p = from_pool(1000);
  CHECK(cudaStreamSynchronize(0));
  CUdeviceptr base = 0;
  size_t size = 0;
  say("address range inside", cuMemGetAddressRange(&base, &size, CUdeviceptr(p) + 10));
  say("size", std::to_string(size) + ", from " + std::to_string((long long)(CUdeviceptr(p) - base)) + " before");
  CUmemGenericAllocationHandle handle;
  say("retain its handle", cuMemRetainAllocationHandle(&handle, p));
  say("unmap it", cuMemUnmap(CUdeviceptr(p), page));
  CUmemAccessDesc access = access_of(0);
  say("open it", cuMemSetAccess(CUdeviceptr(p), page, &access, 1));
  cudaIpcMemHandle_t ipc;
  say("IPC handle", cudaIpcGetMemHandle(&ipc, p));
  CUmemoryPool of = nullptr;
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  say("its pool", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CUdeviceptr(p)));
  say("is the default one", yes(of == (CUmemoryPool)pool));
  cudaMemLocation here = {};
  here.type = cudaMemLocationTypeDevice, here.id = 0;
  cudaMemAccessFlags may = cudaMemAccessFlags(99);
  say("pool's access", cudaMemPoolGetAccess(&may, pool, &here));
  say("is", std::to_string(may));
  cudaMemAccessDesc descriptor = {here, cudaMemAccessFlagsProtReadWrite};
  say("open the pool", cudaMemPoolSetAccess(pool, &descriptor, 1));
  descriptor.flags = cudaMemAccessFlagsProtNone;
  say("close the pool to its own GPU", cudaMemPoolSetAccess(pool, &descriptor, 1));
  descriptor.location.id = 99;
  say("open the pool to GPU 99", cudaMemPoolSetAccess(pool, &descriptor, 1));
  say("open the pool to none", cudaMemPoolSetAccess(pool, nullptr, 0));
  say("cudaMemset past its end", cudaMemset(p, 0, 1001));
  say("free", cudaFreeAsync(p, 0));
  say("memset after it in the stream", cudaMemsetAsync(p, 0, 4, 0));
  say("free again", cudaFreeAsync(p, 0));
  finish("synchronise");
}
SECTION("what a pool counts") {  // does what is refused change the count?
  CHECK(cudaSetDevice(0));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  auto say_used = [](const char* after) {
    CHECK(cudaDeviceSynchronize());
    uint64_t used = 0;
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    say(std::string("used after ") + after, std::to_string(used));
  };
  void* p = from_pool(page);
  say_used("2 MiB");
  CUdeviceptr other;
  say("2^60 bytes", cuMemAllocAsync(&other, size_t(1) << 60, 0));
  say_used("2^60 bytes");
  say("from the null pool", cuMemAllocFromPoolAsync(&other, 24, nullptr, 0));
  say_used("24 bytes of the null pool");
  CHECK(cuMemAlloc(&other, 40)), say("free cuMemAlloc's memory", cuMemFreeAsync(other, 0));
  say_used("40 bytes of cuMemAlloc's memory");
  say("free 1 byte in", cuMemFreeAsync(CUdeviceptr(p) + 1, 0));
  say_used("freeing 1 byte in");
  CHECK(cuMemAllocAsync(&other, 56, 0)), say("free", cuMemFreeAsync(other, 0));
  say("free again", cuMemFreeAsync(other, 0));
  say_used("freeing 56 bytes twice");
  CHECK(cuMemAllocAsync(&other, 72, 0)), say("free", cuMemFree(other)), say("free again", cuMemFree(other));
  say_used("freeing 72 bytes twice with cuMemFree");
  say("free", cudaFreeAsync(p, 0));
  say_used("the end");
}
SECTION("a pool destroyed") {
  CHECK(cudaSetDevice(0));
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  void* p;
  CHECK(cudaMallocFromPoolAsync(&p, 1000, pool, 0));
  say("destroy with memory in use", cudaMemPoolDestroy(pool));
  say("memset of it", cudaMemset(p, 0, 1000));
  say("free", cudaFreeAsync(p, 0));
  finish("synchronise");
}
SECTION("pools in the order of streams") {
  CHECK(cudaSetDevice(0));
  cudaStream_t a, b;
  cudaEvent_t event;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking)), CHECK(cudaEventCreate(&event));
  CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
  int *p, *q;
  CHECK(cudaMallocAsync(&p, page, a)), CHECK(cudaFreeAsync(p, a)), CHECK(cudaMallocAsync(&q, page, a));
  say("the same address in the stream", yes(p == q));
  CHECK(cudaFreeAsync(q, a)), CHECK(cudaEventRecord(event, a)), CHECK(cudaStreamWaitEvent(b, event));
  CHECK(cudaMallocAsync(&p, page, b));
  say("the same address in a stream that waits", yes(p == q));
  store<<<1, 1, 0, b>>>(p, 5);
  say("free in the other stream", cudaFreeAsync(p, a));
  finish("synchronise");
}

// --- Legacy IPC ---------------------------------------------------------------------------------------------------

struct Share {
  cudaIpcMemHandle_t whole, small, inside, freed;
  char freed_first;
};
static int pipe_to, pipe_from;  // in the child: answers to and questions from the parent

static void hear(char word) {
  char got = 0;
  EXPECT(read(pipe_from, &got, 1) == 1 && got == word, "the other process is gone");
}
static void tell(char word) { EXPECT(write(pipe_to, &word, 1) == 1, "the other process is gone"); }

static void open_shared() {
  Share share;
  EXPECT(read(pipe_from, &share, sizeof share) == sizeof share, "no handles");
  CHECK(cudaSetDevice(0));
  int *whole = nullptr, *again = nullptr, *small = nullptr, *inside = nullptr, *freed = nullptr;
  const unsigned lazy = cudaIpcMemLazyEnablePeerAccess;
  say("opener: open", cudaIpcOpenMemHandle((void**)&whole, share.whole, lazy));
  say("opener: value", std::to_string(value_at(whole)));
  say("opener: open again", cudaIpcOpenMemHandle((void**)&again, share.whole, lazy));
  say("opener: the same address", yes(whole == again));
  say("opener: open a small one", cudaIpcOpenMemHandle((void**)&small, share.small, lazy));
  say("opener: value", std::to_string(value_at(small)));
  say("opener: open by an address inside", cudaIpcOpenMemHandle((void**)&inside, share.inside, lazy));
  say("opener: lies so many bytes behind the start", std::to_string((char*)inside - (char*)whole));
  say("opener: open what was freed", cudaIpcOpenMemHandle((void**)&freed, share.freed, lazy));
  cudaPointerAttributes all;
  say("opener: attributes", cudaPointerGetAttributes(&all, whole));
  say("opener: type, device", std::to_string(all.type) + ", " + std::to_string(all.device));
  CUdeviceptr base = 0;
  size_t size = 0;
  say("opener: address range", cuMemGetAddressRange(&base, &size, CUdeviceptr(whole)));
  say("opener: size", mib((long long)size));
  cudaIpcMemHandle_t onward;
  say("opener: share it on", cudaIpcGetMemHandle(&onward, whole));
  say("opener: cudaFree", cudaFree(whole));
  add<<<1, 1>>>(whole, 1), finish("opener: kernel");
  tell('k'), hear('f');  // the maker frees its memory now
  say("opener: value after the maker's cudaFree", std::to_string(value_at(whole)));
  say("opener: close", cudaIpcCloseMemHandle(whole));
  say("opener: memset, opened twice", cudaMemset(whole, 0, 4));
  say("opener: close", cudaIpcCloseMemHandle(whole));
  say("opener: close", cudaIpcCloseMemHandle(whole));
  say("opener: close", cudaIpcCloseMemHandle(whole));
  say("opener: close the small one", cudaIpcCloseMemHandle(small));
  finish("opener: synchronise");
  tell('c');
}
SECTION("legacy IPC") {
  CHECK(cudaSetDevice(0));
  int *whole, *small, *first, *freed;
  CHECK(cudaMalloc(&whole, 8 * MiB)), CHECK(cudaMalloc(&first, 1000)), CHECK(cudaMalloc(&small, 1000));
  CHECK(cudaMalloc(&freed, 16 * MiB));
  for (int* p : {whole, first, small, freed}) CHECK(cudaMemset(p, 0, 1000));
  store<<<1, 1>>>(whole, 5), store<<<1, 1>>>(first, 6), store<<<1, 1>>>(small, 7), CHECK(cudaDeviceSynchronize());
  Share share = {};
  CHECK(cudaIpcGetMemHandle(&share.whole, whole)), CHECK(cudaIpcGetMemHandle(&share.small, small));
  CHECK(cudaIpcGetMemHandle(&share.inside, whole + 1000)), CHECK(cudaIpcGetMemHandle(&share.freed, freed));
  CHECK(cudaFree(freed));
  tell('1');
  EXPECT(write(pipe_to, &share, sizeof share) == sizeof share, "nobody hears");
  hear('k');
  say("maker: value", std::to_string(value_at(whole)));
  say("maker: cudaFree", cudaFree(whole));
  tell('f'), hear('c');
  finish("maker: synchronise");
}

// Two processes, each with an end of two pipes. The opener starts when the maker has said '1'.
static std::string run_two(int maker) {
  int to_opener[2], to_maker[2];
  EXPECT(pipe(to_opener) == 0 && pipe(to_maker) == 0, "no pipe");
  std::fflush(stdout);
  auto start = [&](const char* part, int to, int from) {
    const pid_t child = fork();
    if (child) return child;
    for (int end : {to_opener[0], to_opener[1], to_maker[0], to_maker[1]})
      if (end != to && end != from) close(end);
    const std::string ends[] = {std::to_string(to), std::to_string(from)};
    execl("/proc/self/exe", "conformance", part, ends[0].c_str(), ends[1].c_str(), nullptr);
    _exit(126);
  };
  const pid_t first = start(std::to_string(maker).c_str(), to_opener[1], to_maker[0]);
  const pid_t second = start("opener", to_maker[1], to_opener[0]);
  for (int end : {to_opener[0], to_opener[1], to_maker[0], to_maker[1]}) close(end);
  const std::string end = end_of(second);
  return end + ", " + end_of(first);
}

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 1) {
    if (argc > 3) pipe_to = atoi(argv[2]), pipe_from = atoi(argv[3]);
    CHECK(cuInit(0));
    if (argv[1] == std::string("opener")) hear('1'), open_shared();
    else sections().at(std::stoul(argv[1])).run();
    return 0;
  }
  check::require_gpus(1);
  for (size_t i = 0; i < sections().size(); ++i) {
    section(sections()[i].name);
    say("end", i + 1 == sections().size() ? run_two(int(i)) : run_again(std::to_string(i)));
  }
  std::printf("OK\n");
}
