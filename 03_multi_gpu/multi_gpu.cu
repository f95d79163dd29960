// SPDX-License-Identifier: MIT-0
//
// 03 Multi-GPU: how does one GPU reach into another's memory, and who decides which memory it may reach?
//
// cudaDeviceEnablePeerAccess gives one GPU access to all memory of cudaMalloc on another GPU, earlier and later.
// cuMemSetAccess grants access for one mapping and one GPU at a time. Needs two GPUs or more that all reach each other.
//
// Build it alone:  nvcc -std=c++17 multi_gpu.cu -o multi_gpu -lcuda
#include "../common/check.h"

#include <random>
#include <vector>

static const CUmemAccess_flags none = CU_MEM_ACCESS_FLAGS_PROT_NONE;
static const CUmemAccess_flags read_only = CU_MEM_ACCESS_FLAGS_PROT_READ;
static const CUmemAccess_flags read_write = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

// An access descriptor: a GPU, and the right that it gets.
static CUmemAccessDesc grant(int gpu, CUmemAccess_flags flags) { return {{CU_MEM_LOCATION_TYPE_DEVICE, gpu}, flags}; }

// Defined below main: what shows the rights, writes and reads data, and counts free memory.
static void show_access(CUdeviceptr address, int gpus, CUmemAccess_flags gpu0, CUmemAccess_flags gpu1);
static void write_on(int gpu, CUdeviceptr data, size_t first, size_t last, unsigned long long seed);
static void read_on(int gpu, CUdeviceptr data, size_t n, unsigned long long seed);
static void load_kernels(int gpus);
static std::vector<size_t> free_memory(int gpus);

int main(int argc, char** argv) {
  // Set-up: arguments, the gate, and what takes memory when it is first used, before free memory is counted.
  check::arguments(argc, argv, "usage: multi_gpu\n");
  const int gpus = check::require_gpus(2);
  load_kernels(gpus);
  cudaEvent_t written;
  CHECK(cudaSetDevice(0));
  CHECK(cudaEventCreateWithFlags(&written, cudaEventDisableTiming));
  CHECK(cudaEventRecord(written));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(0, written, 0));
  const std::vector<size_t> free_at_start = free_memory(gpus);
  std::mt19937_64 random(std::random_device{}());

  // [1] Ask which GPUs reach each other
  // Asked for each ordered pair: the answer depends on how the two are connected, not only on their models.
  std::printf("[1] Ask which GPUs reach each other\n");
  int supported, reaches, atomics, rank;
  for (int from = 0; from < gpus; ++from) {
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, from));
    REQUIRE(supported, "GPU %d has no virtual memory management; use bare metal, or a virtual GPU with it", from);
    for (int to = 0; to < gpus; ++to) {
      if (from == to) continue;
      CHECK(cuDeviceCanAccessPeer(&reaches, from, to));
      REQUIRE(reaches, "GPU %d cannot reach the memory of GPU %d; choose others with CUDA_VISIBLE_DEVICES", from, to);
      CHECK(cuDeviceGetP2PAttribute(&atomics, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, from, to));
      CHECK(cuDeviceGetP2PAttribute(&rank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, from, to));
      std::printf("    GPU %d reaches GPU %d: native atomics %s, performance rank %d\n", from, to,
                  atomics ? "yes" : "no", rank);
    }
  }

  // [2] Create memory on GPU 0
  // The location says where the memory is. It grants access to no GPU.
  std::printf("[2] Create memory on GPU 0\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t granularity = 0, suits;
  for (properties.location.id = 0; properties.location.id < gpus; ++properties.location.id) {
    CHECK(cuMemGetAllocationGranularity(&suits, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    if (suits > granularity) granularity = suits;  // all are powers of two, so the largest suits every GPU
  }
  const size_t size = 2 * granularity, n = size / sizeof(unsigned);
  CUmemGenericAllocationHandle handle;
  CUdeviceptr memory, array;
  properties.location.id = 0;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemAddressReserve(&memory, size, 0, 0, 0));
  CHECK(cuMemMap(memory, size, 0, handle, 0));
  CHECK(cuMemRelease(handle));  // from here on the mapping keeps the allocation
  std::printf("    %zu KiB, mapped\n", size >> 10);
  show_access(memory, gpus, none, none);

  // [3] Grant GPU 1 access, and nobody else
  // One descriptor, for GPU 1. The GPU that holds the memory, GPU 0, still has no access.
  std::printf("[3] Grant GPU 1 access, and nobody else\n");
  const CUmemAccessDesc alone = grant(1, read_write);
  CHECK(cuMemSetAccess(memory, size, &alone, 1));
  show_access(memory, gpus, none, read_write);
  unsigned long long seed = random();
  write_on(1, memory, 0, n, seed);
  read_on(1, memory, n, seed);

  // [4] Read and write for one, read for the other
  // One call sets two rights. GPU 1 must read after GPU 0 has written: an event orders them, and the CPU does not wait.
  std::printf("[4] Read and write for one, read for the other\n");
  const CUmemAccessDesc both[] = {grant(0, read_write), grant(1, read_only)};
  CHECK(cuMemSetAccess(memory, size, both, 2));
  show_access(memory, gpus, read_write, read_only);
  seed = random();
  write_on(0, memory, 0, n, seed);
  CHECK(cudaEventRecord(written));  // on GPU 0: write_on has made it the current one
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamWaitEvent(0, written, 0));
  read_on(1, memory, n, seed);

  // [5] Take access away
  // `none` is a right like the others. No kernel may be using the mapping when it changes.
  std::printf("[5] Take access away\n");
  const CUmemAccessDesc revoked = grant(1, none);
  CHECK(cuMemSetAccess(memory, size, &revoked, 1));
  show_access(memory, gpus, read_write, none);
  read_on(0, memory, n, seed);  // GPU 0 goes on as before

  // [6] Make one array of the memory of all GPUs
  // A stripe is one granule. The stripes are memory of each GPU in turn, mapped at neighbouring addresses. One call
  // grants all GPUs access to all stripes. A kernel sees one pointer and no stripes.
  std::printf("[6] Make one array of the memory of all GPUs\n");
  const size_t stripes = 2 * gpus, stripe = granularity / sizeof(unsigned), all = stripes * stripe;
  std::vector<CUmemAccessDesc> everyone;
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
  for (size_t s = 0; s < stripes; ++s) write_on(int(s % gpus), array, s * stripe, (s + 1) * stripe, seed);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());  // this time the CPU waits
  }
  read_on(0, array, all, seed);  // one kernel, from the first element to the last

  // [7] Tear down
  // One call unmaps several whole mappings. Each GPU gets its own memory back, so free memory is compared on every GPU.
  std::printf("[7] Tear down\n");
  CHECK(cuMemUnmap(array, stripes * granularity));
  CHECK(cuMemAddressFree(array, stripes * granularity));
  CHECK(cuMemUnmap(memory, size));
  CHECK(cuMemAddressFree(memory, size));
  EXPECT(free_memory(gpus) == free_at_start, "free memory is not what it was (does another program use a GPU?)");
  CHECK(cudaEventDestroy(written));
  std::printf("    free memory on every GPU is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}

// Asks which right each GPU has at this address. GPU 0 and GPU 1 must have these rights, any other GPU none.
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

// The value of element i for this seed. It looks random, and every GPU can compute it.
__device__ unsigned value(size_t seed, size_t i) { return (seed ^ i) * 0x9e3779b97f4a7c15 >> 32; }

__global__ void write_values(unsigned* data, size_t first, size_t last, unsigned long long seed) {
  for (size_t i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += gridDim.x * blockDim.x)
    data[i] = value(seed, i);
}

__device__ unsigned long long num_right;  // on each GPU: how many elements its last kernel found as expected

__global__ void count_right(const unsigned* data, size_t n, unsigned long long seed) {
  unsigned long long mine = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine += data[i] == value(seed, i);
  atomicAdd(&num_right, mine);
}

// Starts a kernel on `gpu` that writes the elements from `first` up to `last` - 1. Does not wait for it.
static void write_on(int gpu, CUdeviceptr data, size_t first, size_t last, unsigned long long seed) {
  CHECK(cudaSetDevice(gpu));  // a launch goes to the current device, wherever its pointers lead
  write_values<<<256, 256>>>(reinterpret_cast<unsigned*>(data), first, last, seed);
  CHECK(cudaGetLastError());
}

// One kernel on `gpu` reads all n elements. Each must have the value for the seed.
static void read_on(int gpu, CUdeviceptr data, size_t n, unsigned long long seed) {
  unsigned long long found = 0;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMemcpyToSymbol(num_right, &found, sizeof found));
  count_right<<<256, 256>>>(reinterpret_cast<unsigned*>(data), n, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, num_right, sizeof found));  // returns when the kernel is done
  EXPECT(found == n, "GPU %d found %llu of %zu elements as expected", gpu, found, n);
  std::printf("    GPU %d read %zu elements, each as expected\n", gpu, n);
}

// A kernel takes memory of a GPU when it first runs there.
static void load_kernels(int gpus) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    write_on(gpu, 0, 0, 0, 0);
    count_right<<<1, 1>>>(nullptr, 0, 0);
    CHECK(cudaGetLastError());
  }
}

static std::vector<size_t> free_memory(int gpus) {
  std::vector<size_t> bytes(gpus);
  size_t total;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));  // cuMemGetInfo describes the current device
    CHECK(cuMemGetInfo(&bytes[gpu], &total));
  }
  return bytes;
}
