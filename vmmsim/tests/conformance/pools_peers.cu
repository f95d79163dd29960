// SPDX-License-Identifier: MIT-0
// Two GPUs: pools that are opened to the other one, and legacy IPC memory that both open. Each case has a process of
// its own, and one more where it opens memory of the first. Skips on one GPU.
#include "conformance.h"

__global__ void load(const volatile int* p, int* to) { *to = *p; }
__global__ void add(int* p, int v) { atomicAdd_system(p, v); }

static int* result[2];
static cudaMemPool_t pool;  // the default one of GPU 0
static char *p, *q;         // of a pool of GPU 0

static std::string gpu_name(int gpu) { return "GPU " + std::to_string(gpu); }
static void on(int gpu) { CHECK(cudaSetDevice(gpu)); }
static cudaError_t tell(const std::string& what, cudaError_t answer) {
  return say(what, answer), cudaGetLastError(), answer;
}
static char* take(size_t size = 1000, cudaMemPool_t from = nullptr) {
  void* got;
  on(0), CHECK(cudaMallocFromPoolAsync(&got, size, from ? from : pool, 0)), CHECK(cudaMemset(got, 1, 4)),
      CHECK(cudaDeviceSynchronize());
  return static_cast<char*>(got);
}
static void try_add(int gpu, void* at, const std::string& what = "add") {
  on(gpu), add<<<1, 1>>>(static_cast<int*>(at), 1), say(what + " by " + gpu_name(gpu), cudaDeviceSynchronize());
}
static void say_pool(cudaMemPool_t of = nullptr) {
  for (int gpu : {0, 1}) {
    cudaMemLocation location = {};
    location.type = cudaMemLocationTypeDevice, location.id = gpu;
    cudaMemAccessFlags flags = cudaMemAccessFlags(99);
    const cudaError_t answer = cudaMemPoolGetAccess(&flags, of ? of : pool, &location);
    say("pool's access of " + gpu_name(gpu), answer ? check::name(answer) : std::to_string(flags));
  }
}
static CUresult open(std::initializer_list<CUmemAccessDesc> descriptors, CUmemoryPool of = nullptr) {
  return cuMemPoolSetAccess(of ? of : pool, descriptors.begin(), descriptors.size());
}
static void open_to(int gpu, unsigned flags = 3, CUmemoryPool of = nullptr) {
  say("pool's access of " + gpu_name(gpu) + " = " + std::to_string(flags), open({access_of(gpu, flags)}, of));
}
static void say_access(const void* of) {
  for (int gpu : {0, 1}) {
    CUmemLocation location = access_of(gpu).location;
    unsigned long long flags = 99;
    const CUresult answer = cuMemGetAccess(&flags, &location, CUdeviceptr(of));
    say("cuMemGetAccess of " + gpu_name(gpu), answer ? check::name(answer) : std::to_string(flags));
  }
}
static void say_pointer(const void* of) {
  for (int gpu : {0, 1}) {
    on(gpu);
    unsigned flags = 99;
    say("with " + gpu_name(gpu) + ": access flags",
        cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CUdeviceptr(of)));
    say("are", std::to_string(flags));
    CUdeviceptr pointer = 0, base = 0;
    size_t size = 0;
    int ordinal = -1;
    say("device pointer", cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CUdeviceptr(of)));
    say("device", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CUdeviceptr(of)));
    say("is", std::to_string(ordinal));
    say("address range", cuMemGetAddressRange(&base, &size, CUdeviceptr(of))), say("size", std::to_string(size));
  }
}
static void by_peer(void* at) {  // all but kernels
  on(1);
  int value = 0;
  tell("memset by GPU 1", cudaMemset(at, 0, 8)), tell("synchronise", cudaDeviceSynchronize());
  tell("copy in by GPU 1", cudaMemcpy(at, &value, 4, cudaMemcpyDefault));
  tell("copy out by GPU 1", cudaMemcpy(&value, at, 4, cudaMemcpyDeviceToHost));
  tell("copy to GPU 1", cudaMemcpy(result[1], at, 8, cudaMemcpyDefault)),
      tell("copy from GPU 1", cudaMemcpy(at, result[1], 8, cudaMemcpyDeviceToDevice));
  tell("cudaMemcpyPeer", cudaMemcpyPeer(result[1], 1, at, 0, 8));
  tell("synchronise", cudaDeviceSynchronize());
  on(0), tell("copy by GPU 0", cudaMemcpy(result[1], at, 8, cudaMemcpyDefault));
}
static cudaMemPool_t make(int gpu = 0) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice, properties.location.id = gpu;
  cudaMemPool_t made;
  CHECK(cudaMemPoolCreate(&made, &properties));
  return made;
}
static void enable(int gpu, int peer) {
  on(gpu), tell(gpu_name(gpu) + " enables " + gpu_name(peer), cudaDeviceEnablePeerAccess(peer, 0));
}
static void disable(int gpu, int peer) {
  on(gpu), tell(gpu_name(gpu) + " disables " + gpu_name(peer), cudaDeviceDisablePeerAccess(peer));
}

static void refusals() {
  p = take();
  say("none of null", cuMemPoolSetAccess(pool, nullptr, 0)), say("one of null", cuMemPoolSetAccess(pool, nullptr, 1));
  say("the null pool", cuMemPoolSetAccess(nullptr, nullptr, 0));
  for (int gpu : {0, 1, 2, 99, -1})
    for (unsigned flags : {0, 1, 2, 3, 4, 7}) open_to(gpu, flags);
  say_pool(), open_to(1, 0);
  say("both", open({access_of(0), access_of(1)})), say_pool(), open_to(1, 0);
  say("one twice, open and closed", open({access_of(1), access_of(1, 0)})), say_pool(), open_to(1, 0);
  say("one twice, closed and open", open({access_of(1, 0), access_of(1)})), say_pool(), open_to(1, 0);
  say("a good and a bad GPU", open({access_of(1), access_of(99)})), say_pool(), open_to(1, 0);
  say("a good one and read only", open({access_of(1), access_of(1, 1)})), say_pool(), open_to(1, 0);
  say("a good one and its own closed", open({access_of(1), access_of(0, 0)})), say_pool(), open_to(1, 0);
  for (CUmemLocationType type : {CU_MEM_LOCATION_TYPE_INVALID, CU_MEM_LOCATION_TYPE_HOST,
                                 CU_MEM_LOCATION_TYPE_HOST_NUMA, CUmemLocationType(77)}) {
    CUmemAccessDesc other = access_of(0);
    other.location.type = type;
    for (unsigned flags : {0, 3}) {
      other.flags = CUmemAccess_flags(flags);
      say("location type " + std::to_string(type) + " = " + std::to_string(flags), open({other}));
    }
    CUmemAccess_flags got = CUmemAccess_flags(99);
    const CUresult answer = cuMemPoolGetAccess(&got, pool, &other.location);
    say("is", answer ? check::name(answer) : std::to_string(got));
  }
  CUmemAccessDesc none = access_of(1);
  say("none of some", cuMemPoolSetAccess(pool, &none, 0));
  say("none of the null pool", cuMemPoolSetAccess(nullptr, &none, 0));
  say("a bad GPU and read only", open({access_of(99), access_of(1, 1)}));
  say("flags 2 and a bad GPU", open({access_of(1, 2), access_of(99)}));
  tell("the runtime: none of null", cudaMemPoolSetAccess(pool, nullptr, 0));
  CUmemAccess_flags got = CUmemAccess_flags(99);
  for (int gpu : {2, 99, -1}) {
    CUmemLocation location = access_of(gpu).location;
    say("access of " + gpu_name(gpu), cuMemPoolGetAccess(&got, pool, &location));
  }
  CUmemLocation location = access_of(0).location;
  say("access of the null pool", cuMemPoolGetAccess(&got, nullptr, &location));
  say("null flags", cuMemPoolGetAccess(nullptr, pool, &location));
  say("null location", cuMemPoolGetAccess(&got, pool, nullptr));
  cudaMemLocation far = {};
  far.type = cudaMemLocationTypeDevice, far.id = 99;
  cudaMemAccessFlags some;
  tell("the runtime: access of GPU 99", cudaMemPoolGetAccess(&some, pool, &far));
}
static void closed() {
  p = take(), say_pool(), say_access(p), say_pointer(p), by_peer(p), try_add(0, p), try_add(1, p);
}
static void opened() {
  p = take(), open_to(1), q = take(), say_pool(), say_access(p), say_access(q), say_pointer(p), by_peer(p),
  try_add(1, p), try_add(1, q);
  q = take(100 * MiB), try_add(1, q + 90 * MiB, "add to a new unit"), say_access(q + 90 * MiB);
}
static void opened_first() {
  open_to(1), p = take(), say_access(p), try_add(1, p), try_add(1, p + 1024, "add behind the end");
}
static void closed_again() {
  p = take(), open_to(1), try_add(1, p), open_to(1, 0), say_pool(), say_access(p), say_pointer(p), try_add(0, p),
  try_add(1, p);
}
static void enabled() {
  p = take(), enable(1, 0), q = take(), say_pool(), say_access(p), say_pointer(p), say_access(q), by_peer(p),
  try_add(1, p);
}
static void enabled_both() { p = take(), enable(0, 1), say_access(p), enable(1, 0), say_access(p), try_add(1, p); }
static void opened_disabled() { p = take(), enable(1, 0), open_to(1), disable(1, 0), say_access(p), try_add(1, p); }
static void enabled_closed() { p = take(), open_to(1), enable(1, 0), open_to(1, 0), say_access(p), try_add(1, p); }
static void destroyed() {
  cudaMemPool_t made = make();
  open_to(1, 3, made), say_pool(made), say_pool(), p = take(1000, made), try_add(1, p);
  on(0), say("destroy", cudaMemPoolDestroy(made)), say_access(p), try_add(1, p), say("free", cudaFreeAsync(p, 0)),
      CHECK(cudaDeviceSynchronize()), try_add(1, p);
}
static void freed() {
  open_to(1), p = take(), q = take(), on(0), CHECK(cudaFreeAsync(p, 0)), CHECK(cudaDeviceSynchronize()), say_access(p),
              try_add(1, p);
}
static void free_by_peer() {
  open_to(1), p = take(), q = take(), on(1), try_add(1, p), tell("free p", cudaFree(p)),
              tell("free q", cudaFreeAsync(q, 0)), CHECK(cudaDeviceSynchronize());
  on(0), CHECK(cudaDeviceSynchronize()), say_pool();
  uint64_t used = 0;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used)), say("used", std::to_string(used));
}
static void of_the_peer() {  // GPU 1's memory in its pool, as GPU 0 sees it
  cudaMemPool_t made = make(1);
  on(1), CHECK(cudaMallocFromPoolAsync((void**)&p, 1000, made, 0)), CHECK(cudaDeviceSynchronize());
  say_pool(made), say_access(p), open_to(0, 3, made), open_to(1, 0, made), say_access(p), try_add(0, p),
      open_to(0, 0, made), try_add(0, p);
}
static void plain_access() {  // of what cudaMalloc made
  on(0), CHECK(cudaMalloc((void**)&p, 1000)), say_access(p), enable(1, 0), say_access(p), disable(1, 0), say_access(p),
      say_pointer(p);
}
static void no_context() {  // before GPU 1 has been used: see main
  p = take(), open_to(1), say_access(p);
  try_add(1, p);
}

// --- Legacy IPC ---------------------------------------------------------------------------------------------------
static int ends[2];
static cudaIpcMemHandle_t handle;
static void share(int gpu, const std::string& opener) {
  on(gpu);
  int* memory;
  CHECK(cudaMalloc(&memory, 4 * MiB)), CHECK(cudaMemset(memory, 0, 4 * MiB)), CHECK(cudaDeviceSynchronize());
  CHECK(cudaIpcGetMemHandle(&handle, memory));
  EXPECT(pipe(ends) == 0 && write(ends[1], &handle, sizeof handle) == sizeof handle, "no pipe");
  say("opener", run_again(opener, std::to_string(ends[0])));
  int value = -1;
  CHECK(cudaMemcpy(&value, memory, 4, cudaMemcpyDefault)), say("value", std::to_string(value));
}
static void* open_with(int gpu, cudaIpcMemHandle_t which = handle) {
  void* got = nullptr;
  on(gpu), tell("open with " + gpu_name(gpu), cudaIpcOpenMemHandle(&got, which, cudaIpcMemLazyEnablePeerAccess));
  return got;
}
static void close_with(int gpu, void* what) {
  on(gpu), tell("close with " + gpu_name(gpu), cudaIpcCloseMemHandle(what));
}
static void *a, *b, *c;
static void open_both() { a = open_with(1), b = open_with(0), say("one address", yes(a == b)); }

static const struct {
  const char* what;
  void (*run)();
  int shares = -1;  // the GPU whose memory another process opens, and then runs this
} cases[] = {
    {"what is refused", refusals},
    {"closed", closed},
    {"opened", opened},
    {"opened before it has memory", opened_first},
    {"closed again", closed_again},
    {"peer access enabled", enabled},
    {"peer access enabled both ways", enabled_both},
    {"opened, peer access disabled", opened_disabled},
    {"peer access enabled, closed", enabled_closed},
    {"destroyed", destroyed},
    {"freed", freed},
    {"freed by the peer", free_by_peer},
    {"the peer's pool", of_the_peer},
    {"opened to a GPU that was not used yet", no_context},
    {"cudaMalloc's memory", plain_access},
    {"IPC: opened by both",
     [] {
       open_both(), say_pointer(a), say_pointer(b), say_access(a), say_access(b);
       c = open_with(1), say("the same again", yes(c == a)), c = open_with(0), say("the same again", yes(c == b));
       try_add(1, a), try_add(0, b);
       close_with(1, a), try_add(1, a, "add, one left"), close_with(1, a), try_add(0, b);
       tell("memset of what is closed", cudaMemset(a, 0, 4)), close_with(1, a), close_with(0, b), close_with(0, b),
           close_with(0, b);
     },
     0},
    {"IPC: the owner first",
     [] {
       a = open_with(0), b = open_with(1), say("one address", yes(a == b)), try_add(0, a), try_add(1, b),
       say_pointer(a), say_pointer(b);
     },
     0},
    {"IPC: the owner uses the other's", [] { open_both(), try_add(0, a); }, 0},
    {"IPC: the owner uses what only the other opened", [] { a = open_with(1), try_add(0, a); }, 0},
    {"IPC: the other uses the owner's", [] { open_both(), try_add(1, b); }, 0},
    {"IPC: the other uses what only the owner opened", [] { b = open_with(0), try_add(1, b); }, 0},
    {"IPC: the other enables access and uses the owner's",
     [] { b = open_with(0), enable(1, 0), try_add(1, b), disable(1, 0), try_add(1, b); }, 0},
    {"IPC: enabled and disabled after it was opened",
     [] { a = open_with(1), try_add(1, a), enable(1, 0), try_add(1, a), disable(1, 0), try_add(1, a); }, 0},
    {"IPC: disabled after it was opened", [] { a = open_with(1), disable(1, 0), try_add(1, a); }, 0},
    {"IPC: enabled before it is opened",
     [] { enable(1, 0), a = open_with(1), try_add(1, a), disable(1, 0), try_add(1, a); }, 0},
    {"IPC: rights of the other's memory after", [] { a = open_with(1), enable(0, 1), disable(0, 1), try_add(1, a); },
     0},
    {"IPC: does opening enable the rest",
     [] {
       on(0);
       CHECK(cudaMalloc(&b, 8)), a = open_with(1), try_add(1, a), try_add(1, b, "add to memory of its own");
     },
     0},
    {"IPC: closed by the other GPU",
     [] { open_both(), close_with(0, a), close_with(1, b), try_add(1, a), try_add(0, b); }, 0},
    {"IPC: copies",
     [] { open_both(), by_peer(a), by_peer(b), on(0), tell("memset of the other's by GPU 0", cudaMemset(a, 0, 4)); },
     0},
    {"IPC: GPU 1's, opened by both",
     [] {
       a = open_with(0), b = open_with(1), say("one address", yes(a == b)), try_add(0, a), try_add(1, b),
       close_with(0, a), try_add(1, b), try_add(0, a);
     },
     1},
};

int main(int argc, char** argv) {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int count = sizeof cases / sizeof *cases;
  if (argc > 1) {
    alarm(20);
    const auto& mine = cases[atoi(argv[1])];
    if (argc > 2 && (ends[0] = atoi(argv[2])))
      EXPECT(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
    CHECK(cuInit(0));
    if (mine.run != no_context) on(1), CHECK(cudaMalloc(&result[1], 4 * MiB));
    on(0), CHECK(cudaMalloc(&result[0], 4 * MiB)), CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    if (mine.shares >= 0 && argc == 2) share(mine.shares, argv[1]);
    else mine.run();
    return 0;
  }
  require_peers();
  for (int i = 0; i < count; ++i) {
    section(cases[i].what);
    say("end", run_again(std::to_string(i)));
  }
  std::printf("OK\n");
}
