// SPDX-License-Identifier: MIT-0
// What VMM calls cost beside other threads, what page tables take, how many mappings one GPU takes, and what each
// process that uses it takes. Prints a table as record.sh wants it. The number bounds what a thread repeats, the
// mappings, and the processes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "../../common/measure.h"

using measure::free_memory, measure::median;

static const char usage[] = "usage: vmm_limits threads|page_tables|mappings|processes [NUMBER]";
static size_t most = 1 << 20;
const size_t granule = 2 << 20;
const CUmemAllocationProp on_gpu_0 = [] {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}();
const CUmemAccessDesc read_write = [] {
  CUmemAccessDesc access = {};
  access.location = on_gpu_0.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}();

// All calls of the life of 2 MiB, by several threads at once, each for itself: the median of each call, and how many
// such lives a second all threads together get through.
const char* const calls[] = {"reserve", "create", "map", "set_access", "unmap", "release", "address_free"};
using Durations = std::array<std::vector<double>, 7>;

static void live(CUcontext context, size_t cycles, Durations& us) {
  CHECK(cuCtxSetCurrent(context));
  for (size_t i = 0; i < cycles; ++i) {
    CUdeviceptr address;
    CUmemGenericAllocationHandle memory;
    double at[8];
    at[0] = measure::microseconds();
    CHECK(cuMemAddressReserve(&address, granule, 0, 0, 0));
    at[1] = measure::microseconds();
    CHECK(cuMemCreate(&memory, granule, &on_gpu_0, 0));
    at[2] = measure::microseconds();
    CHECK(cuMemMap(address, granule, 0, memory, 0));
    at[3] = measure::microseconds();
    CHECK(cuMemSetAccess(address, granule, &read_write, 1));
    at[4] = measure::microseconds();
    CHECK(cuMemUnmap(address, granule));
    at[5] = measure::microseconds();
    CHECK(cuMemRelease(memory));
    at[6] = measure::microseconds();
    CHECK(cuMemAddressFree(address, granule));
    at[7] = measure::microseconds();
    for (int call = 0; call < 7; ++call) us[call].push_back(at[call + 1] - at[call]);
  }
}

static void measure_threads(CUcontext context) {
  const size_t cycles = std::min<size_t>(200, most);
  const int repeats = 5;
  std::printf("threads,cycles_per_s");
  for (const char* call : calls) std::printf(",%s_us", call);
  std::puts("");
  for (const int threads : {1, 2, 4, 8, 16}) {
    std::vector<double> rates;
    Durations all;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      std::vector<Durations> each(threads);
      std::vector<std::thread> running;
      std::atomic<int> ready = 0;
      const auto run = [&](int thread) {
        ++ready;
        while (ready < threads) std::this_thread::yield();
        live(context, cycles, each[thread]);
      };
      const double begin = measure::microseconds();
      for (int thread = 0; thread < threads; ++thread) running.emplace_back(run, thread);
      for (std::thread& thread : running) thread.join();
      rates.push_back(double(threads * cycles) / (measure::microseconds() - begin) * 1e6);
      for (const Durations& us : each)
        for (int call = 0; call < 7; ++call) all[call].insert(all[call].end(), us[call].begin(), us[call].end());
    }
    std::printf("%d,%.0f", threads, median(rates));
    for (const std::vector<double>& us : all) std::printf(",%.1f", median(us));
    std::puts("");
  }
}

// One allocation of 2 MiB, mapped again and again, so many bytes apart: what that takes of the GPU's free memory.
static void measure_page_tables() {
  std::puts("apart_mib,mappings,taken_kib,taken_after_unmap_kib,taken_after_address_free_kib");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, granule, &on_gpu_0, 0));
  for (const size_t apart : {granule, 16 * granule, 512 * granule})
    for (const size_t mappings : {512, 2048, 8192}) {
      if (mappings > most) break;
      CUdeviceptr range;
      CHECK(cuMemAddressReserve(&range, apart * mappings, 0, 0, 0));
      const size_t before = free_memory();
      for (size_t i = 0; i < mappings; ++i) {
        CHECK(cuMemMap(range + i * apart, granule, 0, memory, 0));
        CHECK(cuMemSetAccess(range + i * apart, granule, &read_write, 1));
      }
      const size_t mapped = free_memory();
      for (size_t i = 0; i < mappings; ++i) CHECK(cuMemUnmap(range + i * apart, granule));
      const size_t unmapped = free_memory();
      CHECK(cuMemAddressFree(range, apart * mappings));
      const auto taken = [&](size_t now) { return (long(before) - long(now)) / 1024; };
      std::printf("%zu,%zu,%ld,%ld,%ld\n", apart >> 20, mappings, taken(mapped), taken(unmapped), taken(free_memory()));
    }
  CHECK(cuMemRelease(memory));
}

// One allocation of 2 MiB, mapped until a call is refused. A row for every 65,536 mappings, and one for the refusal.
static void measure_mappings() {
  const size_t range_mappings = 4096;
  std::puts("mappings,us_each,taken_kib,refused,answer");
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, granule, &on_gpu_0, 0));
  const size_t before = free_memory();
  std::vector<CUdeviceptr> ranges;
  size_t mappings = 0, last = 0;
  const char* refused = "";
  CUresult answer = CUDA_SUCCESS;
  double begin = measure::microseconds();
  const auto row = [&] {
    const double us_each = mappings == last ? 0 : (measure::microseconds() - begin) / double(mappings - last);
    std::printf("%zu,%.1f,%ld,%s,%s\n", mappings, us_each, (long(before) - long(free_memory())) / 1024, refused,
                answer == CUDA_SUCCESS ? "" : check::name(answer));
    std::fflush(stdout);
    last = mappings;
    begin = measure::microseconds();
  };
  while (answer == CUDA_SUCCESS && mappings < most) {
    CUdeviceptr range;
    CHECK(cuMemAddressReserve(&range, range_mappings * granule, 0, 0, 0));
    ranges.push_back(range);
    for (size_t i = 0; i < range_mappings && mappings < most && answer == CUDA_SUCCESS; ++i) {
      refused = "cuMemMap";
      answer = cuMemMap(range + i * granule, granule, 0, memory, 0);
      if (answer != CUDA_SUCCESS) break;
      refused = "cuMemSetAccess";
      answer = cuMemSetAccess(range + i * granule, granule, &read_write, 1);
      if (answer == CUDA_SUCCESS) ++mappings;
    }
    if (answer == CUDA_SUCCESS) refused = "";
    if (answer != CUDA_SUCCESS || mappings % 65536 == 0 || mappings == most) row();
  }
  for (const CUdeviceptr range : ranges) {
    const size_t mapped = std::min(mappings + (answer != CUDA_SUCCESS && range == ranges.back()), range_mappings);
    for (size_t i = 0; i < mapped; ++i) cuMemUnmap(range + i * granule, granule);
    mappings -= std::min(mappings, range_mappings);
    CHECK(cuMemAddressFree(range, range_mappings * granule));
  }
  CHECK(cuMemRelease(memory));
}

// A process of its own that has a context of GPU 0, and has run a kernel, until its standard input ends.
__global__ void nothing() {}
static int use_gpu_0() {
  CHECK(cudaSetDevice(0));
  nothing<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  char byte = 0;
  EXPECT(write(STDOUT_FILENO, &byte, 1) == 1, "nobody listens");
  return int(read(STDIN_FILENO, &byte, 1));  // 0, when the other end is closed
}

// What processes take of GPU 0's free memory that do nothing but use CUDA, beside the one that measures.
static void measure_processes() {
  const size_t most_processes = std::min<size_t>(4, most);
  nothing<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  const size_t before = free_memory();
  std::vector<int> inputs;
  std::puts("processes,taken_mib");
  for (size_t processes = 1; processes <= most_processes; ++processes) {
    int to[2], from[2];
    EXPECT(pipe(to) == 0 && pipe(from) == 0, "no pipe");
    std::fflush(stdout);
    const pid_t child = fork();
    EXPECT(child >= 0, "no process");
    if (child == 0) {
      dup2(to[0], STDIN_FILENO), dup2(from[1], STDOUT_FILENO);
      for (const int end : {to[0], to[1], from[0], from[1]}) close(end);
      for (const int other : inputs) close(other);
      execl("/proc/self/exe", "vmm_limits", "use_gpu_0", nullptr);
      _exit(127);
    }
    close(to[0]), close(from[1]);
    inputs.push_back(to[1]);
    char byte;
    EXPECT(read(from[0], &byte, 1) == 1, "process %zu has ended", processes);
    close(from[0]);
    std::printf("%zu,%.0f\n", processes, double(before - free_memory()) / (1 << 20));
  }
  for (const int input : inputs) close(input);
  int status;
  while (wait(&status) > 0) EXPECT(status == 0, "a process has ended with status %d", status);
}

int main(int count, char** values) {
  if (count == 2 && std::strcmp(values[1], "use_gpu_0") == 0) return use_gpu_0();
  const std::string table = count > 1 ? values[1] : "";
  const auto measure_it = table == "page_tables" ? measure_page_tables
                          : table == "mappings"  ? measure_mappings
                          : table == "processes" ? measure_processes
                                                 : nullptr;
  if (count > 2) most = std::strtoul(values[2], nullptr, 10);
  if ((!measure_it && table != "threads") || count > 3 || most == 0) check::end(2, "%s", usage);
  const int gpus = check::require_gpus(1, {check::vmm});
  CUcontext context;
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  std::fputs(measure::conditions("vmm_limits " + table + (count > 2 ? std::string(" ") + values[2] : ""), gpus).c_str(),
             stdout);
  if (measure_it) measure_it();
  else measure_threads(context);
  return 0;
}
