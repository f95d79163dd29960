// SPDX-License-Identifier: MIT-0
//
// The failure paths of lesson 04, on the simulator. Both processes are the program's; before or after one of its calls
// of the system one of them does what the plan of the run says.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>
#include <string>

// Who does what, and when: "exporter", "before sendmsg", "killed".
static struct {
  std::string who, when, deed;
} plan;
static pid_t importer_pid = 0;

static void at(const std::string& when) {
  if (when == "before send" && plan.deed == "exited") usleep(200000);  // the exporter has gone by then, if it is to go
  if (plan.when != when || plan.who != (getpid() == importer_pid ? "importer" : "exporter")) return;
  if (plan.deed == "killed") raise(SIGKILL);
  if (plan.deed == "crashed") {
    std::signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
  }
  if (plan.deed == "exited") _exit(3);
  if (plan.deed == "stuck") sleep(40);  // longer than the program may wait, and not for ever
}

template <class Call, class... Arguments> static auto planned(const char* name, Call call, Arguments... arguments) {
  at(std::string("before ") + name);
  const auto result = call(arguments...);
  const int error = errno;
  at(std::string("after ") + name);
  errno = error;
  return result;
}
static unsigned soon(unsigned) { return alarm(4); }

static const char program[] = "ipc_fd";
#define sendmsg(...) planned("sendmsg", sendmsg, __VA_ARGS__)
#define recvmsg(...) planned("recvmsg", recvmsg, __VA_ARGS__)
#define send(...) planned("send", send, __VA_ARGS__)
#define recv(...) planned("recv", recv, __VA_ARGS__)
#define alarm soon
#define main lesson_main
#include "../04_ipc_fd/ipc_fd.cu"
#undef main
#undef alarm
#undef recv
#undef send
#undef recvmsg
#undef sendmsg
#include "ipc_test.h"

// Runs the program in a process of its own. It ends with this status, or by this signal, and says this; nobody is left.
static void one_run(int status, int signal, const std::string& text, const std::function<void()>& before = [] {}) {
  int ends[2];
  EXPECT(!pipe2(ends, O_CLOEXEC), "%s", std::strerror(errno));
  const int out = new_memory(0), err = new_memory(0);
  const double began = now();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    importer_pid = getpid();
    before();
    std::exit(lesson_main());
  }
  close(ends[1]);
  const int ended = wait_for(pid);
  verify_that_all_are_gone(ends[0], plan.when.c_str());
  const double seconds = now() - began;
  const std::string said = read_all(out), wrong = read_all(err);
  const std::string all = "--- stdout\n" + said + "--- stderr\n" + wrong + "---";
  const char* a = all.c_str();
  if (signal) VERIFY(WIFSIGNALED(ended) && WTERMSIG(ended) == signal, "0x%x, not signal %d; %s", ended, signal, a);
  else VERIFY(WIFEXITED(ended) && WEXITSTATUS(ended) == status, "0x%x, not exit %d; %s", ended, status, a);
  VERIFY(contains(status == 77 || (!status && !signal) ? said : wrong, text), "\"%s\" is missing; %s", text.c_str(), a);
  VERIFY(contains(said, "\nOK\n") == (!status && !signal), "OK and the status; %s", a);
  VERIFY(occurrences(said, "SKIP: ") == (status == 77), "%s", a);
  VERIFY(seconds < 15, "%f s; %s", seconds, a);
  close(out);
  close(err);
}

// One case for each place of a process at which it does this.
static void add_deeds(Cases& cases) {
  for (const char* when : {"before sendmsg", "after sendmsg", "before recv", "after recv"})
    for (const char* deed : {"killed", "crashed", "exited", "stuck"})
      cases.push_back(
          {std::string("exporter.") + deed + "_" + when, [=] {
             plan = {"exporter", when, deed};
             const bool sent = plan.when != "before sendmsg";  // then the importer notices where it is next
             if (plan.deed == "stuck") return one_run(0, SIGALRM, "");
             const bool heard = plan.when == "after recv";  // then the importer sends no more, and waits for its end
             if (plan.deed == "exited" && !sent) return one_run(3, 0, "");
             if (plan.deed == "exited") return one_run(1, 0, heard ? "has failed" : "has ended");
             one_run(1, 0, sent ? "the old server " : plan.deed == "killed" ? "killed by signal 9" : "signal 11");
           }});
  for (const char* when : {"before recvmsg", "after recvmsg", "before send", "after send"})
    for (const char* deed : {"killed", "crashed", "exited", "stuck"})
      cases.push_back({std::string("importer.") + deed + "_" + when, [=] {
                         plan = {"importer", when, deed};
                         const bool told = plan.when == "after send";  // then the exporter goes on to its own end
                         const char* const said = told || plan.deed == "stuck" ? "" : "ipc_fd.cu";
                         if (plan.deed == "stuck") return one_run(0, SIGALRM, said);
                         if (plan.deed == "exited") return one_run(3, 0, said);
                         one_run(0, plan.deed == "killed" ? SIGKILL : SIGSEGV, said);
                       }});
}

static void a_message() {
  Sockets s;
  const int fds = count_fds(), sent = new_memory();
  send_fd(s.end[0], sent, 4096);
  size_t size = 0;
  const int fd = receive_fd(s.end[1], &size);
  VERIFY(size == 4096, "%zu", size);
  struct stat a, b;
  VERIFY(!fstat(sent, &a) && !fstat(fd, &b) && fd != sent, "%s", std::strerror(errno));
  VERIFY(a.st_ino == b.st_ino && a.st_dev == b.st_dev, "another file");
  VERIFY(fcntl(fd, F_GETFD) & FD_CLOEXEC, "not close-on-exec");
  close(sent);
  close(fd);
  VERIFY(count_fds() == fds, "%d more than before", count_fds() - fds);
}

// What came is no message of send_fd: the importer says so, and ends.
static void no_fd(const char* says, const std::function<void(int)>& send) {
  in_a_child(
      [&] {
        Sockets s;
        size_t size;
        send(s.end[0]);
        receive_fd(s.end[1], &size);
      },
      1, says);
}

// The peer has gone: no message, and no error.
static void the_end() {
  Sockets s;
  size_t size;
  shutdown(s.end[0], SHUT_RDWR);
  VERIFY(receive_fd(s.end[1], &size) == -1, "a descriptor of a peer that has ended");
}

// A signal comes while it waits, and then the message does.
static void a_signal() {
  Sockets s;
  struct sigaction noted = {};  // without SA_RESTART: the call is interrupted
  noted.sa_handler = [](int) {};
  sigaction(SIGALRM, &noted, nullptr);
  const timeval none = {};
  setsockopt(s.end[1], SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  const pid_t waiting = getpid(), child = fork();
  if (child == 0) {
    usleep(200000);
    kill(waiting, SIGALRM);
    usleep(200000);
    send_fd(s.end[0], new_memory(), 4096);
    _exit(0);
  }
  size_t size = 0;
  const int fd = receive_fd(s.end[1], &size);
  VERIFY(fd >= 0 && size == 4096, "%d, %zu", fd, size);
  close(fd);
  wait_for(child);
}

int main(int argc, char** argv) {
  const size_t size = 4096;
  Cases cases;
  cases.push_back({"run.well", [] { one_run(0, 0, "2 MiB returned"); }});
  cases.push_back({"run.no_gpu", [] { one_run(77, 0, "SKIP: ", [] { setenv("CUDA_VISIBLE_DEVICES", "-1", 1); }); }});
  cases.push_back({"run.no_fds", [] {
                     one_run(1, 0, "Too many open files", [] {
                       const rlimit few = {64, 64};
                       setrlimit(RLIMIT_NOFILE, &few);
                       while (dup(0) >= 0) {
                       }
                     });
                   }});
  cases.push_back(
      {"run.sigchld_ignored", [] { one_run(1, 0, "No child processes", [] { std::signal(SIGCHLD, SIG_IGN); }); }});
  cases.push_back({"message.right", a_message});
  cases.push_back({"message.no_fd",
                   [&] { no_fd("no file descriptor came", [&](int s) { send_raw(s, &size, sizeof size, {}); }); }});
  cases.push_back({"message.two_fds", [&] {
                     no_fd("a descriptor was lost",
                           [&](int s) { send_raw(s, &size, sizeof size, {new_memory(), new_memory()}); });
                   }});
  cases.push_back({"message.no_room_for_an_fd", [&] {
                     no_fd("a descriptor was lost", [&](int s) {
                       send_raw(s, &size, sizeof size, {new_memory()});
                       const rlimit none = {rlim_t(count_fds()), rlim_t(count_fds())};
                       while (dup(0) >= 0) setrlimit(RLIMIT_NOFILE, &none);
                     });
                   }});
  cases.push_back(
      {"message.half", [&] { no_fd("another size", [&](int s) { send_raw(s, &size, 4, {new_memory()}); }); }});
  cases.push_back({"message.none_in_time", [] { no_fd("temporarily unavailable", [](int) {}); }});
  cases.push_back({"message.end", the_end});
  cases.push_back({"message.after_a_signal", a_signal});
  cases.push_back({"message.nobody_listens", [] {
                     in_a_child(
                         [] {
                           Sockets s;
                           close(s.end[1]);
                           send_fd(s.end[0], 0, 4096);
                         },
                         1, "Broken pipe");
                   }});
  add_deeds(cases);
  for (auto& [name, run] : cases)
    for (char& letter : name)
      if (letter == ' ') letter = '_';
  return run_cases(argc, argv, cases);
}
