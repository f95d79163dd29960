// SPDX-License-Identifier: MIT-0
#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "../lasting.h"
#include "presence.h"
#include "thread_slot.h"

namespace memory {

Caller& caller() { return thread_slot<Caller>(); }
Maker maker() {
  Caller& now = caller();
  if (options().leaks && !now.place) now.place = std::make_shared<std::atomic<unsigned>>(0);
  return {now.call, now.place};
}

namespace {

// A child made by fork shares nothing with CUDA: it would hold its parent's memory, and must not change it.
bool is_forked = false;  // the process is a child that fork made of one with CUDA
void lock_before_fork() ACQUIRE(process_lock) { process_lock.lock(); }
void unlock_in_parent() RELEASE(process_lock) { process_lock.unlock(); }
void leave_in_child() RELEASE(process_lock) {
  is_forked = true;
  leave();
  process_lock.unlock();
}

// The GPUs that the process sees, and their page tables. They are set before anybody looks, so no lock guards them.
struct Gpus {
  std::vector<int> visible;
  std::vector<std::unique_ptr<PageTable>> tables;

  void set(std::vector<int> numbers) {
    visible = std::move(numbers);
    tables.clear();
    for (size_t i = 0; i < visible.size(); ++i) tables.push_back(std::make_unique<PageTable>());
  }
};
Gpus& seen_gpus() {
  static Gpus& seen = []() -> Gpus& {
    std::vector<int> of_node;
    for (int i = 0; i < machine().gpus; ++i) of_node.push_back(node() * machine().gpus + i);
    Gpus& all = *new Gpus;
    all.set(std::move(of_node));
    pthread_atfork(lock_before_fork, unlock_in_parent, leave_in_child);
    if (options().slow_import) prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // others look for what this one waits
    return all;
  }();
  return seen;
}

}  // namespace

namespace {

// What /proc says of a thread of a process, in this file; "" if nothing.
void read_of(pid_t process, pid_t thread, const char* entry, char* text, size_t size) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/task/%d/%s", process, thread, entry);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = file < 0 ? 0 : read(file, text, size - 1);
  text[length > 0 ? length : 0] = '\0';
  if (file >= 0) close(file);
}

ProcessIdentity identity_of(pid_t process) {
  char text[1024];
  read_of(process, process, "stat", text, sizeof text);
  const char* at = std::strrchr(text, ')');  // of the name, which may have blanks
  for (int field = 2; at && field < 22; ++field) at = std::strchr(at + 1, ' ');
  const uint64_t started = at ? std::strtoull(at, nullptr, 10) : 0;
  return ProcessIdentity(started << process_number_bits | unsigned(process));
}

bool is_of_another(pid_t process, unsigned long fd) {  // a socket's or a pipe's end: no timer, no terminal
  char path[64], name[32] = "";
  std::snprintf(path, sizeof path, "/proc/%d/fd/%lu", process, fd);
  return readlink(path, name, sizeof name - 1) > 0 &&
         (!std::strncmp(name, "socket:", 7) || !std::strncmp(name, "pipe:", 5));
}

Waits thread_waits(pid_t process, pid_t thread) {
  char first[256], second[256];
  read_of(process, thread, "syscall", first, sizeof first);
  long call = -1;
  unsigned long at[5] = {};  // its arguments
  if (!*first) return Waits::unknown;
  if (std::sscanf(first, "%ld %lx %lx %lx %lx %lx", &call, &at[0], &at[1], &at[2], &at[3], &at[4]) != 6)
    return Waits::no;  // "running"
  const timespec a_while = {0, 20'000'000};
  syscall(SYS_nanosleep, &a_while, nullptr);
  read_of(process, thread, "syscall", second, sizeof second);
  if (std::strcmp(first, second) != 0) return Waits::no;
  switch (call) {
    case SYS_read:
    case SYS_recvfrom:
    case SYS_recvmsg: return is_of_another(process, at[0]) ? Waits::yes : Waits::no;
#ifdef SYS_poll
    case SYS_poll: return static_cast<int>(at[2]) < 0 ? Waits::yes : Waits::no;
    case SYS_select: return at[4] ? Waits::no : Waits::yes;
#endif
    case SYS_ppoll: return at[2] ? Waits::no : Waits::yes;
    case SYS_pselect6: return at[4] ? Waits::no : Waits::yes;
    case SYS_epoll_pwait:
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
      return static_cast<int>(at[3]) < 0 ? Waits::yes : Waits::no;
    case SYS_futex: return at[3] ? Waits::no : Waits::yes;
    case SYS_wait4:
    case SYS_waitid:
    case SYS_rt_sigsuspend: return Waits::yes;
    default: return Waits::no;
  }
}

}  // namespace

ProcessIdentity this_process() {
  static const ProcessIdentity identity = identity_of(getpid());  // a child made by fork uses no memory
  return identity;
}

bool has_ended(ProcessIdentity process) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, number_of(process), 0));
  if (fd < 0) return errno == ESRCH;
  pollfd look = {fd, POLLIN, 0};
  const bool ended = poll(&look, 1, 0) > 0;
  close(fd);
  const ProcessIdentity now = identity_of(number_of(process));
  const bool is_told = uint64_t(now) >> process_number_bits;
  return ended || (is_told && now != process);
}

Waits is_blocked_on_peer(pid_t process) {  // perhaps in a handler of a signal: without memory
  char path[64], name[32];
  alignas(dirent64) char entries[4096];
  std::snprintf(path, sizeof path, "/proc/%d/task", process);
  const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const long size = directory < 0 ? 0 : syscall(SYS_getdents64, directory, entries, sizeof entries);
  if (directory >= 0) close(directory);
  Waits all = size > 0 ? Waits::yes : Waits::unknown;
  for (long at = 0; at < size && all == Waits::yes;) {
    const auto& entry = *reinterpret_cast<const dirent64*>(entries + at);
    const pid_t thread = std::atoi(entry.d_name);
    at += entry.d_reclen;
    read_of(process, thread, "comm", name, sizeof name);
    if (thread && std::strcmp(name, worker_name) != 0) all = thread_waits(process, thread);
  }
  return all;
}

Waits all_others_wait() {
  Waits all = Waits::yes;
  for (uint32_t place = 0; place < max_present && all == Waits::yes; ++place) {
    const int32_t process = ledger().present[place];
    if (process > 0 && process != getpid() && is_there(place)) all = is_blocked_on_peer(process);
  }
  return all;
}

bool is_awaited() { return ledger().awaited == getpid(); }
void note_ask() { ++ledger().asked; }
uint32_t asked() { return ledger().asked; }

Mutex process_lock;

Process& process() { return lasting<Process>(); }

void set_visible(std::vector<int> numbers) {
  if (numbers != seen_gpus().visible) seen_gpus().set(std::move(numbers));
}

std::span<const int> visible_gpus() { return seen_gpus().visible; }
PageTable& page_table(CUdevice device) { return *seen_gpus().tables[static_cast<size_t>(device)]; }

MutexLock lock_process() {
  if (is_forked)
    refuse(CUDA_ERROR_NOT_INITIALIZED, "this process was forked by one that had initialised CUDA: start it by exec");
  return MutexLock(process_lock);
}

void change(trace::Kind kind, const std::vector<Member>& members) {
  static std::atomic<uint64_t> order = 0;
  if (caller().changes) caller().changes->push_back(trace::change(kind, members, ++order));
}

static std::atomic<uint64_t> given_back = 0;
uint64_t ranges_given_back() { return given_back; }
void record_freed(uint64_t base, uint64_t size, std::string_view how) {
  auto& gone = process().gone;
  gone.push_back({base, size, ++given_back, how, caller().call});
  if (gone.size() > 256) gone.pop_front();
}

int device_count() { return int(visible_gpus().size()); }

int gpu_of(CUdevice device) {
  const auto visible = visible_gpus();
  if (device < 0 || size_t(device) >= visible.size())
    refuse(CUDA_ERROR_INVALID_DEVICE, "there is no GPU " + std::to_string(device) + ": this process sees " +
                                          std::to_string(visible.size()) + ", the first is 0");
  return visible[size_t(device)];
}

int host_of_node() { return machine().gpus * machine().nodes + node(); }

std::string owner_name(int owner) {
  const int device = device_of(owner);
  if (device >= 0) return "GPU " + std::to_string(device);
  return owner < machine().gpus * machine().nodes ? "a GPU that this process does not see" : "the host";
}

int device_of(int gpu) {
  const auto visible = visible_gpus();
  for (size_t i = 0; i < visible.size(); ++i)
    if (visible[i] == gpu) return int(i);
  return -1;
}

}  // namespace memory
