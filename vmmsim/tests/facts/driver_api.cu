// SPDX-License-Identifier: MIT-0
// Unusual driver calls and their answers: contexts, devices, ordinary memory, pools, pointers, streams, events,
// modules, libraries and launches; and VMM calls with two things wrong at once.
#include "facts.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

// Kernels as PTX text: one that does nothing, one with parameters, one of limited block size, one with shared memory.
static const char ptx[] = R"(.version 7.0
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
static const char other_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry other() { ret; }\n";
static const char wrong_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry wrong() { ret;\n";
static const char late_ptx[] = ".version 7.0\n.target sm_999\n.address_size 64\n.visible .entry late() { ret; }\n";

// What every question finds.
static CUdevice gpu;
static CUcontext context;
static CUdeviceptr memory, memory_async, mapping,
    hole;  // 4 MiB each but for memory_async; the hole follows the mapping
static CUmemGenericAllocationHandle handle;
static CUmemAllocationProp good;
static CUmemAccessDesc open_to_all;
static char* host;
static CUdeviceptr managed;
static char pageable[4096];
static CUstream stream;
static CUevent event, untimed, never;
static CUmodule module, spare;
static CUfunction nothing, store, waiting, limited, sharing;
static CUlibrary library;
static CUkernel kernel;
static CUmemoryPool pool, own_pool;

// Places for answers.
static int number;
static unsigned word;
static size_t size;
static float milliseconds;
static void* pointer;
static CUdeviceptr address;
static CUdevice a_device;
static CUuuid uuid;
static CUcontext a_context;
static CUstream a_stream;
static CUevent an_event;
static CUmodule a_module;
static CUfunction a_function;
static CUlibrary a_library;
static CUkernel a_kernel;
static CUmemoryPool a_pool;
static CUmemGenericAllocationHandle a_handle;
static CUipcMemHandle ipc;
static CUmemFabricHandle fabric;

static void set_up() {
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

// An answer with a value: "CUDA_SUCCESS, 7".
static std::string shown(CUresult result, long long value) {
  return std::string(check::name(result)) + (result == CUDA_SUCCESS ? ", " + std::to_string(value) : "");
}
static std::string plain(CUresult result) { return check::name(result); }
static std::string both(CUresult a, CUresult b) { return plain(a) + ", then " + plain(b); }

static std::string function_attribute(CUfunction_attribute what, CUfunction function) {
  int value = 0;
  const CUresult result = cuFuncGetAttribute(&value, what, function);
  return shown(result, value);
}
static std::string pointer_attribute(CUpointer_attribute what, CUdeviceptr pointer, CUdeviceptr base) {
  unsigned long long value = 0;
  const CUresult result = cuPointerGetAttribute(&value, what, pointer);
  if (result == CUDA_SUCCESS && value >= base && value < base + 16 * MiB)
    return plain(result) + ", " + std::to_string(value - base) + " bytes into it";
  if (what == CU_POINTER_ATTRIBUTE_CONTEXT || what == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE ||
      what == CU_POINTER_ATTRIBUTE_BUFFER_ID || what == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
    return plain(result) + (result ? "" : value ? ", something" : ", nothing");
  return shown(result, int(value));
}
static std::string launch(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_y,
                          unsigned block_z, unsigned shared = 0, CUstream where = nullptr, void** arguments = nullptr) {
  const CUresult result =
      cuLaunchKernel(function, grid_x, grid_y, 1, block_x, block_y, block_z, shared, where, arguments, nullptr);
  return result ? plain(result) : both(result, cuCtxSynchronize());
}
static std::string blocks(CUfunction function, int size, size_t shared) {
  int count = 0;
  const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&count, function, size, shared);
  return shown(result, count);
}
static std::string pool_attribute(CUmemoryPool which, CUmemPool_attribute what) {
  CHECK(cuCtxSynchronize());
  cuuint64_t value = 0;
  const CUresult result = cuMemPoolGetAttribute(which, what, &value);
  return shown(result, what <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? int(value) : (long long)value);
}
static std::string fill_2d(size_t pitch, size_t width, size_t height) {
  return plain(cuMemsetD2D8(memory, pitch, 1, width, height));
}
static std::string limit(CUlimit what) {
  size_t value = 0;
  const CUresult result = cuCtxGetLimit(&value, what);
  return shown(result, (long long)value);
}
static std::string procedure(const char* name, int version) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result = cuGetProcAddress(name, &address, version, 0, &status);
  return plain(result) + ", " + (address ? "an address" : "null") + ", status " + std::to_string(int(status));
}
static std::string load(const void* image) {
  CUmodule loaded;
  return plain(cuModuleLoadData(&loaded, image));
}
// What a call answers while a kernel waits for the host in `stream`, and whether it comes back before the kernel goes
// on.
static std::string while_a_kernel_waits(CUresult (*call)()) {
  static std::atomic<bool> let_go(false);
  CUdeviceptr flag = CUdeviceptr(host);
  void* arguments[] = {&flag};
  CHECK(cuLaunchKernel(waiting, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  std::thread timer([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // far longer than any call takes by itself
    let_go = true;
    *reinterpret_cast<volatile unsigned*>(host) = 1;
  });
  const CUresult result = call();
  const bool waited = let_go;
  timer.join();
  return plain(result) + (waited ? ", waits for it" : ", at once") + ", then " + plain(cuCtxSynchronize());
}
static void CUDA_CB count_up(void* counter) { ++*static_cast<int*>(counter); }

// Attributes that differ from machine to machine, and those of what is not simulated, which a simulated GPU denies.
static bool is_left_out(int attribute) {
  constexpr int differ[] = {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID,
                            CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID,
                            CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
                            CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID,
                            CU_DEVICE_ATTRIBUTE_NUMA_ID,
                            CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                            CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
                            139,
                            CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID};
  constexpr int missing[] = {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
                             CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
                             CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH,
                             CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
                             CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED};
  for (int other : differ)
    if (attribute == other) return true;
  for (int other : missing)
    if (attribute == other) return true;
  return false;
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

static const Question questions[] = {
    // Devices.
    CALL("cuInit, flags 1", cuInit(1)),
    CALL("cuDeviceGet of -1", cuDeviceGet(&a_device, -1)),
    CALL("cuDeviceGet of 99", cuDeviceGet(&a_device, 99)),
    ASK("cuDeviceGetName, length 4",
        [] {
          const CUresult r = cuDeviceGetName(pageable, 4, gpu);
          return plain(r) + ", " + pageable;
        }()),
    CALL("cuDeviceGetName of GPU 99", cuDeviceGetName(pageable, 10, 99)),
    CALL("cuDeviceGetUuid of GPU 99", cuDeviceGetUuid(&uuid, 99)),
    CALL("cuDeviceTotalMem of GPU 99", cuDeviceTotalMem(&size, 99)),
    CALL("attribute of GPU 99", cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 99)),
    CALL("attribute 0", cuDeviceGetAttribute(&number, CUdevice_attribute(0), gpu)),
    CALL("attribute 9999", cuDeviceGetAttribute(&number, CUdevice_attribute(9999), gpu)),
    CALL("attribute 9999 of GPU 99", cuDeviceGetAttribute(&number, CUdevice_attribute(9999), 99)),
    VALUE("can a GPU reach itself", number, cuDeviceCanAccessPeer(&number, gpu, gpu)),
    CALL("can a GPU reach GPU 99", cuDeviceCanAccessPeer(&number, gpu, 99)),
    CALL("peer attribute with itself",
         cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, gpu, gpu)),
    CALL("peer attribute with GPU 99",
         cuDeviceGetP2PAttribute(&number, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, gpu, 99)),
    CALL("cuDeviceGetPCIBusId, length 0", cuDeviceGetPCIBusId(pageable, 0, gpu)),
    CALL("cuDeviceGetPCIBusId, length 5", cuDeviceGetPCIBusId(pageable, 5, gpu)),
    CALL("cuDeviceGetByPCIBusId of nonsense", cuDeviceGetByPCIBusId(&a_device, "nonsense")),
    ASK("cuDeviceGetByPCIBusId of its own",
        [] {
          CUdevice d = -1;
          CHECK(cuDeviceGetPCIBusId(pageable, 99, gpu));
          const CUresult r = cuDeviceGetByPCIBusId(&d, pageable);
          return shown(r, d);
        }()),
    ASK("name of error 4711",
        [] {
          const char* s = "x";
          const CUresult r = cuGetErrorName(CUresult(4711), &s);
          return plain(r) + (s ? ", a text" : ", null");
        }()),
    ASK("text of error 999",
        [] {
          const char* s;
          CHECK(cuGetErrorString(CUDA_ERROR_UNKNOWN, &s));
          return s;
        }()),
    ASK("text of error 202",
        [] {
          const char* s;
          CHECK(cuGetErrorString(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, &s));
          return s;
        }()),
    ASK("text of error 701",
        [] {
          const char* s;
          CHECK(cuGetErrorString(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, &s));
          return s;
        }()),
    ASK("text of error 709",
        [] {
          const char* s;
          CHECK(cuGetErrorString(CUDA_ERROR_CONTEXT_IS_DESTROYED, &s));
          return s;
        }()),
    ASK("text of error 916",
        [] {
          const char* s = "none";
          cuGetErrorString(CUDA_ERROR_KEY_ROTATION, &s);
          return s ? s : "null";
        }()),
    ASK("address of cuMemCreate", procedure("cuMemCreate", 13000)),
    ASK("address of cuMemAlloc", procedure("cuMemAlloc", 13000)),
    ASK("address of cuNonsense", procedure("cuNonsense", 13000)),
    ASK("address of malloc", procedure("malloc", 13000)),
    ASK("address of nothing", procedure("", 13000)),
    VALUE("affinity support", number, cuDeviceGetExecAffinitySupport(&number, CU_EXEC_AFFINITY_TYPE_SM_COUNT, gpu)),
    // Contexts.
    CALL("set the null context",
         [] {
           const CUresult r = cuCtxSetCurrent(nullptr);
           CHECK(cuCtxSetCurrent(context));
           return r;
         }()),
    CALL("push the null context", cuCtxPushCurrent(nullptr)),
    CALL("destroy the null context", cuCtxDestroy(nullptr)),
    CALL("destroy the primary context", cuCtxDestroy(context)),
    ASK("pop twice",
        [] {
          CUcontext c;
          const CUresult first = cuCtxPopCurrent(&c), second = cuCtxPopCurrent(&c);
          CHECK(cuCtxSetCurrent(context));
          return both(first, second);
        }()),
    ASK("pop to null",
        [] {
          const CUresult r = cuCtxPopCurrent(nullptr);
          CHECK(cuCtxSetCurrent(context));
          return plain(r);
        }()),
    ALONE("device without a context", cuCtxGetDevice(&a_device)),
    ALONE("synchronize without a context", cuCtxSynchronize()),
    ALONE("allocate without a context", cuMemAlloc(&address, 8)),
    ALONE("allocate 0 bytes without a context", cuMemAlloc(&address, 0)),
    CALL("free without a context",
         [] {
           CUdeviceptr p;
           CHECK(cuMemAlloc(&p, 8));
           CHECK(cuCtxSetCurrent(nullptr));
           const CUresult r = cuMemFree(p);
           CHECK(cuCtxSetCurrent(context));
           return r;
         }()),
    ALONE("load a module without a context", cuModuleLoadData(&a_module, ptx)),
    ALONE("load a library without a context",
          cuLibraryLoadData(&a_library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0)),
    ALONE("create a stream without a context", cuStreamCreate(&a_stream, 0)),
    ALONE("synchronize a stream without a context", cuStreamSynchronize(stream)),
    ALONE("query an event without a context", cuEventQuery(event)),
    ALONE("launch without a context", cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr)),
    ASK("pointer attribute without a context",
        [] {
          CHECK(cuCtxSetCurrent(nullptr));
          int n = -1;
          const CUresult r = cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory);
          CHECK(cuCtxSetCurrent(context));
          return shown(r, n);
        }()),
    CALL("primary context of GPU 99", cuDevicePrimaryCtxRetain(&a_context, 99)),
    CALL("primary context, flags 0x1000", cuDevicePrimaryCtxSetFlags(gpu, 0x1000)),
    CALL("primary context, two schedules", cuDevicePrimaryCtxSetFlags(gpu, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD)),
    CALL("primary context, flags while active", cuDevicePrimaryCtxSetFlags(gpu, CU_CTX_SCHED_SPIN)),
    CALL("create a context, flags 0x1000", cuCtxCreate(&a_context, nullptr, 0x1000, gpu)),
    CALL("create a context on GPU 99", cuCtxCreate(&a_context, nullptr, 0, 99)),
    ASK("create a context, destroy it, synchronize the first",
        [] {
          CUcontext c;
          CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
          const CUresult first = cuCtxDestroy(c);
          CHECK(cuCtxSetCurrent(context));
          return both(first, cuCtxSynchronize());
        }()),
    CALL("free another context's memory",
         [] {
           CUcontext c;
           CUdeviceptr p;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           CHECK(cuMemAlloc(&p, 8));
           CHECK(cuCtxSetCurrent(context));
           return cuMemFree(p);
         }()),
    CALL("launch in another context's stream",
         [] {
           CUcontext c;
           CUstream s;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           CHECK(cuStreamCreate(&s, 0));
           CHECK(cuCtxSetCurrent(context));
           return cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr);
         }()),
    CALL("launch another context's function",
         [] {
           CUcontext c;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           const CUresult r = cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
           CHECK(cuCtxSetCurrent(context));
           return r;
         }()),
    CALL("record another context's event",
         [] {
           CUcontext c;
           CUevent e;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           CHECK(cuEventCreate(&e, 0));
           CHECK(cuCtxSetCurrent(context));
           return cuEventRecord(e, stream);
         }()),
    CALL("wait for another context's event",
         [] {
           CUcontext c;
           CUevent e;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           CHECK(cuEventCreate(&e, 0));
           CHECK(cuEventRecord(e, nullptr));
           CHECK(cuCtxSetCurrent(context));
           return cuStreamWaitEvent(stream, e, 0);
         }()),
    ASK("limit: stack", limit(CU_LIMIT_STACK_SIZE)),
    ASK("limit: printf", limit(CU_LIMIT_PRINTF_FIFO_SIZE)),
    ASK("limit: heap", limit(CU_LIMIT_MALLOC_HEAP_SIZE)),
    ASK("limit: depth", limit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH)),
    ASK("limit: launches", limit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT)),
    ASK("limit: granularity of L2 fetches", limit(CU_LIMIT_MAX_L2_FETCH_GRANULARITY)),
    ASK("limit: persisting L2", limit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE)),
    ASK("limit 99", limit(CUlimit(99))),
    CALL("limit: stack of 2^40", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, size_t(1) << 40)),
    CALL("limit 99 to 1", cuCtxSetLimit(CUlimit(99), 1)),
    ASK("stream priorities",
        [] {
          int least = 9, greatest = 9;
          CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
          return std::to_string(least) + " to " + std::to_string(greatest);
        }()),
    VALUE("version of the context", word, cuCtxGetApiVersion(context, &word)),
    VALUE("flags of the context", word, cuCtxGetFlags(&word)),
    CALL("enable peer access to itself", cuCtxEnablePeerAccess(context, 0)),
    CALL("enable peer access, flags 1", cuCtxEnablePeerAccess(context, 1)),
    CALL("enable peer access to the null context", cuCtxEnablePeerAccess(nullptr, 0)),
    CALL("disable peer access to itself", cuCtxDisablePeerAccess(context)),
    // Ordinary memory.
    CALL("cuMemAlloc of 0 bytes", cuMemAlloc(&address, 0)),
    CALL("cuMemAlloc of 2^60 bytes", cuMemAlloc(&address, size_t(1) << 60)),
    CALL("cuMemAlloc of 2^64 - 1 bytes", cuMemAlloc(&address, ~size_t(0))),
    CALL("cuMemFree 1 byte in", cuMemFree(memory + 1)),
    CALL("cuMemFree of a host pointer", cuMemFree(CUdeviceptr(pageable))),
    CALL("cuMemFree of cuMemAllocHost's memory", cuMemFree(CUdeviceptr(host))),
    ASK("cuMemFree twice",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAlloc(&p, 8 * MiB));
          const CUresult r = cuMemFree(p);
          return both(r, cuMemFree(p));
        }()),
    CALL("cuMemFree of cuMemAllocAsync's memory",
         [] {
           CUdeviceptr p;
           CHECK(cuMemAllocAsync(&p, 8, stream));
           return cuMemFree(p);
         }()),
    CALL("cuMemFree of managed memory",
         [] {
           CUdeviceptr p;
           CHECK(cuMemAllocManaged(&p, 8, CU_MEM_ATTACH_GLOBAL));
           return cuMemFree(p);
         }()),
    ASK("alignment of cuMemAlloc of 1 byte",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAlloc(&p, 1));
          return p % 512 ? "less than 512" : "512";
        }()),
    ASK("size of cuMemAlloc of 1 byte",
        [] {
          CUdeviceptr p, base;
          size_t size;
          CHECK(cuMemAlloc(&p, 1));
          CHECK(cuMemGetAddressRange(&base, &size, p));
          return std::to_string(size);
        }()),
    ASK("size of cuMemAlloc of 3 MiB",
        [] {
          CUdeviceptr p, base;
          size_t size;
          CHECK(cuMemAlloc(&p, 3 * MiB));
          CHECK(cuMemGetAddressRange(&base, &size, p));
          return std::to_string(size);
        }()),
    CALL("address range of host memory", cuMemGetAddressRange(nullptr, nullptr, CUdeviceptr(host))),
    CALL("address range of managed memory", cuMemGetAddressRange(nullptr, nullptr, managed)),
    CALL("address range of cuMemAllocAsync's memory", cuMemGetAddressRange(nullptr, nullptr, memory_async)),
    CALL("cuMemAllocPitch, element 3", cuMemAllocPitch(&address, &size, 100, 10, 3)),
    CALL("cuMemAllocPitch, width 0", cuMemAllocPitch(&address, &size, 0, 10, 4)),
    CALL("cuMemAllocPitch, height 0", cuMemAllocPitch(&address, &size, 100, 0, 4)),
    VALUE("pitch of rows of 100 bytes", size, cuMemAllocPitch(&address, &size, 100, 10, 4)),
    CALL("cuMemAllocHost of 0 bytes", cuMemAllocHost(&pointer, 0)),
    CALL("cuMemHostAlloc, flags 0x80", cuMemHostAlloc(&pointer, 8, 0x80)),
    CALL("cuMemFreeHost of null", cuMemFreeHost(nullptr)),
    CALL("cuMemFreeHost 1 byte in", cuMemFreeHost(host + 1)),
    CALL("cuMemFreeHost of a host variable", cuMemFreeHost(pageable)),
    CALL("cuMemFreeHost of device memory", cuMemFreeHost((void*)memory)),
    ASK("device pointer of host memory",
        [] {
          CUdeviceptr p = 0;
          const CUresult r = cuMemHostGetDevicePointer(&p, host + 8, 0);
          return plain(r) + (p == CUdeviceptr(host + 8) ? ", the same" : ", another");
        }()),
    CALL("device pointer of host memory, flags 1", cuMemHostGetDevicePointer(&address, host, 1)),
    CALL("device pointer of a host variable", cuMemHostGetDevicePointer(&address, pageable, 0)),
    VALUE("flags of host memory", word, cuMemHostGetFlags(&word, host)),
    CALL("flags of a host variable", cuMemHostGetFlags(&word, pageable)),
    CALL("cuMemAllocManaged of 0 bytes", cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL)),
    CALL("cuMemAllocManaged, flags 0", cuMemAllocManaged(&address, 8, 0)),
    CALL("cuMemAllocManaged, flags 3", cuMemAllocManaged(&address, 8, 3)),
    CALL("prefetch ordinary memory", cuMemPrefetchAsync(memory, 4096, good.location, 0, stream)),
    CALL("prefetch managed memory", cuMemPrefetchAsync(managed, 4096, good.location, 0, stream)),
    CALL("advise ordinary memory", cuMemAdvise(memory, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, good.location)),
    CALL("advise managed memory", cuMemAdvise(managed, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, good.location)),
    CALL("IPC handle of cuMemAlloc's memory", cuIpcGetMemHandle(&ipc, memory)),
    CALL("IPC handle 1 byte in", cuIpcGetMemHandle(&ipc, memory + 1)),
    CALL("IPC handle of cuMemAllocAsync's memory", cuIpcGetMemHandle(&ipc, memory_async)),
    CALL("IPC handle of host memory", cuIpcGetMemHandle(&ipc, CUdeviceptr(host))),
    CALL("IPC handle of managed memory", cuIpcGetMemHandle(&ipc, managed)),
    CALL("IPC handle of null", cuIpcGetMemHandle(&ipc, 0)),
    CALL("open an IPC handle of zeros",
         [] {
           CUipcMemHandle h = {};
           CUdeviceptr p;
           return cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
         }()),
    CALL("open one's own IPC handle",
         [] {
           CUipcMemHandle h;
           CUdeviceptr p;
           CHECK(cuIpcGetMemHandle(&h, memory));
           return cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
         }()),
    CALL("open an IPC handle, flags 0",
         [] {
           CUipcMemHandle h;
           CUdeviceptr p;
           CHECK(cuIpcGetMemHandle(&h, memory));
           return cuIpcOpenMemHandle(&p, h, 0);
         }()),
    CALL("close IPC memory that is none", cuIpcCloseMemHandle(memory)),
    // Copies and memsets.
    CALL("copy 0 bytes from null to null", cuMemcpy(0, 0, 0)),
    CALL("copy from null", cuMemcpy(memory, 0, 8)),
    CALL("copy between host variables", cuMemcpy(CUdeviceptr(pageable), CUdeviceptr(pageable + 100), 8)),
    CALL("copy HtoD to a host variable", cuMemcpyHtoD(CUdeviceptr(pageable), pageable + 100, 8)),
    CALL("copy HtoD from device memory", cuMemcpyHtoD(memory, (void*)(memory + 4096), 8)),
    CALL("copy HtoD from null", cuMemcpyHtoD(memory, nullptr, 8)),
    CALL("copy HtoD to host memory", cuMemcpyHtoD(CUdeviceptr(host), pageable, 8)),
    CALL("copy DtoH from a host variable", cuMemcpyDtoH(pageable, CUdeviceptr(pageable + 100), 8)),
    CALL("copy DtoH to device memory", cuMemcpyDtoH((void*)memory, memory + 4096, 8)),
    CALL("copy DtoD from a host variable", cuMemcpyDtoD(memory, CUdeviceptr(pageable), 8)),
    CALL("copy DtoD from host memory", cuMemcpyDtoD(memory, CUdeviceptr(host), 8)),
    CALL("copy past the end of 4 MiB", cuMemcpyDtoH(pageable, memory + 4 * MiB - 4, 8)),
    CALL("copy 1 byte past a small allocation",
         [] {
           CUdeviceptr p;
           CHECK(cuMemAlloc(&p, 1));
           return cuMemcpyDtoH(pageable, p, 2);
         }()),
    CALL("copy in the legacy stream", cuMemcpyHtoDAsync(memory, pageable, 8, CU_STREAM_LEGACY)),
    CALL("copy in the per-thread stream", cuMemcpyHtoDAsync(memory, pageable, 8, CU_STREAM_PER_THREAD)),
    CALL("copy to a peer, null contexts", cuMemcpyPeer(memory, nullptr, memory + 4096, nullptr, 8)),
    CALL("copy to a peer that is itself", cuMemcpyPeer(memory, context, memory + 4096, context, 8)),
    CALL("2D copy of nothing asked", cuMemcpy2D(nullptr)),
    CALL("2D copy, no types",
         [] {
           CUDA_MEMCPY2D c = {};
           return cuMemcpy2D(&c);
         }()),
    CALL("2D copy, no types, 8 x 8",
         [] {
           CUDA_MEMCPY2D c = {};
           c.WidthInBytes = c.Height = 8;
           return cuMemcpy2D(&c);
         }()),
    CALL("2D copy, pitch smaller than a row",
         [] {
           CUDA_MEMCPY2D c = {};
           c.srcMemoryType = CU_MEMORYTYPE_HOST;
           c.srcHost = pageable;
           c.srcPitch = 4;
           c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
           c.dstDevice = memory;
           c.dstPitch = 8;
           c.WidthInBytes = c.Height = 8;
           return cuMemcpy2D(&c);
         }()),
    CALL("2D copy",
         [] {
           CUDA_MEMCPY2D c = {};
           c.srcMemoryType = CU_MEMORYTYPE_HOST;
           c.srcHost = pageable;
           c.srcPitch = 16;
           c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
           c.dstDevice = memory;
           c.dstPitch = 512;
           c.WidthInBytes = c.Height = 8;
           return cuMemcpy2D(&c);
         }()),
    CALL("memset of a host variable", cuMemsetD8(CUdeviceptr(pageable), 1, 8)),
    CALL("memset of host memory", cuMemsetD8(CUdeviceptr(host), 1, 8)),
    CALL("memset of managed memory", cuMemsetD8(managed, 1, 8)),
    CALL("memset past the end", cuMemsetD8(memory + 4 * MiB - 4, 1, 8)),
    CALL("memset of 2^62 words", cuMemsetD32(memory, 1, size_t(1) << 62)),
    ASK("2D memset", fill_2d(512, 100, 10)),
    ASK("2D memset, pitch smaller than a row", fill_2d(50, 100, 10)),
    ASK("2D memset, pitch smaller than a row, one row", fill_2d(50, 100, 1)),
    ASK("2D memset, no rows", fill_2d(512, 100, 0)),
    ASK("2D memset past the end", fill_2d(MiB, 100, 6)),
    // Pools.
    CALL("cuMemAllocAsync of 0 bytes", cuMemAllocAsync(&address, 0, stream)),
    CALL("cuMemAllocAsync of 2^60 bytes", cuMemAllocAsync(&address, size_t(1) << 60, stream)),
    CALL("cuMemFreeAsync of null", cuMemFreeAsync(0, stream)),
    CALL("cuMemFreeAsync of cuMemAlloc's memory",
         [] {
           CUdeviceptr p;
           CHECK(cuMemAlloc(&p, 8));
           return cuMemFreeAsync(p, stream);
         }()),
    CALL("cuMemFreeAsync of a mapping", cuMemFreeAsync(mapping, stream)),
    CALL("cuMemFreeAsync 1 byte in", cuMemFreeAsync(memory_async + 1, stream)),
    ASK("cuMemFreeAsync twice",
        [] {
          CUdeviceptr p;
          CHECK(cuMemAllocAsync(&p, 8, stream));
          const CUresult r = cuMemFreeAsync(p, stream);
          return both(r, cuMemFreeAsync(p, stream));
        }()),
    CALL("allocate from the null pool", cuMemAllocFromPoolAsync(&address, 8, nullptr, stream)),
    CALL("allocate from its own pool", cuMemAllocFromPoolAsync(&address, 8, own_pool, stream)),
    CALL("destroy the default pool", cuMemPoolDestroy(pool)),
    CALL("destroy the null pool", cuMemPoolDestroy(nullptr)),
    CALL("trim the null pool", cuMemPoolTrimTo(nullptr, 0)),
    CALL("trim the default pool", cuMemPoolTrimTo(pool, 0)),
    CALL("use the null pool", cuDeviceSetMemPool(gpu, nullptr)),
    CALL("use its own pool, on GPU 99", cuDeviceSetMemPool(99, own_pool)),
    CALL("default pool of GPU 99", cuDeviceGetDefaultMemPool(&a_pool, 99)),
    ASK("pool in use",
        [] {
          CUmemoryPool p;
          CHECK(cuDeviceGetMemPool(&p, gpu));
          return p == pool ? "the default" : "another";
        }()),
    ASK("follow event dependencies", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES)),
    ASK("opportunistic reuse", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC)),
    ASK("internal dependencies", pool_attribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES)),
    ASK("release threshold", pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)),
    ASK("used in the default pool", pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)),
    ASK("used in an empty pool", pool_attribute(own_pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)),
    ASK("pool attribute 99", pool_attribute(pool, CUmemPool_attribute(99))),
    CALL("set what is used",
         [] {
           cuuint64_t n = 5;
           return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &n);
         }()),
    CALL("set the most used to 0",
         [] {
           cuuint64_t n = 0;
           return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &n);
         }()),
    CALL("set the most used to 5",
         [] {
           cuuint64_t n = 5;
           return cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &n);
         }()),
    CALL("pool of no properties",
         [] {
           CUmemPoolProps p = {};
           CUmemoryPool made;
           return cuMemPoolCreate(&made, &p);
         }()),
    CALL("pool on GPU 99",
         [] {
           CUmemPoolProps p = {};
           p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
           p.location = good.location;
           p.location.id = 99;
           CUmemoryPool made;
           return cuMemPoolCreate(&made, &p);
         }()),
    // Streams and events.
    CALL("cuStreamCreate, flags 2", cuStreamCreate(&a_stream, 2)),
    ASK("priority of a stream made with -99",
        [] {
          CUstream s;
          int n = 9;
          CHECK(cuStreamCreateWithPriority(&s, 0, -99));
          const CUresult r = cuStreamGetPriority(s, &n);
          return shown(r, n);
        }()),
    ASK("priority of a stream made with 99",
        [] {
          CUstream s;
          int n = 9;
          CHECK(cuStreamCreateWithPriority(&s, 0, 99));
          const CUresult r = cuStreamGetPriority(s, &n);
          return shown(r, n);
        }()),
    VALUE("flags of the null stream", word, cuStreamGetFlags(nullptr, &word)),
    VALUE("flags of a non-blocking stream", word, cuStreamGetFlags(stream, &word)),
    CALL("context of the null stream", cuStreamGetCtx(nullptr, &a_context)),
    CALL("destroy the null stream", cuStreamDestroy(nullptr)),
    CALL("destroy the legacy stream", cuStreamDestroy(CU_STREAM_LEGACY)),
    CALL("destroy the per-thread stream", cuStreamDestroy(CU_STREAM_PER_THREAD)),
    CALL("query an idle stream", (CHECK(cuCtxSynchronize()), cuStreamQuery(stream))),
    CALL("query the null stream", (CHECK(cuCtxSynchronize()), cuStreamQuery(nullptr))),
    CALL("wait for a null event", cuStreamWaitEvent(stream, nullptr, 0)),
    CALL("wait for an event never recorded", cuStreamWaitEvent(stream, never, 0)),
    CALL("wait for an event, flags 2", cuStreamWaitEvent(stream, event, 2)),
    CALL("cuEventCreate, flags 8", cuEventCreate(&an_event, 8)),
    CALL("cuEventCreate, interprocess with timing", cuEventCreate(&an_event, CU_EVENT_INTERPROCESS)),
    CALL("record a null event", cuEventRecord(nullptr, stream)),
    CALL("record an event, flags 2", cuEventRecordWithFlags(event, stream, 2)),
    CALL("query a null event", cuEventQuery(nullptr)),
    CALL("query an event never recorded", cuEventQuery(never)),
    CALL("synchronize an event never recorded", cuEventSynchronize(never)),
    CALL("destroy a null event", cuEventDestroy(nullptr)),
    CALL("time between an event and itself", cuEventElapsedTime(&milliseconds, event, event)),
    CALL("time since an event never recorded", cuEventElapsedTime(&milliseconds, never, event)),
    CALL("time to an event never recorded", cuEventElapsedTime(&milliseconds, event, never)),
    CALL("time to an event without timing", cuEventElapsedTime(&milliseconds, event, untimed)),
    CALL("time to an event without timing, never recorded", cuEventElapsedTime(&milliseconds, never, untimed)),
    CALL("time to a null event", cuEventElapsedTime(&milliseconds, event, nullptr)),
    CALL("time to null", cuEventElapsedTime(nullptr, event, event)),
    CALL("null host function", cuLaunchHostFunc(stream, nullptr, nullptr)),
    ASK("host functions in two streams",
        [] {
          static int n = 0;
          CHECK(cuLaunchHostFunc(stream, count_up, &n));
          CHECK(cuStreamSynchronize(stream));
          CHECK(cuLaunchHostFunc(nullptr, count_up, &n));
          CHECK(cuCtxSynchronize());
          return std::to_string(n);
        }()),
    CALL("write a value to an odd address", cuStreamWriteValue32(stream, memory + 1, 1, 0)),
    CALL("write a value to a host variable", cuStreamWriteValue32(stream, CUdeviceptr(pageable), 1, 0)),
    CALL("write a value, flags 8", cuStreamWriteValue32(stream, memory, 1, 8)),
    ASK("write a value, wait for it",
        [] {
          CHECK(cuStreamWriteValue32(stream, memory, 7, 0));
          const CUresult r = cuStreamWaitValue32(stream, memory, 7, CU_STREAM_WAIT_VALUE_EQ);
          return both(r, cuStreamSynchronize(stream));
        }()),
    // Modules, libraries, launches.
    ASK("load nonsense", load("nonsense, nonsense")),
    ASK("load wrong PTX", load(wrong_ptx)),
    ASK("load PTX for a later GPU", load(late_ptx)),
    ASK("load an ELF that is none", load("\177ELF nonsense")),
    CALL("load a file that is not there", cuModuleLoad(&a_module, "/nonexistent")),
    CALL("load a file of null name", cuModuleLoad(&a_module, nullptr)),
    CALL("a function that is not there", cuModuleGetFunction(&a_function, module, "absent")),
    CALL("a function of null name", cuModuleGetFunction(&a_function, module, nullptr)),
    CALL("a function of the null module", cuModuleGetFunction(&a_function, nullptr, "nothing")),
    CALL("a function that is a variable", cuModuleGetFunction(&a_function, module, "table")),
    VALUE("functions of the module", word, cuModuleGetFunctionCount(&word, module)),
    VALUE("a variable", size, cuModuleGetGlobal(&address, &size, module, "table")),
    VALUE("a constant", size, cuModuleGetGlobal(&address, &size, module, "constant")),
    ASK("the constant's value",
        [] {
          CUdeviceptr p;
          int n = 0;
          CHECK(cuModuleGetGlobal(&p, nullptr, module, "constant"));
          const CUresult r = cuMemcpyDtoH(&n, p, 4);
          return shown(r, n);
        }()),
    CALL("a variable that is not there", cuModuleGetGlobal(&address, nullptr, module, "absent")),
    CALL("a variable to null", cuModuleGetGlobal(nullptr, nullptr, module, "table")),
    CALL("memory type of a variable",
         [] {
           CUdeviceptr p;
           unsigned n;
           CHECK(cuModuleGetGlobal(&p, nullptr, module, "table"));
           return cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
         }()),
    CALL("unload the null module", cuModuleUnload(nullptr)),
    CALL("load a null library", cuLibraryLoadData(&a_library, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0)),
    CALL("a kernel that is not there", cuLibraryGetKernel(&a_kernel, library, "absent")),
    CALL("a kernel of the null library", cuLibraryGetKernel(&a_kernel, nullptr, "other")),
    VALUE("kernels of the library", word, cuLibraryGetKernelCount(&word, library)),
    CALL("the library's module", cuLibraryGetModule(&a_module, library)),
    CALL("unload the library's module",
         [] {
           CUmodule m;
           CHECK(cuLibraryGetModule(&m, library));
           return cuModuleUnload(m);
         }()),
    CALL("a variable of the library that is not there", cuLibraryGetGlobal(&address, nullptr, library, "absent")),
    CALL("unload the null library", cuLibraryUnload(nullptr)),
    ASK("name of the kernel",
        [] {
          const char* s = "";
          const CUresult r = cuKernelGetName(&s, kernel);
          return plain(r) + ", " + s;
        }()),
    ASK("name of the function",
        [] {
          const char* s = "";
          const CUresult r = cuFuncGetName(&s, store);
          return plain(r) + ", " + s;
        }()),
    ASK("launch a kernel as a function", launch(CUfunction(kernel), 1, 1, 1, 1, 1)),
    ASK("first parameter",
        [] {
          size_t at = 9, n = 9;
          const CUresult r = cuFuncGetParamInfo(store, 0, &at, &n);
          return shown(r, at) + " of " + std::to_string(n);
        }()),
    ASK("second parameter",
        [] {
          size_t at = 9, n = 9;
          const CUresult r = cuFuncGetParamInfo(store, 1, &at, &n);
          return shown(r, at) + " of " + std::to_string(n);
        }()),
    CALL("third parameter", cuFuncGetParamInfo(store, 2, &size, nullptr)),
    ASK("threads of limited", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, limited)),
    ASK("threads of nothing", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nothing)),
    ASK("shared memory of sharing", function_attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, sharing)),
    ASK("dynamic shared memory of nothing",
        function_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, nothing)),
    ASK("dynamic shared memory of sharing",
        function_attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, sharing)),
    ASK("local memory of nothing", function_attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, nothing)),
    ASK("constant memory of nothing", function_attribute(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, nothing)),
    ASK("PTX version of nothing", function_attribute(CU_FUNC_ATTRIBUTE_PTX_VERSION, nothing)),
    ASK("binary version of nothing", function_attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION, nothing)),
    ASK("carveout of nothing", function_attribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, nothing)),
    ASK("attribute 99 of nothing", function_attribute(CUfunction_attribute(99), nothing)),
    ASK("threads of the null function", function_attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nullptr)),
    CALL("set 227 KiB dynamic", cuFuncSetAttribute(waiting, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)),
    CALL("set 227 KiB and 1 byte dynamic",
         cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449)),
    CALL("set 227 KiB dynamic beside static",
         cuFuncSetAttribute(sharing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448)),
    CALL("set -1 dynamic", cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1)),
    CALL("set the threads", cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 64)),
    CALL("set a carveout of 101 per cent",
         cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101)),
    ASK("launch", launch(nothing, 1, 1, 1, 1, 1)),
    ASK("launch the null function", launch(nullptr, 1, 1, 1, 1, 1)),
    ASK("launch no blocks", launch(nothing, 0, 1, 1, 1, 1)),
    ASK("launch blocks of no threads", launch(nothing, 1, 1, 0, 1, 1)),
    ASK("launch 1025 threads a block", launch(nothing, 1, 1, 1025, 1, 1)),
    ASK("launch 32 x 33 threads a block", launch(nothing, 1, 1, 32, 33, 1)),
    ASK("launch 65 layers a block", launch(nothing, 1, 1, 1, 1, 65)),
    ASK("launch 65536 rows of blocks", launch(nothing, 1, 65536, 1, 1, 1)),
    ASK("launch 65 threads of limited", launch(limited, 1, 1, 65, 1, 1)),
    ASK("launch 64 threads of limited", launch(limited, 1, 1, 64, 1, 1)),
    ASK("launch with 48 KiB dynamic", launch(nothing, 1, 1, 1, 1, 1, 49152)),
    ASK("launch with 48 KiB and 1 byte dynamic", launch(nothing, 1, 1, 1, 1, 1, 49153)),
    ASK("launch with 10 KiB dynamic beside 40000 bytes", launch(sharing, 1, 1, 1, 1, 1, 10240)),
    ASK("launch with 9 KB dynamic beside 40000 bytes", launch(sharing, 1, 1, 1, 1, 1, 9000)),
    ASK("launch with 64 KiB dynamic, allowed",
        [] {
          CHECK(cuFuncSetAttribute(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536));
          return launch(nothing, 1, 1, 1, 1, 1, 65536);
        }()),
    ASK("launch without the parameters", launch(store, 1, 1, 1, 1, 1)),
    ASK("launch with parameters",
        [] {
          unsigned value = 3;
          void* arguments[] = {&memory, &value};
          return launch(store, 1, 1, 1, 1, 1, 0, stream, arguments);
        }()),
    ASK("launch with packed parameters",
        [] {
          struct {
            CUdeviceptr where;
            unsigned value;
          } packed = {memory, 4};
          size_t size = 12;
          int result = 0;
          void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                           CU_LAUNCH_PARAM_END};
          const CUresult r = cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
          CHECK(cuMemcpyDtoH(&result, memory, 4));
          return shown(r, result);
        }()),
    ASK("launch with too few packed parameters",
        [] {
          struct {
            CUdeviceptr where;
            unsigned value;
          } packed = {memory, 4};
          size_t size = 8;
          void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                           CU_LAUNCH_PARAM_END};
          return plain(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
        }()),
    ASK("launch with parameters twice",
        [] {
          unsigned value = 3;
          void* arguments[] = {&memory, &value};
          void* extra[] = {CU_LAUNCH_PARAM_END};
          return plain(cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, extra));
        }()),
    CALL("launch cooperatively", cuLaunchCooperativeKernel(nothing, 132, 1, 1, 32, 1, 1, 0, nullptr, nullptr)),
    CALL("launch too many blocks cooperatively",
         cuLaunchCooperativeKernel(nothing, 1000000, 1, 1, 32, 1, 1, 0, nullptr, nullptr)),
    CALL("launch by a null configuration", cuLaunchKernelEx(nullptr, nothing, nullptr, nullptr)),
    ASK("blocks of 128 threads", blocks(nothing, 128, 0)),
    ASK("blocks of 1024 threads", blocks(nothing, 1024, 0)),
    ASK("blocks of 1025 threads", blocks(nothing, 1025, 0)),
    ASK("blocks of 0 threads", blocks(nothing, 0, 0)),
    ASK("blocks of 32 threads with 48 KiB", blocks(nothing, 32, 49152)),
    ASK("blocks of 32 threads beside 40000 bytes", blocks(sharing, 32, 0)),
    // VMM, with two things wrong at once.
    CALL("create: bad size, bad flags", cuMemCreate(&a_handle, 5, &good, 1)),
    CALL("create: bad size, GPU 99",
         [] {
           CUmemGenericAllocationHandle h;
           CUmemAllocationProp p = on_gpu(99);
           return cuMemCreate(&h, 5, &p, 0);
         }()),
    CALL("create: good size, GPU 99",
         [] {
           CUmemGenericAllocationHandle h;
           CUmemAllocationProp p = on_gpu(99);
           return cuMemCreate(&h, page, &p, 0);
         }()),
    CALL("create: fabric and a bad size",
         [] {
           CUmemGenericAllocationHandle h;
           CUmemAllocationProp p = on_gpu(gpu, CU_MEM_HANDLE_TYPE_FABRIC);
           return cuMemCreate(&h, 5, &p, 0);
         }()),
    CALL("create: too much, bad flags", cuMemCreate(&a_handle, size_t(1) << 50, &good, 1)),
    CALL("create: too much", cuMemCreate(&a_handle, size_t(1) << 50, &good, 0)),
    CALL("map: offset over a mapping", cuMemMap(mapping, 4 * MiB, page, handle, 0)),
    CALL("map: half the size over a mapping", cuMemMap(mapping, page, 0, handle, 0)),
    CALL("map: half the size, bad address", cuMemMap(hole + 1, page, 0, handle, 0)),
    CALL("set access: bad size, count 0", cuMemSetAccess(mapping, 5, &open_to_all, 0)),
    CALL("set access: null descriptors, a hole", cuMemSetAccess(hole, page, nullptr, 1)),
    CALL("export: bad handle, bad type",
         cuMemExportToShareableHandle(&number, 12345, CUmemAllocationHandleType(77), 0)),
    CALL("export: bad flags, other type", cuMemExportToShareableHandle(&fabric, handle, CU_MEM_HANDLE_TYPE_FABRIC, 1)),
    CALL("granularity: option 9", cuMemGetAllocationGranularity(&size, &good, CUmemAllocationGranularity_flags(9))),
    CALL("granularity: option 9, GPU 99",
         [] {
           size_t n;
           CUmemAllocationProp p = on_gpu(99);
           return cuMemGetAllocationGranularity(&n, &p, CUmemAllocationGranularity_flags(9));
         }()),
};

// Questions that end the context: each has a process of its own.
static const Question endings[] = {
    CALL("release the primary context too often",
         [] {
           CHECK(cuDevicePrimaryCtxRelease(gpu));
           return cuDevicePrimaryCtxRelease(gpu);
         }()),
    CALL("synchronize after the primary context's release",
         [] {
           CHECK(cuDevicePrimaryCtxRelease(gpu));
           return cuCtxSynchronize();
         }()),
    ASK("is the released primary context active",
        [] {
          unsigned f;
          int active = -1;
          CHECK(cuDevicePrimaryCtxRelease(gpu));
          const CUresult r = cuDevicePrimaryCtxGetState(gpu, &f, &active);
          return shown(r, active);
        }()),
    VALUE("is the retained primary context active", number, cuDevicePrimaryCtxGetState(gpu, &word, &number)),
    CALL("synchronize after the primary context's reset",
         [] {
           CHECK(cuDevicePrimaryCtxReset(gpu));
           return cuCtxSynchronize();
         }()),
    CALL("free after the primary context's reset",
         [] {
           CHECK(cuDevicePrimaryCtxReset(gpu));
           return cuMemFree(memory);
         }()),
    CALL("unmap after the primary context's reset",
         [] {
           CHECK(cuDevicePrimaryCtxReset(gpu));
           return cuMemUnmap(mapping, 4 * MiB);
         }()),
    CALL("release a handle after the primary context's reset",
         [] {
           CHECK(cuDevicePrimaryCtxReset(gpu));
           return cuMemRelease(handle);
         }()),
    ASK("retain after the reset, allocate",
        [] {
          CHECK(cuDevicePrimaryCtxReset(gpu));
          CUcontext c;
          CUdeviceptr p;
          const CUresult r = cuDevicePrimaryCtxRetain(&c, gpu);
          return plain(r) + (c == context ? ", the same" : ", another") + ", then " + plain(cuMemAlloc(&p, 8));
        }()),
    CALL("unload a module, launch its function's neighbour",
         [] {
           CHECK(cuModuleUnload(module));
           return cuCtxSynchronize();
         }()),
    ASK("unload a library, its kernel's name is gone", [] { return plain(cuLibraryUnload(library)); }()),
    ASK("cuMemAlloc's memory and a destroyed context",
        [] {
          CUcontext c;
          CUdeviceptr p;
          CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
          CHECK(cuMemAlloc(&p, 64 * MiB));
          const size_t before = free_bytes();
          CHECK(cuCtxDestroy(c));
          CHECK(cuCtxSetCurrent(context));
          return free_bytes() >= before + 64 * MiB ? "given back" : "kept";
        }()),
    ASK("a mapping and a destroyed context",
        [] {
          CUcontext c;
          CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
          const CUdeviceptr p = reserve(4 * MiB);
          map_new(p, 4 * MiB);
          CHECK(cuCtxDestroy(c));
          CHECK(cuCtxSetCurrent(context));
          return plain(cuMemUnmap(p, 4 * MiB));
        }()),
    ASK("kernel waits, cuMemUnmap elsewhere", while_a_kernel_waits([] { return cuMemUnmap(mapping, 4 * MiB); })),
    ASK("kernel waits, cuMemCreate", while_a_kernel_waits([] {
          CUmemGenericAllocationHandle h;
          return cuMemCreate(&h, page, &good, 0);
        })),
    ASK("kernel waits, cuMemMap", while_a_kernel_waits([] { return cuMemMap(hole, 4 * MiB, 0, handle, 0); })),
    ASK("kernel waits, cuMemSetAccess",
        while_a_kernel_waits([] { return cuMemSetAccess(mapping, 4 * MiB, &open_to_all, 1); })),
    ASK("kernel waits, cuMemRelease", while_a_kernel_waits([] { return cuMemRelease(handle); })),
    ASK("kernel waits, cuMemAddressReserve", while_a_kernel_waits([] {
          CUdeviceptr p;
          return cuMemAddressReserve(&p, page, 0, 0, 0);
        })),
    ASK("kernel waits, cuMemAlloc", while_a_kernel_waits([] {
          CUdeviceptr p;
          return cuMemAlloc(&p, 64 * MiB);
        })),
    ASK("kernel waits, cuMemFree", while_a_kernel_waits([] { return cuMemFree(memory); })),
    ASK("kernel waits, cuMemFreeAsync in another stream",
        while_a_kernel_waits([] { return cuMemFreeAsync(memory_async, nullptr); })),
    ASK("kernel waits, cuMemAllocHost", while_a_kernel_waits([] {
          void* p;
          return cuMemAllocHost(&p, 4096);
        })),
    ASK("kernel waits, cuModuleLoadData", while_a_kernel_waits([] {
          CUmodule m;
          return cuModuleLoadData(&m, other_ptx);
        })),
    ASK("kernel waits, cuModuleUnload of another", while_a_kernel_waits([] { return cuModuleUnload(spare); })),
    ASK("kernel waits, cuStreamDestroy of its stream", while_a_kernel_waits([] { return cuStreamDestroy(stream); })),
    ASK("kernel waits, cuStreamQuery of its stream", while_a_kernel_waits([] { return cuStreamQuery(stream); })),
    ASK("kernel waits, cuStreamQuery of the null stream", while_a_kernel_waits([] { return cuStreamQuery(nullptr); })),
    ASK("kernel waits, cuMemsetD8 in the null stream",
        while_a_kernel_waits([] { return cuMemsetD8(memory, 1, 4 * MiB); })),
    ASK("kernel waits, cuMemcpyDtoD in the null stream",
        while_a_kernel_waits([] { return cuMemcpyDtoD(memory, memory + 2 * MiB, 2 * MiB); })),
    ASK("kernel waits, cuMemcpyDtoHAsync in its stream to a host variable",
        while_a_kernel_waits([] { return cuMemcpyDtoHAsync(pageable, memory, 8, stream); })),
    ASK("kernel waits, cuMemcpyDtoHAsync in its stream to host memory",
        while_a_kernel_waits([] { return cuMemcpyDtoHAsync(host, memory, 8, stream); })),
    ASK("kernel waits, cuMemcpyHtoDAsync in its stream from a host variable",
        while_a_kernel_waits([] { return cuMemcpyHtoDAsync(memory, pageable, 8, stream); })),
    ASK("kernel waits, cuEventElapsedTime to an event behind it", while_a_kernel_waits([] {
          float t;
          CHECK(cuEventRecord(never, stream));
          return cuEventElapsedTime(&t, event, never);
        })),
};

// Every attribute that the header has, of the GPU and of every kind of memory.
static void tables() {
  for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; ++attribute) {
    if (is_left_out(attribute)) continue;
    int value = 0;
    const CUresult result = cuDeviceGetAttribute(&value, CUdevice_attribute(attribute), gpu);
    say("attribute " + std::to_string(attribute), shown(result, value));
  }
  const struct {
    const char* name;
    CUdeviceptr address, base;
  } kinds[] = {{"cuMemAlloc's memory", memory + 8, memory},
               {"cuMemAllocAsync's memory", memory_async + 8, memory_async},
               {"host memory", CUdeviceptr(host) + 8, CUdeviceptr(host)},
               {"managed memory", managed + 8, managed},
               {"a mapping", mapping + 8, mapping},
               {"a hole", hole, hole},
               {"a host variable", CUdeviceptr(pageable), CUdeviceptr(pageable)}};
  for (const auto& kind : kinds)
    for (int what = 1; what <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; ++what)
      if (what != CU_POINTER_ATTRIBUTE_P2P_TOKENS &&
          (what != CU_POINTER_ATTRIBUTE_MAPPING_SIZE || kind.address != memory_async + 8))  // pools take more at a time
        say("pointer attribute " + std::to_string(what) + " of " + kind.name,
            pointer_attribute(CUpointer_attribute(what), kind.address, kind.base));
  for (const auto& kind : kinds) {  // several at once: no error for what a pointer has not
    unsigned type = 77, is_managed = 77;
    int ordinal = 77;
    void* values[] = {&type, &is_managed, &ordinal};
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    const CUresult result = cuPointerGetAttributes(3, wanted, values, kind.address);
    say(std::string("type, managed, ordinal of ") + kind.name,
        shown(result, type) + ", " + std::to_string(int(is_managed)) + ", " + std::to_string(ordinal));
  }
}

static void ask(const Question& question) {
  std::printf("%s: ", question.what.c_str());
  std::fflush(stdout);
  std::printf("%s\n", question.answer().c_str());
  std::fflush(stdout);
}

int main(int argc, char** argv) {
  const int count = sizeof questions / sizeof *questions, last = sizeof endings / sizeof *endings;
  const std::string part = argc > 1 ? argv[1] : "";
  if (!part.empty()) set_up();
  if (part == "tables") return tables(), 0;
  if (part == "ending") return ask(endings[atoi(argv[2])]), 0;
  for (int number = argc > 2 ? atoi(argv[2]) : count; number < count; ++number) ask(questions[number]);
  if (!part.empty()) return 0;
  check::require_gpus(1);
  say("end", run_again("tables"));
  ask_through_crashes("questions");
  for (int number = 0; number < last; ++number)
    if (const std::string end = run_again("ending", std::to_string(number)); end != "exit 0") say("", end);
  std::printf("OK\n");
}
