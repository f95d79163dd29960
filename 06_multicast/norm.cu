// SPDX-License-Identifier: MIT-0
// 06 Multicast, a norm: how do GPUs wait for each other inside a kernel?
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 norm.cu -o norm -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cuda/atomic>
#include <cuda/ptx>
#include <vector>

namespace ptx = cuda::ptx;

constexpr int threads = 1024, n = 100 * threads;  // one block, and n elements, on each GPU

// What the memory of each GPU holds.
struct Replica {
  uint32_t arrived;  // how often a GPU has arrived, since the start: it only grows
  float partial;     // the sum of this GPU's squares
  uint32_t seen;     // how many arrivals this GPU has seen
  float norm;        // the result
  float part[n];     // this GPU's part of the vector
};

#if __CUDA_ARCH__ >= 900
__device__ void arrive(uint32_t* mc) { ptx::multimem_red(ptx::sem_release, ptx::scope_sys, ptx::op_add, mc, 1u); }
__device__ float sum_all(const float* mc) {  // as PTX: cuda::ptx has ld_reduce for integers only
  float sum;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.f32 %0, [%1];"
               : "=f"(sum)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
  return sum;
}
#else  // earlier GPUs have no such instructions, and main() says so if the program was built for those only
__device__ void arrive(uint32_t*) { __trap(); }
__device__ float sum_all(const float*) { return 0; }
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

// One block on each GPU, all at the same time.
__global__ void norm_of_all(Replica* own, Replica* mc, uint32_t target, uint64_t limit_ns) {
  const float partial = sum_of_squares(own->part);
  if (threadIdx.x != 0) return;

  own->partial = partial;    // written at the unicast address
  ptx::fence_proxy_alias();  // and to be read at the multicast address
  arrive(&mc->arrived);      // release: who sees this arrival sees what is above
  ptx::fence_proxy_alias();  // counted at the multicast address, and to be read at the unicast address

  cuda::atomic_ref<uint32_t, cuda::thread_scope_system> arrived(own->arrived);
  const uint64_t start = ptx::get_sreg_globaltimer();
  do own->seen = arrived.load(cuda::memory_order_acquire);  // acquire: the other half of the release
  while (own->seen < target && ptx::get_sreg_globaltimer() - start < limit_ns);
  if (own->seen < target) return;  // somebody did not arrive: the host will say so

  ptx::fence_proxy_alias();  // the arrivals were seen at the unicast address, the sums are at the multicast address
  own->norm = sqrtf(sum_all(&mc->partial));
}

struct Gpu {
  CUmemGenericAllocationHandle memory;
  Replica *mc, *own;
};

static Replica* map(CUmemGenericAllocationHandle handle, size_t size, size_t granularity, int gpu) {
  CUdeviceptr address;
  CUmemAccessDesc this_gpu = {};
  this_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  this_gpu.location.id = gpu;
  this_gpu.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemAddressReserve(&address, size, granularity, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &this_gpu, 1));
  return reinterpret_cast<Replica*>(address);
}

// Steps 1 to 4 of multicast.cu. Sets the size of a replica.
static CUmemGenericAllocationHandle map_replicas(std::vector<Gpu>& gpus, size_t* size) {
  CUmemGenericAllocationHandle object;
  CUmulticastObjectProp team = {};
  team.numDevices = unsigned(gpus.size());
  team.size = sizeof(Replica);
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t of_object, of_memory;
  CHECK(cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(cuMemGetAllocationGranularity(&of_memory, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t granularity = std::max(of_object, of_memory);
  *size = team.size = (sizeof(Replica) + granularity - 1) / granularity * granularity;
  CHECK(cuMulticastCreate(&object, &team));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) CHECK(cuMulticastAddDevice(object, int(gpu)));
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    memory_on_gpu.location.id = int(gpu);
    CHECK(cuMemCreate(&gpus[gpu].memory, *size, &memory_on_gpu, 0));
    CHECK(cuMulticastBindMem(object, 0, gpus[gpu].memory, 0, *size, 0));
    gpus[gpu].mc = map(object, *size, granularity, int(gpu));
    gpus[gpu].own = map(gpus[gpu].memory, *size, granularity, int(gpu));
  }
  return object;
}

// Launches the kernel on the first `present` GPUs, and only then waits for any of them. Returns each GPU's replica.
static std::vector<Replica> run(const std::vector<Gpu>& gpus, size_t present, uint32_t target, uint64_t limit_ns) {
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    CHECK(cudaMemset(&gpus[gpu].own->norm, 0xff, sizeof(float)));  // not a number
    CHECK(cudaDeviceSynchronize());
  }
  for (size_t gpu = 0; gpu < present; ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    norm_of_all<<<1, threads>>>(gpus[gpu].own, gpus[gpu].mc, target, limit_ns);
    CHECK(cudaGetLastError());
  }
  std::vector<Replica> after(gpus.size());
  for (size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    CHECK(cudaMemcpy(&after[gpu], gpus[gpu].own, sizeof(Replica), cudaMemcpyDeviceToHost));
  }
  return after;
}

int main() {
  const char* nvls = std::getenv("NCCL_NVLS_ENABLE");
  REQUIRE(!nvls || std::strtol(nvls, nullptr, 0), "NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine");
  const int count = check::require_gpus(2);
  check::require_gpus(count, {{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                               "a GPU without multicast; choose others with CUDA_VISIBLE_DEVICES"}});
  for (int gpu = 0; gpu < count; ++gpu) {  // this loads the kernel: once one of them waits, it could be too late
    cudaFuncAttributes built;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFuncGetAttributes(&built, norm_of_all));
    EXPECT(built.ptxVersion >= 90, "no multimem in this build; use nvcc -std=c++17 -arch=sm_90");
  }
  std::vector<Gpu> gpus(count);
  size_t size;
  const CUmemGenericAllocationHandle object = map_replicas(gpus, &size);

  step("[1] Spread a vector over the GPUs");
  double squares = 0;
  for (int gpu = 0; gpu < count; ++gpu) {
    const std::vector<float> part(n, float(gpu + 1));
    squares += double(n) * (gpu + 1) * (gpu + 1);
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemset(&gpus[gpu].own->arrived, 0, sizeof(uint32_t)));
    CHECK(cudaMemcpy(gpus[gpu].own->part, part.data(), sizeof gpus[gpu].own->part, cudaMemcpyHostToDevice));
  }
  say("%d elements on each of %d GPUs: ones on GPU 0, twos on GPU 1, and so on", n, count);

  step("[2] Compute its norm in one kernel, twice");
  const float expected = std::sqrt(float(squares));  // exact until the root: every sum is 100 times a small integer
  for (int round = 1; round <= 2; ++round) {
    const std::vector<Replica> after = run(gpus, count, round * count, 5000000000);
    for (int gpu = 0; gpu < count; ++gpu) {
      EXPECT(after[gpu].seen == uint32_t(round * count), "GPU %d saw %u of %d arrivals", gpu, after[gpu].seen,
             round * count);
      EXPECT(after[gpu].norm == expected, "GPU %d: the norm is %.9g, not %.9g", gpu, after[gpu].norm, expected);
    }
    say("round %d: %d arrivals, and each of %d GPUs has the norm %.3f", round, round * count, count, expected);
  }

  step("[3] Let a GPU stay away");
  const std::vector<Replica> after = run(gpus, count - 1, 3 * count, 200000000);  // they wait for 0.2 s
  for (int gpu = 0; gpu < count; ++gpu) {
    EXPECT(after[gpu].arrived == uint32_t(3 * count - 1), "GPU %d: %u arrivals", gpu, after[gpu].arrived);
    EXPECT(std::isnan(after[gpu].norm), "GPU %d: there is a norm, %.9g", gpu, after[gpu].norm);
  }
  say("%u of %d arrivals, and the others have given up", after[0].arrived, 3 * count);

  for (int gpu = 0; gpu < count; ++gpu) {
    CHECK(cuMulticastUnbind(object, gpu, 0, size));
    for (Replica* replica : {gpus[gpu].mc, gpus[gpu].own}) {
      CHECK(cuMemUnmap(CUdeviceptr(replica), size));
      CHECK(cuMemAddressFree(CUdeviceptr(replica), size));
    }
    CHECK(cuMemRelease(gpus[gpu].memory));
  }
  CHECK(cuMemRelease(object));
  std::puts("OK");
}
