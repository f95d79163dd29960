// SPDX-License-Identifier: MIT-0
//
// The failure paths of lesson 04, with no GPU: real processes, sockets and file descriptors around the code of the
// lesson. It starts its workers by exec of /proc/self/exe, which here is this test. Such a worker speaks the
// lesson's protocol with memory of the system (memfd) in place of a GPU's, and misbehaves as the environment says.
//
//   ipc_fd_test --list        the names of the cases, one a line
//   ipc_fd_test CASE...       runs them: exit status 0, or 1 and what was wrong
#define main lesson_main
#include "../04_ipc_fd/ipc_fd.cu"
#undef main

#include <dirent.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <algorithm>
#include <functional>
#include <map>

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

// A hang of the lesson must not be one of its test.
static int wait_for(pid_t pid) {
  int status;
  if (!reap(pid, &status, 30)) kill(pid, SIGKILL), waitpid(pid, &status, 0);
  return status;
}

static double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static int new_memory(size_t size = unit) {
  int fd = memfd_create("memory", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, size)) std::perror("memfd"), std::exit(99);
  return fd;
}

static std::string read_all(int fd) {
  std::string text(lseek(fd, 0, SEEK_END), 0);
  if (pread(fd, &text[0], text.size(), 0) != ssize_t(text.size())) std::perror("pread");
  return text;
}

static bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

static size_t occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Any bytes with any descriptors: what the lesson's own send_message never sends.
static void send_raw(int socket, const void* bytes, size_t size, std::vector<int> fds) {
  iovec data = {const_cast<void*>(bytes), size};
  alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &data, header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control, header.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size() * sizeof(int));
  }
  if (sendmsg(socket, &header, MSG_NOSIGNAL) != ssize_t(size)) std::perror("sendmsg");
}

// ---- What may be wrong with a message. Both the unit cases and the misbehaving workers send these.

struct Rubbish {
  const char* name;
  const char* text;                        // what the receiver says, when it expects an offer
  std::function<void(int, Message)> send;  // given the message that would have been right
};
static const std::vector<Rubbish> rubbish_offers = {
    {"no_fd", "sent no file descriptor", [](int s, Message m) { send_raw(s, &m, sizeof m, {}); }},
    {"two_fds", "sent more file descriptors",
     [](int s, Message m) { send_raw(s, &m, sizeof m, {new_memory(), new_memory()}); }},
    {"many_fds", "sent more file descriptors",
     [](int s, Message m) { send_raw(s, &m, sizeof m, std::vector<int>(16, new_memory())); }},
    {"half", "sent a message of the wrong length",
     [](int s, Message m) { send_raw(s, &m, sizeof m / 2, {new_memory()}); }},
    {"one_byte", "sent a message of the wrong length", [](int s, Message m) { send_raw(s, &m, 1, {new_memory()}); }},
    {"long", "sent a message of the wrong length",
     [](int s, Message m) {
       Message two[] = {m, m};
       send_raw(s, two, sizeof two, {new_memory()});
     }},
    {"nonsense", "sent nonsense",
     [](int s, Message m) {
       m.magic ^= 1;
       send_raw(s, &m, sizeof m, {new_memory()});
     }},
    {"wrong_stage", "sent nonsense",
     [](int s, Message m) {
       m.stage += 1;
       send_raw(s, &m, sizeof m, {new_memory()});
     }},
    {"zero_size", "sent a size that is not whole granules",
     [](int s, Message m) {
       m.size = 0;
       send_raw(s, &m, sizeof m, {new_memory()});
     }},
    {"odd_size", "sent a size that is not whole granules",
     [](int s, Message m) {
       m.size += 1;
       send_raw(s, &m, sizeof m, {new_memory()});
     }},
    {"closed", "closed its socket", [](int s, Message) { shutdown(s, SHUT_RDWR); }},
    {"silent", "stayed silent", [](int, Message) {}},
};

// ---- The worker that stands in for the lesson's: the same steps and barriers, with a memfd for a GPU's memory.

static void misbehave(const std::string& deed, int control, int stage) {
  Message message = {magic, uint64_t(stage), 0, {}};
  if (deed == "killed") raise(SIGKILL);
  if (deed == "crashed") std::signal(SIGSEGV, SIG_DFL), raise(SIGSEGV);
  if (deed == "exited") std::exit(3);
  if (deed == "left") std::exit(0);
  if (deed == "skipped") std::puts("SKIP: no such thing here; get one"), std::exit(77);
  if (deed == "closed") close(control);
  if (deed == "nonsense") message.magic = 1, send_raw(control, &message, sizeof message, {});
  if (deed == "wrong_stage") message.stage += 1, send_raw(control, &message, sizeof message, {});
  if (deed == "half") send_raw(control, &message, sizeof message / 2, {});
  if (deed == "long") {
    Message two[] = {message, message};
    send_raw(control, two, sizeof two, {});
  }
  if (deed == "fd") send_message(control, message, new_memory());
  if (deed == "fds") send_raw(control, &message, sizeof message, std::vector<int>(16, new_memory()));
  if (deed == "stayed") send_message(control, message);
  if (deed == "reported") send_message(control, message), raise(SIGKILL);  // dies after a right report
  if (const char* pipe = std::getenv("IPC_FD_TEST_PIPE")) {
    if (write(std::atoi(pipe), "", 1) != 1) std::exit(98);
  }
  sleep(40);  // longer than the lesson may wait, and not for ever if it forgets this process
  std::exit(97);
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

static int stand_in(int argc, char** argv, std::string plan) {  // plan: "rank stage deed"
  std::map<std::string, int> option;
  for (int i = 1; i + 1 < argc; i += 2) option[argv[i]] = std::atoi(argv[i + 1]);
  const int rank = option["--rank"], workers = option["--workers"], control = option["--control"];
  const int last = workers - 1;
  int bad_rank = -1, bad_stage = -1, own = new_memory(), borrowed = -1;
  char deed[32] = "";
  std::sscanf(plan.c_str(), "%d %d %31s", &bad_rank, &bad_stage, deed);

  for (int stage = GATE; stage <= END; ++stage) {
    const bool bad = (rank == bad_rank || bad_rank == 99) && stage == bad_stage;
    const bool lends = stage == SENT || (stage == LENT && rank == last);
    const bool borrows = stage == WRITTEN || (stage == BORROWED && rank == 0);
    const std::string ring = std::strncmp(deed, "ring.", 5) ? "" : deed + 5;
    const bool later = !std::strcmp(deed, "reported");  // this one does what is due first
    if (bad && ring.empty() && !later) misbehave(deed, control, stage);
    if (lends) {
      const Message offer = {magic, uint64_t(stage), unit, {}};
      write_memory(own, 1000 + stage);
      if (!bad || ring.empty()) EXPECT(send_message(option["--next"], offer, own), "%s", strerror(errno));
      else
        for (const Rubbish& each : rubbish_offers)
          if (ring == each.name) each.send(option["--next"], offer);
    }
    if (borrows) {
      Message offer;
      const char* wrong = receive_message(option["--previous"], stage - 1, &offer, &borrowed, unit);
      EXPECT(!wrong, "worker %d %s", (rank + last) % workers, wrong);
      if (stage == WRITTEN) write_memory(borrowed, rank), close(borrowed);
    }
    if (stage == CHECKED) check_memory(own, (rank + 1) % workers);
    if (stage == LEFT && rank == last) return 0;
    if (stage == RETURNED && rank == 0) check_memory(borrowed, 1000 + LENT);
    if (bad && later) misbehave(deed, control, stage);
    if (stage < END) barrier(control, Stage(stage));
  }
  return 0;
}

// ---- Runs of the lesson's parent, each in a process of its own, several at a time.

struct Run {
  std::string plan;
  int workers = 2, timeout = 1;
  std::function<void()> before = [] {};
  // filled in by the run:
  struct Shared {
    int status, fds;
    bool finished, children;
    double seconds;
  }* shared;
  int out, err, status;
  pid_t pid;
  std::string said;  // on stderr
};

static void start(Run& run) {
  std::fflush(nullptr);
  run.shared = static_cast<Run::Shared*>(
      mmap(nullptr, sizeof *run.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  run.out = new_memory(0), run.err = new_memory(0);
  run.pid = fork();
  if (run.pid) return;
  dup2(run.out, STDOUT_FILENO), dup2(run.err, STDERR_FILENO);
  if (run.plan.empty()) unsetenv("IPC_FD_TEST");
  else setenv("IPC_FD_TEST", run.plan.c_str(), 1);
  run.before();
  std::string words[] = {"ipc_fd_test", "--workers", std::to_string(run.workers), "--timeout",
                         std::to_string(run.timeout)};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(&word[0]);
  arguments.push_back(nullptr);
  const int fds = count_fds();
  const double began = now();
  run.shared->status = lesson_main(arguments.size() - 1, arguments.data());
  run.shared->seconds = now() - began;
  run.shared->fds = count_fds() - fds;
  run.shared->children = waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD;
  run.shared->finished = true;
  std::exit(run.shared->status);
}

// Waits for the run; it must have ended with this status, saying `text` once, within seconds, with nothing left over.
static void finish(Run& run, int status, const std::string& text) {
  run.status = wait_for(run.pid);
  const std::string out = read_all(run.out), err = read_all(run.err);
  const std::string all = "plan \"" + run.plan + "\"\n--- stdout\n" + out + "--- stderr\n" + err + "---";
  const char* a = all.c_str();
  VERIFY(WIFEXITED(run.status) && WEXITSTATUS(run.status) == status, "0x%x, not exit %d; %s", run.status, status, a);
  VERIFY(run.shared->finished, "the parent did not return; %s", a);
  VERIFY(run.shared->fds == 0, "%d fds left; %s", run.shared->fds, a);
  VERIFY(!run.shared->children, "children left; %s", a);
  VERIFY(run.shared->seconds < 2.0 * run.timeout + 3, "%f s; %s", run.shared->seconds, a);
  VERIFY(text.empty() || occurrences(status == 1 ? err : out, text) == 1, "\"%s\" is missing; %s", text.c_str(), a);
  VERIFY(occurrences(err, "ipc_fd: ") == (status == 1 ? 1 : 0), "one verdict for a failure, else none; %s", a);
  VERIFY(contains(out, "\nOK\n") == (status == 0), "OK and the status; %s", a);
  run.said = err;
  munmap(run.shared, sizeof *run.shared);
  close(run.out), close(run.err);
}

// One worker misbehaves at one stage; each pair of rank and stage is a run.
static void at_every_stage(const std::string& deed, const std::string& text) {
  struct Place {
    int rank, stage;
  };
  std::vector<Place> places;
  for (int stage = GATE; stage <= END; ++stage) {
    const bool ends0 = stage == END, ends1 = stage == LEFT, may_leave = deed == "left" || deed == "reported";
    const bool must_end = deed == "stayed";
    if (deed == "skipped" && stage == GATE) continue;  // not a failure: a case of its own
    if (must_end ? ends0 : !(may_leave && ends0)) places.push_back({0, stage});
    if (stage <= LEFT && (must_end ? ends1 : !(may_leave && ends1))) places.push_back({1, stage});
  }
  const size_t at_once = 8;  // not all: on a busy machine those that behave would be late
  for (size_t first = 0; first < places.size(); first += at_once) {
    std::vector<Run> runs(std::min(at_once, places.size() - first));
    for (size_t i = 0; i < runs.size(); ++i) {
      const Place place = places[first + i];
      runs[i].plan = std::to_string(place.rank) + " " + std::to_string(place.stage) + " " + deed;
      start(runs[i]);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const Place place = places[first + i];
      // Whoever dies after its report is missed at the next barrier.
      const int noticed = place.stage + (deed == "reported");
      const std::string who = "ipc_fd: worker " + std::to_string(place.rank) + " ";
      finish(runs[i], 1, who + text + "; it had to " + duties[noticed] + "\n");
    }
  }
}

// The offer in the ring is wrong: the neighbour says so and exits, and the parent names it.
static void in_the_ring(const Rubbish& rubbish) {
  const std::string deed = std::string("ring.") + rubbish.name;
  std::vector<Run> runs(3);
  runs[0].plan = "0 " + std::to_string(SENT) + " " + deed;
  runs[1].plan = "1 " + std::to_string(SENT) + " " + deed;
  runs[2].plan = "1 " + std::to_string(LENT) + " " + deed;
  for (Run& run : runs) start(run);
  const std::string receivers[] = {"1", "0", "0"}, duty[] = {duties[WRITTEN], duties[WRITTEN], duties[BORROWED]};
  for (int i = 0; i < 3; ++i) {
    const std::string complaint = std::string("worker ") + (i == 0 ? "0 " : "1 ") + rubbish.text;
    finish(runs[i], 1, "ipc_fd: worker " + receivers[i] + " exited with status 1; it had to " + duty[i] + "\n");
    VERIFY(contains(runs[i].said, complaint), "%s: %s", complaint.c_str(), runs[i].said.c_str());
  }
}

// ---- A real worker of the lesson, at its first barrier, with this test as its parent.

static void real_worker(const std::function<void(int)>& parent, const std::string& text) {
  int control[2], ring[2], err = new_memory(0);
  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ring);
  const timeval limit = {1, 0};
  setsockopt(control[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  std::fflush(nullptr);
  const double began = now();
  const pid_t pid = fork();
  if (pid == 0) {
    unsetenv("IPC_FD_TEST");
    dup2(err, STDERR_FILENO);
    for (int fd : {control[1], ring[0], ring[1]}) fcntl(fd, F_SETFD, 0);
    const std::string c = std::to_string(control[1]), p = std::to_string(ring[0]), n = std::to_string(ring[1]);
    execl("/proc/self/exe", "ipc_fd_test", "--rank", "1", "--workers", "2", "--granules", "1", "--control", c.c_str(),
          "--previous", p.c_str(), "--next", n.c_str(), nullptr);
    _exit(127);
  }
  close(control[1]), close(ring[0]), close(ring[1]);
  parent(control[0]);
  const int status = wait_for(pid);
  const std::string said = read_all(err);
  VERIFY(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status 0x%x: %s", status, said.c_str());
  VERIFY(contains(said, "the parent " + text) && contains(said, duties[GATE]), "%s: %s", text.c_str(), said.c_str());
  VERIFY(now() - began < 5, "%f s", now() - began);
  close(control[0]), close(err);
}

// ---- Messages by themselves.

struct Sockets {
  int end[2];
  Sockets() {
    const timeval limit = {0, 200000};
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, end);
    setsockopt(end[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  ~Sockets() { close(end[0]), close(end[1]); }
};

static const Message right = {magic, SENT, unit, {}};

static void expect_wrong(int socket, const char* text, bool wants_fd = true) {
  const int fds = count_fds();
  Message message;
  int fd = -7;
  const char* wrong = receive_message(socket, SENT, &message, wants_fd ? &fd : nullptr, unit);
  VERIFY(wrong && contains(wrong, text), "said \"%s\", not \"%s\"", wrong ? wrong : "(right)", text);
  VERIFY(fd == -7, "an fd in spite of the error");
  VERIFY(count_fds() == fds, "%d fds more than before", count_fds() - fds);
}

static void in_a_child(const std::function<void()>& work) {  // for what would change this process
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) failures = 0, work(), std::exit(failures > 0);
  const int status = wait_for(pid);
  VERIFY(status == 0, "ended with status 0x%x", status);
}

static void on_alarm(int) {}

static void interrupt_every(int microseconds) {  // system calls end with EINTR
  struct sigaction action = {};
  action.sa_handler = on_alarm;  // no SA_RESTART
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

using Cases = std::vector<std::pair<std::string, std::function<void()>>>;

static void add_unit_cases(Cases& cases) {
  cases.push_back({"unit.one_fd", [] {
                     Sockets s;
                     const int fds = count_fds(), sent = new_memory();
                     write_memory(sent, 42);
                     VERIFY(send_message(s.end[0], right, sent), "%s", strerror(errno));
                     int fd = -1;
                     Message message;
                     const char* wrong = receive_message(s.end[1], SENT, &message, &fd, unit);
                     VERIFY(!wrong && !std::memcmp(&message, &right, sizeof right), "%s", wrong);
                     struct stat a, b;
                     VERIFY(!fstat(sent, &a) && !fstat(fd, &b) && fd != sent, "%s", strerror(errno));
                     VERIFY(a.st_ino == b.st_ino && a.st_dev == b.st_dev, "another file");
                     VERIFY(fcntl(fd, F_GETFD) & FD_CLOEXEC, "not close-on-exec");
                     close(sent);
                     check_memory(fd, 42);
                     close(fd);
                     VERIFY(count_fds() == fds, "%d fds more than before", count_fds() - fds);
                   }});
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
                     expect_wrong(s.end[1], "that nobody asked for", false);
                     close(memory);
                   }});
  cases.push_back({"unit.no_fd_free", [] {
                     in_a_child([] {
                       Sockets s;
                       DIR* open_before_the_limit = opendir("/proc/self/fd");
                       send_message(s.end[0], right, new_memory());
                       const rlimit none = {rlim_t(dirfd(open_before_the_limit) + 2),
                                            4096};  // every number below is taken
                       setrlimit(RLIMIT_NOFILE, &none);
                       Message message;
                       int fd = -7;
                       while (dup(0) >= 0) {
                       }
                       const char* wrong = receive_message(s.end[1], SENT, &message, &fd, unit);
                       VERIFY(wrong && contains(wrong, "could be received") && fd == -7, "%s", wrong);
                     });
                   }});
  cases.push_back({"unit.reset", [] {  // the other end closes with a message unread
                     Sockets s;
                     send_message(s.end[1], right);
                     close(s.end[0]);
                     expect_wrong(s.end[1], "closed its socket");
                     s.end[0] = -1;
                   }});
  cases.push_back({"unit.interrupted", [] {
                     in_a_child([] {
                       Sockets s;
                       const pid_t sender = fork();
                       if (sender == 0) usleep(100000), send_message(s.end[0], right), _exit(0);
                       interrupt_every(1000);
                       Message message;
                       const char* wrong = receive_message(s.end[1], SENT, &message);
                       interrupt_every(0);
                       VERIFY(!wrong, "%s", wrong);
                       waitpid(sender, nullptr, 0);
                     });
                   }});
  cases.push_back({"unit.nobody_listens", [] {  // no SIGPIPE, and no blame: whoever waits for the dead one notices
                     Sockets s;
                     close(s.end[1]);
                     VERIFY(send_message(s.end[0], right), "%s", strerror(errno));
                     s.end[1] = -1;
                   }});
  cases.push_back({"unit.cannot_send", [] {
                     Sockets s;
                     VERIFY(!send_message(s.end[0], right, 1 << 20) && errno == EBADF, "sent an fd that there is not");
                     VERIFY(!send_message(-1, right) && errno == EBADF, "sent through a socket that there is not");
                   }});
  cases.push_back({"unit.receiver_stuck", [] {  // no wait for one that does not read
                     in_a_child([] {
                       Sockets s;
                       alarm(5);
                       int sent = 0;
                       while (sent < 100000 && send_message(s.end[0], right)) ++sent;
                       VERIFY(sent < 100000 && errno == EAGAIN, "%d sent, then %s", sent, strerror(errno));
                     });
                   }});
}

static void add_worker_cases(Cases& cases) {
  const Message go = {magic, GATE, 0, {}};
  cases.push_back(
      {"worker.parent_gone", [] { real_worker([](int s) { shutdown(s, SHUT_RDWR); }, "closed its socket"); }});
  cases.push_back({"worker.parent_dies", [] {
                     real_worker(
                         [](int s) {
                           Message m;
                           VERIFY(!receive_message(s, GATE, &m), "no report");
                           shutdown(s, SHUT_RDWR);
                         },
                         "closed its socket");
                   }});
  cases.push_back({"worker.parent_silent", [] { real_worker([](int) {}, "stayed silent"); }});
  cases.push_back({"worker.parent_half", [go] {
                     real_worker([go](int s) { send_raw(s, &go, sizeof go / 2, {}); },
                                 "sent a message of the wrong length");
                   }});
  cases.push_back({"worker.parent_nonsense", [go] {
                     real_worker(
                         [go](int s) {
                           Message m = go;
                           m.magic = 0;
                           send_message(s, m);
                         },
                         "sent nonsense");
                   }});
  cases.push_back({"worker.parent_ahead", [go] {
                     real_worker(
                         [go](int s) {
                           Message m = go;
                           m.stage = READY;
                           send_message(s, m);
                         },
                         "sent nonsense");
                   }});
  cases.push_back({"worker.parent_fd", [go] {
                     real_worker([go](int s) { send_raw(s, &go, sizeof go, {new_memory()}); },
                                 "sent a file descriptor that nobody");
                   }});
}

static void add_run_cases(Cases& cases) {
  for (int workers : {2, 3, 16})
    cases.push_back({"run.well_" + std::to_string(workers), [workers] {
                       Run run;
                       run.plan = "none", run.workers = workers, run.timeout = 10;
                       start(run);
                       finish(run, 0, std::to_string(workers) + " processes");
                     }});
  cases.push_back({"run.interrupted", [] {
                     Run run;
                     run.plan = "none", run.timeout = 10, run.before = [] { interrupt_every(500); };
                     start(run);
                     finish(run, 0, "");
                   }});
  cases.push_back({"run.no_gpu", [] {  // real workers: no driver's GPU may be seen, so the gate is closed
                     Run run;
                     run.timeout = 10, run.before = [] { setenv("CUDA_VISIBLE_DEVICES", "-1", 1); };
                     start(run);
                     finish(run, 77, "SKIP: ");
                   }});
  cases.push_back({"run.skip", [] {
                     Run run;
                     run.plan = "0 " + std::to_string(GATE) + " skipped";
                     start(run);
                     finish(run, 77, "SKIP: no such thing here; get one\n");
                   }});
  cases.push_back({"run.skip_not_at_the_gate", [] { at_every_stage("skipped", "exited with status 77"); }});
  cases.push_back({"run.skip_of_another", [] {  // only worker 0 is heard, so nobody else may decide this
                     Run run;
                     run.plan = "1 " + std::to_string(GATE) + " skipped";
                     start(run);
                     finish(run, 1, "ipc_fd: worker 1 exited with status 77");
                   }});
  struct Deed {
    const char *name, *text;
  };
  for (Deed deed : {Deed{"killed", "was killed by signal 9 (Killed)"},
                    {"crashed", "was killed by signal 11 (Segmentation fault)"},
                    {"exited", "exited with status 3"},
                    {"left", "exited with status 0"},
                    {"closed", "closed its socket"},
                    {"silent", "stayed silent"},
                    {"nonsense", "sent nonsense"},
                    {"wrong_stage", "sent nonsense"},
                    {"half", "sent a message of the wrong length"},
                    {"long", "sent a message of the wrong length"},
                    {"fd", "sent a file descriptor that nobody asked for"},
                    {"fds", "sent more file descriptors than could be received"},
                    {"stayed", "sent nonsense"},
                    {"reported", "was killed by signal 9 (Killed)"}})
    cases.push_back({std::string("run.") + deed.name, [deed] { at_every_stage(deed.name, deed.text); }});
  for (const Rubbish& rubbish : rubbish_offers)
    cases.push_back({std::string("ring.") + rubbish.name, [&rubbish] { in_the_ring(rubbish); }});
  cases.push_back({"run.sigchld_ignored", [] {
                     Run run;
                     run.plan = "1 " + std::to_string(SENT) + " exited";
                     run.before = [] { std::signal(SIGCHLD, SIG_IGN); };
                     start(run);
                     finish(run, 1, "ipc_fd: worker 1 exited with status 3");
                   }});
  cases.push_back({"run.no_fds", [] {  // too few for the sockets: an error before anything is started
                     in_a_child([] {
                       const rlimit few = {rlim_t(count_fds() + 4), 4096};
                       setrlimit(RLIMIT_NOFILE, &few);
                       const int err = new_memory(0);
                       char* arguments[] = {const_cast<char*>("ipc_fd_test"), nullptr};
                       std::fflush(nullptr);
                       const pid_t pid = fork();
                       if (pid == 0)
                         dup2(err, STDERR_FILENO), dup2(err, STDOUT_FILENO), std::exit(lesson_main(1, arguments));
                       const int status = wait_for(pid);
                       VERIFY(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status 0x%x", status);
                       VERIFY(contains(read_all(err), "Too many open files"), "%s", read_all(err).c_str());
                     });
                   }});
  cases.push_back({"run.parent_killed", [] {  // at each stage: no worker outlives the parent
                     for (int stage : {GATE, SENT, WRITTEN, BORROWED}) {
                       int pipes[2];
                       if (pipe(pipes))
                         std::perror("pipe");  // every process of the run has the end [1]: when all are gone, [0] ends
                       Run run;
                       run.plan = "99 " + std::to_string(stage) + " silent", run.timeout = 60;
                       run.before = [&] { setenv("IPC_FD_TEST_PIPE", std::to_string(pipes[1]).c_str(), 1); };
                       start(run);
                       close(pipes[1]);
                       char byte;
                       for (int i = 0; i < 2; ++i) VERIFY(read(pipes[0], &byte, 1) == 1, "worker %d did not start", i);
                       kill(run.pid, SIGKILL);
                       waitpid(run.pid, &run.status, 0);
                       pollfd all_gone = {pipes[0], POLLIN, 0};
                       VERIFY(poll(&all_gone, 1, 5000) == 1 && read(pipes[0], &byte, 1) == 0, "a worker lives on");
                       close(pipes[0]), close(run.out), close(run.err);
                     }
                   }});
}

int main(int argc, char** argv) {
  const char* plan = std::getenv("IPC_FD_TEST");
  const bool worker = argc > 1 && !std::strcmp(argv[1], "--rank");
  if (worker) return plan ? stand_in(argc, argv, plan) : lesson_main(argc, argv);
  Cases cases;
  add_unit_cases(cases);
  add_worker_cases(cases);
  add_run_cases(cases);
  if (argc == 2 && !std::strcmp(argv[1], "--list")) {
    for (auto& each : cases) std::puts(each.first.c_str());
    return 0;
  }
  int ran = 0;
  for (int i = 1; i < argc; ++i)
    for (auto& each : cases)
      if (each.first == argv[i]) each.second(), ++ran;
  if (ran != argc - 1 || ran == 0) return std::fprintf(stderr, "usage: ipc_fd_test --list | CASE...\n"), 2;
  return failures > 0;
}
