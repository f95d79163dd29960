// SPDX-License-Identifier: MIT-0
// What the tests of ipc_fd.cu and ipc_ring.cu share. A test defines `program`, includes the source with its main called
// lesson_main, and then this.
//
//   TEST --list        the names of the cases, one a line
//   TEST CASE...       runs them: exit status 0, or 1 and what was wrong
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

static int failures;
#define VERIFY(condition, ...)                                                                             \
  ((condition) ? void()                                                                                    \
               : (++failures, std::fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition), \
                  std::fprintf(stderr, __VA_ARGS__), std::fputs("\n", stderr), void()))

static const size_t unit = 4096;

static int count_fds() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory)) ++count;
  closedir(directory);
  return count;
}

// A hang of the program must not be one of its test.
static int wait_for(pid_t pid) {
  int status;
  for (int tries = 0; waitpid(pid, &status, WNOHANG) != pid; ++tries) {
    if (tries == 30000) kill(pid, SIGKILL);
    usleep(1000);
  }
  return status;
}

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static int new_memory(size_t size = unit) {
  int fd = memfd_create("memory", MFD_CLOEXEC);
  EXPECT(fd >= 0 && !ftruncate(fd, size), "%s", strerror(errno));
  return fd;
}

static std::string read_all(int fd) {
  std::string text(lseek(fd, 0, SEEK_END), 0);
  EXPECT(pread(fd, &text[0], text.size(), 0) == ssize_t(text.size()), "%s", strerror(errno));
  return text;
}

static bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

static size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Any bytes with any descriptors: what the program's own send_message never sends.
static void send_raw(int socket, const void* bytes, size_t size, std::vector<int> fds) {
  iovec data = {const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  EXPECT(sendmsg(socket, &header, MSG_NOSIGNAL) == ssize_t(size), "%s", strerror(errno));
}

// Every process of a run has the end [1] of a pipe: when all are gone, [0] is at its end.
static void verify_that_all_are_gone(int alive, const char* what) {
  pollfd all_gone = {alive, POLLIN, 0};
  char byte;
  VERIFY(poll(&all_gone, 1, 5000) == 1 && read(alive, &byte, 1) == 0, "a process lives on; %s", what);
  close(alive);
}

struct Sockets {
  int end[2];
  Sockets() {
    const timeval limit = {0, 200000};
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end);
    setsockopt(end[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Sockets() {
    close(end[0]);
    close(end[1]);
  }
};

// For what would change this process, or end it.
static void in_a_child(const std::function<void()>& work, int expected = 0, const char* says = "") {
  std::fflush(nullptr);
  const int err = new_memory(0);
  const pid_t pid = fork();
  if (pid == 0) {
    failures = 0;
    dup2(err, STDERR_FILENO);
    work();
    std::exit(failures > 0);
  }
  const int status = wait_for(pid);
  const std::string said = read_all(err);
  VERIFY(status == expected << 8, "ended with status 0x%x; %s", status, said.c_str());
  VERIFY(contains(said, says), "\"%s\" is missing; %s", says, said.c_str());
  close(err);
}

using Cases = std::vector<std::pair<std::string, std::function<void()>>>;

static int run_cases(int argc, char** argv, const Cases& cases) {
  if (argc == 2 && !std::strcmp(argv[1], "--list")) {
    for (const auto& each : cases) std::puts(each.first.c_str());
    return 0;
  }
  int ran = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& each : cases) {
      if (each.first != argv[i]) continue;
      each.second();
      ++ran;
    }
  if (ran == argc - 1 && ran > 0) return failures > 0;
  std::fprintf(stderr, "usage: %s_test --list | CASE...\n", program);
  return 2;
}
