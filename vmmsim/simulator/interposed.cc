// SPDX-License-Identifier: MIT-0
// The functions of libc that are others under vmmsim: a library of its own, preloaded, after what the user preloads.
// Each has its reason beside it. A process shows the simulated machine where a program asks the system and not the
// driver, tells --trace of descriptors and of its end, and lets no sleep take time (--adversarial-timing).
//
// A process that makes no CUDA call, wherever it is and however long it lives, must not notice. So nothing here looks
// for the machine: what there is to know stands in the variable VMMSIM. And what may be called in a handler of a signal
// still may be: no memory, no lock, no string; libc's own functions are looked up when the library is loaded.
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
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include "interposed.h"
#include "log.h"

namespace {

constexpr char devices_file[] = "/proc/devices";
constexpr char channel_directory[] = "/dev/nvidia-caps-imex-channels/";
constexpr char channel_file[] = "/dev/nvidia-caps-imex-channels/channel0";
constexpr char channel_in_memory[] = "/memfd:nvidia-caps-imex-channel0";  // the file that stands for it
constexpr const char* channel_name = channel_in_memory + sizeof "/memfd:" - 1;
constexpr int channel_major = 242, gpu_major = 195, uvm_major = 236;
constexpr char version_file[] = "/proc/driver/nvidia/version";
constexpr char version_text[] =
    "NVRM version: NVIDIA UNIX Kernel Module  580.159.04  simulated by vmmsim\n";  // as NVML's

bool begins(const char* text, const char* with) { return !std::strncmp(text, with, std::strlen(with)); }

const char* variable(const char* name) {  // of the environment
  const size_t length = std::strlen(name);
  for (char** entry = environ; entry && *entry; ++entry)
    if (!std::strncmp(*entry, name, length) && (*entry)[length] == '=') return *entry + length + 1;
  return nullptr;
}

// --- The machine, as VMMSIM tells of it (memory/ledger.cc) -----------------------------------------------------------

struct Seen {
  int gpus = 0;  // of a node
  bool is_simulated = false, has_channel = false, has_multicast = false, has_adversarial_timing = false;
};

// PROCESS:DESCRIPTOR:TOKEN:GPUS:LETTERS
Seen read_variable() {
  Seen seen;
  const char* at = variable("VMMSIM");
  seen.is_simulated = at;
  for (int colons = 0; at && colons < 3; ++colons)
    if (const char* const colon = std::strchr(at, ':')) at = colon + 1;
    else return seen;
  for (; at && *at >= '0' && *at <= '9'; ++at) seen.gpus = seen.gpus * 10 + (*at - '0');
  for (; at && *at; ++at) {
    seen.has_channel |= *at == 'c' && seen.gpus > 0;
    seen.has_multicast |= *at == 'm';
    seen.has_adversarial_timing |= *at == 'n';
  }
  return seen;
}
bool is_read = false;
Seen once;  // when this library is loaded
Seen seen() { return is_read ? once : read_variable(); }

// --- libc's own functions --------------------------------------------------------------------------------------------

#define REPLACED(list)                                                                                           \
  list(fopen) list(fopen64) list(glob) list(sleep) list(usleep) list(nanosleep) list(clock_nanosleep) list(poll) \
      list(ppoll) list(select) list(pselect) list(epoll_wait) list(setsockopt) list(sendmsg) list(sendmmsg)      \
          list(alarm) list(setitimer) list(wait4) list(waitid) list(statx)

enum Replaced {
#define NUMBER(name) number_of_##name,
  REPLACED(NUMBER) replaced_count
};
constexpr const char* names[] = {
#define NAME(name) #name,
    REPLACED(NAME)};
std::atomic<void*> found[replaced_count];

void* look_up(int number) { return found[number] = dlsym(RTLD_NEXT, names[number]); }

template <class Function> Function* next(int number) {
  void* const known = found[number];
  return reinterpret_cast<Function*>(known ? known : look_up(number));  // a constructor may sleep before ours has run
}
#define NEXT(name) next<decltype(name)>(number_of_##name)

// --- Another driver --------------------------------------------------------------------------------------------------

struct Search {
  const char* ours;
  size_t directory;  // the length of its path's
  bool has_ours;     // the simulator's driver is loaded
  char found[4096];  // the path of another, or ""
};

// The driver in this process: the simulator's, or another. The hook leads to ours (runtime/hook.cc) unless LD_AUDIT is
// gone. A runtime that is not ours calls our driver, and is refused there (driver/entry_point_calls.cc).
void find_driver(Search& search) {
  Dl_info here;
  search.has_ours = false;
  search.found[0] = '\0';
  search.ours = dladdr(&channel_file, &here) ? here.dli_fname : "";
  const char* const end = std::strrchr(search.ours, '/');
  search.directory = end ? end + 1 - search.ours : 0;
  dl_iterate_phdr(
      [](dl_phdr_info* library, size_t, void* data) {
        Search& search = *static_cast<Search*>(data);
        const char *const path = library->dlpi_name, *const slash = std::strrchr(path, '/');
        const char* const name = slash ? slash + 1 : path;
        if (!begins(name, "libcuda.so")) return 0;
        if (size_t(name - path) == search.directory && !std::strncmp(path, search.ours, name - path))
          search.has_ours = true;
        else std::snprintf(search.found, sizeof search.found, "%s", path);
        return 0;
      },
      &search);
}

// Before main: a program that would use another driver must not run as if it were simulated.
__attribute__((constructor)) void begin(int, char** words, char**) {
  for (int number = 0; number < replaced_count; ++number) look_up(number);
  once = read_variable();
  is_read = true;
  if (!once.is_simulated) return;
  Search search;
  find_driver(search);
  if (!*search.found) return;
  log_line("%s loads %s instead of the simulator's library: leave LD_AUDIT as vmmsim has set it", words[0],
           search.found);
  syscall(SYS_exit_group, 125);
}

// --- Files of the system that tell of GPUs ---------------------------------------------------------------------------

// Whether a path is that of the file with a GPU's NUMA node. The driver names the same bus (driver/device_names.cc).
bool is_numa_node(const char* path) {
  constexpr char before[] = "/sys/bus/pci/devices/0000:";
  if (!begins(path, before)) return false;
  char* end = nullptr;
  const char* const digits = path + sizeof before - 1;
  const unsigned long bus = std::strtoul(digits, &end, 16);
  return end == digits + 2 && !std::strcmp(end, ":00.0/numa_node") && bus >= 1 && bus <= unsigned(seen().gpus);
}

// A file in memory, read from its start.
int in_memory(const char* name, const char* text) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  const size_t size = std::strlen(text);
  if (fd >= 0 && (write(fd, text, size) != ssize_t(size) || lseek(fd, 0, SEEK_SET) < 0)) {
    close(fd);
    return -1;
  }
  return fd;
}

// A device of the driver's, by its path: a GPU, or what the driver is asked through. Programs look whether it is there.
struct Device {
  bool is_one = false, is_there = false;
  dev_t number = 0;
};
Device device_at(const char* path) {
  constexpr char before[] = "/dev/nvidia";
  if (!begins(path, before)) return {};
  const char* const suffix = path + sizeof before - 1;
  const unsigned gpus = unsigned(seen().gpus);
  if (!std::strcmp(suffix, "ctl")) return {true, gpus > 0, makedev(gpu_major, 255)};
  if (!std::strcmp(suffix, "-uvm")) return {true, gpus > 0, makedev(uvm_major, 0)};
  char* end = nullptr;
  const unsigned long gpu = std::strtoul(suffix, &end, 10);
  if (*suffix < '0' || *suffix > '9' || *end) return {};
  return {true, gpu < gpus, makedev(gpu_major, unsigned(gpu))};
}

// The host's list, with the simulated GPUs for its own.
int open_devices() {
  char real[8192] = "Character devices:\n\nBlock devices:\n", text[sizeof real + 96] = "";
  const int fd = openat(AT_FDCWD, devices_file, O_RDONLY | O_CLOEXEC);
  const ssize_t size = fd < 0 ? -1 : read(fd, real, sizeof real - 1);
  if (size > 0) real[size] = '\0';
  if (fd >= 0) close(fd);
  size_t end = 0;
  for (const char* line = real; *line;) {
    const size_t length = std::strcspn(line, "\n") + 1;
    const bool is_of_gpus = memmem(line, length, "nvidia", 6);
    if (*line == '\n' && seen().gpus)  // after the last of the character devices
      end += size_t(std::snprintf(text + end, sizeof text - end,
                                  "%d nvidia\n%d nvidia-uvm\n%d nvidia-caps-imex-channels\n", gpu_major, uvm_major,
                                  channel_major));
    if (!is_of_gpus) std::memcpy(text + end, line, length), end += length;
    line += length;
  }
  return in_memory("devices", text);
}

// Opens what this machine has under a path. False: the path is none of the simulator's.
bool open_simulated(const char* path, int flags, int* fd) {
  if (!path || *path != '/' || !seen().is_simulated) return false;
  if (!std::strcmp(path, devices_file)) {
    *fd = open_devices();
  } else if (begins(path, channel_directory)) {
    errno = ENOENT;
    *fd = !std::strcmp(path, channel_file) && seen().has_channel ? in_memory(channel_name, "") : -1;
  } else if (is_numa_node(path)) {
    *fd = in_memory("numa_node", "0\n");
  } else if (!std::strcmp(path, version_file)) {
    *fd = in_memory("version", version_text);
  } else if (const Device device = device_at(path); device.is_one) {
    errno = ENOENT;
    *fd = device.is_there ? in_memory(path + sizeof "/dev/" - 1, "") : -1;
  } else {
    return false;
  }
  if (*fd >= 0 && !(flags & O_CLOEXEC)) fcntl(*fd, F_SETFD, 0);
  return true;
}

FILE* open_stream(decltype(fopen)* libc_fopen, const char* path, const char* mode) {
  int fd = -1;
  if (!open_simulated(path, std::strchr(mode, 'e') ? O_CLOEXEC : 0, &fd)) return libc_fopen(path, mode);
  return fd < 0 ? nullptr : fdopen(fd, mode);
}

int open_file(const char* path, int flags, mode_t mode) {
  int fd = -1;
  return open_simulated(path, flags, &fd) ? fd : openat(AT_FDCWD, path, flags, mode);
}

// The only file that a pattern in the channels' directory can match is the channel's.
int find_files(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
  const auto libc_glob = NEXT(glob);
  if (!seen().is_simulated || !begins(pattern, channel_directory)) return libc_glob(pattern, flags, failed, result);
  if (seen().has_channel && fnmatch(pattern, channel_file, FNM_PATHNAME) == 0)
    return libc_glob(channel_file, flags | GLOB_NOCHECK, failed, result);  // the name itself
  return libc_glob("", flags, failed, result);                             // nothing, as the flags want it said
}

// What a program finds at a path of the simulated GPUs. False: the path is none of theirs. Then 0, or -1 and errno.
bool describe_simulated(const char* path, struct stat* is, int* result) {
  if (!path || *path != '/' || !seen().is_simulated) return false;
  const bool is_text = !std::strcmp(path, version_file) || is_numa_node(path);
  const Device device = device_at(path);
  if (!is_text && !device.is_one) return false;
  *result = is_text || device.is_there ? 0 : -1;
  if (*result) errno = ENOENT;
  *is = {};
  is->st_nlink = 1;
  is->st_mode = is_text ? S_IFREG | 0444 : S_IFCHR | 0666;
  is->st_rdev = device.number;
  is->st_blksize = 4096;
  return true;
}

// Whether a file is there and may be used so.
int look_at(const char* path, int mode) {
  struct stat is;
  int result;
  if (!describe_simulated(path, &is, &result)) return faccessat(AT_FDCWD, path, mode, 0);
  if (result || !(mode & (S_ISREG(is.st_mode) ? W_OK | X_OK : X_OK))) return result;
  errno = EACCES;
  return -1;
}

int describe_at(int directory, const char* path, struct stat* is, int flags) {
  int result;
  if (describe_simulated(path, is, &result)) return result;
  return int(syscall(SYS_newfstatat, directory, path, is, flags));
}

// What /proc calls a descriptor's file: "/memfd:nvidia0 (deleted)".
struct FileName {
  char text[64] = "";
  explicit FileName(int fd) {
    char path[32] = "/proc/self/fd/", digits[12];
    int count = 0;
    size_t end = std::strlen(path);
    for (unsigned number = unsigned(fd); !count || number; number /= 10) digits[count++] = char('0' + number % 10);
    while (count) path[end++] = digits[--count];
    if (readlink(path, text, sizeof text - 1) < 0) text[0] = '\0';
  }
};
bool is_called(int fd, const char* begin) { return begins(FileName(fd).text, begin); }

// The device that a file in memory stands for.
Device device_of(int fd) {
  constexpr char before[] = "/memfd:", devices[] = "/dev/";
  FileName name(fd);
  if (begins(name.text, channel_in_memory)) return {true, true, makedev(channel_major, 0)};
  if (!begins(name.text, before)) return {};
  if (char* const end = std::strstr(name.text, " (deleted)")) *end = '\0';
  char* const path = name.text + sizeof before - sizeof devices;
  std::memcpy(path, devices, sizeof devices - 1);
  return device_at(path);
}

// A descriptor of a file that stands for a device, in whatever process it has come to, looks like one.
int describe(int fd, struct stat* is) {
  const int result = int(syscall(SYS_newfstatat, fd, "", is, AT_EMPTY_PATH));
  if (result != 0 || !S_ISREG(is->st_mode) || is->st_nlink != 0 || is->st_size != 0) return result;
  const int before = errno;
  if (const Device device = device_of(fd); device.is_there) {
    is->st_mode = S_IFCHR | 0666;
    is->st_rdev = device.number;
  }
  errno = before;
  return result;
}

// The size of a dma-buf, 0 of what is none: a simulated one is the ledger's file at a position that tells it
// (memory/records.cc).
off_t dma_buf_size(int fd) {
  const int before = errno;
  const off_t position = syscall(SYS_lseek, fd, 0, SEEK_CUR);
  const bool is_dma_buf = position > before_dma_bufs && seen().is_simulated && is_called(fd, "/memfd:vmmsim-ledger");
  errno = before;
  return is_dma_buf ? position - before_dma_bufs : 0;
}

// --- What is told, and what takes no time ----------------------------------------------------------------------------

std::atomic<const Watcher*> watcher = nullptr;

// Whether sleeps and time limits are over at once: what is only hoped to have happened by then has not.
bool returns_at_once() {
  const bool at_once = seen().has_adversarial_timing;
  if (const Watcher* const watching = watcher; at_once && watching) watching->sleeps();
  return at_once;
}
int at_once(int limit) { return limit > 0 && returns_at_once() ? 0 : limit; }
template <class Time> Time* at_once(Time* limit, Time& zero) { return limit && returns_at_once() ? &zero : limit; }

// An alarm that interrupts what waits goes off soon; one that ends the process does in its time.
bool is_interruption() {
  struct sigaction action;
  return seen().has_adversarial_timing && !sigaction(SIGALRM, nullptr, &action) && action.sa_handler != SIG_DFL;
}

pid_t wait_for(pid_t process, int* status, int options, rusage* usage) {  // no noexcept: a thread may be cancelled here
  int end_status = 0;
  const pid_t ended = NEXT(wait4)(process, &end_status, options, usage);
  if (status && ended > 0) *status = end_status;
  const Watcher* const watching = watcher;
  if (watching && ended == 0) watching->asks();
  if (watching && ended > 0 && (WIFEXITED(end_status) || WIFSIGNALED(end_status))) watching->reaped(ended, end_status);
  return ended;
}

void notify_send(msghdr message) {
  const Watcher* const watching = watcher;
  if (!watching || !seen().has_adversarial_timing) return;
  int fds[256];  // one more than the host's kernel takes
  size_t count = 0;
  for (cmsghdr* at = CMSG_FIRSTHDR(&message); at; at = CMSG_NXTHDR(&message, at)) {
    if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS || at->cmsg_len <= CMSG_LEN(0)) continue;
    const size_t sent = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    if (sent > sizeof fds / sizeof *fds - count) break;
    std::memcpy(fds + count, CMSG_DATA(at), sent * sizeof(int));
    count += sent;
  }
  watching->sends(fds, count);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void vmmsim_watch(const Watcher* watching) { watcher = watching; }

// NCCL_NVLS_ENABLE=0 keeps multicast off a machine's real GPUs. Simulated ones can take no harm, so it does not count
// in a process that has the simulator's driver and no other; what it starts without the simulator still finds it.
char* getenv(const char* name) noexcept {
  const char* const value = variable(name);
  if (!value || std::strcmp(name, "NCCL_NVLS_ENABLE") != 0 || !seen().is_simulated || !seen().has_multicast)
    return const_cast<char*>(value);
  Search search;
  find_driver(search);
  return search.has_ours && !*search.found ? nullptr : const_cast<char*>(value);
}
// getenv, as libraries call it.
char* secure_getenv(const char* name) noexcept { return getauxval(AT_SECURE) ? nullptr : getenv(name); }

// A program looks for the class of IMEX channel files in /proc/devices, and for a GPU's NUMA node under /sys.
FILE* fopen(const char* path, const char* mode) { return open_stream(NEXT(fopen), path, mode); }
FILE* fopen64(const char* path, const char* mode) { return open_stream(NEXT(fopen64), path, mode); }

// The same, and the IMEX channel's file.
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

// NCCL asks so whether there is a NUMA node's file, and others whether there is a GPU's device. __xstat and __lxstat
// are stat and lstat in programs of before glibc 2.33.
int access(const char* path, int mode) noexcept { return look_at(path, mode); }

// Programs that look for a channel list the directory.
int glob(const char* pattern, int flags, int (*failed)(const char*, int), glob_t* result) {
  return find_files(pattern, flags, failed, result);
}
int glob64(const char* pattern, int flags, int (*failed)(const char*, int), glob64_t* result) {
  return find_files(pattern, flags, failed, reinterpret_cast<glob_t*>(result));
}

int stat(const char* path, struct stat* is) noexcept { return describe_at(AT_FDCWD, path, is, 0); }
int stat64(const char* path, struct stat64* is) noexcept { return stat(path, reinterpret_cast<struct stat*>(is)); }
int lstat(const char* path, struct stat* is) noexcept { return describe_at(AT_FDCWD, path, is, AT_SYMLINK_NOFOLLOW); }
int lstat64(const char* path, struct stat64* is) noexcept { return lstat(path, reinterpret_cast<struct stat*>(is)); }
int fstatat(int directory, const char* path, struct stat* is, int flags) noexcept {
  return describe_at(directory, path, is, flags);
}
int fstatat64(int directory, const char* path, struct stat64* is, int flags) noexcept {
  return fstatat(directory, path, reinterpret_cast<struct stat*>(is), flags);
}
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* all) noexcept {
  struct stat is;
  int result;
  if (!describe_simulated(path, &is, &result)) return NEXT(statx)(directory, path, flags, mask, all);
  *all = {};
  all->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK;
  all->stx_mode = static_cast<uint16_t>(is.st_mode);
  all->stx_nlink = 1;
  all->stx_blksize = 4096;
  all->stx_rdev_major = major(is.st_rdev);
  all->stx_rdev_minor = minor(is.st_rdev);
  return result;
}
int __xstat(int, const char* path, struct stat* is) noexcept { return stat(path, is); }
int __lxstat(int, const char* path, struct stat* is) noexcept { return lstat(path, is); }

// A program makes sure that a channel's file is a device.
int fstat(int fd, struct stat* is) noexcept { return describe(fd, is); }
int fstat64(int fd, struct stat64* is) noexcept { return describe(fd, reinterpret_cast<struct stat*>(is)); }

// A dma-buf has a size, and no position.
off_t lseek(int fd, off_t offset, int whence) noexcept {
  const off_t size = dma_buf_size(fd);
  if (!size) return syscall(SYS_lseek, fd, offset, whence);
  if (!offset && whence == SEEK_END) return size;
  if (!offset && whence == SEEK_SET) return 0;
  errno = EINVAL;
  return -1;
}
off_t lseek64(int fd, off_t offset, int whence) noexcept { return lseek(fd, offset, whence); }

// For --trace: memory is freed with the last descriptor of it, and no call of CUDA is made for that.
int __close(int);  // libc's own
int close(int fd) {
  const Watcher* const watching = watcher;
  const bool holds = watching && watching->closes(fd);
  const int result = __close(fd);
  if (holds) watching->closed();
  if (watching && result && errno == EBADF) watching->could_not_close(fd);
  return result;
}

// For --trace: with what a child has ended that could not tell.
pid_t waitpid(pid_t process, int* status, int options) { return wait_for(process, status, options, nullptr); }
pid_t wait(int* status) { return wait_for(-1, status, 0, nullptr); }
pid_t wait4(pid_t process, int* status, int options, rusage* usage) noexcept {
  return wait_for(process, status, options, usage);
}

int waitid(idtype_t which, id_t id, siginfo_t* about, int options) {
  const int result = NEXT(waitid)(which, id, about, options);
  if (const Watcher* const watching = watcher; watching && !result && options & WNOHANG && about && !about->si_pid)
    watching->asks();
  return result;
}

// For --trace: no destructor runs that could tell of the end.
__attribute__((noreturn)) void _exit(int status) {
  if (const Watcher* const watching = watcher) watching->exits(status);
  for (;;) syscall(SYS_exit_group, status);
}
void _Exit(int status) noexcept { _exit(status); }

// For --adversarial-timing: what takes time.
unsigned sleep(unsigned seconds) { return returns_at_once() ? 0 : NEXT(sleep)(seconds); }
int usleep(useconds_t time) { return returns_at_once() ? 0 : NEXT(usleep)(time); }
int nanosleep(const timespec* time, timespec* remaining) {
  return returns_at_once() ? 0 : NEXT(nanosleep)(time, remaining);
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* remaining) {
  return returns_at_once() ? 0 : NEXT(clock_nanosleep)(clock, flags, time, remaining);
}

// For --adversarial-timing: what waits for so long at most; __poll_chk and __ppoll_chk are poll and ppoll with
// _FORTIFY_SOURCE.
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

// For --adversarial-timing: a limit for what a socket waits.
int setsockopt(int socket, int level, int option, const void* value, socklen_t size) noexcept {
  const timeval least = {0, 1};  // 0 would be no limit
  const bool is_limit = level == SOL_SOCKET && (option == SO_RCVTIMEO || option == SO_SNDTIMEO);
  if (is_limit && size == sizeof least && seen().has_adversarial_timing) value = &least;
  return NEXT(setsockopt)(socket, level, option, value, size);
}

// For --adversarial-timing: an alarm that interrupts a wait.
unsigned alarm(unsigned seconds) noexcept {
  const itimerval in_a_while = {{}, {long(seconds), 0}};
  return is_interruption() ? unsigned(setitimer(ITIMER_REAL, &in_a_while, nullptr)) : NEXT(alarm)(seconds);
}
int setitimer(__itimer_which_t which, const itimerval* time, itimerval* before) noexcept {
  const itimerval soon = {{0, 1'000}, {0, 1'000}};  // and again: what comes before the wait interrupts none
  const bool is_set = time && (time->it_value.tv_sec || time->it_value.tv_usec);
  return NEXT(setitimer)(which, which == ITIMER_REAL && is_set && is_interruption() ? &soon : time, before);
}

// For --adversarial-timing with --trace: descriptors of memory that go to another process.
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (message) notify_send(*message);
  return NEXT(sendmsg)(socket, message, flags);
}
int sendmmsg(int socket, mmsghdr* messages, unsigned n, int flags) {
  for (unsigned i = 0; i < n; ++i) notify_send(messages[i].msg_hdr);
  return NEXT(sendmmsg)(socket, messages, n, flags);
}

}  // extern "C"
#pragma GCC visibility pop
