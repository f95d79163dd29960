// SPDX-License-Identifier: MIT-0
//
// 03 Multi-GPU: how does one GPU reach into another's memory, and who decides which memory it may reach?
//
// cudaDeviceEnablePeerAccess opens all that cudaMalloc hands out, before and after, to a whole GPU. Here memory is
// opened mapping by mapping and GPU by GPU with cuMemSetAccess, and peer access is never enabled. Needs two GPUs or
// more, each with virtual memory management, that all reach each other.
//
// Build it alone:  nvcc -std=c++17 multi_gpu.cu -o multi_gpu -lcuda
#include "../common/check.h"

#include <random>
#include <vector>

static const char usage[] =
    "usage: multi_gpu [--granules N]\n"
    "  --granules N   memory of each buffer, in units of the granularity, 1 to 512 (default 2)\n";

static const CUmemAccess_flags none = CU_MEM_ACCESS_FLAGS_PROT_NONE, read_only = CU_MEM_ACCESS_FLAGS_PROT_READ,
                               read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

// What element i holds under this seed. It looks random, and every GPU and the CPU can work it out.
__host__ __device__ inline unsigned value(unsigned long long seed, size_t i) {
  unsigned long long x = (seed ^ i) * 0x9e3779b97f4a7c15ull;
  return unsigned((x ^ (x >> 29)) * 0xbf58476d1ce4e5b9ull >> 32);
}

__global__ void write_values(unsigned* data, size_t first, size_t last, unsigned long long seed) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = first + size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < last; i += stride)
    data[i] = value(seed, i);
}

__global__ void sum_and_compare(const unsigned* data, size_t n, unsigned long long seed, unsigned long long* result) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  unsigned long long sum = 0, wrong = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride)
    sum += data[i], wrong += data[i] != value(seed, i);
  atomicAdd(&result[0], sum);
  atomicAdd(&result[1], wrong);
}

// Starts a kernel on `gpu` that writes the elements from first up to last. Does not wait for it.
static void write_on(int gpu, CUdeviceptr data, size_t first, size_t last, unsigned long long seed) {
  CHECK(cudaSetDevice(gpu));  // a launch goes to the current device, wherever its pointers lead
  write_values<<<256, 256>>>(reinterpret_cast<unsigned*>(data), first, last, seed);
  CHECK(cudaGetLastError());
}

// One kernel on `gpu` reads all n elements: each must be what the seed says, and their sum must be the CPU's.
static void sum_on(int gpu, CUdeviceptr data, size_t n, unsigned long long seed) {
  unsigned long long *device_result, result[2] = {0, 0}, expected = 0;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMalloc(&device_result, sizeof result));
  CHECK(cudaMemcpy(device_result, result, sizeof result, cudaMemcpyHostToDevice));
  sum_and_compare<<<256, 256>>>(reinterpret_cast<unsigned*>(data), n, seed, device_result);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(result, device_result, sizeof result, cudaMemcpyDeviceToHost));  // returns when the kernel is done
  CHECK(cudaFree(device_result));
  for (size_t i = 0; i < n; ++i) expected += value(seed, i);
  EXPECT(result[1] == 0 && result[0] == expected, "GPU %d finds %llu of %zu elements wrong; sum %llu, on the CPU %llu",
         gpu, result[1], n, result[0], expected);
  std::printf("    GPU %d read %zu elements, each as expected; their sum is %llu, as on the CPU\n", gpu, n, result[0]);
}

static CUmemAccessDesc grant(int gpu, CUmemAccess_flags flags) {
  CUmemAccessDesc descriptor = {};
  descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  descriptor.location.id = gpu;
  descriptor.flags = flags;
  return descriptor;
}

// Reads back what each GPU may do at this address: GPU 0 and GPU 1 what is wanted, any other GPU nothing.
static void show_access(CUdeviceptr address, int gpus, CUmemAccess_flags gpu0, CUmemAccess_flags gpu1) {
  static const char* const words[] = {"none", "read", "", "read and write"};
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAccessDesc wanted = grant(gpu, gpu == 0 ? gpu0 : gpu == 1 ? gpu1 : none);
    unsigned long long found = ~0ull;
    CHECK(cuMemGetAccess(&found, &wanted.location, address));
    EXPECT(found == wanted.flags, "the access of GPU %d is %llu, not %d", gpu, found, int(wanted.flags));
  }
  std::printf("    access: GPU 0 %s, GPU 1 %s, any other GPU none\n", words[gpu0], words[gpu1]);
}

int main(int argc, char** argv) {
  long granules = 2;
  check::arguments(argc, argv, usage, {{"--granules", &granules, 1, 512}});
  const int gpus = check::require_gpus(2);

  // [1] Ask which GPUs reach each other
  // A question for each ordered pair: the answer depends on how the two are wired, not only on what they are.
  std::printf("[1] Ask which GPUs reach each other\n");
  int supported, reaches, direct, atomics, rank;
  for (int from = 0; from < gpus; ++from) {
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, from));
    REQUIRE(supported, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU with it", from);
    for (int to = 0; to < gpus; ++to) {
      if (from == to) continue;
      CHECK(cuDeviceCanAccessPeer(&reaches, from, to));
      REQUIRE(reaches,
              "GPU %d cannot reach the memory of GPU %d; choose GPUs that can with CUDA_VISIBLE_DEVICES "
              "(nvidia-smi topo -p2p r lists them)",
              from, to);
      CHECK(cuDeviceGetP2PAttribute(&direct, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, from, to));
      CHECK(cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to));
      CHECK(cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, from, to));
      std::printf("    GPU %d -> GPU %d: access %s, native atomics %s, performance rank %d\n", from, to,
                  direct ? "yes" : "no", atomics ? "yes" : "no", rank);
    }
  }

  // A kernel is loaded on each GPU at its first use there, and that takes memory: load both before counting.
  std::vector<size_t> free_at_start(gpus);
  std::vector<cudaEvent_t> reached(gpus);
  size_t free_now, total_memory;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFuncGetAttributes(&loaded, write_values));
    CHECK(cudaFuncGetAttributes(&loaded, sum_and_compare));
    CHECK(cudaEventCreateWithFlags(&reached[gpu], cudaEventDisableTiming));
  }
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));  // cuMemGetInfo tells of the current device
    CHECK(cuMemGetInfo(&free_at_start[gpu], &total_memory));
  }
  // GPUs run side by side. After this, what `gpu` is given from here on starts after all that `other` was given so far.
  const auto order_after = [&reached](int gpu, int other) {
    CHECK(cudaSetDevice(other));
    CHECK(cudaEventRecord(reached[other]));
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamWaitEvent(0, reached[other], 0));
  };
  std::mt19937_64 random(std::random_device{}());

  // [2] Create memory on GPU 0
  // The location says where the memory is. It says nothing about who may use it.
  std::printf("[2] Create memory on GPU 0\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0, suits;
  for (properties.location.id = 0; properties.location.id < gpus; ++properties.location.id) {
    CHECK(cuMemGetAllocationGranularity(&suits, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (suits > granularity) granularity = suits;  // the largest suits every GPU
  }
  const size_t size = granules * granularity, n = size / sizeof(unsigned);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr memory;
  properties.location.id = 0;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemAddressReserve(&memory, size, 0, 0, 0));
  CHECK(cuMemMap(memory, size, 0, handle, 0));
  CHECK(cuMemRelease(handle));  // from here on the mapping holds the memory
  std::printf("    %zu KiB, mapped\n", size >> 10);
  show_access(memory, gpus, none, none);

  // [3] Open it to GPU 1 alone
  // One descriptor, for GPU 1. The GPU that holds the memory gets nothing by itself: GPU 0 may not touch it now.
  std::printf("[3] Open it to GPU 1 alone\n");
  const CUmemAccessDesc alone = grant(1, read_write);
  CHECK(cuMemSetAccess(memory, size, &alone, 1));
  show_access(memory, gpus, none, read_write);
  unsigned long long seed = random();
  write_on(1, memory, 0, n, seed);
  sum_on(1, memory, n, seed);

  // [4] Read and write for one, read for the other
  // One call, two rights. GPU 1 must read after GPU 0 wrote: an event orders the two, and the CPU need not wait.
  std::printf("[4] Read and write for one, read for the other\n");
  const CUmemAccessDesc both[] = {grant(0, read_write), grant(1, read_only)};
  CHECK(cuMemSetAccess(memory, size, both, 2));
  show_access(memory, gpus, read_write, read_only);
  seed = random();
  write_on(0, memory, 0, n, seed);
  order_after(1, 0);
  sum_on(1, memory, n, seed);

  // [5] Take access away
  // No access is a right to be set like the others. Nobody may be using the mapping at that moment.
  std::printf("[5] Take access away\n");
  const CUmemAccessDesc closed = grant(1, none);
  CHECK(cuMemSetAccess(memory, size, &closed, 1));
  show_access(memory, gpus, read_write, none);
  sum_on(0, memory, n, seed);  // GPU 0 goes on as before

  // [6] Pass data round a ring
  // Each GPU has a buffer, open to itself and to the GPU before it. The owner fills it with other values first, the
  // GPU before it writes there, the owner checks.
  std::printf("[6] Pass data round a ring\n");
  const unsigned long long ring_seed = random();
  CUdeviceptr ring;
  CHECK(cuMemAddressReserve(&ring, gpus * size, 0, 0, 0));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const CUmemAccessDesc two[] = {grant(gpu, read_write), grant((gpu + gpus - 1) % gpus, read_write)};
    properties.location.id = gpu;
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    CHECK(cuMemMap(ring + gpu * size, size, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    CHECK(cuMemSetAccess(ring + gpu * size, size, two, 2));
    write_on(gpu, ring + gpu * size, 0, n, random());
  }
  for (int gpu = 0; gpu < gpus; ++gpu) order_after(gpu, (gpu + 1) % gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) write_on(gpu, ring + (gpu + 1) % gpus * size, 0, n, ring_seed * (gpu + 1));
  std::printf("    each GPU writes into the buffer of the next\n");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const int next = (gpu + 1) % gpus;
    order_after(next, gpu);
    sum_on(next, ring + next * size, n, ring_seed * (gpu + 1));
  }

  // [7] Make one array of the memory of all GPUs
  // Stripe after stripe is mapped from the next GPU, at addresses in a row. One call opens all the mappings to all
  // GPUs. A kernel sees one pointer and knows nothing of stripes.
  std::printf("[7] Make one array of the memory of all GPUs\n");
  const size_t stripes = gpus * granules, stripe = granularity / sizeof(unsigned), all = stripes * stripe;
  std::vector<CUmemAccessDesc> everyone;
  CUdeviceptr array;
  CHECK(cuMemAddressReserve(&array, stripes * granularity, 0, 0, 0));
  for (size_t s = 0; s < stripes; ++s) {
    properties.location.id = int(s % gpus);
    CHECK(cuMemCreate(&handle, granularity, &properties, 0));
    CHECK(cuMemMap(array + s * granularity, granularity, 0, handle, 0));
    CHECK(cuMemRelease(handle));
  }
  for (int gpu = 0; gpu < gpus; ++gpu) everyone.push_back(grant(gpu, read_write));
  CHECK(cuMemSetAccess(array, stripes * granularity, everyone.data(), everyone.size()));
  std::printf("    %zu stripes of %zu KiB, from each GPU in turn\n", stripes, granularity >> 10);
  seed = random();
  write_on(0, array, 0, all, random());  // other values first
  for (int gpu = 1; gpu < gpus; ++gpu) order_after(gpu, 0);
  for (size_t s = 0; s < stripes; ++s) write_on(int(s % gpus), array, s * stripe, (s + 1) * stripe, seed);
  for (int gpu = 1; gpu < gpus; ++gpu) order_after(0, gpu);
  sum_on(0, array, all, seed);  // one kernel, from the first element to the last

  // [8] Tear down
  // One call unmaps many whole mappings. The memory goes back to the GPU that it came from, so look at every GPU.
  std::printf("[8] Tear down\n");
  CHECK(cuMemUnmap(array, stripes * granularity));
  CHECK(cuMemAddressFree(array, stripes * granularity));
  CHECK(cuMemUnmap(ring, gpus * size));
  CHECK(cuMemAddressFree(ring, gpus * size));
  CHECK(cuMemUnmap(memory, size));
  CHECK(cuMemAddressFree(memory, size));
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cuMemGetInfo(&free_now, &total_memory));
    EXPECT(free_now == free_at_start[gpu],
           "%zu bytes are free on GPU %d, %zu were at the start (does another program "
           "use this GPU?)",
           free_now, gpu, free_at_start[gpu]);
    CHECK(cudaEventDestroy(reached[gpu]));
  }
  std::printf("    free memory on every GPU is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}
