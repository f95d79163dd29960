// SPDX-License-Identifier: MIT-0
// What the programs process_*.cu share: sections that are a process each and never hang, and what they do on a GPU.
#pragma once
#include "conformance.h"

#include <atomic>
#include <chrono>
#include <thread>

constexpr unsigned patience = 20;  // seconds that a section takes at most; a process that it starts has half of them

// Does it in a child that is forked, and says how that ended.
template <class Work> std::string in_child(Work work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(patience / 2);
    work();
    _exit(0);
  }
  return end_of(child);
}

// Until it is so, or a while has passed, which is far longer than it takes.
template <class IsSo> bool comes_true(IsSo is_so, std::chrono::milliseconds longest = std::chrono::seconds(2)) {
  const auto begin = std::chrono::steady_clock::now();
  while (!is_so())
    if (std::chrono::steady_clock::now() - begin > longest) return is_so();
    else std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return true;
}

__global__ void wait_for(volatile int* flag) {
  while (!*flag) {
  }
}
inline volatile int* flag;  // of the kernel that runs; 0

// From here on this process has a context, of the runtime and current in this thread.
inline void make_context() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}
// A kernel that runs until *flag is set.
inline void run_kernel(cudaStream_t stream = nullptr) {
  void* pinned;
  CHECK(cudaMallocHost(&pinned, 4096));
  flag = static_cast<volatile int*>(pinned);
  *flag = 0;
  wait_for<<<1, 1, 0, stream>>>(const_cast<int*>(flag));
  CHECK(cudaGetLastError());
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady ? cudaSuccess : cudaErrorUnknown);
}
// A host function that waits for ever; returns when it does.
inline void run_waiting_function() {
  static std::atomic<bool> begun;
  begun = false;
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto wait = [](void*) {
    begun = true;
    for (;;) pause();
  };
  CHECK(cudaLaunchHostFunc(stream, wait, nullptr));
  while (!begun) std::this_thread::yield();
}
// Whether this process can use a GPU, from the first call on: the first error, if there is one.
inline std::string use_gpu() {
  void* memory;
  int value = 0;
  cudaError_t error = cudaSetDevice(0);
  if (!error) error = cudaMalloc(&memory, 4);
  if (!error) error = cudaMemset(memory, 1, 4);
  if (!error) error = cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost);
  if (!error) error = cudaFree(memory);
  return error || value == 0x01010101 ? check::name(error) : "a wrong value";
}

inline int ask_in_sections(int argc, char** argv) {
  if (argc > 1) alarm(patience);
  return run_sections(argc, argv);
}
