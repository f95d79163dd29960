// SPDX-License-Identifier: MIT-0
// Signals in a process with a driver: what its threads block, and where handlers run.
#include "process_questions.h"

#include <csetjmp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/syscall.h>
#include <sys/time.h>

static const struct {
  const char* name;
  int number;
} signals[] = {{"SIGSEGV", SIGSEGV}, {"SIGBUS", SIGBUS},   {"SIGFPE", SIGFPE},   {"SIGILL", SIGILL},
               {"SIGABRT", SIGABRT}, {"SIGTRAP", SIGTRAP}, {"SIGTERM", SIGTERM}, {"SIGINT", SIGINT},
               {"SIGHUP", SIGHUP},   {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGCHLD", SIGCHLD},
               {"SIGALRM", SIGALRM}, {"SIGPIPE", SIGPIPE}, {"SIGPROF", SIGPROF}, {"SIGWINCH", SIGWINCH}};

static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}
static void block(int signal) {
  const sigset_t set = only(signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}
static sigset_t blocked_in_host_function() {
  static sigset_t mask;
  CHECK(cudaLaunchHostFunc(nullptr, [](void*) { pthread_sigmask(SIG_BLOCK, nullptr, &mask); }, nullptr));
  CHECK(cudaDeviceSynchronize());
  return mask;
}

// What blocks a signal, of the threads that are there now and were not before.
static std::set<std::string> threads() {
  std::set<std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) all.insert(entry.path().string());
  return all;
}
static unsigned long blocked_in_new_threads(const std::set<std::string>& before) {
  unsigned long all = 0;
  for (const std::string& thread : threads()) {
    if (before.count(thread)) continue;
    std::ifstream status(thread + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.compare(0, 7, "SigBlk:") == 0) all |= std::stoul(line.substr(7), nullptr, 16);
  }
  return all;
}

SECTION("blocked by the driver's threads") {
  const std::set<std::string> before = threads();
  make_context();
  const sigset_t mask = blocked_in_host_function();
  const unsigned long in_any = blocked_in_new_threads(before);
  for (const auto& [name, number] : signals)
    say(name, std::string("in a host function ") + yes(sigismember(&mask, number) == 1) + ", in any of the driver's " +
                  yes(in_any >> (number - 1) & 1));
  static bool has_stack;
  CHECK(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        stack_t of_thread = {};
        sigaltstack(nullptr, &of_thread);
        has_stack = !(of_thread.ss_flags & SS_DISABLE);
      },
      nullptr));
  CHECK(cudaDeviceSynchronize());
  say("a stack of its own for handlers", yes(has_stack));
}

SECTION("blocked by the program's") {
  block(SIGUSR1);
  make_context();
  block(SIGUSR2);
  const sigset_t mask = blocked_in_host_function();
  say("SIGUSR1, which main blocked before its first call", yes(sigismember(&mask, SIGUSR1) == 1));
  say("SIGUSR2, which main blocked before its first host function", yes(sigismember(&mask, SIGUSR2) == 1));
}

// --- Where a signal goes that is sent to the process while main's thread blocks it.
static std::atomic<bool> was_handled = false;
static void note(int) { was_handled = true; }
static void send(int signal) {
  was_handled = false;
  std::signal(signal, note);
  kill(getpid(), signal);
  const bool is_handled = comes_true([] { return was_handled.load(); }, std::chrono::milliseconds(500));
  const sigset_t set = only(signal);
  const timespec at_once = {};
  say("handled", is_handled ? "in a thread of the driver" : "nowhere");
  say("left for main to wait for", yes(sigtimedwait(&set, nullptr, &at_once) == signal));
}
SECTION("sent to a process whose main thread blocked it before its first call") {
  block(SIGUSR1);
  make_context();
  blocked_in_host_function();
  send(SIGUSR1);
}
SECTION("sent to a process whose main thread blocks it later") {
  make_context();
  blocked_in_host_function();
  block(SIGUSR1);
  send(SIGUSR1);
}

// --- Handlers in a host function.
static sigjmp_buf back;
static void jump_back(int) { siglongjmp(back, 1); }
static const char* raised_signal(int number) {
  was_handled = false;
  std::signal(number, note);
  raise(number);
  return was_handled ? "handled" : "not handled";
}
SECTION("raised in a host function, with handlers") {
  make_context();
  CHECK(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        for (const auto& [name, number] : signals)
          if (number != SIGALRM) say(name, raised_signal(number));
        std::signal(SIGSEGV, jump_back);
        if (sigsetjmp(back, 1) == 0) *reinterpret_cast<volatile int*>(8) = 1;
        say("a store to address 8, and a jump out of the handler", "the host function goes on");
      },
      nullptr));
  say("the stream", cudaDeviceSynchronize());
  say("afterwards", use_gpu());
}

SECTION("a store to address 8 in a host function") {
  make_context();
  CHECK(cudaLaunchHostFunc(nullptr, [](void*) { *reinterpret_cast<volatile int*>(8) = 1; }, nullptr));
  cudaDeviceSynchronize();
  say("the process", "goes on");
}

// --- Interrupted by signals without SA_RESTART.
static std::atomic<int> alarms = 0;
SECTION("calls that signals interrupt") {
  make_context();
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  struct sigaction action = {};
  action.sa_handler = [](int) { ++alarms; };
  sigaction(SIGPROF, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t main = pthread_self();
  std::atomic<bool> is_over = false;
  std::thread interrupts([&] {
    while (!is_over) {
      pthread_kill(main, SIGUSR1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::string answer = "cudaSuccess";
  for (int i = 0; i < 20 && answer == "cudaSuccess"; ++i) answer = use_gpu();
  say("calls", answer);
  run_kernel(stream);
  std::thread lets_go([] {
    comes_true([begin = alarms.load()] { return alarms > begin + 10; });
    *flag = 1;
  });
  say("a wait for a kernel", cudaStreamSynchronize(stream));
  lets_go.join();
  is_over = true;
  interrupts.join();
  say("signals came", yes(alarms > 10));
}

SECTION("a process that is stopped while a kernel runs") {  // a child, whose parent has no driver
  int ends[2], status = 0;
  EXPECT(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    alarm(patience / 2);
    make_context();
    run_kernel();
    std::thread([&] {
      EXPECT(write(ends[1], "r", 1) == 1, "no pipe");
      raise(SIGSTOP);
      *flag = 1;
    }).detach();
    say("a wait for a kernel", cudaDeviceSynchronize());
    say("afterwards", use_gpu());
    _exit(0);
  }
  char word;
  EXPECT(read(ends[0], &word, 1) == 1, "no word");
  waitpid(child, &status, WUNTRACED);
  say("stopped", yes(WIFSTOPPED(status)));
  kill(child, SIGCONT);
  say("continued", end_of(child));
}

int main(int argc, char** argv) { return ask_in_sections(argc, argv); }
