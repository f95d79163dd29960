// SPDX-License-Identifier: MIT-0
// What the cases of memory_test.cc ask with: refusals, memory in short, and other processes.
#pragma once
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>
#include "memory/memory.h"
#include "memory/page_table.h"
#include "messages.h"

namespace {

using namespace memory;
constexpr uint64_t MiB = 1 << 20, page = page_size;
constexpr auto fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr auto both_rights = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

#define EXPECT(condition)                                                                                        \
  do {                                                                                                           \
    if (!(condition)) std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), std::abort(); \
  } while (0)
#define REFUSED(error, word, ...) expect_refusal(__LINE__, error, word, [&] { (void)(__VA_ARGS__); })

void expect_refusal(int line, CUresult error, const char* word, const std::function<void()>& call) {
  std::string got = "nothing";
  try {
    call();
  } catch (const Refused& refused) {
    if (refused.error == error && refused.why.find(word) != refused.why.npos) return;
    got = std::to_string(refused.error) + ", " + refused.why;
  }
  std::fprintf(stderr, "%s:%d: expected refusal %d with \"%s\", got %s\n", __FILE__, line, error, word, got.c_str());
  std::abort();
}

CUmemAllocationProp on_gpu(int gpu, unsigned types = 0) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu};
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(types);
  return properties;
}
CUmemAccessDesc access_of(int gpu, CUmemAccess_flags flags = both_rights) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, flags};
}
void open_to(uint64_t address, size_t size, std::initializer_list<CUmemAccessDesc> all) {
  set_access(address, size, std::span(all.begin(), all.size()));
}
CUmulticastObjectProp team_of(unsigned gpus, size_t size, unsigned types = 0) {
  CUmulticastObjectProp properties = {};
  properties.numDevices = gpus, properties.size = size, properties.handleTypes = types;
  return properties;
}
uint64_t free_of(int gpu) { return memory_info(gpu).free; }
void write(int gpu, uint64_t address, const std::string& text) {
  size_t done = 0;
  for_each_piece(gpu, address, text.size(), both_rights, [&](const Piece& piece) {
    piece.write([&](char* bytes) { std::memcpy(bytes, text.data() + done, piece.size); });
    done += piece.size;
  });
}
std::string read(int gpu, uint64_t address, size_t size) {
  std::string text;
  for_each_piece(gpu, address, size, CU_MEM_ACCESS_FLAGS_PROT_READ,
                 [&](const Piece& piece) { text.append(piece.bytes, piece.size); });
  return text;
}
// Whether a thread waits in a call.
bool sleeps(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  return std::getline(file, stat) && stat.find(") S ") != stat.npos;
}
uint64_t map_new(uint64_t size, int gpu = 0, unsigned types = 0) {  // mapped and open, no handle left
  const Handle handle = create(size, on_gpu(gpu, types), 0);
  const uint64_t address = reserve(size, 0, 0, 0);
  map(address, size, 0, handle, 0);
  release(handle);
  open_to(address, size, {access_of(gpu)});
  return address;
}
void remove(uint64_t address, uint64_t size) { unmap(address, size), free_reservation(address, size); }

// --- Other processes: this program again, with a role. They speak over a socket, a byte a message, and send
// descriptors.
const char *self, *more;
struct Peer {
  pid_t process;
  int socket;
};

Peer start(const char* role, const char* word = "") {
  int ends[2];
  EXPECT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    if (ends[1] == 3) fcntl(3, F_SETFD, 0);
    else dup2(ends[1], 3);
    execl(self, self, role, word, nullptr);
    _exit(126);
  }
  close(ends[1]);
  return {child, ends[0]};
}
void send(int socket, char word, int fd = -1) { EXPECT(send_message(socket, &word, 1, fd)); }
int receive(int socket, char word) {
  char got = 0;
  int fd;
  EXPECT(receive_message(socket, &got, 1, fd) && got == word);
  return fd;
}
int wait_for(pid_t child) {
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
int end(const Peer& peer, int signal = 0) {
  if (signal) kill(peer.process, signal);
  const int status = wait_for(peer.process);
  close(peer.socket);
  return status;
}

}  // namespace
