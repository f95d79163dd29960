// SPDX-License-Identifier: MIT-0
//
// 06 Multicast: how does one instruction store to, add to, or sum up the memory of several GPUs?
//
// A multicast object combines memory of each GPU of a team, the replicas. Each GPU gets a mapping of the object at an
// address of its own, its multicast address. A multimem instruction at that address acts on all replicas, and the
// NVSwitch between the GPUs copies and adds. Needs two GPUs that support multicast, of compute capability 9.0 or later.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 multicast.cu -o multicast -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cstdint>
#include <cuda/ptx>
#include <random>
#include <vector>

namespace ptx = cuda::ptx;

// The multimem instructions. In a name `mc` is a multicast address: an ordinary access to it is undefined.
#if __CUDA_ARCH__ >= 900
__device__ void store_all(uint32_t* mc, uint32_t value) {
  ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc, value);
}
__device__ void add_all(uint32_t* mc, uint32_t value) {
  ptx::multimem_red(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc, value);
}
__device__ uint32_t sum_all(const uint32_t* mc) {
  return ptx::multimem_ld_reduce(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc);
}
#else  // earlier GPUs have none of them, and the program's gate keeps such GPUs out
__device__ void store_all(uint32_t*, uint32_t) { __trap(); }
__device__ void add_all(uint32_t*, uint32_t) { __trap(); }
__device__ uint32_t sum_all(const uint32_t*) {
  __trap();
  return 0;
}
#endif

// Each thread has one element.
__device__ size_t element() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }
__global__ void broadcast(const uint32_t* in, uint32_t* out_mc) { store_all(out_mc + element(), in[element()]); }
__global__ void add(const uint32_t* in, uint32_t* out_mc) { add_all(out_mc + element(), in[element()]); }
__global__ void reduce(const uint32_t* in_mc, uint32_t* out) { out[element()] = sum_all(in_mc + element()); }

constexpr int threads = 256, blocks = 400;
constexpr size_t n = blocks * threads, array_bytes = n * sizeof(uint32_t);  // of `in`, and of `out`

struct Gpu {
  CUdevice device;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr mc;       // the multicast address, of all replicas
  CUdeviceptr replica;  // the unicast address, of this GPU's replica
  uint32_t *in_mc, *out_mc, *in, *out;
  size_t free_at_start;
};

static size_t free_memory(const Gpu& gpu) {
  size_t free_now, total;
  CHECK(cudaSetDevice(gpu.device));
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

static void wait_for_all(const std::vector<Gpu>& gpus) {
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaDeviceSynchronize());
  }
}

// Defined below the story, in the order in which it needs them.
static bool site_refuses();
static void load_kernels(std::vector<Gpu>& gpus);
static void fill_inputs(const std::vector<Gpu>& gpus, std::vector<uint32_t>* first, std::vector<uint32_t>* sums);
static void poison(const std::vector<Gpu>& gpus);
static void expect_everywhere(const std::vector<Gpu>& gpus, const std::vector<uint32_t>& expected);

int main(int argc, char** argv) {
  check::arguments(argc, argv, "usage: multicast\n");

  // [1] Ask whether multicast is disabled here
  // Before any call of the driver: where an administrator has switched multicast off, the program must not try it.
  std::printf("[1] Ask whether multicast is disabled here\n");
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast here; only whoever runs the machine can lift that");
  std::printf("    it is not\n");

  // [2] Find the team
  // All GPUs that support multicast and reach each other's memory. One GPU is no team.
  std::printf("[2] Find the team\n");
  const int visible = check::require_gpus(2);
  std::vector<Gpu> gpus;
  for (int ordinal = 0; ordinal < visible; ++ordinal) {
    Gpu gpu = {};
    int supported = 0, reaches = 1;
    CHECK(cuDeviceGet(&gpu.device, ordinal));
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu.device));
    for (const Gpu& other : gpus)
      if (reaches) CHECK(cuDeviceCanAccessPeer(&reaches, gpu.device, other.device));
    if (supported && reaches) gpus.push_back(gpu);
  }
  const int count = int(gpus.size());
  REQUIRE(count >= 2,
          "multicast takes two GPUs that support it and reach each other, %d of %d do; use GPUs of compute "
          "capability 9.0 or later on one NVSwitch",
          count, visible);
  std::printf("    %d of %d GPUs support multicast and reach each other\n", count, visible);
  load_kernels(gpus);  // set-up, not part of the story

  // [3] Ask for the granularity
  // A multicast object has a granularity of its own: its size, and the address and the size of a mapping, are multiples
  // of it. The memory that backs it has one too. The recommended one may be far larger: meant for objects of gigabytes.
  std::printf("[3] Ask for the granularity\n");
  CUmulticastObjectProp properties = {};
  properties.numDevices = count;  // at least 2: one is refused
  properties.size = 2 * array_bytes;
  CUmemAllocationProp memory_properties = {};
  memory_properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_properties.location.id = gpus[0].device;
  size_t minimum, recommended, of_memory;
  CHECK(cuMulticastGetGranularity(&minimum, &properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&recommended, &properties, CU_MULTICAST_GRANULARITY_RECOMMENDED));
  CHECK(cuMemGetAllocationGranularity(&of_memory, &memory_properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t granularity = std::max(minimum, of_memory);  // both are powers of two
  const size_t size = (properties.size + granularity - 1) / granularity * granularity;
  std::printf("    minimum %zu KiB, recommended %zu KiB\n", minimum >> 10, recommended >> 10);
  std::printf("    %zu bytes wanted, %zu KiB with the last granule filled up\n", properties.size, size >> 10);

  // [4] Create the multicast object, and add every GPU
  // The object has no memory and no address yet. All GPUs are added before any memory is bound: a bind or a map waits
  // until the team is complete, for ever if a GPU is missing.
  std::printf("[4] Create the multicast object, and add every GPU\n");
  properties.size = size;
  CUmemGenericAllocationHandle object;
  CHECK(cuMulticastCreate(&object, &properties));
  for (const Gpu& gpu : gpus) CHECK(cuMulticastAddDevice(object, gpu.device));  // by value; no call removes a GPU
  std::printf("    the team of %d GPUs is complete\n", count);

  // [5] Create each GPU's memory, and bind it
  // One replica for each GPU, an ordinary allocation. The bind makes it the object's memory on that GPU.
  std::printf("[5] Create each GPU's memory, and bind it\n");
  for (Gpu& gpu : gpus) {
    memory_properties.location.id = gpu.device;
    CHECK(cuMemCreate(&gpu.memory, size, &memory_properties, 0));
    CHECK(cuMulticastBindMem(object, 0, gpu.memory, 0, size, 0));
  }
  std::printf("    %zu KiB on each GPU\n", size >> 10);

  // [6] Map the object once for each GPU, and its replica
  // The object is mapped by its handle, as an allocation is. Each GPU gets a mapping of its own, to which it alone has
  // access. The address of this mapping is its multicast address. Its replica is mapped too, at a unicast address.
  std::printf("[6] Map the object once for each GPU, and its replica\n");
  for (Gpu& gpu : gpus) {
    const CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu.device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CHECK(cuMemAddressReserve(&gpu.mc, size, granularity, 0, 0));
    CHECK(cuMemMap(gpu.mc, size, 0, object, 0));
    CHECK(cuMemSetAccess(gpu.mc, size, &own, 1));
    CHECK(cuMemAddressReserve(&gpu.replica, size, granularity, 0, 0));
    CHECK(cuMemMap(gpu.replica, size, 0, gpu.memory, 0));
    CHECK(cuMemSetAccess(gpu.replica, size, &own, 1));
    gpu.in_mc = reinterpret_cast<uint32_t*>(gpu.mc);
    gpu.out_mc = gpu.in_mc + n;
    gpu.in = reinterpret_cast<uint32_t*>(gpu.replica);
    gpu.out = gpu.in + n;
  }
  std::printf("    for each of %d GPUs; the first has multicast address 0x%llx, unicast address 0x%llx\n", count,
              gpus[0].mc, gpus[0].replica);

  // [7] Broadcast with multimem.st
  // One store to the multicast address writes every replica.
  std::printf("[7] Broadcast with multimem.st\n");
  std::vector<uint32_t> first(n), sums(n), totals(n);
  fill_inputs(gpus, &first, &sums);  // set-up: random integers into `in` of every replica
  poison(gpus);
  CHECK(cudaSetDevice(gpus[0].device));
  broadcast<<<blocks, threads>>>(gpus[0].in, gpus[0].out_mc);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  expect_everywhere(gpus, first);
  std::printf("    one GPU stored %zu integers; all %d have them\n", n, count);

  // [8] Add to every replica with multimem.red
  // All GPUs add at the same time, each through its own multicast address. The additions are atomic, each to every
  // replica.
  std::printf("[8] Add to every replica with multimem.red\n");
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    add<<<blocks, threads>>>(gpu.in, gpu.out_mc);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  for (size_t i = 0; i < n; ++i) totals[i] = first[i] + sums[i];
  expect_everywhere(gpus, totals);
  std::printf("    each of %d GPUs added its own %zu; all have the broadcast plus these\n", count, n);

  // [9] Sum over all replicas with multimem.ld_reduce
  // One load from the multicast address returns the sum over all replicas. `in` differs from replica to replica.
  std::printf("[9] Sum over all replicas with multimem.ld_reduce\n");
  poison(gpus);
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    reduce<<<blocks, threads>>>(gpu.in_mc, gpu.out);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  expect_everywhere(gpus, sums);
  std::printf("    each of %d GPUs loaded the %zu sums\n", count, n);

  // [10] Tear down
  // First each GPU's memory is unbound, with offset and size as in the bind. The team ends with the object.
  std::printf("[10] Tear down\n");
  for (const Gpu& gpu : gpus) {
    CHECK(cuMulticastUnbind(object, gpu.device, 0, size));
    for (const CUdeviceptr address : {gpu.mc, gpu.replica}) {
      CHECK(cuMemUnmap(address, size));
      CHECK(cuMemAddressFree(address, size));
    }
    CHECK(cuMemRelease(gpu.memory));
  }
  CHECK(cuMemRelease(object));
  for (const Gpu& gpu : gpus)
    EXPECT(free_memory(gpu) == gpu.free_at_start, "GPU %d: %zu bytes are free, not as many as at the start", gpu.device,
           free_memory(gpu));
  std::printf("    free memory of every GPU is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}

// NCCL_NVLS_ENABLE=0 is how a site tells NCCL to leave multicast alone. Read as NCCL reads it: a number that is 0.
static bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

// CUDA loads a kernel when it is first used, and that takes memory: so before the program counts what is free.
static void load_kernels(std::vector<Gpu>& gpus) {
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    for (const void* kernel : {(void*)broadcast, (void*)add, (void*)reduce}) {
      cudaFuncAttributes loaded;
      CHECK(cudaFuncGetAttributes(&loaded, kernel));
    }
  }
  for (Gpu& gpu : gpus) gpu.free_at_start = free_memory(gpu);
}

// Random numbers of 24 bits into `in` of every replica: those of the first GPU, and the sums over all GPUs.
static void fill_inputs(const std::vector<Gpu>& gpus, std::vector<uint32_t>* first, std::vector<uint32_t>* sums) {
  std::mt19937 random(std::random_device{}());
  for (const Gpu& gpu : gpus) {
    std::vector<uint32_t> numbers(n);
    for (uint32_t& number : numbers) number = random() >> 8;
    for (size_t i = 0; i < n; ++i) (*sums)[i] += numbers[i];
    if (gpu.device == gpus[0].device) *first = numbers;
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaMemcpy(gpu.in, numbers.data(), array_bytes, cudaMemcpyHostToDevice));
  }
}

// Fills `out` of every replica with a value that no step leaves there, so a missing write is noticed.
static void poison(const std::vector<Gpu>& gpus) {
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaMemset(gpu.out, 0xff, array_bytes));
  }
  wait_for_all(gpus);  // the next kernel may write to other GPUs
}

// Reads `out` back from every replica: each element must be as expected.
static void expect_everywhere(const std::vector<Gpu>& gpus, const std::vector<uint32_t>& expected) {
  for (const Gpu& gpu : gpus) {
    std::vector<uint32_t> found(n, ~0u);
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaMemcpy(found.data(), gpu.out, array_bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i)
      EXPECT(found[i] == expected[i], "GPU %d: element %zu is %u, not %u", gpu.device, i, found[i], expected[i]);
  }
}
