// SPDX-License-Identifier: MIT-0
// The last line of the trace. Who ends a process is told of in a destructor, in _exit, or in a handler of a signal that
// came in the middle of anything: here is no lock and no memory, and what needs either is made at cuInit.
#include "ending.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "../gpu/gpu.h"
#include "../memory/presence.h"
#include "../memory/process.h"
#include "../memory/records.h"
#include "../memory/this_machine.h"
#include "driver.h"
#include "leaks.h"
#include "modules.h"
#include "pools.h"

namespace driver {
namespace {

// For --adversarial-timing: after 0.3 s; and with --slow-import, once the process that has forked this one waits, too,
// if only for this end in an import. Whoever asks again and again for that waits as well; whoever lets time pass does
// not, however long.
void end_late() {
  const timespec late = {0, 300'000'000};
  syscall(SYS_nanosleep, &late, nullptr);
  char own[256] = "", parent[256] = "", path[32];
  std::snprintf(path, sizeof path, "/proc/%d/exe", getppid());
  const bool is_forked = readlink("/proc/self/exe", own, sizeof own - 1) > 0 &&
                         readlink(path, parent, sizeof parent - 1) > 0 && !std::strcmp(own, parent);
  if (!is_forked || !memory::options().slow_import) return;
  constexpr uint32_t many = 1000, some = 3;
  const int patience = memory::options().slow_import * 20;  // of 50 ms
  const pid_t maker = getppid();
  const uint32_t before = memory::asked();
  for (int i = 0; getppid() == maker && !memory::is_awaited(); ++i) {
    if (memory::asked() - before >= (i < patience ? many : some)) return;
    if (memory::is_blocked_on_peer(maker) != memory::Waits::no) return;
    const timespec a_while = {0, 30'000'000};
    syscall(SYS_nanosleep, &a_while, nullptr);
  }
}

constexpr int most_descriptors = 4096;  // that are looked at when a process ends

bool is_socket_or_pipe(int fd) {
  struct stat file, trace;
  return fd > STDERR_FILENO && !fstat(fd, &file) && (S_ISSOCK(file.st_mode) || S_ISFIFO(file.st_mode)) &&
         (fstat(memory::trace_file(), &trace) || file.st_ino != trace.st_ino);
}

// The numbers of a process's descriptors that `is_one`, as a list in JSON; of more than 16 the first.
void write_descriptors(char* text, size_t size, bool (*is_wanted)(int fd)) {
  int length = std::snprintf(text, size, "[");
  for (int fd = 0, found = 0; fd < most_descriptors && found < 16; ++fd)
    if (is_wanted(fd)) length += std::snprintf(text + length, size - length, "%s%d", found++ ? "," : "", fd);
  std::snprintf(text + length, size - length, "]");
}

// --- In the usual case -----------------------------------------------------------------------------------------------

void begin_exit(int status, void*) {
  state().exit_status = status;
  state().is_shut_down = true;
}

// At the end of the process: what the driver holds for itself goes first, what is left is the program's.
__attribute__((destructor)) void finish() {
  if (state().initialized_in != getpid()) return;
  if (memory::options().leaks) {
    forget_modules(nullptr);
    forget_memory(nullptr);
    log_leaks();
  }
  gpu::stop();
  trace_exit(state().exit_status);
}

}  // namespace

void trace_exit(int status) {
  static std::atomic<bool> is_told = false;
  if (!is_traced() || is_told.exchange(true)) return;
  if (memory::options().adversarial_timing) end_late();
  char held[128], open[128], arguments[320], line[768];
  write_descriptors(held, sizeof held, [](int fd) { return memory::exported_record(fd) != memory::invalid_index; });
  write_descriptors(open, sizeof open, is_socket_or_pipe);
  std::snprintf(arguments, sizeof arguments, R"({"status":%d,"descriptors":%s,"sockets":%s})", status & 0xff, held,
                open);
  const size_t size =
      trace::write_line({.number = next_line(), .call = "exit", .nth = 1, .arguments = arguments}, line, sizeof line);
  memory::unregister_presence();
  the_trace().write({line, size});  // where it fails the process ends all the same
}

void watch_end() {
  if (is_traced()) the_trace();
  on_exit(begin_exit, nullptr);
}

}  // namespace driver
