// SPDX-License-Identifier: MIT-0
// The unusual in the runtime's memory: zero sizes, wrong pointers, kinds of copies, pointers of all kinds, pools.
#include "conformance.h"
#include "waiting.h"

__global__ void add(int* to, int value) { *to += value; }
__global__ void wait_for(volatile int* flag) {
  while (!*flag) {
  }
}

static void number(const std::string& what, long long it) { say(what, std::to_string(it)); }
static void last(const std::string& what) { say("  last error after " + what, cudaGetLastError()); }

SECTION("allocations") {
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

SECTION("copies") {
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

// Which copies and memsets let the host wait for the kernel before them, in the same stream.
SECTION("behind a kernel") {
  int *host, *a, *b;
  CHECK(cudaMallocHost(&host, 512));
  CHECK(cudaMalloc(&a, 4 * MiB));
  CHECK(cudaMalloc(&b, 4 * MiB));
  const CUdeviceptr mapped = reserve(page);
  map_new(mapped, page);
  int* const vmm = reinterpret_cast<int*>(mapped);
  const auto ask = [host](const char* what, auto call) {
    *host = 0;
    wait_for<<<1, 1>>>(host);
    cudaError_t answer;
    const bool waited = waits_for(static_cast<volatile int*>(host), [&] { answer = call(); });
    CHECK(cudaDeviceSynchronize());
    say(what, check::name(answer) + std::string(waited ? ", waits" : ", at once"));
  };
  ask("cudaMemcpy, device to device", [=] { return cudaMemcpy(a, b, 4, cudaMemcpyDeviceToDevice); });
  ask("cudaMemcpy of 4 MiB, device to device", [=] { return cudaMemcpy(a, b, 4 * MiB, cudaMemcpyDeviceToDevice); });
  ask("cudaMemcpy, default, two of a GPU", [=] { return cudaMemcpy(a, b, 4, cudaMemcpyDefault); });
  ask("cudaMemcpy, device to device, VMM", [=] { return cudaMemcpy(vmm, vmm + 1, 4, cudaMemcpyDeviceToDevice); });
  ask("cudaMemcpy2D, device to device", [=] { return cudaMemcpy2D(a, 64, b, 64, 64, 4, cudaMemcpyDeviceToDevice); });
  const auto copy_3d = [a](int* from, cudaMemcpyKind kind) {
    cudaMemcpy3DParms all = {};
    all.dstPtr = make_cudaPitchedPtr(a, 64, 64, 4);
    all.srcPtr = make_cudaPitchedPtr(from, 64, 64, 4);
    all.extent = make_cudaExtent(64, 4, 2);
    all.kind = kind;
    return cudaMemcpy3D(&all);
  };
  ask("cudaMemcpy3D, device to device", [=] { return copy_3d(b, cudaMemcpyDeviceToDevice); });
  ask("cudaMemcpy3D, default, two of a GPU", [=] { return copy_3d(b, cudaMemcpyDefault); });
  ask("cudaMemcpy3D, host to device", [=] { return copy_3d(host, cudaMemcpyHostToDevice); });
  ask("cudaMemcpy, host to device", [=] { return cudaMemcpy(a, host + 1, 4, cudaMemcpyHostToDevice); });
  ask("cudaMemcpy, device to host", [=] { return cudaMemcpy(host + 1, a, 4, cudaMemcpyDeviceToHost); });
  ask("cudaMemcpy, default, to host memory", [=] { return cudaMemcpy(host + 1, a, 4, cudaMemcpyDefault); });
  ask("cudaMemset", [=] { return cudaMemset(a, 0, 4); });
  ask("cudaMemset2D", [=] { return cudaMemset2D(a, 64, 0, 64, 4); });
}

SECTION("copy past the end") {
  char *a, *b;
  CHECK(cudaMalloc(&a, 4 * MiB));
  CHECK(cudaMalloc(&b, 4 * MiB));
  say("cudaMemcpy", cudaMemcpy(a, b, size_t(1) << 32, cudaMemcpyDeviceToDevice));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

SECTION("memset past the end") {
  char* a;
  CHECK(cudaMalloc(&a, 4 * MiB));
  say("cudaMemset", cudaMemset(a, 0, size_t(1) << 32));
  say("cudaDeviceSynchronize", cudaDeviceSynchronize());
}

// Every kind of copy between every two kinds of memory.
SECTION("kinds") {
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

SECTION("pointers") {
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

SECTION("ipc") {
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

SECTION("pools") {
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

int main(int argc, char** argv) { return run_sections(argc, argv); }
