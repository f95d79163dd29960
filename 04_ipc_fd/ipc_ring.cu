// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor, with several processes: who notices which of them hangs?
//
// A parent starts workers and joins them in a ring. Each sends its memory to the next worker, as in ipc_fd.cu, and
// writes the memory of the previous one. The parent is their barrier, and names a worker that dies, stays silent or
// does something else. Worker R takes GPU R; with fewer GPUs than workers they share.
//
// Build it alone:  nvcc -std=c++17 ipc_ring.cu -o ipc_ring -lcuda
#include "../common/check.h"

#include <array>
#include <cerrno>
#include <chrono>
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
    "usage: ipc_ring [--workers N] [--granules N] [--timeout S] [--hang R]\n"
    "  --workers N    processes in the ring, 2 to 16 (default 2)\n"
    "  --granules N   memory of each worker, in units of the granularity, 1 to 512 (default 1)\n"
    "  --timeout S    seconds that the parent waits for a worker at each barrier, 1 to 3600 (default 10)\n"
    "  --hang R       stop worker R before it writes, and see who is blamed (default: none)\n";

// The barriers: what a worker has to do before it reports to the parent and waits for all. At END it exits instead.
// Between two barriers no worker waits for another: what it needs of a neighbour was there before the first of the two.
enum Stage { SUPPORTED, READY, COUNTED, SENT, WRITTEN, CHECKED, UNMAPPED, RECOUNTED, END };
static const char* const duties[] = {"check support",   "take its GPU",           "count free memory",
                                     "send its memory", "write to its neighbour", "check its memory",
                                     "tear down",       "recount free memory",    "exit"};

// Every message: to the parent "I am there", from the parent "go on", and to a neighbour "here is memory". The last
// carries one file descriptor, and tells what that does not: the size, and on which GPU the memory is.
struct Message {
  uint64_t stage;
  uint64_t size = 0;
  CUuuid gpu = {};  // and not its number: under another CUDA_VISIBLE_DEVICES the same number is another GPU
};
static const char silent[] = "stayed silent", closed[] = "closed its socket", nonsense[] = "sent nonsense";

// That the receiver has died is no error here: the parent finds that out, and names it.
static void send_message(int socket, Message message, int fd = -1) {
  iovec data = {&message, sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  const ssize_t bytes = TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT));
  EXPECT(bytes > 0 || errno == EPIPE || errno == ECONNRESET, "to another process: %s", strerror(errno));
}

// Returns nullptr, or what the sender did wrong; in that case no file descriptor stays open. One has to come if `fd` is
// given, and else none. Nobody waits for an offer of memory: it was sent before the last barrier.
static const char* receive_message(int socket, int stage, Message* message, int* fd = nullptr, size_t unit = 1) {
  iovec data = {message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE is rounded up, and has room for a second one
  const int flags = MSG_CMSG_CLOEXEC | MSG_TRUNC | (fd ? MSG_DONTWAIT : 0);
  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &header, flags));
  if (bytes < 0) return errno == EAGAIN ? silent : errno == ECONNRESET ? closed : strerror(errno);
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  int received = -1;
  if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
    std::memcpy(&received, CMSG_DATA(rights), sizeof received);
  const char* wrong = nullptr;
  if (bytes == 0 && received < 0) wrong = closed;
  else if (bytes != sizeof *message || message->stage != uint64_t(stage)) wrong = nonsense;
  else if ((received >= 0) != bool(fd) || header.msg_flags & MSG_CTRUNC) wrong = "sent the wrong number of descriptors";
  else if (fd && (!message->size || message->size % unit)) wrong = "sent a size that is not whole granules";
  if (!wrong && fd) *fd = received;
  if (wrong && received >= 0) close(received);
  return wrong;
}

// A worker's side of a barrier.
static void barrier(int control, Stage stage) {
  send_message(control, {uint64_t(stage)});
  Message message;
  const char* wrong = receive_message(control, stage, &message);
  EXPECT(!wrong, "the parent %s; had to %s", wrong, duties[stage]);
}

__global__ void fill(unsigned* data, unsigned seed) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  data[i] = 2654435761u * i + seed;
}

// Returns when the kernel is done: only then may another process be told that the data is there.
static void fill_and_wait(CUdeviceptr data, size_t size, unsigned seed) {
  fill<<<size / sizeof(unsigned) / 256, 256>>>(reinterpret_cast<unsigned*>(data), seed);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}

static void check_all(CUdeviceptr data, size_t size, unsigned seed) {
  std::vector<unsigned> host(size / sizeof(unsigned), ~seed);
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(data), size, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT(host[i] == unsigned(2654435761u * i + seed), "element %zu is 0x%x, not of seed %u", i, host[i], seed);
}

static CUdeviceptr map(CUmemGenericAllocationHandle memory, size_t size, CUmemLocation user) {
  CUmemAccessDesc access = {};
  access.location = user;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

static void unmap_and_release(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle memory) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
}

// How this process has ended; waits for that. -1 if it has not ended in time.
static int reap(pid_t pid, long seconds) {
  int status;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  do {
    if (waitpid(pid, &status, WNOHANG) == pid) return status;
    usleep(1000);  // a signal makes it shorter
  } while (std::chrono::steady_clock::now() < limit);
  return -1;
}

// The parent's side of a barrier, for one worker: 0 when it has reported, or exited at END. Otherwise says what it did
// instead and returns 1; or returns 77, when the worker itself has said that this machine cannot.
static int await(pid_t& pid, int socket, int rank, int stage, long timeout) {
  Message message;
  const char* heard = receive_message(socket, stage, &message);
  if (!heard && stage != END) return 0;
  std::string wrong = heard ? heard : nonsense;
  const int status = heard == closed ? reap(pid, timeout) : -1;
  if (status >= 0) {
    pid = 0;
    if (status == 0 && stage == END) return 0;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
    if (WIFEXITED(status) && code == 77 && rank == 0 && stage == SUPPORTED) return 77;
    wrong = WIFEXITED(status) ? "exited with status " + std::to_string(code)
                              : "was killed by signal " + std::to_string(code) + " (" + strsignal(code) + ")";
  }
  std::fprintf(stderr, "ipc_ring: worker %d %s; it had to %s\n", rank, wrong.c_str(), duties[stage]);
  return 1;
}

static int supervise(char* program, int count, long granules, long timeout, long hang) {
  step("[1] Start the workers");
  // A worker becomes a fresh program, by exec of this very file, with three sockets: to the parent and both neighbours.
  say("%d processes, each by fork and exec", count);
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  std::vector<std::array<int, 2>> control(count), ring(count);  // parent [0] to worker [1]; worker [0] to the next [1]
  for (auto* pairs : {&control, &ring})
    for (auto& pair : *pairs)
      EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), "%s", strerror(errno));
  const timeval limits[] = {{timeout, 0}, {timeout * (count + 1), 0}};  // the parent may wait for all, a worker for it
  for (auto& pair : control)
    for (int i : {0, 1}) setsockopt(pair[i], SOL_SOCKET, SO_RCVTIMEO, &limits[i], sizeof limits[i]);
  const pid_t parent = getpid();
  std::vector<pid_t> workers(count);  // 0: not started, or exited
  for (int rank = 0; rank < count; ++rank) {
    const int sockets[] = {control[rank][1], ring[(rank + count - 1) % count][1], ring[rank][0]};
    workers[rank] = fork();
    EXPECT(workers[rank] >= 0, "cannot start worker %d: %s", rank, strerror(errno));
    if (workers[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);              // no worker outlives the parent
      if (getppid() != parent) _exit(1);             // which has died before that
      for (int fd : sockets) fcntl(fd, F_SETFD, 0);  // the others close on exec
      const std::string words[] = {std::to_string(rank),       std::to_string(count),      std::to_string(granules),
                                   std::to_string(sockets[0]), std::to_string(sockets[1]), std::to_string(sockets[2])};
      execl("/proc/self/exe", program, "--rank", words[0].c_str(), "--workers", words[1].c_str(), "--granules",
            words[2].c_str(), "--parent", words[3].c_str(), "--from", words[4].c_str(), "--to", words[5].c_str(),
            nullptr);
      _exit(127);
    }
  }
  for (int rank = 0; rank < count; ++rank)
    for (int fd : {control[rank][1], ring[rank][0], ring[rank][1]}) close(fd);
  int status = 0;
  for (int stage = SUPPORTED; stage <= END && status == 0; ++stage) {
    for (int rank = 0; rank < count && status == 0; ++rank)
      status = await(workers[rank], control[rank][0], rank, stage, timeout);
    if (stage == SENT && status == 0 && hang >= 0) kill(workers[hang], SIGSTOP);
    for (int rank = 0; rank < count && status == 0 && stage < END; ++rank)
      send_message(control[rank][0], {uint64_t(stage)});
  }
  for (int rank = 0; rank < count; ++rank) {
    // On an error some are left, and nobody stays behind. They end before the socket, or they would report its end.
    if (workers[rank] != 0) kill(workers[rank], SIGKILL);
    if (workers[rank] != 0) reap(workers[rank], 10);
    close(control[rank][0]);
  }
  if (status == 0) std::puts("OK");
  return status;
}

static int work(int rank, int workers, long granules, int control, int previous, int next) {
  // Worker 0 tells the story, and the barriers keep it true for all: what it says after one, each worker has done.
  EXPECT(rank == 0 || std::freopen("/dev/null", "w", stdout), "%s", strerror(errno));

  step("[2] Check support for all");
  // Worker 0 asks for every worker's GPU before the others touch CUDA: a machine that cannot do this says so once.
  int gpus;
  if (rank == 0) {
    gpus = check::require_gpus(1);
    for (int i = 0; i < workers; ++i) {
      const CUdevice gpu = i % gpus, user = (i + 1) % workers % gpus;
      int vmm, descriptors, reached = 1;
      CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
      CHECK(cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, gpu));
      REQUIRE(vmm, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU that passes it on", gpu);
      REQUIRE(descriptors, "GPU %d exports no memory as a file descriptor; try Linux on the machine itself", gpu);
      if (user != gpu) CHECK(cuDeviceCanAccessPeer(&reached, user, gpu));
      REQUIRE(reached, "GPU %d cannot reach GPU %d; set CUDA_VISIBLE_DEVICES to one GPU, for all workers", user, gpu);
    }
    say("virtual memory management and file descriptor handles: supported");
    say("visible GPUs: %d; worker R takes GPU R modulo that number", gpus);
  }
  barrier(control, SUPPORTED);
  CHECK(cuInit(0));
  CHECK(cuDeviceGetCount(&gpus));
  const CUdevice gpu = rank % gpus;  // to the driver and to the runtime a GPU is its number
  CHECK(cudaSetDevice(gpu));

  // Not the story: free memory is counted when all have their contexts and kernels, which take some of it.
  cudaFuncAttributes loaded;
  size_t free_at_start, free_now, total;
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  barrier(control, READY);
  CHECK(cuMemGetInfo(&free_at_start, &total));
  barrier(control, COUNTED);

  step("[3] Pass memory on to the next worker");
  const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  properties.requestedHandleTypes = type;
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t size = granules * granule;
  CUmemGenericAllocationHandle own, imported;
  CHECK(cuMemCreate(&own, size, &properties, 0));
  const CUdeviceptr own_address = map(own, size, properties.location);
  fill_and_wait(own_address, size, 1000);  // poison: what a worker writes later has its rank as seed
  Message offer = {SENT, size};
  CHECK(cuDeviceGetUuid(&offer.gpu, gpu));
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, own, type, 0));
  send_message(next, offer, fd);
  close(fd);
  barrier(control, SENT);
  say("%zu KiB each, poisoned, sent as a file descriptor", size >> 10);

  step("[4] Import the memory of the previous worker");
  const char* wrong = receive_message(previous, SENT, &offer, &fd, granule);
  EXPECT(!wrong, "worker %d %s", (rank + workers - 1) % workers, wrong);
  int home = -1;  // the GPU of that memory, by its number in this process
  for (CUdevice each = 0; each < gpus; ++each) {
    CUuuid uuid;
    CHECK(cuDeviceGetUuid(&uuid, each));
    if (!std::memcmp(&uuid, &offer.gpu, sizeof uuid)) home = each;
  }
  EXPECT(home >= 0, "the memory is on a GPU that this process does not see");
  CHECK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(intptr_t(fd)), type));
  close(fd);
  const CUdeviceptr address = map(imported, offer.size, properties.location);
  say("%zu KiB of GPU %d, mapped for GPU %d; the fd is closed", size_t(offer.size) >> 10, home, gpu);

  step("[5] Write it, and check one's own");
  // All have written before any checks: this stream knows nothing of the neighbour's kernel, but the barrier does.
  fill_and_wait(address, offer.size, rank);
  barrier(control, WRITTEN);
  check_all(own_address, size, (rank + 1) % workers);
  barrier(control, CHECKED);
  say("every element of every worker's memory is what its neighbour wrote");

  step("[6] Tear down the ring");
  // Memory returns when the last process has let go of it, so all let go before any counts.
  unmap_and_release(address, offer.size, imported);
  unmap_and_release(own_address, size, own);
  barrier(control, UNMAPPED);
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_at_start, "%zu bytes are free, %zu were at the start (does another program use this GPU?)",
         free_now, free_at_start);
  barrier(control, RECOUNTED);
  say("free memory is what it was at the start, on every worker's GPU");
  return 0;
}

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the parent's lines come before those of worker 0
  long workers = 2, granules = 1, timeout = 10, hang = -1, rank = -1, control = -1, previous = -1, next = -1;
  check::arguments(argc, argv, usage,
                   {{"--workers", &workers, 2, 16},
                    {"--granules", &granules, 1, 512},
                    {"--timeout", &timeout, 1, 3600},
                    {"--hang", &hang, 0, 15},
                    {"--rank", &rank, 0, 15},
                    {"--parent", &control, 0, 1 << 20},
                    {"--from", &previous, 0, 1 << 20},
                    {"--to", &next, 0, 1 << 20}});  // the last four: parent to worker
  EXPECT(hang < workers, "there is no worker %ld to hang", hang);
  return rank < 0 ? supervise(argv[0], workers, granules, timeout, hang)
                  : work(rank, workers, granules, control, previous, next);
}
