// SPDX-License-Identifier: MIT-0
//
// 03 Multi-GPU, measured: what does it cost to let other GPUs in, and how fast is memory of another GPU?
//
// Measures cuMemSetAccess against cudaMalloc with peers enabled, and how fast stores, loads and copies move data
// between GPUs. Needs two GPUs or more that support VMM and reach each other; bulk copies need compute capability 9.0.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 peer_cost.cu -o peer_cost -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <cuda/ptx>
#include <random>

using measure::microseconds, measure::Word;

static const char usage[] =
    "usage: peer_cost [--kib N] [--repeats N] [--blocks N] [--threads N] [--csv FILE]\n"
    "  --kib N       size of a transfer in KiB, 1 to 16777216 (default 1024)\n"
    "  --repeats N   times that each thing is measured, for the median, 1 to 1000 (default 3)\n"
    "  --blocks N    blocks of the kernels that move data, 1 to 65535 (default one for each multiprocessor)\n"
    "  --threads N   threads of each such block, where they store or load, 32 to 1024 (default 512)\n"
    "  --csv FILE    write the measurements to this file too, as a table\n"
    "The defaults suit a simulator. On GPUs: --kib 262144 --repeats 20\n";
static long kib = 1024, repeats = 3, blocks = 0, threads = 512;
static const char* csv = "/dev/null";

struct Gpu {
  cudaStream_t stream;
  cudaEvent_t ready, start, stop;
  CUdeviceptr source, sink;  // where the data that it sends is, and where it receives data
};
static std::vector<Gpu> gpus;
static std::mt19937_64 fresh(std::random_device{}());

// Stores over the link if `to` leads to another GPU, loads over it if `from` does. A load over the link takes long, so
// each thread starts four 16-byte loads before it waits for the first.
__global__ void __launch_bounds__(1024) transfer(uint4* to, const uint4* from, size_t n) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += 4 * stride) {
    uint4 part[4];
    for (int k = 0; k < 4; ++k)
      if (i + k * stride < n) part[k] = from[i + k * stride];
    for (int k = 0; k < 4; ++k)
      if (i + k * stride < n) to[i + k * stride] = part[k];
  }
}

// One thread a block is enough for bulk copies: it only starts them, and the hardware moves tile after tile to shared
// memory and on to the other GPU. Half of the slots are filled while the other half is emptied.
static const unsigned tile = 1024, slots = 8, room_bytes = slots * tile * sizeof(uint4);
__global__ void bulk_transfer(uint4* to, const uint4* from, size_t n) {
#if __CUDA_ARCH__ >= 900
  namespace ptx = cuda::ptx;
  extern __shared__ __align__(128) uint4 room[];
  __shared__ uint64_t arrived[slots];
  const auto at = [](unsigned i) { return (size_t(i) * gridDim.x + blockIdx.x) * tile; };  // this block's tile i
  const auto size = [&](unsigned i) { return unsigned(min(n - at(i), size_t(tile)) * sizeof(uint4)); };
  for (unsigned slot = 0; slot < slots; ++slot) ptx::mbarrier_init(&arrived[slot], 1);
  ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  for (unsigned in = 0, out = 0; at(out) < n; ++out) {
    for (; in < out + slots / 2 && at(in) < n; ++in) {
      uint64_t* const bar = &arrived[in % slots];
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, bar, size(in));
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, room + in % slots * tile, from + at(in), size(in), bar);
    }
    while (!ptx::mbarrier_try_wait_parity(&arrived[out % slots], out / slots % 2)) continue;
    ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, to + at(out), room + out % slots * tile, size(out));
    ptx::cp_async_bulk_commit_group();
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<slots / 2 - 1>());  // the slots to be filled next have been read
  }
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
#endif
}

enum Way { STORES, LOADS, BULK, COPIES };
static const char* const names[] = {"kernel stores", "kernel loads", "bulk copies", "copy engine"};

static Word fill_on(int gpu, CUdeviceptr data, size_t bytes) {
  const Word seed = fresh();
  CHECK(cudaSetDevice(gpu));
  measure::fill(data, 0, bytes, seed, gpus[gpu].stream);
  return seed;
}

static void expect_on(int gpu, CUdeviceptr data, size_t bytes, Word seed) {
  CHECK(cudaSetDevice(gpu));
  measure::expect_filled(data, bytes, seed, gpus[gpu].stream);
}

// Each of the first `active` GPUs moves `bytes` to the next GPU (or, with loads, from it), all at the same time. Every
// repeat moves fresh data over other data, and every element is checked. The events of each GPU time its transfer; the
// slowest counts. Returns the median in GB/s (10^9 bytes) for a GPU.
static double bandwidth(measure::Report& report, int active, Way way, size_t bytes, long grid) {
  const int count = int(gpus.size());
  const auto next = [&](int g) { return g + 1 < count ? g + 1 : 0; };
  const auto sender = [&](int g) { return way == LOADS ? next(g) : g; };  // of the data that GPU g moves
  const auto receiver = [&](int g) { return way == LOADS ? g : next(g); };
  std::vector<Word> seeds(count);
  std::vector<double> took;
  for (long repeat = -1; repeat < repeats; ++repeat) {  // the first is not counted
    for (int g = 0; g < count; ++g) {
      fill_on(g, gpus[g].sink, bytes);
      seeds[g] = fill_on(g, gpus[g].source, bytes);
      CHECK(cudaEventRecord(gpus[g].ready, gpus[g].stream));
    }
    CHECK(cudaSetDevice(0));  // GPU 0 waits for all, and all wait for GPU 0: they start together
    for (int g = 1; g < count; ++g) CHECK(cudaStreamWaitEvent(gpus[0].stream, gpus[g].ready, 0));
    CHECK(cudaEventRecord(gpus[0].ready, gpus[0].stream));
    for (int g = 0; g < active; ++g) {
      const Gpu& here = gpus[g];
      uint4* const to = reinterpret_cast<uint4*>(gpus[receiver(g)].sink);
      const uint4* const from = reinterpret_cast<uint4*>(gpus[sender(g)].source);
      CHECK(cudaSetDevice(g));
      CHECK(cudaStreamWaitEvent(here.stream, gpus[0].ready, 0));
      CHECK(cudaEventRecord(here.start, here.stream));
      if (way == COPIES) CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, here.stream));
      else if (way == BULK) bulk_transfer<<<int(grid), 1, room_bytes, here.stream>>>(to, from, bytes / sizeof *to);
      else transfer<<<int(grid), int(threads), 0, here.stream>>>(to, from, bytes / sizeof *to);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(here.stop, here.stream));
    }
    float slowest = 0, milliseconds;
    for (int g = 0; g < active; ++g) {
      CHECK(cudaEventSynchronize(gpus[g].stop));
      CHECK(cudaEventElapsedTime(&milliseconds, gpus[g].start, gpus[g].stop));
      slowest = std::max(slowest, milliseconds);
    }
    if (repeat >= 0) took.push_back(1e3 * slowest);
    for (int g = 0; g < active; ++g) expect_on(receiver(g), gpus[receiver(g)].sink, bytes, seeds[sender(g)]);
  }
  const double us =
      report.add("transfer", {{"way", names[way]}, {"active_gpus", active}, {"blocks", grid}, {"bytes", bytes}}, took);
  return double(bytes) / us / 1e3;
}

static void show_bandwidth(measure::Report& report, int active, size_t bytes) {
  double speed[4] = {};
  for (const Way way : {STORES, LOADS, COPIES}) {
    speed[way] = bandwidth(report, active, way, bytes, way == COPIES ? 0 : blocks);
    say("%s: %.1f GB/s", names[way], speed[way]);
  }
  say("stores against copy engine: %.2f", speed[STORES] / speed[COPIES]);
}

// Memory of this GPU to which all GPUs get access, as in multi_gpu.cu.
static std::vector<CUmemAccessDesc> everyone;
static CUmemAllocationProp properties;
static CUdeviceptr create_for_all(int gpu, size_t bytes) {
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  properties.location.id = gpu;
  CHECK(cuMemCreate(&memory, bytes, &properties, 0));
  CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
  CHECK(cuMemMap(address, bytes, 0, memory, 0));
  CHECK(cuMemRelease(memory));  // the mapping keeps the allocation
  CHECK(cuMemSetAccess(address, bytes, everyone.data(), everyone.size()));
  return address;
}

static void give_back(CUdeviceptr address, size_t bytes) {
  CHECK(cuMemUnmap(address, bytes));
  CHECK(cuMemAddressFree(address, bytes));
}

int main(int argc, char** argv) {
  // Set-up: arguments, the gate, and what each GPU needs for measuring.
  check::arguments(argc, argv, usage,
                   {{"--kib", &kib, 1, 1 << 24},
                    {"--repeats", &repeats, 1, 1000},
                    {"--blocks", &blocks, 1, 65535},
                    {"--threads", &threads, 32, 1024},
                    {"--csv", nullptr, 0, 1, &csv}});
  const int count = check::require_gpus(2);
  int answer;
  for (int from = 0; from < count; ++from)
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      CHECK(cuDeviceCanAccessPeer(&answer, from, to));
      REQUIRE(answer, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", from, to);
    }
  bool bulk = true;
  CHECK(cuDeviceGetAttribute(&answer, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  if (blocks == 0) blocks = answer;
  gpus.resize(count);
  for (int g = 0; g < count; ++g) {
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(g));
    CHECK(cudaFuncGetAttributes(&loaded, transfer));
    CHECK(cudaFuncGetAttributes(&loaded, bulk_transfer));
    CHECK(cuDeviceGetAttribute(&answer, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, g));
    bulk = bulk && answer >= 9 && loaded.ptxVersion >= 90;
    if (bulk) CHECK(cudaFuncSetAttribute(bulk_transfer, cudaFuncAttributeMaxDynamicSharedMemorySize, room_bytes));
    CHECK(cudaStreamCreateWithFlags(&gpus[g].stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&gpus[g].ready, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&gpus[g].start));
    CHECK(cudaEventCreate(&gpus[g].stop));
    expect_on(g, 0, 0, fill_on(g, 0, 0));
  }
  measure::Report report(csv, "peer_cost", count,
                         {{"--kib", kib}, {"--repeats", repeats}, {"--blocks", blocks}, {"--threads", threads}});

  step("[1] Share one allocation");
  // The time of cuMemSetAccess that grants access to one GPU, to two, up to all: while the GPUs share nothing else, and
  // while all share a granule of each. The last GPU writes and checks the front of the memory: it must have access.
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granule = 0, its_own;
  for (int g = 0; g < count; ++g) {
    properties.location.id = g;
    everyone.push_back({properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    CHECK(cuMemGetAllocationGranularity(&its_own, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    granule = std::max(granule, its_own);
  }
  const size_t shared = measure::round_up(size_t(64) << 20, granule), front = 64 << 10;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  properties.location.id = 0;
  CHECK(cuMemCreate(&memory, shared, &properties, 0));
  CHECK(cuMemAddressReserve(&address, shared, 0, 0, 0));
  std::vector<CUdeviceptr> standing;
  for (const bool more : {false, true}) {
    for (int g = 0; more && g < count; ++g) standing.push_back(create_for_all(g, granule));
    say("cuMemSetAccess of %zu MiB on GPU 0, %s, median of %ld", shared >> 20,
        more ? "while more is shared" : "while nothing else is shared", repeats);
    for (int last = 0; last < count; ++last) {
      std::vector<double> took;
      for (long repeat = -1; repeat < repeats; ++repeat) {  // a new mapping each time: no GPU has access to it
        CHECK(cuMemMap(address, shared, 0, memory, 0));
        const double before = microseconds();
        CHECK(cuMemSetAccess(address, shared, everyone.data(), last + 1));
        if (repeat >= 0) took.push_back(microseconds() - before);
        expect_on(last, address, front, fill_on(last, address, front));
        CHECK(cuMemUnmap(address, shared));
      }
      const double median =
          report.add("cuMemSetAccess", {{"bytes", shared}, {"open_to", last + 1}, {"more_is_shared", more}}, took);
      say("open to %d, up to GPU %d: %.1f us", last + 1, last, median);
    }
  }
  for (const CUdeviceptr open : standing) give_back(open, granule);
  CHECK(cuMemAddressFree(address, shared));
  CHECK(cuMemRelease(memory));

  step("[2] Allocate with peers enabled");
  // The time of every cudaMalloc, whether a peer uses the memory or not. Peer access is enabled both ways.
  say("cudaMalloc of %zu MiB on GPU 0, median of %ld", shared >> 20, repeats);
  for (int last = 0; last < count; ++last) {
    if (last > 0) {
      CHECK(cudaSetDevice(last));
      CHECK(cudaDeviceEnablePeerAccess(0, 0));
      CHECK(cudaSetDevice(0));
      CHECK(cudaDeviceEnablePeerAccess(last, 0));
    }
    std::vector<double> took;
    for (long repeat = -1; repeat < repeats; ++repeat) {
      CHECK(cudaSetDevice(0));
      const double before = microseconds();
      CHECK(cudaMalloc(reinterpret_cast<void**>(&address), shared));
      if (repeat >= 0) took.push_back(microseconds() - before);
      expect_on(last, address, front, fill_on(last, address, front));
      CHECK(cudaFree(reinterpret_cast<void*>(address)));
    }
    const double median = report.add("cudaMalloc", {{"bytes", shared}, {"open_to", last + 1}}, took);
    say("peers enabled: %d, up to GPU %d: %.1f us", last, last, median);
  }
  for (int last = count; --last > 0;) {
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceDisablePeerAccess(last));
    CHECK(cudaSetDevice(last));
    CHECK(cudaDeviceDisablePeerAccess(0));
  }

  step("[3] Move data between two GPUs");
  // One allocation on each GPU, to which all have access: a GPU sends from its front and receives in its back. GPU 0
  // moves data to GPU 1, or with loads from GPU 1. The other GPUs move nothing.
  const size_t bytes = size_t(kib) << 10, both = measure::round_up(2 * bytes, granule);
  for (int g = 0; g < count; ++g) {
    gpus[g].source = create_for_all(g, both);
    gpus[g].sink = gpus[g].source + bytes;
  }
  say("%ld KiB, median of %ld; kernels of %ld blocks of %ld threads", kib, repeats, blocks, threads);
  show_bandwidth(report, 1, bytes);

  step("[4] Choose the number of blocks");
  // Blocks occupy multiprocessors. How few blocks fill the link, with stores and with bulk copies?
  for (const long few : {4, 8, 16, 32, 64}) {
    std::printf("    %2ld blocks: stores %.1f GB/s", few, bandwidth(report, 1, STORES, bytes, few));
    if (bulk) std::printf(", bulk copies %.1f GB/s", bandwidth(report, 1, BULK, bytes, few));
    std::printf("\n");
  }

  step("[5] Move data round the ring");
  // All GPUs move data at the same time, each with the next one. The figures are those of the slowest GPU.
  show_bandwidth(report, count, bytes);

  for (int g = count; g-- > 0;) give_back(gpus[g].source, both);
  for (int g = count; g-- > 0;) {
    CHECK(cudaSetDevice(g));
    CHECK(cudaEventDestroy(gpus[g].stop));
    CHECK(cudaEventDestroy(gpus[g].start));
    CHECK(cudaEventDestroy(gpus[g].ready));
    CHECK(cudaStreamDestroy(gpus[g].stream));
  }
  report.complete();
  std::puts("OK");
  return 0;
}
