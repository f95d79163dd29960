// SPDX-License-Identifier: MIT-0
// Host memory that is registered: who may reach it, what is known of its addresses, and what is refused.
#include "conformance.h"

#include <sys/mman.h>
#include <cstdint>
#include <iterator>

constexpr size_t small = 4096;

__global__ void add(int* words, int count) {
  for (int i = 0; i < count; ++i) words[i] += i + 1;
}

static char* host(size_t size, size_t alignment = page) {
  void* const memory = std::aligned_alloc(alignment, size);
  std::memset(memory, 0, size);
  return static_cast<char*>(memory);
}

static std::string offset(const void* pointer, const char* from, const char* name) {
  if (!pointer) return "null";
  const long long difference = static_cast<const char*>(pointer) - from;
  if (difference < -(1 << 24) || difference > 1 << 24) return "elsewhere";
  if (!difference) return name;
  return std::string(name) + (difference > 0 ? " + " : " - ") + std::to_string(std::llabs(difference));
}
static const char* type_name(cudaMemoryType type) {
  constexpr const char* names[] = {"unregistered", "host", "device", "managed"};
  return unsigned(type) < 4 ? names[type] : "another";
}

// What the runtime and the driver know of an address, with `p` for the memory's own.
static void describe(const std::string& what, const char* pointer, const char* p) {
  cudaPointerAttributes all;
  const cudaError_t answer = cudaPointerGetAttributes(&all, pointer);
  say(what, answer ? check::name(answer)
                   : std::string(type_name(all.type)) + ", device " + std::to_string(all.device) + ", for the device " +
                         offset(all.devicePointer, p, "p") + ", for the host " + offset(all.hostPointer, p, "p"));
}
static void describe_all(const std::string& what, const char* pointer, const char* p) {
  describe(what, pointer, p);
  struct Asked {
    CUpointer_attribute attribute;
    const char* name;
    char kind;
  };  // address, number
  constexpr Asked asked[] = {{CU_POINTER_ATTRIBUTE_CONTEXT, "CONTEXT", 'c'},
                             {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, "MEMORY_TYPE", 'n'},
                             {CU_POINTER_ATTRIBUTE_DEVICE_POINTER, "DEVICE_POINTER", 'a'},
                             {CU_POINTER_ATTRIBUTE_HOST_POINTER, "HOST_POINTER", 'a'},
                             {CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "SYNC_MEMOPS", 'n'},
                             {CU_POINTER_ATTRIBUTE_IS_MANAGED, "IS_MANAGED", 'n'},
                             {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, "DEVICE_ORDINAL", 'n'},
                             {CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, "IS_LEGACY_CUDA_IPC_CAPABLE", 'n'},
                             {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "RANGE_START_ADDR", 'a'},
                             {CU_POINTER_ATTRIBUTE_RANGE_SIZE, "RANGE_SIZE", 'n'},
                             {CU_POINTER_ATTRIBUTE_MAPPED, "MAPPED", 'n'},
                             {CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, "ALLOWED_HANDLE_TYPES", 'n'},
                             {CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, "IS_GPU_DIRECT_RDMA_CAPABLE", 'n'},
                             {CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, "ACCESS_FLAGS", 'n'},
                             {CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, "MEMPOOL_HANDLE", 'a'},
                             {CU_POINTER_ATTRIBUTE_MAPPING_SIZE, "MAPPING_SIZE", 'n'},
                             {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, "MAPPING_BASE_ADDR", 'a'}};
  CUcontext current;
  CHECK(cuCtxGetCurrent(&current));
  for (const Asked& each : asked) {
    uint64_t value = 0;
    const CUresult answer = cuPointerGetAttribute(&value, each.attribute, CUdeviceptr(pointer));
    const void* const address = reinterpret_cast<const void*>(value);
    say("  " + std::string(each.name), answer             ? check::name(answer)
                                       : each.kind == 'a' ? offset(address, p, "p")
                                       : each.kind == 'c' ? std::string(address == current ? "the current one"
                                                                        : address          ? "another"
                                                                                           : "null")
                                                          : std::to_string(value));
  }
  CUdeviceptr base = 0;
  size_t size = 0;
  const CUresult answer = cuMemGetAddressRange(&base, &size, CUdeviceptr(pointer));
  say("  cuMemGetAddressRange",
      answer ? check::name(answer) : offset((void*)base, p, "p") + ", " + std::to_string(size));
}

static void pointer_of(const std::string& what, char* pointer, const char* p, unsigned flags = 0) {
  void* device = nullptr;
  const cudaError_t answer = cudaHostGetDevicePointer(&device, pointer, flags);
  say(what, answer ? check::name(answer) : offset(device, p, "p"));
}
static void flags_of(const std::string& what, char* pointer) {
  unsigned flags = 99;
  const cudaError_t answer = cudaHostGetFlags(&flags, pointer);
  say(what, answer ? check::name(answer) : std::to_string(flags));
}
// Registers, says so, and takes it back.
static void try_to(const std::string& what, void* pointer, size_t size, unsigned flags = 0) {
  if (say(what, cudaHostRegister(pointer, size, flags)) == cudaSuccess) CHECK(cudaHostUnregister(pointer));
  cudaGetLastError();
}
static void drive(const std::string& what, void* pointer, size_t size, unsigned flags = 0) {
  if (say(what, cuMemHostRegister(pointer, size, flags)) == CUDA_SUCCESS) CHECK(cuMemHostUnregister(pointer));
}

static int variable;

static char* p;
static int* words;
static void* gpu;

static void registering() {
  section("register");
  describe("before", p, p);
  say("cudaHostRegister", cudaHostRegister(p, page, 0));
  pointer_of("cudaHostGetDevicePointer", p, p);
  pointer_of("inside", p + 100, p);
  pointer_of("the last byte", p + page - 1, p);
  pointer_of("past the end", p + page, p);
  pointer_of("flags 1", p, p, 1);
  say("for nothing", cudaHostGetDevicePointer(nullptr, p, 0));
  flags_of("cudaHostGetFlags", p);
  flags_of("inside", p + 100);
  flags_of("past the end", p + page);
  describe_all("attributes", p, p);
  describe_all("inside", p + 100, p);
  describe("past the end", p + page, p);
  for (int i = 0; i < 1024; ++i) words[i] = 10 * i;
  add<<<1, 1>>>(words, 1024);
  say("a kernel writes it", cudaDeviceSynchronize());
  bool right = true;
  for (int i = 0; i < 1024; ++i) right &= words[i] == 11 * i + 1;
  say("and the host sees it", right ? "yes" : "no");
  say("cudaMemset", cudaMemset(p, 5, page));
  CHECK(cudaDeviceSynchronize());
  say("the last byte", std::to_string(p[page - 1]));
  say("cudaMemset past the end", cudaMemset(p, 5, page + 1));
  say("cuMemsetD32 at the end", cuMemsetD32(CUdeviceptr(p + page - 4), 7, 1));
  say("cudaMemcpy to a GPU", cudaMemcpy(gpu, p, page, cudaMemcpyHostToDevice));
  say("cudaMemcpy past the end", cudaMemcpy(gpu, p, 2 * page, cudaMemcpyHostToDevice));
  say("cudaMemcpy from before", cudaMemcpy(gpu, p + page, page, cudaMemcpyHostToDevice));
  say("as if on a GPU", cudaMemcpy(gpu, p, page, cudaMemcpyDeviceToDevice));
  say("cudaMemcpyDefault", cudaMemcpy(p, gpu, page, cudaMemcpyDefault));
  say("cudaMemcpyAsync", cudaMemcpyAsync(p, gpu, page, cudaMemcpyDefault, nullptr));
  CHECK(cudaDeviceSynchronize());
  cudaGetLastError();
}

static void registering_again() {
  section("register what is registered");
  CHECK(cudaHostRegister(p, page, 0));
  say("the same", cudaHostRegister(p, page, 0));
  say("a part", cudaHostRegister(p + small, small, 0));
  say("more", cudaHostRegister(p, 2 * page, 0));
  say("what begins inside", cudaHostRegister(p + page - small, 2 * small, 0));
  try_to("what is beside it", p + page, page);
  say("the driver: the same", cuMemHostRegister(p, page, 0));
  say("cudaFreeHost", cudaFreeHost(p));
  say("cudaFree", cudaFree(p));
}

static void unregistering() {
  section("unregister");
  CHECK(cudaHostRegister(p, page, 0));
  say("inside", cudaHostUnregister(p + small));
  say("what is beside it", cudaHostUnregister(p + page));
  say("it", cudaHostUnregister(p));
  say("it again", cudaHostUnregister(p));
  say("the driver: again", cuMemHostUnregister(p));
  say("null", cudaHostUnregister(nullptr));
  say("the driver: null", cuMemHostUnregister(nullptr));
  pointer_of("cudaHostGetDevicePointer", p, p);
  flags_of("cudaHostGetFlags", p);
  describe("attributes", p, p);
  pointer_of("of null", nullptr, p);
  cudaGetLastError();
}

static void arguments() {
  section("arguments");
  try_to("null", nullptr, page);
  try_to("size 0", p, 0);
  try_to("null, size 0", nullptr, 0);
  try_to("1 byte", p, 1);
  try_to("unaligned", p + 100, 1000);
  try_to("the whole process", p, size_t(-1));
  try_to("past all addresses", p, size_t(1) << 60);
  for (unsigned flags : {1u, 2u, 3u, 8u, 9u, 11u, 16u, 32u, 64u, 128u, 256u, 0x80000000u})
    try_to("flags " + std::to_string(flags), p, page, flags);
  for (unsigned flags : {1u, 2u, 3u, 8u, 9u, 11u, 16u, 32u, 64u, 128u, 256u, 0x80000000u})
    drive("the driver: flags " + std::to_string(flags), p, page, flags);
  drive("the driver: null", nullptr, page);
  drive("the driver: size 0", p, 0);
  for (unsigned flags : {0u, 1u, 2u, 3u, 8u}) {
    CHECK(cudaHostRegister(p, page, flags));
    flags_of("flags " + std::to_string(flags) + ", read", p);
    describe("  attributes", p, p);
    CHECK(cudaHostUnregister(p));
  }
}

static void unaligned() {
  section("unaligned");
  CHECK(cudaHostRegister(p + 100, 1000, 0));
  pointer_of("at its begin", p + 100, p);
  pointer_of("before it, in its page", p, p);
  pointer_of("behind it, in its page", p + 2000, p);
  describe_all("at its begin", p + 100, p);
  describe("before it", p, p);
  describe("behind it", p + 2000, p);
  describe("in the next page", p + small, p);
  add<<<1, 1>>>(words, 1024);
  say("a kernel writes the whole page", cudaDeviceSynchronize());
  say("another part of the page", cudaHostRegister(p + 2000, 1000, 0));
  describe("there", p + 2000, p);
  say("unregister it", cudaHostUnregister(p + 2000));
  pointer_of("the first", p + 100, p);
  say("over both ends", cudaHostRegister(p, small, 0));
  say("unregister that", cudaHostUnregister(p));
  say("unregister the page", cudaHostUnregister(p));
  say("unregister its begin", cudaHostUnregister(p + 100));
  cudaGetLastError();
}

static void kinds_of_memory() {
  section("kinds of memory");
  int local = 0;
  try_to("on the stack", &local, sizeof local);
  try_to("a variable", &variable, sizeof variable);
  void* pinned;
  CHECK(cudaMallocHost(&pinned, page));
  say("of cudaMallocHost", cudaHostRegister(pinned, page, 0));
  say("unregister it", cudaHostUnregister(pinned));
  CHECK(cudaFreeHost(pinned));
  try_to("of a GPU", gpu, page);
  char* const mapped = static_cast<char*>(mmap(nullptr, 4 * small, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  try_to("read-only", mapped, small);
  try_to("read-only, and said so", mapped, small, cudaHostRegisterReadOnly);
  EXPECT(mprotect(mapped, 4 * small, PROT_NONE) == 0, "mprotect");
  try_to("not accessible", mapped, small);
  EXPECT(mprotect(mapped, 2 * small, PROT_READ | PROT_WRITE) == 0, "mprotect");
  try_to("half of it accessible", mapped, 4 * small);
  EXPECT(munmap(mapped + 2 * small, 2 * small) == 0, "munmap");
  try_to("half of it there", mapped, 4 * small);
  EXPECT(munmap(mapped, 2 * small) == 0, "munmap");
  try_to("not there", mapped, small);
  void* const shared = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  try_to("shared with children", shared, page);
  cudaGetLastError();
}

static void two_contexts() {
  section("in two contexts");
  CUcontext primary, other;
  CHECK(cuCtxGetCurrent(&primary));
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  say("register in one", cuMemHostRegister(p, page, 0));
  CHECK(cuCtxSetCurrent(primary));
  say("in the other too", cuMemHostRegister(p, page, 0));
  CUdeviceptr device = 0;
  const CUresult answer = cuMemHostGetDevicePointer(&device, p, 0);
  say("the other's pointer", answer ? check::name(answer) : offset((void*)device, p, "p"));
  say("unregister in the other", cuMemHostUnregister(p));
  say("and again", cuMemHostUnregister(p));
  CHECK(cuMemHostRegister(p, page, 0));
  CHECK(cuCtxDestroy(other));
  describe("a context is destroyed that did not register it", p, p);
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cuMemHostRegister(p + page, page, 0));
  CHECK(cuCtxDestroy(other));
  CHECK(cuCtxSetCurrent(primary));
  describe("the context is destroyed that registered it", p + page, p);
  say("unregister", cuMemHostUnregister(p + page));
  CHECK(cuMemHostUnregister(p));
  CHECK(cudaHostRegister(p, page, 0));
  CHECK(cudaDeviceReset());
  describe("after cudaDeviceReset", p, p);
  say("unregister", cudaHostUnregister(p));
}

static void writing_read_only() {
  CHECK(cudaHostRegister(p, page, cudaHostRegisterReadOnly));
  add<<<1, 1>>>(words, 1);
  say("a kernel writes what is registered read-only", cudaDeviceSynchronize());
}
static void writing_later() {
  CHECK(cudaHostRegister(p, page, 0));
  add<<<1, 1>>>(words, 1);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaHostUnregister(p));
  add<<<1, 1>>>(words, 1);
  say("a kernel writes what is registered no more", cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  constexpr void (*parts[])() = {registering,     registering_again, unregistering,     arguments,    unaligned,
                                 kinds_of_memory, two_contexts,      writing_read_only, writing_later};
  alarm(120);
  check::require_gpus(1);
  if (argc > 1) {
    CHECK(cudaSetDevice(0));
    CHECK(cudaMalloc(&gpu, 2 * page));
    p = host(2 * page);
    words = reinterpret_cast<int*>(p);
    parts[atoi(argv[1])]();
    std::fflush(stdout);
    _exit(0);
  }
  for (size_t i = 0; i < std::size(parts); ++i)
    if (const std::string how = run_again(std::to_string(i)); how != "exit 0") say("ended with", how);
  std::printf("OK\n");
}
