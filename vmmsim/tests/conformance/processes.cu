// SPDX-License-Identifier: MIT-0
// Memory of several processes: who holds it, who may import it, and what is left when one of them goes.
#include "conformance.h"

#include <csignal>
#include <cstdint>

#include <fcntl.h>

#include "messages.h"

using Handle = CUmemGenericAllocationHandle;
static const CUmemAllocationHandleType fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr size_t size = 64 * MiB;
static const int timeout = 20;  // seconds

__global__ void store(volatile int* p, int v) { *p = v; }

static int peer;  // the socket to the other process

static void send(char word, int fd = -1) {
  std::fflush(stdout);
  EXPECT(send_message(peer, &word, 1, fd), "nobody is there");
}
static int receive(char word) {
  char got = 0;
  int fd;
  const bool has_come = receive_message(peer, &got, 1, fd);
  EXPECT(has_come && got == word, "waited for '%c', got '%c'", word, got);
  return fd;
}

static std::string end(pid_t child) {
  const std::string how = end_of(child);
  close(peer);
  return how;
}

static size_t before;
static void taken(const std::string& after) { say("taken after " + after, mib((long long)(before - free_bytes()))); }
static int import_and_map(int fd, CUdeviceptr* address) {
  Handle handle;
  if (say("import", cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, fd_type)) != CUDA_SUCCESS) return 0;
  *address = reserve(size);
  CUmemAccessDesc descriptor = access_of(0);
  say("map", cuMemMap(*address, size, 0, handle, 0));
  say("set access", cuMemSetAccess(*address, size, &descriptor, 1));
  CHECK(cuMemRelease(handle));
  return 1;
}
static std::string first(CUdeviceptr address) {
  unsigned value = 0;
  const CUresult answer = cuMemcpyDtoH(&value, address, 4);
  return answer ? check::name(answer) : std::to_string(value);
}

// --- the other process, by its role: 'r' it is ready; it then does as it is told
static void importer() {  // receives an fd, writes through its import, waits to go on
  send('r');
  const int fd = receive('f');
  say("importer: the fd is close-on-exec as received", fcntl(fd, F_GETFD) & FD_CLOEXEC ? "yes" : "no");
  CUdeviceptr address = 0;
  import_and_map(fd, &address);
  close(fd);
  say("importer: reads", first(address));
  store<<<1, 1>>>((int*)address, 77);
  say("importer: stores", cudaDeviceSynchronize());
  std::fflush(stdout);
  send('w');
  receive('g');
  say("importer: reads later", first(address));
  say("importer: unmap", cuMemUnmap(address, size));
}
static void exporter() {  // sends an fd of memory that holds 55, and exits
  Handle handle = create(size, 0, fd_type);
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, handle, fd_type, 0));
  const CUdeviceptr address = reserve(size);
  CUmemAccessDesc descriptor = access_of(0);
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &descriptor, 1));
  CHECK(cuMemsetD32(address, 55, size / 4));
  CHECK(cuCtxSynchronize());
  send('f', fd);
  receive('g');
}
static void holder() {  // takes memory, and waits to be killed
  create(size);
  send('r');
  receive('g');
}

static void parent() {
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, store));

  section("import in another process");
  pid_t child = start_in_role("importer", &peer);
  receive('r');
  before = free_bytes();
  Handle handle = create(size, 0, fd_type);
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, handle, fd_type, 0));
  CUdeviceptr address = reserve(size);
  CUmemAccessDesc descriptor = access_of(0);
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &descriptor, 1));
  CHECK(cuMemsetD32(address, 33, size / 4));
  CHECK(cuCtxSynchronize());
  taken("create, map and export");
  send('f', fd);
  close(fd);
  receive('w');
  say("exporter: reads", first(address));
  taken("import and map in the other process");
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(address, size));
  taken("the exporter let go");
  send('g');
  say("importer", end(child));

  section("the exporter exits");
  before = free_bytes();
  child = start_in_role("exporter", &peer);
  fd = receive('f');
  send('g');
  say("exporter", end(child));
  taken("the exporter exited, fd open");
  if (import_and_map(fd, &address)) {
    say("reads", first(address));
    close(fd);
    taken("close of the fd, mapped");
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  taken("unmap");

  section("the exporter is killed");
  before = free_bytes();
  child = start_in_role("exporter", &peer);
  fd = receive('f');
  kill(child, SIGKILL);
  say("exporter", end(child));
  if (import_and_map(fd, &address)) {
    say("reads", first(address));
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  taken("unmap, fd open");
  close(fd);
  taken("close of the fd");

  section("a process is killed that holds memory");
  before = free_bytes();
  child = start_in_role("holder", &peer);
  receive('r');
  kill(child, SIGKILL);
  say("holder", end(child));
  taken("its death");

  section("an fd sent and never received");
  before = free_bytes();
  handle = create(size, 0, fd_type);
  CHECK(cuMemExportToShareableHandle(&fd, handle, fd_type, 0));
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "no socket");
  peer = ends[0];
  send('f', fd);
  close(fd);
  CHECK(cuMemRelease(handle));
  taken("release, the fd in the socket");
  peer = ends[1];
  fd = receive('f');
  CHECK(cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)fd, fd_type));
  peer = ends[0];
  send('f', fd);
  close(fd);
  CHECK(cuMemRelease(handle));
  taken("one import later, the fd in the socket again");
  close(ends[0]);
  close(ends[1]);
  taken("close of the socket");

  section("import in a process, by the fd's number in another");
  handle = create(size, 0, fd_type);
  CHECK(cuMemExportToShareableHandle(&fd, handle, fd_type, 0));
  fcntl(fd, F_SETFD, 0);  // this one is inherited
  say("import of an inherited fd", run_again("inherited", std::to_string(fd)));
  close(fd);
  CHECK(cuMemRelease(handle));

  section("fork after cuInit");
  std::fflush(stdout);
  child = fork();
  if (child == 0) {
    alarm(timeout);
    int count;
    CUdevice device;
    CUcontext context;
    size_t total;
    CUmemAllocationProp properties = on_gpu(0);
    void* pointer;
    say("cuInit", cuInit(0));
    say("cuDriverGetVersion", cuDriverGetVersion(&count));
    say("cuDeviceGetCount", cuDeviceGetCount(&count));
    say("cuDeviceGet", cuDeviceGet(&device, 0));
    say("cuCtxGetCurrent", cuCtxGetCurrent(&context));
    say("cuMemGetInfo", cuMemGetInfo(&total, &total));
    say("cuMemAddressReserve", cuMemAddressReserve(&address, page, 0, 0, 0));
    say("cuMemCreate", cuMemCreate(&handle, page, &properties, 0));
    say("cuCtxSynchronize", cuCtxSynchronize());
    say("cudaGetDeviceCount", cudaGetDeviceCount(&count));
    say("cudaSetDevice", cudaSetDevice(0));
    say("cudaMalloc", cudaMalloc(&pointer, 4));
    say("cudaDeviceSynchronize", cudaDeviceSynchronize());
    say("cudaGetLastError", cudaGetLastError());
    std::fflush(stdout);
    _exit(0);
  }
  say("child", end_of(child));
  say("the parent goes on", cudaDeviceSynchronize());
  std::printf("OK\n");
}

int main(int argc, char** argv) {
  alarm(3 * timeout);
  const std::string role = argc > 1 ? argv[1] : "";
  if (role.empty()) {
    check::require_gpus(1);
    parent();
    return 0;
  }
  CHECK(cuInit(0));
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, store));
  peer = 3;
  if (role == "importer") importer();
  if (role == "exporter") exporter();
  if (role == "holder") holder();
  if (role == "inherited") {
    Handle handle;
    say("import", cuMemImportFromShareableHandle(&handle, (void*)(intptr_t)atoi(argv[2]), fd_type));
  }
  return 0;
}
