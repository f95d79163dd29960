// SPDX-License-Identifier: MIT-0
// 07 Compressible: does memory that the GPU may compress make kernels faster?
//
// Compression is a request, and cuMemCreate may make plain memory all the same: only the properties of what it made
// tell. Two kernels are timed with compression requested, without it, and on memory of cudaMalloc.
//
// Build it alone:  nvcc -std=c++17 compressible.cu -o compressible -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

static const char usage[] =
    "usage: compressible [--mib N] [--repeats N] [--equal N] [--copy] [--csv FILE]\n"
    "  --mib N       MiB in each of the three buffers, 2 to 8192 (default 4)\n"
    "  --repeats N   timed runs of each kernel, of which the median counts, 1 to 1000 (default 2)\n"
    "  --equal N     words in a row that are equal in data that compresses: 2, 4, 8 ... 1024 (default 1024)\n"
    "  --copy        write the compressible buffer by a copy, not by a kernel\n"
    "  --csv FILE    write the measurements to this file too, as a table\n"
    "The defaults suit a simulator. On a GPU: --mib 512 --repeats 20\n";

const unsigned blocks = 1024, threads = 256;  // of every launch; 1 MiB is a multiple of what a block does at a time

// The i-th word of the data: random with shift 0; with shift 10 each 1024 words in a row are one random word.
__host__ __device__ unsigned word(unsigned seed, size_t i, int shift) {
  unsigned x = (seed + unsigned(i >> shift)) * 0x9e3779b1u;
  x = (x ^ x >> 15) * 0x85ebca6bu;
  return x ^ x >> 13;
}

__global__ void fill(uint4* data, size_t n, unsigned seed, int shift) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    data[i] = make_uint4(word(seed, 4 * i, shift), word(seed, 4 * i + 1, shift), word(seed, 4 * i + 2, shift),
                         word(seed, 4 * i + 3, shift));
}

// Reads everything, four vectors a thread at a time, so that four loads are on their way; each thread leaves its sum.
__global__ void read_all(const uint4* data, size_t n, unsigned long long* sums) {
  unsigned long long sum = 0;
  for (size_t tile = blockIdx.x; tile < n / (4 * blockDim.x); tile += gridDim.x) {
    uint4 v[4];
    for (int k = 0; k < 4; ++k) v[k] = data[(4 * tile + k) * blockDim.x + threadIdx.x];
    for (int k = 0; k < 4; ++k) sum += 0ull + v[k].x + v[k].y + v[k].z + v[k].w;
  }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Reads and writes everything, four vectors a thread at a time. Equal words stay equal, random ones random.
__global__ void update_all(uint4* data, size_t n) {
  for (size_t tile = blockIdx.x; tile < n / (4 * blockDim.x); tile += gridDim.x) {
    uint4 v[4], *here = data + 4 * tile * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; ++k) v[k] = here[k * blockDim.x];
    for (int k = 0; k < 4; ++k)
      here[k * blockDim.x] = make_uint4(v[k].x * 5 + 1, v[k].y * 5 + 1, v[k].z * 5 + 1, v[k].w * 5 + 1);
  }
}

// The three buffers: nothing requested, compression requested, cudaMalloc. And what a kernel took on each of them.
using Buffers = uint4* [3];
using Times = std::vector<double>[3];

// Times a launch, in microseconds.
template <class Launch> static float microseconds(Launch launch) {
  float ms;
  cudaEvent_t start, stop;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&stop));
  CHECK(cudaEventRecord(start));
  launch();
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(stop));
  CHECK(cudaEventSynchronize(stop));
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  CHECK(cudaEventDestroy(stop));
  CHECK(cudaEventDestroy(start));
  return ms * 1000;
}

// The buffers take turns, so that all see the same clocks. Run 0 warms up and does not count.
static void time_reads(const Buffers& data, size_t n, long repeats, unsigned long long expected, Times& times) {
  std::vector<unsigned long long> on_host(blocks * threads);
  const size_t bytes = on_host.size() * sizeof on_host[0];
  unsigned long long* sums;
  CHECK(cudaMalloc(&sums, bytes));
  for (long run = 0; run <= repeats; ++run)
    for (int kind : {0, 1, 2}) {
      CHECK(cudaMemset(sums, 0xff, bytes));
      const float us = microseconds([&] { read_all<<<blocks, threads>>>(data[kind], n, sums); });
      if (run > 0) times[kind].push_back(us);
      CHECK(cudaMemcpy(on_host.data(), sums, bytes, cudaMemcpyDeviceToHost));
      EXPECT(std::accumulate(on_host.begin(), on_host.end(), 0ull) == expected, "not all was read as written");
    }
  CHECK(cudaFree(sums));
}

static void time_updates(const Buffers& data, size_t n, long repeats, unsigned seed, int shift, Times& times) {
  unsigned factor = 1, plus = 0;  // what the updates make of each word
  for (long run = 0; run <= repeats; ++run) {
    for (int kind : {0, 1, 2}) {
      const float us = microseconds([&] { update_all<<<blocks, threads>>>(data[kind], n); });
      if (run > 0) times[kind].push_back(us);
    }
    factor *= 5;
    plus = plus * 5 + 1;
  }
  std::vector<unsigned> on_host(1 << 18);  // the words of 1 MiB
  for (const uint4* buffer : data)
    for (size_t at = 0; at < 4 * n; at += on_host.size()) {
      CHECK(cudaMemcpy(on_host.data(), buffer + at / 4, on_host.size() * sizeof(unsigned), cudaMemcpyDeviceToHost));
      for (size_t i = 0; i < on_host.size(); ++i)
        EXPECT(on_host[i] == word(seed, at + i, shift) * factor + plus, "word %zu is %u", at + i, on_host[i]);
    }
}

static void tell(measure::Report& report, const char* kernel, const char* what, size_t bytes, bool granted,
                 Times& times) {
  const char* const memory[] = {"plain", granted ? "compressible" : "plain", "cudaMalloc"};
  double median[3] = {};
  for (int kind : {0, 1, 2}) {
    median[kind] = report.add(
        "kernel", {{"kernel", kernel}, {"data", what}, {"memory", memory[kind]}, {"bytes", bytes}}, times[kind]);
  }
  say("  %s: plain %.1f us, compression requested %.1f us: %.2f times as fast; cudaMalloc %.1f us", kernel, median[0],
      median[1], median[0] / median[1], median[2]);
}

int main(int argc, char** argv) {
  long mib = 4, repeats = 2, equal = 1024, by_copy = 0;
  const char* csv = "/dev/null";
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 2, 8192},
                    {"--repeats", &repeats, 1, 1000},
                    {"--equal", &equal, 2, 1024},
                    {"--copy", &by_copy, 0, 0},
                    {"--csv", nullptr, 0, 1, &csv}});
  const int gpus = check::require_gpus(1, {check::vmm,
                                           {CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
                                            "no compressible memory; use a GPU with compute data compression"}});
  measure::Report report(csv, "compressible", gpus,
                         {{"--mib", mib}, {"--repeats", repeats}, {"--equal", equal}, {"--copy", by_copy > 0}});
  CHECK(cudaSetDevice(0));

  step("[1] Request compression");
  CUmemAllocationProp properties = {}, granted = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const size_t bytes = size_t(mib) << 20;
  CUdeviceptr address[2];
  size_t size[2], granule;
  bool compressible = false;
  for (int requested : {0, 1}) {
    if (requested) properties.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
    CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size[requested] = measure::round_up(bytes, granule);

    const size_t free_before = measure::free_memory();
    CUmemGenericAllocationHandle memory;
    CHECK(cuMemCreate(&memory, size[requested], &properties, 0));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&granted, memory));
    compressible = granted.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC;
    say("%s: %s memory; %zu MiB taken", requested ? "compression requested" : "nothing requested",
        compressible ? "compressible" : "plain", (free_before - measure::free_memory()) >> 20);

    CHECK(cuMemAddressReserve(&address[requested], size[requested], 0, 0, 0));
    CHECK(cuMemMap(address[requested], size[requested], 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping keeps the memory
    CHECK(cuMemSetAccess(address[requested], size[requested], &access, 1));
  }

  step("[2] Time two kernels");
  // The data is new and random each time, and never zero: zeros would flatter every figure.
  Buffers data = {reinterpret_cast<uint4*>(address[0]), reinterpret_cast<uint4*>(address[1])};
  CHECK(cudaMalloc(&data[2], bytes));
  const size_t n = bytes / sizeof(uint4);
  int l2 = 0;
  CHECK(cuDeviceGetAttribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0));
  say("%ld MiB (L2 cache: %d MiB) written by a %s; 16 bytes an access; median of %ld runs", mib, l2 >> 20,
      by_copy ? "copy" : "kernel", repeats);
  for (int shift : {int(std::log2(equal)), 0}) {
    char dull[40];
    std::snprintf(dull, sizeof dull, shift == 10 ? "one random word in each 4 KiB" : "one random word in each %d bytes",
                  4 << shift);
    const char* const what = shift ? dull : "random words";
    const unsigned seed = std::random_device{}();
    for (int kind : {0, 2}) fill<<<blocks, threads>>>(data[kind], n, seed, shift);
    if (by_copy) CHECK(cudaMemcpy(data[1], data[0], bytes, cudaMemcpyDeviceToDevice));
    else fill<<<blocks, threads>>>(data[1], n, seed, shift);
    CHECK(cudaGetLastError());
    unsigned long long sum = 0;
    for (size_t i = 0; i < 4 * n; i += size_t(1) << shift) sum += (0ull + word(seed, i, shift)) << shift;
    Times reads, updates;
    time_reads(data, n, repeats, sum, reads);
    time_updates(data, n, repeats, seed, shift, updates);
    say("%s", what);
    tell(report, "read", what, bytes, compressible, reads);
    tell(report, "update", what, bytes, compressible, updates);
  }

  CHECK(cudaFree(data[2]));
  for (int requested : {1, 0}) {
    CHECK(cuMemUnmap(address[requested], size[requested]));
    CHECK(cuMemAddressFree(address[requested], size[requested]));
  }
  report.complete();
  std::puts("OK");
  return 0;
}
