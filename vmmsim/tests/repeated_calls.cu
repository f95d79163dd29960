// SPDX-License-Identifier: MIT-0
// Does a process stay as it was, however often it calls? Each kind of call is made thousands of times, and undone; then
// there must be as many descriptors and threads as before, hardly more memory, and as much free memory on the GPU.
//   steady [part of a name]   only the loops whose names contain it
#include <dirent.h>
#include <unistd.h>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>
#include "check.h"

namespace {

constexpr size_t MiB = size_t(1) << 20;
constexpr long room = 128;  // KiB that a loop may add to the process: 13 bytes for each of 10,000 turns

__global__ void nothing() {}
__global__ void add(int* to, int value) { atomicAdd(to, value); }

const char module_text[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .b8 table[4096];\n"
    ".visible .entry empty()\n{\n ret;\n}\n";

struct State {
  long descriptors, threads, memory;  // memory in KiB
  size_t free;                        // bytes of GPU 0
};

long entries(const char* directory) {
  long count = 0;
  DIR* const open = opendir(directory);
  EXPECT(open, "%s", directory);
  while (readdir(open)) ++count;
  closedir(open);
  return count;
}

State look() {
  State now = {};
  char line[256];
  FILE* const status = std::fopen("/proc/self/status", "r");
  EXPECT(status, "/proc/self/status");
  while (std::fgets(line, sizeof line, status)) std::sscanf(line, "RssAnon: %ld", &now.memory);
  std::fclose(status);
  now.descriptors = entries("/proc/self/fd");
  now.threads = entries("/proc/self/task");
  size_t total;
  CHECK(cudaMemGetInfo(&now.free, &total));
  return now;
}

const char* wanted = "";
int failures = 0;

// What waits in streams takes memory too: there is never much of it.
void run(int turns, const std::function<void()>& body) {
  for (int i = 1; i <= turns; ++i) {
    body();
    if (i % 100 == 0) CHECK(cudaDeviceSynchronize());
  }
}

// Runs a loop's body a few hundred times, looks, runs it `turns` times more, and looks again. On a busy machine more
// waits in a stream than ever before, for once; what is left behind is left behind each time. So there are three tries.
void repeat(const char* name, int turns, const std::function<void()>& body) {
  if (!std::strstr(name, wanted)) return;
  run(turns / 10, body);
  State before, after;
  bool is_steady = false;
  double seconds = 0;
  for (int tries = 0; tries < 3 && !is_steady; ++tries) {
    before = look();
    const clock_t begin = std::clock();
    run(turns, body);
    seconds = double(std::clock() - begin) / CLOCKS_PER_SEC;  // of all threads
    after = look();
    is_steady = after.descriptors == before.descriptors && after.threads == before.threads &&
                after.free == before.free && after.memory - before.memory <= room;
  }
  std::printf("%-34s %6d turns, %6.1f us of processors each: %s\n", name, turns, seconds * 1e6 / turns,
              is_steady ? "steady" : "NOT");
  if (is_steady) return;
  ++failures;
  std::printf("  descriptors %+ld, threads %+ld, memory %+ld KiB, free memory of the GPU %+lld bytes\n",
              after.descriptors - before.descriptors, after.threads - before.threads, after.memory - before.memory,
              static_cast<long long>(after.free) - static_cast<long long>(before.free));
}

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp all = {};
  all.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  all.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  all.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return all;
}

CUmemGenericAllocationHandle create(int device = 0) {
  const CUmemAllocationProp all = properties(device);
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, 2 * MiB, &all, 0));
  return handle;
}

void vmm_loops() {
  const CUmemAllocationProp all = properties(0);
  const CUmemAccessDesc access = {all.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr at;
  CHECK(cuMemAddressReserve(&at, 2 * MiB, 0, 0, 0));
  const CUmemGenericAllocationHandle kept = create();
  repeat("reserve, free", 10000, [] {
    CUdeviceptr address;
    CHECK(cuMemAddressReserve(&address, 2 * MiB, 0, 0, 0));
    CHECK(cuMemAddressFree(address, 2 * MiB));
  });
  repeat("create, release", 10000, [] { CHECK(cuMemRelease(create())); });
  repeat("map, set access, unmap", 10000, [&] {
    CHECK(cuMemMap(at, 2 * MiB, 0, kept, 0));
    CHECK(cuMemSetAccess(at, 2 * MiB, &access, 1));
    CHECK(cuMemUnmap(at, 2 * MiB));
  });
  repeat("create, map, fill, unmap", 2000, [&] {
    const CUmemGenericAllocationHandle handle = create();
    CHECK(cuMemMap(at, 2 * MiB, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemSetAccess(at, 2 * MiB, &access, 1));
    CHECK(cuMemsetD8(at, 1, 4096));
    CHECK(cudaDeviceSynchronize());
    CHECK(cuMemUnmap(at, 2 * MiB));
  });
  repeat("export, import, close", 10000, [&] {
    int fd;
    CUmemGenericAllocationHandle imported;
    CHECK(cuMemExportToShareableHandle(&fd, kept, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(fd)),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    close(fd);
    CHECK(cuMemRelease(imported));
  });
  repeat("a refused map", 10000, [&] { EXPECT(cuMemMap(at, MiB, 0, kept, 0) != CUDA_SUCCESS, "a part was mapped"); });
  CHECK(cuMemRelease(kept));
  CHECK(cuMemAddressFree(at, 2 * MiB));
}

void multicast_loop() {
  int gpus = 0, is_supported = 0;
  CHECK(cudaGetDeviceCount(&gpus));
  CHECK(cuDeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  if (gpus < 2 || !is_supported) return;
  CUmulticastObjectProp object = {};
  object.numDevices = 2;
  object.size = 2 * MiB;
  object.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemGenericAllocationHandle memory[2] = {create(0), create(1)};
  CUdeviceptr at;
  CHECK(cuMemAddressReserve(&at, 2 * MiB, 0, 0, 0));
  repeat("a multicast object", 2000, [&] {
    CUmemGenericAllocationHandle handle;
    CHECK(cuMulticastCreate(&handle, &object));
    for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuMulticastAddDevice(handle, gpu));
    for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuMulticastBindMem(handle, 0, memory[gpu], 0, 2 * MiB, 0));
    CHECK(cuMemMap(at, 2 * MiB, 0, handle, 0));
    CHECK(cuMemUnmap(at, 2 * MiB));
    for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuMulticastUnbind(handle, gpu, 0, 2 * MiB));
    CHECK(cuMemRelease(handle));
  });
  CHECK(cuMemAddressFree(at, 2 * MiB));
  for (const CUmemGenericAllocationHandle each : memory) CHECK(cuMemRelease(each));
}

// Exports a pool and a block of it, imports both, and gives all of it back.
void share_a_pool() {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  cudaMemPool_t pool, import;
  void *block, *again;
  int fd, types;
  cudaMemPoolPtrExportData data;
  CHECK(cudaDeviceGetAttribute(&types, cudaDevAttrMemoryPoolSupportedHandleTypes, 0));
  EXPECT(types & cudaMemHandleTypePosixFileDescriptor, "a pool may have the handle types %d", types);
  CHECK(cudaMemPoolCreate(&pool, &properties));
  CHECK(cudaMallocFromPoolAsync(&block, 100, pool, nullptr));
  CHECK(cudaMemPoolExportToShareableHandle(&fd, pool, cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMemPoolExportPointer(&data, block));
  CHECK(cudaMemPoolImportFromShareableHandle(&import, reinterpret_cast<void*>(long(fd)),
                                             cudaMemHandleTypePosixFileDescriptor, 0));
  CHECK(cudaMemPoolImportPointer(&again, import, &data));
  close(fd);
  CHECK(cudaFree(again));
  CHECK(cudaFree(block));
  CHECK(cudaMemPoolDestroy(import));
  CHECK(cudaMemPoolDestroy(pool));
}

void ordinary_loops() {
  static char bytes[4096];
  void* kept;
  CHECK(cudaMalloc(&kept, sizeof bytes));
  const auto freed = [](void* memory) { CHECK(cudaFree(memory)); };
  void* memory;
  repeat("cudaMalloc, small", 10000, [&] { CHECK(cudaMalloc(&memory, 100)), freed(memory); });
  repeat("cudaMalloc, large", 10000, [&] { CHECK(cudaMalloc(&memory, 3 * MiB)), freed(memory); });
  repeat("cudaMallocAsync", 10000, [&] {
    CHECK(cudaMallocAsync(&memory, 100, nullptr));
    CHECK(cudaFreeAsync(memory, 0));
  });
  repeat("a pool that is shared", 1000, share_a_pool);
  repeat("cudaMallocHost", 5000, [&] {
    CHECK(cudaMallocHost(&memory, 100));
    CHECK(cudaFreeHost(memory));
  });
  repeat("cudaMallocManaged", 5000, [&] { CHECK(cudaMallocManaged(&memory, 100)), freed(memory); });
  repeat("cudaMemcpy to the GPU and back", 5000, [&] {
    CHECK(cudaMemcpy(kept, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(bytes, kept, sizeof bytes, cudaMemcpyDeviceToHost));
  });
  repeat("cudaMemcpyAsync, cudaMemsetAsync", 10000, [&] {
    CHECK(cudaMemcpyAsync(kept, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemsetAsync(kept, 1, sizeof bytes));
  });
  CHECK(cudaFree(kept));
}

void stream_loops() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  repeat("a stream", 10000, [] {
    cudaStream_t made;
    CHECK(cudaStreamCreate(&made));
    CHECK(cudaStreamDestroy(made));
  });
  repeat("a stream with a kernel in it", 5000, [] {
    cudaStream_t made;
    CHECK(cudaStreamCreate(&made));
    nothing<<<1, 1, 0, made>>>();
    CHECK(cudaStreamDestroy(made));
  });
  repeat("an event, recorded and awaited", 10000, [&] {
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaStreamWaitEvent(nullptr, event));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaEventDestroy(event));
  });
  repeat("launch", 10000, [] {
    nothing<<<1, 1>>>();
    CHECK(cudaGetLastError());
  });
  repeat("launch, synchronize", 5000, [&] {
    nothing<<<1, 1, 0, stream>>>();
    CHECK(cudaStreamSynchronize(stream));
  });
  repeat("launch of 64 blocks", 1000, [] {
    nothing<<<64, 256>>>();
    CHECK(cudaDeviceSynchronize());
  });
  repeat("a refused launch", 10000, [] {
    nothing<<<1, 4096>>>();
    EXPECT(cudaGetLastError() != cudaSuccess, "a block of 4096 threads ran");
  });
  repeat("a host function", 10000, [] { CHECK(cudaLaunchHostFunc(nullptr, [](void*) {}, nullptr)); });
  repeat("a stream callback", 10000,
         [] { CHECK(cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void*) {}, nullptr, 0)); });
  repeat("a thread with its default stream", 1000, [] {
    std::thread([] {
      nothing<<<1, 1, 0, cudaStreamPerThread>>>();
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    }).join();
  });
  CHECK(cudaStreamDestroy(stream));
}

void module_loops() {
  repeat("a module", 1000, [] {
    CUmodule module;
    CUfunction function;
    CHECK(cuModuleLoadData(&module, module_text));
    CHECK(cuModuleGetFunction(&function, module, "empty"));
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    CHECK(cuModuleUnload(module));
  });
  repeat("a library", 1000, [] {
    CUlibrary library;
    CUkernel kernel;
    CHECK(cuLibraryLoadData(&library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0));
    CHECK(cuLibraryGetKernel(&kernel, library, "empty"));
    CHECK(cuLaunchKernel(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
    CHECK(cuLibraryUnload(library));
  });
}

// Everything of a context goes with it, whatever the program has left there; then the GPU is used anew.
void reset_loop() {
  repeat("cudaDeviceReset", 300, [] {
    cudaStream_t stream;
    cudaEvent_t event;
    int* memory;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaMalloc(&memory, 4));
    add<<<1, 1, 0, stream>>>(memory, 1);
    nothing<<<1, 1, 0, cudaStreamPerThread>>>();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaDeviceReset());
    CHECK(cudaFree(nullptr));
  });
}

// Objects that are younger than cuInit, and live as long as the program, make their calls when the main thread's own
// values are gone.
struct Lasting {
  void* memory = nullptr;
  ~Lasting() {
    CUcontext context;
    CHECK(cuCtxGetCurrent(&context));
    CHECK(cuCtxPushCurrent(context));
    CHECK(cudaFree(memory));
    EXPECT(cudaFree(this) != cudaSuccess, "what is no memory of CUDA was freed");
  }
};

}  // namespace

int main(int count, char** words) {
  if (count > 1) wanted = words[1];
  check::require_gpus(1);
  CHECK(cudaFree(nullptr));
  vmm_loops();
  multicast_loop();
  ordinary_loops();
  stream_loops();
  module_loops();
  reset_loop();
  static Lasting lasting;
  CHECK(cudaMalloc(&lasting.memory, 1));
  EXPECT(failures == 0, "%d loops leave something behind", failures);
  std::puts("OK");
}
