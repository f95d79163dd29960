// SPDX-License-Identifier: MIT-0
//
// The failure paths of ipc_ring.cu, with no GPU: real processes, sockets and file descriptors around the code of the
// program. The workers that it starts speak its protocol with memory of the system (memfd) in place of a GPU's, and
// misbehave as TEST_PLAN says.
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
