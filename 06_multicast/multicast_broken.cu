// SPDX-License-Identifier: MIT-0
// 06 Multicast, broken: what the driver refuses, what waits for ever, and what is undefined. Each try has a process of
// its own.
//
// Build it alone:  nvcc -std=c++17 -arch=sm_90 -lineinfo multicast_broken.cu -o multicast_broken -lcuda
#include "../common/in_a_process.h"

// What a try works with: the size is that of the object, of one granule.
struct Pair {
  CUmemAllocationProp properties = {};
  CUmulticastObjectProp team = {};
  CUmemAccessDesc everyone[2] = {};
  size_t size = 0;
};

// An ordinary store, and the one that goes to all replicas.
__global__ void store(int* to, int value) { *to = value; }
__global__ void store_all(int* mc, int value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(mc)), "r"(value)
               : "memory");
#else  // earlier GPUs have none, and do not come past the gate
  *mc = value;
#endif
}

static Pair start() {
  check::require_multicast(store_all);
  Pair pair;
  pair.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  pair.properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  for (const CUdevice gpu : {0, 1}) {
    pair.everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    pair.everyone[gpu].location.id = gpu;
    pair.everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  pair.team.numDevices = 2;
  size_t granularity;
  CHECK(cuMulticastGetGranularity(&granularity, &pair.team, CU_MULTICAST_GRANULARITY_MINIMUM));
  pair.size = pair.team.size = granularity;
  CHECK(cudaSetDevice(0));
  return pair;
}

static CUmemGenericAllocationHandle create_and_add(const CUmulticastObjectProp& team) {
  CUmemGenericAllocationHandle object;
  CHECK(cuMulticastCreate(&object, &team));
  for (const CUdevice gpu : {0, 1}) CHECK(cuMulticastAddDevice(object, gpu));
  return object;
}

// Memory of a GPU, bound to the object at offset 0, and mapped at an address of its own.
static CUdeviceptr bind_and_map(const Pair& pair, CUmemGenericAllocationHandle object, CUdevice gpu) {
  auto [properties, team, everyone, size] = pair;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  properties.location.id = gpu;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMulticastBindMem(object, 0, memory, 0, size, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemSetAccess(address, size, everyone, 2));
  return address;
}

// An object for both GPUs, mapped for GPU 0. Sets where each replica is mapped.
static int* map_object(const Pair& pair, CUdeviceptr (&replica)[2]) {
  const auto& [properties, team, everyone, size] = pair;
  const CUmemGenericAllocationHandle object = create_and_add(team);
  CUdeviceptr mc;
  for (const CUdevice gpu : {0, 1}) replica[gpu] = bind_and_map(pair, object, gpu);
  CHECK(cuMemAddressReserve(&mc, size, 0, 0, 0));
  CHECK(cuMemMap(mc, size, 0, object, 0));
  CHECK(cuMemSetAccess(mc, size, everyone, 1));  // for GPU 0: another GPU gets a mapping of its own
  return reinterpret_cast<int*>(mc);
}

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // no child inherits a line that is not written yet
  in_a_process(start, [](Pair) {});          // a machine that cannot do this says so first

  step("[1] Make a team of one");
  // For instance where each process counts only the GPU that it was given.
  in_a_process(start, [](Pair pair) {
    auto& [properties, team, everyone, size] = pair;
    CUmemGenericAllocationHandle object;
    team.numDevices = 1;
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&object, &team));
    team.numDevices = 2;
    CHECK(cuMulticastCreate(&object, &team));
    say("right: the GPUs of all processes together, 2 here");
  });

  step("[2] Create it with the size of the data");
  // An object comes in whole granules. Its granularity is asked of cuMulticastGetGranularity.
  in_a_process(start, [](Pair pair) {
    auto& [properties, team, everyone, granularity] = pair;
    CUmemGenericAllocationHandle object;
    team.size = 100000 * sizeof(float);
    REFUSED(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&object, &team));
    team.size = (team.size + granularity - 1) / granularity * granularity;
    CHECK(cuMulticastCreate(&object, &team));
    say("right: rounded up to the granularity");
  });

  step("[3] Map a part of it");
  // An object is mapped whole, from offset 0 on, as memory is.
  in_a_process(start, [](Pair pair) {
    auto& [properties, team, everyone, size] = pair;
    CUdeviceptr mc;
    team.size = 2 * size;
    const CUmemGenericAllocationHandle object = create_and_add(team);
    CHECK(cuMemAddressReserve(&mc, 2 * size, 0, 0, 0));
    REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(mc, size, size, object, 0));
    CHECK(cuMemMap(mc, 2 * size, 0, object, 0));
    say("right: all of it; to use a part, add to the address");
  });

  step("[4] Bind before the team is complete");
  // The call is not refused. It waits for the missing GPU, and here nobody adds it.
  const pid_t waiting = begin_process(start, [](Pair pair) {
    auto& [properties, team, everyone, size] = pair;
    CUmemGenericAllocationHandle object, memory;
    CHECK(cuMulticastCreate(&object, &team));  // for two GPUs
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    alarm(10);  // the seconds that the bind gets
    CHECK(cuMulticastAddDevice(object, 0));
    CHECK(cuMulticastBindMem(object, 0, memory, 0, size, 0));
  });
  const int status = status_of(waiting);  // vmmsim sees at once that the wait has no end, and ends it with status 125
  EXPECT(status == 128 + SIGALRM || status == 125, "the process that binds ended with status %d", status);
  say("cuMulticastBindMem(object, 0, memory, 0, size, 0)\n      -> did not come back");
  in_a_process(start, [](Pair pair) {
    auto& [properties, team, everyone, size] = pair;
    CUmemGenericAllocationHandle object, memory;
    CHECK(cuMulticastCreate(&object, &team));
    CHECK(cuMemCreate(&memory, size, &properties, 0));
    for (const CUdevice gpu : {0, 1}) CHECK(cuMulticastAddDevice(object, gpu));
    CHECK(cuMulticastBindMem(object, 0, memory, 0, size, 0));
    say("right: every GPU added first");
  });

  step("[5] Store with an ordinary instruction");
  // Undefined: a GPU may do anything with it, and need not tell. So here is printed what this one did.
  in_a_process(start, [](Pair pair) {
    CUdeviceptr replica[2];
    int* const mc = map_object(pair, replica);
    store<<<1, 1>>>(mc, 42);
    CHECK(cudaGetLastError());
    say("cudaDeviceSynchronize()\n      -> %s", check::name(cudaDeviceSynchronize()));
  });
  in_a_process(start, [](Pair pair) {
    CUdeviceptr replica[2];
    int* const mc = map_object(pair, replica);
    store_all<<<1, 1>>>(mc, 42);
    CHECK(cudaGetLastError());
    for (const CUdeviceptr address : replica) {
      int found = -1;
      CHECK(cudaMemcpy(&found, reinterpret_cast<void*>(address), sizeof found, cudaMemcpyDeviceToHost));
      EXPECT(found == 42, "there is %d in a replica", found);
    }
    say("right: multimem.st; both replicas hold the value");
  });

  std::puts("OK");
}
