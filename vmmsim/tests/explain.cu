// SPDX-License-Identifier: MIT-0
// Mistakes, one for each argument, for explain_test.py: explain MISTAKE. A kernel that goes wrong does so in thread 5
// of block 2, at the address that is printed.
#include <cuda.h>
#include <cuda_runtime.h>

#undef NDEBUG  // a release build too asks what an assertion does
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>

constexpr size_t MiB = 1 << 20, size = 2 * MiB;

namespace {

std::map<std::string, void (*)()> mistakes;
#define MISTAKE(name)                                                                        \
  void mistake_##name();                                                                     \
  [[maybe_unused]] const bool knows_##name = mistakes.emplace(#name, mistake_##name).second; \
  void mistake_##name()

__managed__ int managed;  // is the module's: no leak

__device__ bool is_it() { return blockIdx.x == 2 && threadIdx.x == 5; }

__global__ void write_number(int* to, int value) {
  if (is_it()) *to = value;
}
__device__ __forceinline__ void set(int* to) {
  *to = 7;  // in set
}
__global__ void write_there(int* to) {
  if (is_it()) set(to);  // in write_there
}
template <class T> __global__ void read_number(const T* from, T* to) {
  if (is_it()) *to = *from;
}
__global__ void add_to_all(float* where) {
#if __CUDA_ARCH__ >= 900
  if (is_it()) asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(where), "f"(1.f) : "memory");
#endif
}
__global__ void nothing(int) {}
__global__ void write_shared(int index) {
  extern __shared__ int numbers[];
  if (is_it()) static_cast<volatile int*>(numbers)[index] = 1;
}
__global__ void stop() {
  if (is_it()) __trap();
}
__global__ void insist(int number) { assert(number == 0 || !is_it()); }

// What must not fail, for a mistake comes later.
void must(int result) {
  if (result == 0) return;
  std::printf("unexpected: %d\n", result);
  std::exit(1);
}

CUmemAllocationProp properties(int gpu) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = gpu;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return prop;
}
CUmemGenericAllocationHandle create(int gpu) {
  CUmemGenericAllocationHandle handle;
  const CUmemAllocationProp prop = properties(gpu);
  must(cuMemCreate(&handle, size, &prop, 0));
  return handle;
}
CUdeviceptr reserve() {
  CUdeviceptr address;
  must(cuMemAddressReserve(&address, size, 0, 0, 0));
  return address;
}
CUmemAccessDesc access(int gpu, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties(gpu).location;
  descriptor.flags = flags;
  return descriptor;
}
CUdeviceptr map(CUmemGenericAllocationHandle handle, int gpu, CUmemAccess_flags flags) {
  const CUdeviceptr address = reserve();
  must(cuMemMap(address, size, 0, handle, 0));  // in map
  const CUmemAccessDesc descriptor = access(gpu, flags);
  must(cuMemSetAccess(address, size, &descriptor, 1));
  return address;
}
CUdeviceptr memory(CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) { return map(create(0), 0, flags); }

CUmemGenericAllocationHandle multicast_object() {
  CUmulticastObjectProp prop = {};
  prop.numDevices = 2;
  prop.size = size;
  CUmemGenericAllocationHandle object;
  must(cuMulticastCreate(&object, &prop));
  must(cuMulticastAddDevice(object, 0));
  must(cuMulticastAddDevice(object, 1));
  return object;
}
void bind(CUmemGenericAllocationHandle object, int gpu) {
  const CUmemGenericAllocationHandle handle = create(gpu);
  must(cuMulticastBindMem(object, 0, handle, 0, size, 0));
  must(cuMemRelease(handle));
}

void say(CUdeviceptr address) {
  std::printf("0x%llx\n", address);
  std::fflush(stdout);
}
void write_at(CUdeviceptr address) {
  say(address);
  write_number<<<3, 32>>>(reinterpret_cast<int*>(address), 1);
  cudaDeviceSynchronize();
}
void add_at(CUdeviceptr address) {
  say(address);
  add_to_all<<<3, 32>>>(reinterpret_cast<float*>(address));
  cudaDeviceSynchronize();
}

// --- Calls that are refused, one after the other ---------------------------------------------------------------------
MISTAKE(refusals) {
  CUmemGenericAllocationHandle handle, other;
  const CUmemAllocationProp prop = properties(0), of_no_gpu = properties(99);
  cuMemCreate(&handle, 3 * MiB, &prop, 0);
  cuMemCreate(&handle, size, &of_no_gpu, 0);
  cuMemCreate(nullptr, size, &prop, 0);
  cuMemCreate(&handle, size_t(1) << 50, &prop, 0);
  void* block;
  cudaMallocAsync(&block, size_t(200) << 30, nullptr);
  cudaDeviceEnablePeerAccess(0, 0);
  CUdeviceptr address = 0;
  cuMemAddressReserve(&address, size + 1, 0, 0, 0);
  cuMemAddressReserve(&address, size, 3 * MiB, 0, 0);
  handle = create(0);
  cuMemMap(0x1000000000, size, 0, handle, 0);
  address = reserve();
  cuMemMap(address, size, 0, handle + 1, 0);
  cuMemMap(address, size / 2, 0, handle, 0);
  const CUmemAccessDesc descriptor = access(0), to_no_gpu = access(99);
  cuMemSetAccess(address, size, &descriptor, 1);  // before cuMemMap
  must(cuMemMap(address, size, 0, handle, 0));
  cuMemMap(address, size, 0, handle, 0);  // again
  cuMemSetAccess(address, size, &to_no_gpu, 1);
  cuMemSetAccess(address, size / 2, &descriptor, 1);
  cuMemAddressFree(address, size);                // while it is mapped
  cuMemcpyHtoD(address, &handle, sizeof handle);  // before cuMemSetAccess
  cuMemFree(address);
  must(cuMemRelease(handle));
  cuMemRelease(handle);  // again
  must(cuMemUnmap(address, size));
  cuMemRetainAllocationHandle(&other, reinterpret_cast<void*>(address));
  cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(1), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  must(cuMemAddressFree(address, size));
  cuMemAddressFree(address, size);  // again
  CUmulticastObjectProp team = {};
  team.numDevices = 1;
  team.size = size;
  cuMulticastCreate(&handle, &team);
  cudaSetDevice(99);
  cudaMemcpy(&address, &address, 8, cudaMemcpyKind(9));
  cudaMalloc(static_cast<void**>(nullptr), 8);
  write_number<<<1, 2048>>>(nullptr, 1);
  cudaGetLastError();
}

alignas(4096) char the_hosts[3 * 4096];

MISTAKE(leaks) {
  const CUmemGenericAllocationHandle handle = create(0), object = multicast_object();
  bind(object, 0);
  map(handle, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  reserve();
  int fd;
  must(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));  // left open
  void* memory;
  must(cudaMalloc(&memory, 1000));             // left on the GPU
  must(cudaMallocHost(&memory, 1000));         // left on the host
  must(cudaHostRegister(the_hosts, 1000, 0));  // left registered
}

void make_three() {
  for (const size_t count : {1, 1, 2}) {
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp prop = properties(0);
    must(cuMemCreate(&handle, count * size, &prop, 0));  // thrice
  }
}
MISTAKE(leaks_of_one_line) {
  make_three();
  CUdeviceptr address;
  for (int i = 0; i < 2; ++i) must(cuMemAddressReserve(&address, 64 * MiB, 0, 0, 0));  // twice
}

MISTAKE(leaks_of_a_graph) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  void* memory;
  must(cudaStreamCreate(&stream));
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  must(cudaMallocAsync(&memory, MiB, stream));  // a node
  must(cudaFreeAsync(memory, stream));
  must(cudaStreamEndCapture(stream, &graph));
  must(cudaGraphInstantiate(&executable, graph, 0));
  must(cudaGraphDestroy(graph));
  must(cudaGraphLaunch(executable, stream));
  must(cudaStreamSynchronize(stream));
}
// A pool's descriptor that this process inherits: it is a program that was executed.
MISTAKE(leaks_of_an_heir) {
  must(cudaFree(nullptr));
  if (std::getenv("HEIR")) return;
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool;
  int fd;
  must(cudaMemPoolCreate(&pool, &properties));
  must(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  setenv("HEIR", "yes", 1);
  execl("/proc/self/exe", "explain", "leaks_of_an_heir", nullptr);
}

MISTAKE(no_leaks) {
  const CUmemGenericAllocationHandle handle = create(0), object = multicast_object();
  bind(object, 0);
  const CUdeviceptr address = map(handle, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  write_number<<<3, 32>>>(reinterpret_cast<int*>(address), 1);
  write_number<<<3, 32>>>(&managed, 1);
  int fd;
  must(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  void *memory, *pooled;
  must(cudaMalloc(&memory, 1000));
  must(cudaMallocAsync(&pooled, 1000, nullptr));
  must(cudaFreeAsync(pooled, nullptr));
  must(cudaFree(memory));
  must(cudaMallocHost(&memory, 1000));
  must(cudaFreeHost(memory));
  close(fd);
  must(cuMemUnmap(address, size));
  must(cuMemAddressFree(address, size));
  must(cuMemRelease(handle));
  must(cuMulticastUnbind(object, 0, 0, size));
  must(cuMemRelease(object));
}

// Launches until a launch fails. The process ends only then.
struct Launching {
  std::thread thread;
  void begin() {
    thread = std::thread([] {
      int value = 0;
      void* arguments[] = {&value};
      const auto kernel = reinterpret_cast<const void*>(nothing);
      while (cudaLaunchKernel(kernel, dim3(1), dim3(1), arguments, 0, nullptr) == cudaSuccess) {
      }
    });
  }
  ~Launching() {
    if (thread.joinable()) thread.join();
  }
};
__attribute__((init_priority(101))) Launching launching;  // destroyed when the kernels have been forgotten

MISTAKE(null) { write_at(0); }
MISTAKE(reserved) { write_at(reserve() + 20); }
MISTAKE(past_the_end) { write_at(memory() + size); }
MISTAKE(closed) {
  const CUdeviceptr address = memory();
  must(cudaSetDevice(1));
  write_at(address + 20);
}
MISTAKE(read_only) { write_at(memory(CU_MEM_ACCESS_FLAGS_PROT_READ) + 20); }
MISTAKE(unmapped) {
  const CUdeviceptr address = memory();
  must(cuMemUnmap(address, size));
  write_at(address);
}
// What is in the stream behind this comes too late: its memory is unmapped before.
std::atomic<bool> is_unmapped = false;
void let_unmap_first(CUdeviceptr address, void (*put_in)(CUdeviceptr)) {
  say(address);
  must(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        while (!is_unmapped) std::this_thread::yield();
      },
      nullptr));
  put_in(address);
  must(cuMemUnmap(address, size));
  is_unmapped = true;
  cudaDeviceSynchronize();
}
MISTAKE(unmapped_too_early) {
  let_unmap_first(memory(), [](CUdeviceptr to) { write_number<<<3, 32>>>(reinterpret_cast<int*>(to), 1); });
}
MISTAKE(unmapped_before_a_copy) {
  let_unmap_first(memory(), [](CUdeviceptr to) { must(cudaMemsetAsync(reinterpret_cast<void*>(to), 1, size)); });
}
MISTAKE(given_back) {
  const CUdeviceptr address = reserve();
  must(cuMemAddressFree(address, size));
  write_at(address);
}
MISTAKE(freed) {
  cudaFuncAttributes loaded;  // first of all: a module's variables could get the same memory
  must(cudaFuncGetAttributes(&loaded, write_number));
  void* memory;
  must(cudaMalloc(&memory, size));
  must(cudaFree(memory));
  write_at(CUdeviceptr(memory));
}
MISTAKE(peer) {
  void* memory;
  must(cudaMalloc(&memory, 8));
  must(cudaSetDevice(1));
  write_at(CUdeviceptr(memory));
}
MISTAKE(host) {
  static int number;
  write_at(CUdeviceptr(&number));
}
MISTAKE(misaligned) { write_at(memory() + 2); }
MISTAKE(multicast_store) { write_at(map(multicast_object(), 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)); }
MISTAKE(multimem_of_memory) { add_at(memory()); }
MISTAKE(multimem_unbound) {
  const CUmemGenericAllocationHandle object = multicast_object();
  bind(object, 0);
  add_at(map(object, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE) + 8);
}
MISTAKE(multimem_closed) {
  const CUdeviceptr address = map(multicast_object(), 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  must(cudaSetDevice(1));
  add_at(address);
}
MISTAKE(read) {
  const CUdeviceptr address = reserve();
  say(address);
  read_number<<<3, 32>>>(reinterpret_cast<long*>(address), reinterpret_cast<long*>(address));
  cudaDeviceSynchronize();
}
MISTAKE(inlined) {
  const CUdeviceptr address = reserve();
  say(address);
  write_there<<<3, 32>>>(reinterpret_cast<int*>(address));
  cudaDeviceSynchronize();
}
MISTAKE(beside_registered) {
  must(cudaHostRegister(the_hosts + 4096, 4096, 0));
  write_at(reinterpret_cast<CUdeviceptr>(the_hosts) + 8192);
}
MISTAKE(registered_read_only) {
  must(cudaHostRegister(the_hosts, 4096, 0));
  must(cudaHostRegister(the_hosts + 4096, 4096, cudaHostRegisterReadOnly));
  write_number<<<3, 32>>>(reinterpret_cast<int*>(the_hosts), 1);
  must(cudaDeviceSynchronize());
  write_at(reinterpret_cast<CUdeviceptr>(the_hosts) + 8188);
}
MISTAKE(shared) {
  write_shared<<<3, 32, 128>>>(32);
  cudaDeviceSynchronize();
}
MISTAKE(trap) {
  stop<<<3, 32>>>();
  cudaDeviceSynchronize();
}
MISTAKE(assertion) {
  insist<<<3, 32>>>(1);
  cudaDeviceSynchronize();
}
MISTAKE(after) {
  write_at(0);
  void* memory;
  cudaMalloc(&memory, 8);
  cudaGetLastError();
}
MISTAKE(captures) {
  cudaStream_t stream, other;
  cudaEvent_t event;
  cudaGraph_t graph, larger;
  cudaGraphExec_t launchable;
  cudaGraphExecUpdateResultInfo info;
  void* memory;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  must(cudaStreamCreate(&other));
  must(cudaEventCreate(&event));
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaMalloc(&memory, 8);
  nothing<<<1, 1, 0, stream>>>(1);
  cudaStreamEndCapture(stream, &graph);

  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  must(cudaEventRecord(event, stream));
  must(cudaStreamWaitEvent(other, event, 0));
  nothing<<<1, 1, 0, other>>>(1);
  cudaStreamEndCapture(stream, &graph);

  must(cudaStreamBeginCapture(other, cudaStreamCaptureModeGlobal));
  nothing<<<1, 1>>>(1);
  cudaStreamEndCapture(other, &graph);

  for (cudaGraph_t* each : {&graph, &larger}) {
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < (each == &larger ? 2 : 1); ++i) nothing<<<1, 1, 0, stream>>>(1);
    must(cudaStreamEndCapture(stream, each));
  }
  must(cudaGraphInstantiate(&launchable, graph, 0));
  cudaGraphExecUpdate(launchable, larger, &info);
}
MISTAKE(crashes) {
  CUmemAllocationProp of_host = properties(0);
  of_host.requestedHandleTypes = {};
  of_host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  CUmemGenericAllocationHandle handle;
  const CUdeviceptr address = reserve();
  must(cuMemCreate(&handle, size, &of_host, 0));
  must(cuMemMap(address, size, 0, handle, 0));
  say(address);
  char byte = 0;
  cuMemcpyHtoD(address, &byte, 1);
  const CUdeviceptr hole = reserve();
  cuMemcpy(hole, CUdeviceptr(&byte), 1);
  cuMemcpyHtoD(hole, &byte, 1);
  cudaEvent_t event;
  must(cudaEventCreateWithFlags(&event, cudaEventInterprocess | cudaEventDisableTiming));
  must(cudaEventRecord(event));
  must(cudaSetDevice(1));
  cudaIpcEventHandle_t for_others;
  must(cudaIpcGetEventHandle(&for_others, event));
}
MISTAKE(forked) {
  void* memory;
  if (const pid_t child = fork()) waitpid(child, nullptr, 0);
  else cudaMalloc(&memory, 8), _exit(0);
}
MISTAKE(exiting) { launching.begin(); }

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  if (what == "no_init") return cuDeviceGetCount(nullptr), 0;
  must(cuInit(0));
  CUdevice device;
  if (what == "no_context") return cuMemAlloc(reinterpret_cast<CUdeviceptr*>(&device), 8), 0;
  must(cudaSetDevice(0));
  mistakes.at(what)();
}
