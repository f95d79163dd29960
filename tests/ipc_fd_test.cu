// SPDX-License-Identifier: MIT-0
//
// The failure paths of lesson 04, on the simulator. The importer is the program as it is. The exporter that it starts
// is a relay with the real exporter behind it. It hands on the messages of both, until it misbehaves as TEST_PLAN says.
#include <sys/prctl.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <cstring>
static pid_t real_parent = 0;  // behind a relay: the importer's number, from which both make their data
static pid_t parent_of_exporter() { return real_parent ? real_parent : getppid(); }
#define getppid parent_of_exporter
// An exporter that lingers ends by itself, a while after its socket.
static int kill_unless_it_lingers(pid_t pid, int signal) {
  const char* plan = std::getenv("TEST_PLAN");
  return plan && std::strstr(plan, "lingers") ? 0 : kill(pid, signal);
}
#define kill kill_unless_it_lingers
// An importer may die while its child has not yet asked for its own death.
static int late_prctl(int what, int signal) {
  const char* ready = std::getenv("TEST_READY_EARLY");
  if (ready && write(std::atoi(ready), "", 1) == 1) usleep(300000);
  return prctl(what, signal);
}
#define prctl late_prctl
static const char program[] = "ipc_fd";
#define main lesson_main
#include "../04_ipc_fd/ipc_fd.cu"
#undef main
#undef prctl
#undef kill
#undef getppid
#include "ipc_test.h"

static int exporter_main(int socket) {
  std::string words[] = {program, "--socket", std::to_string(socket)};
  char* arguments[] = {&words[0][0], &words[1][0], &words[2][0], nullptr};
  return lesson_main(3, arguments);
}

static int relay(int importer, const char* plan) {  // plan: "stage deed"
  int bad_stage = -1, ends[2];
  char deed[32] = "";
  std::sscanf(plan, "%d %31s", &bad_stage, deed);
  EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "%s", strerror(errno));
  const pid_t parent = getppid(), real = fork();
  if (real == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(importer);
    close(ends[0]);
    real_parent = parent;
    std::exit(exporter_main(ends[1]));
  }
  close(ends[1]);
  for (int stage : {SUPPORTED, SENT, WRITTEN, CHECKED}) {
    const bool to_exporter = stage == SUPPORTED || stage == WRITTEN;
    const int from = to_exporter ? importer : ends[0], to = to_exporter ? ends[0] : importer;
    int fd = -1;
    Message message;
    if (receive_message(from, stage, &message, stage == SENT ? &fd : nullptr)) return 95;
    const bool later = !std::strcmp(deed, "reported");  // this one does what is due first
    if (stage == bad_stage && !later) misbehave(deed, to, message);
    send_message(to, message, fd);
    if (stage == bad_stage) raise(SIGKILL);
    if (fd >= 0) close(fd);
  }
  const int status = wait_for(real);
  if (bad_stage == LEFT && !std::strcmp(deed, "lingers")) {
    shutdown(importer, SHUT_RDWR);
    usleep(300000);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 94;
  }
  if (bad_stage == LEFT) misbehave(deed, importer, {LEFT});
  return WIFEXITED(status) ? WEXITSTATUS(status) : 94;
}

static void one_run(
    const std::string& plan, int status, const std::string& text, std::function<void()> before = [] {},
    long timeout = 20) {
  Run run;
  run.plan = plan;
  run.timeout = timeout;
  run.before = before;
  run.keeps_fds = true;  // the driver's, and the socket
  start(run);
  finish(run, status, text);
}

// The exporter misbehaves where it should send this message, or exit.
static void exporter_at(Stage stage, const std::string& deed, const std::string& text) {
  const std::string verdict = "the exporter " + text;
  const bool at_exit = text.rfind("ended with status", 0) == 0;
  one_run(
      std::to_string(stage) + " " + deed, 1,
      at_exit ? verdict : "ipc_fd: " + verdict + "; it had to " + duties[stage] + "\n", [] {}, text == silent ? 3 : 20);
}

// A real exporter, with this test as its importer.
static void real_exporter(Stage stage, const std::function<void(int, Message)>& importer, const std::string& text) {
  Sockets s;
  const timeval limit = {3, 0};
  setsockopt(s.end[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const int theirs = dup(s.end[1]);
  close(s.end[1]);
  s.end[1] = -1;
  setsockopt(s.end[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  real_process(
      {program, "--socket", std::to_string(theirs)}, {theirs},
      [&] {
        if (stage == WRITTEN) {
          send_message(s.end[0], {SUPPORTED});
          Message offer;
          int fd;
          const char* wrong = receive_message(s.end[0], SENT, &offer, &fd);
          VERIFY(!wrong && offer.size > 0, "%s", wrong);
          if (!wrong) close(fd);
        }
        importer(s.end[0], {uint64_t(stage)});
      },
      text.empty() ? "" : "ipc_fd: the importer " + text + "; it had to " + duties[stage] + "\n");
}

static void add_importer_cases(Cases& cases) {
  for (Stage stage : {SUPPORTED, WRITTEN}) {
    const std::string at = stage == SUPPORTED ? "importer.supported_" : "importer.written_";
    const auto add = [&](const char* name, std::function<void(int, Message)> deed, const char* text) {
      cases.push_back({at + name, [stage, deed, text] { real_exporter(stage, deed, text); }});
    };
    add("gone", [](int s, Message) { shutdown(s, SHUT_RDWR); }, "");  // who has ended, has said why
    add("silent", [](int, Message) {}, "stayed silent");
    add("half", [](int s, Message m) { send_raw(s, &m, sizeof m / 2, {}); }, "sent nonsense");
    add("long", [](int s, Message m) { send_twice(s, m, {}); }, "sent nonsense");
    add("fd", [](int s, Message m) { send_raw(s, &m, sizeof m, {new_memory()}); }, file_descriptors);
    add("fds", [](int s, Message m) { send_raw(s, &m, sizeof m, {new_memory(), new_memory()}); }, file_descriptors);
    add(
        "ahead",
        [](int s, Message m) {
          m.stage += 1;
          send_message(s, m);
        },
        "sent nonsense");
  }
}

static void add_run_cases(Cases& cases) {
  cases.push_back({"run.well", [] { one_run("none", 0, "the importer GPU 1\n"); }});
  cases.push_back({"run.well_relayed", [] { one_run("99 none", 0, "the importer GPU 1\n"); }});
  cases.push_back({"run.well_on_one_gpu",
                   [] { one_run("none", 0, "the importer GPU 0\n", [] { setenv("CUDA_VISIBLE_DEVICES", "1", 1); }); }});
  cases.push_back({"run.interrupted", [] { one_run("none", 0, "", [] { interrupt_every(500); }); }});
  cases.push_back({"left.interrupted", [] {  // while the importer waits for the end of the exporter
                     one_run(std::to_string(LEFT) + " lingers", 0, "", [] { interrupt_every(5000); });
                   }});
  cases.push_back({"left.empty_with_fd", [] {  // at the end of the socket there is no message, and no descriptor
                     Sockets s;
                     const int fds = count_fds(), memory = new_memory();
                     send_raw(s.end[0], "", 0, {memory});
                     close(memory);
                     Message message;
                     const char* wrong = receive_message(s.end[1], LEFT, &message);
                     VERIFY(wrong && contains(wrong, "nonsense"), "said \"%s\"", wrong ? wrong : "(right)");
                     VERIFY(count_fds() == fds, "%d fds more than before", count_fds() - fds);
                   }});
  cases.push_back(
      {"run.no_gpu", [] { one_run("none", 77, "SKIP: ", [] { setenv("CUDA_VISIBLE_DEVICES", "-1", 1); }); }});

  struct Deed {
    const char* name;
    std::string checked, left;  // what is said of it where it should send CHECKED, and where it should exit
  };
  for (const Deed& deed : {Deed{"killed", closed, "ended with status 0x9"},
                           {"crashed", closed, "ended with status 0x"},
                           {"exited", closed, "ended with status 0x300"},
                           {"left", closed, ""},
                           {"closed", closed, "ended with status 0x9"},
                           {"silent", silent, silent},
                           {"wrong_stage", nonsense, nonsense},
                           {"half", nonsense, nonsense},
                           {"long", nonsense, nonsense},
                           {"empty", nonsense, nonsense},
                           {"fd", file_descriptors, file_descriptors},
                           {"fds", file_descriptors, file_descriptors},
                           {"stayed", "", "ended with status 0x9"},
                           {"reported", "ended with status 0x9", "ended with status 0x9"}}) {
    if (!deed.checked.empty())
      cases.push_back({std::string("checked.") + deed.name, [deed] { exporter_at(CHECKED, deed.name, deed.checked); }});
    if (!deed.left.empty())
      cases.push_back({std::string("left.") + deed.name, [deed] { exporter_at(LEFT, deed.name, deed.left); }});
  }
  for (const Rubbish& rubbish : rubbish_offers)
    cases.push_back({std::string("sent.") + rubbish.name, [&rubbish] {
                       one_run(
                           std::to_string(SENT) + " " + rubbish.name, 1, std::string("the exporter ") + rubbish.text,
                           [] {}, rubbish.text == std::string(silent) ? 3 : 20);
                     }});
  for (const char* deed : {"killed", "exited", "left", "reported"})  // the last is missed at the next message
    cases.push_back({std::string("sent.") + deed, [deed] {
                       const Stage noticed = std::strcmp(deed, "reported") ? SENT : CHECKED;
                       one_run(std::to_string(SENT) + " " + deed, 1,
                               std::string("ipc_fd: the exporter closed its socket; it had to ") + duties[noticed]);
                     }});
  cases.push_back({"run.sigchld_ignored", [] { one_run("none", 0, "", [] { std::signal(SIGCHLD, SIG_IGN); }); }});
  cases.push_back({"run.no_fds", too_few_fds});
  cases.push_back({"run.importer_killed", [] {
                     for (Stage stage : {SUPPORTED, SENT, WRITTEN, CHECKED, LEFT})
                       kill_the_first(std::to_string(stage) + " silent", 1);
                   }});
  cases.push_back({"run.importer_killed_early", [] { kill_the_first("hung", 1, "TEST_READY_EARLY"); }});
}

int main(int argc, char** argv) {
  const char* plan = std::getenv("TEST_PLAN");
  if (plan && !std::strcmp(plan, "hung") && argc == 3) return sleep(40);
  if (plan && argc == 3 && !std::strcmp(argv[1], "--socket"))
    return std::strcmp(plan, "none") ? relay(std::atoi(argv[2]), plan) : lesson_main(argc, argv);
  Cases cases;
  add_unit_cases(cases);
  add_importer_cases(cases);
  add_run_cases(cases);
  return run_cases(argc, argv, cases);
}
