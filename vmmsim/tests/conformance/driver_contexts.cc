// SPDX-License-Identifier: MIT-0
// Unusual calls of the driver and their answers: devices and contexts, and how these end.
#include "driver_questions.h"

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
static const char* text_of(CUresult error) {
  const char* text = nullptr;
  CHECK(cuGetErrorString(error, &text));
  return text;
}
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

// Every attribute of the GPU that the header has.
static void tables() {
  for (int attribute = 1; attribute < CU_DEVICE_ATTRIBUTE_MAX; ++attribute) {
    if (is_left_out(attribute)) continue;
    int value = 0;
    const CUresult result = cuDeviceGetAttribute(&value, CUdevice_attribute(attribute), gpu);
    say("attribute " + std::to_string(attribute), shown(result, value));
  }
}

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
    ASK("text of error 999", text_of(CUDA_ERROR_UNKNOWN)),
    ASK("text of error 202", text_of(CUDA_ERROR_CONTEXT_ALREADY_CURRENT)),
    ASK("text of error 701", text_of(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)),
    ASK("text of error 709", text_of(CUDA_ERROR_CONTEXT_IS_DESTROYED)),
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
         (CHECK(cuCtxCreate(&a_context, nullptr, 0, gpu)), CHECK(cuMemAlloc(&address, 8)),
          CHECK(cuCtxSetCurrent(context)), cuMemFree(address))),
    CALL("launch in another context's stream",
         (CHECK(cuCtxCreate(&a_context, nullptr, 0, gpu)), CHECK(cuStreamCreate(&a_stream, 0)),
          CHECK(cuCtxSetCurrent(context)), cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, a_stream, nullptr, nullptr))),
    CALL("launch another context's function",
         [] {
           CUcontext c;
           CHECK(cuCtxCreate(&c, nullptr, 0, gpu));
           const CUresult r = cuLaunchKernel(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
           CHECK(cuCtxSetCurrent(context));
           return r;
         }()),
    CALL("record another context's event",
         (CHECK(cuCtxCreate(&a_context, nullptr, 0, gpu)), CHECK(cuEventCreate(&an_event, 0)),
          CHECK(cuCtxSetCurrent(context)), cuEventRecord(an_event, stream))),
    CALL("wait for another context's event",
         (CHECK(cuCtxCreate(&a_context, nullptr, 0, gpu)), CHECK(cuEventCreate(&an_event, 0)),
          CHECK(cuEventRecord(an_event, nullptr)), CHECK(cuCtxSetCurrent(context)),
          cuStreamWaitEvent(stream, an_event, 0))),
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
};

// Each has a process of its own.
static const Question endings[] = {
    CALL("release the primary context too often",
         (CHECK(cuDevicePrimaryCtxRelease(gpu)), cuDevicePrimaryCtxRelease(gpu))),
    CALL("synchronize after the primary context's release",
         (CHECK(cuDevicePrimaryCtxRelease(gpu)), cuCtxSynchronize())),
    ASK("is the released primary context active",
        [] {
          unsigned f;
          int active = -1;
          CHECK(cuDevicePrimaryCtxRelease(gpu));
          const CUresult r = cuDevicePrimaryCtxGetState(gpu, &f, &active);
          return shown(r, active);
        }()),
    VALUE("is the retained primary context active", number, cuDevicePrimaryCtxGetState(gpu, &word, &number)),
    CALL("synchronize after the primary context's reset", (CHECK(cuDevicePrimaryCtxReset(gpu)), cuCtxSynchronize())),
    CALL("free after the primary context's reset", (CHECK(cuDevicePrimaryCtxReset(gpu)), cuMemFree(memory))),
    CALL("unmap after the primary context's reset",
         (CHECK(cuDevicePrimaryCtxReset(gpu)), cuMemUnmap(mapping, 4 * MiB))),
    CALL("release a handle after the primary context's reset",
         (CHECK(cuDevicePrimaryCtxReset(gpu)), cuMemRelease(handle))),
    ASK("retain after the reset, allocate",
        [] {
          CHECK(cuDevicePrimaryCtxReset(gpu));
          CUcontext c;
          CUdeviceptr p;
          const CUresult r = cuDevicePrimaryCtxRetain(&c, gpu);
          return plain(r) + (c == context ? ", the same" : ", another") + ", then " + plain(cuMemAlloc(&p, 8));
        }()),
    CALL("unload a module, launch its function's neighbour", (CHECK(cuModuleUnload(module)), cuCtxSynchronize())),
    ASK("unload a library, its kernel's name is gone", plain(cuLibraryUnload(library))),
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
};

int main(int argc, char** argv) { return ask_all(tables, questions, endings, argc, argv); }
