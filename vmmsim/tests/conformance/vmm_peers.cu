// SPDX-License-Identifier: MIT-0
// Two GPUs and VMM memory: who reaches what after which call. Each case has a process of its own. Skips on one GPU.
#include "conformance.h"

__global__ void load(const volatile int* p, int* to) { *to = *p; }
__global__ void store(volatile int* p, int v) { *p = v; }
__global__ void add(int* p, int v) { atomicAdd_system(p, v); }

static CUdeviceptr a;  // 16 MiB of addresses, memory of GPU 0 mapped at the start of it, without access
static int* result[2];

static int* at(size_t offset) { return reinterpret_cast<int*>(a + offset); }
static void set(size_t offset, size_t size, int gpu, unsigned flags) {
  CUmemAccessDesc descriptor = access_of(gpu, flags);
  say("access of GPU " + std::to_string(gpu) + " = " + std::to_string(flags),
      cuMemSetAccess(a + offset, size, &descriptor, 1));
}
static void say_access(size_t offset = 0) {
  for (int gpu : {0, 1}) {
    CUmemLocation location = access_of(gpu).location;
    unsigned long long flags = 99;
    const CUresult answer = cuMemGetAccess(&flags, &location, a + offset);
    say("access of GPU " + std::to_string(gpu), answer ? check::name(answer) : std::to_string(flags));
  }
}
static void on(int gpu) { CHECK(cudaSetDevice(gpu)); }
static void finish(int gpu, const char* what) {
  say(what + std::string(" by GPU ") + std::to_string(gpu), cudaDeviceSynchronize());
}
static void try_store(int gpu, size_t offset = 0, int value = 1) {
  on(gpu), store<<<1, 1>>>(at(offset), value), finish(gpu, "store");
}
static void try_load(int gpu, size_t offset = 0) {
  on(gpu), load<<<1, 1>>>(at(offset), result[gpu]), finish(gpu, "load");
  int value = -1;
  if (cudaMemcpy(&value, result[gpu], sizeof value, cudaMemcpyDeviceToHost) == cudaSuccess)
    say("loaded", std::to_string(value));
}

SECTION("open to the owner: store by the peer") { set(0, page, 0, 3), say_access(), try_store(0), try_store(1); }
SECTION("peer access enabled, open to the owner: store by the peer") {
  on(1), say("enable", cudaDeviceEnablePeerAccess(0, 0)), set(0, page, 0, 3), say_access(), try_store(1);
}
SECTION("peer access enabled before the memory is made") {
  on(1), say("enable", cudaDeviceEnablePeerAccess(0, 0)), map_new(a + page, page), say_access(page), try_load(1, page);
}
SECTION("open to the peer alone") { set(0, page, 1, 3), say_access(), try_store(1, 0, 7), try_load(1), try_load(0); }
SECTION("open to the peer alone: copies and memset") {
  set(0, page, 1, 3);
  int value = 8;
  on(0), say("memset by GPU 0", cuMemsetD8(a, 1, page)), say("copy in by GPU 0", cuMemcpyHtoD(a, &value, 4));
  say("copy out by GPU 0", cuMemcpyDtoH(&value, a, 4));
  on(1), say("memset by GPU 1", cuMemsetD8(a, 1, page)), say("copy in by GPU 1", cuMemcpyHtoD(a, &value, 4));
  say("copy out by GPU 1", cuMemcpyDtoH(&value, a, 4)), say("last error", cudaDeviceSynchronize());
}
SECTION("open to both") {
  CUmemAccessDesc both[] = {access_of(0), access_of(1)};
  say("set", cuMemSetAccess(a, page, both, 2)), say_access();
  try_store(0, 0, 5), try_load(1), try_store(1, 0, 6), try_load(0);
  on(1), add<<<1, 1>>>(at(0), 10), finish(1, "atomic add"), try_load(0);
}
SECTION("open to one, then to the other") {
  set(0, page, 0, 3), say_access(), set(0, page, 1, 1), say_access(), try_store(0, 0, 4), try_load(1), try_store(1);
}
SECTION("taken from the peer") {
  set(0, page, 0, 3), set(0, page, 1, 3), set(0, page, 1, 0), say_access(), try_store(0), try_store(1);
}
SECTION("taken from the owner") {
  set(0, page, 0, 3), set(0, page, 1, 3), set(0, page, 0, 0), say_access(), try_store(1), try_store(0);
}
SECTION("a good and a bad GPU") {
  CUmemAccessDesc both[] = {access_of(1), access_of(99)};
  say("set", cuMemSetAccess(a, page, both, 2)), say_access();
}
SECTION("stripes of both GPUs in one range") {
  map_new(a + page, page, 0, 1);
  CUmemAccessDesc both[] = {access_of(0), access_of(1)};
  say("set", cuMemSetAccess(a, 2 * page, both, 2)), say_access(), say_access(page);
  say("memset over both", cuMemsetD8(a, 3, 2 * page)), try_load(0, page), try_load(1, 0);
  CUdeviceptr base = 0;
  size_t size = 0;
  say("address range", cuMemGetAddressRange(&base, &size, a + page));
  say("it is", mib(size) + " from " + mib(a + page - base) + " before");
  for (size_t offset : {size_t(0), page}) {
    int ordinal = -1;
    CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, a + offset));
    say("device ordinal", std::to_string(ordinal));
  }
  say("unmap both", cuMemUnmap(a, 2 * page));
}
SECTION("copy between the GPUs' memory") {
  map_new(a + page, page, 3, 1), set(0, page, 0, 3);
  CHECK(cudaDeviceSynchronize()), try_store(0, 0, 11);
  say("cudaMemcpy", cudaMemcpy(at(page), at(0), page, cudaMemcpyDeviceToDevice)),
      say("synchronize", cudaDeviceSynchronize());
  say("cudaMemcpyPeer", cudaMemcpyPeer(at(page), 1, at(0), 0, page)), say("synchronize", cudaDeviceSynchronize());
  on(1), say("cuMemcpyDtoD by GPU 1", cuMemcpyDtoD(a + page, a, page)), say("synchronize", cudaDeviceSynchronize());
  try_load(1, page);
}
SECTION("the memory of the current GPU, and memory info") {
  size_t before[2], now, total;
  for (int gpu : {0, 1}) on(gpu), CHECK(cuMemGetInfo(&before[gpu], &total));
  const CUmemGenericAllocationHandle handle = create(8 * MiB, 1);  // GPU 1 is current, memory on GPU 1
  on(0);
  const CUmemGenericAllocationHandle far = create(16 * MiB, 1);  // GPU 0 is current, memory on GPU 1
  for (int gpu : {0, 1})
    on(gpu), CHECK(cuMemGetInfo(&now, &total)), say("taken of GPU " + std::to_string(gpu), mib(before[gpu] - now));
  CHECK(cuMemRelease(handle)), CHECK(cuMemRelease(far));
}
SECTION("enable and disable") {
  on(1);
  say("disable, not enabled", cudaDeviceDisablePeerAccess(0)), cudaGetLastError();
  say("enable", cudaDeviceEnablePeerAccess(0, 0)), say("again", cudaDeviceEnablePeerAccess(0, 0)), cudaGetLastError();
  say("itself", cudaDeviceEnablePeerAccess(1, 0)), cudaGetLastError();
  say("GPU 99", cudaDeviceEnablePeerAccess(99, 0)), cudaGetLastError();
  say("flags 1", cudaDeviceEnablePeerAccess(0, 1)), cudaGetLastError();
  say("disable", cudaDeviceDisablePeerAccess(0)), say("again", cudaDeviceDisablePeerAccess(0)), cudaGetLastError();
}
SECTION("cudaMalloc's memory, not enabled: load by the peer") {
  on(0);
  int* p;
  CHECK(cudaMalloc(&p, page)), a = (CUdeviceptr)p, try_load(1);
}
SECTION("cudaMalloc's memory, enabled after it: load by the peer") {
  on(0);
  int* p;
  CHECK(cudaMalloc(&p, page)), a = (CUdeviceptr)p, try_store(0, 0, 3), on(1), CHECK(cudaDeviceEnablePeerAccess(0, 0)),
                               try_load(1);
  on(1), CHECK(cudaDeviceDisablePeerAccess(0)), try_load(1);
}
SECTION("a fault of one GPU, calls on the other") {
  set(0, page, 0, 3), try_store(1);
  on(0), say("synchronize GPU 0", cudaDeviceSynchronize()), try_store(0);
  size_t now, total;
  CUdeviceptr b;
  say("memory info", cuMemGetInfo(&now, &total)), say("cuMemAddressReserve", cuMemAddressReserve(&b, page, 0, 0, 0));
}

static void set_up() {
  CHECK(cuInit(0));
  for (int gpu : {1, 0}) CHECK(cudaSetDevice(gpu)), CHECK(cudaMalloc(&result[gpu], sizeof(int)));
  a = reserve(16 * MiB);
  map_new(a, page, 0);
}

int main(int argc, char** argv) {
  if (argc == 1) require_peers();
  return run_sections(argc, argv, set_up);
}
