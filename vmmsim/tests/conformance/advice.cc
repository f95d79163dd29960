// SPDX-License-Identifier: MIT-0
// What advice, prefetches and discards of managed memory may say, and what is known of it then; flags of host memory.
// Not asked: cuStreamAttachMemAsync with flags 0, where the driver crashes.
#include "places.h"

#include <sys/mman.h>

#include <vector>

static CUdeviceptr managed, ordinary, hole;
static void *pinned, *registered, *pageable;

static void set_up() {
  begin();
  CHECK(cuMemAllocManaged(&managed, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAlloc(&ordinary, 4 * MiB));
  CHECK(cuMemAllocHost(&pinned, 4 * MiB));
  hole = reserve(2 * MiB);
  for (void** each : {&registered, &pageable}) {
    *each = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  }
  CHECK(cuMemHostRegister(registered, MiB, 0));
}
static std::string asked(CUmem_range_attribute what, CUdeviceptr address = managed, size_t size = MiB) {
  int value = -9;
  const CUresult result = cuMemRangeGetAttribute(&value, 4, what, address, size);
  return with(result, value);
}
static std::string all_of_it() {
  std::string all;
  for (int what = 1; what <= 8; ++what) {
    const std::string each = asked(CUmem_range_attribute(what));
    all += (all.empty() ? "" : " ") + (each.rfind("CUDA_SUCCESS, ", 0) == 0 ? each.substr(14) : each);
  }
  return all;
}

SECTION("advice") {
  set_up();
  for (int advice = 0; advice <= 7; ++advice) {
    for (const Place& each : places) {
      const CUresult result = cuMemAdvise(managed, MiB, CUmem_advise(advice), each.location);
      say("advice " + std::to_string(advice) + ", " + each.name, plain(result) + ", then " + all_of_it());
    }
  }
}
struct Memory {
  const char* name;
  CUdeviceptr address;
  size_t size;
};
static std::vector<Memory> memories() {
  return {{"from the second byte on", managed + 1, 4096},
          {"the last byte", managed + 4 * MiB - 1, 1},
          {"one byte too many", managed + MiB, 3 * MiB + 1},
          {"no byte", managed, 0},
          {"null", 0, 4096},
          {"cuMemAlloc", ordinary, 4096},
          {"cuMemAllocHost", CUdeviceptr(pinned), 4096},
          {"registered", CUdeviceptr(registered), 4096},
          {"pageable", CUdeviceptr(pageable), 4096},
          {"reserved", hole, 4096}};
}
SECTION("other memory") {
  set_up();
  for (const Memory& each : memories()) {
    for (const int advice : {1, 2, 3, 4, 5, 6}) {
      say("advice " + std::to_string(advice) + ", " + each.name,
          cuMemAdvise(each.address, each.size, CUmem_advise(advice), places[0].location));
    }
    say(std::string("prefetch to the GPU, ") + each.name,
        cuMemPrefetchAsync(each.address, each.size, places[0].location, 0, a_stream));
    say(std::string("prefetch to the host, ") + each.name,
        cuMemPrefetchAsync(each.address, each.size, places[3].location, 0, a_stream));
    say(std::string("read mostly, ") + each.name, asked(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, each.address, each.size));
    say(std::string("attach, ") + each.name,
        cuStreamAttachMemAsync(a_stream, each.address, each.size, CU_MEM_ATTACH_SINGLE));
    CUdeviceptr address = each.address;
    size_t size = each.size, from = 0;
    CUmemLocation where = places[0].location;
    say(std::string("prefetch in a batch, ") + each.name,
        cuMemPrefetchBatchAsync(&address, &size, 1, &where, &from, 1, 0, a_stream));
    say(std::string("discard, ") + each.name, cuMemDiscardBatchAsync(&address, &size, 1, 0, a_stream));
    say(std::string("discard and prefetch, ") + each.name,
        cuMemDiscardAndPrefetchBatchAsync(&address, &size, 1, &where, &from, 1, 0, a_stream));
  }
  say("synchronize", cuStreamSynchronize(a_stream));
}
SECTION("prefetches") {
  set_up();
  for (const Place& each : places) {
    const CUresult result = cuMemPrefetchAsync(managed, MiB, each.location, 0, a_stream);
    CHECK(cuStreamSynchronize(a_stream));
    say(std::string("prefetch, ") + each.name, plain(result) + ", then " + all_of_it());
    CUdeviceptr address = managed;
    size_t size = MiB, from = 0;
    CUmemLocation where = each.location;
    say(std::string("prefetch in a batch, ") + each.name,
        cuMemPrefetchBatchAsync(&address, &size, 1, &where, &from, 1, 0, a_stream));
    say(std::string("discard and prefetch, ") + each.name,
        cuMemDiscardAndPrefetchBatchAsync(&address, &size, 1, &where, &from, 1, 0, a_stream));
    CHECK(cuStreamSynchronize(a_stream));
  }
  say("flags 1", cuMemPrefetchAsync(managed, MiB, places[0].location, 1, a_stream));
  say("the null stream", cuMemPrefetchAsync(managed, MiB, places[0].location, 0, nullptr));
}
SECTION("batches") {
  set_up();
  CUdeviceptr addresses[] = {managed, managed + 2 * MiB};
  size_t sizes[] = {MiB, MiB}, from[] = {0, 1};
  CUmemLocation where[] = {places[0].location, places[3].location};
  struct {
    const char* what;
    CUdeviceptr* addresses;
    size_t *sizes, count;
    CUmemLocation* where;
    size_t *from, locations;
    unsigned long long flags;
    CUstream stream;
  } const asks[] = {{"two", addresses, sizes, 2, where, from, 2, 0, a_stream},
                    {"none", addresses, sizes, 0, where, from, 1, 0, a_stream},
                    {"no addresses", nullptr, sizes, 2, where, from, 2, 0, a_stream},
                    {"no sizes", addresses, nullptr, 2, where, from, 2, 0, a_stream},
                    {"no places", addresses, sizes, 2, nullptr, from, 2, 0, a_stream},
                    {"no indexes", addresses, sizes, 2, where, nullptr, 2, 0, a_stream},
                    {"0 places", addresses, sizes, 2, where, from, 0, 0, a_stream},
                    {"more places than ranges", addresses, sizes, 1, where, from, 2, 0, a_stream},
                    {"first index 1", addresses, sizes, 2, where, from + 1, 1, 0, a_stream},
                    {"flags 1", addresses, sizes, 2, where, from, 2, 1, a_stream},
                    {"the null stream", addresses, sizes, 2, where, from, 2, 0, nullptr},
                    {"the legacy stream", addresses, sizes, 2, where, from, 2, 0, CU_STREAM_LEGACY}};
  for (const auto& each : asks) {
    say(std::string("prefetch, ") + each.what,
        cuMemPrefetchBatchAsync(each.addresses, each.sizes, each.count, each.where, each.from, each.locations,
                                each.flags, each.stream));
    say(std::string("discard, ") + each.what,
        cuMemDiscardBatchAsync(each.addresses, each.sizes, each.count, each.flags, each.stream));
    say(std::string("discard and prefetch, ") + each.what,
        cuMemDiscardAndPrefetchBatchAsync(each.addresses, each.sizes, each.count, each.where, each.from, each.locations,
                                          each.flags, each.stream));
  }
  CHECK(cuCtxSynchronize());
  say("then", all_of_it());
}
static std::string flags_at(void* address) {
  unsigned flags = 99;
  const CUresult result = cuMemHostGetFlags(&flags, address);
  return with(result, flags);
}
static std::string device_address(void* address) {
  CUdeviceptr found = 0;
  const CUresult result = cuMemHostGetDevicePointer(&found, address, 0);
  return with(result, found == CUdeviceptr(address));
}
SECTION("host flags") {
  set_up();
  for (unsigned flags = 0; flags <= 17; ++flags) {
    void* made = nullptr;
    const CUresult result = cuMemHostAlloc(&made, 4096, flags);
    say("allocate, flags " + std::to_string(flags), plain(result) + (result ? "" : ", then " + flags_at(made)));
  }
  void* made = nullptr;
  say("allocate 0 bytes", cuMemHostAlloc(&made, 0, 0));
  say("allocate 0 bytes, flags 16", cuMemHostAlloc(&made, 0, 16));
  for (unsigned flags = 0; flags <= 33; ++flags) {
    const CUresult result = cuMemHostRegister(pageable, 8192, flags);
    say("register, flags " + std::to_string(flags), plain(result) + (result ? "" : ", then " + flags_at(pageable)));
    if (!result) CHECK(cuMemHostUnregister(pageable));
  }
  CHECK(cuMemHostRegister(static_cast<char*>(pageable) + 100, 8192, 0));
  struct {
    const char* what;
    void* address;
  } const asks[] = {{"cuMemAllocHost", pinned},
                    {"cuMemAllocHost, inside", static_cast<char*>(pinned) + 1000},
                    {"registered", registered},
                    {"registered, inside", static_cast<char*>(registered) + 1000},
                    {"registered, in the page before its beginning", pageable},
                    {"registered, in the page behind its end", static_cast<char*>(pageable) + 8192 + 200},
                    {"pageable", static_cast<char*>(pageable) + 65536},
                    {"managed", reinterpret_cast<void*>(managed)},
                    {"cuMemAlloc", reinterpret_cast<void*>(ordinary)},
                    {"reserved", reinterpret_cast<void*>(hole)},
                    {"null", nullptr}};
  for (const auto& each : asks) {
    say(std::string("flags, ") + each.what, flags_at(each.address));
    say(std::string("address for the device, ") + each.what, device_address(each.address));
  }
  CUdeviceptr found = 0;
  say("address for the device, flags 1", cuMemHostGetDevicePointer(&found, pinned, 1));
  for (const auto& each : asks) {
    if (each.address != pinned) say(std::string("free, ") + each.what, cuMemFreeHost(each.address));
  }
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
