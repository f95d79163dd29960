// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor: how does a process hand its GPU memory to another one, and exit?
//
// Build it alone:  nvcc -std=c++17 ipc_fd.cu -o ipc_fd -lcuda
#include "../common/check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <vector>

static void send_memory(int socket, int fd, size_t size);
static void receive_memory(int socket, int* fd, size_t* size);
static const CUmemAllocationHandleType posix_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

__device__ int index() { return blockIdx.x * blockDim.x + threadIdx.x; }
__global__ void count_up(int* data) { data[index()] = index(); }
__global__ void add_one(int* data) { data[index()] += 1; }

static void expect_index_plus(int more, CUdeviceptr data, size_t size) {  // number i must be i + more
  std::vector<int> host(size / sizeof(int));
  CHECK(cuMemcpyDtoH(host.data(), data, size));
  for (size_t i = 0; i < host.size(); ++i) EXPECT(host[i] == int(i) + more, "number %zu is %d", i, host[i]);
}

static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size) {  // lesson 01: reserve, map, give access
  CUdeviceptr address;
  CUmemAccessDesc gpu_0 = {};
  gpu_0.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  gpu_0.location.id = 0;
  gpu_0.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &gpu_0, 1));
  return address;
}

static void unmap_and_release(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle memory) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
}

static int exporter(int socket) {
  const check::Needed fd_handles = {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                    "GPU 0 exports no memory as a file descriptor; try Linux on the machine itself"};
  check::require_gpus(1, {check::vmm, fd_handles});
  CHECK(cudaSetDevice(0));

  step("[2] Create memory that may leave");
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  memory_on_gpu.requestedHandleTypes = posix_fd;  // now or never
  size_t size;
  CHECK(cuMemGetAllocationGranularity(&size, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
  const CUdeviceptr address = map(memory, size);
  count_up<<<size / sizeof(int) / 256, 256>>>(reinterpret_cast<int*>(address));
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());  // nobody hears of the memory before the numbers are in it
  say("%zu KiB on GPU 0, with the numbers 0, 1, 2, ...", size >> 10);

  step("[3] Export it and send it");
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, memory, posix_fd, 0));
  say("here it is file descriptor %d", fd);
  send_memory(socket, fd, size);
  close(fd);
  char turn;
  EXPECT(recv(socket, &turn, 1, 0) == 1, "the importer has ended");

  step("[6] Look, and exit");
  expect_index_plus(1, address, size);
  say("the exporter sees 1, 2, 3, ...");
  unmap_and_release(address, size, memory);
  return 0;
}

// Returns when the exporter has ended well. If it has not, this process ends as well, with the same status.
static void wait_for_exporter() {
  int status;
  EXPECT(wait(&status) > 0, "%s", std::strerror(errno));
  EXPECT(WIFEXITED(status), "the exporter was killed by signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) std::exit(WEXITSTATUS(status));  // it has said why
}

static size_t free_memory() {
  size_t free, total;
  CHECK(cuMemGetInfo(&free, &total));
  return free;
}

static int importer(int socket) {
  int fd;
  size_t size;
  receive_memory(socket, &fd, &size);
  CHECK(cudaSetDevice(0));

  step("[4] Import it");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), posix_fd));
  say("here it is file descriptor %d, and now a handle", fd);

  step("[5] Map it and use it");
  const CUdeviceptr address = map(memory, size);
  add_one<<<size / sizeof(int) / 256, 256>>>(reinterpret_cast<int*>(address));
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  say("a kernel of the importer adds 1 to every number");
  EXPECT(send(socket, "", 1, MSG_NOSIGNAL) == 1, "the exporter has ended");  // one byte: your turn
  wait_for_exporter();
  step("[7] Outlive the exporter");
  expect_index_plus(1, address, size);
  say("its process has ended, and the numbers are still there");

  step("[8] Let go");
  const size_t before = free_memory();
  unmap_and_release(address, size, memory);
  const size_t released = free_memory();
  say("unmapped and released: %zu KiB returned", (released - before) >> 10);
  close(fd);  // much too late, on purpose: close yours after the import
  const size_t closed = free_memory();
  say("file descriptor closed: %zu KiB returned", (closed - released) >> 10);
  EXPECT(released == before && closed == before + size, "does another program use this GPU?");
  std::puts("OK");
  return 0;
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that the lines of both processes come in order
  step("[1] Fork before any CUDA call");
  say("the child will export, the parent import");
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0, "%s", std::strerror(errno));
  const pid_t child = fork();
  EXPECT(child >= 0, "%s", std::strerror(errno));
  alarm(60);  // in both: nobody waits longer
  if (child == 0) close(sockets[0]);
  if (child == 0) return exporter(sockets[1]);
  close(sockets[1]);
  return importer(sockets[0]);
}

// The message is the size of the memory. The file descriptor travels beside it, in a control message.
static void send_memory(int socket, int fd, size_t size) {
  iovec data = {&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* beside = CMSG_FIRSTHDR(&message);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(beside), &fd, sizeof fd);
  EXPECT(sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof size, "%s", std::strerror(errno));
}

static void receive_memory(int socket, int* fd, size_t* size) {
  iovec data = {size, sizeof *size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof *fd)];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  EXPECT(bytes >= 0, "%s", std::strerror(errno));
  if (bytes == 0) wait_for_exporter();  // its socket is closed
  const cmsghdr* beside = CMSG_FIRSTHDR(&message);
  EXPECT(bytes == sizeof *size && beside && beside->cmsg_type == SCM_RIGHTS, "no memory came");
  std::memcpy(fd, CMSG_DATA(beside), sizeof *fd);
}
