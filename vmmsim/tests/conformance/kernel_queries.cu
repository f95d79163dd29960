// SPDX-License-Identifier: MIT-0
// Queries of kernels: without a handle, before and after cuInit; how much dynamic shared memory blocks leave to each
// other; and from which byte on a load behind a block's shared memory faults.
#include "conformance.h"

#include <vector>

__global__ void plain(int n, const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}
__global__ void with_shared(int* y) {
  __shared__ int all[1000];
  all[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = all[0];
}
__global__ void load(int* to, int at) {
  extern __shared__ int shared[];
  int value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(unsigned(__cvta_generic_to_shared(shared)) + at));
  *to = value;
}
__global__ void load_behind_28(int* to, int at) {
  __shared__ int shared[7];
  shared[threadIdx.x] = 3;
  int value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(unsigned(__cvta_generic_to_shared(shared)) + at));
  *to = value;
}

static void ask_of_no_handle(const char* when) {
  const std::string at = std::string(" of no handle, ") + when;
  const char* name;
  size_t offset, size;
  int value;
  CUmodule module;
  CUfunction function;
  CUlibrary library;
  say("cuKernelGetName" + at, cuKernelGetName(&name, nullptr));
  say("cuFuncGetName" + at, cuFuncGetName(&name, nullptr));
  say("cuFuncGetModule" + at, cuFuncGetModule(&module, nullptr));
  say("cuKernelGetFunction" + at, cuKernelGetFunction(&function, nullptr));
  say("cuKernelGetLibrary" + at, cuKernelGetLibrary(&library, nullptr));
  say("cuKernelGetParamInfo" + at, cuKernelGetParamInfo(nullptr, 0, &offset, &size));
  say("cuFuncGetParamInfo" + at, cuFuncGetParamInfo(nullptr, 0, &offset, &size));
  say("cuKernelGetAttribute" + at, cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, 0));
  say("cuFuncGetAttribute" + at, cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr));
  say("cuLibraryUnload" + at, cuLibraryUnload(nullptr));
  say("cuModuleUnload" + at, cuModuleUnload(nullptr));
}

SECTION("no handles") {
  ask_of_no_handle("before cuInit");
  CHECK(cuInit(0));
  ask_of_no_handle("after cuInit");
  CHECK(cudaSetDevice(0));
  ask_of_no_handle("with a context");
}

SECTION("shared memory that is left") {
  CHECK(cudaSetDevice(0));
  const int shapes[][2] = {{0, 32},  {1, 32},   {4, 32},  {2, 64},  {2, 96},  {3, 120}, {2, 128},
                           {1, 256}, {1, 1024}, {8, 128}, {16, 64}, {32, 32}, {33, 32}};
  for (const int limit : {0, 100'000, 232'448}) {
    if (limit) {
      const auto raised = cudaFuncAttributeMaxDynamicSharedMemorySize;
      say("plain may have " + std::to_string(limit), cudaFuncSetAttribute(plain, raised, limit));
      say("with_shared may have 4096 less", cudaFuncSetAttribute(with_shared, raised, limit - 4096));
    }
    for (const auto& [blocks, threads] : shapes) {
      size_t one = 1, two = 1;
      const std::string shape = std::to_string(blocks) + " blocks of " + std::to_string(threads);
      const cudaError_t first = cudaOccupancyAvailableDynamicSMemPerBlock(&one, plain, blocks, threads);
      const cudaError_t second = cudaOccupancyAvailableDynamicSMemPerBlock(&two, with_shared, blocks, threads);
      say(shape + ", plain", std::to_string(one) + " " + cudaGetErrorName(first));
      say(shape + ", with_shared", std::to_string(two) + " " + cudaGetErrorName(second));
    }
  }
}

static bool faults(bool behind_28, int bytes, int at) {
  const pid_t child = fork();
  if (child == 0) {
    int* to;
    if (cudaMalloc(&to, sizeof *to)) _exit(2);
    if (behind_28) load_behind_28<<<1, 1, bytes>>>(to, at);
    else load<<<1, 1, bytes>>>(to, at);
    _exit(cudaDeviceSynchronize() != cudaSuccess);
  }
  int status = 0;
  EXPECT(child > 0 && waitpid(child, &status, 0) == child, "no child process");
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) != 2, "the child did not ask");
  return WEXITSTATUS(status) == 1;
}

SECTION("the end of shared memory") {
  for (const int bytes : {0, 4, 28, 100, 128, 1000, 1024, 1028}) {
    std::string told;
    for (const int at : {0, 16, 28, 100, 124, 128, 252, 256, 1020, 1024, 1148, 1152, 2048, 65536})
      if (faults(false, bytes, at)) told += " " + std::to_string(at);
    say("a load faults behind " + std::to_string(bytes) + " dynamic bytes at", told.empty() ? " nowhere" : told);
  }
  std::string told;
  for (const int at : {0, 24, 28, 124, 128, 1020, 1024, 65536})
    if (faults(true, 0, at)) told += " " + std::to_string(at);
  say("a load faults behind 28 static bytes at", told.empty() ? " nowhere" : told);
}

int main(int argc, char** argv) {
  // The first asks before cuInit, and the last forks before it: each section is a process of its own.
  return run_sections(argc, argv);
}
