// SPDX-License-Identifier: MIT-0
// Stream-ordered pools on one GPU: where blocks lie, what is around them, and what freeing leaves. Each case has a
// process of its own.
#include "conformance.h"

#include <tuple>
#include <vector>

__global__ void load(const volatile int* p, int* to) { *to = *p; }
__global__ void await(const volatile int* p) { while (!*p); }

static char *first, *p, *q, *r, *s;
static int* result;
static cudaMemPool_t pool;
static cudaStream_t stream[2];

static char* take(size_t size, cudaStream_t in = 0) {
  void* got = nullptr;
  if (cudaMallocAsync(&got, size, in) != cudaSuccess) cudaGetLastError();
  if (!first) first = static_cast<char*>(got);
  return static_cast<char*>(got);
}
static void drop(void* what, cudaStream_t in = 0) { CHECK(cudaFreeAsync(what, in)); }
static std::string place(const char* of) { return of ? std::to_string(of - first) : "none"; }
static char* say_take(size_t size, cudaStream_t in = 0) {
  char* const got = take(size, in);
  say(std::to_string(size) + " bytes at", place(got));
  return got;
}
static void say_pool(const std::string& what) {
  uint64_t reserved, used;
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  say(what, "reserved " + mib(reserved) + ", used " + std::to_string(used));
}
static void finish() { CHECK(cudaDeviceSynchronize()); }
static void try_load(const std::string& what, const char* from) {
  load<<<1, 1>>>(reinterpret_cast<const int*>(from), result);
  say(what, cudaDeviceSynchronize());
}
static void keep() {
  uint64_t all = ~uint64_t(0);
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}
static void say_access(const std::string& what, const char* of) {
  for (int gpu : {0, 99}) {
    CUmemLocation location = access_of(gpu).location;
    unsigned long long flags = 99;
    const CUresult answer = cuMemGetAccess(&flags, &location, CUdeviceptr(of));
    say(what + ": access of GPU " + std::to_string(gpu), answer ? check::name(answer) : std::to_string(flags));
  }
  CUmemLocation host = {};
  host.type = CU_MEM_LOCATION_TYPE_HOST;
  unsigned long long flags = 99;
  const CUresult answer = cuMemGetAccess(&flags, &host, CUdeviceptr(of));
  say(what + ": access of the host", answer ? check::name(answer) : std::to_string(flags));
}
static void say_pointer(const std::string& what, const char* of) {
  CUdeviceptr base = 0;
  size_t size = 0;
  say(what + ": address range", cuMemGetAddressRange(&base, &size, CUdeviceptr(of)));
  say(what + ": is",
      std::to_string(size) + " from " + place(reinterpret_cast<char*>(base ? base : CUdeviceptr(first))));
  CUmemoryPool from = nullptr;
  say(what + ": pool", cuPointerGetAttribute(&from, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, CUdeviceptr(of)));
  say(what + ": is the default", yes(from == pool));
  for (auto [attribute, name] : {std::pair(CU_POINTER_ATTRIBUTE_RANGE_SIZE, "range size"),
                                 std::pair(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "mapping size")}) {
    size_t bytes = 0;
    const CUresult answer = cuPointerGetAttribute(&bytes, attribute, CUdeviceptr(of));
    say(what + ": " + name, answer ? check::name(answer) : std::to_string(bytes));
  }
  for (auto [attribute, name] : {std::pair(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "range start"),
                                 std::pair(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "mapping start")}) {
    char* start = nullptr;
    const CUresult answer = cuPointerGetAttribute(&start, attribute, CUdeviceptr(of));
    say(what + ": " + name, answer ? check::name(answer) : place(start));
  }
}

SECTION("in a row") {
  for (size_t size :
       {1,        1,     256,      511,     512,           513, 1000,    1024, 1025,          3000, 4096,    5000,
        65536,    65537, 100,      1 << 20, (1 << 20) + 1, 8,   2 << 20, 8,    (2 << 20) + 1, 8,    3 << 20, 8,
        30 << 20, 8,     20 << 20, 8,       100 << 20,     8})
    say_take(size);
  say("the first is a multiple of 32 MiB", yes(CUdeviceptr(first) % (32 * MiB) == 0));
  say_pool("pool");
}
SECTION("many small ones") {
  take(8);
  size_t stride = 0, times = 0;
  char* before = first;
  for (int i = 0; i < 5000; ++i) {
    char* const got = take(8);
    if (size_t(got - before) != stride && times)
      say("apart " + std::to_string(stride), std::to_string(times)), times = 0;
    stride = got - before, ++times, before = got;
  }
  say("apart " + std::to_string(stride), std::to_string(times));
  say_pool("pool");
}
SECTION("freed and taken again") {
  p = say_take(1000), q = say_take(1000), r = say_take(1000), s = say_take(1000);
  drop(q), q = say_take(1000), drop(q), q = say_take(500), say_take(300), say_take(200);
  drop(q), drop(p), p = say_take(1500), drop(r), drop(s), say_take(3000);
  say_take(8);
}
SECTION("freed, synchronised and taken again") {
  p = say_take(1000), q = say_take(1000), r = say_take(1000), s = say_take(1000), say_take(1000);
  drop(q), finish(), q = say_take(1000), drop(q), finish(), q = say_take(500), say_take(300), say_take(200);
  drop(q), drop(p), finish(), p = say_take(1500), drop(r), drop(s), finish(), say_take(2000), say_take(8);
}
static void best(bool settled, bool large) {
  const size_t unit = large ? MiB : 1024;
  char* all[12];
  int i = 0;
  for (size_t size : {4, 1, 2, 1, 8, 1, 3, 1, 2, 1, 1, 1}) all[i++] = say_take(size * unit);
  for (int each : {0, 2, 4, 6, 8, 10}) drop(all[each]);
  if (settled) finish();
  for (size_t size : {2, 3, 2, 1, 5, 1, 4, 1, 1, 1}) say_take(size * unit);
}
SECTION("which hole, small") { best(false, false); }
SECTION("which hole, small, synchronised") { best(true, false); }
SECTION("which hole, large") { best(false, true); }
SECTION("which hole, large, synchronised") { best(true, true); }
static void equals(int synchronised) {  // after each, after all, never
  char* all[8];
  for (int i = 0; i < 8; ++i) all[i] = say_take(i % 2 ? 512 : 2048);
  for (int each : {4, 0, 6, 2}) {
    drop(all[each]);
    if (synchronised == 2) finish();
  }
  if (synchronised) finish();
  for (int i = 0; i < 4; ++i) say_take(i == 1 ? 1000 : 2048);
}
SECTION("which of equals") { equals(0); }
SECTION("which of equals, synchronised") { equals(1); }
SECTION("which of equals, synchronised after each") { equals(2); }
static void backed(bool small_first) {  // a hole that is partly given back, and one that is not
  p = say_take((small_first ? 80 : 82) * MiB), q = say_take(8), r = say_take((small_first ? 82 : 80) * MiB),
  s = say_take(8);
  drop(p), finish(), say_pool("the first freed"), keep(), drop(r), finish(), say_pool("both freed");
  say_take(80 * MiB), say_pool("taken");
}
SECTION("a hole given back, a larger one not") { backed(true); }
SECTION("a hole given back, a smaller one not") { backed(false); }
static void kept_part(int unit) {  // which of three units is kept
  uint64_t some = 50 * MiB;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &some));
  p = say_take(90 * MiB), drop(p), finish(), say_pool("freed");
  try_load("load in unit " + std::to_string(unit), first + unit * 32 * MiB);
}
SECTION("what is kept: 0") { kept_part(0); }
SECTION("what is kept: 1") { kept_part(1); }
SECTION("what is kept: 2") { kept_part(2); }
SECTION("memset, freed, a smaller one") {  // what is put into a stream before the free counts as it was
  int* flag;
  CHECK(cudaHostAlloc(&flag, 4, 0)), *flag = 0;
  p = say_take(4096, stream[0]);
  await<<<1, 1, 0, stream[0]>>>(flag);
  CHECK(cudaMemsetAsync(p, 1, 4096, stream[0])), CHECK(cudaMemcpyAsync(result, p, 4096, cudaMemcpyDefault, stream[0]));
  drop(p, stream[0]), say_take(1000, stream[0]);
  *const_cast<volatile int*>(flag) = 1;
  finish();
  int got = 0;
  CHECK(cudaMemcpy(&got, result + 1023, 4, cudaMemcpyDefault)), say("last word", std::to_string(got));
}
static void all_gone() {
  p = say_take(1000), q = say_take(5 * MiB), r = say_take(40 * MiB), s = say_take(8);
  drop(p), drop(q), drop(r), drop(s), finish();
  say_pool("freed"), say_take(3000), say_take(8), say_take(6 * MiB), say_take(50 * MiB), say_pool("taken");
}
SECTION("all freed") { all_gone(); }
SECTION("all freed and kept") { keep(), all_gone(); }
SECTION("holes of whole units") {
  p = say_take(40 * MiB), q = say_take(8), r = say_take(40 * MiB), s = say_take(8), say_pool("taken");
  drop(p), finish(), say_pool("the first freed");
  say_take(20 * MiB), say_pool("taken 20 MiB");
  say_take(16 * MiB), say_pool("taken 16 MiB");
  drop(r), finish(), say_pool("the third freed");
  say_take(80 * MiB), say_pool("taken 80 MiB");
  try_load("load where the third was", r);
}
SECTION("load around holes") {
  p = say_take(40 * MiB), q = say_take(8), drop(p), finish(), say_pool("freed"), say_take(6 * MiB), say_pool("taken");
  try_load("load next to the block left", q - 4);
  try_load("load at the start of its 32 MiB", first + 32 * MiB);
  try_load("load before its 32 MiB", first + 32 * MiB - 4);
}
SECTION("load in a hole") {
  p = say_take(40 * MiB), q = say_take(8), drop(p), finish(), say_pool("freed");
  try_load("load at the start", p);
}
static void tell(const std::string& what, cudaError_t answer) { say(what, answer), cudaGetLastError(); }
SECTION("past the end") {
  p = say_take(1000), q = say_take(1000);
  const int value = 77;
  CHECK(cudaMemset(p, 0, 1000)), CHECK(cudaMemcpy(q, &value, sizeof value, cudaMemcpyDefault));
  load<<<1, 1>>>(reinterpret_cast<int*>(p + (q - p)), result), finish();
  int got = 0;
  CHECK(cudaMemcpy(&got, result, 4, cudaMemcpyDefault)), say("loaded from the next block", std::to_string(got));
  try_load("load behind the end", p + 1004);
  std::vector<char> host(4096);
  char* const to = reinterpret_cast<char*>(result);
  for (const auto& [where, from, size] : {std::tuple("past the end", p, 1004),
                                          {"over the next block", p, 2048},
                                          {"behind the end", p + 1000, 8},
                                          {"behind the last block", q + 2048, 8}}) {
    tell(where + std::string(": copy out"), cudaMemcpy(host.data(), from, size, cudaMemcpyDeviceToHost));
    tell(where + std::string(": copy in"), cudaMemcpy(from, host.data(), size, cudaMemcpyHostToDevice));
    tell(where + std::string(": copy on the GPU"), cudaMemcpy(to, from, size, cudaMemcpyDeviceToDevice));
    tell(where + std::string(": memset"), cudaMemset(from, 0, size));
  }
  say_pointer("in the block", p + 8), say_pointer("behind the end", p + 1004);
  try_load("load behind the last block", q + 4096);
  try_load("load the last of the 32 MiB", first + 32 * MiB - 4);
  try_load("load past the 32 MiB", first + 32 * MiB);
}
SECTION("mapping") {
  for (size_t size : {8, 40 << 20, 8}) p = say_take(size), say_pointer(std::to_string(size), p);
}
SECTION("freed") {
  p = say_take(1000), q = say_take(1000), drop(p);
  say_pointer("freed", p), finish(), say_pointer("freed and synchronised", p);
  std::vector<char> host(8);
  for (bool all : {false, true}) {
    tell("copy out", cudaMemcpy(host.data(), p, 8, cudaMemcpyDeviceToHost));
    tell("copy in", cudaMemcpy(p, host.data(), 8, cudaMemcpyHostToDevice));
    tell("memset", cudaMemset(p, 0, 8));
    try_load("load", p);
    if (!all) drop(q), finish(), say_pool("all freed");
  }
}
SECTION("access") {
  p = take(1000), q = take(8 * MiB);
  say_access("at the start", p), say_access("inside", p + 8), say_access("last byte", p + 999),
      say_access("behind the end", p + 1008);
  say_access("behind all", q + 8 * MiB), say_access("large", q + MiB);
  say_access("memory of cudaMalloc", reinterpret_cast<char*>(result));
  void* host;
  CHECK(cudaMallocHost(&host, 8)), say_access("memory of the host", static_cast<char*>(host));
  CHECK(cudaMallocManaged(&host, 8)), say_access("managed memory", static_cast<char*>(host));
  drop(p), say_access("freed", p);
}
SECTION("freed in a busy stream") {
  int* flag;
  CHECK(cudaHostAlloc(&flag, 4, 0)), *flag = 0;
  p = say_take(1000, stream[0]);
  await<<<1, 1, 0, stream[0]>>>(flag);
  drop(p, stream[0]);
  q = say_take(1000, stream[1]), r = say_take(1000, stream[0]);
  drop(q, stream[1]), CHECK(cudaStreamSynchronize(stream[1]));
  say_take(1000, stream[0]), say_take(1000, stream[1]), say_take(20 * MiB, stream[0]);
  say_pool("pool");
  *const_cast<volatile int*>(flag) = 1;
  finish();
}
SECTION("freed in a busy stream, the pool is full") {
  int* flag;
  CHECK(cudaHostAlloc(&flag, 4, 0)), *flag = 0;
  p = say_take(20 * MiB, stream[0]);
  await<<<1, 1, 0, stream[0]>>>(flag);
  drop(p, stream[0]);
  q = say_take(20 * MiB, stream[1]), say_pool("pool"), r = say_take(20 * MiB, stream[0]), say_pool("pool");
  *const_cast<volatile int*>(flag) = 1;
  finish();
}
SECTION("parts of what is freed in a busy stream") {
  int* flag;
  CHECK(cudaHostAlloc(&flag, 4, 0)), *flag = 0;
  p = say_take(3000, stream[0]);
  await<<<1, 1, 0, stream[0]>>>(flag);
  drop(p, stream[0]), q = say_take(1000, stream[0]), r = say_take(1000, stream[1]), s = say_take(1000, stream[0]);
  drop(q, stream[0]), drop(s, stream[0]), say_take(2500, stream[0]), drop(r, stream[1]), say_take(4000, stream[0]);
  *const_cast<volatile int*>(flag) = 1;
  finish();
}
SECTION("two pools") {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t made;
  CHECK(cudaMemPoolCreate(&made, &properties));
  p = say_take(8);
  CHECK(cudaMallocFromPoolAsync((void**)&q, 8, made, 0));
  say("another pool's is 512 MiB away or more", yes(llabs(q - p) >= 512ll * MiB)), first = q;
  CHECK(cudaMallocFromPoolAsync((void**)&r, 1000, made, 0)), say("its next", std::to_string(r - q));
  say("a multiple of 32 MiB", yes(CUdeviceptr(q) % (32 * MiB) == 0));
  say("destroy", cudaMemPoolDestroy(made)), say_access("destroyed, in use", q), say_pointer("destroyed, in use", r);
  drop(q), finish(), try_load("load, freed after it, another in use", q), drop(r), finish(),
      try_load("load, all freed", q);
}
SECTION("cudaFree") {
  p = say_take(1000), q = say_take(1000);
  CHECK(cudaFree(p)), say_take(1000), say_pool("pool");
  CHECK(cudaFree(q)), say_pool("pool");
}

static void set_up() {
  alarm(20);
  CHECK(cudaSetDevice(0)), CHECK(cudaMalloc(&result, 4 * MiB));
  CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
  for (auto& each : stream) CHECK(cudaStreamCreateWithFlags(&each, cudaStreamNonBlocking));
  load<<<1, 1>>>(result, result), CHECK(cudaMemset(result, 1, 4)), await<<<1, 1>>>(result), finish();
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
