// SPDX-License-Identifier: MIT-0
// Variables that are __managed__: of the program, of modules and of libraries.
#include "conformance.h"

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

int main() {
  check::require_gpus(1);
  variables();
  variables_of_module();
}
