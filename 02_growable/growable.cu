// SPDX-License-Identifier: MIT-0
//
// 02 Growable: how does a buffer on the GPU grow without moving?
//
// The usual way is a larger block, a copy, and the old block freed: the address changes, and for a while the data is
// there twice. Here addresses are reserved once, and memory is mapped behind them as it is needed. Needs one GPU that
// supports VMM, and that nobody else uses meanwhile: for a moment the lesson takes nearly all of its memory.
//
// Build it alone:  nvcc -std=c++17 growable.cu -o growable -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <random>
#include <vector>

static const char usage[] =
    "usage: growable [--final-mib N] [--step-mib N] [--chunk-mib N] [--repeats N] [--full]\n"
    "                [--json FILE]\n"
    "  --final-mib N   measure growing to this size, 1 to 1048576 (default 512)\n"
    "  --step-mib N    by steps of this size, and by doubling from it, 1 to 1048576 (default 64)\n"
    "  --chunk-mib N   in chunks of this size, rounded up to the granularity, 1 to 1048576 (default: the step)\n"
    "  --repeats N     repeats of a measurement, 1 to 1000 (default 9)\n"
    "  --full          also grow to nearly all free memory of the GPU\n"
    "  --json FILE     write the measurements to this file too, one JSON object a line\n";

static CUmemAllocationProp memory;  // what every chunk is made of
static CUmemAccessDesc access;      // and who may use it: both are set in [1]

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// A buffer that grows in place. These four numbers are all there is to keep: the mappings hold the memory.
struct GrowableBuffer {
  CUdeviceptr base = 0;  // where the reservation starts; it never moves
  size_t reserved = 0;   // bytes of addresses
  size_t size = 0;       // bytes of memory mapped from base on, always whole chunks
  size_t chunk = 0;      // bytes of one allocation, a multiple of the granularity

  CUresult reserve(size_t most, size_t chunk_size) {
    const CUresult result = cuMemAddressReserve(&base, round_up(most, chunk_size), 0, 0, 0);
    if (result != CUDA_SUCCESS) return result;
    reserved = round_up(most, chunk_size);
    chunk = chunk_size;
    return result;
  }

  // Grows to at least `wanted` bytes, or not at all: when a call fails, what was done before it is undone.
  CUresult grow(size_t wanted) {
    if (wanted <= size) return CUDA_SUCCESS;
    if (wanted > reserved) return CUDA_ERROR_INVALID_VALUE;
    const size_t target = round_up(wanted, chunk);
    size_t mapped = size;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && mapped < target) {
      CUmemGenericAllocationHandle handle;
      result = cuMemCreate(&handle, chunk, &memory, 0);
      if (result != CUDA_SUCCESS) break;
      result = cuMemMap(base + mapped, chunk, 0, handle, 0);
      if (result == CUDA_SUCCESS) mapped += chunk;
      const CUresult released = cuMemRelease(handle);  // a mapped chunk lives on, one that was not mapped is gone
      if (result == CUDA_SUCCESS) result = released;
    }
    if (result == CUDA_SUCCESS) result = cuMemSetAccess(base + size, target - size, &access, 1);  // one call for all
    if (result == CUDA_SUCCESS) size = target;
    else if (mapped > size) cuMemUnmap(base + size, mapped - size);  // the caller hears of the first error
    return result;
  }

  // Gives the whole chunks beyond `wanted` bytes back. No kernel may be using them any more.
  CUresult shrink(size_t wanted) {
    const size_t target = wanted < size ? round_up(wanted, chunk) : size;
    const CUresult result = target < size ? cuMemUnmap(base + target, size - target) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) size = target;
    return result;
  }

  CUresult destroy() {
    CUresult result = shrink(0);
    if (result == CUDA_SUCCESS && reserved) result = cuMemAddressFree(base, reserved);
    if (result == CUDA_SUCCESS) *this = GrowableBuffer();
    return result;
  }
};

using Word = unsigned long long;
struct Reader {
  const Word* data;
};
__device__ Reader reader;  // a structure in memory of its own, which will keep an address in the buffer
__device__ Word right;     // how many words a check found right

// The value that belongs at place i: another one at every place and for every seed, so nothing old or moved can pass.
__device__ Word value(size_t i, Word seed) {
  const Word x = (i ^ seed) * 0x9e3779b97f4a7c15;
  return x ^ x >> 32;
}

__global__ void keep(const Word* data) { reader.data = data; }

__global__ void fill(Word* data, size_t first, size_t last, Word seed) {
  size_t stride = size_t(gridDim.x) * blockDim.x, start = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  for (size_t i = first + start; i < last; i += stride) data[i] = value(i, seed);
}

__global__ void count(const Word* data, size_t n, Word seed) {  // null: through the address that the reader keeps
  size_t stride = size_t(gridDim.x) * blockDim.x, start = size_t(blockIdx.x) * blockDim.x + threadIdx.x;
  Word mine = 0;
  if (!data) data = reader.data;
  for (size_t i = start; i < n; i += stride) mine += data[i] == value(i, seed);
  atomicAdd(&right, mine);
}

// Every one of the n words must hold its value. It counts the right ones: a kernel that never ran must not pass.
static void expect_values(const Word* data, size_t n, Word seed) {
  Word found = 0;
  CHECK(cudaMemcpyToSymbol(right, &found, sizeof found));
  count<<<1024, 256>>>(data, n, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, right, sizeof found));
  EXPECT(found == n, "%llu of %zu words hold their value", found, n);
}

enum Method { BUFFER, BARE_CALLS, MALLOC, MALLOC_ASYNC };
struct Case {
  const char* what;
  Method method;
  bool doubling;
  size_t step, chunk;
};
struct Outcome {
  double ms;
  size_t peak;
  int moves;
};

// Grows from nothing to `last` bytes and fills each new part before the next step. Only the steps are timed. With
// `sample` memory is looked at too, at the worst moment of each step; such a pass is slower and its time not used.
static Outcome grow_all(const Case& c, size_t last, bool sample) {
  GrowableBuffer buffer;
  CUdeviceptr base = 0;
  size_t size = 0, mapped = 0, free_before, free_now, total;
  Word *data = nullptr, *next = nullptr, seed = std::random_device()();
  Outcome outcome = {};
  CHECK(cuMemGetInfo(&free_before, &total));
  auto look = [&] {
    if (sample) CHECK(cuMemGetInfo(&free_now, &total));
    if (sample && free_now < free_before) outcome.peak = std::max(outcome.peak, free_before - free_now);
  };
  while (size < last) {
    const size_t wanted = std::min(last, c.doubling && size ? 2 * size : size + c.step);
    CHECK(cudaDeviceSynchronize());
    const auto start = std::chrono::steady_clock::now();
    if (c.method == BUFFER) {
      if (!size) CHECK(buffer.reserve(last, c.chunk));
      CHECK(buffer.grow(wanted));
      next = reinterpret_cast<Word*>(buffer.base);
    } else if (c.method == BARE_CALLS) {
      const size_t from = mapped;
      if (!size) CHECK(cuMemAddressReserve(&base, round_up(last, c.chunk), 0, 0, 0));
      for (; mapped < wanted; mapped += c.chunk) {
        CUmemGenericAllocationHandle handle;
        CHECK(cuMemCreate(&handle, c.chunk, &memory, 0));
        CHECK(cuMemMap(base + mapped, c.chunk, 0, handle, 0));
        CHECK(cuMemRelease(handle));
      }
      if (mapped > from) CHECK(cuMemSetAccess(base + from, mapped - from, &access, 1));
      next = reinterpret_cast<Word*>(base);
    } else {
      CHECK(c.method == MALLOC ? cudaMalloc(&next, wanted) : cudaMallocAsync(&next, wanted, 0));
      if (size) CHECK(cudaMemcpyAsync(next, data, size, cudaMemcpyDeviceToDevice, 0));
      look();  // while the old block and the new one are both there
      if (size) CHECK(c.method == MALLOC ? cudaFree(data) : cudaFreeAsync(data, 0));
    }
    CHECK(cudaDeviceSynchronize());
    outcome.ms += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    look();
    outcome.moves += size && next != data;
    data = next;
    // Random data in the new part, so that no copy moves zeros or memory that was never touched.
    fill<<<1024, 256>>>(data, size / sizeof(Word), wanted / sizeof(Word), seed);
    CHECK(cudaGetLastError());
    size = wanted;
  }
  expect_values(data, size / sizeof(Word), seed);
  if (c.method == BUFFER) CHECK(buffer.destroy());
  if (c.method == BARE_CALLS) CHECK(cuMemUnmap(base, mapped));
  if (c.method == BARE_CALLS) CHECK(cuMemAddressFree(base, round_up(last, c.chunk)));
  if (c.method >= MALLOC) CHECK(c.method == MALLOC ? cudaFree(data) : cudaFreeAsync(data, 0));
  cudaMemPool_t pool;  // where cudaMallocAsync takes from and cudaFreeAsync gives to: here it hands all of it on
  CHECK(cudaDeviceGetDefaultMemPool(&pool, memory.location.id));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemPoolTrimTo(pool, 0));
  return outcome;
}

// With --json: a line of conditions, a line for each measurement, and a last one that says that the run is complete.
static const char* json_path = "/dev/null";
static FILE* json;

static void open_json(int gpus, long final_mib, long step_mib, size_t chunk, long repeats) {
  char device[256], date[16], driver[64] = "unknown";
  const time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%F", std::gmtime(&now));
  CHECK(cuDeviceGetName(device, sizeof device, memory.location.id));
  FILE* const version = std::fopen("/sys/module/nvidia/version", "r");
  if (version && std::fscanf(version, "%63s", driver) != 1) std::strcpy(driver, "unknown");
  if (version) std::fclose(version);
  json = std::fopen(json_path, "w");
  if (!json) std::fprintf(stderr, "growable: cannot write %s: %s\n", json_path, std::strerror(errno)), std::exit(2);
  std::fprintf(json, R"({"program": "growable", "arguments": "--final-mib %ld --step-mib %ld )", final_mib, step_mib);
  std::fprintf(json, R"(--chunk-mib %zu --repeats %ld", "device": "%s", "gpus": %d, "driver": "%s", )", chunk >> 20,
               repeats, device, gpus, driver);
  std::fprintf(json,
               R"("cuda": "%d.%d", "date": "%s"})"
               "\n",
               CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10, date);
}

// Runs the cases in turn, to and fro, so that a slow moment of the machine meets all. Prints median and fastest time,
// and returns the fastest: memory that was freed a moment ago can make a step wait, which is no matter of the method.
static std::vector<double> measure(int section, const std::vector<Case>& cases, size_t last, long repeats) {
  std::vector<std::vector<double>> times(cases.size());
  std::vector<double> fastest;
  std::vector<Outcome> samples;
  for (const Case& c : cases) samples.push_back(grow_all(c, last, true));
  for (long r = 0; r < repeats; ++r)
    for (size_t i = 0; i < cases.size(); ++i) {
      const size_t k = r % 2 ? cases.size() - 1 - i : i;
      times[k].push_back(grow_all(cases[k], last, false).ms);
    }
  for (size_t k = 0; k < cases.size(); ++k) {
    std::sort(times[k].begin(), times[k].end());
    fastest.push_back(times[k][0]);
    std::printf("    %-38s median of %ld: %.3f ms, fastest %.3f, peak %.2f, moves %d\n", cases[k].what, repeats,
                times[k][repeats / 2], fastest[k], double(samples[k].peak) / last, samples[k].moves);
    EXPECT(cases[k].method >= MALLOC || samples[k].moves == 0, "the buffer moved %d times", samples[k].moves);
    static const char* const methods[] = {"buffer", "bare calls", "cudaMalloc", "cudaMallocAsync"};
    std::fprintf(json, R"({"what": "growth", "section": %d, "method": "%s", "by": "%s", )", section,
                 methods[cases[k].method], cases[k].doubling ? "doubling" : "steps");
    std::fprintf(json, R"("final_bytes": %zu, "step_bytes": %zu, "chunk_bytes": %zu, "peak_bytes": %zu, "moves": %d, )",
                 last, cases[k].step, cases[k].chunk, samples[k].peak, samples[k].moves);
    std::fprintf(json, R"("repeats": %ld, "median_ms": %.4f, "ms": [)", repeats, times[k][repeats / 2]);
    for (long r = 0; r < repeats; ++r) std::fprintf(json, "%s%.4f", r ? ", " : "", times[k][r]);
    std::fputs("]}\n", json);
  }
  return fastest;
}

int main(int argc, char** argv) {
  long final_mib = 512, step_mib = 64, chunk_mib = 0, repeats = 9, full = 0;
  const long most = 1 << 20;
  check::arguments(argc, argv, usage,
                   {{"--final-mib", &final_mib, 1, most},
                    {"--step-mib", &step_mib, 1, most},
                    {"--chunk-mib", &chunk_mib, 1, most},
                    {"--repeats", &repeats, 1, 1000},
                    {"--full", &full, 0, 0},
                    {"--json", nullptr, 0, 1, &json_path}});
  const int gpus = check::require_gpus(1);

  // [1] Ask the device for support
  // Every chunk will be of the same kind: pinned on the GPU, readable and writable by it, in whole granules.
  std::printf("[1] Ask the device for support\n");
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  int supported = 0, pools = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  CHECK(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device));
  REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  REQUIRE(pools, "no memory pools for cudaMallocAsync; use bare metal, or a virtual GPU that passes them on");
  CHECK(cudaSetDevice(device));
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = device;
  access.location = memory.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  size_t granularity, free_at_start, free_before, free_now, total;
  CHECK(cuMemGetAllocationGranularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  CHECK(cuMemGetInfo(&free_now, &total));
  const size_t last = size_t(final_mib) << 20, step = size_t(step_mib) << 20, room = size_t(256) << 20;
  const size_t chunk = round_up(chunk_mib ? size_t(chunk_mib) << 20 : step, granularity);
  REQUIRE(free_now >= 2 * last + 2 * room,
          "%zu MiB of GPU memory are free, copying needs twice --final-mib and "
          "512 MiB; free some, or choose a smaller --final-mib",
          free_now >> 20);
  std::printf("    supported; a granule is %zu KiB\n", granularity >> 10);
  open_json(gpus, final_mib, step_mib, chunk, repeats);

  // Kernels, and the pool of cudaMallocAsync, take memory when they are first used: use them before counting.
  for (Method method : {BUFFER, BARE_CALLS, MALLOC, MALLOC_ASYNC})
    grow_all({"first use", method, true, granularity, granularity}, 4 * granularity, false);
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, keep));
  CHECK(cuMemGetInfo(&free_at_start, &total));

  // [2] Reserve far more than the data
  // Addresses are plentiful and take no memory. A reservation cannot be made larger later: choose it generously.
  std::printf("[2] Reserve far more than the data\n");
  GrowableBuffer buffer;
  CHECK(buffer.reserve(size_t(1) << 30, granularity));
  CHECK(cuMemGetInfo(&free_now, &total));
  std::printf("    1 GiB from 0x%llx, memory taken: %zu KiB\n", buffer.base, (free_at_start - free_now) >> 10);

  // [3] Grow in place
  // The reader, elsewhere on the device, is told the address once. Nobody has to find and mend it after growth.
  std::printf("[3] Grow in place\n");
  CHECK(buffer.grow(4 * granularity));
  const CUdeviceptr base = buffer.base;
  Word* const data = reinterpret_cast<Word*>(base);
  const Word seed = std::random_device()();
  const size_t few = buffer.size / sizeof(Word), many = 4 * few;
  fill<<<1024, 256>>>(data, 0, few, seed);
  keep<<<1, 1>>>(data);
  CHECK(cudaGetLastError());
  std::printf("    4 granules, filled; a structure on the device keeps their address\n");
  CHECK(buffer.grow(16 * granularity));
  EXPECT(buffer.base == base && buffer.size == many * sizeof(Word), "the buffer is not what it should have become");
  expect_values(nullptr, few, seed);
  fill<<<1024, 256>>>(data, few, many, seed);
  CHECK(cudaGetLastError());
  expect_values(nullptr, many, seed);
  CHECK(cuMemGetInfo(&free_before, &total));
  std::printf("    16 granules at the same address; through the kept one every word is right, old and new\n");
  std::printf("    %zu KiB of data, memory taken: %zu KiB\n", buffer.size >> 10, (free_at_start - free_before) >> 10);

  // [4] Shrink
  // Chunks go back from the end. What stays has not moved either.
  std::printf("[4] Shrink\n");
  CHECK(buffer.shrink(4 * granularity));
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now >= free_before + 12 * granularity, "%zu bytes are free, %zu were before", free_now, free_before);
  expect_values(nullptr, few, seed);
  std::printf("    back to 4 granules: %zu KiB given back, the rest untouched\n", (free_now - free_before) >> 10);

  // [5] Fail to grow
  // Real memory runs out here. One allocation without an address takes all but a little; then the buffer asks for more
  // than that little: the first chunks are created and mapped, a later one is refused, and the first ones go back.
  std::printf("[5] Fail to grow\n");
  std::printf("    beyond the reservation\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(buffer.reserved + 1));
  CUmemGenericAllocationHandle rest;
  CHECK(cuMemCreate(&rest, (free_now - room) / granularity * granularity, &memory, 0));
  CHECK(cuMemGetInfo(&free_before, &total));
  std::printf("    beyond the memory, with %zu MiB left\n", free_before >> 20);
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(buffer.size + free_before + granularity));
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_before, "%zu bytes are free, %zu were before the attempt", free_now, free_before);
  EXPECT(buffer.base == base && buffer.size == few * sizeof(Word), "the buffer is not as it was before the attempt");
  expect_values(nullptr, few, seed);
  std::printf("    size, data and free memory are as before\n");
  CHECK(buffer.grow(buffer.size + free_before / 2));
  CHECK(buffer.shrink(4 * granularity));
  CHECK(cuMemRelease(rest));
  std::printf("    half of that much can be had: the refusal came half-way\n");

  // [6] Measure it against copying
  // The copying ways are best off when they double: fewer copies, for memory that may never be needed. Peak is in units
  // of the final size. A move is a step that makes the old address useless.
  std::printf("[6] Measure it against copying\n");
  std::printf("    to %ld MiB, by steps of %ld MiB or by doubling from it, chunks of %zu MiB\n", final_mib, step_mib,
              chunk >> 20);
  const std::vector<double> vmm = measure(6,
                                          {{"by steps, bare driver calls", BARE_CALLS, false, step, chunk},
                                           {"by steps, this buffer", BUFFER, false, step, chunk}},
                                          last, 5 * repeats);  // they differ little, and are short
  const std::vector<double> others = measure(6,
                                             {{"by steps, cudaMalloc and copy", MALLOC, false, step, 0},
                                              {"by steps, cudaMallocAsync and copy", MALLOC_ASYNC, false, step, 0},
                                              {"by doubling, this buffer", BUFFER, true, step, chunk},
                                              {"by doubling, cudaMalloc and copy", MALLOC, true, step, 0},
                                              {"by doubling, cudaMallocAsync and copy", MALLOC_ASYNC, true, step, 0}},
                                             last, repeats);
  std::printf(
      "    fastest against fastest, the buffer by steps takes %.2f times as long as the bare calls,\n"
      "    and cudaMalloc and copy by doubling %.2f times as long as the buffer by steps\n",
      vmm[1] / vmm[0], others[3] / vmm[1]);

  // [7] Choose the chunk
  // Each chunk costs its calls, however small it is. With chunks larger than the step most steps find memory there.
  std::printf("[7] Choose the chunk\n");
  std::printf("    to %ld MiB, by steps of one granule or by doubling from it\n", final_mib);
  measure(7,
          {{"by steps, chunks of 1 granule", BUFFER, false, granularity, granularity},
           {"by steps, chunks of 8 granules", BUFFER, false, granularity, 8 * granularity},
           {"by steps, chunks of 32 granules", BUFFER, false, granularity, 32 * granularity},
           {"by doubling, cudaMalloc and copy", MALLOC, true, granularity, 0}},
          last, repeats);

  // [8] Grow to nearly all memory
  // Copying ends where the old block and a larger one no longer fit side by side: at half of the memory.
  std::printf("[8] Grow to nearly all memory\n");
  if (!full) std::printf("    not asked for: --full does it\n");
  if (full) {
    GrowableBuffer large;
    CHECK(cuMemGetInfo(&free_before, &total));
    CHECK(large.reserve(free_before, room));
    while (large.size + 2 * room <= free_before) CHECK(large.grow(large.size + room));
    Word* const all = reinterpret_cast<Word*>(large.base);
    fill<<<1024, 256>>>(all, 0, large.size / sizeof(Word), seed);
    CHECK(cudaGetLastError());
    expect_values(all, large.size / sizeof(Word), seed);
    std::printf("    %zu of %zu free MiB, by steps of %zu MiB, every word written and checked\n", large.size >> 20,
                free_before >> 20, room >> 20);
    CHECK(large.shrink(free_before / 2));
    std::printf("    back to half, %zu MiB: to grow by copying from here\n", large.size >> 20);
    void* copy;
    REFUSED(cudaErrorMemoryAllocation, cudaMalloc(&copy, large.size + room));
    cudaGetLastError();  // the runtime keeps that error for the next who asks: take it
    expect_values(all, large.size / sizeof(Word), seed);
    CHECK(large.destroy());
  }

  // [9] Tear down
  // Unmapping gives the memory back, the handles are long released, and the addresses go last.
  std::printf("[9] Tear down\n");
  CHECK(buffer.destroy());
  CHECK(cuMemGetInfo(&free_now, &total));
  EXPECT(free_now == free_at_start, "%zu bytes are free, %zu were at the start (does another program use this GPU?)",
         free_now, free_at_start);
  std::printf("    free memory is what it was at the start\n");
  std::fputs(R"({"what": "complete"})"
             "\n",
             json);
  EXPECT(!std::ferror(json) && !std::fclose(json), "%s could not be written", json_path);
  std::printf("OK\n");
  return 0;
}
