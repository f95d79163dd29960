// SPDX-License-Identifier: MIT-0
// What a fault of one GPU leaves to the other: in one process, and in another process that shares its memory.
#include "conformance.h"
#include "messages.h"

__global__ void store(int* to, int value) { *to = value; }
__global__ void load(const int* from, int* to) { *to = *from; }
__global__ void trap() { asm volatile("trap;"); }

static int* mine[2];            // of cudaMalloc, on each GPU
static CUdeviceptr of_0, of_1;  // memory of each GPU, open to both
static CUdeviceptr of_0_alone;  // of GPU 0, open to it alone
static CUmemGenericAllocationHandle made_before;

static void set_up() {
  for (int gpu : {1, 0}) CHECK(cudaSetDevice(gpu)), CHECK(cudaMalloc(&mine[gpu], 64));
  for (int gpu : {0, 1}) {
    CUdeviceptr& memory = gpu ? of_1 : of_0;
    memory = reserve(page);
    map_new(memory, page, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, gpu);
    const CUmemAccessDesc other = access_of(1 - gpu);
    CHECK(cuMemSetAccess(memory, page, &other, 1));
  }
  of_0_alone = reserve(page);
  map_new(of_0_alone, page);
  made_before = create(page);
  for (int gpu : {0, 1}) CHECK(cudaSetDevice(gpu)), CHECK(cudaDeviceSynchronize());
}

// Everything that GPU 0 could be used for.
static void ask_gpu_0() {
  say("cudaSetDevice(0)", cudaSetDevice(0));
  say("last error", cudaGetLastError());
  say("synchronize", cudaDeviceSynchronize());
  int* more;
  say("cudaMalloc", cudaMalloc(&more, 64));
  store<<<1, 1>>>(mine[0], 1), say("launch", cudaGetLastError());
  int value = 0;
  say("copy to the host", cudaMemcpy(&value, mine[0], 4, cudaMemcpyDeviceToHost));
  cudaStream_t stream;
  say("a new stream", cudaStreamCreate(&stream));
  size_t now, total;
  say("cuMemGetInfo", cuMemGetInfo(&now, &total));
  CUdeviceptr address = 0;
  say("cuMemAddressReserve", cuMemAddressReserve(&address, page, 0, 0, 0));
  const CUmemAllocationProp properties = on_gpu(0);
  CUmemGenericAllocationHandle handle;
  say("cuMemCreate", cuMemCreate(&handle, page, &properties, 0));
  say("cuMemMap of a handle made before", cuMemMap(address, page, 0, made_before, 0));
  const CUmemAccessDesc descriptor = access_of(0);
  say("cuMemSetAccess", cuMemSetAccess(of_0_alone, page, &descriptor, 1));
  unsigned long long rights = 9;
  const CUmemLocation location = descriptor.location;
  say("cuMemGetAccess", cuMemGetAccess(&rights, &location, of_0_alone));
  say("cuMemRelease", cuMemRelease(made_before));
  say("cuMemUnmap", cuMemUnmap(of_0_alone, page));
  say("cuMemAddressFree", cuMemAddressFree(of_0_alone, page));
  CUcontext context;
  say("another context of GPU 0", cuCtxCreate(&context, nullptr, 0, 0));
}

static void of_gpu_1(const char* what) {
  say(what, cudaDeviceSynchronize());
  ask_gpu_0();
}
#define BY_GPU_1 CHECK(cudaSetDevice(1))

SECTION("GPU 1 stores to null") { BY_GPU_1, store<<<1, 1>>>(nullptr, 1), of_gpu_1("store"); }
SECTION("GPU 1 stores misaligned") { BY_GPU_1, store<<<1, 1>>>((int*)(of_1 + 2), 1), of_gpu_1("store"); }
SECTION("GPU 1 executes a trap") { BY_GPU_1, trap<<<1, 1>>>(), of_gpu_1("trap"); }
SECTION("GPU 1 loads memory of GPU 0 that is not open to it") {
  BY_GPU_1, load<<<1, 1>>>((int*)of_0_alone, mine[1]), of_gpu_1("load");
}
SECTION("GPU 1 stores to memory of GPU 0 that it may read") {
  const CUmemAccessDesc reads = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(cuMemSetAccess(of_0, page, &reads, 1));
  BY_GPU_1, store<<<1, 1>>>((int*)of_0, 1), of_gpu_1("store");
}
SECTION("GPU 1 loads memory of cudaMalloc on GPU 0, without peer access") {
  BY_GPU_1, load<<<1, 1>>>(mine[0], mine[1]), of_gpu_1("load");
}
SECTION("a copy of GPU 1 reads what is unmapped") {
  void* host;
  CHECK(cudaMallocHost(&host, page));
  BY_GPU_1;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaMemcpyAsync(host, (void*)of_1, page, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cuMemUnmap(of_1, page));
  CHECK(cudaGraphLaunch(executable, stream)), of_gpu_1("copy");
}
SECTION("both GPUs are reset after a fault of GPU 1") {
  BY_GPU_1, store<<<1, 1>>>(nullptr, 1), say("store", cudaDeviceSynchronize());
  say("reset of GPU 1", cudaDeviceReset());
  CHECK(cudaSetDevice(0)), say("GPU 0: synchronize", cudaDeviceSynchronize());
  say("reset of GPU 0", cudaDeviceReset());
  int* more;
  for (int gpu : {0, 1}) {
    say("cudaSetDevice(" + std::to_string(gpu) + ")", cudaSetDevice(gpu));
    say("cudaMalloc", cudaMalloc(&more, 64));
    store<<<1, 1>>>(more, 1), say("launch", cudaGetLastError());
    say("synchronize", cudaDeviceSynchronize());
  }
}
SECTION("GPU 0 is at work when GPU 1 faults") {
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, trap));
  CHECK(cudaSetDevice(0));
  void* host;
  CHECK(cudaMallocHost(&host, 256 * MiB));
  void* large;
  CHECK(cudaMalloc(&large, 256 * MiB));
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (int i = 0; i < 24; ++i) CHECK(cudaMemcpyAsync(host, large, 256 * MiB, cudaMemcpyDeviceToHost, stream));
  BY_GPU_1, trap<<<1, 1>>>(), say("GPU 1", cudaDeviceSynchronize());
  say("GPU 0's stream", cudaStreamSynchronize(stream));
}

// Another process has memory of this one: of GPU 0, made here, which it uses on GPU 1. It faults, and this one goes on.
static int importer() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  CHECK(cudaSetDevice(1)), CHECK(cudaFree(nullptr));
  CUmemGenericAllocationHandle handle;
  int fd;
  char byte;
  EXPECT(receive_message(3, &byte, 1, fd), "no message");
  CHECK(cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUdeviceptr address = reserve(page);
  CHECK(cuMemMap(address, page, 0, handle, 0));
  const CUmemAccessDesc reads = access_of(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(cuMemSetAccess(address, page, &reads, 1));
  int value = 0;
  CHECK(cudaMemcpy(&value, (void*)address, 4, cudaMemcpyDeviceToHost));
  say("the importer reads", std::to_string(value));
  store<<<1, 1>>>((int*)address, 6), say("the importer stores by GPU 1", cudaDeviceSynchronize());
  EXPECT(write(3, &byte, 1) == 1 && read(3, &byte, 1) == 1, "the exporter is gone");
  return 0;
}
SECTION("another process faults on GPU 1, in memory of GPU 0 that it imported") {
  const CUmemGenericAllocationHandle handle = create(page, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUdeviceptr address = reserve(page);
  CHECK(cuMemMap(address, page, 0, handle, 0));
  const CUmemAccessDesc both[] = {access_of(0), access_of(1)};
  CHECK(cuMemSetAccess(address, page, both, 2));
  CHECK(cudaSetDevice(0));
  store<<<1, 1>>>((int*)address, 5), CHECK(cudaDeviceSynchronize());
  int peer, fd, value = 0;
  const pid_t child = start_in_role("importer", &peer);
  CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  char byte = 'm';
  EXPECT(send_message(peer, &byte, 1, fd), "no message");
  close(fd);
  EXPECT(read(peer, &byte, 1) == 1, "the importer is gone");
  for (int gpu : {0, 1}) {
    say("this process, on GPU " + std::to_string(gpu), cudaSetDevice(gpu));
    store<<<1, 1>>>((int*)address, 7 + gpu), say("store", cudaDeviceSynchronize());
    say("copy", cudaMemcpy(&value, (void*)address, 4, cudaMemcpyDeviceToHost));
    say("value", std::to_string(value));
  }
  EXPECT(write(peer, &byte, 1) == 1, "the importer is gone");
  say("the importer's end", end_of(child));
  store<<<1, 1>>>((int*)address, 9), say("store", cudaDeviceSynchronize());
}

int main(int argc, char** argv) {
  if (argc == 1) require_peers();
  if (argc > 1 && std::strcmp(argv[1], "importer") == 0) return importer();
  return run_sections(argc, argv, set_up);
}
