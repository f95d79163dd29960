// SPDX-License-Identifier: MIT-0
// Managed memory: variables that are __managed__, what the driver tells of ranges, and to which stream memory belongs.
#include "facts.h"

#include <cstdint>
#include <string>

__managed__ int counter = 41;
__managed__ int table[1000] = {1, 2, 3};
__managed__ int* pointer;
__device__ __managed__ char text[5] = "text";
__device__ int ordinary = 5;

__global__ void add_to_all() {
  ++counter;
  table[threadIdx.x] += *pointer + text[0];
  ordinary = counter;
}

// --- Variables ------------------------------------------------------------------------------------------------------
static void say_pointer(const std::string& what, const void* at) {
  cudaPointerAttributes found = {};
  if (say(what, cudaPointerGetAttributes(&found, at)) != cudaSuccess) return;
  say("  type, device", std::to_string(found.type) + ", " + std::to_string(found.device));
  say("  for the device", found.devicePointer == at ? "the same" : found.devicePointer ? "another" : "none");
  say("  for the host", found.hostPointer == at ? "the same" : found.hostPointer ? "another" : "none");
  CUdeviceptr base = 0;
  size_t size = 0;
  say("  range", cuMemGetAddressRange(&base, &size, CUdeviceptr(at)));
  say("  begins before it, and has", std::to_string(CUdeviceptr(at) - base) + ", " + std::to_string(size));
}

static void variables() {
  section("managed variables");
  say("before any call", std::to_string(counter) + " " + std::to_string(table[1]) + " " + (pointer ? "set" : "null"));
  counter += 10;
  pointer = table + 2;
  add_to_all<<<1, 32>>>();
  say("a kernel that uses them", cudaDeviceSynchronize());
  say("after it", std::to_string(counter) + " " + std::to_string(table[1]) + " " + std::to_string(table[999]));
  say_pointer("the variable's address", &counter);
  say_pointer("an element's address", &table[100]);
  void* symbol = nullptr;
  say("cudaGetSymbolAddress", cudaGetSymbolAddress(&symbol, counter));
  say("  is", symbol == &counter ? "the same" : "another");
  size_t size = 0;
  say("cudaGetSymbolSize", cudaGetSymbolSize(&size, table));
  say("  is", std::to_string(size));
  int value = 7;
  say("cudaMemcpyToSymbol", cudaMemcpyToSymbol(counter, &value, sizeof value));
  say("  the host reads", std::to_string(counter));
  counter = 8;
  say("cudaMemcpyFromSymbol", cudaMemcpyFromSymbol(&value, counter, sizeof value));
  say("  it reads", std::to_string(value));
  say("cudaMemAdvise of one", cudaMemAdvise(table, sizeof table, cudaMemAdviseSetReadMostly, {cudaMemLocationTypeDevice, 0}));
}

static void variables_of_module() {
  section("managed variables of a module");
  constexpr const char* code = R"(
.version 7.0
.target sm_75
.address_size 64
.visible .global .attribute(.managed) .align 4 .u32 shared_with_host = 5;
.visible .global .align 4 .u32 of_device = 6;
.visible .entry add() {
  .reg .u32 %r;
  ld.global.u32 %r, [shared_with_host];
  add.u32 %r, %r, 1;
  st.global.u32 [shared_with_host], %r;
  ret;
}
)";
  CUmodule module;
  if (say("cuModuleLoadData", cuModuleLoadData(&module, code)) != CUDA_SUCCESS) return;
  CUdeviceptr address = 0;
  size_t size = 0;
  say("cuModuleGetGlobal", cuModuleGetGlobal(&address, &size, module, "shared_with_host"));
  say("  bytes", std::to_string(size));
  say_pointer("its address", reinterpret_cast<void*>(address));
  auto* const number = reinterpret_cast<volatile int*>(address);
  say("the host reads", std::to_string(*number));
  CUfunction add;
  CHECK(cuModuleGetFunction(&add, module, "add"));
  say("launch", cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
  CHECK(cudaDeviceSynchronize());
  say("the host reads", std::to_string(*number));
  say("cuModuleUnload", cuModuleUnload(module));
  CUlibrary library;
  CHECK(cuLibraryLoadData(&library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  say("cuLibraryGetManaged", cuLibraryGetManaged(&address, &size, library, "shared_with_host"));
  say("  bytes", std::to_string(size));
  say("  the host reads", std::to_string(*reinterpret_cast<volatile int*>(address)));
  say("cuLibraryGetManaged of another", cuLibraryGetManaged(&address, &size, library, "of_device"));
  say("cuLibraryGetGlobal", cuLibraryGetGlobal(&address, &size, library, "shared_with_host"));
  say("cuLibraryUnload", cuLibraryUnload(library));
}

// --- What was advised ------------------------------------------------------------------------------------------------
static void say_attribute(const std::string& what, cudaMemRangeAttribute attribute, const void* at, size_t size,
                          size_t bytes = 4) {
  int found[4] = {77, 77, 77, 77};
  if (say(what, cudaMemRangeGetAttribute(found, bytes, attribute, at, size)) != cudaSuccess) return;
  std::string all;
  for (size_t k = 0; k < bytes / 4; ++k) all += " " + std::to_string(found[k]);
  say("  it is", all);
}
static void say_attributes(const std::string& when, const void* at, size_t size) {
  section(when.c_str());
  say_attribute("read mostly", cudaMemRangeAttributeReadMostly, at, size);
  say_attribute("preferred location", cudaMemRangeAttributePreferredLocation, at, size);
  say_attribute("accessed by, 1", cudaMemRangeAttributeAccessedBy, at, size, 4);
  say_attribute("accessed by, 3", cudaMemRangeAttributeAccessedBy, at, size, 12);
  say_attribute("last prefetch", cudaMemRangeAttributeLastPrefetchLocation, at, size);
  say_attribute("preferred type", cudaMemRangeAttributePreferredLocationType, at, size);
  say_attribute("preferred id", cudaMemRangeAttributePreferredLocationId, at, size);
  say_attribute("last prefetch type", cudaMemRangeAttributeLastPrefetchLocationType, at, size);
  say_attribute("last prefetch id", cudaMemRangeAttributeLastPrefetchLocationId, at, size);
}

static void advice() {
  constexpr size_t size = 4 * MiB;
  const cudaMemLocation gpu = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  char *memory, *of_device;
  CHECK(cudaMallocManaged(&memory, size)), CHECK(cudaMalloc(&of_device, size));
  say_attributes("nothing advised", memory, size);
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseSetReadMostly, gpu));
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseSetPreferredLocation, gpu));
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseSetAccessedBy, gpu));
  CHECK(cudaMemPrefetchAsync(memory, size, gpu, 0, nullptr)), CHECK(cudaDeviceSynchronize());
  say_attributes("advised for the GPU, and prefetched", memory, size);
  say_attributes("a part of it", memory + 100, 1000);
  CHECK(cudaMemAdvise(memory, size / 2, cudaMemAdviseUnsetReadMostly, gpu));
  CHECK(cudaMemAdvise(memory, size / 2, cudaMemAdviseSetPreferredLocation, host));
  CHECK(cudaMemAdvise(memory, size / 2, cudaMemAdviseSetAccessedBy, host));
  CHECK(cudaMemPrefetchAsync(memory, size / 2, host, 0, nullptr)), CHECK(cudaDeviceSynchronize());
  say_attributes("half of it advised for the host", memory, size / 2);
  say_attributes("the whole, half and half", memory, size);
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseUnsetReadMostly, gpu));
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseUnsetPreferredLocation, gpu));
  CHECK(cudaMemAdvise(memory, size, cudaMemAdviseUnsetAccessedBy, gpu));
  say_attributes("taken back for the GPU", memory, size);
  section("attributes refused");
  say_attribute("of 8 bytes", cudaMemRangeAttributeReadMostly, memory, size, 8);
  say_attribute("of 0 bytes", cudaMemRangeAttributeAccessedBy, memory, size, 0);
  say_attribute("of 6 bytes", cudaMemRangeAttributeAccessedBy, memory, size, 6);
  say_attribute("of no bytes of memory", cudaMemRangeAttributeReadMostly, memory, 0);
  say_attribute("past the end", cudaMemRangeAttributeReadMostly, memory + size - 4, 8);
  say_attribute("of ordinary memory", cudaMemRangeAttributeReadMostly, of_device, size);
  say_attribute("of a variable", cudaMemRangeAttributeReadMostly, table, sizeof table);
  say_attribute("unknown", cudaMemRangeAttribute(99), memory, size);
  int one = 77, two = 77;
  void* both[] = {&one, &two};
  size_t bytes[] = {4, 4};
  cudaMemRangeAttribute asked[] = {cudaMemRangeAttributeReadMostly, cudaMemRangeAttributeLastPrefetchLocation};
  say("two at once", cudaMemRangeGetAttributes(both, bytes, asked, 2, memory, size));
  say("  they are", std::to_string(one) + ", " + std::to_string(two));
  say("none at once", cudaMemRangeGetAttributes(both, bytes, asked, 0, memory, size));
  CHECK(cudaFree(memory)), CHECK(cudaFree(of_device));
}

// --- Memory that belongs to a stream ---------------------------------------------------------------------------------
// Each in a process of its own: on hardware, one of them ends it.
template <class Attach> static void say_attached(const char* what, Attach attach) {
  std::fflush(stdout);
  if (fork() == 0) {
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    say(what, attach(stream));
    std::fflush(stdout);
    say("  wait", cudaStreamSynchronize(stream));
    std::fflush(stdout);
    _exit(0);
  }
  int status;
  wait(&status);
  if (!WIFEXITED(status)) say(what, "the process ends by a signal");
}

static void attachments() {
  section("memory of a stream");
  constexpr size_t size = MiB;
  static char pageable[64];
  const auto managed = [](unsigned flags = cudaMemAttachGlobal) {
    char* address;
    CHECK(cudaMallocManaged(&address, size, flags));
    return address;
  };
  using Stream = cudaStream_t;
  say_attached("single, length 0", [&](Stream s) { return cudaStreamAttachMemAsync(s, managed()); });
  say_attached("single, whole", [&](Stream s) { return cudaStreamAttachMemAsync(s, managed(), size); });
  say_attached("single, a part", [&](Stream s) { return cudaStreamAttachMemAsync(s, managed(), size / 2); });
  say_attached("single, its middle", [&](Stream s) { return cudaStreamAttachMemAsync(s, managed() + 64); });
  for (const unsigned flags : {0u, 1u, 2u, 3u, 8u})
    say_attached(("flags " + std::to_string(flags)).c_str(),
                 [&](Stream s) { return cudaStreamAttachMemAsync(s, managed(), 0, flags); });
  say_attached("single, the default stream", [&](Stream) { return cudaStreamAttachMemAsync(nullptr, managed()); });
  say_attached("global, the default stream",
               [&](Stream) { return cudaStreamAttachMemAsync(nullptr, managed(), 0, cudaMemAttachGlobal); });
  say_attached("single, memory for the host",
               [&](Stream s) { return cudaStreamAttachMemAsync(s, managed(cudaMemAttachHost)); });
  say_attached("single, a variable", [&](Stream s) { return cudaStreamAttachMemAsync(s, table); });
  say_attached("single, pinned memory", [&](Stream s) {
    char* pinned;
    CHECK(cudaMallocHost(&pinned, size));
    return cudaStreamAttachMemAsync(s, pinned);
  });
  say_attached("single, ordinary memory", [&](Stream s) {
    char* ordinary;
    CHECK(cudaMalloc(&ordinary, size));
    return cudaStreamAttachMemAsync(s, ordinary);
  });
  say_attached("single, pageable memory", [&](Stream s) { return cudaStreamAttachMemAsync(s, pageable); });
  say_attached("single, pageable memory with its size",
               [&](Stream s) { return cudaStreamAttachMemAsync(s, pageable, sizeof pageable); });
  say_attached("single, null", [&](Stream s) { return cudaStreamAttachMemAsync(s, static_cast<char*>(nullptr)); });
}

int main() {
  attachments();  // before this process has a GPU, which no child could use
  check::require_gpus(1);
  variables();
  variables_of_module();
  advice();
}
