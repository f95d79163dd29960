// SPDX-License-Identifier: MIT-0
// What the library does to the process that loads it under vmmsim: it ends one that has another driver beside it, and
// shows it the simulated machine where a program asks the system and not the driver: the class of IMEX channel files in
// /proc/devices, the channel's file, the NUMA node of each GPU under /sys, and whether this machine may use multicast.
// It also tells --trace of descriptors that are closed and of the end, and lets no sleep take time and no alarm wait
// (--no-luck). The functions at the end go before those of libc. No file is made, and no variable of the environment is
// changed: both end where the simulator ends.
#include <dlfcn.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <glob.h>
#include <link.h>
#include <poll.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>
#include "../memory/this_machine.h"
#include "call.h"

namespace {

constexpr char devices_file[] = "/proc/devices";
constexpr char channel_directory[] = "/dev/nvidia-caps-imex-channels/";
constexpr char channel_file[] = "/dev/nvidia-caps-imex-channels/channel0";
constexpr char channel_name[] = "nvidia-caps-imex-channel0";  // of the file in memory that stands for it
constexpr int channel_major = 242;

bool is_simulated() { return memory::environment("VMMSIM"); }
bool begins(const char* text, const char* with) { return !std::strncmp(text, with, std::strlen(with)); }

// Whether a path is that of the file with a GPU's NUMA node. The driver names the same bus (devices.cc).
bool is_numa_node(const char* path) {
  unsigned bus = 0;
  int end = 0;
  std::sscanf(path, "/sys/bus/pci/devices/0000:%2x:00.0/numa_node%n", &bus, &end);
  return end && !path[end] && bus >= 1 && bus <= unsigned(memory::machine().gpus);
}

bool has_channel() { return memory::machine().fabric_channel && memory::machine().gpus > 0; }

// The path of a driver or CUDA runtime in this process that is not the simulator's, or "".
std::string foreign_library() {
  struct Search {
    std::string ours, found;
  } search;
  Dl_info here;
  if (dladdr(&channel_file, &here)) search.ours = here.dli_fname;
  search.ours.resize(search.ours.rfind('/') + 1);
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* data) {
        Search& search = *static_cast<Search*>(data);
        const std::string path = library->dlpi_name, name = path.substr(path.rfind('/') + 1);
        if ((name.starts_with("libcuda.so") || name.starts_with("libcudart.so")) && path != search.ours + name)
          search.found = path;
        return 0;
      },
      &search);
  return search.found;
}

// Before main: a program that would use another driver, or another runtime, must not run as if it were simulated. The
// loader begins with this library, even before libc, which has no environment yet.
__attribute__((constructor)) void check_process(int, char** words, char** variables) {
  if (!environ) environ = variables;
  const std::string other = is_simulated() ? foreign_library() : "";
  if (other.empty()) return;
  dprintf(STDERR_FILENO,
          "vmmsim: %s loads %s instead of the simulator's library: build it with the simulator's release of CUDA, and "
          "without the path of that library in it\n",
          words[0], other.c_str());
  _exit(125);
}

// A file in memory, read from its start.
int in_memory(const char* name, const std::string& text) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd >= 0 && (write(fd, text.data(), text.size()) < 0 || lseek(fd, 0, SEEK_SET) < 0)) {
    close(fd);
    return -1;
  }
  return fd;
}

// Opens what this machine has under a path. False: the path is none of the simulator's.
bool open_simulated(const char* path, int flags, int* fd) {
  if (!path || !is_simulated()) return false;
  if (!std::strcmp(path, devices_file)) {
    const std::string of_gpus = "195 nvidia\n" + std::to_string(channel_major) + " nvidia-caps-imex-channels\n";
    *fd = in_memory("devices",
                    "Character devices:\n  1 mem\n" + (memory::machine().gpus ? of_gpus : "") + "\nBlock devices:\n");
  } else if (begins(path, channel_directory)) {
    errno = ENOENT;
    *fd = !std::strcmp(path, channel_file) && has_channel() ? in_memory(channel_name, "") : -1;
  } else if (is_numa_node(path)) {
    *fd = in_memory("numa_node", "0\n");
  } else {
    return false;
  }
  if (*fd >= 0 && !(flags & O_CLOEXEC)) fcntl(*fd, F_SETFD, 0);
  return true;
}

template <class Function> Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
// The same, looked up once.
#define NEXT(name)                                          \
  ([] {                                                     \
    static auto* const found = next<decltype(name)>(#name); \
    return found;                                           \
  }())

FILE* open_stream(const char* function, const char* path, const char* mode) {
  int fd = -1;
  const int flags = std::strchr(mode, 'e') ? O_CLOEXEC : 0;
  if (!open_simulated(path, flags, &fd)) return next<decltype(fopen)>(function)(path, mode);
  return fd < 0 ? nullptr : fdopen(fd, mode);
}

int open_file(const char* path, int flags, mode_t mode) {
  int fd = -1;
  return open_simulated(path, flags, &fd) ? fd : openat(AT_FDCWD, path, flags, mode);
}

// The only file that a pattern in the channels' directory can match is the channel's.
int find_files(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
  const auto libc_glob = next<decltype(glob)>("glob");
  if (!is_simulated() || !begins(pattern, channel_directory)) return libc_glob(pattern, flags, failed, result);
  if (has_channel() && fnmatch(pattern, channel_file, FNM_PATHNAME) == 0)
    return libc_glob(channel_file, flags | GLOB_NOCHECK, failed, result);  // the name itself
  return libc_glob("", flags, failed, result);                             // nothing, as the flags want it said
}

// Whether a file is there and may be used so.
int look_at(const char* path, int mode) {
  if (!path || !is_simulated() || !is_numa_node(path)) return faccessat(AT_FDCWD, path, mode, 0);
  errno = EACCES;
  return mode & (W_OK | X_OK) ? -1 : 0;
}

// A descriptor of the file that stands for the channel's, in whatever process it has come to, looks like a device.
int describe(int fd, struct stat* is) {
  const int result = fstatat(fd, "", is, AT_EMPTY_PATH);
  if (result != 0 || !S_ISREG(is->st_mode) || is->st_nlink != 0) return result;
  char name[64] = "";
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) > 0 &&
      begins(name, (std::string("/memfd:") + channel_name).c_str())) {
    is->st_mode = S_IFCHR | 0666;
    is->st_rdev = makedev(channel_major, 0);
  }
  return result;
}

// Whether sleeps and time limits are over at once: what is only hoped to have happened by then has not.
bool is_without_luck() { return is_simulated() && memory::options().no_luck; }
bool is_over_at_once() {
  const bool is_over = is_without_luck();
  if (is_over) driver::tell_sleep();
  return is_over;
}
int at_once(int limit) { return limit > 0 && is_over_at_once() ? 0 : limit; }
template <class Time> Time* at_once(Time* limit, Time& zero) { return limit && is_over_at_once() ? &zero : limit; }

// An alarm that interrupts what waits goes off soon; one that ends the process does in its time.
bool is_interruption() {
  struct sigaction action;
  return is_without_luck() && !sigaction(SIGALRM, nullptr, &action) && action.sa_handler != SIG_DFL;
}

// The descriptors that a message carries.
std::vector<int> carried_by(msghdr message) {
  std::vector<int> fds;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    const bool has_fds = at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_RIGHTS;
    const size_t count = has_fds && at->cmsg_len > CMSG_LEN(0) ? (at->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
    fds.resize(fds.size() + count);
    std::memcpy(fds.data() + fds.size() - count, CMSG_DATA(at), count * sizeof(int));
  }
  return fds;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

// NCCL_NVLS_ENABLE=0 keeps multicast off a machine's real GPUs. Simulated ones can take no harm, so it does not count
// here as long as this process has no way to the real ones; what it starts without the simulator still finds it.
char* getenv(const char* name) noexcept {
  const char* const value = memory::environment(name);
  const bool is_lifted = value && !std::strcmp(name, "NCCL_NVLS_ENABLE") && is_simulated() &&
                         memory::machine().multicast && foreign_library().empty();
  return is_lifted ? nullptr : const_cast<char*>(value);
}
char* secure_getenv(const char* name) noexcept { return getauxval(AT_SECURE) ? nullptr : getenv(name); }

FILE* fopen(const char* path, const char* mode) { return open_stream("fopen", path, mode); }
FILE* fopen64(const char* path, const char* mode) { return open_stream("fopen64", path, mode); }

#define OPEN(name)                                                          \
  int name(const char* path, int flags, ...) {                              \
    va_list more;                                                           \
    va_start(more, flags);                                                  \
    const bool makes = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE; \
    const mode_t mode = makes ? va_arg(more, mode_t) : 0;                   \
    va_end(more);                                                           \
    return open_file(path, flags, mode);                                    \
  }
OPEN(open)
OPEN(open64)
// What open is in a program built with _FORTIFY_SOURCE, which Ubuntu's compiler defines by itself.
int __open_2(const char* path, int flags) { return open_file(path, flags, 0); }
int __open64_2(const char* path, int flags) { return open_file(path, flags, 0); }

int access(const char* path, int mode) noexcept { return look_at(path, mode); }

int glob(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
  return find_files(pattern, flags, failed, result);
}
int glob64(const char* pattern, int flags, int (*failed)(const char*, int), glob64_t* result) {
  return find_files(pattern, flags, failed, reinterpret_cast<glob_t*>(result));
}

int __close(int);  // libc's own
int close(int fd) {
  driver::tell_close(fd);
  const int result = __close(fd);
  if (result && errno == EBADF) driver::tell_refused_close(fd);
  return result;
}

__attribute__((noreturn)) void _exit(int status) {
  driver::tell_exit(status);
  for (;;) syscall(SYS_exit_group, status);
}
void _Exit(int status) noexcept { _exit(status); }

// For --no-luck: what takes time, or waits for so long at most.
unsigned sleep(unsigned seconds) { return is_over_at_once() ? 0 : NEXT(sleep)(seconds); }
int usleep(useconds_t time) { return is_over_at_once() ? 0 : NEXT(usleep)(time); }
int nanosleep(const timespec* time, timespec* left) { return is_over_at_once() ? 0 : NEXT(nanosleep)(time, left); }
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  return is_over_at_once() ? 0 : NEXT(clock_nanosleep)(clock, flags, time, left);
}
int poll(pollfd* files, nfds_t n, int limit) { return NEXT(poll)(files, n, at_once(limit)); }
int __poll_chk(pollfd* files, nfds_t n, int limit, size_t) { return poll(files, n, limit); }
int ppoll(pollfd* files, nfds_t n, const timespec* limit, const sigset_t* mask) {
  const timespec zero = {};
  return NEXT(ppoll)(files, n, at_once(limit, zero), mask);
}
int __ppoll_chk(pollfd* files, nfds_t n, const timespec* limit, const sigset_t* mask, size_t) {
  return ppoll(files, n, limit, mask);
}
int select(int n, fd_set* to_read, fd_set* to_write, fd_set* failed, timeval* limit) {
  timeval zero = {};
  return NEXT(select)(n, to_read, to_write, failed, at_once(limit, zero));
}
int pselect(int n, fd_set* to_read, fd_set* to_write, fd_set* failed, const timespec* limit, const sigset_t* mask) {
  const timespec zero = {};
  return NEXT(pselect)(n, to_read, to_write, failed, at_once(limit, zero), mask);
}
int epoll_wait(int file, epoll_event* events, int n, int limit) {
  return NEXT(epoll_wait)(file, events, n, at_once(limit));
}
int setsockopt(int socket, int level, int option, const void* value, socklen_t size) noexcept {
  const timeval least = {0, 1};  // 0 would be no limit
  const bool is_limit = level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO);
  if (is_limit && size == sizeof least && is_without_luck()) value = &least;
  return NEXT(setsockopt)(socket, level, option, value, size);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (is_without_luck() && message) driver::tell_send(carried_by(*message));
  return NEXT(sendmsg)(socket, message, flags);
}
int sendmmsg(int socket, mmsghdr* messages, unsigned n, int flags) {
  for (unsigned i = 0; i < n && is_without_luck(); ++i) driver::tell_send(carried_by(messages[i].msg_hdr));
  return NEXT(sendmmsg)(socket, messages, n, flags);
}
unsigned alarm(unsigned seconds) noexcept {
  const itimerval in_a_while = {{}, {long(seconds), 0}};
  return is_interruption() ? unsigned(setitimer(ITIMER_REAL, &in_a_while, nullptr)) : NEXT(alarm)(seconds);
}
int setitimer(__itimer_which_t which, const itimerval* time, itimerval* before) noexcept {
  const itimerval soon = {{0, 1'000}, {0, 1'000}};  // and again: what comes before the wait interrupts none
  const bool is_set = time && (time->it_value.tv_sec || time->it_value.tv_usec);
  return NEXT(setitimer)(which, which == ITIMER_REAL && is_set && is_interruption() ? &soon : time, before);
}

int fstat(int fd, struct stat* is) noexcept { return describe(fd, is); }
int fstat64(int fd, struct stat64* is) noexcept { return describe(fd, reinterpret_cast<struct stat*>(is)); }

}  // extern "C"
#pragma GCC visibility pop
