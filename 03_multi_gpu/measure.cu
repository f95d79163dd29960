// SPDX-License-Identifier: MIT-0
//
// 03 Multi-GPU, measured: what does it cost to open memory to other GPUs, and how fast is it then?
//
// Once peers are enabled, every cudaMalloc pays for every peer. cuMemSetAccess is paid for the one allocation that is
// shared. And a pointer into another GPU's memory serves stores, loads and copies: here is how fast each of them is.
// Needs two GPUs or more, each with virtual memory management, that all reach each other.
//
// Build it alone:  nvcc -std=c++17 measure.cu -o measure -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <random>
#include <vector>

static const char usage[] =
    "usage: measure [--mib N] [--kib N] [--repeats N] [--blocks N] [--threads N] [--json FILE]\n"
    "  --mib N       size of a transfer in MiB, 1 to 16384 (default 256)\n"
    "  --kib N       or in KiB, 1 to 16777216\n"
    "  --repeats N   times that each thing is measured, for the median, 1 to 1000 (default 20)\n"
    "  --blocks N    blocks of the kernels that move data, 1 to 65535 (default one for each multiprocessor)\n"
    "  --threads N   threads of each such block, 32 to 1024 (default 512)\n"
    "  --json FILE   write the measurements to this file too, one JSON object a line\n";
static long mib = 256, kib = 0, repeats = 20, blocks = 0, threads = 512;

struct Gpu {
  cudaStream_t stream;
  cudaEvent_t ready, start, stop;
  unsigned long long* right;  // on the GPU: how many elements were as expected
  CUdeviceptr source, sink;   // what it sends, and where it receives
  size_t free_at_start;
};
static std::vector<Gpu> gpus;
static std::mt19937_64 fresh(std::random_device{}());

// What element i holds under this seed: looks random, and every GPU can work it out.
__device__ inline unsigned value(unsigned long long seed, size_t i) {
  unsigned long long x = (seed ^ i) * 0x9e3779b97f4a7c15ull;
  return unsigned((x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull >> 32);
}

__global__ void write_values(unsigned* data, size_t n, unsigned long long seed) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) data[i] = value(seed, i);
}

__global__ void count_right(const unsigned* data, size_t n, unsigned long long seed, unsigned long long* right) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) mine += data[i] == value(seed, i);
  atomicAdd(right, mine);
}

// The same kernel stores or loads over the link: it depends on which of its pointers leads to another GPU. The way is
// long, so each thread has four 16-byte loads under way before it waits for the first of them.
__global__ void __launch_bounds__(1024) transfer(uint4* to, const uint4* from, size_t n) {
  const size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += 4 * stride) {
    uint4 part[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k * stride < n) part[k] = from[i + k * stride];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (i + k * stride < n) to[i + k * stride] = part[k];
  }
}

static unsigned long long write_on(int gpu, CUdeviceptr data, size_t bytes, unsigned long long seed) {
  CHECK(cudaSetDevice(gpu));
  write_values<<<1024, 256, 0, gpus[gpu].stream>>>(reinterpret_cast<unsigned*>(data), bytes / sizeof(unsigned), seed);
  CHECK(cudaGetLastError());
  return seed;
}

// Every element must be what the seed says, as a kernel on `gpu` sees it. Returns when that is known.
static void check_on(int gpu, CUdeviceptr data, size_t bytes, unsigned long long seed) {
  Gpu& g = gpus[gpu];
  unsigned long long right = 0;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMemcpyAsync(g.right, &right, sizeof right, cudaMemcpyHostToDevice, g.stream));
  count_right<<<1024, 256, 0, g.stream>>>(reinterpret_cast<unsigned*>(data), bytes / sizeof(unsigned), seed, g.right);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(&right, g.right, sizeof right, cudaMemcpyDeviceToHost, g.stream));
  CHECK(cudaStreamSynchronize(g.stream));
  EXPECT(right == bytes / sizeof(unsigned), "only %llu of %zu elements on GPU %d are right", right,
         bytes / sizeof(unsigned), gpu);
}

// Each of the first `active` GPUs moves `bytes` to the next GPU (or, with loads, from it), all at once. Every repeat
// moves fresh data into memory that held other values, and all of it is checked. A GPU's own events time its transfer;
// the slowest counts. Returns the median in GB/s (10^9 bytes) a GPU.
enum Way { stores, loads, copies };
static double bandwidth(int active, Way way, size_t bytes) {
  const int count = int(gpus.size());
  std::vector<unsigned long long> seeds(count);
  std::vector<double> took;
  for (long repeat = -1; repeat < repeats; ++repeat) {  // the first is not counted
    for (int g = 0; g < count; ++g) {
      seeds[g] = write_on(g, gpus[g].source, bytes, fresh());
      write_on(g, gpus[g].sink, bytes, fresh());
      CHECK(cudaEventRecord(gpus[g].ready, gpus[g].stream));
    }
    CHECK(cudaSetDevice(0));  // GPU 0 waits for all, and all wait for GPU 0: they start together
    for (int g = 1; g < count; ++g) CHECK(cudaStreamWaitEvent(gpus[0].stream, gpus[g].ready, 0));
    CHECK(cudaEventRecord(gpus[0].ready, gpus[0].stream));
    for (int g = 0; g < active; ++g) {
      const Gpu &here = gpus[g], &next = gpus[g + 1 < count ? g + 1 : 0];
      uint4* const to = reinterpret_cast<uint4*>(way == loads ? here.sink : next.sink);
      const uint4* const from = reinterpret_cast<uint4*>(way == loads ? next.source : here.source);
      CHECK(cudaSetDevice(g));
      CHECK(cudaStreamWaitEvent(here.stream, gpus[0].ready, 0));
      CHECK(cudaEventRecord(here.start, here.stream));
      if (way == copies) {
        CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, here.stream));
      } else {
        transfer<<<int(blocks), int(threads), 0, here.stream>>>(to, from, bytes / sizeof(uint4));
        CHECK(cudaGetLastError());
      }
      CHECK(cudaEventRecord(here.stop, here.stream));
    }
    float slowest = 0, milliseconds;
    for (int g = 0; g < active; ++g) {
      CHECK(cudaEventSynchronize(gpus[g].stop));
      CHECK(cudaEventElapsedTime(&milliseconds, gpus[g].start, gpus[g].stop));
      slowest = std::max(slowest, milliseconds);
    }
    if (repeat >= 0) took.push_back(1e3 * slowest);
    for (int g = 0; g < active; ++g) {
      const int next = g + 1 < count ? g + 1 : 0, receiver = way == loads ? g : next;
      check_on(receiver, gpus[receiver].sink, bytes, seeds[way == loads ? next : g]);
    }
  }
  static const char* const names[] = {"kernel stores", "kernel loads", "copy engine"};
  std::fprintf(measure::json, R"({"what": "transfer", "way": "%s", "active_gpus": %d, "bytes": %zu, )", names[way],
               active, bytes);
  return double(bytes) / measure::write_times(took) / 1e3;
}

static void show_bandwidth(int active, size_t bytes) {
  static const char* const names[] = {"kernel stores", "kernel loads", "copy engine"};
  double figures[3] = {};
  for (Way way : {stores, loads, copies})
    std::printf("    %s: %.1f GB/s\n", names[way], figures[way] = bandwidth(active, way, bytes));
  std::printf("    stores against copy engine: %.2f\n", figures[stores] / figures[copies]);
}

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 1, 16384},
                    {"--kib", &kib, 1, 1 << 24},
                    {"--repeats", &repeats, 1, 1000},
                    {"--blocks", &blocks, 1, 65535},
                    {"--threads", &threads, 32, 1024},
                    {"--json", nullptr, 0, 1, &measure::json_path}});
  const int count = check::require_gpus(2);

  // [1] Ask whether the GPUs reach each other
  // As in multi_gpu.cu. What each GPU needs for measuring is made here, so that it is not counted below.
  std::printf("[1] Ask whether the GPUs reach each other\n");
  int answer;
  for (int from = 0; from < count; ++from) {
    CHECK(cuDeviceGetAttribute(&answer, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, from));
    REQUIRE(answer, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU with it", from);
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      CHECK(cuDeviceCanAccessPeer(&answer, from, to));
      REQUIRE(answer,
              "GPU %d cannot reach the memory of GPU %d; choose GPUs that can with CUDA_VISIBLE_DEVICES "
              "(nvidia-smi topo -p2p r lists them)",
              from, to);
    }
  }
  CHECK(cuDeviceGetAttribute(&answer, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  if (blocks == 0) blocks = answer;
  gpus.resize(count);
  for (int g = 0; g < count; ++g) {
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(g));
    CHECK(cudaFuncGetAttributes(&loaded, write_values));
    CHECK(cudaFuncGetAttributes(&loaded, count_right));
    CHECK(cudaFuncGetAttributes(&loaded, transfer));
    CHECK(cudaStreamCreateWithFlags(&gpus[g].stream, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&gpus[g].ready, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&gpus[g].start));
    CHECK(cudaEventCreate(&gpus[g].stop));
    CHECK(cudaMalloc(&gpus[g].right, sizeof *gpus[g].right));
  }
  const bool in_kib = kib;  // as the size is printed
  if (!in_kib) kib = mib << 10;
  measure::open_json("measure", count, "--kib %ld --repeats %ld --blocks %ld --threads %ld", kib, repeats, blocks,
                     threads);
  size_t free_now, total_memory;
  for (int g = 0; g < count; ++g) {
    CHECK(cudaSetDevice(g));
    CHECK(cuMemGetInfo(&gpus[g].free_at_start, &total_memory));
  }
  std::printf("    they do\n");

  // [2] Share one allocation
  // What cuMemSetAccess takes to open one allocation to more and more GPUs. No peer access is enabled anywhere. The
  // first memory that two GPUs share costs more than what follows, and the last that they share takes that away with
  // it: so once while nothing else is shared, and once while a granule on each GPU stays open to all.
  std::printf("[2] Share one allocation\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  std::vector<CUmemAccessDesc> everyone(count);
  size_t granularity = 0, suits;
  for (int g = 0; g < count; ++g) {
    properties.location.id = g;
    everyone[g].location = properties.location;
    everyone[g].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemGetAllocationGranularity(&suits, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    granularity = std::max(granularity, suits);
  }
  const auto create_open_to_all = [&](int gpu, size_t bytes) {
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    properties.location.id = gpu;
    CHECK(cuMemCreate(&handle, bytes, &properties, 0));
    CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    CHECK(cuMemMap(address, bytes, 0, handle, 0));
    CHECK(cuMemRelease(handle));  // the mapping holds the memory
    CHECK(cuMemSetAccess(address, bytes, everyone.data(), count));
    return address;
  };
  const size_t shared = ((size_t(64) << 20) + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle;
  CUdeviceptr address;
  properties.location.id = 0;
  CHECK(cuMemCreate(&handle, shared, &properties, 0));
  CHECK(cuMemAddressReserve(&address, shared, 0, 0, 0));
  std::vector<CUdeviceptr> standing;
  for (const bool more : {false, true}) {
    for (int g = 0; more && g < count; ++g) standing.push_back(create_open_to_all(g, granularity));
    std::printf("    cuMemSetAccess of %zu MiB on GPU 0, %s, median of %ld\n", shared >> 20,
                more ? "while more is shared" : "while nothing else is shared", repeats);
    for (int last = 0; last < count; ++last) {
      std::vector<double> took;
      for (long repeat = -1; repeat < repeats; ++repeat) {  // a new mapping each time: it is open to nobody
        CHECK(cuMemMap(address, shared, 0, handle, 0));
        const double before = measure::microseconds();
        CHECK(cuMemSetAccess(address, shared, everyone.data(), last + 1));
        if (repeat >= 0) took.push_back(measure::microseconds() - before);
        check_on(last, address, shared, write_on(last, address, shared, fresh()));  // it is open to the last one too
        CHECK(cuMemUnmap(address, shared));
      }
      std::fprintf(measure::json, R"({"what": "cuMemSetAccess", "bytes": %zu, "open_to": %d, "more_is_shared": %s, )",
                   shared, last + 1, more ? "true" : "false");
      std::printf("    open to %d, up to GPU %d: %.1f us\n", last + 1, last, measure::write_times(took));
    }
  }
  for (const CUdeviceptr granule : standing) {
    CHECK(cuMemUnmap(granule, granularity));
    CHECK(cuMemAddressFree(granule, granularity));
  }
  CHECK(cuMemAddressFree(address, shared));
  CHECK(cuMemRelease(handle));

  // [3] Allocate with peers enabled
  // What every cudaMalloc takes, whether a peer ever uses the memory or not. Peer access is enabled both ways.
  std::printf("[3] Allocate with peers enabled\n");
  std::printf("    cudaMalloc of %zu MiB on GPU 0, median of %ld\n", shared >> 20, repeats);
  for (int last = 0; last < count; ++last) {
    if (last > 0) {
      CHECK(cudaSetDevice(last));
      CHECK(cudaDeviceEnablePeerAccess(0, 0));
      CHECK(cudaSetDevice(0));
      CHECK(cudaDeviceEnablePeerAccess(last, 0));
    }
    std::vector<double> took;
    void* memory;
    for (long repeat = -1; repeat < repeats; ++repeat) {
      CHECK(cudaSetDevice(0));
      const double before = measure::microseconds();
      CHECK(cudaMalloc(&memory, shared));
      if (repeat >= 0) took.push_back(measure::microseconds() - before);
      address = reinterpret_cast<CUdeviceptr>(memory);
      check_on(last, address, shared, write_on(last, address, shared, fresh()));
      CHECK(cudaSetDevice(0));
      CHECK(cudaFree(memory));
    }
    std::fprintf(measure::json, R"({"what": "cudaMalloc", "bytes": %zu, "peers_enabled": %d, )", shared, last);
    std::printf("    peers enabled: %d, up to GPU %d: %.1f us\n", last, last, measure::write_times(took));
  }
  for (int last = count; --last > 0;) {
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceDisablePeerAccess(last));
    CHECK(cudaSetDevice(last));
    CHECK(cudaDeviceDisablePeerAccess(0));
  }

  // [4] Move data between two GPUs
  // One allocation on each GPU, open to all: the front is what it sends, the back is where it receives. GPU 0 moves
  // data to GPU 1, or with loads from GPU 1, and nobody else is on the way.
  std::printf("[4] Move data between two GPUs\n");
  const size_t bytes = size_t(kib) << 10, both = (2 * bytes + granularity - 1) / granularity * granularity;
  for (int g = 0; g < count; ++g) {
    gpus[g].source = create_open_to_all(g, both);
    gpus[g].sink = gpus[g].source + bytes;
  }
  std::printf("    %ld %s, median of %ld; kernels of %ld blocks of %ld threads\n", in_kib ? kib : mib,
              in_kib ? "KiB" : "MiB", repeats, blocks, threads);
  show_bandwidth(1, bytes);

  // [5] Move data round the ring
  // Every GPU does the same at the same time, each with the next one. The figures are for one GPU, the slowest.
  std::printf("[5] Move data round the ring\n");
  show_bandwidth(count, bytes);

  // [6] Tear down
  // In reverse order. What was made before memory was counted goes after it is counted again.
  std::printf("[6] Tear down\n");
  for (int g = count; g-- > 0;) {
    CHECK(cuMemUnmap(gpus[g].source, both));
    CHECK(cuMemAddressFree(gpus[g].source, both));
  }
  for (int g = count; g-- > 0;) {
    CHECK(cudaSetDevice(g));
    CHECK(cuMemGetInfo(&free_now, &total_memory));
    EXPECT(free_now == gpus[g].free_at_start,
           "%zu bytes are free on GPU %d, %zu were at the start (does another "
           "program use this GPU?)",
           free_now, g, gpus[g].free_at_start);
    CHECK(cudaFree(gpus[g].right));
    CHECK(cudaEventDestroy(gpus[g].stop));
    CHECK(cudaEventDestroy(gpus[g].start));
    CHECK(cudaEventDestroy(gpus[g].ready));
    CHECK(cudaStreamDestroy(gpus[g].stream));
  }
  std::printf("    free memory on every GPU is what it was at the start\n");
  measure::close_json();
  std::printf("OK\n");
  return 0;
}
