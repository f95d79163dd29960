// SPDX-License-Identifier: MIT-0
// Handles of cudaIpcGetMemHandle whose maker has ended, or has freed the memory.
#include "conformance.h"

#include <csignal>

#include "waiting.h"

constexpr int to_parent = 3;  // a socket

// Makes memory, and ends at a word; "f" frees it first.
static void make(const std::string& size) {
  void* memory;
  char go;
  cudaIpcMemHandle_t handle;
  CHECK(cudaMalloc(&memory, std::stoul(size)));
  CHECK(cudaIpcGetMemHandle(&handle, memory));
  EXPECT(write(to_parent, &handle, sizeof handle) == sizeof handle, "nobody hears");
  for (;;) {
    EXPECT(read(to_parent, &go, 1) == 1, "nobody answers");
    if (go != 'f') return;
    CHECK(cudaFree(memory));
    EXPECT(write(to_parent, &go, 1) == 1, "nobody hears");
  }
}

static void ask_ended(const std::string& size, bool kill_it, bool keep_open) {
  int peer;
  const pid_t child = start_in_role(size.c_str(), &peer);
  cudaIpcMemHandle_t handle;
  EXPECT(read(peer, &handle, sizeof handle) == sizeof handle, "no handle");
  CHECK(cudaSetDevice(0));
  void *memory = nullptr, *again = nullptr;
  if (keep_open) say("open", cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  if (kill_it) kill(child, SIGKILL);
  else EXPECT(write(peer, "g", 1) == 1, "nobody hears");
  int status;
  EXPECT(waitpid(child, &status, 0) == child, "no child");
  say("open when the maker has ended", cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  if (keep_open) say("close", cudaIpcCloseMemHandle(memory));
  if (keep_open) say("open then", cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  close(peer);
}

// Its maker frees it.
static void ask_freed(const std::string& size, bool keep_open) {
  int peer;
  const pid_t child = start_in_role(size.c_str(), &peer);
  cudaIpcMemHandle_t handle;
  EXPECT(read(peer, &handle, sizeof handle) == sizeof handle, "no handle");
  CHECK(cudaSetDevice(0));
  void *memory = nullptr, *again = nullptr;
  char word = 'f';
  if (keep_open) say("open", cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT(write(peer, &word, 1) == 1 && read(peer, &word, 1) == 1, "nobody frees");
  say("open when it was freed", cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  if (keep_open) say("copy from it", cudaMemcpy(&word, memory, 1, cudaMemcpyDeviceToHost));
  if (keep_open) say("close", cudaIpcCloseMemHandle(memory));
  if (keep_open) say("open then", cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT(write(peer, "g", 1) == 1, "nobody hears");
  int status;
  EXPECT(waitpid(child, &status, 0) == child, "no child");
  say("open when its maker has ended", cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  cudaGetLastError();
  close(peer);
}

// A host function in a stream waits, while what another process made is closed.
static void ask_busy() {
  int peer, status;
  const pid_t child = start_in_role("8388608", &peer);
  cudaIpcMemHandle_t handle;
  EXPECT(read(peer, &handle, sizeof handle) == sizeof handle, "no handle");
  CHECK(cudaSetDevice(0));
  void* memory;
  static volatile unsigned word;
  cudaStream_t stream;
  CHECK(cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto wait = [](void*) {
    while (!word) {
    }
  };
  CHECK(cudaLaunchHostFunc(stream, wait, nullptr));
  cudaError_t answer;
  const bool waits = waits_for(&word, [&] { answer = cudaIpcCloseMemHandle(memory); });
  say("close", std::string(check::name(answer)) + (waits ? ", waits" : ", at once"));
  EXPECT(write(peer, "g", 1) == 1, "nobody hears");
  EXPECT(waitpid(child, &status, 0) == child, "no child");
  close(peer);
}

int main(int argc, char** argv) {
  if (argc > 1) return make(argv[1]), 0;
  check::require_gpus(1);
  for (const char* size : {"1000", "8388608"})
    for (const bool kill_it : {false, true}) {
      section((std::string(size) + " bytes of a process that " + (kill_it ? "is killed" : "exits")).c_str());
      ask_ended(size, kill_it, false);
    }
  section("the same, open here");
  ask_ended("8388608", false, true);
  for (const char* size : {"1000", "8388608"})
    for (const bool keep_open : {false, true}) {
      section((std::string(size) + " bytes that the maker frees" + (keep_open ? ", open here" : "")).c_str());
      ask_freed(size, keep_open);
    }
  section("closed while a stream is busy");
  ask_busy();
}
