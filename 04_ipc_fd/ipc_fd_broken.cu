// SPDX-License-Identifier: MIT-0
// 04 IPC by file descriptor, broken: four mistakes, the answer that each gets, and the right way.
//
// A kernel that faults ends all CUDA work of its process, so every try has processes of its own.
//
// Build it alone:  nvcc -std=c++17 -lineinfo ipc_fd_broken.cu -o ipc_fd_broken -lcuda
#include "../common/in_a_process.h"

#include <cstdint>

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
  CHECK(cuMemSetAccess(reinterpret_cast<CUdeviceptr>(data), granule.size, &granule.descriptor, 1));
  return data;
}

// Memory that begins with this value, exported as descriptor 500: neither process has one of that number.
static int exported_as_500(const Granule& granule, int value) {
  const int fd = fcntl(exported(granule), F_DUPFD_CLOEXEC, 500);
  CHECK(cuMemsetD32(reinterpret_cast<CUdeviceptr>(map_with_access(granule, fd)), value, 1));
  CHECK(cudaDeviceSynchronize());
  return fd;
}

__global__ void store(int* to, int value) { *to = value; }

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

// One byte of data, and beside it a file descriptor, as in ipc_fd.cu.
static void pass(int socket, int* fd, bool receive) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof *fd)] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const beside = CMSG_FIRSTHDR(&message);
  beside->cmsg_level = SOL_SOCKET;
  beside->cmsg_type = SCM_RIGHTS;
  beside->cmsg_len = CMSG_LEN(sizeof *fd);
  std::memcpy(CMSG_DATA(beside), fd, sizeof *fd);
  const ssize_t bytes = TEMP_FAILURE_RETRY(receive ? recvmsg(socket, &message, 0) : sendmsg(socket, &message, 0));
  EXPECT(bytes == 1, "%s", strerror(errno));
  EXPECT(CMSG_FIRSTHDR(&message) == beside && beside->cmsg_level == SOL_SOCKET && beside->cmsg_type == SCM_RIGHTS,
         "no file descriptor came");
  std::memcpy(fd, CMSG_DATA(beside), sizeof *fd);
}

static void send_fd(int socket, int fd) { pass(socket, &fd, false); }

static int receive_fd(int socket) {
  int fd = -1;
  pass(socket, &fd, true);
  return fd;
}

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

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Pass the address of the file descriptor");
  // For a fabric handle the address is right. A file descriptor goes by value, in the guise of a pointer.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle memory;
    int fd = exported(granule);
    REFUSED(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&memory, &fd, posix_fd));
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), posix_fd));
    say("right: the file descriptor itself, cast to a pointer");
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
        say("right: send_fd, by SCM_RIGHTS, leads to the %d", found);
      });

  step("[3] Take the exporter's access for granted");
  // What travels is memory. The mapping in this process is its own, and starts with no access.
  in_an_importer([](const Granule& granule, int fd) {
    int* const data = map_import(granule, fd);
    store<<<1, 1>>>(data, 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_an_importer([](const Granule& granule, int fd) {
    int* const data = map_import(granule, fd);
    CHECK(cuMemSetAccess(reinterpret_cast<CUdeviceptr>(data), granule.size, &granule.descriptor, 1));
    store<<<1, 1>>>(data, 42);
    CHECK(cudaGetLastError());
    EXPECT(value_in(data) == 42, "the kernel left %d", value_in(data));
    say("right: the importer lets GPU 0 in, too; its kernel stored 42");
  });

  step("[4] Export what cannot be exported");
  // Only memory that was created for it, only by the process that created it, and only by the calls of this lesson.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle plain, imported, again;
    cudaIpcMemHandle_t older;
    int fd = exported(granule), second;
    CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), posix_fd));
    int* const data = map_import(granule, fd);
    REFUSED(cudaErrorInvalidValue, cudaIpcGetMemHandle(&older, data));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&second, imported, posix_fd, 0));
    CHECK(cuMemImportFromShareableHandle(&again, by_value(fd), posix_fd));
    say("right: hand on the file descriptor, which can be imported again");
    granule.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CHECK(cuMemCreate(&plain, granule.size, &granule.properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, plain, posix_fd, 0));
    granule.properties.requestedHandleTypes = posix_fd;
    CHECK(cuMemCreate(&plain, granule.size, &granule.properties, 0));
    CHECK(cuMemExportToShareableHandle(&fd, plain, posix_fd, 0));
    say("right: request the handle type at creation");
  });

  std::puts("OK");
  return 0;
}
