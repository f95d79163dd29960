// SPDX-License-Identifier: MIT-0
// Lab 04a: Send two descriptors
//
// The exporter sends the number of its descriptor, which means nothing in another process. Send the descriptor itself:
// - the importer gets a descriptor of its own, sent as SCM_RIGHTS beside a message, and imports it
// - the importer grants GPU 0 access to its own mapping
// - no descriptor is left open: the exporter closes it when it is sent, the importer when it is imported
// Read 04_ipc_fd/README.md#2-send-it.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include "../lab.h"

const size_t size = 2 << 20, n = size / sizeof(int);  // one granule
const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// >>> your part: the descriptor travels beside the message
void send_fd(int socket, int fd) { EXPECT(write(socket, &fd, sizeof fd) == sizeof fd, "the number cannot be sent"); }

int receive_fd(int socket) {
  int fd = -1;
  EXPECT(TEMP_FAILURE_RETRY(read(socket, &fd, sizeof fd)) == sizeof fd, "no number comes");
  return fd;
}
// <<<

long open_descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the lines of the two come in order
  int fd, ends[2];
  char turn = 0;
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "no socket");
  const pid_t exporter = fork();  // before any call of CUDA
  const int socket = ends[exporter ? 1 : 0];
  close(ends[exporter ? 0 : 1]);
  if (!exporter && TEMP_FAILURE_RETRY(read(socket, &turn, 1)) != 1) return 0;  // begins when the importer has
  lab::begin();
  const long open_at_start = open_descriptors();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  properties.requestedHandleTypes = type;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));

  if (!exporter) {
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    CHECK(cuMemMap(address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(address, size, &access, 1));
    lab::fill<int>(address, n, 7);
    CHECK(cuMemExportToShareableHandle(&fd, memory, type, 0));
    send_fd(socket, fd);
    // >>> your part: what is left to do in the exporter
    // <<<
    EXPECT(TEMP_FAILURE_RETRY(read(socket, &turn, 1)) == 1, "the importer has ended");  // it has read
  } else {
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
    fd = receive_fd(socket);
    CHECK(cuMemImportFromShareableHandle(&memory, reinterpret_cast<void*>(intptr_t(fd)), type));
    CHECK(cuMemMap(address, size, 0, memory, 0));
    // >>> your part: what is left to do in the importer
    // <<<
    std::printf("%llu of %zu integers are 7 in the importer\n", lab::count<int>(address, n, 7), n);
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
  }
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(address, size));
  const long left = open_descriptors() - open_at_start;
  if (exporter) EXPECT(TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0)) == exporter, "no exporter to wait for");
  std::printf("%s: %ld descriptors left open\n", exporter ? "importer" : "exporter", left);
  return exporter ? lab::end() : 0;
}
