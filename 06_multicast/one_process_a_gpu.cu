// SPDX-License-Identifier: MIT-0
// 06 Multicast, one process a GPU: how does the object get to the others, and when may anybody bind?
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 one_process_a_gpu.cu -o one_process_a_gpu -lcuda
#include "../common/check.h"
#include "../common/multimem.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

constexpr int ranks = 2, n = 256;  // more ranks need another socket, and another meet()
constexpr CUmemAllocationHandleType posix_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// Stores 1, 2, 3 and so on into the replicas of all GPUs.
__global__ void broadcast(uint32_t* mc) {
  ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc + threadIdx.x, threadIdx.x + 1);
}

// Declared here, defined below: what lesson 04 explains.
static void send_object(int socket, size_t size, int fd);
static bool receive_object(int socket, size_t* size, int* fd);
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size, int gpu);

// Tells the other rank "I'm here", and waits until it says the same. If it never will, this process ends.
static void meet(int socket, const char* what) {
  char here = 0;
  const bool met = send(socket, &here, 1, MSG_NOSIGNAL) == 1 && recv(socket, &here, 1, 0) == 1;
  EXPECT(met, "the other rank ended or was silent for 30 s, and had not said that it had %s", what);
}

// What every rank does, each with a GPU of its own. (Rank 1 prints the steps.)
static void take_part(int rank, CUmemGenericAllocationHandle object, size_t size, int socket) {
  const int gpu = rank;
  CHECK(cudaSetDevice(gpu));

  if (rank == 1) step("[3] Add your own GPU, and wait until all have");
  CHECK(cuMulticastAddDevice(object, gpu));
  meet(socket, "added its GPU");

  if (rank == 1) step("[4] Bind your own memory, and map");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  properties.requestedHandleTypes = posix_fd;  // like the object's, though nobody exports it

  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMulticastBindMem(object, 0, memory, 0, size, 0));
  const CUdeviceptr mc = map(object, size, gpu), own = map(memory, size, gpu);
  meet(socket, "bound its memory");  // without it, a store may find no memory on the other GPU

  if (rank == 1) step("[5] Store in one process, read in the other");
  if (rank == 0) {
    broadcast<<<1, n>>>(reinterpret_cast<uint32_t*>(mc));
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
  }
  meet(socket, "stored");
  if (rank == 1) {
    uint32_t found[n];
    CHECK(cudaMemcpy(found, reinterpret_cast<void*>(own), sizeof found, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < n; ++i) EXPECT(found[i] == i + 1, "element %u is %u", i, found[i]);
    say("rank 0 stored %d integers once, and rank 1 finds them in its own memory", n);
  }

  for (const CUdeviceptr address : {mc, own}) {
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  CHECK(cuMulticastUnbind(object, gpu, 0, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemRelease(object));
}

static int rank_0(int socket, pid_t rank_1) {
  check::require_multicast(broadcast);

  step("[1] Create the object in one process, and send it");
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = ranks;      // the GPUs of all processes
  object_properties.handleTypes = posix_fd;  // now or never: the object is to leave this process
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;

  size_t of_memory, of_object;
  CHECK(cuMemGetAllocationGranularity(&of_memory, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  object_properties.size = std::max(of_memory, of_object);  // one granule of each GPU

  CUmemGenericAllocationHandle object;
  CHECK(cuMulticastCreate(&object, &object_properties));
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, object, posix_fd, 0));
  say("for %d GPUs, %zu KiB of each", ranks, object_properties.size >> 10);
  send_object(socket, object_properties.size, fd);
  close(fd);

  take_part(0, object, object_properties.size, socket);
  int status;
  EXPECT(waitpid(rank_1, &status, 0) == rank_1 && status == 0, "rank 1 failed");
  std::puts("OK");
  return 0;
}

static int rank_1(int socket) {
  size_t size;
  int fd;
  if (!receive_object(socket, &size, &fd)) return 0;  // rank 0 has ended, and said why
  check::require_gpus(ranks);

  step("[2] Import it in the other");
  CUmemGenericAllocationHandle object;
  CHECK(cuMemImportFromShareableHandle(&object, reinterpret_cast<void*>(intptr_t(fd)), posix_fd));
  close(fd);
  say("the same object, with a handle of rank 1");
  take_part(1, object, size, socket);
  return 0;
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // two processes, one terminal: print each line at once
  const timeval patience = {30, 0};
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "%s", std::strerror(errno));
  for (const int end : ends) setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);

  const pid_t child = fork();  // before any CUDA call
  EXPECT(child >= 0, "%s", std::strerror(errno));
  close(ends[child ? 1 : 0]);  // each keeps one end, and notices when the other closes
  return child ? rank_0(ends[0], child) : rank_1(ends[1]);
}

// A message: the size, and beside it a file descriptor.
struct Message {
  size_t size = 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
};

static ssize_t pass(int socket, Message* message, bool out) {
  iovec data = {&message->size, sizeof message->size};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = message->control;
  header.msg_controllen = sizeof message->control;
  return out ? sendmsg(socket, &header, MSG_NOSIGNAL) : recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
}

static void send_object(int socket, size_t size, int fd) {
  Message message;
  message.size = size;
  cmsghdr* rights = reinterpret_cast<cmsghdr*>(message.control);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  EXPECT(pass(socket, &message, true) > 0, "to rank 1: %s", std::strerror(errno));
}

// False if the other rank has closed its end.
static bool receive_object(int socket, size_t* size, int* fd) {
  Message message;
  const ssize_t received = pass(socket, &message, false);
  EXPECT(received >= 0, "rank 0 has sent nothing for 30 s: %s", std::strerror(errno));
  if (received == 0) return false;
  const cmsghdr* rights = reinterpret_cast<cmsghdr*>(message.control);
  EXPECT(rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS, "no file descriptor came");
  *size = message.size;
  std::memcpy(fd, CMSG_DATA(rights), sizeof *fd);
  return true;
}

// Reserve, map, let one GPU in: as in lesson 01.
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size, int gpu) {
  CUdeviceptr address;
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, size, size, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}
