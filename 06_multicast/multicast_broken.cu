// SPDX-License-Identifier: MIT-0
// 06 Multicast, broken: what the driver refuses, what waits for ever, what is undefined, and what is wrong without an
// error. Each try has a process of its own.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 -lineinfo multicast_broken.cu -o multicast_broken -lcuda
#include "../common/in_a_process.h"
#include "../common/multimem.h"

// The three instructions of the lesson.
__device__ int sum_all(const int* mc) {
  return ptx::multimem_ld_reduce(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc);
}
__device__ void store_all(int* mc, int value) { ptx::multimem_st(ptx::sem_relaxed, ptx::scope_sys, mc, value); }
__device__ void add_all(int* mc, int value) {
  ptx::multimem_red(ptx::sem_relaxed, ptx::scope_sys, ptx::op_add, mc, value);
}

// Writes first, first + 1, first + 2 and so on: n integers.
__global__ void fill(int* data, size_t n, int first) {
  const size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  if (i < n) data[i] = first + int(i);
}

__global__ void sum(int* own, const int* mc) { *own = sum_all(mc); }
__global__ void raise_flag(int* mc) { store_all(mc, 1); }
__global__ void arrive(int* mc) { add_all(mc, 1); }

// What a try works with: two GPUs, and a replica of one granule.
struct Pair {
  CUmemAllocationProp properties = {};
  CUmulticastObjectProp object_properties = {};
  size_t size = 0;
};

static Pair start() {
  check::require_multicast(sum);
  Pair pair;
  pair.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  pair.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  pair.object_properties.numDevices = 2;
  size_t granule;
  CHECK(cuMulticastGetGranularity(&granule, &pair.object_properties, CU_MULTICAST_GRANULARITY_MINIMUM));
  pair.size = pair.object_properties.size = granule;
  CHECK(cudaSetDevice(0));
  return pair;
}

// Steps 1 and 2 of multicast.cu: the object, and for each GPU its memory and two addresses.
struct Mapped {
  CUmemGenericAllocationHandle object, memory[2];
  int *mc[2], *own[2];
};

static int* map(CUmemGenericAllocationHandle handle, size_t size, int gpu) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return reinterpret_cast<int*>(address);
}

static Mapped map_both(Pair pair) {
  auto& [properties, object_properties, size] = pair;
  Mapped mapped;
  auto& [object, memory, mc, own] = mapped;
  CHECK(cuMulticastCreate(&object, &object_properties));
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  for (int gpu = 0; gpu < 2; ++gpu) {
    properties.location.id = gpu;
    CHECK(cuMemCreate(&memory[gpu], size, &properties, 0));
    CHECK(cuMulticastBindMem(object, 0, memory[gpu], 0, size, 0));
    mc[gpu] = map(object, size, gpu);
    own[gpu] = map(memory[gpu], size, gpu);
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemset(own[gpu], 0, size));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(0));
  return mapped;
}

static void unmap(int* address, size_t size) {
  CHECK(cuMemUnmap(CUdeviceptr(address), size));
  CHECK(cuMemAddressFree(CUdeviceptr(address), size));
}

// The integer there, after the kernels of its GPU.
static int read(const int* own, int gpu) {
  int found;
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMemcpy(&found, own, sizeof found, cudaMemcpyDeviceToHost));
  return found;
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Pair) {});          // a machine that cannot do this says so first

  step("[1] Make a team of one, or forget to round up");
  // A team of one, for instance, where each process counts only the GPU that it was given.
  in_a_process(start, [](Pair pair) {
    auto& [properties, object_properties, granule] = pair;
    CUmemGenericAllocationHandle object;
    object_properties.numDevices = 1;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&object, &object_properties));
    object_properties.numDevices = 2;
    object_properties.size = 100000 * sizeof(int);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&object, &object_properties));
    object_properties.size = (object_properties.size + granule - 1) / granule * granule;
    CHECK(cuMulticastCreate(&object, &object_properties));
    say("right: the GPUs of all processes together, 2 here, and whole granules");
  });

  step("[2] Bind before the team is complete");
  // The call is not refused. It waits for the missing GPU, and here nobody adds it.
  const pid_t waiting = begin_process(start, [](Pair pair) {
    auto& [properties, object_properties, size] = pair;
    CUmemGenericAllocationHandle object, memory;
    CHECK(cuMulticastCreate(&object, &object_properties));  // for two GPUs
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    alarm(10);  // the seconds that the bind gets
    CHECK(cuMulticastAddDevice(object, 0));
    CHECK(cuMulticastBindMem(object, 0, memory, 0, size, 0));
  });
  const int status = status_of(waiting);  // vmmsim sees that the wait has no end: it rings the alarm, or ends with 125
  EXPECT(status == 128 + SIGALRM || status == 125, "the process that binds ended with status %d", status);
  say("cuMulticastBindMem(object, 0, memory, 0, size, 0)\n      -> did not come back");
  in_a_process(start, [](Pair pair) {
    map_both(pair);
    say("right: every GPU added first");
  });

  step("[3] Fill at the multicast address");
  // An ordinary store there is undefined: a GPU may do anything, and need not tell. Here is printed what this one did.
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    fill<<<1, 256>>>(mc[0], 256, 1);
    CHECK(cudaGetLastError());
    say("cudaDeviceSynchronize()\n      -> %s", check::name(cudaDeviceSynchronize()));
  });
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    fill<<<1, 256>>>(own[0], 256, 1);
    CHECK(cudaGetLastError());
    EXPECT(read(own[0] + 255, 0) == 256, "the integers are not there");
    say("right: at the unicast address");
  });

  step("[4] Load before all have written");
  // There is no error, only a sum of what was there: here GPU 1 writes its 2 after GPU 0 has loaded the sum.
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    fill<<<1, 1>>>(own[0], 1, 1);
    sum<<<1, 1>>>(own[0] + 1, mc[0]);
    CHECK(cudaGetLastError());
    say("1 + 2\n      -> %d", read(own[0] + 1, 0));
    CHECK(cudaSetDevice(1));
    fill<<<1, 1>>>(own[1], 1, 2);
    CHECK(cudaDeviceSynchronize());  // GPU 0 has waited in read()

    CHECK(cudaSetDevice(0));
    sum<<<1, 1>>>(own[0] + 1, mc[0]);
    CHECK(cudaGetLastError());
    const int found = read(own[0] + 1, 0);
    EXPECT(found == 3, "the sum is %d", found);
    say("right: wait for every GPU first; it is %d", found);
  });

  step("[5] Store instead of adding");
  // There is no error: a store replaces what the other threads have stored.
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    raise_flag<<<1, 256>>>(mc[0]);
    CHECK(cudaGetLastError());
    say("256 threads arrived, and GPU 0 counts\n      -> %d", read(own[0], 0));
  });
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    arrive<<<1, 256>>>(mc[0]);
    CHECK(cudaGetLastError());
    for (int gpu = 0; gpu < 2; ++gpu) EXPECT(read(own[gpu], gpu) == 256, "GPU %d counts otherwise", gpu);
    say("right: multimem.red; both GPUs count 256");
  });

  step("[6] Release the object first");
  // To use a handle that was released is undefined. Here is printed what this driver answers.
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    CHECK(cuMemRelease(object));
    for (int gpu = 0; gpu < 2; ++gpu) {
      unmap(mc[gpu], pair.size);
      unmap(own[gpu], pair.size);
    }
    say("cuMulticastUnbind(object, 0, 0, size)\n      -> %s", check::name(cuMulticastUnbind(object, 0, 0, pair.size)));
  });
  in_a_process(start, [](Pair pair) {
    const auto [object, memory, mc, own] = map_both(pair);
    for (int gpu = 0; gpu < 2; ++gpu) {
      unmap(mc[gpu], pair.size);
      unmap(own[gpu], pair.size);
      CHECK(cuMulticastUnbind(object, gpu, 0, pair.size));
      CHECK(cuMemRelease(memory[gpu]));
    }
    CHECK(cuMemRelease(object));
    say("right: unmap, unbind, release the memory, and at last the object");
  });

  std::puts("OK");
}
