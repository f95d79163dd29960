// SPDX-License-Identifier: MIT-0
// What the programs driver_*.cc share: a process in which there is one of everything, and questions about it.
#pragma once
#include "conformance.h"

#include <cstring>

#include "waiting.h"

// Kernels as PTX text: one that does nothing, one with parameters, one of limited block size, one with shared memory.
inline constexpr char ptx[] = R"(.version 7.0
.target sm_75
.address_size 64
.visible .global .align 8 .b8 table[24];
.visible .const .align 4 .u32 constant = 5;
.visible .entry nothing() { ret; }
.visible .entry store(.param .u64 where, .param .u32 value) {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where]; ld.param.u32 %r1, [value]; cvta.to.global.u64 %rd2, %rd1; st.global.u32 [%rd2], %r1; ret;
}
.visible .entry waiting(.param .u64 flag) {
  .reg .b64 %rd<3>; .reg .b32 %r<2>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [flag]; cvta.to.global.u64 %rd2, %rd1;
again: ld.volatile.global.u32 %r1, [%rd2]; setp.eq.u32 %p1, %r1, 0; @%p1 bra again; ret;
}
.visible .entry limited() .maxntid 64, 1, 1 { ret; }
.visible .entry sharing() {
  .shared .align 4 .b8 room[40000];
  .reg .b32 %r<2>;
  mov.u32 %r1, 1; st.shared.u32 [room], %r1; ret;
}
)";
inline constexpr char other_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry other() { ret; }\n";
inline constexpr char wrong_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry wrong() { ret;\n";
inline constexpr char late_ptx[] = ".version 7.0\n.target sm_999\n.address_size 64\n.visible .entry late() { ret; }\n";

// What every question finds.
inline CUdevice gpu;
inline CUcontext context;
inline CUdeviceptr memory, memory_async, mapping, hole;  // 4 MiB each; the hole follows the mapping
inline CUmemGenericAllocationHandle handle;
inline CUmemAllocationProp good;
inline CUmemAccessDesc open_to_all;
inline char* host;
inline CUdeviceptr managed;
inline char pageable[4096];
inline CUstream stream;
inline CUevent event, untimed, never;
inline CUmodule module, spare;
inline CUfunction nothing, store, waiting, limited, sharing;
inline CUlibrary library;
inline CUkernel kernel;
inline CUmemoryPool pool, own_pool;

// Places for answers.
inline int number;
inline unsigned word;
inline size_t size;
inline float milliseconds;
inline void* pointer;
inline CUdeviceptr address;
inline CUdevice a_device;
inline CUuuid uuid;
inline CUcontext a_context;
inline CUstream a_stream;
inline CUevent an_event;
inline CUmodule a_module;
inline CUfunction a_function;
inline CUlibrary a_library;
inline CUkernel a_kernel;
inline CUmemoryPool a_pool;
inline CUmemGenericAllocationHandle a_handle;
inline CUipcMemHandle ipc;
inline CUmemFabricHandle fabric;

inline void set_up() {
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&gpu, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, gpu));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory, 4 * MiB));
  good = on_gpu(gpu, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  open_to_all = access_of(gpu);
  mapping = reserve(16 * MiB);
  hole = mapping + 4 * MiB;
  handle = create(4 * MiB, gpu, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(cuMemMap(mapping, 4 * MiB, 0, handle, 0));
  CHECK(cuMemSetAccess(mapping, 4 * MiB, &open_to_all, 1));
  CHECK(cuMemAllocHost((void**)&host, 4096));
  std::memset(host, 0, 4096);
  CHECK(cuMemAllocManaged(&managed, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&event, 0));
  CHECK(cuEventRecord(event, stream));
  CHECK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
  CHECK(cuEventRecord(untimed, stream));
  CHECK(cuEventCreate(&never, 0));
  CHECK(cuMemAllocAsync(&memory_async, 4 * MiB, stream));
  CHECK(cuStreamSynchronize(stream));
  CHECK(cuDeviceGetDefaultMemPool(&pool, gpu));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = good.location;
  CHECK(cuMemPoolCreate(&own_pool, &properties));
  CHECK(cuModuleLoadData(&module, ptx));
  CHECK(cuModuleGetFunction(&nothing, module, "nothing"));
  CHECK(cuModuleGetFunction(&store, module, "store"));
  CHECK(cuModuleLoadData(&spare, other_ptx));
  CHECK(cuModuleGetFunction(&waiting, module, "waiting"));
  CHECK(cuModuleGetFunction(&limited, module, "limited"));
  CHECK(cuModuleGetFunction(&sharing, module, "sharing"));
  CHECK(cuLibraryLoadData(&library, other_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(cuLibraryGetKernel(&kernel, library, "other"));
}

// The address of what is there during a call.
template <class Value> Value* temporary(Value&& value) { return &value; }

// An answer with a value: "CUDA_SUCCESS, 7".
inline std::string shown(CUresult result, long long value) {
  return std::string(check::name(result)) + (result == CUDA_SUCCESS ? ", " + std::to_string(value) : "");
}
inline std::string plain(CUresult result) { return check::name(result); }
inline std::string both(CUresult a, CUresult b) { return plain(a) + ", then " + plain(b); }
// What a call answers while a kernel waits for the host in `stream`, and whether it comes back before the kernel goes
// on.
inline std::string while_a_kernel_waits(CUresult (*call)()) {
  CUdeviceptr flag = CUdeviceptr(host);
  void* arguments[] = {&flag};
  CHECK(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  CUresult result;
  const bool waited = waits_for(reinterpret_cast<volatile unsigned*>(host), [&] { result = call(); });
  return plain(result) + (waited ? ", waits for it" : ", at once") + ", then " + plain(cuCtxSynchronize());
}

struct Question {
  std::string what;
  std::string (*answer)();
};
#define ASK(what, ...) {what, [] { return std::string(__VA_ARGS__); }}
#define VALUE(what, value, ...)              \
  {what, [] {                                \
     const CUresult result = __VA_ARGS__;    \
     return shown(result, (long long)value); \
   }}
#define ALONE(what, ...)                                    \
  {what, [] {                                               \
     CHECK(cuCtxSetCurrent(nullptr));                       \
     const CUresult result = __VA_ARGS__;                   \
     return CHECK(cuCtxSetCurrent(context)), plain(result); \
   }}
#define CALL(what, ...) {what, [] { return plain(__VA_ARGS__); }}

inline void ask(const Question& question) {
  std::printf("%s: ", question.what.c_str());
  std::fflush(stdout);
  std::printf("%s\n", question.answer().c_str());
  std::fflush(stdout);
}

// Says the tables, asks the questions in one process, which goes on behind a crash, and the endings in one for each.
template <size_t count, size_t last>
int ask_all(void (*tables)(), const Question (&questions)[count], const Question (&endings)[last], int argc,
            char** argv) {
  const std::string part = argc > 1 ? argv[1] : "";
  if (!part.empty()) set_up();
  if (part == "tables") return tables(), 0;
  if (part == "ending") return ask(endings[atoi(argv[2])]), 0;
  for (size_t number = argc > 2 ? atoi(argv[2]) : count; number < count; ++number) ask(questions[number]);
  if (!part.empty()) return 0;
  check::require_gpus(1);
  say("end", run_again("tables"));
  ask_through_crashes("questions");
  for (size_t number = 0; number < last; ++number)
    if (const std::string end = run_again("ending", std::to_string(number)); end != "exit 0") say("", end);
  std::printf("OK\n");
  return 0;
}
