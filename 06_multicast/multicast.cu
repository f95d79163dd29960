// SPDX-License-Identifier: MIT-0
// 06 Multicast: one load that returns the sum over all GPUs, and one store that reaches every GPU.
// Build it alone:  nvcc -std=c++17 -arch=sm_90 multicast.cu -o multicast -lcuda
#include "../common/check.h"

#include <algorithm>
#include <cuda/ptx>
#include <vector>

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
namespace ptx = cuda::ptx;
#else  // Earlier GPUs have no multimem instructions, and require_multicast turns them away. But this has to compile.
namespace ptx {
using namespace cuda::ptx;
template <class... Any> __device__ int multimem_ld_reduce(Any...) {
  __trap();
  return 0;
}
template <class... Any> __device__ void multimem_st(Any...) { __trap(); }
template <class... Any> __device__ void multimem_red(Any...) { __trap(); }
}  // namespace ptx
#endif

const size_t MiB = 1 << 20;
const int threads = 256, blocks = 400;
const size_t n = threads * blocks;

// What the memory of each GPU holds.
struct Replica {
  int in[n], out[n], arrived;
};

// One load: the switch reads the replicas of all GPUs, and returns their sum.
__device__ int sum_all(const int* mc) {
  return ptx::multimem_ld_reduce(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc);
}

// One store: the switch writes the value into the replicas of all GPUs.
__device__ void store_all(int* mc, int value) { ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc, value); }

// Each GPU runs this for its share of the elements, which goes from begin to end - 1.
__global__ void all_reduce(Replica* mc, size_t begin, size_t end) {
  const size_t i = begin + blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < end) store_all(&mc->out[i], sum_all(&mc->in[i]));
}

// One addition: the switch adds the value to the replicas of all GPUs.
__device__ void add_all(int* mc, int value) {
  ptx::multimem_red(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc, value);
}

// Each thread tells every GPU that it has come this far.
__global__ void arrive(Replica* mc) { add_all(&mc->arrived, 1); }

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

// Reserves addresses, maps memory or an object there, and lets one GPU in.
static Replica* map(CUmemGenericAllocationHandle handle, size_t size, size_t granule, int gpu) {
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, granule, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));

  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return reinterpret_cast<Replica*>(address);
}

static void unmap(Replica* replica, size_t size) {
  CHECK(cuMemUnmap(CUdeviceptr(replica), size));
  CHECK(cuMemAddressFree(CUdeviceptr(replica), size));
}

static void wait_for_all(int gpus) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
}

// On each GPU `out` must hold the sums: the first one, and each later one larger by the number of GPUs.
static void expect_sums(const std::vector<Replica*>& own, int first) {
  const int gpus = int(own.size());
  std::vector<int> out(n);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemcpy(out.data(), own[gpu]->out, sizeof own[gpu]->out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; ++i) EXPECT(out[i] == first + gpus * int(i), "GPU %d: element %zu is %d", gpu, i, out[i]);
  }
}

int main() {
  const int gpus = check::require_multicast(all_reduce);  // how many there are; each of them has multicast

  step("[1] Add every GPU, then bind");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmulticastObjectProp team = {};
  team.numDevices = gpus;

  size_t of_memory, of_object;
  CHECK(cuMemGetAllocationGranularity(&of_memory, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&of_object, &team, CU_MULTICAST_GRANULARITY_MINIMUM));
  const size_t granule = std::max(of_memory, of_object);  // both are powers of two
  const size_t size = (sizeof(Replica) + granule - 1) / granule * granule;
  say("a replica takes %zu bytes: %zu MiB in whole granules", sizeof(Replica), size / MiB);

  CUmemGenericAllocationHandle object;
  team.size = size;  // of one replica, however many there will be
  CHECK(cuMulticastCreate(&object, &team));
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));

  std::vector<CUmemGenericAllocationHandle> memory(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    properties.location.id = gpu;
    CHECK(cuMemCreate(&memory[gpu], size, &properties, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, size, 0));
  }
  say("the object leads to memory of %d GPUs", gpus);

  step("[2] Map two addresses for each GPU");
  std::vector<Replica*> mc(gpus), own(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    mc[gpu] = map(object, size, granule, gpu);        // multicast: all replicas
    own[gpu] = map(memory[gpu], size, granule, gpu);  // unicast: this GPU's replica

    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemset(own[gpu], 0, size));
    fill<<<blocks, threads>>>(own[gpu]->in, n, gpu + 1);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  say("GPU 0 wrote 1, 2, 3 ... into its memory, and GPU %d wrote %d, %d, %d ...", gpus - 1, gpus, gpus + 1, gpus + 2);

  step("[3] Load the sum, store it everywhere");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const size_t begin = n * gpu / gpus, end = n * (gpu + 1) / gpus;  // its share
    CHECK(cudaSetDevice(gpu));
    all_reduce<<<(end - begin + threads - 1) / threads, threads>>>(mc[gpu], begin, end);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);

  const int first = gpus * (gpus + 1) / 2;  // 1 + 2 + ... + gpus
  expect_sums(own, first);
  say("out[0] is %d on every GPU, and the other %zu sums are right", first, n - 1);

  step("[4] Count who has arrived");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    arrive<<<1, threads>>>(mc[gpu]);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);

  for (int gpu = 0; gpu < gpus; ++gpu) {
    int arrived;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemcpy(&arrived, &own[gpu]->arrived, sizeof arrived, cudaMemcpyDeviceToHost));
    EXPECT(arrived == gpus * threads, "GPU %d counts %d", gpu, arrived);
  }
  say("%d threads on each of %d GPUs arrived, and every GPU counts %d", threads, gpus, gpus * threads);

  step("[5] Take it down");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    unmap(mc[gpu], size);
    unmap(own[gpu], size);
    CHECK(cuMulticastUnbind(object, gpu, 0, size));
    CHECK(cuMemRelease(memory[gpu]));
  }
  CHECK(cuMemRelease(object));
  std::puts("OK");
}
