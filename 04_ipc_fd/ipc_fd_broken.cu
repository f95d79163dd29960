// SPDX-License-Identifier: MIT-0
//
// 04 IPC by file descriptor, broken: what does a process get that imports the wrong thing?
//
// Each step makes one mistake, shows what it leads to, and then does it right. Every try has processes of its own: a
// kernel that faults ends all CUDA work of its process. Needs Linux, and one GPU that supports VMM and file descriptor
// handles.
//
// Build it alone:  nvcc -std=c++17 -lineinfo ipc_fd_broken.cu -o ipc_fd_broken -lcuda
#include "../common/in_a_process.h"

#include <cstdint>

#include <fcntl.h>
#include <sys/socket.h>

static const char usage[] = "usage: ipc_fd_broken\n";

static const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static Granule start() {
  int descriptors = 0;
  Granule granule = start_on_gpu_0();
  CHECK(cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  REQUIRE(descriptors, "GPU 0 exports no memory as a file descriptor; use Linux on bare metal");
  granule.properties.requestedHandleTypes = type;
  return granule;
}

// An exporter and an importer, with a socket between them. The exporter stays until the importer is done.
template <class Exporter, class Importer> static void in_two_processes(Exporter exporter, Importer importer) {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "%s", strerror(errno));
  const pid_t first = begin_process(start, [&](Granule granule) {
    char nothing;
    close(ends[1]);
    exporter(granule, ends[0]);
    EXPECT(TEMP_FAILURE_RETRY(recv(ends[0], &nothing, 1, 0)) == 0, "the importer talks");
  });
  const pid_t second = begin_process(start, [&](Granule granule) {
    close(ends[0]);
    importer(granule, ends[1]);
  });
  for (const int socket : ends) close(socket);
  end_process(second);
  end_process(first);
}

static int exported(const Granule& granule) {
  CUmemGenericAllocationHandle handle;
  int fd;
  CHECK(cuMemCreate(&handle, granule.size, &granule.properties, 0));
  CHECK(cuMemExportToShareableHandle(&fd, handle, type, 0));
  return fd;
}

static void* by_value(int fd) { return reinterpret_cast<void*>(intptr_t(fd)); }

// An import, mapped, with access for nobody.
static int* map_import(const Granule& granule, int fd) {
  CUmemGenericAllocationHandle imported;
  CUdeviceptr address;
  CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), type));
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

// One byte of data, and with it a file descriptor; the lesson's own form checks more.
static void pass(int socket, int* fd, bool receive) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof *fd)] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* const rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof *fd);
  std::memcpy(CMSG_DATA(rights), fd, sizeof *fd);
  const ssize_t bytes = TEMP_FAILURE_RETRY(receive ? recvmsg(socket, &header, 0) : sendmsg(socket, &header, 0));
  EXPECT(bytes == 1, "%s", strerror(errno));
  EXPECT(CMSG_FIRSTHDR(&header) == rights && rights->cmsg_type == SCM_RIGHTS, "there came no descriptor");
  std::memcpy(fd, CMSG_DATA(rights), sizeof *fd);
}

// The exporter maps its memory, grants GPU 0 access to this mapping, and sends a descriptor. The importer is given it.
template <class Importer> static void in_an_importer(Importer importer) {
  in_two_processes(
      [](const Granule& granule, int socket) {
        int fd = exported(granule);
        map_with_access(granule, fd);
        pass(socket, &fd, false);
      },
      [&](const Granule& granule, int socket) {
        int fd = -1;
        pass(socket, &fd, true);
        importer(granule, fd);
      });
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Granule) {});       // a machine that cannot do this says so first

  step("[1] Pass the address of the descriptor");
  // For a fabric handle the address is right. A file descriptor goes by value, in the guise of a pointer.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle imported;
    int fd = exported(granule);
    REFUSED(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&imported, &fd, type));
    CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), type));
    say("right: the descriptor itself, cast to a pointer");
  });

  step("[2] Send the number of the descriptor");
  // A descriptor is an entry in the table of one process. Its number is nothing in another, or something else.
  in_two_processes([](const Granule& granule, int socket) { send_number(socket, exported_as_500(granule, 42)); },
                   [](const Granule& granule, int socket) {
                     CUmemGenericAllocationHandle imported;
                     const int number = receive_number(socket);
                     REFUSED(CUDA_ERROR_UNKNOWN, cuMemImportFromShareableHandle(&imported, by_value(number), type));
                     exported_as_500(granule, 7);  // now the number is that of an export, and no call fails
                     const int found = value_in(map_with_access(granule, number));
                     EXPECT(found == 7, "the number led to %d", found);
                     say("in silence: its own memory, which holds %d, not the exporter's 42", found);
                   });
  in_an_importer([](const Granule& granule, int fd) {
    map_import(granule, fd);
    say("right: SCM_RIGHTS makes a descriptor in the other process");
  });

  step("[3] Take the exporter's access for granted");
  // What travels is memory. The mapping in this process is its own, and starts with no access.
  in_an_importer([](const Granule& granule, int fd) {
    store<<<1, 1>>>(map_import(granule, fd), 42);
    CHECK(cudaGetLastError());
    REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  });
  in_an_importer([](const Granule& granule, int fd) {
    int* const data = map_with_access(granule, fd);
    store<<<1, 1>>>(data, 42);
    CHECK(cudaGetLastError());
    EXPECT(value_in(data) == 42, "the kernel left %d", value_in(data));
    say("right: the importer grants access too; its kernel stored 42");
  });

  step("[4] Export what cannot be exported");
  // Only memory that was created for it, only by the process that created it, and only by the calls of this lesson.
  in_a_process(start, [](Granule granule) {
    CUmemGenericAllocationHandle plain, imported;
    cudaIpcMemHandle_t older;
    const auto mapped = [&](int number) { return map_import(granule, number); };
    int fd = exported(granule);
    CHECK(cuMemImportFromShareableHandle(&imported, by_value(fd), type));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, imported, type, 0));
    REFUSED(cudaErrorInvalidValue, cudaIpcGetMemHandle(&older, mapped(fd)));
    granule.properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CHECK(cuMemCreate(&plain, granule.size, &granule.properties, 0));
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&fd, plain, type, 0));
    say("right: request the type at creation, and export where the memory was created");
  });

  std::puts("OK");
  return 0;
}
