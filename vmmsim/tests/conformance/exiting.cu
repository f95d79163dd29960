// SPDX-License-Identifier: MIT-0
// What calls answer while a process exits: from what runs at exit, before and after the program's kernels are given up,
// and from a thread that goes on.
#include "conformance.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <type_traits>

__global__ void add(int* word) { atomicAdd(word, 1); }

static int role = -1;
static int* word;
static cudaStream_t stream;

static const char* launch() {
  add<<<1, 1, 0, stream>>>(word);
  return check::name(cudaGetLastError());
}
static void tell(const std::string& when, bool is_runtime_alive = true) {
  const auto answer = [&](const char* call, auto error) {
    const char* const known = cudaGetErrorName(cudaError_t(error));
    std::printf("%s, %s: %d %s\n", when.c_str(), call, int(error),
                std::is_same_v<decltype(error), cudaError_t> ? known : "");
  };
  void* pointer = nullptr;
  int value = 0;
  size_t total;
  const char* text = nullptr;
  CUcontext context;
  cudaFuncAttributes attributes;
  cudaPointerAttributes of_pointer;
  add<<<1, 1, 0, stream>>>(word);
  answer("launch", cudaGetLastError());
  if (is_runtime_alive) answer("cudaPeekAtLastError", cudaPeekAtLastError());
  answer("cudaStreamSynchronize", cudaStreamSynchronize(stream));
  answer("cudaDeviceSynchronize", cudaDeviceSynchronize());
  answer("cudaMemcpy", cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  say(when + ", the kernels that ran", std::to_string(value));
  answer("cudaMalloc", cudaMalloc(&pointer, 4));
  answer("cudaFree", cudaFree(pointer));
  if (is_runtime_alive) answer("cudaGetDeviceCount", cudaGetDeviceCount(&value));
  answer("cudaGetDevice", cudaGetDevice(&value));
  answer("cudaSetDevice", cudaSetDevice(0));
  answer("cudaPointerGetAttributes", cudaPointerGetAttributes(&of_pointer, word));
  answer("cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, add));
  answer("cudaRuntimeGetVersion", cudaRuntimeGetVersion(&value));
  if (is_runtime_alive) {
    answer("cudaDriverGetVersion", cudaDriverGetVersion(&value));
    answer("cudaGetLastError", cudaGetLastError());
  }
  answer("cuMemGetInfo", cuMemGetInfo(&total, &total));
  answer("cuInit", cuInit(0));
  answer("cuDriverGetVersion", cuDriverGetVersion(&value));
  answer("cuDeviceGetCount", cuDeviceGetCount(&value));
  answer("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  answer("cuGetErrorName", cuGetErrorName(CUDA_ERROR_INVALID_VALUE, &text));
  say(when + ", that name", text ? text : "none");
  answer("cuMemCreate without an argument", cuMemCreate(nullptr, 0, nullptr, 0));
  std::fflush(stdout);
}

// A thread launches without end. What it was answered first that was no success.
static std::atomic<const char*> failure = nullptr;
static std::atomic<long> launches = 0;
static void launch_on() {
  while (!failure) {
    const char* const answer = launch();
    ++launches;
    if (std::strcmp(answer, "cudaSuccess")) failure = answer;
    else if (launches % 64 == 0) cudaStreamSynchronize(stream);
  }
}

// Of all objects of the program the first that is made, and the last that is destroyed.
struct Last {
  ~Last() {
    // A runtime inside the program is destroyed by now: it answers some calls otherwise, and crashes in one.
    if (role == 0) tell("in the last destructor", false);
    if (role == 1) {
      const auto begin = std::chrono::steady_clock::now();
      while (!failure && std::chrono::steady_clock::now() - begin < std::chrono::seconds(5)) std::this_thread::yield();
      std::printf("a thread's launches after that: %s\n", failure ? failure.load() : "cudaSuccess");
      std::fflush(stdout);
    }
  }
};
__attribute__((init_priority(101))) static Last last;
struct Usual {
  ~Usual() {
    if (role == 0) tell("in a destructor");
  }
};
static Usual usual;

int main(int argc, char** argv) {
  alarm(60);
  if (argc > 1) setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 1 && atoi(argv[1]) == 3) std::atexit([] { tell("at exit, by what was there before cuInit"); });
  check::require_gpus(1);
  if (argc == 1) {
    for (const char* each : {"0", "1", "2", "3"})
      if (const std::string how = run_again(each); how != "exit 0") say("ended with", how);
    std::printf("OK\n");
    return 0;
  }
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  say("before, launch", launch());
  CHECK(cudaDeviceSynchronize());
  role = atoi(argv[1]);
  if (role == 0) std::atexit([] { tell("at exit"); });
  if (role == 1) {
    std::thread(launch_on).detach();
    while (launches < 1000) std::this_thread::yield();
  }
  if (role == 2) std::atexit([] { std::thread([] { tell("in a thread at exit"); }).join(); });
  return 0;
}
