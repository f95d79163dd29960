// SPDX-License-Identifier: MIT-0
#include "presence.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../../trace/line.h"
#include "ledger.h"

namespace memory {
namespace {

// Of a process for which nobody has waited; 0: not known.
int status_of(pid_t process) {
  char path[32], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const auto file = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC));
  const ssize_t size = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) syscall(SYS_close, file);
  text[size > 0 ? size : 0] = '\0';
  const char* const last = std::strrchr(text, ' ');
  return last ? std::atoi(last) : 0;
}

}  // namespace

bool is_there(uint32_t place) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = max_records + place;
  lock.l_len = 1;
  return fcntl(ledger_file(), F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

size_t line_of_vanished(char* room, size_t size, pid_t reaped, int status) {
  if (!reason_without_machine().empty()) return 0;  // vmmsim itself, where a descriptor more was not to be had
  for (uint32_t place = 0; place < max_present; ++place) {
    std::atomic<int32_t>& present = ledger().present[place];
    int32_t process = present;
    if (process <= 0 || is_there(place) || !present.compare_exchange_strong(process, 0)) continue;
    const int end_status = process == reaped ? status : status_of(process);
    char arguments[32] = "{}";
    if (WIFSIGNALED(end_status)) std::snprintf(arguments, sizeof arguments, R"({"signal":%d})", WTERMSIG(end_status));
    return trace::write_line({.number = 0, .call = "vanished", .nth = 1, .arguments = arguments, .process = process},
                             room, size);
  }
  return 0;
}

}  // namespace memory
