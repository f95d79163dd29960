// SPDX-License-Identifier: MIT-0
// Kernels whose threads have much local memory: what is refused when it is loaded, and what when it is launched. A GPU
// takes it for all the threads that it can have at once: from 384 to 511 KiB an H100 of 80 GiB refuses the launch with
// OUT_OF_MEMORY, which is not asked here, as a GPU with more memory need not.
#include "conformance.h"

static std::string code(unsigned long bytes) {
  return R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry fill(.param .u64 where, .param .u32 index) {
  .local .align 4 .b8 room[)" +
         std::to_string(bytes) + R"(];
  .reg .b64 %rd<5>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [where]; ld.param.u32 %r1, [index];
  cvta.to.global.u64 %rd2, %rd1; mul.wide.u32 %rd3, %r1, 4; mov.u64 %rd4, room; add.s64 %rd4, %rd4, %rd3;
  st.local.u32 [%rd4], %r1; ld.local.u32 %r2, [room+4]; st.global.u32 [%rd2], %r2; ret;
}
)";
}

static void ask(const std::string& size, unsigned long bytes) {
  section(size.c_str());
  CUmodule module;
  CUfunction function;
  CUdeviceptr where;
  int local = 0;
  if (say("load", cuModuleLoadData(&module, code(bytes).c_str()))) return;
  if (say("find", cuModuleGetFunction(&function, module, "fill"))) return;
  CHECK(cuFuncGetAttribute(&local, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function));
  say("local bytes of a thread, at least these", local >= int(bytes) ? "yes" : "no");
  CHECK(cuMemAlloc(&where, 4));
  unsigned index = 1, value = 0;
  void* arguments[] = {&where, &index};
  say("launch", cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr));
  say("wait", cuCtxSynchronize());
  say("copy", cuMemcpyDtoH(&value, where, 4));
  say("value", std::to_string(value));
  CHECK(cuMemFree(where));
  CHECK(cuModuleUnload(module));
}

int main() {
  alarm(60);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  check::require_gpus(1);
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  constexpr unsigned long KiB = 1024;
  ask("16 KiB", 16 * KiB);
  ask("128 KiB", 128 * KiB);
  ask("256 KiB", 256 * KiB);
  ask("512 KiB", 512 * KiB);
  ask("513 KiB", 513 * KiB);
  ask("16 MiB", 16 * MiB);
  std::puts("OK");
}
