// SPDX-License-Identifier: MIT-0
// 05 Fabric: 64 bytes, sent in any way you like, let another process use this GPU's memory.
//
// Build it alone:  nvcc -std=c++17 fabric.cu -o fabric -lcuda
#include "../common/check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

// How bytes reach the other process: at the end of this file. Whatever carries bytes will do.
static void send_bytes(const void* bytes, size_t size);
static bool receive_bytes(void* bytes, size_t size);  // false: the other process has ended, or was silent for 30 s

// What the importer has to be told.
struct Shared {
  CUmemFabricHandle handle;  // 64 bytes
  size_t size;               // of the memory: no call tells it from the handle
};

__global__ void add(int* data, size_t n, int value) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += gridDim.x * size_t(blockDim.x))
    data[i] += value;
}

// Lesson 01: reserve, map, let this GPU in.
static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size, int gpu) {
  CUdeviceptr address;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

static void let_go(CUmemGenericAllocationHandle memory, CUdeviceptr address, size_t size) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
}

static void exporter() {
  check::require_gpus(1, {{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                           "GPU 0 has no fabric handles; use a Hopper GPU or a later one, on an NVSwitch"}});
  CHECK(cudaSetDevice(0));

  step("[1] Create memory that may leave the machine");
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  memory_on_gpu.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;  // now or never
  Shared shared;
  CHECK(cuMemGetAllocationGranularity(&shared.size, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  const CUresult created = cuMemCreate(&memory, shared.size, &memory_on_gpu, 0);
  const bool refused = created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE(!refused, "cuMemCreate answers %s; fabric_doctor says what is missing", check::name(created));
  CHECK(created);
  say("%zu KiB on GPU 0", shared.size >> 10);

  step("[2] Export it");
  CHECK(cuMemExportToShareableHandle(&shared.handle, memory, CU_MEM_HANDLE_TYPE_FABRIC, 0));
  say("a fabric handle of %zu bytes", sizeof shared.handle);

  step("[3] Send the bytes");
  const size_t n = shared.size / sizeof(int);
  const CUdeviceptr address = map(memory, shared.size, 0);
  CHECK(cuMemsetD32(address, 20, n));
  CHECK(cudaDeviceSynchronize());  // whoever has the bytes may look
  say("%zu of them, with the size; every int is 20", sizeof shared);
  send_bytes(&shared, sizeof shared);

  char byte;
  EXPECT(receive_bytes(&byte, 1), "the importer ended before it was done, or was silent for 30 s");
  step("[6] See what the other GPU did");
  std::vector<int> host(n);
  CHECK(cuMemcpyDtoH(host.data(), address, shared.size));
  const size_t right = std::count(host.begin(), host.end(), 42);
  EXPECT(right == n, "%zu of %zu ints are 42", right, n);
  say("all %zu ints are 42", n);
  let_go(memory, address, shared.size);
}

static void importer() {
  Shared shared;
  if (!receive_bytes(&shared, sizeof shared)) std::exit(1);  // the exporter has ended, or was silent for 30 s
  const int gpu = check::require_gpus(1) > 1 ? 1 : 0;        // GPU 1 of this machine, if it has one
  CHECK(cudaSetDevice(gpu));

  step("[4] Import them");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemImportFromShareableHandle(&memory, &shared.handle, CU_MEM_HANDLE_TYPE_FABRIC));
  say("%zu KiB, as a handle of the importer", shared.size >> 10);

  step("[5] Use the memory");
  const CUdeviceptr address = map(memory, shared.size, gpu);
  add<<<256, 256>>>(reinterpret_cast<int*>(address), shared.size / sizeof(int), 22);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());  // "done" is not ordered after the kernel, so wait for it
  say("GPU %d added 22 to every int", gpu);
  let_go(memory, address, shared.size);
  send_bytes("", 1);  // done
}

#ifdef FABRIC_WITH_MPI  // two ranks of MPI, on one machine or two
#include "fabric_mpi.h"
#else  // two processes of one machine, and a socket between them
static int other;  // this process's end of the socket; TCP would need no other calls to send and to receive

static void send_bytes(const void* bytes, size_t size) {
  EXPECT(send(other, bytes, size, MSG_NOSIGNAL) == ssize_t(size), "%s", std::strerror(errno));
}

static bool receive_bytes(void* bytes, size_t size) { return recv(other, bytes, size, MSG_WAITALL) == ssize_t(size); }

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // two processes, one terminal: print each line at once
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "%s", std::strerror(errno));
  const pid_t child = fork();  // before any CUDA call
  EXPECT(child >= 0, "%s", std::strerror(errno));
  other = ends[child ? 0 : 1];
  close(ends[child ? 1 : 0]);  // or a process would never hear that the other has ended
  const timeval limit = {30, 0};
  EXPECT(setsockopt(other, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0, "%s", std::strerror(errno));
  if (child == 0) {
    importer();
    return 0;
  }
  exporter();
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT(status == 0, "the importer failed");
  std::puts("OK");
}
#endif
