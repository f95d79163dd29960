// SPDX-License-Identifier: MIT-0
// What mappings take of a GPU's memory beside the memory that is mapped: the tables by which it finds pages.
#include "conformance.h"

static std::string taken_since(size_t before) {
  const long long taken = (long long)(before - free_bytes());
  return mib(taken + (taken < 0 ? -1 : 1) * (long long)MiB / 2);  // the nearest
}

static void ask(size_t places, size_t apart) {
  alarm(20);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const CUmemGenericAllocationHandle handle = create(page);
  const CUmemAccessDesc to_gpu = access_of(0);
  const CUdeviceptr room = reserve(places * apart);
  const size_t before = free_bytes();
  const auto taken = [&](const std::string& when) { say(when, taken_since(before)); };
  taken("taken when nothing is mapped");
  for (const char* time : {"", ", again"}) {
    for (size_t i = 0; i < places; ++i) CHECK(cuMemMap(room + i * apart, page, 0, handle, 0));
    taken("taken when all are mapped" + std::string(time));
    for (size_t i = 0; i < places; ++i) CHECK(cuMemSetAccess(room + i * apart, page, &to_gpu, 1));
    taken("taken when all are open" + std::string(time));
    for (size_t i = places / 2; i < places; ++i) CHECK(cuMemUnmap(room + i * apart, page));
    taken("taken when half is unmapped" + std::string(time));
    CHECK(cuMemUnmap(room, places * apart));
    taken("taken when all are unmapped" + std::string(time));
  }
  CHECK(cuMemAddressFree(room, places * apart));
  taken("taken when the addresses are free");
  CHECK(cuMemRelease(handle));
  const CUdeviceptr other = reserve(places * apart);
  const CUmemGenericAllocationHandle last = create(page);
  for (size_t i = 0; i < places; ++i) CHECK(cuMemMap(other + i * apart, page, 0, last, 0));
  CHECK(cuMemSetAccess(other, page, &to_gpu, 1));
  taken("taken when other memory is mapped, and one is open");
}

SECTION("2 MiB at 2048 places 1 GiB apart") { ask(2048, 1024 * MiB); }
SECTION("2 MiB at 2048 places 512 MiB apart") { ask(2048, 512 * MiB); }
SECTION("2 MiB at 2048 places side by side") { ask(2048, page); }

int main(int argc, char** argv) { return run_sections(argc, argv); }
