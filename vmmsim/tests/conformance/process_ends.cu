// SPDX-License-Identifier: MIT-0
// How a process ends while a kernel runs or a host function waits, and from a host function.
#include "process_questions.h"

#include <csignal>
#include <stdexcept>

static void returns_beside_function() {
  make_context();
  run_waiting_function();
}
static void exits_beside_function() {
  returns_beside_function();
  std::atexit([] { say("what std::atexit was given", "runs"); });
  std::exit(3);
}
static void exits_quickly_beside_function() {
  returns_beside_function();
  std::at_quick_exit([] { say("what std::at_quick_exit was given", "runs"); });
  std::quick_exit(5);
}
static void terminated_beside_function() {
  returns_beside_function();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
static void returns_beside_kernel() {
  make_context();
  run_kernel();
}
static void exits_at_once_beside_kernel() {
  returns_beside_kernel();
  _exit(4);
}
static void terminated_beside_kernel() {
  returns_beside_kernel();
  kill(getpid(), SIGTERM);
  for (;;) pause();
}
static void exits_in_handler() {  // while main waits for the kernel
  returns_beside_kernel();
  std::signal(SIGUSR1, [](int) { std::exit(3); });
  const pthread_t main = pthread_self();
  std::thread([main] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    pthread_kill(main, SIGUSR1);
  }).detach();
  cudaDeviceSynchronize();
}
static void exits_in_thread() {
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
static void function_exits() {
  in_host_function([](void*) {
    std::atexit([] { say("what std::atexit was given", "runs"); });
    std::exit(3);
  });
}
static void function_exits_at_once() {
  in_host_function([](void*) { _exit(4); });
}
static void function_exits_quickly() {
  in_host_function([](void*) {
    std::at_quick_exit([] { say("what std::at_quick_exit was given", "runs"); });
    std::quick_exit(5);
  });
}
static void function_aborts() {
  in_host_function([](void*) { std::abort(); });
}
static void function_throws() {
  in_host_function([](void*) { throw std::runtime_error("of a host function"); });
}
static void callback_exits() {
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
static void main_thread_ends() {
  returns_beside_kernel();
  std::thread([] {
    work_on();
    std::exit(3);
  }).detach();
  pthread_exit(nullptr);
}
static void all_threads_end() {  // the driver's might go on, and block what else would end the process
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

int main(int argc, char** argv) {
  const Section sections[] = {{"main returns, a host function waits", returns_beside_function},
                              {"exit(3), a host function waits", exits_beside_function},
                              {"quick_exit(5), a host function waits", exits_quickly_beside_function},
                              {"SIGTERM, a host function waits", terminated_beside_function},
                              {"main returns, a kernel runs", returns_beside_kernel},
                              {"_exit(4), a kernel runs", exits_at_once_beside_kernel},
                              {"SIGTERM, a kernel runs", terminated_beside_kernel},
                              {"exit(3) in a handler of a signal, main waits for a kernel", exits_in_handler},
                              {"exit(3) in a thread, main waits for a kernel", exits_in_thread},
                              {"exit(3) in a host function", function_exits},
                              {"_exit(4) in a host function", function_exits_at_once},
                              {"quick_exit(5) in a host function", function_exits_quickly},
                              {"abort() in a host function", function_aborts},
                              {"an exception leaves a host function", function_throws},
                              {"exit(3) in a callback", callback_exits},
                              {"main's thread ends, another goes on, and calls exit(3)", main_thread_ends},
                              {"main's thread ends, and then the other", all_threads_end}};
  return ask_in_sections(sections, argc, argv);
}
