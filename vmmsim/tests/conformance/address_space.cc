// SPDX-License-Identifier: MIT-0
// How many addresses can be reserved in all, and what still works then.
#include "conformance.h"

#include <thread>

#include <sys/mman.h>

SECTION("reservations, until there are no more") {
  alarm(20);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  for (int bits = 46; bits >= 36; --bits) {
    int times = 0;
    for (CUdeviceptr at = 0; times < 64 && cuMemAddressReserve(&at, size_t(1) << bits, 0, 0, 0) == CUDA_SUCCESS;)
      ++times;
    say("reserve 2^" + std::to_string(bits) + " as often as it can be", std::to_string(times));
  }
  void *memory, *host;
  say("cudaMalloc of 1 GiB then", cudaMalloc(&memory, 1024 * MiB));
  say("cudaMallocHost of 64 MiB then", cudaMallocHost(&host, 64 * MiB));
  void* const pages = mmap(nullptr, 8 * 1024 * MiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  say("mmap of 8 GiB then", pages == MAP_FAILED ? "refused" : "done");
  std::thread([] { say("a new thread then", "runs"); }).join();
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
