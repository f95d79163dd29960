// SPDX-License-Identifier: MIT-0
// Lab 04a: Send two descriptors
//
// The exporter has two memories of different sizes, and sends a descriptor of the first alone. Send both, and use them:
// - one message carries both descriptors as SCM_RIGHTS, and the two sizes as its bytes: no descriptor tells its size
// - the importer maps both whole, side by side in one reservation, in the same order, and GPU 0 has access
// - no descriptor is left open: the exporter closes them as soon as they are sent, the importer when it has imported
// - check the result of each call of CUDA, of sendmsg and of recvmsg, which may succeed although a descriptor was lost:
//   detect that, and end with status 1
// Read 04_ipc_fd/README.md#2-send-it.
#include <sys/wait.h>
#include "../descriptor.h"
#include "../lab.h"

// >>> your part: the descriptors travel beside the message
struct Message {
  char byte = 0;  // at least one byte has to go along
  iovec data = {&byte, sizeof byte};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};

  Message() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = CMSG_LEN(sizeof(int));
  }
};
void send_fds(int socket, const int (&fds)[2], [[maybe_unused]] const size_t (&sizes)[2]) {
  Message message;
  cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof fds[0]);
  std::memcpy(CMSG_DATA(rights), fds, sizeof fds[0]);
  EXPECT(TEMP_FAILURE_RETRY(sendmsg(socket, &message.header, MSG_NOSIGNAL)) == 1, "the message cannot be sent: %s",
         std::strerror(errno));
}
void receive_fds(int socket, int (&fds)[2], [[maybe_unused]] size_t (&sizes)[2]) {
  Message message;
  EXPECT(TEMP_FAILURE_RETRY(recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC)) == 1, "no message comes");
  const cmsghdr* rights = CMSG_FIRSTHDR(&message.header);
  EXPECT(rights && rights->cmsg_type == SCM_RIGHTS, "no descriptor comes beside the message");
  std::memcpy(fds, CMSG_DATA(rights), sizeof fds[0]);
}
// <<<

int main() {
  int fds[2] = {-1, -1}, ends[2];
  char turn = 0;
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "no socket");
  const pid_t exporter = fork();  // before any call of CUDA
  const int socket = ends[exporter ? 1 : 0];
  close(ends[exporter ? 0 : 1]);
  if (!exporter && TEMP_FAILURE_RETRY(read(socket, &turn, 1)) != 1) return 0;  // begins when the importer has
  lab::begin();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle memory[2];
  CUdeviceptr address = 0;
  if (!exporter) {
    const size_t sizes[2] = {2 << 20, 4 << 20};  // whole granules
    for (int i : {0, 1}) {
      CHECK(cuMemCreate(&memory[i], sizes[i], &properties, 0));
      CHECK(cuMemAddressReserve(&address, sizes[i], 0, 0, 0));
      CHECK(cuMemMap(address, sizes[i], 0, memory[i], 0));
      CHECK(cuMemSetAccess(address, sizes[i], &access, 1));
      lab::fill<int>(address, sizes[i] / sizeof(int), 7 + i);
      CHECK(cuMemUnmap(address, sizes[i]));
      CHECK(cuMemAddressFree(address, sizes[i]));
      CHECK(cuMemExportToShareableHandle(&fds[i], memory[i], properties.requestedHandleTypes, 0));
    }
    send_fds(socket, fds, sizes);
    // >>> your part: what is left to do in the exporter
    // <<<
    EXPECT(TEMP_FAILURE_RETRY(read(socket, &turn, 1)) == 1, "the importer has ended");  // it has read
  } else {
    size_t sizes[2] = {};
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
    receive_fds(socket, fds, sizes);
    // >>> your part: what is left to do in the importer
    TODO("import both, and map them side by side from address on");
    // <<<
    std::printf("%llu are 7\n", lab::count<int>(address, sizes[0] / sizeof(int), 7));
    std::printf("%llu are 8\n", lab::count<int>(address + sizes[0], sizes[1] / sizeof(int), 8));
    EXPECT(write(socket, &turn, 1) == 1, "the exporter has ended");
    CHECK(cuMemUnmap(address, sizes[0] + sizes[1]));
    CHECK(cuMemAddressFree(address, sizes[0] + sizes[1]));
  }
  for (const CUmemGenericAllocationHandle one : memory) CHECK(cuMemRelease(one));
  if (exporter) EXPECT(TEMP_FAILURE_RETRY(waitpid(exporter, nullptr, 0)) == exporter, "no exporter to wait for");
  return exporter ? lab::end() : 0;
}
