// SPDX-License-Identifier: MIT-0
// How a process ends while a kernel runs or a host function waits, and from a host function.
#include "process_questions.h"

#include <csignal>
#include <stdexcept>

static void returns_beside_function() {
  make_context();
  run_waiting_function();
}
SECTION("main returns, a host function waits") { returns_beside_function(); }
SECTION("exit(3), a host function waits") {
  returns_beside_function();
  std::atexit([] { say("what std::atexit was given", "runs"); });
  std::exit(3);
}
SECTION("quick_exit(5), a host function waits") {
  returns_beside_function();
  std::at_quick_exit([] { say("what std::at_quick_exit was given", "runs"); });
  std::quick_exit(5);
}
SECTION("SIGTERM, a host function waits") {
  returns_beside_function();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
static void returns_beside_kernel() {
  make_context();
  run_kernel();
}
SECTION("main returns, a kernel runs") { returns_beside_kernel(); }
SECTION("_exit(4), a kernel runs") {
  returns_beside_kernel();
  _exit(4);
}
SECTION("SIGTERM, a kernel runs") {
  returns_beside_kernel();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
SECTION("exit(3) in a handler of a signal, main waits for a kernel") {  // while main waits for the kernel
  returns_beside_kernel();
  std::signal(SIGUSR1, [](int) { std::exit(3); });
  const pthread_t main = pthread_self();
  std::thread([main] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    pthread_kill(main, SIGUSR1);
  }).detach();
  cudaDeviceSynchronize();
}
SECTION("exit(3) in a thread, main waits for a kernel") {
  returns_beside_kernel();
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::exit(3);
  }).detach();
  cudaDeviceSynchronize();
}

// In a host function, while main waits for it.
template <class Work> static void in_host_function(Work work) {
  make_context();
  CHECK(cudaLaunchHostFunc(nullptr, work, nullptr));
  const cudaError_t answer = cudaDeviceSynchronize();
  for (;;) say("main goes on", answer), pause();
}
SECTION("exit(3) in a host function") {
  in_host_function([](void*) {
    std::atexit([] { say("what std::atexit was given", "runs"); });
    std::exit(3);
  });
}
SECTION("_exit(4) in a host function") {
  in_host_function([](void*) { _exit(4); });
}
SECTION("quick_exit(5) in a host function") {
  in_host_function([](void*) {
    std::at_quick_exit([] { say("what std::at_quick_exit was given", "runs"); });
    std::quick_exit(5);
  });
}
SECTION("abort() in a host function") {
  in_host_function([](void*) { std::abort(); });
}
SECTION("an exception leaves a host function") {
  in_host_function([](void*) { throw std::runtime_error("of a host function"); });
}
SECTION("exit(3) in a callback") {
  make_context();
  CHECK(cudaStreamAddCallback(nullptr, [](cudaStream_t, cudaError_t, void*) { std::exit(3); }, nullptr, 0));
  cudaDeviceSynchronize();
  for (;;) pause();
}

// Main's thread ends before the process, in which another works.
static void work_on() {
  CHECK(cudaSetDevice(0));
  comes_true([] { return false; }, std::chrono::milliseconds(100));
  *flag = 1;
  say("the other thread waits for the kernel", cudaDeviceSynchronize());
  say("and uses the GPU", use_gpu());
}
SECTION("main's thread ends, another goes on, and calls exit(3)") {
  returns_beside_kernel();
  std::thread([] {
    work_on();
    std::exit(3);
  }).detach();
  pthread_exit(nullptr);
}
// The driver's might go on, and block what else would end the process.
SECTION("main's thread ends, and then the other") {
  std::fflush(stdout);
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    returns_beside_kernel();
    std::thread(work_on).detach();
    pthread_exit(nullptr);
  }
  const bool has_ended = comes_true([&] { return waitpid(child, &status, WNOHANG) == child; }, std::chrono::seconds(6));
  say("the process ends", has_ended ? "exit " + std::to_string(WEXITSTATUS(status)) : "no");
  if (!has_ended) kill(child, SIGKILL);
}

int main(int argc, char** argv) { return ask_in_sections(argc, argv); }
