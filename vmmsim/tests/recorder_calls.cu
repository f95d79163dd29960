// SPDX-License-Identifier: MIT-0
// Makes calls on simulated GPUs, and tells the recorder of each in the structures in which CUPTI would.
//   recorder_calls calls | multicast | shared | threads | long | closed FILE | exec FILE | full | few | hang
// VMM_RECORD names the file, as for libvmm_recorder.so.
#include <cuda.h>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../recorder/recorder.h"
#include "as_cupti.h"

__global__ void touch(int* data) { *data = 1; }

constexpr size_t size = 2 << 20;

static CUmemAllocationProp on_gpu(int gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  return properties;
}
static CUmemAccessDesc open_to(int gpu) { return {on_gpu(gpu).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}; }

static CUcontext begin(int gpu) {
  CUcontext context = nullptr;
  DRIVER(cuDevicePrimaryCtxRetain, &context, gpu);
  cuCtxSetCurrent(context);
  return context;
}

static void virtual_memory() {
  const CUmemAllocationProp properties = on_gpu(0);
  const CUmemAccessDesc both[] = {open_to(0), open_to(1)};
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0, again = 0, imported = 0, refused = 7;
  size_t granularity = 0;
  unsigned long long flags = 0;
  CUmemAllocationProp found;
  int fd = -1;
  DRIVER(cuMemGetAllocationGranularity, &granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  DRIVER(cuMemAddressReserve, &at, 4 * size, 0, 0, 0);
  DRIVER(cuMemCreate, &handle, size, &properties, 0);
  DRIVER(cuMemCreate, &refused, size / 2, &properties, 0);
  DRIVER(cuMemCreate, &refused, size, nullptr, 0);
  DRIVER(cuMemMap, at, size, 0, handle, 0);
  DRIVER(cuMemMap, at, size, 0, handle, 0);  // refused: there is a mapping
  DRIVER(cuMemMap, at + size, size, 0, handle, 0);
  DRIVER(cuMemMap, at + 3 * size, size, 0, handle, 0);
  DRIVER(cuMemSetAccess, at, 4 * size, both, 2);  // over a hole
  DRIVER(cuMemSetAccess, at, size / 2, both, 2);  // refused
  DRIVER(cuMemGetAccess, &flags, &both[1].location, at);
  DRIVER(cuMemGetAllocationPropertiesFromHandle, &found, handle);
  DRIVER(cuMemRetainAllocationHandle, &again, reinterpret_cast<void*>(at));
  DRIVER(cuMemExportToShareableHandle, &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  DRIVER(cuMemImportFromShareableHandle, &imported, reinterpret_cast<void*>(intptr_t(fd)),
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  close(fd);
  DRIVER(cuMemUnmap, at, size / 2);  // refused, and the next one takes all
  DRIVER(cuMemUnmap, at, 4 * size);
  DRIVER(cuMemAddressFree, at, size);  // refused
  DRIVER(cuMemAddressFree, at, 4 * size);
  for (const auto each : {handle, again, imported}) DRIVER(cuMemRelease, each);
  DRIVER(cuMemRelease, handle);  // refused
}

static void ordinary_memory(CUcontext other) {
  size_t free, total, pitch;
  CUdeviceptr at = 0;
  void* host = nullptr;
  int can = 0;
  std::vector<char> own(1 << 20);
  DRIVER(cuMemGetInfo_v2, &free, &total);
  DRIVER(cuMemAlloc_v2, &at, 1000);
  CUipcMemHandle shared;
  DRIVER(cuIpcGetMemHandle, &shared, at);
  DRIVER(cuMemFree_v2, at);
  DRIVER(cuMemFree_v2, at);  // refused
  DRIVER(cuMemAllocPitch_v2, &at, &pitch, 100, 7, 4);
  DRIVER(cuMemFree_v2, at);
  DRIVER(cuMemAllocHost_v2, &host, 4096);
  DRIVER(cuMemFreeHost, host);
  DRIVER(cuMemHostAlloc, &host, 4096, CU_MEMHOSTALLOC_PORTABLE);
  DRIVER(cuMemFreeHost, host);
  DRIVER(cuMemHostRegister_v2, own.data(), own.size(), 0);
  DRIVER(cuMemHostUnregister, own.data());
  DRIVER(cuDeviceCanAccessPeer, &can, 0, 1);
  DRIVER(cuCtxEnablePeerAccess, other, 0);
  DRIVER(cuCtxEnablePeerAccess, other, 0);  // refused
  DRIVER(cuCtxDisablePeerAccess, other);
  const CUcontext own_context = current();
  cuCtxSetCurrent(other);
  DRIVER(cuMemAlloc_v2, &at, 1000);
  DRIVER(cuMemFree_v2, at);
  cuCtxSetCurrent(nullptr);
  DRIVER(cuMemAlloc_v2, &at, 1000);  // refused
  cuCtxSetCurrent(own_context);

  void* memory = nullptr;
  cudaPitchedPtr pitched;
  cudaIpcMemHandle_t of_runtime;
  RUNTIME(cudaMemGetInfo, _v3020, &free, &total);
  RUNTIME(cudaMalloc, _v3020, &memory, 1 << 20);
  RUNTIME(cudaIpcGetMemHandle, _v4010, &of_runtime, memory);
  RUNTIME(cudaFree, _v3020, memory);
  RUNTIME(cudaFree, _v3020, nullptr);
  RUNTIME(cudaMalloc, _v3020, &memory, 0);
  RUNTIME(cudaMalloc, _v3020, &memory, size_t(1) << 50);  // refused
  RUNTIME(cudaMallocPitch, _v3020, &memory, &pitch, 100, 7);
  RUNTIME(cudaFree, _v3020, memory);
  RUNTIME(cudaMalloc3D, _v3020, &pitched, make_cudaExtent(100, 7, 3));
  RUNTIME(cudaFree, _v3020, pitched.ptr);
  RUNTIME(cudaMallocHost, _v3020, &host, 4096);
  RUNTIME(cudaFreeHost, _v3020, host);
  RUNTIME(cudaHostAlloc, _v3020, &host, 4096, cudaHostAllocDefault);
  RUNTIME(cudaFreeHost, _v3020, host);
  RUNTIME(cudaHostRegister, _v4000, own.data(), own.size(), 0);
  RUNTIME(cudaHostUnregister, _v4000, own.data());
  RUNTIME(cudaDeviceCanAccessPeer, _v4000, &can, 0, 1);
  RUNTIME(cudaDeviceEnablePeerAccess, _v4000, 1, 0);
  RUNTIME(cudaDeviceDisablePeerAccess, _v4000, 1);
}

// Another process's memory: `descriptors` are the pipes to it.
static void memory_of_another(const int descriptors[2]) {
  CUipcMemHandle handle;
  if (read(descriptors[0], &handle, sizeof handle) != sizeof handle) std::abort();
  CUdeviceptr at = 0;
  DRIVER(cuIpcOpenMemHandle_v2, &at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  DRIVER(cuIpcCloseMemHandle, at);
  cudaIpcMemHandle_t same;
  std::memcpy(&same, &handle, sizeof same);
  void* memory = nullptr;
  RUNTIME(cudaIpcOpenMemHandle, _v4010, &memory, same, cudaIpcMemLazyEnablePeerAccess);
  RUNTIME(cudaIpcCloseMemHandle, _v4010, memory);
  if (write(descriptors[1], "", 1) != 1) std::abort();
}

static void another_process(const int descriptors[2]) {
  CUcontext context;
  CUdeviceptr at;
  CUipcMemHandle handle;
  char end;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
  cuMemAlloc(&at, size);
  cuIpcGetMemHandle(&handle, at);
  if (write(descriptors[1], &handle, sizeof handle) != sizeof handle || read(descriptors[0], &end, 1) != 1)
    std::abort();
  cuMemFree(at);
  std::exit(0);
}

static void pools() {
  CUmemoryPool pool = nullptr, made = nullptr;
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = on_gpu(1).location;
  const CUmemAccessDesc access = open_to(0);
  CUmemAccess_flags flags;
  CUmemLocation location = access.location;
  uint64_t threshold = 0;
  CUdeviceptr at;
  DRIVER(cuDeviceGetDefaultMemPool, &pool, 0);
  DRIVER(cuDeviceGetMemPool, &pool, 0);
  DRIVER(cuMemPoolCreate, &made, &properties);
  DRIVER(cuDeviceSetMemPool, 1, made);
  DRIVER(cuMemPoolSetAccess, made, &access, 1);
  DRIVER(cuMemPoolGetAccess, &flags, made, &location);
  DRIVER(cuMemPoolSetAttribute, made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  DRIVER(cuMemPoolGetAttribute, made, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  DRIVER(cuMemAllocAsync, &at, 1000, nullptr);
  DRIVER(cuMemFreeAsync, at, nullptr);
  DRIVER_BARE(cuCtxSynchronize);
  DRIVER(cuMemAllocFromPoolAsync, &at, 1000, made, nullptr);
  DRIVER(cuMemFreeAsync, at, nullptr);
  DRIVER_BARE(cuCtxSynchronize);
  DRIVER(cuMemPoolTrimTo, made, 0);
  DRIVER(cuMemPoolDestroy, made);

  cudaMemPool_t mine = nullptr;
  cudaMemPoolProps its = {};
  its.allocType = cudaMemAllocationTypePinned;
  its.location.type = cudaMemLocationTypeDevice;
  its.location.id = 0;
  cudaMemAccessDesc to = {};
  to.location.type = cudaMemLocationTypeDevice;
  to.location.id = 1;
  to.flags = cudaMemAccessFlagsProtReadWrite;
  cudaMemAccessFlags answer;
  cudaMemLocation where = to.location;
  void* memory = nullptr;
  RUNTIME(cudaDeviceGetDefaultMemPool, _v11020, &mine, 0);
  RUNTIME(cudaDeviceGetMemPool, _v11020, &mine, 0);
  RUNTIME(cudaMemPoolCreate, _v11020, &mine, &its);
  RUNTIME(cudaDeviceSetMemPool, _v11020, 0, mine);
  RUNTIME(cudaMemPoolSetAccess, _v11020, mine, &to, 1);
  RUNTIME(cudaMemPoolGetAccess, _v11020, &answer, mine, &where);
  RUNTIME(cudaMemPoolSetAttribute, _v11020, mine, cudaMemPoolAttrReleaseThreshold, &threshold);
  RUNTIME(cudaMemPoolGetAttribute, _v11020, mine, cudaMemPoolAttrReleaseThreshold, &threshold);
  RUNTIME(cudaMallocAsync, _v11020, &memory, 1000, nullptr);
  RUNTIME(cudaFreeAsync, _v11020, memory, nullptr);
  RUNTIME_BARE(cudaDeviceSynchronize, _v3020);
  RUNTIME(cudaMallocFromPoolAsync, _v11020, &memory, 1000, mine, nullptr);
  RUNTIME(cudaFreeAsync, _v11020, memory, nullptr);
  RUNTIME_BARE(cudaDeviceSynchronize, _v3020);
  RUNTIME(cudaMemPoolTrimTo, _v11020, mine, 0);
  RUNTIME(cudaMemPoolDestroy, _v11020, mine);
}

static void launches(const char* name) {
  int* data = nullptr;
  cudaMalloc(&data, sizeof *data);
  void* arguments[] = {&data};
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  const void* const kernel = reinterpret_cast<const void*>(touch);
  RUNTIME_AS(cudaLaunchKernel, _v7000, name, kernel, dim3(2, 3), dim3(4), arguments, 16, nullptr);
  RUNTIME_AS(cudaLaunchKernel, _v7000, name, kernel, dim3(0), dim3(4), arguments, 0, nullptr);  // refused
  RUNTIME_AS(cudaLaunchCooperativeKernel, _v9000, name, kernel, dim3(2), dim3(4), arguments, 0, nullptr);
  RUNTIME_AS(cudaLaunchKernelExC, _v11060, name, &config, kernel, arguments);
  CUfunction function = nullptr;
  cudaGetFuncBySymbol(&function, kernel);
  CUlaunchConfig launch = {};
  launch.gridDimX = launch.gridDimY = launch.gridDimZ = launch.blockDimX = launch.blockDimY = launch.blockDimZ = 1;
  DRIVER_AS(cuLaunchKernel, cuLaunchKernel, name, function, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr);
  DRIVER_AS(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, name, function, 1, 1, 1, 32, 1, 1, 0, nullptr,
            arguments);
  DRIVER_AS(cuLaunchKernelEx, cuLaunchKernelEx, name, &launch, function, arguments, nullptr);
  cudaFree(data);
}

static void graphs() {
  int* data = nullptr;
  cudaMalloc(&data, sizeof *data);
  void* arguments[] = {&data};
  const void* const kernel = reinterpret_cast<const void*>(touch);
  cudaStream_t stream = nullptr, other = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t graphExec = nullptr;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&other);
  cudaEventCreate(&event);
  const auto launch = [&](cudaStream_t in) {
    RUNTIME_AS(cudaLaunchKernel, _v7000, "_Z5touchPi", kernel, dim3(1), dim3(1), arguments, 0, in);
  };
  RUNTIME(cudaEventRecord, _v3020, event, stream);  // nothing is captured: not recorded
  RUNTIME(cudaStreamBeginCapture, _v10000, stream, cudaStreamCaptureModeGlobal);
  launch(stream);
  RUNTIME(cudaEventRecord, _v3020, event, stream);
  RUNTIME(cudaStreamWaitEvent, _v3020, other, event, 0);
  launch(other);
  cudaLaunchConfig_t config = {};
  config.gridDim = config.blockDim = dim3(1);
  config.stream = other;
  RUNTIME_AS(cudaLaunchKernelExC, _v11060, "_Z5touchPi", &config, kernel, arguments);
  DRIVER(cuEventRecord, event, other);
  DRIVER(cuStreamWaitEvent, stream, event, 0);
  RUNTIME(cudaStreamEndCapture, _v10000, stream, &graph);
  launch(other);
  cudaGraphInstantiate(&graphExec, graph, 0);
  RUNTIME(cudaGraphLaunch, _v10000, graphExec, stream);
  RUNTIME(cudaGraphLaunch, _v10000, nullptr, stream);  // refused
  DRIVER(cuGraphLaunch, graphExec, stream);
  RUNTIME(cudaStreamSynchronize, _v3020, stream);
  cudaGraphExecDestroy(graphExec);
  cudaGraphDestroy(graph);
  DRIVER(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  DRIVER(cuStreamEndCapture, stream, &graph);
  cudaGraphDestroy(graph);
  cudaEventRecord(event, other);
  RUNTIME(cudaEventSynchronize, _v3020, event);
  DRIVER(cuEventSynchronize, event);
  DRIVER(cuStreamSynchronize, stream);
  int value = 7;
  RUNTIME(cudaMemcpy, _v3020, data, &value, sizeof value, cudaMemcpyHostToDevice);
  DRIVER(cuMemcpyHtoD_v2, reinterpret_cast<CUdeviceptr>(data), &value, sizeof value);
  DRIVER(cuMemcpyDtoH_v2, &value, reinterpret_cast<CUdeviceptr>(data), sizeof value);
  cudaEventDestroy(event);
  cudaStreamDestroy(other);
  cudaStreamDestroy(stream);
  cudaFree(data);
}

static void copies(CUcontext own) {
  void *data = nullptr, *more = nullptr;
  cudaMalloc(&data, 4096);
  cudaMalloc(&more, 4096);
  const CUdeviceptr from = reinterpret_cast<CUdeviceptr>(data), to = reinterpret_cast<CUdeviceptr>(more);
  char own_bytes[64] = {};
  DRIVER(cuMemsetD8_v2, from, 1, 4096);
  DRIVER(cuMemsetD8Async, from, 2, 4096, nullptr);
  DRIVER(cuMemsetD32_v2, from, 3, 1024);
  DRIVER(cuMemsetD32Async, from, 4, 1024, nullptr);
  DRIVER(cuMemcpyDtoD_v2, to, from, 4096);
  DRIVER(cuMemcpyDtoDAsync_v2, to, from, 4096, nullptr);
  DRIVER(cuMemcpyHtoDAsync_v2, to, own_bytes, sizeof own_bytes, nullptr);
  DRIVER(cuMemcpyDtoHAsync_v2, own_bytes, to, sizeof own_bytes, nullptr);
  DRIVER(cuMemcpy, to, from, 4096);
  DRIVER(cuMemcpyAsync, to, from, 4096, nullptr);
  DRIVER(cuMemcpyPeerAsync, to, own, from, own, 4096, nullptr);
  RUNTIME(cudaMemset, _v3020, data, 5, 4096);
  RUNTIME(cudaMemsetAsync, _v3020, data, 6, 4096, nullptr);
  RUNTIME(cudaMemcpyAsync, _v3020, more, data, 4096, cudaMemcpyDeviceToDevice, nullptr);
  RUNTIME(cudaMemcpyPeer, _v4000, more, 0, data, 0, 4096);
  RUNTIME(cudaMemcpyPeerAsync, _v4000, more, 0, data, 0, 4096, nullptr);
  cudaFree(data);
  cudaFree(more);
}

// Waits for ever for a GPU, as far as the recorder is told.
static void hang() {
  call_data(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020, "cudaDeviceSynchronize",
            nullptr, 0, [] {
              pause();
              return cudaSuccess;
            });
}

// A call that the runtime makes in one of its own, recorded or not, is not the program's.
static void nested() {
  void* memory = nullptr;
  CUdeviceptr inner = 0;
  call_data(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020, "cudaMemcpy2D", nullptr,
            cudaMemcpy2D_v3020_params{}, [&] {
              return call_data(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, "cuMemAlloc_v2",
                               nullptr, cuMemAlloc_v2_params{&inner, 64}, [] { return CUDA_SUCCESS; });
            });
  call_data(CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc", nullptr,
            cudaMalloc_v3020_params{&memory, 64}, [&] {
              call_data(CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, "cuMemFree_v2", nullptr,
                        cuMemFree_v2_params{64}, [] { return CUDA_SUCCESS; });
              return cudaMalloc(&memory, 64);
            });
  RUNTIME(cudaFree, _v3020, memory);
}

static void multicast() {
  const CUmemAllocationProp properties = on_gpu(0);
  CUmulticastObjectProp team = {};
  team.numDevices = 2;
  team.size = size;
  CUmemGenericAllocationHandle object = 0, memory = 0;
  size_t granularity = 0;
  DRIVER(cuMulticastGetGranularity, &granularity, &team, CU_MULTICAST_GRANULARITY_MINIMUM);
  DRIVER(cuMulticastCreate, &object, &team);
  DRIVER(cuMulticastAddDevice, object, 0);
  DRIVER(cuMulticastAddDevice, object, 0);  // refused
  DRIVER(cuMulticastAddDevice, object, 1);
  DRIVER(cuMemCreate, &memory, size, &properties, 0);
  DRIVER(cuMulticastBindMem, object, 0, memory, 0, size, 0);
  DRIVER(cuMulticastUnbind, object, 0, 0, size);
  CUdeviceptr at = 0;
  const CUmemAccessDesc access = open_to(0);
  DRIVER(cuMemAddressReserve, &at, size, 0, 0, 0);
  DRIVER(cuMemMap, at, size, 0, memory, 0);
  DRIVER(cuMemSetAccess, at, size, &access, 1);
  DRIVER(cuMulticastBindAddr, object, 0, at, size, 0);
  DRIVER(cuMulticastUnbind, object, 0, 0, size);
  DRIVER(cuMemUnmap, at, size);
  DRIVER(cuMemAddressFree, at, size);
  DRIVER(cuMemRelease, memory);
  DRIVER(cuMemRelease, object);
}

// Two processes that give each other memory, each by a descriptor of the same number.
static void share(int channel) {
  const CUmemAllocationProp properties = on_gpu(0);
  CUmemGenericAllocationHandle own = 0, other = 0;
  CUdeviceptr at = 0;
  int fd = -1;
  DRIVER(cuMemCreate, &own, size, &properties, 0);
  DRIVER(cuMemExportToShareableHandle, &fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  char byte = 0, control[CMSG_SPACE(sizeof fd)] = {};
  iovec data = {&byte, 1};
  msghdr message = {nullptr, 0, &data, 1, control, sizeof control, 0};
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  *part = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
  std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
  if (sendmsg(channel, &message, 0) != 1) std::abort();
  const int its = fd;
  close(its);
  if (recvmsg(channel, &message, 0) != 1) std::abort();
  std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
  if (fd != its) std::printf("the number of the descriptor is another one\n");
  DRIVER(cuMemImportFromShareableHandle, &other, reinterpret_cast<void*>(intptr_t(fd)),
         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  DRIVER(cuMemAddressReserve, &at, size, 0, 0, 0);
  DRIVER(cuMemMap, at, size, 0, other, 0);
  shutdown(channel, SHUT_WR);
  if (read(channel, &byte, 1)) std::abort();  // until the other has imported too
}

static void allocate_often(int times) {
  for (int i = 0; i < times; ++i) {
    void* memory = nullptr;
    RUNTIME(cudaMalloc, _v3020, &memory, 2 << 20);
    RUNTIME(cudaFree, _v3020, memory);
  }
}

static int descriptor_of(const std::string& path) {
  for (int fd = 3; fd < 1024; ++fd) {
    char link[4096] = {};
    if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), link, sizeof link - 1) > 0 && path == link) return fd;
  }
  std::abort();
}

int main(int, char** arguments) {
  const std::string what = arguments[1];
  if (what == "multicast" && std::getenv("NCCL_NVLS_ENABLE") && !std::strcmp(std::getenv("NCCL_NVLS_ENABLE"), "0")) {
    std::printf("SKIP: NCCL_NVLS_ENABLE=0: no multicast objects here; unset it\n");
    return 77;
  }
  int there[2], back[2];
  if (pipe(there) || pipe(back)) return 1;
  const int mine[] = {there[0], back[1]}, theirs[] = {back[0], there[1]};
  if (what == "calls" && !fork()) another_process(theirs);
  int channel[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, channel)) return 1;
  const bool is_second = what == "shared" && !fork();
  close(channel[!is_second]);
  cuInit(0);
  if (!recorder::open(std::getenv("VMM_RECORD"))) return 1;
  subscriber = recorder::on_call;
  const CUcontext other = begin(1);
  const CUcontext own = begin(0);
  if (what == "calls") {
    virtual_memory();
    ordinary_memory(other);
    memory_of_another(mine);
    pools();
    launches("_Z5touchPi");
    graphs();
    copies(own);
    nested();
    wait(nullptr);
  } else if (what == "multicast") {
    multicast();
  } else if (what == "shared") {
    share(channel[is_second]);
    if (is_second) _exit(0);
    wait(nullptr);
  } else if (what == "long") {
    launches((std::string(100000, 'k') + "\"\\\n").c_str());
  } else if (what == "closed") {
    allocate_often(1);
    const int file = descriptor_of(std::getenv("VMM_RECORD"));
    close(file);
    if (open(arguments[2], O_WRONLY | O_CREAT, 0600) != file) return 1;
    allocate_often(1);
  } else if (what == "exec") {
    allocate_often(3);
    execl("/proc/self/exe", arguments[0], "closed", arguments[2], nullptr);
    return 1;
  } else if (what == "threads") {
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i)
      all.emplace_back([other] {
        cuCtxSetCurrent(other);
        allocate_often(50);
      });
    for (int i = 0; i < 20; ++i)  // whatever the threads do just now, the child goes on
      if (!fork()) {
        allocate_often(100);
        _exit(0);
      }
    for (auto& thread : all) thread.join();
    while (wait(nullptr) > 0) continue;
  } else if (what == "hang") {
    RUNTIME_BARE(cudaDeviceSynchronize, _v3020);  // which comes back
    hang();
  } else {
    allocate_often(2);  // "full", "few"
  }
  std::printf("done\n");
  std::fflush(stdout);
  if (what == "threads") _exit(0);
  return 0;
}
