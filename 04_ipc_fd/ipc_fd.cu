// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor: an old server hands its weights to a new one, and exits.
// Build it alone:  nvcc -std=c++17 ipc_fd.cu -o ipc_fd -lcuda
#include "../common/check.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

static const CUmemAllocationHandleType posix_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
static const size_t MiB = 1 << 20;

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

__device__ int answer;
__global__ void look_up(const int* weights, size_t i) { answer = weights[i]; }

static void serve(const char* server, CUdeviceptr weights, size_t i) {
  int found;
  look_up<<<1, 1>>>(reinterpret_cast<const int*>(weights), i);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, answer, sizeof found));  // waits for the kernel
  say("%s server: weight %zu is %d", server, i, found);
  EXPECT(found == int(i), "weight %zu is wrong", i);
}

// Reserves addresses, maps the memory there, and lets GPU 0 in: lesson 01.
static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

// Sends the size of the memory, and beside it the file descriptor.
static void send_fd(int socket, int fd, size_t size) {
  iovec data = {&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;

  cmsghdr* cmsg = CMSG_FIRSTHDR(&message);
  cmsg->cmsg_level = SOL_SOCKET;
  cmsg->cmsg_type = SCM_RIGHTS;
  cmsg->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(cmsg), &fd, sizeof fd);
  EXPECT(sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof size, "%s", std::strerror(errno));
}

// Receives one file descriptor, and the size of its memory. Returns -1 if the other process has ended.
static int receive_fd(int socket, size_t* size) {
  int fd;
  iovec data = {size, sizeof *size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)];
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_LEN(sizeof fd);

  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC));
  if (bytes == 0) return -1;
  EXPECT(bytes == sizeof *size, "%s", bytes < 0 ? std::strerror(errno) : "the message has another size");
  EXPECT(!(message.msg_flags & MSG_CTRUNC), "a descriptor was lost: too many came, or none could be opened");

  const cmsghdr* cmsg = CMSG_FIRSTHDR(&message);
  EXPECT(cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS, "no file descriptor came");
  std::memcpy(&fd, CMSG_DATA(cmsg), sizeof fd);
  return fd;
}

static int old_server(int socket) {
  const check::Needed fd_handles = {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                                    "GPU 0 exports no memory as a file descriptor; try Linux on the machine itself"};
  check::require_gpus(1, {check::vmm, fd_handles});
  CHECK(cudaSetDevice(0));
  step("[1] Make memory that may leave");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = posix_fd;  // now or never
  size_t size;
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  const CUdeviceptr weights = map(memory, size);
  const size_t n = size / sizeof(int);
  fill<<<(n + 255) / 256, 256>>>(reinterpret_cast<int*>(weights), n, 0);
  serve("old", weights, 7);

  step("[2] Send it");
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, memory, posix_fd, 0));
  say("old server: file descriptor %d", fd);
  send_fd(socket, fd, size);
  close(fd);

  char ready;
  EXPECT(TEMP_FAILURE_RETRY(recv(socket, &ready, 1, 0)) == 1, "the new server has ended");
  serve("old", weights, 9);  // the last request
  CHECK(cuMemUnmap(weights, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(weights, size));
  return 0;
}

static int wait_for_old_server() {
  int status;
  EXPECT(TEMP_FAILURE_RETRY(wait(&status)) > 0, "%s", std::strerror(errno));
  EXPECT(WIFEXITED(status), "the old server was killed by signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}

static long free_mib() {
  size_t free, total;
  CHECK(cuMemGetInfo(&free, &total));
  return long(free / MiB);
}

static int new_server(int socket) {
  size_t size;
  const int fd = receive_fd(socket, &size);
  if (fd < 0) return wait_for_old_server();  // it has said why
  say("new server: file descriptor %d", fd);

  step("[3] Import it and use it");
  CHECK(cudaSetDevice(0));
  const long before = free_mib();
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), posix_fd));
  const CUdeviceptr weights = map(memory, size);
  say("imported and mapped: %ld MiB taken", before - free_mib());
  serve("new", weights, 8);
  EXPECT(send(socket, "", 1, MSG_NOSIGNAL) == 1, "the old server has ended");  // one byte: I'm ready
  EXPECT(wait_for_old_server() == 0, "the old server has failed");
  step("[4] Outlive the exporter");
  serve("new", weights, 10);

  step("[5] Let go");
  const long mapped = free_mib();
  CHECK(cuMemUnmap(weights, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(weights, size));
  say("unmapped and released: %ld MiB returned", free_mib() - mapped);
  close(fd);
  say("file descriptor closed: %ld MiB returned", free_mib() - mapped);
  EXPECT(free_mib() == mapped + long(size / MiB), "somebody still holds it, or another program uses this GPU");
  std::puts("OK");
  return 0;
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // so that the lines of both processes come in order
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "%s", std::strerror(errno));
  const pid_t child = fork();  // before any call of CUDA
  EXPECT(child >= 0, "%s", std::strerror(errno));
  alarm(60);  // in both: nobody waits longer
  if (child == 0) {
    close(sockets[0]);  // the new server's end
    return old_server(sockets[1]);
  }
  close(sockets[1]);  // the old server's end
  return new_server(sockets[0]);
}
