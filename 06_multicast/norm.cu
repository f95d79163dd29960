// SPDX-License-Identifier: MIT-0
// 06 Multicast, a norm: how do GPUs wait for each other inside a kernel?
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 norm.cu -o norm -lcuda
#include "../common/check.h"
#include "../common/multimem.h"

#include <algorithm>
#include <cmath>
#include <cuda/atomic>
#include <string>
#include <vector>

constexpr int threads = 1024, n = 100 * threads;  // one block, and n elements, on each GPU
constexpr int rounds = 2;
constexpr uint64_t second = 1000000000;  // in nanoseconds
constexpr float too_late = -1;           // instead of a norm, which is never negative

// What the memory of each GPU holds.
struct Replica {
  uint32_t arrived;    // how often a GPU has arrived: it only grows
  float partial[2];    // the sum of this GPU's squares: in even rounds, in odd ones
  float norm[rounds];  // what this GPU has found
  float part[n];       // this GPU's part of the vector
};

// Adds 1 to the counter in every replica: a release.
__device__ void arrive(uint32_t* mc) { ptx::multimem_red(ptx::sem_release, ptx::scope_sys, ptx::op_add, mc, 1u); }

#if __CUDA_ARCH__ >= 900
// Returns the sum over all replicas. It's written as PTX, because cuda::ptx has no ld_reduce for a float.
__device__ float sum_all(const float* mc) {
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
               : "=f"(sum)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return sum;
}
#else  // earlier GPUs don't have it, and don't come past require_multicast
__device__ float sum_all(const float*) {
  __trap();
  return 0;
}
#endif

// The sum of this GPU's squares, for thread 0 of the block.
__device__ float sum_of_squares(const float* part) {
  __shared__ float sums[threads];
  float mine = 0;
  for (int i = threadIdx.x; i < n; i += threads) mine += part[i] * part[i];
  sums[threadIdx.x] = mine;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[threadIdx.x];
}

// One thread of each GPU calls this: the norm of the whole vector, or too_late if somebody hasn't come in time.
__device__ float norm_of_all(Replica* own, Replica* mc, float sum, int round, uint32_t expected, uint64_t limit_ns) {
  own->partial[round % 2] = sum;  // at the unicast address
  ptx::fence_proxy_alias();       // fence 1
  arrive(&mc->arrived);           // at the multicast address, a release
  ptx::fence_proxy_alias();       // fence 2

  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> arrived(own->arrived);
  const uint64_t start = ptx::get_sreg_globaltimer();
  while (arrived.load(cuda::memory_order_acquire) < expected)  // at the unicast address
    if (ptx::get_sreg_globaltimer() - start > limit_ns) return too_late;

  ptx::fence_proxy_alias();                        // fence 3
  return sqrtf(sum_all(&mc->partial[round % 2]));  // at the multicast address
}

// Divides the vector by its norm, and takes the norm again. One block on each GPU, all at the same time.
__global__ void normalise(Replica* own, Replica* mc, uint32_t gpus, uint64_t limit_ns) {
  __shared__ float norm;
  for (int round = 0; round < rounds; ++round) {
    const float sum = sum_of_squares(own->part);
    if (threadIdx.x == 0) {
      norm = norm_of_all(own, mc, sum, round, (round + 1) * gpus, limit_ns);
      own->norm[round] = norm;
    }
    __syncthreads();
    if (norm == too_late) return;
    for (int i = threadIdx.x; i < n; i += threads) own->part[i] /= norm;
  }
}

struct Gpu {
  CUmemGenericAllocationHandle memory;
  Replica *mc, *own;
};

// Reserves addresses, maps memory or the object there, and lets one GPU in.
static Replica* map(CUmemGenericAllocationHandle handle, size_t size, size_t granule, int gpu) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, granule, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return reinterpret_cast<Replica*>(address);
}

// Steps 1 and 2 of multicast.cu. Sets the size of a replica.
static CUmemGenericAllocationHandle map_replicas(std::vector<Gpu>& gpus, size_t* size) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = unsigned(gpus.size());

  size_t of_memory, of_object;
  CHECK(cuMemGetAllocationGranularity(&of_memory, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  const size_t granule = std::max(of_memory, of_object);
  *size = object_properties.size = (sizeof(Replica) + granule - 1) / granule * granule;

  CUmemGenericAllocationHandle object;
  CHECK(cuMulticastCreate(&object, &object_properties));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) CHECK(cuMulticastAddDevice(object, int(gpu)));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    properties.location.id = int(gpu);
    CHECK(cuMemCreate(&gpus[gpu].memory, *size, &properties, 0));
    CHECK(cuMulticastBindMem(object, 0, gpus[gpu].memory, 0, *size, 0));
    gpus[gpu].mc = map(object, *size, granule, int(gpu));
    gpus[gpu].own = map(gpus[gpu].memory, *size, granule, int(gpu));
  }
  return object;
}

// Fills GPU 0's part with ones, GPU 1's with twos and so on, and sets all counters to 0. No kernel may be running.
static void start_over(const std::vector<Gpu>& gpus) {
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    const std::vector<float> part(n, float(gpu + 1));
    CHECK(cudaSetDevice(int(gpu)));
    CHECK(cudaMemset(gpus[gpu].own, 0, sizeof(Replica)));
    CHECK(cudaMemcpy(gpus[gpu].own->part, part.data(), sizeof gpus[gpu].own->part, cudaMemcpyHostToDevice));
    CHECK(cudaDeviceSynchronize());
  }
}

enum class Wait { not_at_all, for_all };

// Runs the kernel on the first `present` GPUs. Returns the replica of every GPU.
static std::vector<Replica> run(const std::vector<Gpu>& gpus, size_t present, Wait wait, uint64_t limit_ns) {
  start_over(gpus);
  for (size_t gpu = 0; gpu < present; ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    normalise<<<1, threads>>>(gpus[gpu].own, gpus[gpu].mc, wait == Wait::for_all ? gpus.size() : 0, limit_ns);
    CHECK(cudaGetLastError());
    if (wait == Wait::not_at_all) CHECK(cudaDeviceSynchronize());  // and none begins before the one before it has ended
  }
  std::vector<Replica> after(gpus.size());
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    CHECK(cudaMemcpy(&after[gpu], gpus[gpu].own, sizeof(Replica), cudaMemcpyDeviceToHost));
  }
  return after;
}

int main() {
  const int count = check::require_multicast(normalise);
  for (int gpu = 0; gpu < count; ++gpu) {  // this loads the kernel: once one of them waits, it could be too late
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFuncGetAttributes(&loaded, normalise));
  }
  std::vector<Gpu> gpus(count);
  size_t size;
  const CUmemGenericAllocationHandle object = map_replicas(gpus, &size);

  step("[1] Add up without waiting");
  std::vector<Replica> after = run(gpus, count, Wait::not_at_all, 0);
  float squares = 0;  // exact, as on the GPUs: all these sums are small integers times a power of two
  std::string norms;
  for (int gpu = 0; gpu < count; ++gpu) {
    squares += float(n) * float((gpu + 1) * (gpu + 1));
    const float found = after[gpu].norm[0];
    EXPECT(found == std::sqrt(squares), "GPU %d finds the norm %.9g", gpu, found);
    norms += (gpu ? ", " : "") + std::to_string(std::lround(found));
  }
  const float expected = std::sqrt(squares);
  say("GPUs 0 to %d find %d different norms:", count - 1, count);
  say("%s", norms.c_str());

  step("[2] Wait for all, and add up");
  after = run(gpus, count, Wait::for_all, 5 * second);
  for (int gpu = 0; gpu < count; ++gpu) {
    const float* const norm = after[gpu].norm;
    EXPECT(norm[0] == expected, "GPU %d: the norm is %.9g, not %.9g", gpu, norm[0], expected);
    EXPECT(std::fabs(norm[1] - 1) < 1e-4, "GPU %d: after the division the norm is %.9g", gpu, norm[1]);
    EXPECT(after[gpu].arrived == uint32_t(rounds * count), "GPU %d: %u arrivals", gpu, after[gpu].arrived);
  }
  say("each of %d GPUs finds the norm %.3f, and divides by it", count, expected);
  say("in the same kernel, each then finds the norm %.3f", after[0].norm[1]);

  step("[3] Let a GPU stay away");
  after = run(gpus, count - 1, Wait::for_all, second / 5);
  for (int gpu = 0; gpu < count; ++gpu) {
    EXPECT(after[gpu].arrived == uint32_t(count - 1), "GPU %d: %u arrivals", gpu, after[gpu].arrived);
    EXPECT(gpu == count - 1 || after[gpu].norm[0] == too_late, "GPU %d: there is a norm", gpu);
  }
  say("%u of %d have arrived, and give up", after[0].arrived, count);

  for (const Gpu& gpu : gpus) {
    for (Replica* replica : {gpu.mc, gpu.own}) {
      CHECK(cuMemUnmap(CUdeviceptr(replica), size));
      CHECK(cuMemAddressFree(CUdeviceptr(replica), size));
    }
    CHECK(cuMulticastUnbind(object, int(&gpu - gpus.data()), 0, size));
    CHECK(cuMemRelease(gpu.memory));
  }
  CHECK(cuMemRelease(object));
  std::puts("OK");
}
