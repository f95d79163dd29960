// SPDX-License-Identifier: MIT-0
//
// 04 IPC by file descriptor: how does a process use GPU memory that another process made?
//
// The exporter turns its memory into a file descriptor and sends it through a Unix socket. The importer turns the
// descriptor into a handle of its own, maps the memory and writes it. The exporter exits, and the memory stays. The
// program is the importer and starts the exporter. Needs Linux and one GPU; if there are two, each process takes one.
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
    "usage: ipc_fd [--timeout S]\n"
    "  --timeout S   seconds that each process waits for the other, 1 to 3600 (default 10)\n";

// The two processes take turns: whoever has done its part tells the other, which waits for that. The end of the socket
// tells LEFT.
enum Stage { SUPPORTED, SENT, WRITTEN, CHECKED, LEFT };
struct Message {
  uint64_t stage;
  uint64_t size = 0;  // with SENT: a file descriptor does not tell the size of its memory
};

// What is not about memory stands below main.
static int start_exporter(char* program, long timeout);
static void wait_for_exporter();
static void send_message(int socket, Message message, int fd = -1);
static Message await(int socket, Stage stage, int* fd = nullptr, size_t unit = 1);
__global__ void fill(unsigned* data, unsigned seed);
static void check_all(CUdeviceptr data, size_t size, unsigned seed);

static void let_go(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle memory) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
}

int main(int argc, char** argv) {
  // Set-up: the arguments, and line buffering, so that the lines of the two processes come in order.
  long timeout = 10, peer = -1;  // peer: the socket to the other process, the exporter's argument
  check::arguments(argc, argv, usage, {{"--timeout", &timeout, 1, 3600}, {"--socket", &peer, 0, 1 << 20}});
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const bool is_exporter = peer >= 0;

  // [1] Start the exporter
  // Before any CUDA call: what CUDA sets up in a process does not work in a child forked from it. The child becomes a
  // fresh program, by exec of this very file, with a socket to the importer.
  if (!is_exporter) {
    peer = start_exporter(argv[0], timeout);
    std::printf("[1] Start the exporter\n    by fork and exec; a socket joins the two processes\n");
  }

  // [2] Check support
  // The importer asks what the machine has. The exporter waits for that, and only then touches CUDA.
  if (is_exporter) await(peer, SUPPORTED);
  const int gpus = check::require_gpus(1);
  const CUdevice home = 0, gpu = is_exporter ? home : 1 % gpus;  // the memory's GPU, and that of this process
  int vmm, descriptors, reached = 1;
  CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
  CHECK(cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, home));
  REQUIRE(vmm, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU that passes it on", gpu);
  REQUIRE(descriptors, "GPU %d exports no memory as a file descriptor; use Linux on bare metal", home);
  if (gpu != home) CHECK(cuDeviceCanAccessPeer(&reached, gpu, home));
  REQUIRE(reached, "GPU %d cannot reach GPU %d; set CUDA_VISIBLE_DEVICES to one GPU", gpu, home);
  CHECK(cudaSetDevice(gpu));
  if (!is_exporter) {
    std::printf("[2] Check support\n    of %d GPUs the exporter takes GPU %d, the importer GPU %d\n", gpus, home, gpu);
    send_message(peer, {SUPPORTED});
  }

  // [3] Create memory and export it
  // Memory that was not created as exportable never is. The export is an open file descriptor of this process.
  const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  properties.requestedHandleTypes = type;
  size_t size;  // one granule
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory;
  int fd = -1;
  if (is_exporter) {
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&fd, memory, type, 0));
    std::printf("[3] Create memory and export it\n    %zu KiB of GPU %d, as a file descriptor\n", size >> 10, gpu);
    send_message(peer, {SENT, size}, fd);
    close(fd);  // until received, the descriptor in flight keeps the memory alive
  }

  // [4] Import it
  // The import is a handle of this process for the same memory. Only step 8 needs the fd once more: else close it here.
  if (!is_exporter) {
    size = await(peer, SENT, &fd, size).size;
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), type));  // the fd, not &fd
    std::printf("[4] Import it\n    %zu KiB, as a handle of the importer\n", size >> 10);
  }

  // [5] Map it in both processes
  // As in lesson 01. Each process has an address of its own, and grants access to its own GPU.
  CUmemAccessDesc descriptor = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &descriptor, 1));
  if (!is_exporter)
    std::printf("[5] Map it in both processes\n    the importer's mapping: read-write for GPU %d\n", gpu);

  // [6] Write it and have it checked
  // No stream orders the work of two processes. So the importer waits for its kernel, tells, and waits for the answer.
  const unsigned seed = is_exporter ? getppid() : getpid();  // the importer's number: another one in each run
  if (is_exporter) {
    await(peer, WRITTEN);
    check_all(address, size, seed);
    std::printf("[6] Write it and have it checked\n    the exporter finds every element as the importer wrote it\n");
    send_message(peer, {CHECKED});
  } else {
    fill<<<size / sizeof(unsigned) / 256, 256>>>(reinterpret_cast<unsigned*>(address), seed);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    send_message(peer, {WRITTEN});
    await(peer, CHECKED);
  }

  // [7] Outlive the exporter
  // The exporter lets go and exits. The importer's mapping goes on working.
  if (is_exporter) {
    let_go(address, size, memory);
    return 0;
  }
  await(peer, LEFT);
  wait_for_exporter();
  check_all(address, size, seed);
  std::printf("[7] Outlive the exporter\n    it has let go and exited: every element is still there\n");

  // [8] Close the last reference
  // Every handle, every mapping and every open file descriptor holds the memory, in whichever process it is.
  size_t mapped, held, after, total;  // free memory while it is mapped, while the fd alone holds it, and after that
  CHECK(cudaSetDevice(home));
  CHECK(cuMemGetInfo(&mapped, &total));
  let_go(address, size, memory);
  CHECK(cuMemGetInfo(&held, &total));
  close(fd);
  CHECK(cuMemGetInfo(&after, &total));
  EXPECT(held == mapped && after - held == size, "%zu bytes returned, then %zu", held - mapped, after - held);
  std::printf("[8] Close the last reference\n    unmapped and released, and the open fd alone held the memory\n");
  std::printf("    the fd closed: %zu KiB returned\nOK\n", size >> 10);
  return 0;
}

// ---- What is in the memory

__global__ void fill(unsigned* data, unsigned seed) {
  const size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  data[i] = 2654435761u * i + seed;
}

static void check_all(CUdeviceptr data, size_t size, unsigned seed) {
  std::vector<unsigned> host(size / sizeof(unsigned), ~seed);
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(data), size, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); ++i)
    EXPECT(host[i] == unsigned(2654435761u * i + seed), "element %zu is 0x%x, not of seed %u", i, host[i], seed);
}

// ---- How a descriptor travels

static const char* const duties[] = {"check support", "send memory", "write the memory", "check the memory", "exit"};
static const char silent[] = "stayed silent", closed[] = "closed its socket", nonsense[] = "sent nonsense";

// That the receiver has died is no error here: whoever waits for it finds out.
static void send_message(int socket, Message message, int fd) {
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
  EXPECT(bytes > 0 || errno == EPIPE || errno == ECONNRESET, "to the other process: %s", strerror(errno));
}

// Receives the message of this stage, and one file descriptor with it if `fd` is given; the size must be a multiple of
// `unit`. Returns nullptr, or what the sender did wrong; in that case no descriptor stays open.
static const char* receive_message(int socket, int stage, Message* message, int* fd = nullptr, size_t unit = 1) {
  iovec data = {message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof(int));  // CMSG_SPACE is rounded up, and has room for a second one
  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_TRUNC));
  if (bytes < 0) return errno == EAGAIN ? silent : errno == ECONNRESET ? closed : strerror(errno);
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  int received = -1;
  if (rights && rights->cmsg_type == SCM_RIGHTS) std::memcpy(&received, CMSG_DATA(rights), sizeof received);
  const char* wrong = nullptr;
  if (bytes == 0 && received < 0) wrong = stage == LEFT ? nullptr : closed;
  else if (bytes != sizeof *message || message->stage != uint64_t(stage)) wrong = nonsense;
  else if ((received >= 0) != bool(fd) || header.msg_flags & MSG_CTRUNC) wrong = "sent the wrong number of descriptors";
  else if (fd && (!message->size || message->size % unit)) wrong = "sent a size that is not whole granules";
  if (!wrong && fd) *fd = received;
  if (wrong && received >= 0) close(received);
  return wrong;
}

// ---- How the exporter starts, is waited for, and ends

static pid_t exporter = 0;  // as the importer knows it; 0 in the exporter

// Returns the socket to it. The exporter is killed when the importer dies; if that happened before, it ends itself.
static int start_exporter(char* program, long timeout) {
  int ends[2];
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "%s", strerror(errno));
  const timeval limit = {timeout, 0};
  for (int end : ends) setsockopt(end, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, waitpid learns no status
  const pid_t importer = getpid();
  exporter = fork();
  EXPECT(exporter >= 0, "%s", strerror(errno));
  if (exporter == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != importer) _exit(1);
    fcntl(ends[1], F_SETFD, 0);  // the program's other descriptors close on exec
    execl("/proc/self/exe", program, "--socket", std::to_string(ends[1]).c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  return ends[0];
}

// Kills the exporter in case it hangs after closing its socket; waitpid then always returns.
static void wait_for_exporter() {
  int status = 0;
  kill(exporter, SIGKILL);
  const pid_t ended = TEMP_FAILURE_RETRY(waitpid(exporter, &status, 0));  // a signal interrupts it
  EXPECT(ended == exporter && status == 0, "the exporter ended with status 0x%x", status);
}

// Waits until the other process has told that its part is done. If it does anything else, says so and exits.
static Message await(int socket, Stage stage, int* fd, size_t unit) {
  Message message;
  const char* wrong = receive_message(socket, stage, &message, fd, unit);
  if (!wrong) return message;
  if (exporter || wrong != closed)  // an importer that has ended has said why
    std::fprintf(stderr, "ipc_fd: the %s %s; it had to %s\n", exporter ? "exporter" : "importer", wrong, duties[stage]);
  std::exit(1);
}
