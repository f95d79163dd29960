// SPDX-License-Identifier: MIT-0
// Memory that kernels allocate: malloc, free, new and delete in a kernel, how much there is of it, and what the host's
// calls say of its addresses. What can fault or is refused for ever after has a process of its own.
#include "conformance.h"

#include <cstdint>
#include <vector>

static uint64_t* device_memory;
constexpr int most = 4096;

static std::vector<uint64_t> found() {
  std::vector<uint64_t> words(most);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(words.data(), device_memory, most * 8, cudaMemcpyDeviceToHost));
  return words;
}
static void tell(const std::string& what, int words) {
  std::printf("%s:", what.c_str());
  const std::vector<uint64_t> all = found();
  for (int i = 0; i < words; ++i) std::printf(" %llu", (unsigned long long)all[i]);
  std::puts("");
  CHECK(cudaMemset(device_memory, 0, most * 8));
}

__global__ void sizes(uint64_t* to) {
  const size_t asked[] = {0, 1, 16, 1000, size_t(1) << 20, size_t(64) << 20, size_t(1) << 40};
  int at = 0;
  for (const size_t size : asked) {
    char* const p = static_cast<char*>(malloc(size));
    to[at++] = p != nullptr;
    if (p && size) p[0] = 1, p[size - 1] = 2;
    free(p);
  }
  free(nullptr);
}
// Each thread's memory is its own, aligned, and stays what it is until another kernel frees it.
__global__ void allocate(uint32_t** kept, int words) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t* const p = new uint32_t[words];
  kept[t] = p;
  for (int i = 0; p && i < words; ++i) p[i] = t * 1000 + i;
}
__global__ void look(uint32_t** kept, int words, unsigned long long* to) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t* const p = kept[t];
  if (!p) {
    atomicAdd(to, 1);
    return;
  }
  if (reinterpret_cast<uintptr_t>(p) % 16) atomicAdd(to + 1, 1);
  for (int i = 0; i < words; ++i)
    if (p[i] != t * 1000 + i) atomicAdd(to + 2, 1);
  delete[] p;
}
__global__ void again_and_again(unsigned long long* to) {  // far more in all than there is
  for (int i = 0; i < 300; ++i) {
    uint32_t* const p = static_cast<uint32_t*>(malloc(4000));
    if (!p) {
      atomicAdd(to, 1);
      continue;
    }
    p[i] = threadIdx.x;
    if (p[i] != threadIdx.x) atomicAdd(to + 1, 1);
    free(p);
  }
}
// Pieces until there are none, a list through them; then all are given back.
__global__ void exhaust(uint64_t* to, size_t size) {
  for (int round = 0; round < 2; ++round) {
    void** list = nullptr;
    uint64_t count = 0;
    for (void** p; (p = static_cast<void**>(malloc(size))); list = p, ++count) *p = list;
    to[round] = count * size;
    while (list) {
      void** const next = static_cast<void**>(*list);
      free(list);
      list = next;
    }
  }
}
struct Node {
  int value;
  Node* next;
  __device__ Node(int v, Node* n) : value(v), next(n) {}
  __device__ ~Node() { value = -1; }
};
__global__ void lists(uint64_t* to) {
  Node* list = nullptr;
  for (int i = 0; i < 20; ++i) list = new Node(i * threadIdx.x, list);
  uint64_t sum = 0;
  while (list) {
    Node* const next = list->next;
    sum = sum * 3 + list->value;
    delete list;
    list = next;
  }
  to[threadIdx.x] = sum;
}
__global__ void keep(uint64_t* to) { to[0] = reinterpret_cast<uint64_t>(malloc(4096)); }
__global__ void is_there(uint64_t* to) {
  void* const p = malloc(16);
  to[0] = p != nullptr;
  free(p);
}
__global__ void use(char* p, uint64_t* to) { p[0] = 5, p[4095] = 6, to[0] = p[0] + p[4095]; }
__global__ void load(const char* p, uint64_t* to) { to[0] = *p; }
__global__ void give_back(void* p) { free(p); }
__global__ void store(volatile char* p) { *p = 1; }

static uint64_t kept() {
  keep<<<1, 1>>>(device_memory);
  return found()[0];
}
static std::string limit() {
  size_t value = 0;
  const cudaError_t answer = cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize);
  return std::string(check::name(answer)) + " " + std::to_string(value);
}
static void tell_limit(const std::string& what) { say(what, limit()); }
static void set_limit(size_t size) {
  say("set " + std::to_string(size), cudaDeviceSetLimit(cudaLimitMallocHeapSize, size));
  tell_limit("limit");
}

SECTION("sizes") { sizes<<<1, 1>>>(device_memory), tell("are there", 7); }
SECTION("memory of each thread") {
  uint32_t** kept;
  CHECK(cudaMalloc(&kept, 1024 * sizeof *kept));
  auto* const to = reinterpret_cast<unsigned long long*>(device_memory);
  for (const int words : {1, 7, 300, 1000}) {
    allocate<<<4, 256>>>(kept, words), CHECK(cudaDeviceSynchronize());
    look<<<4, 256>>>(kept, words, to), tell("wrong of " + std::to_string(words), 3);
  }
}
SECTION("again and again") {
  again_and_again<<<2, 64>>>(reinterpret_cast<unsigned long long*>(device_memory)), tell("wrong", 2);
}
SECTION("lists") { lists<<<1, 32>>>(device_memory), tell("sums", 32); }
SECTION("a larger heap") {
  set_limit(40 * MiB);
  for (const size_t size : {65536, 1 << 20}) {
    exhaust<<<1, 1>>>(device_memory, size);
    tell("in pieces of " + std::to_string(size), 2);
  }
}
SECTION("sizes of the heap") {
  for (const size_t size : {size_t(0), size_t(1), 4 * MiB, 10 * MiB + 1, size_t(1) << 30}) set_limit(size);
}
SECTION("a heap of nothing") { set_limit(0), is_there<<<1, 1>>>(device_memory), tell("is there", 1); }
SECTION("another size once kernels have allocated") {
  is_there<<<1, 1>>>(device_memory), tell("is there", 1), set_limit(16 * MiB), set_limit(8 * MiB);
  cudaGetLastError();
  exhaust<<<1, 1>>>(device_memory, 65536);
  std::printf("more than 8 MiB: %d\n", found()[0] > 8 * MiB);
}
SECTION("another size once such a kernel is loaded") {
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, is_there)), set_limit(16 * MiB);
}
SECTION("another size after a reset") {
  is_there<<<1, 1>>>(device_memory), tell("is there", 1), CHECK(cudaDeviceReset());
  tell_limit("limit"), set_limit(16 * MiB);
}
SECTION("later kernels") {
  const uint64_t p = kept();
  use<<<1, 1>>>(reinterpret_cast<char*>(p), device_memory), tell("sum", 1);
  give_back<<<1, 1>>>(reinterpret_cast<void*>(p)), say("free", cudaDeviceSynchronize());
}
SECTION("calls with an address of the heap") {
  static char host[4096];
  const auto p = reinterpret_cast<void*>(kept());
  say("cudaMemcpy to the host", cudaMemcpy(host, p, 16, cudaMemcpyDeviceToHost)), cudaGetLastError();
  say("cudaMemcpy from the host", cudaMemcpy(p, host, 16, cudaMemcpyHostToDevice)), cudaGetLastError();
  say("cudaMemcpy on the GPU", cudaMemcpy(device_memory, p, 16, cudaMemcpyDeviceToDevice)), cudaGetLastError();
  say("cudaMemcpy to it on the GPU", cudaMemcpy(p, device_memory, 16, cudaMemcpyDeviceToDevice));
  cudaGetLastError();
  say("cudaMemcpy, either way", cudaMemcpy(host, p, 16, cudaMemcpyDefault)), cudaGetLastError();
  say("cudaMemcpyAsync", cudaMemcpyAsync(host, p, 16, cudaMemcpyDeviceToHost)), cudaGetLastError();
  say("cudaMemset", cudaMemset(p, 7, 16)), cudaGetLastError();
  load<<<1, 1>>>(static_cast<const char*>(p), device_memory), tell("byte", 1);
  say("cudaFree", cudaFree(p)), cudaGetLastError();
  say("cuMemcpyDtoH", cuMemcpyDtoH(host, CUdeviceptr(p), 16));
  say("cuMemsetD8", cuMemsetD8(CUdeviceptr(p), 0, 16));
  cudaPointerAttributes attributes = {};
  say("cudaPointerGetAttributes", cudaPointerGetAttributes(&attributes, p));
  std::printf("type %d, device %d, its pointers %d %d\n", attributes.type, attributes.device,
              attributes.devicePointer == p, attributes.hostPointer == p);
  CUmemorytype type;
  say("cuPointerGetAttribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CUdeviceptr(p)));
  CUdeviceptr base;
  size_t size;
  say("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, CUdeviceptr(p)));
  say("synchronize", cudaDeviceSynchronize());
}
SECTION("free of what is no memory of the heap") {
  give_back<<<1, 1>>>(nullptr), say("null", cudaDeviceSynchronize());
  give_back<<<1, 1>>>(device_memory), say("of cudaMalloc", cudaDeviceSynchronize());
}
SECTION("free twice") {
  const auto p = reinterpret_cast<void*>(kept());
  give_back<<<1, 1>>>(p), say("first", cudaDeviceSynchronize());
  give_back<<<1, 1>>>(p), say("second", cudaDeviceSynchronize());
}
SECTION("use after free") {
  const auto p = reinterpret_cast<char*>(kept());
  give_back<<<1, 1>>>(p), store<<<1, 1>>>(p), say("store", cudaDeviceSynchronize());
}
SECTION("after a reset") {
  const auto p = reinterpret_cast<char*>(kept());
  CHECK(cudaDeviceReset()), store<<<1, 1>>>(p), say("store", cudaDeviceSynchronize());
}

static void set_up() {
  alarm(30);
  CHECK(cudaSetDevice(0)), CHECK(cudaMalloc(&device_memory, most * 8)), CHECK(cudaMemset(device_memory, 0, most * 8));
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
