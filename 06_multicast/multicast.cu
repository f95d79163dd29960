// SPDX-License-Identifier: MIT-0
// 06 Multicast: one load that returns the sum over all GPUs, and one store that reaches every GPU.
// Build it alone:  nvcc -std=c++17 -arch=sm_90 multicast.cu -o multicast -lcuda
#include "../common/check.h"
#include "../common/multimem.h"

#include <algorithm>
#include <cuda/atomic>
#include <vector>

const size_t MiB = 1 << 20;
const int threads = 256, blocks = 400;
const size_t elements = threads * blocks;

// What the memory of each GPU holds.
struct Replica {
  int data[elements], arrived;
};

// One load: the switch reads the replicas of all GPUs, and returns their sum.
__device__ int sum_all(const int* mc) {
  return ptx::multimem_ld_reduce(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc);
}

// One store: the switch writes the value into the replicas of all GPUs.
__device__ void store_all(int* mc, int value) { ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc, value); }

// Each GPU runs this for its share of the elements, which goes from begin to end - 1.
__global__ void all_reduce(Replica* mc, int gpu, int gpus) {
  const size_t begin = elements * gpu / gpus, end = elements * (gpu + 1) / gpus;
  const size_t i = begin + blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < end) store_all(&mc->data[i], sum_all(&mc->data[i]));
}

// One addition: the switch adds 1 to the replicas of all GPUs. As a release, it comes after what this GPU wrote before.
__device__ void add_one_to_all(int* mc) { ptx::multimem_red(ptx::sem_release, ptx::scope_sys, ptx::op_add, mc, 1); }

// One thread of each GPU runs this: it tells all GPUs that its own has come, and waits until so many have arrived.
__global__ void meet(Replica* own, Replica* mc, int arrivals) {
  ptx::fence_proxy_alias();  // lesson 07 is about these fences
  add_one_to_all(&mc->arrived);
  ptx::fence_proxy_alias();

  cuda::atomic_ref<int, cuda::thread_scope_system> arrived(own->arrived);
  for (int tries = 0; arrived.load(cuda::memory_order_acquire) < arrivals; ++tries)
    if (tries == 100'000'000) __trap();  // somebody doesn't come
  ptx::fence_proxy_alias();
}

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

// CUDA may load a kernel only at its first launch. This loads `meet` on every GPU, before anybody waits in it.
static void load_meet(int gpus) {
  for (int gpu = 0; gpu < gpus; ++gpu) {
    cudaFuncAttributes loaded;
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaFuncGetAttributes(&loaded, meet));
  }
}

// On each GPU `data` must hold the sums: first, first + rise, first + 2 * rise and so on.
static void expect_sums(const std::vector<Replica*>& own, int first, int rise) {
  std::vector<int> data(elements);
  for (int gpu = 0; gpu < int(own.size()); ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemcpy(data.data(), own[gpu]->data, sizeof own[gpu]->data, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < elements; ++i)
      EXPECT(data[i] == first + rise * int(i), "GPU %d: element %zu is %d", gpu, i, data[i]);
  }
}

int main() {
  const int gpus = check::require_multicast(all_reduce);  // how many there are; each of them has multicast

  step("[1] Add every GPU, then bind");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmulticastObjectProp object_properties = {};
  object_properties.numDevices = gpus;
  size_t of_memory, of_object;
  CHECK(cuMemGetAllocationGranularity(&of_memory, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMulticastGetGranularity(&of_object, &object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  const size_t granule = std::max(of_memory, of_object);
  EXPECT(granule % of_memory == 0 && granule % of_object == 0, "it doesn't suit both: %zu, %zu", of_memory, of_object);
  const size_t size = (sizeof(Replica) + granule - 1) / granule * granule;
  say("a replica takes %zu bytes: %zu MiB in whole granules", sizeof(Replica), size / MiB);

  CUmemGenericAllocationHandle object;
  object_properties.size = size;  // of one replica, however many there will be
  CHECK(cuMulticastCreate(&object, &object_properties));
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
    fill<<<blocks, threads>>>(own[gpu]->data, elements, gpu + 1);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  say("GPU 0 wrote 1, 2, 3 ... into its memory, and GPU %d wrote %d, %d, %d ...", gpus - 1, gpus, gpus + 1, gpus + 2);

  step("[3] Load the sum, store it everywhere");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    all_reduce<<<blocks / gpus + 1, threads>>>(mc[gpu], gpu, gpus);
    CHECK(cudaGetLastError());
  }
  wait_for_all(gpus);
  const int first = gpus * (gpus + 1) / 2;  // 1 + 2 + ... + gpus
  expect_sums(own, first, gpus);
  say("data[0] is %d on every GPU, and the other %zu sums are right", first, elements - 1);

  step("[4] Let the GPUs wait for each other");
  load_meet(gpus);
  for (int layer = 0, arrivals = 0; layer < 2; ++layer, arrivals += 2 * gpus) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      CHECK(cudaSetDevice(gpu));
      if (layer == 0) fill<<<blocks, threads>>>(own[gpu]->data, elements, 10 * (gpu + 1));
      meet<<<1, 1>>>(own[gpu], mc[gpu], arrivals + gpus);  // now all have their numbers
      all_reduce<<<blocks / gpus + 1, threads>>>(mc[gpu], gpu, gpus);
      meet<<<1, 1>>>(own[gpu], mc[gpu], arrivals + 2 * gpus);  // now all have loaded, and stored their sums
      CHECK(cudaGetLastError());
    }
  }
  wait_for_all(gpus);
  expect_sums(own, gpus * 10 * first, gpus * gpus);
  say("data[0] is %d on every GPU after two layers, and the host waited once", gpus * 10 * first);

  step("[5] Take it down");
  for (Replica* address : mc) unmap(address, size);
  for (Replica* address : own) unmap(address, size);
  for (int gpu = 0; gpu < gpus; ++gpu) CHECK(cuMulticastUnbind(object, gpu, 0, size));
  for (CUmemGenericAllocationHandle handle : memory) CHECK(cuMemRelease(handle));
  CHECK(cuMemRelease(object));
  std::puts("OK");
}
