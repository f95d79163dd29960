// SPDX-License-Identifier: MIT-0
//
// The failure paths of ipc_ring.cu, with no GPU: real processes, sockets and file descriptors around the code of the
// program. The program starts its workers by exec of /proc/self/exe, which then is this test. They speak its protocol
// with memory of the system (memfd) in place of a GPU's, and misbehave as TEST_PLAN in the environment says.
#include <sys/prctl.h>
#include <csignal>
#include <cstdlib>
#include <map>

#include <unistd.h>

static const char program[] = "ipc_ring";
// As on a busy machine, the program's kill takes its time: whatever a worker would still say by then, it says.
static int late_kill(pid_t pid, int signal) {
  usleep(100000);
  return kill(pid, signal);
}
// The parent may die while a worker has not yet asked for its own death.
static int late_prctl(int what, int signal) {
  const char* ready = std::getenv("TEST_READY_EARLY");
  if (ready && write(std::atoi(ready), "", 1) == 1) usleep(300000);
  return prctl(what, signal);
}
#define main lesson_main
#define kill late_kill
#define prctl late_prctl
#include "../04_ipc_fd/ipc_ring.cu"
#undef prctl
#undef kill
#undef main
#include "ipc_test.h"

static const char file_descriptors[] = "sent the wrong number of descriptors";

static void write_memory(int fd, unsigned value) {
  std::vector<unsigned> data(unit / sizeof value, value);
  EXPECT(pwrite(fd, data.data(), unit, 0) == ssize_t(unit), "%s", strerror(errno));
}

static void check_memory(int fd, unsigned value) {
  std::vector<unsigned> data(unit / sizeof value, ~value);
  EXPECT(pread(fd, data.data(), unit, 0) == ssize_t(unit), "%s", strerror(errno));
  for (unsigned each : data) EXPECT(each == value, "%u is not %u", each, value);
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
  verify_that_all_are_gone(run.alive, what);
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
  const size_t verdicts = occurrences(err, std::string(program) + ": ");
  VERIFY(verdicts == (status == 1 ? 1 : 0), "one verdict for a failure, else none; %s", a);
  VERIFY(status == 1 || err.empty(), "a complaint, and no failure; %s", a);
  VERIFY(contains(out, "\nOK\n") == (status == 0), "OK and the status; %s", a);
  run.said = err;
  verify_that_none_is_left(run, a);
}

// ---- Messages by themselves.

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

static void on_alarm(int) {}

static void interrupt_every(int microseconds) {  // system calls end with EINTR
  struct sigaction action = {};
  action.sa_handler = on_alarm;  // no SA_RESTART
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {{0, microseconds}, {0, microseconds}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

// ---- The cases.

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

// The worker that stands in for the program's: the same steps and barriers, with a memfd for a GPU's memory.
static int stand_in(int argc, char** argv, const char* plan) {  // plan: "rank stage deed"
  std::map<std::string, int> option;
  for (int i = 1; i + 1 < argc; i += 2) option[argv[i]] = std::atoi(argv[i + 1]);
  const int rank = option["--rank"], workers = option["--workers"], parent = option["--parent"];
  int bad_rank = -1, bad_stage = -1, own = new_memory(), borrowed = -1;
  char words[32] = "";
  std::sscanf(plan, "%d %d %31s", &bad_rank, &bad_stage, words);
  const std::string deed = words;
  const bool of_the_ring = deed.rfind("offer.", 0) == 0;  // it offers wrong memory, and reports well

  for (int stage = SUPPORTED; stage <= END; ++stage) {
    const bool bad = (rank == bad_rank || bad_rank == 99) && stage == bad_stage;
    const Message message = {uint64_t(stage), unit};
    if (bad && !of_the_ring && deed != "reported") misbehave(deed, parent, message);
    if (stage == SENT) {
      write_memory(own, 1000);
      if (!bad || !of_the_ring) send_message(option["--to"], message, own);
      for (const Rubbish& each : rubbish_offers)
        if (bad && deed == std::string("offer.") + each.name) each.send(option["--to"], message);
    }
    if (stage == WRITTEN) {
      Message offer;
      const char* wrong = receive_message(option["--from"], SENT, &offer, &borrowed, unit);
      EXPECT(!wrong, "worker %d %s", (rank + workers - 1) % workers, wrong);
      write_memory(borrowed, rank);
      close(borrowed);
    }
    if (stage == CHECKED) check_memory(own, (rank + 1) % workers);
    if (bad && deed == "reported") misbehave(deed, parent, message);
    if (stage < END) barrier(parent, Stage(stage));
  }
  return 0;
}

// One worker misbehaves at one stage; each pair of rank and stage is a run.
static void at_every_stage(const std::string& deed, const std::string& text) {
  struct Place {
    int rank, stage;
  };
  std::vector<Place> places;
  for (int stage = SUPPORTED; stage <= END; ++stage) {
    if (deed == "skipped" && stage == SUPPORTED) continue;                 // not a failure: a case of its own
    if ((deed == "left" || deed == "reported") && stage == END) continue;  // there it is right, or reports nothing
    if (deed == "stayed" && stage != END) continue;                        // there it is right
    for (int rank : {0, 1}) places.push_back({rank, stage});
  }
  // Only silence is told by the time-out. And not all at once: on a busy machine those that behave would be late.
  const long timeout = text == silent || text == closed ? 3 : 20;
  const size_t at_once = 8;
  for (size_t first = 0; first < places.size(); first += at_once) {
    std::vector<Run> runs(std::min(at_once, places.size() - first));
    for (size_t i = 0; i < runs.size(); ++i) {
      const Place place = places[first + i];
      runs[i].timeout = timeout;
      runs[i].plan = std::to_string(place.rank) + " " + std::to_string(place.stage) + " " + deed;
      start(runs[i]);
    }
    for (size_t i = 0; i < runs.size(); ++i) {
      const Place place = places[first + i];
      // Whoever dies after its report is missed at the next barrier.
      const int noticed = place.stage + (deed == "reported");
      const std::string who = "ipc_ring: worker " + std::to_string(place.rank) + " ";
      finish(runs[i], 1, who + text + "; it had to " + duties[noticed] + "\n");
    }
  }
}

// The offer to the neighbour is wrong: the neighbour says so and exits, and the parent names it.
static void in_the_ring(const Rubbish& rubbish) {
  for (int rank : {0, 1}) {
    Run run;
    run.plan = std::to_string(rank) + " " + std::to_string(SENT) + " offer." + rubbish.name;
    start(run);
    const std::string receiver = "ipc_ring: worker " + std::to_string(1 - rank);
    finish(run, 1, receiver + " exited with status 1; it had to " + duties[WRITTEN] + "\n");
    const std::string complaint = "worker " + std::to_string(rank) + " " + rubbish.text;
    VERIFY(contains(run.said, complaint), "%s: %s", complaint.c_str(), run.said.c_str());
  }
}

// A real worker of the program, at its first barrier, with this test as its parent.
static void real_worker(const std::function<void(int)>& parent, const std::string& text) {
  int control[2], ring[2];
  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
  socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ring);
  const timeval limit = {1, 0};
  setsockopt(control[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::string c = std::to_string(control[1]), f = std::to_string(ring[0]), t = std::to_string(ring[1]);
  real_process(
      {program, "--rank", "1", "--workers", "2", "--granules", "1", "--parent", c, "--from", f, "--to", t},
      {control[1], ring[0], ring[1]}, [&] { parent(control[0]); },
      "the parent " + text + "; had to " + duties[SUPPORTED]);
  close(control[0]);
}

static void one_run(
    const std::string& plan, int status, const std::string& text, std::vector<std::string> arguments = {},
    std::function<void()> before = [] {}) {
  Run run;
  run.plan = plan;
  run.arguments = arguments;
  run.before = before;
  start(run);
  finish(run, status, text);
}

static void add_run_cases(Cases& cases) {
  for (int workers : {2, 3, 16})
    cases.push_back({"run.well_" + std::to_string(workers), [workers] {
                       const std::string count = std::to_string(workers);
                       one_run("well", 0, count + " processes", {"--workers", count});
                     }});
  cases.push_back({"run.interrupted", [] { one_run("well", 0, "", {}, [] { interrupt_every(500); }); }});
  cases.push_back(
      {"worker.parent_gone", [] { real_worker([](int s) { shutdown(s, SHUT_RDWR); }, "closed its socket"); }});
  cases.push_back({"worker.parent_silent", [] { real_worker([](int) {}, "stayed silent"); }});
  cases.push_back({"run.no_gpu", [] {  // real workers: no driver's GPU may be seen, so support is missing
                     one_run("none", 77, "SKIP: ", {}, [] { setenv("CUDA_VISIBLE_DEVICES", "-1", 1); });
                   }});
  cases.push_back({"run.skip", [] {
                     one_run("0 " + std::to_string(SUPPORTED) + " skipped", 77, "SKIP: no such thing here; get one\n");
                   }});
  cases.push_back({"run.skip_later", [] { at_every_stage("skipped", "exited with status 77"); }});
  cases.push_back({"run.skip_of_another", [] {  // only worker 0 is heard, so nobody else may decide this
                     one_run("1 " + std::to_string(SUPPORTED) + " skipped", 1,
                             "ipc_ring: worker 1 exited with status 77");
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
                    {"fd", file_descriptors},
                    {"fds", file_descriptors},
                    {"wrong_stage", "sent nonsense"},
                    {"half", "sent nonsense"},
                    {"long", "sent nonsense"},
                    {"empty", "sent nonsense"},
                    {"stayed", "sent nonsense"},
                    {"reported", "was killed by signal 9 (Killed)"}})
    cases.push_back({std::string("run.") + deed.name, [deed] { at_every_stage(deed.name, deed.text); }});
  for (const Rubbish& rubbish : rubbish_offers)
    cases.push_back({std::string("ring.") + rubbish.name, [&rubbish] { in_the_ring(rubbish); }});
  cases.push_back({"run.sigchld_ignored", [] {
                     one_run("1 " + std::to_string(SENT) + " exited", 1, "ipc_ring: worker 1 exited with status 3", {},
                             [] { std::signal(SIGCHLD, SIG_IGN); });
                   }});
  cases.push_back({"run.hang", [] {  // as the page shows it
                     one_run("well", 1, "ipc_ring: worker 3 stayed silent; it had to write to its neighbour\n",
                             {"--workers", "8", "--hang", "3", "--timeout", "5"});
                   }});
  cases.push_back({"run.no_fds", too_few_fds});
  cases.push_back({"run.parent_killed", [] {
                     for (int stage : {SUPPORTED, SENT, WRITTEN, RECOUNTED})
                       kill_the_first("99 " + std::to_string(stage) + " silent", 2);
                   }});
  cases.push_back({"run.parent_killed_early", [] { kill_the_first("99 0 silent", 2, "TEST_READY_EARLY"); }});
}

int main(int argc, char** argv) {
  const char* plan = std::getenv("TEST_PLAN");
  const bool worker = plan && argc > 3 && !std::strcmp(argv[1], "--rank");
  if (worker && std::strcmp(plan, "none")) return stand_in(argc, argv, plan);
  if (worker) return lesson_main(argc, argv);
  Cases cases;
  add_unit_cases(cases);
  add_run_cases(cases);
  return run_cases(argc, argv, cases);
}
