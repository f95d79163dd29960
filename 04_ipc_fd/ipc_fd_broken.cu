// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor, broken: six mistakes, the answer that each gets, and the right way.
//
// A kernel that faults ends all CUDA work of its process, so every try has processes of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo ipc_fd_broken.cu -o ipc_fd_broken -lcuda
#include "../common/in_a_process.h"

#include <cstdint>
#include <filesystem>

#include <fcntl.h>
#include <sys/socket.h>

static const char usage[] = "usage: ipc_fd_broken\n";

static const CUmemAllocationHandleType posix_fd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static Granule start() {
  check::require_gpus(1, {check::vmm,
                          {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                           "GPU 0 exports no memory as a file descriptor; try Linux on the machine itself"}});
  Granule granule = start_on_gpu_0();
  granule.properties.requestedHandleTypes = posix_fd;
  return granule;
}

// An exporter and an importer, with a socket between them. The exporter stays until the importer is done.
template <class Exporter, class Importer> static void in_two_processes(Exporter exporter, Importer importer) {
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0, "%s", strerror(errno));
  const pid_t first = begin_process(start, [&](Granule granule) {
    char nothing;
    close(sockets[1]);
    exporter(granule, sockets[0]);
    EXPECT(TEMP_FAILURE_RETRY(recv(sockets[0], &nothing, 1, 0)) == 0, "the importer talks");
  });
  const pid_t second = begin_process(start, [&](Granule granule) {
    close(sockets[0]);
    importer(granule, sockets[1]);
  });
  for (const int socket : sockets) close(socket);
  end_process(second);
  end_process(first);
}

static int exported(const Granule& granule) {
  CUmemGenericAllocationHandle handle;
  int fd;
  CHECK(cuMemCreate(&handle, granule.size, &granule.properties, 0));
  CHECK(cuMemExportToShareableHandle(&fd, handle, posix_fd, 0));
  return fd;
}

static void* by_value(int fd) { return reinterpret_cast<void*>(intptr_t(fd)); }

// An import, mapped, with access for nobody.
static int* map_import(const Granule& granule, int fd) {
  CUmemGenericAllocationHandle imported;
  CUdeviceptr address;
  CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), posix_fd));
  CHECK(cuMemAddressReserve(&address, granule.size, 0, 0, 0));
  CHECK(cuMemMap(address, granule.size, 0, imported, 0));
  return reinterpret_cast<int*>(address);
}

static int* map_with_access(const Granule& granule, int fd) {
  int* const data = map_import(granule, fd);
  CHECK(cuMemSetAccess(reinterpret_cast<CUdeviceptr>(data), granule.size, &granule.access, 1));
  return data;
}

// Memory that begins with this value, exported as descriptor 500: neither process has one of that number.
static int exported_as_500(const Granule& granule, int value) {
  const int fd = fcntl(exported(granule), F_DUPFD_CLOEXEC, 500);
  CHECK(cuMemsetD32(reinterpret_cast<CUdeviceptr>(map_with_access(granule, fd)), value, 1));
  CHECK(cudaDeviceSynchronize());
  return fd;
}

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

static int value_in(int* data) {
  int value = -1;
  CHECK(cudaMemcpy(&value, data, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

static void send_number(int socket, int fd) {
  EXPECT(TEMP_FAILURE_RETRY(send(socket, &fd, sizeof fd, 0)) == sizeof fd, "%s", strerror(errno));
}

static int receive_number(int socket) {
  int fd;
  EXPECT(TEMP_FAILURE_RETRY(recv(socket, &fd, sizeof fd, 0)) == sizeof fd, "%s", strerror(errno));
  return fd;
}

// As in ipc_fd.cu, but with one byte of data. The file descriptor may go twice, into room for one or for more.
static void send_fd(int socket, int fd, int times = 1) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(times * sizeof fd);

  cmsghdr* const cmsg = CMSG_FIRSTHDR(&message);
  const int fds[] = {fd, fd};
  cmsg->cmsg_level = SOL_SOCKET;
  cmsg->cmsg_type = SCM_RIGHTS;
  cmsg->cmsg_len = CMSG_LEN(times * sizeof fd);
  std::memcpy(CMSG_DATA(cmsg), fds, times * sizeof fd);
  EXPECT(TEMP_FAILURE_RETRY(sendmsg(socket, &message, 0)) == 1, "%s", strerror(errno));
}

static int receive_fd(int socket, size_t room = CMSG_LEN(sizeof(int)), bool* lost = nullptr) {
  int fd;
  char byte;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = room;

  EXPECT(TEMP_FAILURE_RETRY(recvmsg(socket, &message, MSG_CMSG_CLOEXEC)) == 1, "%s", strerror(errno));
  const cmsghdr* const cmsg = CMSG_FIRSTHDR(&message);
  EXPECT(cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS, "no file descriptor came");
  if (lost) *lost = message.msg_flags & MSG_CTRUNC;
  std::memcpy(&fd, CMSG_DATA(cmsg), sizeof fd);
  return fd;
}

static long open_descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

// The exporter maps its memory, lets GPU 0 into this mapping, and sends a file descriptor. The importer is given it.
template <class Importer> static void in_an_importer(Importer importer) {
  in_two_processes(
      [](const Granule& granule, int socket) {
        const int fd = exported(granule);
        map_with_access(granule, fd);
        send_fd(socket, fd);
      },
      [&](const Granule& granule, int socket) { importer(granule, receive_fd(socket)); });
}

// The exporter sends its file descriptor twice in one message.
template <class Importer> static void with_two_descriptors(Importer importer) {
  in_two_processes([](const Granule& granule, int socket) { send_fd(socket, exported(granule), 2); },
                   [&](const Granule&, int socket) { importer(socket); });
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Forget the handle type");
  // How memory may leave is a property of it, like its GPU. It cannot be added later.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle memory;
    int fd;
    granule.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, memory, posix_fd, 0));
    CHECK(cuMemRelease(memory));
    granule.properties.requestedHandleTypes = posix_fd;
    CHECK(cuMemCreate(&memory, granule.size, &granule.properties, 0));
    CHECK(cuMemExportToShareableHandle(&fd, memory, posix_fd, 0));
    say("right: request the handle type at creation");
  });

  step("[2] Send the number of the file descriptor");
  // It is the number of an entry in the table of one process. In another it is nothing, or something else.
  in_two_processes(
      [](const Granule& granule, int socket) {
        const int fd = exported_as_500(granule, 42);
        send_number(socket, fd);
      },
      [](const Granule& granule, int socket) {
        CUmemGenericAllocationHandle memory;
        const int number = receive_number(socket);
        REFUSED(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&memory, by_value(number), posix_fd));
        exported_as_500(granule, 7);  // now the number is that of an export, and no call fails
        const int found = value_in(map_with_access(granule, number));
        EXPECT(found == 7, "the number led to %d", found);
        say("no error: its own memory, which holds %d, not the exporter's 42", found);
      });
  in_two_processes(
      [](const Granule& granule, int socket) {
        const int fd = exported_as_500(granule, 42);
        send_fd(socket, fd);
      },
      [](const Granule& granule, int socket) {
        const int fd = receive_fd(socket);
        const int found = value_in(map_with_access(granule, fd));
        EXPECT(found == 42, "the file descriptor led to %d", found);
        say("right: send_fd, with SCM_RIGHTS, leads to the %d", found);
      });

  step("[3] Pass the address of the file descriptor");
  // For a fabric handle the address is right. A file descriptor goes by value, in the guise of a pointer.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle memory;
    int fd = exported(granule);
    REFUSED(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&memory, &fd, posix_fd));
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), posix_fd));
    say("right: the file descriptor itself, cast to a pointer");
  });

  step("[4] Expect access to travel");
  // What travels is memory. The mapping in this process is its own, and starts with no access.
  in_an_importer([](const Granule& granule, int fd) {
    int* const data = map_import(granule, fd);
    fill<<<1, 1>>>(data, 1, 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_an_importer([](const Granule& granule, int fd) {
    int* const data = map_import(granule, fd);
    CHECK(cuMemSetAccess(reinterpret_cast<CUdeviceptr>(data), granule.size, &granule.access, 1));
    fill<<<1, 1>>>(data, 1, 42);
    CHECK(cudaGetLastError());
    EXPECT(value_in(data) == 42, "the kernel left %d", value_in(data));
    say("right: the importer lets GPU 0 in, too; its kernel wrote 42");
  });

  step("[5] Export what was imported");
  // The driver refuses: what this process has to pass on is the file descriptor that it received.
  in_an_importer([](const Granule& granule, int fd) {
    CUmemGenericAllocationHandle imported, passed_on;
    cudaIpcMemHandle_t older;
    int again;
    CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), posix_fd));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&again, imported, posix_fd, 0));
    int* const data = map_import(granule, fd);
    REFUSED(cudaErrorInvalidValue, cudaIpcGetMemHandle(&older, data));
    CHECK(cuMemImportFromShareableHandle(&passed_on, by_value(fd), posix_fd));
    say("right: hand on the file descriptor, which can be imported again");
  });

  step("[6] Leave room for a second file descriptor");
  // CMSG_SPACE is rounded up: there is room for two. The second is open, too, and nobody knows its number.
  with_two_descriptors([](int socket) {
    const long before = open_descriptors();
    close(receive_fd(socket, CMSG_SPACE(sizeof(int))));
    EXPECT(open_descriptors() == before + 1, "%ld are open", open_descriptors() - before);
    say("no error: one is closed, and another is still open");
  });
  with_two_descriptors([](int socket) {
    bool lost = false;
    const long before = open_descriptors();
    close(receive_fd(socket, CMSG_LEN(sizeof(int)), &lost));
    EXPECT(lost && open_descriptors() == before, "%ld are open", open_descriptors() - before);
    say("right: CMSG_LEN; MSG_CTRUNC tells that one was lost, and none is open");
  });

  std::puts("OK");
  return 0;
}
