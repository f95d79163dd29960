// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor, measured: what does it cost to hand memory to another process?
//
// A maker hands the same data to a receiver in four ways: VMM memory as a file descriptor, of which the maker closes
// its own at once, as in ipc_fd.cu; the same, but the maker keeps its own open until the receiver has done its work;
// memory from cudaMalloc with cudaIpcGetMemHandle; and a copy through host memory. Both processes use GPU 0.
//
// Build it alone:  nvcc -std=c++17 ipc_cost.cu -o ipc_cost -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <cerrno>
#include <csignal>
#include <random>
#include <vector>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: ipc_cost [--mib N] [--repeats N] [--csv FILE]\n"
    "  --mib N       MiB that are handed over, rounded up to the granule, 1 to 4096 (default 16)\n"
    "  --repeats N   times that each way is measured, for the median, 1 to 1000 (default 20)\n"
    "  --csv FILE    write the measurements to this file too, as a table\n"
    "On a simulator --mib 2 --repeats 1 shows the same calls in a second; its times mean nothing.\n";

enum Way { DESCRIPTOR, KEPT, CUDA_IPC, COPY };
static const char* const names[] = {"file descriptor", "file descriptor kept open", "cudaIpc",
                                    "copy through host memory"};
static bool by_descriptor(Way way) { return way == DESCRIPTOR || way == KEPT; }

// "open" is what the receiver does until it can use the memory, and of a descriptor it is the three parts after it;
// "handover" is export, send and open together. The last two are what the maker does once the receiver is done: it
// exports the memory while a descriptor is open, and closes both.
enum Part { MAKE, EXPORT, SEND, OPEN, IMPORT, CLOSE, MAP, HANDOVER, AGAIN, LAST, PARTS };
static const char* const parts[] = {"make",  "export", "send",     "open",         "import",
                                    "close", "map",    "handover", "export again", "close the last"};

// What goes between the two: the maker sends it with the memory. The receiver sends it back when it has mapped and
// checked the memory, and let go of it.
struct Message {
  Way way;
  measure::Word seed;
  size_t size;
  double received, opened;             // microseconds of the clock that all processes of the machine share
  double importing, closing, mapping;  // microseconds that these took
  cudaIpcMemHandle_t handle;           // for CUDA_IPC; a descriptor travels beside the message
};

// As in ipc_fd.cu. Returns false if it cannot be sent: then the other process has ended.
static bool send_message(int socket, Message message, int fd = -1) {
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
  return TEMP_FAILURE_RETRY(sendmsg(socket, &header, MSG_NOSIGNAL)) == sizeof message;
}

// Returns false when the other process has ended.
static bool receive_message(int socket, Message* message, int* fd = nullptr) {
  iovec data = {message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = CMSG_LEN(sizeof(int));
  const ssize_t bytes = TEMP_FAILURE_RETRY(recvmsg(socket, &header, MSG_CMSG_CLOEXEC));
  EXPECT(bytes >= 0 || errno == ECONNRESET, "the other process stayed silent: %s", strerror(errno));
  if (bytes != sizeof *message) return false;
  const cmsghdr* rights = CMSG_FIRSTHDR(&header);
  if (fd && rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS)
    std::memcpy(fd, CMSG_DATA(rights), sizeof *fd);
  return true;
}

static void* map(CUmemGenericAllocationHandle memory, size_t size) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return reinterpret_cast<void*>(address);
}

static void unmap(void* pointer, size_t size) {
  const CUdeviceptr address = reinterpret_cast<CUdeviceptr>(pointer);
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, size));
}

// Does something, and returns the microseconds that it took.
template <class Work> double timed(Work work) {
  const double began = measure::microseconds();
  work();
  return measure::microseconds() - began;
}

// The receiver: maps what it is sent, reads every element, lets go of it, and tells when it did so.
static void receive(int socket, void* host) {
  Message message;
  int fd = -1;
  while (receive_message(socket, &message, &fd)) {
    message.received = measure::microseconds();
    void* pointer;
    if (by_descriptor(message.way)) {
      CUmemGenericAllocationHandle memory;
      message.importing = timed([&] {
        CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
      });
      message.closing = timed([&] { close(fd); });
      message.mapping = timed([&] {
        pointer = map(memory, message.size);
        CHECK(cuMemRelease(memory));  // the mapping holds the memory
      });
    } else if (message.way == CUDA_IPC) {
      CHECK(cudaIpcOpenMemHandle(&pointer, message.handle, cudaIpcMemLazyEnablePeerAccess));
    } else {
      CHECK(cudaMalloc(&pointer, message.size));
      CHECK(cudaMemcpy(pointer, host, message.size, cudaMemcpyHostToDevice));
      CHECK(cudaDeviceSynchronize());
    }
    message.opened = measure::microseconds();
    measure::expect_filled(reinterpret_cast<CUdeviceptr>(pointer), message.size, message.seed);
    if (by_descriptor(message.way)) unmap(pointer, message.size);
    else if (message.way == CUDA_IPC) CHECK(cudaIpcCloseMemHandle(pointer));
    else CHECK(cudaFree(pointer));
    if (!send_message(socket, message)) return;
  }
}

static CUmemAllocationProp exportable() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

// Hands new random data over once, and returns how long each part took. It ends when the receiver has let go.
static std::vector<double> hand_over(int socket, Way way, size_t size, void* host) {
  Message message = {}, answer = {};
  message.way = way;
  message.seed = std::random_device()();
  message.size = size;
  CUmemGenericAllocationHandle memory = 0;
  void* pointer = nullptr;
  int fd = -1;
  const auto export_it = [&] {
    if (by_descriptor(way))
      CHECK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (way == CUDA_IPC) CHECK(cudaIpcGetMemHandle(&message.handle, pointer));
    if (way == COPY) CHECK(cudaMemcpy(host, pointer, size, cudaMemcpyDeviceToHost));
  };
  const double making = timed([&] {
    if (by_descriptor(way)) {
      const CUmemAllocationProp properties = exportable();
      CHECK(cuMemCreate(&memory, size, &properties, 0));
      pointer = map(memory, size);
    } else {
      CHECK(cudaMalloc(&pointer, size));
    }
  });
  measure::fill(reinterpret_cast<CUdeviceptr>(pointer), 0, size, message.seed);
  CHECK(cudaDeviceSynchronize());  // the data is there before anybody is told of it
  const double exporting = timed(export_it);
  const double sending = measure::microseconds();
  EXPECT(send_message(socket, message, fd), "to the receiver: %s", strerror(errno));
  if (way == DESCRIPTOR) close(fd);
  EXPECT(receive_message(socket, &answer), "the receiver has ended");
  double again = 0, last = 0;
  if (way == KEPT) {
    const int kept = fd;
    again = timed(export_it);
    close(fd);
    last = timed([&] { close(kept); });
  }
  if (by_descriptor(way)) {
    CHECK(cuMemRelease(memory));
    unmap(pointer, size);
  } else {
    CHECK(cudaFree(pointer));
  }
  const double sent = answer.received - sending, opening = answer.opened - answer.received;
  const double handover = exporting + sent + opening;
  return {making, exporting, sent, opening, answer.importing, answer.closing, answer.mapping, handover, again, last};
}

// Measures one way, prints the median of each part, and writes all. The first time has been measured before.
static void measure_way(measure::Report& report, int socket, Way way, size_t size, long repeats, void* host,
                        double first) {
  std::vector<double> took[PARTS];
  for (long round = -1; round < repeats; ++round) {  // the first is not counted
    const std::vector<double> once = hand_over(socket, way, size, host);
    for (int part = 0; round >= 0 && part < PARTS; ++part) took[part].push_back(once[part]);
  }
  for (int part = 0; part < PARTS; ++part) {
    const bool is_of_descriptors = part == IMPORT || part == CLOSE || part == MAP;
    if ((is_of_descriptors && !by_descriptor(way)) || ((part == AGAIN || part == LAST) && way != KEPT)) continue;
    const double median =
        report.add("handover", {{"way", names[way]}, {"part", parts[part]}, {"bytes", size}}, took[part]);
    say("%s: %.1f us", parts[part], median);
  }
  report.add("handover", {{"way", names[way]}, {"part", "first handover"}, {"bytes", size}}, {first});
  say("the first handover: %.1f us", first);
}

int main(int argc, char** argv) {
  long mib = 16, repeats = 20;
  const char* csv = "/dev/null";
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 1, 4096}, {"--repeats", &repeats, 1, 1000}, {"--csv", nullptr, 0, 1, &csv}});

  // Set-up: the receiver starts before any call of CUDA. The two share a socket, and host memory for the copy.
  size_t size = size_t(mib) << 20, granule, free_at_start, free_now, total;
  int sockets[2];
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), "%s", strerror(errno));
  const timeval limit = {10, 0};  // nobody waits longer for the other
  for (int socket : sockets) setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const size_t room = measure::round_up(size, size_t(1) << 30);  // no granule is larger
  void* const host = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  EXPECT(host != MAP_FAILED, "%s", strerror(errno));
  std::signal(SIGCHLD, SIG_DFL);  // if it is inherited as ignored, nobody can be waited for
  const pid_t parent = getpid();
  const pid_t child = fork();
  EXPECT(child >= 0, "%s", strerror(errno));
  const int socket = sockets[child ? 0 : 1];
  close(sockets[child ? 1 : 0]);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it does not outlive the maker
    if (getppid() != parent) return 1;
    Message ready = {};
    if (!receive_message(socket, &ready)) return 0;  // the maker has said why
    check::require_gpus(1);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    if (send_message(socket, ready)) receive(socket, host);
    return 0;
  }

  // The maker asks what the machine has, and only then does the receiver touch CUDA. The first time that each way is
  // used has a line of its own. Then free memory is counted.
  const int gpus =
      check::require_gpus(1, {check::vmm,
                              {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                               "GPU 0 exports no memory as a file descriptor; try Linux on the machine itself"}});
  measure::Report report(csv, "ipc_cost", gpus, {{"--mib", mib}, {"--repeats", repeats}});
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp properties = exportable();
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  size = measure::round_up(size, granule);
  Message ready = {};
  EXPECT(send_message(socket, ready) && receive_message(socket, &ready), "the receiver has ended");
  const auto the_first = [&](Way way) { return hand_over(socket, way, size, host)[HANDOVER]; };
  double first[4];
  for (const Way way : {DESCRIPTOR, KEPT, CUDA_IPC, COPY}) first[way] = the_first(way);
  CHECK(cuMemGetInfo(&free_at_start, &total));
  std::printf("%zu KiB are handed over each time, median of %ld\n", size >> 10, repeats);

  step("[1] Hand over a file descriptor");
  // As in lesson 04. The maker has closed its own, so the receiver's close is the last one.
  measure_way(report, socket, DESCRIPTOR, size, repeats, host, first[DESCRIPTOR]);

  step("[2] Hand it over, and keep one open");
  // The maker closes its own when the receiver has done its work. While it's open, the memory can be exported again.
  measure_way(report, socket, KEPT, size, repeats, host, first[KEPT]);

  step("[3] Hand over memory from cudaMalloc");
  // The older interprocess call, for memory of the other kind. A handle of 64 bytes names the allocation.
  measure_way(report, socket, CUDA_IPC, size, repeats, host, first[CUDA_IPC]);

  step("[4] Copy through host memory");
  // Nothing is shared between the processes but pageable host memory, so the data crosses to the host and back.
  measure_way(report, socket, COPY, size, repeats, host, first[COPY]);

  // Everything is given back. The receiver ends when the socket is shut.
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_at_start, "%zu bytes are free, %zu were at the start (does another program use this GPU?)",
         free_now, free_at_start);
  shutdown(socket, SHUT_WR);
  EXPECT(!receive_message(socket, &ready), "the receiver sent something that nobody asked for");
  int status = 0;
  const pid_t ended = TEMP_FAILURE_RETRY(waitpid(child, &status, 0));
  EXPECT(ended == child && status == 0, "the receiver ended with status 0x%x", status);
  report.complete();
  std::puts("OK");
  return 0;
}
