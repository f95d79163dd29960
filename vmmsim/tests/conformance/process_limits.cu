// SPDX-License-Identifier: MIT-0
// What a driver answers where a process may have few addresses. A build with AddressSanitizer or ThreadSanitizer has
// none for these: run_program.py knows the lines by RLIMIT_AS.
//
// With 16 GiB an H100 did all that it does with 1 TiB, and with 1 GiB that came after a context all but cudaMallocHost
// and the larger reservation. The simulator, which maps all memory of a GPU, cannot.
#include "process_questions.h"

#include <sys/resource.h>

constexpr unsigned long GiB = 1ul << 30;

static void limit(unsigned long bytes) {
  const rlimit both = {bytes, bytes};
  EXPECT(setrlimit(RLIMIT_AS, &both) == 0, "no limit");
}
static void calls(const std::string& when) {
  void* memory = nullptr;
  CUdeviceptr address = 0;
  CUcontext context = nullptr;
  const auto tell = [&](const char* call, auto answer) { say("RLIMIT_AS " + when + ": " + call, answer); };
  tell("cuInit", cuInit(0));
  tell("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
  tell("cudaSetDevice", cudaSetDevice(0));
  tell("cudaMalloc", cudaMalloc(&memory, MiB));
  tell("cudaMemset", cudaMemset(memory, 1, 4));
  tell("cudaMallocHost", cudaMallocHost(&memory, MiB));
  tell("cuMemAddressReserve", cuMemAddressReserve(&address, page, 0, 0, 0));
  tell("cuMemAddressReserve, 1 TiB", cuMemAddressReserve(&address, 1024 * GiB, 0, 0, 0));
}
static void before_the_first_call(const char* when, unsigned long bytes) {
  const std::string end = in_child([=] {
    limit(bytes);
    calls(when);
  });
  say("RLIMIT_AS " + std::string(when) + ": end", end);
}

SECTION("a limit before the first call") {
  before_the_first_call("1 GiB", GiB);
  before_the_first_call("1 TiB", 1024 * GiB);
}
int main(int argc, char** argv) { return ask_in_sections(argc, argv); }
