// SPDX-License-Identifier: MIT-0
// Multicast as public single-process programs use it: memory of cudaMalloc bound by its address, the object mapped once
// for each GPU at an address of its own and open to that GPU alone; and ordinary loads, stores, copies and memsets
// there. Without an argument all that has a result; with one, an access that may fault, whose answer is printed. For
// the simulator only: on hardware such an access is undefined.
#include <sys/wait.h>
#include <unistd.h>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>
#include "check.h"

namespace {

constexpr int team[] = {1, 2};  // of three GPUs, so that a GPU's number is not its place in the team
constexpr size_t size = 2 << 20, words = size / 4;

// NCCL_NVLS_ENABLE=0 is a site's refusal. Read as NCCL reads it: a number that is 0.
bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

__global__ void store(uint32_t* to, uint32_t value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value + threadIdx.x; }
__global__ void load(const uint32_t* from, uint32_t* to) { to[threadIdx.x] = from[threadIdx.x]; }
__global__ void add(uint32_t* to) { atomicAdd(to, 1); }
__global__ void store_all(uint32_t* mc, uint32_t value) {
  asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(mc)), "r"(value));
}
__global__ void sum_all(const uint32_t* mc, uint32_t* to) {
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.u32 %0, [%1];"
               : "=r"(*to)
               : "l"(__cvta_generic_to_global(mc))
               : "memory");
}

CUmemGenericAllocationHandle object;
uint32_t* own[2];        // each GPU's memory, by its own address
uint32_t* mc[2];         // the object, as each GPU has it mapped
uint32_t* elsewhere[2];  // memory that is not bound

size_t free_memory() {
  size_t now, total, all = 0;
  for (const int gpu : team) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaMemGetInfo(&now, &total));
    all += now;
  }
  return all;
}

void make(int bound = 2) {
  CUmulticastObjectProp properties = {};  // handleTypes 0
  properties.numDevices = 2;
  CHECK(cuMulticastGetGranularity(&properties.size, &properties, CU_MULTICAST_GRANULARITY_MINIMUM));  // of size 0
  EXPECT(properties.size == size, "the granularity is %zu", properties.size);
  CHECK(cuMulticastCreate(&object, &properties));
  for (const int gpu : team) CHECK(cuMulticastAddDevice(object, gpu));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(team[i]));
    CHECK(cudaMalloc(&own[i], size));
    CHECK(cudaMalloc(&elsewhere[i], size));
    CHECK(cudaMemset(own[i], 0, size));
    CHECK(cudaDeviceSynchronize());
    if (i < bound) CHECK(cuMulticastBindAddr(object, 0, CUdeviceptr(own[i]), size, 0));
    CUdeviceptr address;
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    CHECK(cuMemMap(address, size, 0, object, 0));
    CUmemAccessDesc access = {};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = team[i];
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CHECK(cuMemSetAccess(address, size, &access, 1));
    mc[i] = reinterpret_cast<uint32_t*>(address);
  }
  EXPECT(mc[0] != mc[1], "both GPUs have it at one address");
  CHECK(cudaSetDevice(team[0]));
}

void unmake() {
  for (int i = 0; i < 2; ++i) {
    const auto address = CUdeviceptr(mc[i]);
    EXPECT(cuMemAddressFree(address, size) == CUDA_ERROR_INVALID_VALUE, "what is mapped was freed");
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
    CHECK(cuMulticastUnbind(object, team[i], 0, size));
    CHECK(cudaFree(own[i]));
    CHECK(cudaFree(elsewhere[i]));
  }
  CHECK(cuMemRelease(object));
}

std::vector<uint32_t> counted(uint32_t from, size_t n = words) {
  std::vector<uint32_t> all(n);
  for (size_t i = 0; i < n; ++i) all[i] = from + uint32_t(i);
  return all;
}
std::vector<uint32_t> fetched(const uint32_t* from, size_t n = words) {
  std::vector<uint32_t> all(n);
  CHECK(cudaMemcpy(all.data(), from, n * 4, cudaMemcpyDeviceToHost));
  return all;
}
// Both replicas begin with this, as their own addresses show, and go on as they were: zeros. Then all are zeros again.
void expect_both(const std::vector<uint32_t>& wanted, const char* after) {
  for (int i = 0; i < 2; ++i) {
    std::vector<uint32_t> all = wanted;
    all.resize(words);
    EXPECT(fetched(own[i]) == all, "of %s came something else in replica %d", after, i);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(team[i]));
    CHECK(cudaMemset(own[i], 0, size));
    CHECK(cudaDeviceSynchronize());
  }
  CHECK(cudaSetDevice(team[0]));
}

void kernels() {
  uint32_t* result;
  CHECK(cudaMallocHost(reinterpret_cast<void**>(&result), 128));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(team[i]));
    store_all<<<1, 1>>>(mc[i] + 3, 70 + i);
    sum_all<<<1, 1>>>(mc[i] + 3, result);
    CHECK(cudaDeviceSynchronize());
    EXPECT(*result == 2 * (70u + i), "the sum is %u", *result);
    expect_both({0, 0, 0, 70u + i}, "multimem.st");
    CHECK(cudaSetDevice(team[i]));
    store<<<words / 256, 256>>>(mc[i], 5);
    CHECK(cudaDeviceSynchronize());
    std::vector<uint32_t> wanted;
    while (wanted.size() < words)
      for (const uint32_t each : counted(5, 256)) wanted.push_back(each);
    CHECK(cudaSetDevice(team[1 - i]));
    load<<<1, 32>>>(mc[1 - i], result);  // what one GPU stored the other reads at its address
    CHECK(cudaDeviceSynchronize());
    EXPECT(result[31] == 36, "through the other GPU's address came %u", result[31]);
    expect_both(wanted, "plain stores");
  }
  CHECK(cudaSetDevice(team[1]));
  store<<<1, 32>>>(own[1], 1000);  // at its own address: reaches nobody else, and each GPU reads its own
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaSetDevice(team[i]));
    load<<<1, 32>>>(mc[i], result);
    CHECK(cudaDeviceSynchronize());
    EXPECT(result[1] == (i ? 1001u : 0u), "GPU %d reads %u", team[i], result[1]);
    EXPECT(fetched(mc[i], 2)[1] == (i ? 1001u : 0u), "a copy by GPU %d read something else", team[i]);
  }
  EXPECT(fetched(own[0]) == std::vector<uint32_t>(words), "a store to one GPU's own address reached the other");
  CHECK(cudaMemset(own[1], 0, size));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFreeHost(result));
  CHECK(cudaSetDevice(team[0]));
}

void copies() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  uint32_t* pinned;
  CHECK(cudaMallocHost(reinterpret_cast<void**>(&pinned), size));
  const std::vector<uint32_t> few = counted(7, 100), all = counted(1 << 20);
  CHECK(cudaMemcpy(mc[0], few.data(), 400, cudaMemcpyHostToDevice));
  expect_both(few, "a small cudaMemcpy");
  CHECK(cudaMemcpy(mc[0], all.data(), size, cudaMemcpyDefault));
  EXPECT(fetched(mc[0]) == all, "a copy back gives something else");
  expect_both(all, "a large cudaMemcpy");
  for (size_t i = 0; i < words; ++i) pinned[i] = all[i];
  CHECK(cudaMemcpyAsync(mc[0], pinned, size, cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemcpyAsync(elsewhere[0], mc[0], size, cudaMemcpyDeviceToDevice, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(fetched(elsewhere[0]) == all, "a copy from the multicast address brought something else");
  expect_both(all, "cudaMemcpyAsync");
  CHECK(cudaMemcpyPeer(mc[1], team[1], elsewhere[0], team[0], size));
  CHECK(cudaMemcpyPeer(elsewhere[1], team[1], mc[1], team[1], size));
  CHECK(cudaDeviceSynchronize());
  EXPECT(fetched(elsewhere[1]) == all, "a copy to a peer brought something else");
  expect_both(all, "cudaMemcpyPeer");
  CHECK(cudaMemcpy2D(mc[0], 16, few.data(), 12, 8, 2, cudaMemcpyHostToDevice));
  uint32_t corner[4] = {};
  CHECK(cudaMemcpy2D(corner, 8, mc[0], 16, 8, 2, cudaMemcpyDeviceToHost));
  EXPECT(corner[0] == 7 && corner[1] == 8 && corner[2] == 10 && corner[3] == 11, "a rectangle came back as another");
  expect_both({7, 8, 0, 0, 10, 11}, "cudaMemcpy2D");
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaStreamDestroy(stream));
}

void memsets() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto address = CUdeviceptr(mc[0]);
  CHECK(cudaMemset(mc[0], 0x11, 6));
  CHECK(cuMemsetD16(address + 8, 0x2222, 3));
  CHECK(cuMemsetD32Async(address + 16, 0x33333333, 2, stream));
  CHECK(cuMemsetD2D32Async(address + 32, 8, 0x44444444, 1, 2, stream));
  CHECK(cudaMemset2D(mc[0] + 16, 8, 0x55, 4, 2));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaDeviceSynchronize());
  expect_both({0x11111111, 0x1111, 0x22222222, 0x2222, 0x33333333, 0x33333333, 0, 0, 0x44444444, 0, 0x44444444, 0, 0, 0,
               0, 0, 0x55555555, 0, 0x55555555},
              "memsets");
  CHECK(cudaStreamDestroy(stream));
}

void all() {
  const size_t before = free_memory();
  make();
  kernels();
  copies();
  memsets();
  unmake();
  EXPECT(free_memory() == before, "memory is missing");
}

// Several threads and two processes, each with its first access.
void many() {
  for (int number = 0; number < 2; ++number) {
    const pid_t child = fork();
    if (child) {
      int status = 1;
      EXPECT(waitpid(child, &status, 0) == child && status == 0, "a process ended with %d", status);
      continue;
    }
    check::require_gpus(3);
    make();
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([i] {
        CHECK(cudaSetDevice(team[i % 2]));
        CHECK(cudaMemset(mc[i % 2], i, size));
        store<<<64, 64>>>(mc[i % 2], 1);
        CHECK(cudaDeviceSynchronize());
      });
    for (std::thread& each : threads) each.join();
    std::exit(0);
  }
}

uint32_t number;
const std::map<std::string, std::function<void()>> accesses = {
    {"store", [] { store<<<1, 1>>>(mc[0], 1); }},
    {"load", [] { load<<<1, 1>>>(mc[0], elsewhere[0]); }},
    {"atomic", [] { add<<<1, 1>>>(mc[0]); }},
    {"copy_to", [] { cudaMemcpy(mc[0], &number, 4, cudaMemcpyHostToDevice); }},
    {"copy_from", [] { cudaMemcpy(&number, mc[0], 4, cudaMemcpyDeviceToHost); }},
    {"memset", [] { cudaMemset(mc[0], 1, 4); }},
    {"write_value", [] { cuStreamWriteValue32(nullptr, CUdeviceptr(mc[0]), 1, 0); }},
    {"wait_value", [] { cuStreamWaitValue32(nullptr, CUdeviceptr(mc[0]), 0, CU_STREAM_WAIT_VALUE_EQ); }},
    {"others_store", [] { store<<<1, 1>>>(mc[1], 1); }},  // the mapping of the other GPU
    {"others_copy", [] { cudaMemcpy(mc[1], &number, 4, cudaMemcpyHostToDevice); }},
};

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast here; only whoever runs the machine can lift that");
  const std::string what = argc > 1 ? argv[1] : "all";
  if (what == "many") {
    many();
  } else if (what == "all") {
    check::require_gpus(3);
    all();
  } else {  // one access; of an object with a hole, if there is another argument
    check::require_gpus(3);
    make(argc > 2 ? 1 : 2);
    accesses.at(what)();
    std::printf("%s\n", check::name(cudaDeviceSynchronize()));
    return 0;
  }
  std::printf("OK\n");
}
