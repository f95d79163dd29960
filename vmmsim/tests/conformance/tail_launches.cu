// SPDX-License-Identifier: MIT-0
// Kernels that launch others behind themselves: whether these run after a fault of the kernel, or of what it launched.
#include "conformance.h"

__global__ void note(volatile unsigned* at, unsigned what) { *at = what; }
__global__ void fails(unsigned* at) { *at = 1; }

// Each section's kernel has a child, which may fault, and one behind all: the tail, which may have one behind it.
__global__ void parent(volatile unsigned* marks, bool child_fails, bool tail_fails) {
  marks[0] = 1;
  if (child_fails) fails<<<1, 1>>>(nullptr);
  else note<<<1, 1>>>(marks + 1, 2);
  if (tail_fails) fails<<<1, 1, 0, cudaStreamTailLaunch>>>(nullptr);
  else note<<<1, 1, 0, cudaStreamTailLaunch>>>(marks + 2, 3);
  note<<<1, 1, 0, cudaStreamTailLaunch>>>(marks + 3, 4);
}
__global__ void fails_itself(volatile unsigned* marks) {
  marks[0] = 1;  // a child might run before the fault or not
  note<<<1, 1, 0, cudaStreamTailLaunch>>>(marks + 2, 3);
  *static_cast<volatile unsigned*>(nullptr) = 1;
}

static unsigned* marks;
static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaHostAlloc(&marks, 4096, cudaHostAllocMapped));
  std::memset(marks, 0, 4096);
}
static void finish() {
  say("launch", cudaGetLastError());
  say("wait", cudaDeviceSynchronize());
  static const char* const names[] = {"the kernel", "its child", "its tail", "the next"};
  for (int i = 0; i < 4; ++i) say(names[i], std::string(marks[i] ? "ran" : "did not run"));
}

SECTION("no fault") { parent<<<1, 1>>>(marks, false, false), finish(); }
SECTION("the child faults") { parent<<<1, 1>>>(marks, true, false), finish(); }
SECTION("the tail faults") { parent<<<1, 1>>>(marks, false, true), finish(); }
SECTION("the kernel faults") { fails_itself<<<1, 1>>>(marks), finish(); }

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
