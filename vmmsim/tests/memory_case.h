// SPDX-License-Identifier: MIT-0
// What the cases of memory_test.cc ask with: refusals, memory in short, and other processes; and how they are run.
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
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>
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
    if (refused.error == error && refused.reason.find(word) != refused.reason.npos) return;
    got = std::to_string(refused.error) + ", " + refused.reason;
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

// --- Cases: each is a process of its own on a machine of its own. CASE(name) { ... }, or CASE(name, set_up); and
// ROLE(name) { ... }, which another starts.
struct Case {
  const char* name;
  void (*run)();
  bool is_role;
  std::function<void(Machine&, Options&)> set_up;
};
std::vector<Case> cases;
#define CASE(name, ...) ADD_CASE(name, false, __VA_ARGS__)
#define ROLE(name) ADD_CASE(name, true, )
#define ADD_CASE(name, is_role, ...)                                                                            \
  void name();                                                                                                  \
  [[maybe_unused]] const bool name##_is_added = (cases.push_back({#name, name, is_role, {__VA_ARGS__}}), true); \
  void name()

// A program's cases: all of them, or the one it is started with.
int run_cases(int argc, char** argv) {
  self = argv[0];
  more = argc > 2 ? argv[2] : "";
  alarm(argc > 1 ? 120 : 600);
  if (argc > 1 && getenv("VMMSIM")) {
    for (const Case& each : cases)
      if (!std::strcmp(each.name, argv[1])) return each.run(), 0;
    return 2;
  }
  // QEMU's user emulation has no robust mutexes, and a thread of its own, which never waits.
  const std::set<std::string_view> not_emulated = {"processes", "multicast_objects", "multicast_of_processes",
                                                   "hopeful",   "on_the_fabric",     "lost_lock"};
  int failures = 0;
  for (const Case& each : cases) {
    if (each.is_role || (argc > 1 && std::strcmp(each.name, argv[1]))) continue;
    if (getenv("TESTS_ARE_EMULATED") && not_emulated.contains(each.name)) continue;
    Machine machine;
    Options options;
    machine.gpus = 2, machine.memory = 256 * MiB;
    if (each.set_up) each.set_up(machine, options);
    setenv("VMMSIM", create_machine(machine, options, "").c_str(), 1);
    const int status = wait_for(start(each.name).process);
    std::printf("%s: %s\n", each.name, status ? ("FAILED, status " + std::to_string(status)).c_str() : "OK");
    failures += status != 0;
  }
  // Without a machine, or with one that is gone.
  for (const char* value : {"", "1:2", "1:1:0123"}) {
    if (*value) setenv("VMMSIM", value, 1);
    else unsetenv("VMMSIM");
    const pid_t child = fork();
    if (child == 0) _exit(reason_without_machine().empty() || machine().gpus);
    failures += wait_for(child) != 0;
  }
  std::printf(failures ? "%d failed\n" : "OK\n", failures);
  return failures != 0;
}

}  // namespace
