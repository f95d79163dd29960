// SPDX-License-Identifier: MIT-0
// 02 Growable, measured: where does the time of a growth go, and how large must a chunk be to beat copying?
//
// Times what the buffer in growable.cu does, with fresh chunks and with chunks kept from before, against copying. Then
// times cuMemCreate, cuMemMap and cuMemSetAccess ("open") each by itself, long after a release and soon after it.
// No other program should use the GPU.
//
// Build it alone:  nvcc -std=c++17 growth_cost.cu -o growth_cost -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <random>
#include <thread>

using measure::expect_filled, measure::fill, measure::free_memory, measure::milliseconds, measure::round_up;

static const char usage[] =
    "usage: growth_cost [--final-mib N] [--step-mib N] [--chunk-mib N] [--repeats N] [--quiet-ms N] [--csv FILE]\n"
    "  --final-mib N   grow to this size, a multiple of the chunk, 1 to 1048576 (default 32)\n"
    "  --step-mib N    by steps of this size, and by doubling from it, 1 to 1048576 (default 4)\n"
    "  --chunk-mib N   in chunks of this size, rounded up to the granularity, 1 to 1048576 (default: the step)\n"
    "  --repeats N     repeats of a measurement, 1 to 1000 (default 3)\n"
    "  --quiet-ms N    the pause before a measurement, and the longest after a release, 1 to 60000 (default 40)\n"
    "  --csv FILE      write the measurements to this file too, as a table\n"
    "The defaults suit a simulator. On a GPU: --final-mib 32768 --step-mib 1024 --repeats 5 --quiet-ms 100\n";
static long repeats = 3, quiet_ms = 40;

using Handles = std::vector<CUmemGenericAllocationHandle>;
static CUmemAllocationProp properties;  // of every chunk
static CUmemAccessDesc access;          // the device that gets access, and the right; step 1 sets both

// The milliseconds since the last lap of this clock. Begins a new lap.
static double lap(double* clock) {
  const double before = *clock;
  *clock = milliseconds();
  return *clock - before;
}
static void wait(long ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

static CUdeviceptr allocate(bool async, size_t bytes) {
  void* block;
  CHECK(async ? cudaMallocAsync(&block, bytes, 0) : cudaMalloc(&block, bytes));
  return reinterpret_cast<CUdeviceptr>(block);
}
static void deallocate(bool async, CUdeviceptr address) {
  void* const block = reinterpret_cast<void*>(address);
  CHECK(async ? cudaFreeAsync(block, 0) : cudaFree(block));
}

struct Parts {
  double create = 0, map = 0, open = 0;  // milliseconds
};

// Maps the chunks from `from` to `to`, and grants access to all of them with one call. A chunk that has a handle in the
// list, from an earlier growth, is mapped again. For any other, memory is created, and its handle joins the list.
static void grow(CUdeviceptr address, size_t from, size_t to, size_t chunk, Handles* handles, Parts* parts) {
  double clock = milliseconds();
  for (size_t at = from; at < to; at += chunk) {
    if (handles->size() == at / chunk) {
      handles->push_back(0);
      CHECK(cuMemCreate(&handles->back(), chunk, &properties, 0));
    }
    parts->create += lap(&clock);
    CHECK(cuMemMap(address + at, chunk, 0, (*handles)[at / chunk], 0));
    parts->map += lap(&clock);
  }
  if (to > from) CHECK(cuMemSetAccess(address + from, to - from, &access, 1));
  parts->open += lap(&clock);
}
static void release(Handles* handles) {
  for (const CUmemGenericAllocationHandle memory : *handles) CHECK(cuMemRelease(memory));
  handles->clear();
}

// Grows by one chunk at a time, fills the memory if asked to, and unmaps it. The handles keep the memory.
static Parts grow_and_unmap(size_t last, size_t chunk, Handles* handles, bool touch) {
  Parts parts;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, last, 0, 0, 0));
  for (size_t at = 0; at < last; at += chunk) grow(address, at, at + chunk, chunk, handles, &parts);
  if (touch) fill(address, 0, last, std::random_device()());
  CHECK(cudaDeviceSynchronize());
  CHECK(cuMemUnmap(address, last));
  CHECK(cuMemAddressFree(address, last));
  return parts;
}

enum Method { FRESH, KEPT, MALLOC, MALLOC_ASYNC };
static const char* const methods[] = {"fresh chunks", "kept chunks", "cudaMalloc", "cudaMallocAsync"};
struct Case {
  Method method;
  bool doubling;
  size_t step, chunk;
};
struct Outcome {
  double ms = 0;    // the sum over the steps
  size_t peak = 0;  // the most memory that was taken
  int moves = 0;    // how often the address changed
};

// Grows from nothing to `last` bytes, and fills each new part before the next step. The device is idle before and after
// each part that is timed.
static Outcome grow_all(const Case& c, size_t last, Handles* kept) {
  const bool copies = c.method == MALLOC || c.method == MALLOC_ASYNC, async = c.method == MALLOC_ASYNC;
  const size_t free_before = free_memory() + (c.method == KEPT && kept ? kept->size() * c.chunk : 0);
  const measure::Word seed = std::random_device()();
  Handles fresh;
  Parts parts;
  Outcome outcome;
  CUdeviceptr data = 0, next = 0;
  size_t size = 0, mapped = 0;
  while (size < last) {
    const size_t wanted = std::min(last, c.doubling && size > 0 ? 2 * size : size + c.step);
    double clock = milliseconds();
    if (copies) {
      next = allocate(async, wanted);
      if (size > 0) CHECK(cuMemcpyAsync(next, data, size, 0));
    } else {
      if (size == 0) CHECK(cuMemAddressReserve(&next, round_up(last, c.chunk), 0, 0, 0));
      const size_t target = std::max(mapped, round_up(wanted, c.chunk));
      grow(next, mapped, target, c.chunk, c.method == KEPT ? kept : &fresh, &parts);
      mapped = target;
    }
    CHECK(cudaDeviceSynchronize());
    outcome.ms += lap(&clock);
    outcome.peak = std::max(outcome.peak, free_before - std::min(free_before, free_memory()));  // with both blocks
    lap(&clock);
    if (copies && size > 0) deallocate(async, data);
    CHECK(cudaDeviceSynchronize());
    outcome.ms += lap(&clock);
    outcome.moves += size > 0 && next != data;
    data = next;
    fill(data, size, wanted, seed);
    CHECK(cudaDeviceSynchronize());
    size = wanted;
  }
  expect_filled(data, size, seed);
  if (copies) {
    deallocate(async, data);
    CHECK(cudaDeviceSynchronize());  // the pool returns its memory to the driver
  } else {
    CHECK(cuMemUnmap(data, mapped));
    CHECK(cuMemAddressFree(data, round_up(last, c.chunk)));
    release(&fresh);
  }
  return outcome;
}

// Runs the cases in turn, in one order and then in reverse, so that a slow moment affects all. Returns the medians.
static std::vector<double> run_in_turn(measure::Report& report, int section, const std::vector<Case>& cases,
                                       size_t last, Handles* kept) {
  std::vector<std::vector<double>> times(cases.size());
  std::vector<Outcome> outcomes(cases.size());
  std::vector<double> medians;
  for (long r = 0; r < repeats; ++r)
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t k = r % 2 ? cases.size() - 1 - i : i;
      wait(quiet_ms);
      outcomes[k] = grow_all(cases[k], last, kept);
      times[k].push_back(outcomes[k].ms);
    }
  for (size_t k = 0; k < cases.size(); ++k) {
    const Case& c = cases[k];
    const char* const by = c.doubling ? "doubling" : "steps";
    medians.push_back(report.add("growth",
                                 {{"section", section},
                                  {"method", methods[c.method]},
                                  {"by", by},
                                  {"final_bytes", last},
                                  {"step_bytes", c.step},
                                  {"chunk_bytes", c.chunk},
                                  {"peak_bytes", outcomes[k].peak}},
                                 times[k], 1000));
    std::printf("    by %-8s  %-15s %4zu MiB  ", by, methods[c.method], c.chunk >> 20);
    std::printf("%.3f ms, fastest %.3f, peak %.2f, moves %d\n", medians[k],
                *std::min_element(times[k].begin(), times[k].end()), double(outcomes[k].peak) / last,
                outcomes[k].moves);
    EXPECT(c.chunk == 0 || outcomes[k].moves == 0, "mapped memory moved %d times", outcomes[k].moves);
  }
  return medians;
}

int main(int argc, char** argv) {
  long final_mib = 32, step_mib = 4, chunk_mib = 0;
  const char* csv = "/dev/null";
  check::arguments(argc, argv, usage,
                   {{"--final-mib", &final_mib, 1, 1 << 20},
                    {"--step-mib", &step_mib, 1, 1 << 20},
                    {"--chunk-mib", &chunk_mib, 1, 1 << 20},
                    {"--repeats", &repeats, 1, 1000},
                    {"--quiet-ms", &quiet_ms, 1, 60000},
                    {"--csv", nullptr, 0, 1, &csv}});
  const int gpus = check::require_gpus(
      1, {check::vmm,
          {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
           "no memory pools for cudaMallocAsync; use bare metal, or a virtual GPU that passes them on"}});
  CHECK(cudaSetDevice(0));

  step("[1] Use everything once");
  // Kernels and the pool of cudaMallocAsync take memory when they are first used: before free memory is counted.
  size_t granule;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  const size_t by = size_t(step_mib) << 20, chunk = round_up(chunk_mib ? size_t(chunk_mib) << 20 : by, granule);
  const size_t last = round_up(size_t(final_mib) << 20, chunk), room = size_t(512) << 20;
  REQUIRE(free_memory() >= 3 * last + room, "less than %zu MiB of GPU memory are free; choose a smaller --final-mib",
          (3 * last + room) >> 20);
  say("a granule is %zu KiB", granule >> 10);
  measure::Report report(csv, "growth_cost", gpus,
                         {{"--final-mib", last >> 20},
                          {"--step-mib", step_mib},
                          {"--chunk-mib", chunk >> 20},
                          {"--repeats", repeats},
                          {"--quiet-ms", quiet_ms}});
  for (Method method : {FRESH, MALLOC, MALLOC_ASYNC}) grow_all({method, true, granule, granule}, 4 * granule, nullptr);
  const size_t free_at_start = free_memory();

  step("[2] Grow by steps and by doubling");
  // Doubling needs fewer copies than equal steps, and takes memory that may never be needed. Peak is in final sizes.
  say("to %zu MiB, by steps of %ld MiB or by doubling from it; median of %ld", last >> 20, step_mib, repeats);
  Handles kept;
  wait(quiet_ms);
  grow_and_unmap(last, chunk, &kept, true);
  std::vector<Case> cases = {{FRESH, false, by, chunk},    {KEPT, false, by, chunk}, {MALLOC, false, by, 0},
                             {MALLOC_ASYNC, false, by, 0}, {FRESH, true, by, chunk}, {MALLOC, true, by, 0},
                             {MALLOC_ASYNC, true, by, 0}};
  const std::vector<double> ways = run_in_turn(report, 2, cases, last, &kept);
  say("against fresh chunks by steps, kept ones take %.2f of the time, cudaMalloc by doubling %.2f", ways[1] / ways[0],
      ways[5] / ways[0]);

  step("[3] Choose the chunk");
  // Each chunk costs three calls, however small it is. With chunks larger than the step, most steps need none.
  say("to %zu MiB, by steps of one granule or by doubling from it", last >> 20);
  cases.clear();
  for (const size_t granules : {1, 8, 32}) cases.push_back({FRESH, false, granule, granules * granule});
  cases.push_back({MALLOC, true, granule, 0});
  run_in_turn(report, 3, cases, last, nullptr);

  step("[4] Take it apart, in quiet and after a release");
  // Create, map and grant access ("open"), chunk by chunk, then map and grant access to the same chunks again. Also
  // cudaMalloc of the same size, and a kernel that reads other memory, as long after the release.
  CUdeviceptr other;
  Parts parts;
  const measure::Word seed = std::random_device()();
  CHECK(cuMemAddressReserve(&other, last, 0, 0, 0));
  grow(other, 0, last, chunk, &kept, &parts);
  fill(other, 0, last, seed);
  static const char* const names[] = {"create", "map", "open", "open again", "cudaMalloc", "read"};
  for (const long waited : {0L, quiet_ms / 20, quiet_ms / 4, quiet_ms}) {
    std::vector<double> times[6];
    for (long r = 0; r < 2 * repeats; ++r) {
      Handles handles;
      wait(quiet_ms);
      grow_and_unmap(last, chunk, &handles, true);
      release(&handles);
      wait(waited);
      if (r % 2) {
        double clock = milliseconds();
        const CUdeviceptr block = allocate(false, last);
        times[4].push_back(lap(&clock));
        deallocate(false, block);
        continue;
      }
      CHECK(cudaDeviceSynchronize());
      double clock = milliseconds();
      expect_filled(other, last / 8, seed);
      times[5].push_back(lap(&clock));
      const Parts first = grow_and_unmap(last, chunk, &handles, false);
      times[0].push_back(first.create);
      times[1].push_back(first.map);
      times[2].push_back(first.open);
      times[3].push_back(grow_and_unmap(last, chunk, &handles, false).open);
      release(&handles);
    }
    std::printf("    filled memory released %ld ms before:", waited);
    for (int k = 0; k < 6; ++k) {
      const double median = report.add("after release",
                                       {{"released", "filled"},
                                        {"waited_ms", waited},
                                        {"part", names[k]},
                                        {"bytes", k == 5 ? last / 8 : last},
                                        {"chunk_bytes", chunk}},
                                       times[k], 1000);
      std::printf(" %s %.3f%s", names[k], median, k == 5 ? " ms\n" : ",");
    }
  }
  CHECK(cuMemUnmap(other, last));
  CHECK(cuMemAddressFree(other, last));
  release(&kept);
  EXPECT(free_memory() == free_at_start, "%zu bytes are free, %zu were at the start (does another program use it?)",
         free_memory(), free_at_start);
  report.complete();
  std::puts("OK");
}
