// SPDX-License-Identifier: MIT-0
// Lab 04a: Send two descriptors
//
// The exporter sends the numbers of two descriptors, which mean nothing in another process. Send the descriptors:
// - one message carries both as SCM_RIGHTS, and the importer gets descriptors of its own, in the same order
// - the importer grants GPU 0 access to its own mappings; look at each answer, of sendmsg and recvmsg, too
// - no descriptor is left open: the exporter closes them when they are sent, the importer when they are imported
// Read 04_ipc_fd/README.md#2-send-it.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>
#include "../lab.h"

const size_t size = 2 << 20, n = size / sizeof(int);  // one granule
const CUmemAllocationHandleType type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

// >>> your part: the descriptors travel beside the message
void send_fds(int socket, const int (&fds)[2]) {
  EXPECT(write(socket, fds, sizeof fds) == sizeof fds, "the numbers cannot be sent");
}
void receive_fds(int socket, int (&fds)[2]) {
  EXPECT(TEMP_FAILURE_RETRY(read(socket, fds, sizeof fds)) == sizeof fds, "no numbers come");
}
// <<<

long open_descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // the lines of the two come in order
  int fds[2] = {-1, -1}, ends[2];
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
  properties.requestedHandleTypes = type;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory[2];
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, 2 * size, 0, 0, 0));

  if (!exporter) {
    for (int i : {0, 1}) {
      CHECK(cuMemCreate(&memory[i], size, &properties, 0));
      CHECK(cuMemMap(address + i * size, size, 0, memory[i], 0));
      CHECK(cuMemSetAccess(address + i * size, size, &access, 1));
      lab::fill<int>(address + i * size, n, 7 + i);
      CHECK(cuMemExportToShareableHandle(&fds[i], memory[i], type, 0));
    }
    send_fds(socket, fds);
    // >>> your part: what is left to do in the exporter
    // <<<
    EXPECT(TEMP_FAILURE_RETRY(read(socket, &turn, 1)) == 1, "the importer has ended");  // it has read
  } else {
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
    receive_fds(socket, fds);
    for (int i : {0, 1}) {
      CHECK(cuMemImportFromShareableHandle(&memory[i], reinterpret_cast<void*>(intptr_t(fds[i])), type));
      CHECK(cuMemMap(address + i * size, size, 0, memory[i], 0));
    }
    // >>> your part: what is left to do in the importer
    // <<<
    for (int i : {0, 1}) std::printf("%llu are %d\n", lab::count<int>(address + i * size, n, 7 + i), 7 + i);
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
  }
  CHECK(cuMemUnmap(address, 2 * size));
  for (const CUmemGenericAllocationHandle one : memory) CHECK(cuMemRelease(one));
  CHECK(cuMemAddressFree(address, 2 * size));
  const long left = open_descriptors() - open_at_start;
  if (exporter) EXPECT(TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0)) == exporter, "no exporter to wait for");
  std::printf("%s: %ld descriptors left open\n", exporter ? "importer" : "exporter", left);
  return exporter ? lab::end() : 0;
}
