// SPDX-License-Identifier: MIT-0
// 06 Multicast: one store that reaches every GPU, and one load that returns the sum over all of them.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 multicast.cu -o multicast -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cuda/ptx>
#include <vector>

namespace ptx = cuda::ptx;

// The multimem instructions. `mc` is a multicast address.
#if __CUDA_ARCH__ >= 900
__device__ uint32_t sum_all(const uint32_t* mc) {
  return ptx::multimem_ld_reduce(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc);
}
__device__ void store_all(uint32_t* mc, uint32_t value) {
  ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc, value);
}
__device__ void add_all(uint32_t* mc, uint32_t value) {
  ptx::multimem_red(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc, value);
}
#else  // earlier GPUs have none, and do not come past the gate
__device__ uint32_t sum_all(const uint32_t*) { return 0; }
__device__ void store_all(uint32_t*, uint32_t) { __trap(); }
__device__ void add_all(uint32_t*, uint32_t) { __trap(); }
#endif

constexpr int threads = 256, blocks = 400, n = blocks * threads;

// What the memory of each GPU holds.
struct Replica {
  uint32_t in[n], out[n], arrived;
};

__global__ void fill(Replica* own, uint32_t factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  own->in[i] = factor * (i + 1);
}

__global__ void broadcast(const Replica* own, Replica* mc) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  store_all(&mc->out[i], own->in[i]);
}

__global__ void all_reduce(Replica* mc, int begin, int end) {
  const int i = begin + blockIdx.x * blockDim.x + threadIdx.x;
  if (i < end) store_all(&mc->out[i], sum_all(&mc->in[i]));
}

__global__ void arrive(Replica* mc) { add_all(&mc->arrived, 1); }

// Reserve, map, let one GPU in: as in lesson 01.
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

static void wait_for_all(int gpus) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
}

// On every GPU, `out` must hold factor, 2 * factor, 3 * factor and so on.
static void expect_everywhere(const std::vector<Replica*>& own, uint32_t factor) {
  std::vector<uint32_t> out(n);
  for (size_t gpu = 0; gpu < own.size(); ++gpu) {
    CHECK(cudaSetDevice(int(gpu)));
    CHECK(cudaMemcpy(out.data(), own[gpu]->out, sizeof own[gpu]->out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; ++i) EXPECT(out[i] == factor * (i + 1), "GPU %zu: element %d is %u", gpu, i, out[i]);
  }
}

int main() {
  const int gpus = check::require_multicast(broadcast);

  step("[1] Ask for the granularity");
  CUmulticastObjectProp team = {};
  team.numDevices = gpus;
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  size_t of_object, of_memory;
  CHECK(cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
  CHECK(cuMemGetAllocationGranularity(&of_memory, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t granularity = std::max(of_object, of_memory);  // both are powers of two
  const size_t size = (sizeof(Replica) + granularity - 1) / granularity * granularity;
  say("%zu bytes for each GPU: %zu KiB in whole granules", sizeof(Replica), size >> 10);

  step("[2] Create the object, and add every GPU");
  CUmemGenericAllocationHandle object;
  team.size = size;  // of one replica
  CHECK(cuMulticastCreate(&object, &team));
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  say("a team of %d GPUs, and no memory yet", gpus);

  step("[3] Bind memory of every GPU");
  std::vector<CUmemGenericAllocationHandle> memory(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    memory_on_gpu.location.id = gpu;
    CHECK(cuMemCreate(&memory[gpu], size, &memory_on_gpu, 0));
  }
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, size, 0));

  step("[4] Map both for every GPU");
  std::vector<Replica*> mc(gpus), own(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    mc[gpu] = map(object, size, granularity, gpu);        // its multicast address
    own[gpu] = map(memory[gpu], size, granularity, gpu);  // its unicast address
  }
  say("GPU 0: all replicas at %p, its own at %p", (void*)mc[0], (void*)own[0]);

  step("[5] Fill each GPU's own replica");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemset(own[gpu], 0, size));
    fill<<<blocks, threads>>>(own[gpu], gpu + 1);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  say("1, 2, 3, ... on GPU 0, and %d times that on GPU %d", gpus, gpus - 1);

  step("[6] Store once, to every replica");
  CHECK(cudaSetDevice(0));
  broadcast<<<blocks, threads>>>(own[0], mc[0]);
  CHECK(cudaGetLastError());
  wait_for_all(gpus);
  expect_everywhere(own, 1);
  say("GPU 0 stored %d integers, and all %d GPUs have them", n, gpus);

  step("[7] Load once, and get the sum");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const int begin = n * gpu / gpus, end = n * (gpu + 1) / gpus;
    CHECK(cudaSetDevice(gpu));
    all_reduce<<<(end - begin + threads - 1) / threads, threads>>>(mc[gpu], begin, end);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  const int sum = gpus * (gpus + 1) / 2;  // of 1 to gpus
  expect_everywhere(own, sum);
  say("the first element was 1 to %d, and is %d on all GPUs", gpus, sum);

  step("[8] Add once, to every replica");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    arrive<<<1, threads>>>(mc[gpu]);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    uint32_t arrived;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemcpy(&arrived, &own[gpu]->arrived, sizeof arrived, cudaMemcpyDeviceToHost));
    EXPECT(arrived == uint32_t(gpus * threads), "GPU %d counts %u", gpu, arrived);
  }
  say("%d threads on each of %d GPUs arrived, and every GPU counts %d", threads, gpus, gpus * threads);

  for (int gpu = 0; gpu < gpus; ++gpu) {
    for (Replica* replica : {mc[gpu], own[gpu]}) {
      CHECK(cuMemUnmap(CUdeviceptr(replica), size));
      CHECK(cuMemAddressFree(CUdeviceptr(replica), size));
    }
    CHECK(cuMulticastUnbind(object, gpu, 0, size));
    CHECK(cuMemRelease(memory[gpu]));
  }
  CHECK(cuMemRelease(object));
  std::puts("OK");
}
