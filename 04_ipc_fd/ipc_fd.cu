// SPDX-License-Identifier: MIT-0
//
// 04 IPC by file descriptor: how does a process use GPU memory that another process made?
//
// The maker exports the allocation as a file descriptor and sends that through a Unix socket; the receiver imports it,
// maps it and grants itself access. Here a parent starts workers in a ring, each writes its neighbour's memory, and at
// the end memory outlives the process that made it. Needs Linux and one GPU; workers share the GPUs there are.
//
// Build it alone:  nvcc -std=c++17 ipc_fd.cu -o ipc_fd -lcuda
#include "../common/check.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: ipc_fd [--workers N] [--granules N] [--timeout S]\n"
    "  --workers N    processes in the ring, 2 to 16 (default 2)\n"
    "  --granules N   memory of each worker, in units of the granularity, 1 to 512 (default 1)\n"
    "  --timeout S    seconds that the parent waits for a worker at each barrier, 1 to 3600 (default 10)\n";

// The barriers, in order, and what a worker has to do before each. It reports to the parent, and waits until all have.
// Instead of reporting, the last worker exits at LEFT and the others at END.
enum Stage { GATE, READY, COUNTED, SENT, WRITTEN, CHECKED, UNMAPPED, RECOUNTED, LENT, BORROWED, LEFT, RETURNED, END };
static const char* const duties[] = {"pass the gate",
                                     "take its GPU",
                                     "count free memory",
                                     "send its memory",
                                     "write its neighbour's memory",
                                     "check its own memory",
                                     "tear down",
                                     "count free memory again",
                                     "lend memory",
                                     "borrow memory",
                                     "let the exporter exit",
                                     "return what it borrowed",
                                     "exit"};

// Every message: to the parent "I am there", from the parent "go on", and to a neighbour "here is memory". The last
// carries one file descriptor, and says what that does not tell: the size, and on which GPU the memory is.
struct Message {
  uint64_t magic, stage, size;
  CUuuid gpu;
};
static const uint64_t magic = 0x34206f7370697631;
static const char silent[] = "stayed silent", closed[] = "closed its socket", nonsense[] = "sent nonsense";

// Returns false if it cannot be sent. To a receiver that has died it can: the parent finds that out, and names it.
static bool send_message(int socket, Message message, int fd = -1) {
  iovec data = {&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr header = {};
  header.msg_iov = &data, header.msg_iovlen = 1;  // a descriptor travels only with at least one byte of data
  if (fd >= 0) {
    header.msg_control = control, header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  const ssize_t bytes = TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT));
  return bytes == sizeof message || (bytes < 0 && (errno == EPIPE || errno == ECONNRESET));
}

// Receives the message that is due at this stage, and with it one file descriptor if `fd` asks for that; the size must
// be a multiple of `unit`. Nobody waits for an offer of memory: it is sent before a barrier and received after it.
// Returns nullptr, or what the sender did wrong; in that case no descriptor stays open.
static const char* receive_message(int socket, int stage, Message* message, int* fd = nullptr, size_t unit = 1) {
  iovec data = {message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &data, header.msg_iovlen = 1;
  header.msg_control = control, header.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE has room for a second one
  const int flags = MSG_CMSG_CLOEXEC | MSG_TRUNC | (fd ? MSG_DONTWAIT : 0);
  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &header, flags));
  if (bytes < 0) return errno == EAGAIN ? silent : errno == ECONNRESET ? closed : strerror(errno);
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  int received = -1;
  if (rights && rights->cmsg_type == SCM_RIGHTS) std::memcpy(&received, CMSG_DATA(rights), sizeof received);
  const char* wrong = nullptr;
  if (bytes == 0) wrong = closed;
  else if (bytes != sizeof *message) wrong = "sent a message of the wrong length";
  else if (message->magic != magic || message->stage != uint64_t(stage)) wrong = nonsense;
  else if (header.msg_flags & MSG_CTRUNC) wrong = "sent more file descriptors than could be received";
  else if (fd && received < 0) wrong = "sent no file descriptor";
  else if (!fd && received >= 0) wrong = "sent a file descriptor that nobody asked for";
  else if (message->size % unit || (fd && !message->size)) wrong = "sent a size that is not whole granules";
  if (!wrong && fd) *fd = received;
  if (wrong && received >= 0) close(received);
  return wrong;
}

// A worker's side of a barrier.
static void barrier(int control, Stage stage) {
  std::fflush(stdout);  // what was said before a barrier comes before what anyone says after it
  Message message = {magic, uint64_t(stage), 0, {}};
  EXPECT(send_message(control, message), "to the parent: %s", strerror(errno));
  const char* wrong = receive_message(control, stage, &message);
  EXPECT(!wrong, "the parent %s; had to %s", wrong, duties[stage]);
}

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) data[i] = 2654435761u * i + seed;
}

// Returns when the kernel is done: only then may another process be told that the data is there.
static void fill_and_wait(CUdeviceptr data, size_t size, unsigned seed) {
  fill<<<256, 256>>>(reinterpret_cast<unsigned*>(data), size / sizeof(unsigned), seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

static void check_all(CUdeviceptr data, size_t size, unsigned seed) {
  std::vector<unsigned> host(size / sizeof(unsigned), ~seed);
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(data), size, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT(host[i] == unsigned(2654435761u * i + seed), "element %zu is 0x%x, not of seed %u", i, host[i], seed);
}

static size_t free_on(CUdevice gpu) {
  size_t free_now, total;
  CHECK(cudaSetDevice(gpu));
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

// Lesson 01 in short: addresses, mapping, access. It is the same for memory made here and for memory imported.
static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size, CUmemLocation user) {
  CUmemAccessDesc descriptor = {};
  descriptor.location = user;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &descriptor, 1));
  return address;
}

static void unmap_and_release(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle memory) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
}

struct Worker {
  pid_t pid;
  int control;
};  // pid 0: it has left, or never began

static bool reap(pid_t pid, int* status, long seconds) {
  for (long i = seconds * 1000; i >= 0; --i, usleep(1000))
    if (waitpid(pid, status, WNOHANG) == pid) return true;
  return false;
}

// The parent's side of a barrier, for one worker: 0 when it has reported, or exited where it should. Otherwise says
// what it did instead and returns 1; or returns 77, when the worker itself has said that this machine cannot.
static int await(Worker& worker, int rank, int stage, bool exits, long timeout) {
  Message message;
  const char* heard = receive_message(worker.control, stage, &message);
  if (!heard && !exits) return 0;
  std::string wrong = heard ? heard : nonsense;
  int status;
  if (heard == closed && reap(worker.pid, &status, timeout)) {
    worker.pid = 0;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    if (status == 0 && exits) return 0;
    if (WIFEXITED(status) && code == 77 && rank == 0 && stage == GATE) return 77;
    wrong = WIFEXITED(status) ? "exited with status " + std::to_string(code)
                              : "was killed by signal " + std::to_string(code) + " (" + strsignal(code) + ")";
  }
  std::fprintf(stderr, "ipc_fd: worker %d %s; it had to %s\n", rank, wrong.c_str(), duties[stage]);
  return 1;
}

static int supervise(char* program, int count, long granules, long timeout) {
  // [1] Start the workers
  // The parent never touches CUDA: what CUDA sets up in a process does not work in a child forked from it. So each
  // worker is a fresh program, by fork and exec of this very file, and inherits three sockets and nothing else.
  std::printf("[1] Start the workers\n    %d processes, each by fork and exec\n", count);
  std::fflush(stdout);
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  struct Pair {
    int end[2];
  };
  std::vector<Pair> control(count), ring(count);  // parent [0] to worker [1]; worker [0] to the next worker [1]
  for (std::vector<Pair>* pairs : {&control, &ring})
    for (Pair& pair : *pairs)
      EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.end), "%s", strerror(errno));
  const timeval limits[] = {{timeout, 0}, {timeout * (count + 1), 0}};  // the parent may wait for all, a worker for it
  for (Pair& pair : control)
    for (int i : {0, 1}) setsockopt(pair.end[i], SOL_SOCKET, SO_RCVTIMEO, &limits[i], sizeof limits[i]);
  std::vector<Worker> workers;
  int status = 0;
  for (int rank = 0; rank < count; ++rank) {
    const int sockets[] = {control[rank].end[1], ring[(rank + count - 1) % count].end[1], ring[rank].end[0]};
    const pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);              // no worker outlives the parent,
      if (getppid() != parent) _exit(1);             // not even one whose parent was gone before that call
      for (int fd : sockets) fcntl(fd, F_SETFD, 0);  // every other descriptor closes on exec
      auto text = [](int number) { return std::to_string(number); };
      execl("/proc/self/exe", program, "--rank", text(rank).c_str(), "--workers", text(count).c_str(), "--granules",
            text(granules).c_str(), "--control", text(sockets[0]).c_str(), "--previous", text(sockets[1]).c_str(),
            "--next", text(sockets[2]).c_str(), nullptr);
      _exit(127);
    }
    workers.push_back({pid > 0 ? pid : 0, control[rank].end[0]});
    if (pid < 0) std::fprintf(stderr, "ipc_fd: cannot start worker %d: %s\n", rank, strerror(errno)), status = 1;
  }
  for (Pair& pair : control) close(pair.end[1]);
  for (Pair& pair : ring) close(pair.end[0]), close(pair.end[1]);

  for (int stage = GATE; stage <= END && status == 0; ++stage) {
    for (int rank = 0; rank < count && status == 0; ++rank) {
      const bool exits = stage == (rank == count - 1 ? LEFT : END);
      if (workers[rank].pid) status = await(workers[rank], rank, stage, exits, timeout);
    }
    for (Worker& worker : workers)
      if (worker.pid && status == 0) send_message(worker.control, {magic, uint64_t(stage), 0, {}});
  }
  for (Worker& worker : workers) {  // on an error some are left, and nobody stays behind
    int killed;
    if (worker.pid) kill(worker.pid, SIGKILL), reap(worker.pid, &killed, 10);
    close(worker.control);
  }
  if (status == 0) std::printf("OK\n");
  return status;
}

static int work(int rank, int workers, long granules, int control, int previous, int next) {
  for (int fd : {control, previous, next}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  // Worker 0 tells the story, and the barriers keep it true for all: what it says after one, each worker has done.
  EXPECT(rank == 0 || std::freopen("/dev/null", "w", stdout), "%s", strerror(errno));

  // [2] Pass one gate for all
  // Worker 0 asks for every worker's GPU before the others touch CUDA: a machine that cannot do this says so once.
  // A worker on another GPU than its neighbour must be able to reach it, as in lesson 03.
  int gpus;
  if (rank == 0) {
    std::printf("[2] Pass one gate for all\n");
    gpus = check::require_gpus(1);
    for (int i = 0; i < workers; ++i) {
      const CUdevice gpu = i % gpus, user = (i + 1) % workers % gpus;
      int vmm, descriptors, reached = 1;
      CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
      CHECK(cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, gpu));
      REQUIRE(vmm, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU that passes it on", gpu);
      REQUIRE(descriptors, "GPU %d exports no memory as a file descriptor; use Linux on bare metal", gpu);
      if (user != gpu) CHECK(cuDeviceCanAccessPeer(&reached, user, gpu));
      REQUIRE(reached, "GPU %d cannot reach GPU %d; set CUDA_VISIBLE_DEVICES to one GPU, for all workers", user, gpu);
    }
    std::printf("    virtual memory management and file descriptor handles: supported\n");
    std::printf("    visible GPUs: %d; worker R takes GPU R modulo that number\n", gpus);
  }
  barrier(control, GATE);
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&gpus));
  const CUdevice gpu = rank % gpus;  // to the driver and to the runtime a GPU is its number
  CHECK(cudaSetDevice(gpu));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  barrier(control, READY);  // contexts and kernels take memory: all are there before any worker counts what is free
  const size_t free_at_start = free_on(gpu);
  barrier(control, COUNTED);

  // [3] Export memory and pass it on
  // Memory is created as exportable, or never is. The message tells the size and the GPU, the latter by UUID: under
  // another CUDA_VISIBLE_DEVICES the same number is another GPU. Closing the fd here leaves the copy in the socket.
  std::printf("[3] Export memory and pass it on\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  size_t granularity;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t size = granules * granularity;
  CUmemGenericAllocationHandle own, imported;
  CUdeviceptr own_address, address;
  Message offer;
  int fd;
  auto lend = [&](Stage stage, unsigned seed) {
    CHECK(cuMemCreate(&own, size, &properties, 0));
    own_address = map(own, size, properties.location);
    fill_and_wait(own_address, size, seed);
    offer = {magic, uint64_t(stage), size, {}};
    CHECK(cuDeviceGetUuid(&offer.gpu, gpu));
    CHECK(cuMemExportToShareableHandle(&fd, own, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    EXPECT(send_message(next, offer, fd), "to the next worker: %s", strerror(errno));
    close(fd);
  };
  const unsigned poison = 1000, parting = 2000;  // seeds of data; what a worker writes in the ring has its rank as seed
  lend(SENT, poison);
  barrier(control, SENT);
  std::printf("    %zu KiB each, poisoned, sent as a file descriptor to the next worker\n", size >> 10);

  // [4] Import it and map it
  // The import is a handle of this process to the same memory, and needs the fd no longer than the call takes.
  std::printf("[4] Import it and map it\n");
  CUdevice home = -1;  // the GPU of the imported memory, by its number in this process
  auto borrow = [&](Stage stage) {
    const char* wrong = receive_message(previous, stage, &offer, &fd, granularity);
    EXPECT(!wrong, "worker %d %s", (rank + workers - 1) % workers, wrong);
    CUuuid uuid;
    for (CUdevice i = 0; i < gpus; ++i) {
      CHECK(cuDeviceGetUuid(&uuid, i));
      if (!std::memcmp(&uuid, &offer.gpu, sizeof uuid)) home = i;
    }
    EXPECT(home >= 0, "the memory is on a GPU that this process does not see");
    CHECK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(fd)),  // the fd, not &fd
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    address = map(imported, offer.size, properties.location);
  };
  borrow(SENT);
  close(fd);
  std::printf("    %zu KiB of the previous worker, open to this worker's GPU; the fd is closed\n", offer.size >> 10);

  // [5] Write the neighbour's memory
  // Streams and events order the work of one process. Between processes somebody has to wait: here each worker waits
  // for its kernel, and then all wait for each other.
  std::printf("[5] Write the neighbour's memory\n");
  fill_and_wait(address, offer.size, rank);
  barrier(control, WRITTEN);
  check_all(own_address, size, (rank + 1) % workers);
  barrier(control, CHECKED);
  std::printf("    every element of every worker's memory is what its neighbour wrote\n");

  // [6] See what is refused
  std::printf("[6] See what is refused\n");
  const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp plain_properties = properties;
  plain_properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
  CUmemGenericAllocationHandle plain;
  CHECK(cuMemCreate(&plain, size, &plain_properties, 0));
  std::printf("    exporting memory that was not created for it\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, plain, type, 0));
  CHECK(cuMemRelease(plain));
  std::printf("    exporting what was imported\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, imported, type, 0));
  std::printf("    the interprocess call of cudaMalloc's memory\n");
  cudaIpcMemHandle_t older;
  REFUSED(cudaErrorInvalidValue, cudaIpcGetMemHandle(&older, reinterpret_cast<void*>(own_address)));
  cudaGetLastError();  // the runtime keeps that error for whoever asks next: take it away

  // [7] Tear down the ring
  // Memory returns when the last process has let go of it, so all let go before any counts.
  std::printf("[7] Tear down the ring\n");
  unmap_and_release(address, offer.size, imported);
  unmap_and_release(own_address, size, own);
  barrier(control, UNMAPPED);
  const size_t free_now = free_on(gpu);
  EXPECT(free_now == free_at_start, "%zu bytes are free, %zu were at the start (does another program use this GPU?)",
         free_now, free_at_start);
  barrier(control, RECOUNTED);
  std::printf("    free memory is what it was at the start, on every worker's GPU\n");

  // [8] Outlive the exporter
  // Every handle, mapping and open fd holds the memory, whichever process has it. The last worker lends memory to
  // worker 0 once more, lets go of its own references and exits. Then worker 0 gives up one of its own after the other.
  std::printf("[8] Outlive the exporter\n");
  const bool lender = rank == workers - 1;
  if (lender) lend(LENT, parting);
  barrier(control, LENT);
  if (rank == 0) borrow(LENT);
  barrier(control, BORROWED);
  if (lender) {
    unmap_and_release(own_address, size, own);
    std::exit(0);
  }
  barrier(control, LEFT);  // nobody passes before the lender has exited
  if (rank == 0) {
    check_all(address, offer.size, parting);
    std::printf("    the exporter has let go and exited: every element is still there\n");
    unmap_and_release(address, offer.size, imported);
    const size_t with_fd = free_on(home);
    close(fd);
    const size_t returned = free_on(home) - with_fd;
    EXPECT(returned == offer.size, "%zu bytes returned with the last reference, not %zu", returned, offer.size);
    std::printf("    unmapped and released, and the open fd alone held the memory\n");
    std::printf("    the fd closed: %zu KiB returned\n", returned >> 10);
  }
  barrier(control, RETURNED);
  return 0;
}

int main(int argc, char** argv) {
  long workers = 2, granules = 1, timeout = 10, rank = -1, control = -1, previous = -1, next = -1;
  check::arguments(argc, argv, usage,
                   {{"--workers", &workers, 2, 16},
                    {"--granules", &granules, 1, 512},
                    {"--timeout", &timeout, 1, 3600},
                    {"--rank", &rank, 0, 15},
                    {"--control", &control, 0, 1 << 20},
                    {"--previous", &previous, 0, 1 << 20},
                    {"--next", &next, 0, 1 << 20}});  // the last four: parent to worker
  return rank < 0 ? supervise(argv[0], workers, granules, timeout)
                  : work(rank, workers, granules, control, previous, next);
}
