// SPDX-License-Identifier: MIT-0
#include "line.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

namespace trace {

std::string change(Kind kind, const std::vector<Member>& members, uint64_t order) {
  std::vector<Member> all = {{"kind", kind.name}};
  all.insert(all.end(), members.begin(), members.end());
  all.emplace_back("order", order);
  return object(all);
}

uint64_t microseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000 + uint64_t(now.tv_nsec) / 1000;
}

size_t write_line(const Line& line, char* room, size_t size) {
  const pid_t process = line.process ? line.process : getpid();
  const pid_t thread = line.thread ? line.thread : line.process ? line.process : pid_t(syscall(SYS_gettid));
  const auto member = [](char (&text)[48], const char* name, unsigned long long value) {
    if (value) std::snprintf(text, sizeof text, "\"%s\":%llu,", name, value);
  };
  char began[48] = "", correlation[48] = "";
  member(began, "began", line.began);
  member(correlation, "correlation", line.correlation);
  const int length = std::snprintf(
      room, size,
      R"({"pid":%d,"thread":%d,"number":%llu,"time":%llu,%s%s"call":"%s","nth":%llu,"callers":%s,"device":%d,)"
      R"("arguments":%s,"result":"%s","outputs":%s,"changes":%s,"explanation":%s%s%s%s%s})"
      "\n",
      process, thread, static_cast<unsigned long long>(line.number), static_cast<unsigned long long>(line.time), began,
      correlation, line.call, static_cast<unsigned long long>(line.nth), line.callers, line.device, line.arguments,
      line.result, line.outputs, line.changes, line.explanation, *line.fault ? ",\"fault\":" : "", line.fault,
      line.number > 1 ? "" : ",\"version\":", line.number > 1 ? "" : version);
  return static_cast<size_t>(length);
}

std::string text_of(const Line& line) {
  std::string text(write_line(line, nullptr, 0), '\0');
  write_line(line, text.data(), text.size() + 1);
  return text;
}

int write_all(int descriptor, std::string_view text) {
  sigset_t both, before;
  sigemptyset(&both);
  sigaddset(&both, SIGPIPE);
  sigaddset(&both, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &both, &before);
  int error = 0;
  while (!text.empty() && !error) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
    else if (!written) error = ENOSPC;
    else if (errno != EINTR) error = errno;
  }
  const timespec at_once = {};
  if (error == EPIPE || error == EFBIG) sigtimedwait(&both, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

File::File(int descriptor) : descriptor_(descriptor), is_open_(!fstat(descriptor, &identity_)) {}

int File::write(std::string_view lines) {
  if (!is_open_) return 0;
  struct stat now;
  const bool is_same = !fstat(descriptor_, &now) && now.st_dev == identity_.st_dev && now.st_ino == identity_.st_ino;
  const int error = is_same ? write_all(descriptor_, lines) : EBADF;
  return error && is_open_.exchange(false) ? error : 0;
}

}  // namespace trace
