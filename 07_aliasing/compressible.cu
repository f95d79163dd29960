// SPDX-License-Identifier: MIT-0
//
// 07 Compressible: what does memory that the GPU may compress do to a kernel's time?
//
// cuMemCreate takes requests for special memory, and may grant them or not: only the properties of what it made tell.
// Here compression is requested, and two kernels are timed with it, without it and on memory of cudaMalloc. Then memory
// is requested that a network card can reach (GPUDirect RDMA). Needs one GPU that supports VMM and compression,
// and that no other program uses meanwhile.
//
// Build it alone:  nvcc -std=c++17 compressible.cu -o compressible -lcuda
#include "../common/check.h"
#include "../common/measure.h"

#include <numeric>
#include <random>
#include <vector>

static const char usage[] =
    "usage: compressible [--mib N] [--repeats N] [--copy] [--json FILE]\n"
    "  --mib N       MiB in each of the three buffers, 2 to 8192 (default 4)\n"
    "  --repeats N   timed runs of each kernel, of which the median counts, 1 to 1000 (default 2)\n"
    "  --copy        write the compressible buffer by a copy, not by a kernel\n"
    "  --json FILE   write the measurements to this file too, one JSON object a line\n"
    "The defaults suit a simulator. On a GPU: --mib 512 --repeats 20\n";

// The i-th word of the data: random with shift 0; with shift 10 the 1024 words of each 4 KiB are one random word.
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

// Reads and writes everything, in the same way. What was equal stays equal, what was random stays random.
__global__ void update_all(uint4* data, size_t n) {
  for (size_t tile = blockIdx.x; tile < n / (4 * blockDim.x); tile += gridDim.x) {
    uint4 v[4], *here = data + 4 * tile * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; ++k) v[k] = here[k * blockDim.x];
    for (int k = 0; k < 4; ++k)
      here[k * blockDim.x] = make_uint4(v[k].x * 5 + 1, v[k].y * 5 + 1, v[k].z * 5 + 1, v[k].w * 5 + 1);
  }
}

// Waits for the kernel that was launched after `start` was recorded, and returns how long it took, in microseconds.
static float microseconds_since(cudaEvent_t start, cudaEvent_t stop) {
  float ms;
  CHECK(cudaGetLastError());
  CHECK(cudaEventRecord(stop));
  CHECK(cudaEventSynchronize(stop));
  CHECK(cudaEventElapsedTime(&ms, start, stop));
  return ms * 1000;
}

// The times of a kernel on each of three buffers: mapped memory with nothing requested, with compression requested, and
// memory of cudaMalloc.
using Times = std::vector<double>[3];

static void write_medians(measure::Report& report, const char* kernel, int shift, size_t bytes, bool granted,
                          Times& times) {
  const char* const memory[] = {"plain", granted ? "compressible" : "plain", "cudaMalloc"};
  double median[3] = {};
  for (int kind : {0, 1, 2}) {
    median[kind] = report.add("kernel",
                              {{"kernel", kernel},
                               {"data", shift ? "one random word in each 4 KiB" : "random words"},
                               {"memory", memory[kind]},
                               {"bytes", bytes}},
                              times[kind]);
  }
  say("  %s: plain %.1f us, compression requested %.1f us: %.2f times as fast; cudaMalloc %.1f us", kernel, median[0],
      median[1], median[0] / median[1], median[2]);
}

// Reserves addresses, maps the whole allocation there, and grants access to the device that holds it, as in lesson 01.
static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t size, const CUmemAllocationProp& properties) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(address, size, &descriptor, 1));
  return address;
}

int main(int argc, char** argv) {
  long mib = 4, repeats = 2, by_copy = 0;
  const char* json = "/dev/null";
  check::arguments(argc, argv, usage,
                   {{"--mib", &mib, 2, 8192},
                    {"--repeats", &repeats, 1, 1000},
                    {"--copy", &by_copy, 0, 0},
                    {"--json", nullptr, 0, 1, &json}});
  const int gpus = check::require_gpus(1);

  step("[1] Ask the device for support");
  // Each kind of special memory has an attribute of its own.
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  char name[256];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  int vmm = 0, compression = 0, rdma = 0, l2 = 0;
  CHECK(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  CHECK(cuDeviceGetAttribute(&compression, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED, device));
  CHECK(cuDeviceGetAttribute(&rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device));
  CHECK(cuDeviceGetAttribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, device));
  REQUIRE(vmm, "%s has no virtual memory management; use bare metal, or a virtual GPU that passes it on", name);
  REQUIRE(compression, "%s has no compressible memory; use a GPU with compute data compression", name);
  say("%s: compressible memory is supported, GPUDirect RDMA with VMM is %s", name,
      rdma ? "supported" : "not supported");
  measure::Report report(json, "compressible", gpus, {{"--mib", mib}, {"--repeats", repeats}, {"--copy", by_copy > 0}});
  CHECK(cudaSetDevice(device));

  // Set-up: the kernels' sums, two events, and every kernel loaded, before counting what is free.
  const unsigned blocks = 1024, threads = 256;  // of every launch; 1 MiB is a multiple of what a block does at a time
  std::vector<unsigned long long> host_sums(blocks * threads);
  unsigned long long* sums;
  CHECK(cudaMalloc(&sums, host_sums.size() * sizeof *sums));
  cudaEvent_t start = nullptr, stop = nullptr;
  for (cudaEvent_t* event : {&start, &stop}) CHECK(cudaEventCreate(event));
  cudaFuncAttributes loaded;
  for (const void* kernel : {(void*)fill, (void*)read_all, (void*)update_all})
    CHECK(cudaFuncGetAttributes(&loaded, kernel));
  size_t free_at_start, free_before, free_now, total_memory;
  CHECK(cuMemGetInfo(&free_at_start, &total_memory));

  step("[2] Request compression");
  // The wrong model: "cuMemCreate succeeded, so the memory is compressible". It may as well have made plain memory, so
  // the properties are read back. Nor is compressible memory smaller: see how much each buffer takes.
  CUmemAllocationProp properties = {}, granted;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  CUmemGenericAllocationHandle handle[3];  // 0: nothing requested, 1: compression, 2: GPUDirect RDMA
  CUdeviceptr address[3] = {};
  size_t size[3], granularity;
  bool compressible = false;  // in the end, whether the second one is
  for (int kind : {0, 1}) {
    properties.allocFlags.compressionType = kind ? CU_MEM_ALLOCATION_COMP_GENERIC : CU_MEM_ALLOCATION_COMP_NONE;
    CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    size[kind] = ((size_t(mib) << 20) + granularity - 1) / granularity * granularity;
    CHECK(cuMemGetInfo(&free_before, &total_memory));
    CHECK(cuMemCreate(&handle[kind], size[kind], &properties, 0));
    CHECK(cuMemGetInfo(&free_now, &total_memory));
    CHECK(cuMemGetAllocationPropertiesFromHandle(&granted, handle[kind]));
    compressible = granted.allocFlags.compressionType == CU_MEM_ALLOCATION_COMP_GENERIC;
    say("%s: %s memory; %zu MiB taken", kind ? "compression requested" : "nothing requested",
        compressible ? "compressible" : "plain", (free_before - free_now) >> 20);
    address[kind] = map(handle[kind], size[kind], properties);
  }

  step("[3] Time two kernels");
  // The buffers take turns: all see the same clocks, and each finds another's data in the L2 cache. The third is from
  // cudaMalloc: is memory slower when the program has mapped it itself? The data is new and random each time, and never
  // zero: zeros would flatter every figure.
  const size_t n = (size_t(mib) << 20) / sizeof(uint4), words = 4 * n;
  uint4* data[] = {reinterpret_cast<uint4*>(address[0]), reinterpret_cast<uint4*>(address[1]), nullptr};
  CHECK(cudaMalloc(&data[2], n * sizeof(uint4)));
  say("%ld MiB (L2 cache: %d MiB) written by a %s; 16 bytes an access; median of %ld runs", mib, l2 >> 20,
      by_copy ? "copy" : "kernel", repeats);
  for (int shift : {10, 0}) {
    const unsigned seed = std::random_device{}();
    for (int kind : {0, 2}) fill<<<blocks, threads>>>(data[kind], n, seed, shift);
    if (by_copy) CHECK(cudaMemcpy(data[1], data[0], n * sizeof(uint4), cudaMemcpyDeviceToDevice));
    else fill<<<blocks, threads>>>(data[1], n, seed, shift);
    unsigned long long expected = 0;
    for (size_t i = 0; i < words; i += size_t(1) << shift) expected += (0ull + word(seed, i, shift)) << shift;
    Times reads, updates;
    for (long run = 0; run <= repeats; ++run)  // run 0 warms up and does not count
      for (int kind : {0, 1, 2}) {
        CHECK(cudaMemset(sums, 0xff, host_sums.size() * sizeof *sums));
        CHECK(cudaEventRecord(start));
        read_all<<<blocks, threads>>>(data[kind], n, sums);
        const float us = microseconds_since(start, stop);
        if (run > 0) reads[kind].push_back(us);
        CHECK(cudaMemcpy(host_sums.data(), sums, host_sums.size() * sizeof *sums, cudaMemcpyDeviceToHost));
        EXPECT(std::accumulate(host_sums.begin(), host_sums.end(), 0ull) == expected, "not all was read as written");
      }
    unsigned factor = 1, plus = 0;  // what the updates make of each word
    for (long run = 0; run <= repeats; ++run) {
      for (int kind : {0, 1, 2}) {
        CHECK(cudaEventRecord(start));
        update_all<<<blocks, threads>>>(data[kind], n);
        const float us = microseconds_since(start, stop);
        if (run > 0) updates[kind].push_back(us);
      }
      factor *= 5;
      plus = plus * 5 + 1;
    }
    for (const uint4* buffer : data)
      for (size_t at = 0; at < words; at += 1 << 18) {
        std::vector<unsigned> host(1 << 18, 0);  // words are a multiple of it
        CHECK(cudaMemcpy(host.data(), buffer + at / 4, host.size() * sizeof(unsigned), cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < host.size(); ++i)
          EXPECT(host[i] == word(seed, at + i, shift) * factor + plus, "word %zu is %u", at + i, host[i]);
      }
    say("%s", shift ? "one random word in each 4 KiB" : "random words");
    write_medians(report, "read", shift, words * sizeof(unsigned), compressible, reads);
    write_medians(report, "update", shift, words * sizeof(unsigned), compressible, updates);
  }

  step("[4] Request GPUDirect RDMA");
  // The same way: ask the device, request, read back. The pointer tells, too, for those who did not make the memory.
  properties.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_NONE;
  properties.allocFlags.gpuDirectRDMACapable = rdma != 0;
  CHECK(cuMemGetAllocationGranularity(&size[2], &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMemCreate(&handle[2], size[2], &properties, 0));
  CHECK(cuMemGetAllocationPropertiesFromHandle(&granted, handle[2]));
  address[2] = map(handle[2], size[2], properties);
  int of_plain = 0, of_requested = 0;
  CHECK(cuPointerGetAttribute(&of_plain, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address[0]));
  CHECK(cuPointerGetAttribute(&of_requested, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address[2]));
  say("requested: %d; its properties say %d, its pointer %d; the pointer to plain memory says %d", rdma,
      granted.allocFlags.gpuDirectRDMACapable, of_requested, of_plain);

  step("[5] Tear down");
  CHECK(cudaFree(data[2]));
  for (int kind : {2, 1, 0}) {
    CHECK(cuMemUnmap(address[kind], size[kind]));
    CHECK(cuMemRelease(handle[kind]));
    CHECK(cuMemAddressFree(address[kind], size[kind]));
  }
  CHECK(cuMemGetInfo(&free_now, &total_memory));
  EXPECT(free_now == free_at_start, "%zu bytes are free, %zu were at the start (does another program use this GPU?)",
         free_now, free_at_start);
  say("free memory is what it was at the start");
  for (cudaEvent_t event : {stop, start}) CHECK(cudaEventDestroy(event));
  CHECK(cudaFree(sums));
  report.complete();
  std::puts("OK");
  return 0;
}
