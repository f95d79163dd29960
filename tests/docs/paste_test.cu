// SPDX-License-Identifier: MIT-0
// The snippets of docs/paste at work, on two GPUs: paste_test [no_channel]
// With no_channel, on a machine without a channel file, fabric memory must be refused.
#include <cuda.h>

static bool release_fails;  // then the snippets' calls of cuMemRelease answer an error; the memory goes all the same
inline CUresult release(CUmemGenericAllocationHandle handle) {
  const CUresult result = cuMemRelease(handle);
  return release_fails ? CUDA_ERROR_UNKNOWN : result;
}
#define cuMemRelease release
#define main example_main
#include "../../docs/paste/example.cu"  // with allocate.cu
#undef main

#include "../../docs/paste/alias.cu"
#include "../../docs/paste/fabric.cu"
#include "../../docs/paste/grant_to_peer.cu"
#include "../../docs/paste/meet.cu"
#include "../../docs/paste/multicast.cu"
#include "../../docs/paste/multimem.cu"
#include "../../docs/paste/send_fd.cu"
#include "../../docs/paste/share_fd.cu"
#include "../../docs/paste/supported.cu"

#include "../../common/check.h"

#include "growable_buffer.cc"  // cut from lesson 02 when the build is configured
#undef cuMemRelease

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <type_traits>

#include <fcntl.h>
#include <poll.h>

__global__ void add(int* to, int value) { *to += value; }
__global__ void through_alias(int* here, const int* there, int* read) {
  read[0] = *there;  // may stay in a cache, so that the next read would find it again
  read[1] = write_here_read_there(here, there, read[0] + 1);
}
__global__ void to_all(int* mc) {
#if __CUDA_ARCH__ >= 900
  broadcast(mc, 100);
  add_to_all(mc + 1, 10);
#endif
}
__global__ void from_all(const int* mc, int* sum) {
#if __CUDA_ARCH__ >= 900
  *sum = sum_of_all(mc);
#endif
}

static int* pointer(CUdeviceptr address) { return reinterpret_cast<int*>(address); }
static int load(CUdeviceptr address) {
  int value;
  CHECK(cuMemcpyDtoH(&value, address, sizeof value));
  return value;
}
static void store(CUdeviceptr address, int value) { CHECK(cuMemcpyHtoD(address, &value, sizeof value)); }
static void finish() {
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}
static size_t free_memory() {
  size_t available, total;
  CHECK(cuMemGetInfo(&available, &total));
  return available;
}

static void expect_memory_that_works() {
  CUdeviceptr address;
  size_t size = 3 << 20;
  CHECK(allocate(&address, &size, 0));
  EXPECT(size == 4 << 20, "3 MiB became %zu bytes", size);
  store(address + size - 4, 40);
  add<<<1, 1>>>(pointer(address + size - 4), 2);
  finish();
  EXPECT(load(address + size - 4) == 42, "the last word is %d", load(address + size - 4));
  CHECK(deallocate(address, size));
}

// A call that fails at the very end leaves nothing mapped.
static void expect_nothing_left() {
  const size_t before = free_memory();
  CUdeviceptr address, alias;
  size_t size = 1;
  release_fails = true;
  REFUSED(CUDA_ERROR_UNKNOWN, allocate(&address, &size, 0));
  EXPECT(free_memory() == before, "allocate left %zu bytes", before - free_memory());
  release_fails = false;
  CHECK(allocate(&address, &size, 0));
  release_fails = true;
  REFUSED(CUDA_ERROR_UNKNOWN, map_again(&alias, address, size, 0));
  release_fails = false;
  CHECK(deallocate(address, size));
  EXPECT(free_memory() == before, "an alias left %zu bytes", before - free_memory());
}

// A launch that fails is noticed: the error of the one before it is the example's here.
static void expect_noticed_launch() {
  EXPECT(example_main() == 0, "the example fails");
  add<<<1, 4096>>>(nullptr, 0);
  EXPECT(example_main() != 0, "the example does not notice that its kernel was not launched");
}

static void expect_growth() {
  const size_t chunk = 4 << 20;
  GrowableBuffer buffer;
  CHECK(buffer.reserve(0, 1, 0));
  EXPECT(buffer.chunk > 0 && buffer.reserved == buffer.chunk, "a chunk of %zu bytes", buffer.chunk);  // one granule
  CHECK(buffer.destroy());
  CHECK(buffer.reserve(0, 3 * chunk, chunk));
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.reserve(0, 3 * chunk, chunk));  // it would lose the first reservation
  CHECK(buffer.grow(1));
  store(buffer.base, 7);
  CHECK(buffer.grow(chunk + 1));
  store(buffer.base + chunk, 8);
  EXPECT(load(buffer.base) == 7 && load(buffer.base + chunk) == 8, "%d and %d", load(buffer.base),
         load(buffer.base + chunk));
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(3 * chunk + 1));  // beyond the reservation
  CHECK(buffer.grow(chunk));                                      // it is larger
  CHECK(buffer.shrink(size_t(-1)));                               // and smaller
  EXPECT(buffer.size == 2 * chunk, "%zu bytes", buffer.size);
  CHECK(buffer.shrink(1));
  EXPECT(buffer.size == chunk && load(buffer.base) == 7, "%zu bytes, the first word %d", buffer.size,
         load(buffer.base));
  CHECK(buffer.destroy());
  CHECK(buffer.destroy());  // of nothing

  // Memory runs out half-way: one such chunk fits, and two do not.
  const size_t before = free_memory();
  CHECK(buffer.reserve(0, 2 * before, before / 5 * 3));
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(2 * buffer.chunk));
  EXPECT(buffer.size == 0 && free_memory() == before, "%zu bytes are left", before - free_memory());
  CHECK(buffer.grow(buffer.chunk));
  CHECK(buffer.destroy());
  static_assert(!std::is_copy_constructible_v<GrowableBuffer> && !std::is_copy_assignable_v<GrowableBuffer>, "");
}

static void expect_peer_access() {
  CUdeviceptr address;
  size_t size = 1;
  unsigned long long flags;
  CHECK(allocate(&address, &size, 0));
  store(address, 1);
  CHECK(grant_to_peer(address, size, 0, 1));
  CHECK(cudaSetDevice(1));
  add<<<1, 1>>>(pointer(address), 1);
  finish();
  CHECK(cudaSetDevice(0));
  EXPECT(load(address) == 2, "the peer left %d", load(address));
  CHECK(grant_to_peer(address, size, 0, 1, CU_MEM_ACCESS_FLAGS_PROT_NONE));
  const CUmemLocation peer = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CHECK(cuMemGetAccess(&flags, &peer, address));
  EXPECT(flags == CU_MEM_ACCESS_FLAGS_PROT_NONE, "the peer still has %llu", flags);
  CHECK(deallocate(address, size));
}

// Two descriptors where one is expected: refused, and neither stays open.
static void expect_no_lost_fd() {
  int sockets[2], ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  const int both[2] = {ends[1], ends[1]};
  uint64_t size = 0;
  iovec data = {&size, sizeof size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof both)] = {};
  msghdr message = {};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof both);
  memcpy(CMSG_DATA(header), both, sizeof both);
  EXPECT(sendmsg(sockets[0], &message, 0) == sizeof size, "not sent");
  close(ends[1]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1, "one of two was taken");
  pollfd end = {ends[0], POLLIN, 0};  // it hangs up when nobody has the other end any more
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  close(ends[0]);
  close(sockets[0]);
  close(sockets[1]);
}

// A packet that is longer than the message is something else: refused, and its descriptor closed.
static void expect_no_long_packet() {
  int sockets[2], ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  uint64_t sizes[4] = {}, size;
  iovec data = {sizes, sizeof sizes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message = {};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &ends[1], sizeof(int));
  EXPECT(sendmsg(sockets[0], &message, 0) == sizeof sizes, "not sent");
  close(ends[1]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == EPROTO, "32 bytes were taken for 16");
  pollfd end = {ends[0], POLLIN, 0};
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  for (int each : {ends[0], sockets[0], sockets[1]}) close(each);
}

// Stray bytes before the message are not taken for a size, and the descriptor is closed.
static void expect_no_stray_bytes() {
  int sockets[2], ends[2];
  uint64_t size = 33;
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(ends) == 0, "no socket pair or no pipe");
  EXPECT(write(sockets[0], "tray", 4) == 4 && send_fd(sockets[0], ends[1], 2 << 20), "not sent");
  close(ends[1]);
  for (int tries = 0; tries < 2; ++tries)
    EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == EPROTO && size == 33, "taken, with size %llu",
           (unsigned long long)size);
  pollfd end = {ends[0], POLLIN, 0};
  EXPECT(poll(&end, 1, 0) == 1 && end.revents & POLLHUP, "a descriptor stayed open");
  for (int each : {ends[0], sockets[0], sockets[1]}) close(each);
}

// Signals do not end the wait, and do not make it longer; a peer that goes ends it.
static void expect_bounded_wait() {
  int sockets[2];
  uint64_t size = 0;
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no socket pair");
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  sigaction(SIGUSR1, &nothing, nullptr);
  std::thread sender([&, receiver = pthread_self()] {
    const auto moment = std::chrono::milliseconds(50);
    std::this_thread::sleep_for(moment);
    pthread_kill(receiver, SIGUSR1);
    std::this_thread::sleep_for(moment);
    send_fd(sockets[0], 1, 33);
  });
  const int fd = receive_fd(sockets[1], &size, 10000);
  sender.join();
  EXPECT(fd >= 0 && size == 33, "a signal ended the wait");
  close(fd);
  std::atomic<bool> over = false;
  std::thread disturber([&, receiver = pthread_self()] {
    for (int i = 0; i < 1000 && !over; ++i) {
      pthread_kill(receiver, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  const auto began = std::chrono::steady_clock::now();
  EXPECT(receive_fd(sockets[1], &size, 100) == -1 && errno == ETIMEDOUT, "the time did not end the wait");
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  over = true;
  disturber.join();
  EXPECT(waited.count() > 0.09 && waited.count() < 5, "%f s in place of 0.1", waited.count());
  close(sockets[0]);
  errno = 0;
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1 && errno == ECONNRESET, "the peer has gone, errno is %d", errno);
  close(sockets[1]);
}

// A stream that takes a part of the message only: that is said, and it is no stale errno.
static void expect_no_part_of_a_message() {
  int sockets[2];
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets) == 0, "no socket pair");
  static char rest[1 << 20];
  while (write(sockets[0], rest, sizeof rest) > 0) {
  }
  errno = 0;
  const bool sent = send_fd(sockets[0], 1, 33);
  EXPECT(!sent && (errno == EAGAIN || errno == EPROTO), "sent, or errno is %d", errno);
  for (int each : sockets) close(each);
}

// Two that meet at a name: messages pass, a name that is taken or too long is refused, and so is one that is not there.
static void expect_to_meet() {
  char directory[] = "/tmp/meetXXXXXX";
  EXPECT(mkdtemp(directory), "no directory");
  const std::string path = std::string(directory) + "/memory", too_long(200, 'x');
  EXPECT(connect_to(path.c_str()) == -1 && errno == ENOENT, "somebody is there, or errno is %d", errno);
  const int listener = listen_at(path.c_str());
  EXPECT(listener >= 0, "errno is %d", errno);
  struct stat about;
  EXPECT(stat(path.c_str(), &about) == 0 && (about.st_mode & 0777) == 0600, "mode %o", about.st_mode);
  EXPECT(listen_at(path.c_str()) == -1 && errno == EADDRINUSE, "twice, or errno is %d", errno);
  EXPECT(listen_at(too_long.c_str()) == -1 && errno == ENAMETOOLONG, "errno is %d", errno);
  EXPECT(connect_to(too_long.c_str()) == -1 && errno == ENAMETOOLONG, "errno is %d", errno);
  const int importer = connect_to(path.c_str()), exporter = accept_own(listener);
  EXPECT(importer >= 0 && exporter >= 0, "errno is %d", errno);
  uint64_t size = 0;
  EXPECT(send_fd(exporter, 1, 33), "not sent");
  const int fd = receive_fd(importer, &size, 1000);
  EXPECT(fd >= 0 && size == 33, "not received");
  for (int each : {fd, importer, exporter, listener}) close(each);
  EXPECT(connect_to(path.c_str()) == -1 && errno == ECONNREFUSED, "nobody listens, and errno is %d", errno);
  unlink(path.c_str());
  rmdir(directory);
}

// Where a program begins without standard input, a descriptor can be number 0.
static void expect_import_of_0() {
  const int input = dup(0);
  int fd;
  CUmemGenericAllocationHandle exported, imported;
  CHECK(create_and_export(&exported, &fd, 2 << 20, 0));
  if (fd > 0) {
    dup2(fd, 0);
    close(fd);
  }
  CHECK(import_and_close(&imported, 0));
  EXPECT(fcntl(0, F_GETFD) == -1, "the descriptor is still open");
  CHECK(cuMemRelease(imported));
  CHECK(cuMemRelease(exported));
  if (input > 0) {
    dup2(input, 0);
    close(input);
  }
}

static void expect_shared_memory() {
  int sockets[2], fd;
  CUmemGenericAllocationHandle exported, imported;
  CHECK(create_and_export(&exported, &fd, 2 << 20, 0));
  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0, "no socket pair");
  EXPECT(send_fd(sockets[0], fd, 2 << 20), "not sent");
  close(fd);
  uint64_t size = 0;
  fd = receive_fd(sockets[1], &size, 1000);
  EXPECT(fd >= 0 && size == 2 << 20, "not received, or with a size of %llu", (unsigned long long)size);
  CHECK(import_and_close(&imported, fd));
  close(sockets[0]);
  EXPECT(receive_fd(sockets[1], &size, 1000) == -1, "an fd from a peer that is gone");
  close(sockets[1]);

  CUdeviceptr at[2];
  const CUmemGenericAllocationHandle handles[2] = {exported, imported};
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  for (int i = 0; i < 2; ++i) {
    CHECK(cuMemAddressReserve(&at[i], 2 << 20, 0, 0, 0));
    CHECK(cuMemMap(at[i], 2 << 20, 0, handles[i], 0));
    CHECK(cuMemSetAccess(at[i], 2 << 20, &access, 1));
    CHECK(cuMemRelease(handles[i]));
  }
  store(at[0], 77);
  EXPECT(load(at[1]) == 77, "the import reads %d", load(at[1]));
  for (CUdeviceptr address : at) CHECK(deallocate(address, 2 << 20));
}

static void expect_alias() {
  CUdeviceptr address, alias, results;
  size_t size = 4 << 20, results_size = 1;
  CHECK(allocate(&address, &size, 0));
  CHECK(allocate(&results, &results_size, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, map_again(&alias, address + size / 2, size, 0));  // inside the mapping
  CHECK(map_again(&alias, address, size, 0));
  store(address, 5);
  through_alias<<<1, 1>>>(pointer(address), pointer(alias), pointer(results));
  finish();
  EXPECT(load(results) == 5 && load(results + 4) == 6, "read %d and %d", load(results), load(results + 4));
  CHECK(deallocate(alias, size));
  CHECK(deallocate(results, results_size));
  CHECK(deallocate(address, size));
}

static void expect_multicast() {
  CUmemGenericAllocationHandle object, memory[2];
  CUdeviceptr mc[2], replica[2];
  size_t size = 1;
  CHECK(make_multicast(nullptr, nullptr, &size, 2));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(allocate(&replica[gpu], &size, gpu));
    CHECK(cuMemRetainAllocationHandle(&memory[gpu], pointer(replica[gpu])));
    CHECK(cudaSetDevice(gpu));
    store(replica[gpu] + 4, gpu + 1);
  }
  CHECK(make_multicast(&object, memory, &size, 2));
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(map_multicast(&mc[gpu], object, size, gpu));
  CHECK(cudaSetDevice(0));
  to_all<<<1, 1>>>(pointer(mc[0]));
  finish();
  CHECK(cudaSetDevice(1));
  from_all<<<1, 1>>>(pointer(mc[1] + 4), pointer(replica[1] + 8));
  finish();
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    EXPECT(load(replica[gpu]) == 100 && load(replica[gpu] + 4) == gpu + 11, "GPU %d has %d and %d", gpu,
           load(replica[gpu]), load(replica[gpu] + 4));
  }
  EXPECT(load(replica[1] + 8) == 11 + 12, "the sum is %d", load(replica[1] + 8));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cuMulticastUnbind(object, gpu, 0, size));
    CHECK(deallocate(mc[gpu], size));
    CHECK(cuMemRelease(memory[gpu]));
    CHECK(deallocate(replica[gpu], size));
  }
  CHECK(cuMemRelease(object));
}

int main(int argc, char**) {
  Supported has;
  CHECK(cudaSetDevice(0));
  CHECK(supported(0, &has));
  EXPECT(has.vmm && has.fd && has.fabric && has.multicast && has.compression, "an H200 has all of it");
  for (int gpu = 0; gpu < 2; ++gpu) {  // what the kernels take is taken before
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  const size_t before = free_memory();
  expect_memory_that_works();
  expect_nothing_left();
  expect_noticed_launch();
  expect_growth();
  expect_peer_access();
  expect_no_lost_fd();
  expect_no_long_packet();
  expect_no_stray_bytes();
  expect_no_part_of_a_message();
  expect_bounded_wait();
  expect_to_meet();
  expect_import_of_0();
  expect_shared_memory();
  expect_alias();
  if (argc > 1) REFUSED(CUDA_ERROR_NOT_PERMITTED, try_fabric(0));
  else CHECK(try_fabric(0));
  const char* site = getenv("NCCL_NVLS_ENABLE");
  if (site && strcmp(site, "0") == 0) puts("not run: multicast, which NCCL_NVLS_ENABLE=0 refuses here");
  else expect_multicast();
  CHECK(cudaSetDevice(0));
  EXPECT(free_memory() == before, "%zu bytes are still taken", before - free_memory());
  puts("OK");
}
