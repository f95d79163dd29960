// SPDX-License-Identifier: MIT-0
// Which flags the driver tells of host memory that it allocated: small pieces come from one block, so each section is a
// process in which nothing was allocated before.
#include "conformance.h"

static std::string flags_of(void* address) {
  unsigned flags = 99;
  const CUresult answer = cuMemHostGetFlags(&flags, address);
  return answer ? brief(answer) : std::to_string(flags);
}
static void* allocate(size_t size, unsigned flags) {
  void* made = nullptr;
  const CUresult answer = cuMemHostAlloc(&made, size, flags);
  say(std::to_string(size) + " bytes, flags " + std::to_string(flags), answer ? brief(answer) : flags_of(made));
  return made;
}
static void release(void* address) {
  CHECK(cuMemFreeHost(address));
  std::puts("freed");
}

// Each with those before it still there, or gone.
template <bool frees> static void in_order(size_t size, std::initializer_list<unsigned> all) {
  for (const unsigned flags : all) {
    void* const made = allocate(size, flags);
    if (frees) release(made);
  }
}
SECTION("0, then 1") { in_order<false>(4096, {0, 1, 0, 1}); }
SECTION("0, freed, then 1") { in_order<true>(4096, {0, 1, 0, 1}); }
SECTION("1, then 0") { in_order<false>(4096, {1, 0, 1, 0}); }
SECTION("1, freed, then 0") { in_order<true>(4096, {1, 0, 1, 0}); }
SECTION("2, then 1") { in_order<false>(4096, {2, 1, 3, 1}); }
SECTION("3, then fewer") { in_order<false>(4096, {3, 2, 1, 0}); }
SECTION("write-combined") { in_order<false>(4096, {5, 4, 6, 7, 1}); }
SECTION("large") { in_order<false>(8 * MiB, {0, 1, 2, 3, 5, 7}); }
SECTION("large, freed") { in_order<true>(8 * MiB, {0, 1, 0, 1}); }
SECTION("small and large") { allocate(4096, 0), allocate(8 * MiB, 1), allocate(4096, 1), allocate(8 * MiB, 0); }
SECTION("sizes") {
  for (const size_t size :
       {size_t(1), size_t(4096), 64 * (MiB >> 10), 512 * (MiB >> 10), MiB, 2 * MiB, 3 * MiB, 4 * MiB})
    allocate(size, 0), allocate(size, 1);
}
SECTION("cuMemAllocHost, then 1") {
  void* made = nullptr;
  CHECK(cuMemAllocHost(&made, 4096));
  say("cuMemAllocHost", flags_of(made));
  allocate(4096, 1);
}
SECTION("registered") {
  alignas(4096) static char bytes[3 * 4096];
  for (const unsigned flags : {1u, 0u, 2u, 3u}) {
    CHECK(cuMemHostRegister(bytes, sizeof bytes, flags));
    say("registered, flags " + std::to_string(flags), flags_of(bytes));
    allocate(4096, flags);
    CHECK(cuMemHostUnregister(bytes));
  }
}

static void make_context() {
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
}

int main(int argc, char** argv) { return run_sections(argc, argv, make_context); }
