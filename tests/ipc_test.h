// SPDX-License-Identifier: MIT-0
// What the tests of ipc_fd.cu and ipc_ring.cu share: wrong messages, messages by themselves, and runs of the program,
// each in a process of its own. A test defines `program`, includes the source with its main called lesson_main, and
// then this. The program starts its processes by exec of /proc/self/exe, which then is the test: TEST_PLAN in the
// environment tells such a process how to misbehave.
//
//   TEST --list        the names of the cases, one a line
//   TEST CASE...       runs them: exit status 0, or 1 and what was wrong
#pragma once

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <functional>

static int failures;
#define VERIFY(condition, ...)                                                                             \
  ((condition) ? void()                                                                                    \
               : (++failures, std::fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #condition), \
                  std::fprintf(stderr, __VA_ARGS__), std::fputs("\n", stderr), void()))

static const size_t unit = 4096;
static const char file_descriptors[] = "sent the wrong number of descriptors";

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

static void write_memory(int fd, unsigned value) {
  std::vector<unsigned> data(unit / sizeof value, value);
  EXPECT(pwrite(fd, data.data(), unit, 0) == ssize_t(unit), "%s", strerror(errno));
}

static void check_memory(int fd, unsigned value) {
  std::vector<unsigned> data(unit / sizeof value, ~value);
  EXPECT(pread(fd, data.data(), unit, 0) == ssize_t(unit), "%s", strerror(errno));
  for (unsigned each : data) EXPECT(each == value, "%u is not %u", each, value);
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

static void send_twice(int socket, Message message, std::vector<int> fds) {
  const Message two[] = {message, message};
  send_raw(socket, two, sizeof two, fds);
}

// ---- What may be wrong with a message that carries memory. The unit cases and the misbehaving processes send these.

struct Rubbish {
  const char* name;
  const char* text;                        // what the receiver says, when it expects an offer
  std::function<void(int, Message)> send;  // given the message that would have been right
};

static Rubbish changed(const char* name, const char* text, void (*change)(Message*)) {
  return {name, text, [change](int socket, Message message) {
            change(&message);
            send_raw(socket, &message, sizeof message, {new_memory()});
          }};
}

static const std::vector<Rubbish> rubbish_offers = {
    {"no_fd", file_descriptors, [](int s, Message m) { send_raw(s, &m, sizeof m, {}); }},
    {"two_fds", file_descriptors, [](int s, Message m) { send_raw(s, &m, sizeof m, {new_memory(), new_memory()}); }},
    {"many_fds", file_descriptors,
     [](int s, Message m) { send_raw(s, &m, sizeof m, std::vector<int>(16, new_memory())); }},
    {"half", "sent nonsense", [](int s, Message m) { send_raw(s, &m, sizeof m / 2, {new_memory()}); }},
    {"one_byte", "sent nonsense", [](int s, Message m) { send_raw(s, &m, 1, {new_memory()}); }},
    {"empty", "sent nonsense", [](int s, Message m) { send_raw(s, &m, 0, {new_memory()}); }},
    {"long", "sent nonsense", [](int s, Message m) { send_twice(s, m, {new_memory()}); }},
    changed("wrong_stage", "sent nonsense", [](Message* m) { m->stage += 1; }),
    changed("zero_size", "sent a size that is not whole granules", [](Message* m) { m->size = 0; }),
    changed("odd_size", "sent a size that is not whole granules", [](Message* m) { m->size += 1; }),
    {"closed", "closed its socket", [](int s, Message) { shutdown(s, SHUT_RDWR); }},
    {"silent", "stayed silent", [](int, Message) {}},
};

// Does to the process that waits at the other end of the socket what a right message would not.
static void misbehave(const std::string& deed, int socket, Message message) {
  if (deed == "killed") raise(SIGKILL);
  if (deed == "crashed") {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (deed == "exited") _exit(3);
  if (deed == "left") _exit(0);
  if (deed == "skipped") {
    std::puts("SKIP: no such thing here; get one");
    std::exit(77);
  }
  if (deed == "fd") send_raw(socket, &message, sizeof message, {new_memory()});
  if (deed == "fds") send_raw(socket, &message, sizeof message, std::vector<int>(16, new_memory()));
  if (deed == "stayed" || deed == "reported") send_raw(socket, &message, sizeof message, {});
  if (deed == "reported") raise(SIGKILL);  // dies after a right report
  for (const Rubbish& each : rubbish_offers)
    if (deed == each.name || deed == std::string("offer.") + each.name) each.send(socket, message);
  if (const char* ready = std::getenv("TEST_READY")) EXPECT(write(std::atoi(ready), "", 1) == 1, "%s", strerror(errno));
  sleep(40);  // longer than the program may wait, and not for ever if it forgets this process
  std::exit(97);
}

// ---- Runs of the program, each in a process of its own, several at a time.

struct Run {
  std::string plan;  // "none": real processes
  long timeout = 20;
  std::vector<std::string> arguments = {};
  std::function<void()> before = [] {};
  bool keeps_fds = false;  // if it returns, it need not have closed all
  // filled in by the run:
  int out = -1, err = -1, alive = -1;
  pid_t pid = 0;
  double began = 0;
  std::string said = {};  // on stderr
};

static void start(Run& run) {
  std::fflush(nullptr);
  int ends[2];  // every process of the run has the end [1]: when all are gone, [0] is at its end
  EXPECT(!pipe2(ends, O_CLOEXEC), "%s", strerror(errno));
  run.alive = ends[0];
  run.out = new_memory(0);
  run.err = new_memory(0);
  run.began = now();
  run.pid = fork();
  if (run.pid) {
    close(ends[1]);
    return;
  }
  fcntl(ends[1], F_SETFD, 0);
  dup2(run.out, STDOUT_FILENO);
  dup2(run.err, STDERR_FILENO);
  setenv("TEST_PLAN", run.plan.c_str(), 1);
  run.before();
  run.arguments.insert(run.arguments.begin(), {program, "--timeout", std::to_string(run.timeout)});
  std::vector<char*> words;
  for (std::string& word : run.arguments) words.push_back(&word[0]);
  words.push_back(nullptr);
  const int fds = count_fds();
  const int status = lesson_main(words.size() - 1, words.data());
  if (!run.keeps_fds && count_fds() != fds) std::exit(96);
  std::exit(status);
}

static void verify_that_none_is_left(Run& run, const char* what) {
  pollfd all_gone = {run.alive, POLLIN, 0};
  char byte;
  VERIFY(poll(&all_gone, 1, 20000) == 1 && read(run.alive, &byte, 1) == 0, "a process lives on; %s", what);
  close(run.alive);
  close(run.out);
  close(run.err);
}

// Waits for the run; it must have ended with this status, saying `text` once, within seconds, with nothing left over.
static void finish(Run& run, int status, const std::string& text) {
  const int ended = wait_for(run.pid);
  const double seconds = now() - run.began;
  const std::string out = read_all(run.out), err = read_all(run.err);
  const std::string all = "plan \"" + run.plan + "\"\n--- stdout\n" + out + "--- stderr\n" + err + "---";
  const char* a = all.c_str();
  VERIFY(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "0x%x, not exit %d (96: fds left); %s", ended, status, a);
  VERIFY(seconds < 2.0 * run.timeout + 10, "%f s; %s", seconds, a);  // a machine may have other work
  VERIFY(text.empty() || occurrences(status == 1 ? err : out, text) == 1, "\"%s\" is missing; %s", text.c_str(), a);
  const size_t verdicts = occurrences(err, std::string(program) + ": ") + occurrences(err, "the exporter ended with");
  VERIFY(verdicts == (status == 1 ? 1 : 0), "one verdict for a failure, else none; %s", a);
  VERIFY(status == 1 || err.empty(), "a complaint, and no failure; %s", a);
  VERIFY(contains(out, "\nOK\n") == (status == 0), "OK and the status; %s", a);
  run.said = err;
  verify_that_none_is_left(run, a);
}

// ---- Messages by themselves.

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

static const Message right = {SENT, unit};

static void expect_wrong(int socket, const char* text, bool wants_fd = true) {
  const int fds = count_fds();
  Message message;
  int fd = -7;
  const char* wrong = receive_message(socket, SENT, &message, wants_fd ? &fd : nullptr, unit);
  VERIFY(wrong && contains(wrong, text), "said \"%s\", not \"%s\"", wrong ? wrong : "(right)", text);
  VERIFY(fd == -7, "an fd in spite of the error");
  VERIFY(count_fds() == fds, "%d fds more than before", count_fds() - fds);
}

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

static void on_alarm(int) {}

static void interrupt_every(int microseconds) {  // system calls end with EINTR
  struct sigaction action = {};
  action.sa_handler = on_alarm;  // no SA_RESTART
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

// ---- A process that the program starts, by itself, with this test in the place of the one that starts it.

// `command` is what that process is told, `ours` and `theirs` the two ends of its socket.
static void real_process(std::vector<std::string> command, std::vector<int> theirs, const std::function<void()>& parent,
                         const std::string& text) {
  const int err = new_memory(0);
  const double began = now();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    setenv("TEST_PLAN", "none", 1);
    dup2(err, STDERR_FILENO);
    for (int fd : theirs) fcntl(fd, F_SETFD, 0);
    std::vector<char*> words;
    for (std::string& word : command) words.push_back(&word[0]);
    words.push_back(nullptr);
    execv("/proc/self/exe", words.data());
    _exit(127);
  }
  for (int fd : theirs) close(fd);
  parent();
  const int status = wait_for(pid);
  const std::string said = read_all(err);
  VERIFY(status == 1 << 8, "status 0x%x: %s", status, said.c_str());
  VERIFY(text.empty() ? said.empty() : contains(said, text), "\"%s\" is missing: %s", text.c_str(), said.c_str());
  VERIFY(now() - began < 20, "%f s", now() - began);
  close(err);
}

// ---- The cases.

using Cases = std::vector<std::pair<std::string, std::function<void()>>>;

static void one_fd() {
  Sockets s;
  const int fds = count_fds(), sent = new_memory();
  write_memory(sent, 42);
  send_message(s.end[0], right, sent);
  int fd = -1;
  Message message;
  const char* wrong = receive_message(s.end[1], SENT, &message, &fd, unit);
  VERIFY(!wrong && message.size == right.size, "%s", wrong);
  struct stat a, b;
  VERIFY(!fstat(sent, &a) && !fstat(fd, &b) && fd != sent, "%s", strerror(errno));
  VERIFY(a.st_ino == b.st_ino && a.st_dev == b.st_dev, "another file");
  VERIFY(fcntl(fd, F_GETFD) & FD_CLOEXEC, "not close-on-exec");
  close(sent);
  check_memory(fd, 42);
  close(fd);
  VERIFY(count_fds() == fds, "%d fds more than before", count_fds() - fds);
}

static void no_fd_free() {
  Sockets s;
  DIR* open_before_the_limit = opendir("/proc/self/fd");
  send_message(s.end[0], right, new_memory());
  const rlimit none = {rlim_t(dirfd(open_before_the_limit) + 2), 4096};  // every number below is taken
  setrlimit(RLIMIT_NOFILE, &none);
  while (dup(0) >= 0) {
  }
  Message message;
  int fd = -7;
  const char* wrong = receive_message(s.end[1], SENT, &message, &fd, unit);
  VERIFY(wrong && contains(wrong, file_descriptors) && fd == -7, "%s", wrong);
}

static void interrupted() {
  Sockets s;
  const timeval limit = {20, 0};  // for a sender that is late on a busy machine
  setsockopt(s.end[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const pid_t sender = fork();
  if (sender == 0) {
    usleep(100000);
    send_message(s.end[0], right);
    _exit(0);
  }
  interrupt_every(1000);
  Message message;
  const char* wrong = receive_message(s.end[1], SENT, &message);
  interrupt_every(0);
  VERIFY(!wrong, "%s", wrong);
  waitpid(sender, nullptr, 0);
}

static void add_unit_cases(Cases& cases) {
  cases.push_back({"unit.one_fd", one_fd});
  for (const Rubbish& rubbish : rubbish_offers)
    cases.push_back({std::string("unit.") + rubbish.name, [&rubbish] {
                       in_a_child([&rubbish] {  // whose end closes what was made to be sent
                         Sockets s;
                         rubbish.send(s.end[0], right);
                         expect_wrong(s.end[1], rubbish.text);
                       });
                     }});
  cases.push_back({"unit.fd_not_asked_for", [] {
                     Sockets s;
                     const int memory = new_memory();
                     send_message(s.end[0], right, memory);
                     expect_wrong(s.end[1], file_descriptors, false);
                     close(memory);
                   }});
  cases.push_back({"unit.no_fd_free", [] { in_a_child(no_fd_free); }});
  cases.push_back({"unit.reset", [] {  // the other end closes with a message unread
                     Sockets s;
                     send_message(s.end[1], right);
                     close(s.end[0]);
                     expect_wrong(s.end[1], "closed its socket");
                     s.end[0] = -1;
                   }});
  cases.push_back({"unit.interrupted", [] { in_a_child(interrupted); }});
  cases.push_back({"unit.nobody_listens", [] {  // that is no failure here: whoever waits for the dead one notices
                     in_a_child([] {
                       Sockets s;
                       close(s.end[1]);
                       send_message(s.end[0], right);
                       s.end[1] = -1;
                     });
                   }});
  cases.push_back({"unit.cannot_send", [] {
                     in_a_child(
                         [] {
                           Sockets s;
                           send_message(s.end[0], right, 1 << 20);  // an fd that there is not
                         },
                         1, "Bad file descriptor");
                     in_a_child([] { send_message(-1, right); }, 1, "Bad file descriptor");
                   }});
  cases.push_back({"unit.receiver_stuck", [] {  // no wait for one that does not read
                     in_a_child(
                         [] {
                           Sockets s;
                           alarm(5);
                           for (int sent = 0; sent < 100000; ++sent) send_message(s.end[0], right);
                         },
                         1, "Resource temporarily unavailable");
                   }});
}

static void too_few_fds() {  // for the sockets: an error before anything is started
  in_a_child(
      [] {
        const rlimit few = {64, 64};
        setrlimit(RLIMIT_NOFILE, &few);
        while (dup(0) >= 0) {
        }
        char* arguments[] = {const_cast<char*>(program), nullptr};
        lesson_main(1, arguments);
      },
      1, "Too many open files");
}

// When the run's processes have come to this plan, its first process is killed: none outlives it.
static void kill_the_first(const std::string& plan, int processes, const char* when = "TEST_READY") {
  int ready[2];
  EXPECT(!pipe(ready), "%s", strerror(errno));
  Run run;
  run.plan = plan;
  run.timeout = 60;
  run.before = [&] { setenv(when, std::to_string(ready[1]).c_str(), 1); };
  start(run);
  char byte;
  for (int i = 0; i < processes; ++i) VERIFY(read(ready[0], &byte, 1) == 1, "process %d did not start", i);
  kill(run.pid, SIGKILL);
  waitpid(run.pid, nullptr, 0);
  verify_that_none_is_left(run, plan.c_str());
  close(ready[0]);
  close(ready[1]);
}

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
