// SPDX-License-Identifier: MIT-0
//
// 06 Multicast, a norm: how do GPUs wait for each other inside a kernel?
//
// Each GPU leaves the sum of its squares in its replica, arrives at a counter that every replica has, waits until all
// have arrived, and adds up the sums of all. Needs two GPUs that support multicast, of compute capability 9.0 or later.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 norm.cu -o norm -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <random>
#include <vector>

namespace ptx = cuda::ptx;

static const char usage[] =
    "usage: norm [--timeout S]\n"
    "  --timeout S   how long a GPU waits for the others, 1 to 60 s (default 5)\n";

constexpr int threads = 1024;        // of the one block on each GPU
constexpr size_t n = 100 * threads;  // elements on each GPU

// What each replica holds: what the GPUs share, what each notes for the host, and its part of the vector.
struct Control {
  uint32_t arrived;  // arrivals of all GPUs since the start: it only grows
  float partial;     // the sum of the squares of this GPU
  uint32_t seen;     // how many arrivals this GPU saw in the end
  float norm;
};
struct Replica {
  Control control;
  float part[n];
};

// The multimem instructions. `mc` is a multicast address: an ordinary access to it is undefined.
#if __CUDA_ARCH__ >= 900
__device__ void arrive(uint32_t* mc) { ptx::multimem_red(ptx::sem_release, ptx::scope_sys, ptx::op_add, mc, 1u); }
__device__ float sum_all(const float* mc) {  // written as PTX: cuda::ptx has ld_reduce for integers only
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
               : "=f"(sum)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return sum;
}
#else  // earlier GPUs have none of them, and the program's gate keeps such GPUs out
__device__ void arrive(uint32_t*) { __trap(); }
__device__ float sum_all(const float*) { return 0; }
#endif

// One block on each GPU, all at the same time. `own` is the address of this GPU's Control, `mc` the multicast address
// of the Controls of all GPUs.
__global__ void norm_of_all(const float* part, Control* own, Control* mc, uint32_t target, uint64_t limit_ns) {
  __shared__ float sums[threads];
  float mine = 0;
  for (size_t i = threadIdx.x; i < n; i += threads) mine += part[i] * part[i];
  sums[threadIdx.x] = mine;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x != 0) return;

  own->partial = sums[0];    // written at this GPU's own address, and read at the multicast address below:
  ptx::fence_proxy_alias();  // nothing but this fence keeps accesses through the two addresses in order
  arrive(&mc->arrived);      // release: whoever sees this arrival sees what is above
  ptx::fence_proxy_alias();  // the counter has two addresses as well

  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> arrived(own->arrived);
  const uint64_t start = ptx::get_sreg_globaltimer();
  uint32_t seen;
  do seen = arrived.load(cuda::memory_order_acquire);  // acquire: the other half of the release
  while (seen < target && ptx::get_sreg_globaltimer() - start < limit_ns);
  own->seen = seen;
  if (seen < target) return;  // a GPU did not arrive: the host will say so

  ptx::fence_proxy_alias();  // from this GPU's address, where the arrivals were seen, to the multicast address
  own->norm = sqrtf(sum_all(&mc->partial));
}

struct Gpu {
  CUdevice device;
  CUmemGenericAllocationHandle memory;
  Replica *mc, *own;  // the multicast address, and the unicast address of its own replica
  size_t free_at_start;
};

static size_t free_memory(const Gpu& gpu) {
  size_t free_now, total;
  CHECK(cudaSetDevice(gpu.device));
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

// NCCL_NVLS_ENABLE=0 is how a site tells NCCL to leave multicast alone. Read as NCCL reads it: a number that is 0.
static bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

static std::vector<Gpu> find_team() {
  std::vector<Gpu> gpus(check::require_gpus(2));
  for (size_t i = 0; i < gpus.size(); ++i) {
    int supported = 0, reaches = 1;
    CHECK(cuDeviceGet(&gpus[i].device, int(i)));
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpus[i].device));
    for (size_t k = 0; k < i && reaches; ++k) CHECK(cuDeviceCanAccessPeer(&reaches, gpus[i].device, gpus[k].device));
    REQUIRE(supported && reaches, "no multicast with GPU %zu; choose other GPUs with CUDA_VISIBLE_DEVICES", i);
  }
  return gpus;
}

static Replica* map(CUmemGenericAllocationHandle handle, size_t size, size_t granularity, const CUmemAccessDesc& own) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, granularity, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &own, 1));
  return reinterpret_cast<Replica*>(address);
}

// Creates the object and the replicas, and maps both for each GPU, as multicast.cu does. Sets the size of a replica.
static CUmemGenericAllocationHandle map_replicas(std::vector<Gpu>& gpus, size_t* size) {
  CUmemGenericAllocationHandle object;
  CUmulticastObjectProp properties = {};
  CUmemAllocationProp of_memory = {};
  size_t granularity, granularity_of_memory;
  properties.numDevices = unsigned(gpus.size());
  properties.size = sizeof(Replica);
  of_memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  of_memory.location = {CU_MEM_LOCATION_TYPE_DEVICE, gpus[0].device};
  CHECK(cuMulticastGetGranularity(&granularity, &properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(cuMemGetAllocationGranularity(&granularity_of_memory, &of_memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  granularity = std::max(granularity, granularity_of_memory);
  *size = (sizeof(Replica) + granularity - 1) / granularity * granularity;
  properties.size = *size;
  CHECK(cuMulticastCreate(&object, &properties));
  for (const Gpu& gpu : gpus) CHECK(cuMulticastAddDevice(object, gpu.device));
  for (Gpu& gpu : gpus) {
    const CUmemAccessDesc own = {{CU_MEM_LOCATION_TYPE_DEVICE, gpu.device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    of_memory.location = own.location;
    CHECK(cuMemCreate(&gpu.memory, *size, &of_memory, 0));
    CHECK(cuMulticastBindMem(object, 0, gpu.memory, 0, *size, 0));
    gpu.mc = map(object, *size, granularity, own);
    gpu.own = map(gpu.memory, *size, granularity, own);
  }
  return object;
}

// Poisons what the kernel writes, launches it on the first `present` GPUs, and waits only when all are launched: a
// kernel that waits for one on another GPU must not keep that one from being launched. Returns each GPU's Control.
static std::vector<Control> run(const std::vector<Gpu>& gpus, size_t present, uint32_t target, uint64_t limit_ns) {
  for (const Gpu& gpu : gpus) {
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaMemset(&gpu.own->control.partial, 0xff, sizeof(Control) - offsetof(Control, partial)));
    CHECK(cudaDeviceSynchronize());
  }
  for (size_t i = 0; i < present; ++i) {
    CHECK(cudaSetDevice(gpus[i].device));
    norm_of_all<<<1, threads>>>(gpus[i].own->part, &gpus[i].own->control, &gpus[i].mc->control, target, limit_ns);
    CHECK(cudaGetLastError());
  }
  std::vector<Control> after(gpus.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    CHECK(cudaSetDevice(gpus[i].device));
    CHECK(cudaMemcpy(&after[i], &gpus[i].own->control, sizeof(Control), cudaMemcpyDeviceToHost));
  }
  return after;
}

int main(int argc, char** argv) {
  long timeout = 5;
  check::arguments(argc, argv, usage, {{"--timeout", &timeout, 1, 60}});

  // Set-up, not part of the story: what multicast.cu shows in its steps 1 to 6. The kernel is loaded on all GPUs before
  // it runs on any: loading may wait for a running kernel, and this one waits for kernels that may not be loaded yet.
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast here; only whoever runs the machine can lift that");
  std::vector<Gpu> gpus = find_team();
  const uint32_t count = uint32_t(gpus.size());
  for (Gpu& gpu : gpus) {
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaFuncGetAttributes(&loaded, norm_of_all));
    gpu.free_at_start = free_memory(gpu);
  }
  size_t size;
  const CUmemGenericAllocationHandle object = map_replicas(gpus, &size);

  step("[1] Spread a vector over the GPUs");
  // Random numbers below 1, of 24 bits. The counter of every replica starts at 0.
  std::mt19937 random(std::random_device{}());
  double squares = 0;
  for (const Gpu& gpu : gpus) {
    std::vector<float> part(n);
    for (float& number : part) {
      number = float(random() >> 8) * 0x1p-24f;
      squares += double(number) * number;
    }
    CHECK(cudaSetDevice(gpu.device));
    CHECK(cudaMemcpy(gpu.own->part, part.data(), sizeof gpu.own->part, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(&gpu.own->control, 0, sizeof(Control)));
  }
  say("%zu elements on each of %u GPUs", n, count);

  step("[2] Compute its norm in one kernel, twice");
  // The counter is not set back between the rounds, for a GPU may still look at it: the target grows. Between rounds
  // the host waits for all GPUs, or one could overwrite its partial sum while another still reads it.
  // A rounding is off by 2^-24 of the value at most. Each square has one, and then one for each addition on its way: in
  // a thread, in the block, over the GPUs. The root halves what that adds up to: slack for how a switch may round.
  const double expected = std::sqrt(squares);
  const double allowed = expected * (1 + double(n) / threads + std::log2(threads) + count) * 0x1p-24;
  for (uint32_t round = 1; round <= 2; ++round) {
    const std::vector<Control> after = run(gpus, count, round * count, timeout * 1000000000ull);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT(after[i].seen == round * count, "GPU %d saw %u of %u arrivals within %ld s", gpus[i].device, after[i].seen,
             round * count, timeout);
      EXPECT(std::fabs(after[i].norm - expected) <= allowed, "GPU %d: the norm is %.9g, not %.9g (allowed: %.2g off)",
             gpus[i].device, after[i].norm, expected, allowed);
    }
    say("round %u: %u arrivals, and each of %u GPUs has the norm %.3f", round, round * count, count, expected);
  }

  step("[3] Let a GPU stay away");
  // The last GPU gets no kernel. The others wait, give up after 0.2 s by their own clocks, and compute nothing.
  const std::vector<Control> after = run(gpus, count - 1, 3 * count, 200000000);
  for (uint32_t i = 0; i < count; ++i) {
    EXPECT(after[i].arrived == 3 * count - 1, "GPU %d: %u arrivals", gpus[i].device, after[i].arrived);
    EXPECT(std::isnan(after[i].norm), "GPU %d: there is a norm, %.9g", gpus[i].device, after[i].norm);
  }
  say("the last of %u GPUs stays away: %u of %u arrivals, and the others have given up", count, after[0].arrived,
      3 * count);

  step("[4] Tear down");
  for (const Gpu& gpu : gpus) {
    CHECK(cuMulticastUnbind(object, gpu.device, 0, size));
    for (const CUdeviceptr address : {CUdeviceptr(gpu.mc), CUdeviceptr(gpu.own)}) {
      CHECK(cuMemUnmap(address, size));
      CHECK(cuMemAddressFree(address, size));
    }
    CHECK(cuMemRelease(gpu.memory));
  }
  CHECK(cuMemRelease(object));
  for (const Gpu& gpu : gpus)
    EXPECT(free_memory(gpu) == gpu.free_at_start, "GPU %d: %zu bytes are free, not %zu (does another program use it?)",
           gpu.device, free_memory(gpu), gpu.free_at_start);
  say("free memory of every GPU is what it was at the start");
  std::puts("OK");
  return 0;
}
