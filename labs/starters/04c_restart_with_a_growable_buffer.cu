// SPDX-License-Identifier: MIT-0
// Lab 04c: Restart with a growable buffer
//
// A server's buffer grows by chunks. A new process is to take it over, and to go on growing, while the old one exits:
// - the old server sends a descriptor of each chunk, and then nothing of it is needed any more
// - the new one maps the same memory side by side, in the same order, and GPU 0 may read and write there
// - every chunk may leave its process, also those that the new server adds
// - no descriptor is left open in either process, so this restart is the last; look at each answer with CHECK
// Read 04_ipc_fd/README.md#1-make-memory-that-may-leave to #5-let-go, and 02_growable/README.md#1-grow-in-a-loop.
#include <sys/wait.h>
#include "../descriptor.h"
#include "../lab.h"

const size_t chunk = 2 << 20, most = 16 * chunk, n = chunk / sizeof(int);  // a chunk is one granule

struct Buffer {
  CUdeviceptr address = 0;  // main reserves `most` bytes there, in each process
  size_t size = 0;          // bytes that are mapped from there on, with access
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  std::vector<CUmemGenericAllocationHandle> handles;  // main releases those that are in it at the end
};

void grow(Buffer& buffer, size_t wanted) {
  // >>> your part: chunks that may leave the process
  for (; buffer.size < wanted; buffer.size += chunk) {
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, chunk, &buffer.properties, 0));
    CHECK(cuMemMap(buffer.address + buffer.size, chunk, 0, memory, 0));
    CHECK(cuMemSetAccess(buffer.address + buffer.size, chunk, &buffer.access, 1));
    CHECK(cuMemRelease(memory));  // the mapping keeps the memory
  }
  // <<<
}

// >>> your part: from process to process; lab::send_fd and lab::receive_fd send one descriptor
void hand_over(int socket, const Buffer& buffer) {
  EXPECT(write(socket, &buffer.size, sizeof buffer.size) == sizeof buffer.size, "the new server has ended");
  TODO("send all chunks");
}

void take_over(int socket, Buffer& buffer) {
  size_t size = 0;
  EXPECT(TEMP_FAILURE_RETRY(read(socket, &size, sizeof size)) == sizeof size, "the old server has ended");
  while (buffer.size < size) TODO("receive a chunk, and map it");
}
// <<<

void give_back(const Buffer& buffer) {
  CHECK(cuMemUnmap(buffer.address, buffer.size));
  for (const CUmemGenericAllocationHandle memory : buffer.handles) CHECK(cuMemRelease(memory));
  CHECK(cuMemAddressFree(buffer.address, most));
}

int main() {
  int ends[2];
  char turn = 0;
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "no socket");
  const pid_t old_server = fork();  // before any call of CUDA
  const int socket = ends[old_server ? 1 : 0];
  close(ends[old_server ? 0 : 1]);
  if (!old_server && TEMP_FAILURE_RETRY(read(socket, &turn, 1)) != 1) return 0;  // begins when the new one has
  lab::begin();
  Buffer buffer;
  buffer.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  buffer.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  buffer.access = {buffer.properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&buffer.address, most, 0, 0, 0));
  if (!old_server) {
    grow(buffer, 3 * chunk);
    for (size_t at = 0; at < buffer.size; at += chunk) lab::fill<int>(buffer.address + at, n, int(7 + at / chunk));
    hand_over(socket, buffer);
    give_back(buffer);
    return 0;
  }
  EXPECT(write(socket, &turn, 1) == 1, "the old server has ended");
  take_over(socket, buffer);
  EXPECT(TEMP_FAILURE_RETRY(waitpid(old_server, nullptr, 0)) == old_server, "no old server to wait for");
  const size_t taken_over = buffer.size / chunk;
  grow(buffer, 5 * chunk);
  for (size_t at = taken_over * chunk; at < buffer.size; at += chunk) lab::fill<int>(buffer.address + at, n, 0);
  size_t right = 0;
  for (size_t i = 0; i < taken_over; ++i) right += lab::count<int>(buffer.address + i * chunk, n, int(7 + i)) == n;
  std::printf("%zu chunks, of which %zu were taken over and %zu are right\n", buffer.size / chunk, taken_over, right);
  give_back(buffer);
  return lab::end();
}
