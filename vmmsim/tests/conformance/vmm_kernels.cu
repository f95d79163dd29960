// SPDX-License-Identifier: MIT-0
// Kernels on VMM memory: what works, what faults, and what answers after a fault. Each case has a process of its own.
#include "conformance.h"

__global__ void load(const volatile int* p, int* to) { *to = *p; }
__global__ void store(volatile int* p, int v) { *p = v; }
__global__ void add(int* p, int v) { atomicAdd(p, v); }
__global__ void nothing() {}

static CUdeviceptr a;  // 16 MiB of addresses
static int* result;    // in cudaMalloc's memory

static int* at(size_t offset) { return reinterpret_cast<int*>(a + offset); }
static void set(size_t offset, size_t size, unsigned flags) {
  CUmemAccessDesc descriptor = access_of(0, flags);
  CHECK(cuMemSetAccess(a + offset, size, &descriptor, 1));
}
static void finish(const std::string& what) { say(what, cudaDeviceSynchronize()); }
static void try_load(size_t offset) {
  load<<<1, 1>>>(at(offset), result);
  finish("load");
}
static void try_store(size_t offset) {
  store<<<1, 1>>>(at(offset), 1);
  finish("store");
}
static void try_add(size_t offset) {
  add<<<1, 1>>>(at(offset), 1);
  finish("atomic add");
}
static void say_value() {
  int value = -1;
  const cudaError_t answer = cudaMemcpy(&value, result, sizeof value, cudaMemcpyDeviceToHost);
  say("loaded", answer ? check::name(answer) : std::to_string(value));
}

SECTION("open memory") {
  map_new(a, page), CHECK(cuMemsetD8(a, 0, page));
  try_store(0), try_add(0), try_load(0), say_value(), try_store(page - 4);
}
SECTION("read only: load") { map_new(a, page, 1), try_load(page - 4); }
SECTION("read only: store") { map_new(a, page, 1), try_store(0); }
SECTION("read only: atomic") { map_new(a, page, 1), try_add(0); }
SECTION("read only: atomic adding 0") { map_new(a, page, 1), add<<<1, 1>>>(at(0), 0), finish("atomic add"); }
SECTION("no access: load") { map_new(a, page, 0), try_load(0); }
SECTION("no access: store") { map_new(a, page, 0), try_store(0); }
SECTION("reserved only: load") { try_load(0); }
SECTION("reserved only: store") { try_store(0); }
SECTION("behind a mapping: store") { map_new(a, page), try_store(page); }
SECTION("unmapped again: load") { map_new(a, page), try_load(0), CHECK(cuMemUnmap(a, page)), try_load(0); }
SECTION("no reservation: load") { CHECK(cuMemAddressFree(a, 16 * MiB)), try_load(0); }
SECTION("null: load") { a = 0, try_load(0); }
SECTION("access taken away: store") { map_new(a, page), try_store(0), set(0, page, 0), try_store(0); }
SECTION("read and write, then read: store") {
  map_new(a, page), try_store(0), set(0, page, 1), try_load(0), try_store(0);
}
SECTION("read, then read and write: store") { map_new(a, page, 1), try_load(0), set(0, page, 3), try_store(0); }
SECTION("access taken away and given back: store") {
  map_new(a, page), set(0, page, 0), set(0, page, 3), try_store(0), try_load(0), say_value();
}
SECTION("other memory at the same address") {
  map_new(a, page), store<<<1, 1>>>(at(0), 5), finish("store"), CHECK(cuMemUnmap(a, page));
  map_new(a, page), store<<<1, 1>>>(at(0), 6), finish("store"), try_load(0), say_value();
}
SECTION("one memory at two addresses, one of them read only") {
  CUmemGenericAllocationHandle handle = create(page);
  for (size_t offset : {size_t(0), page}) CHECK(cuMemMap(a + offset, page, 0, handle, 0));
  set(0, page, 3), set(page, page, 1);
  store<<<1, 1>>>(at(0), 42), finish("store at the first");
  try_load(page), say_value(), try_store(page);
}
SECTION("one memory at two addresses, one unmapped") {
  CUmemGenericAllocationHandle handle = create(page);
  for (size_t offset : {size_t(0), page}) CHECK(cuMemMap(a + offset, page, 0, handle, 0));
  set(0, 2 * page, 3);
  store<<<1, 1>>>(at(0), 43), finish("store at the first");
  CHECK(cuMemUnmap(a, page)), try_load(page), say_value(), try_load(0);
}
SECTION("kernel launched, then unmapped at once") {
  map_new(a, page), store<<<1, 1>>>(at(0), 1);
  say("unmap", cuMemUnmap(a, page)), finish("synchronize");
}
SECTION("misaligned load") { map_new(a, page), load<<<1, 1>>>((int*)(a + 1), result), finish("load"); }
SECTION("cuMemAlloc's memory freed: load") {
  CUdeviceptr p;
  CHECK(cuMemAlloc(&p, 64 * MiB)), CHECK(cuMemFree(p)), load<<<1, 1>>>((int*)p, result), finish("load");
}
SECTION("after a fault") {
  cudaStream_t stream;
  CUevent event;
  CHECK(cudaStreamCreate(&stream)), CHECK(cuEventCreate(&event, 0)), CHECK(cuEventRecord(event, 0));
  map_new(a, page);
  const CUmemGenericAllocationHandle handle = create(page);
  store<<<1, 1>>>(at(page), 1), say("launch", cudaGetLastError());
  say("synchronize", cudaDeviceSynchronize());
  say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError again", cudaGetLastError());
  say("cudaPeekAtLastError", cudaPeekAtLastError());
  nothing<<<1, 1>>>(), say("launch", cudaGetLastError());
  int number;
  char name[99];
  CUcontext context;
  CUdeviceptr address;
  size_t size, total;
  void* pointer;
  CUmemAllocationProp properties = on_gpu(0);
  CUmemGenericAllocationHandle other;
  CUmemAccessDesc descriptor = access_of(0);
  unsigned long long flags;
  CUdevice device;
  say("cuInit", cuInit(0));
  say("cuDriverGetVersion", cuDriverGetVersion(&number));
  say("cuDeviceGetCount", cuDeviceGetCount(&number));
  say("cuDeviceGet", cuDeviceGet(&device, 0));
  say("cuDeviceGetName", cuDeviceGetName(name, sizeof name, 0));
  say("cuDeviceGetAttribute", cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
  say("cuDeviceTotalMem", cuDeviceTotalMem(&total, 0));
  say("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  say("cuCtxGetDevice", cuCtxGetDevice(&device));
  say("cuCtxSetCurrent", cuCtxSetCurrent(context));
  say("cuCtxSynchronize", cuCtxSynchronize());
  say("cuMemGetInfo", cuMemGetInfo(&size, &total));
  say("cuMemGetAllocationGranularity",
      cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  say("cuMemAddressReserve", cuMemAddressReserve(&address, page, 0, 0, 0));
  say("cuMemCreate", cuMemCreate(&other, page, &properties, 0));
  say("cuMemGetAllocationPropertiesFromHandle", cuMemGetAllocationPropertiesFromHandle(&properties, handle));
  say("cuMemMap", cuMemMap(a + page, page, 0, handle, 0));
  say("cuMemSetAccess", cuMemSetAccess(a, page, &descriptor, 1));
  say("cuMemGetAccess", cuMemGetAccess(&flags, &descriptor.location, a));
  say("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle(&other, (void*)a));
  say("cuMemGetAddressRange", cuMemGetAddressRange(&address, &size, a));
  say("cuPointerGetAttribute", cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, a));
  say("cuMemAlloc", cuMemAlloc(&address, page));
  say("cuMemsetD8", cuMemsetD8(a, 0, 1));
  say("cuMemcpyDtoH", cuMemcpyDtoH(&number, a, 4));
  say("cuStreamQuery", cuStreamQuery(stream));
  say("cuStreamSynchronize", cuStreamSynchronize(stream));
  say("cuEventQuery", cuEventQuery(event));
  say("cuEventRecord", cuEventRecord(event, stream));
  say("cuEventDestroy", cuEventDestroy(event));
  say("cuStreamDestroy", cuStreamDestroy(stream));
  say("cuMemUnmap", cuMemUnmap(a, page));
  say("cuMemRelease", cuMemRelease(handle));
  say("cuMemAddressFree", cuMemAddressFree(a, 16 * MiB));
  say("cuMemFree", cuMemFree((CUdeviceptr)result));
  cudaFuncAttributes attributes;
  say("cudaGetDeviceCount", cudaGetDeviceCount(&number));
  say("cudaGetDevice", cudaGetDevice(&number));
  say("cudaSetDevice", cudaSetDevice(0));
  say("cudaDriverGetVersion", cudaDriverGetVersion(&number));
  say("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&number));
  say("cudaMalloc", cudaMalloc(&pointer, 4));
  say("cudaMallocHost", cudaMallocHost(&pointer, 4));
  say("cudaFree", cudaFree(result));
  say("cudaMemGetInfo", cudaMemGetInfo(&size, &total));
  say("cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, nothing));
  say("cudaDeviceGetAttribute", cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0));
  say("cudaGetErrorName", cudaGetErrorName(cudaSuccess));
  say("cudaGetLastError", cudaGetLastError());
  say("cudaDeviceReset", cudaDeviceReset());
  say("cudaDeviceSynchronize after the reset", cudaDeviceSynchronize());
  say("cudaMalloc after the reset", cudaMalloc(&pointer, 4));
}
SECTION("the host reads open memory") {
  map_new(a, page);
  std::printf("%d\n", *reinterpret_cast<volatile int*>(a));
}
SECTION("the host writes reserved addresses") { *reinterpret_cast<volatile int*>(a) = 1; }
SECTION("the host reads cuMemAlloc's memory") { std::printf("%d\n", *reinterpret_cast<volatile int*>(result)); }
SECTION("another process, after all these faults") { map_new(a, page), try_store(0), try_load(0), say_value(); }

static void set_up() {
  CHECK(cuInit(0));
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&result, sizeof *result));
  a = reserve(16 * MiB);
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
