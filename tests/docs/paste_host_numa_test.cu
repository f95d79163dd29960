// SPDX-License-Identifier: MIT-0
// docs/paste/host_numa.cu at work: one reservation with memory of a GPU and of the host. `once` is one life of such
// memory, for each of whose calls to fail.
#include <cuda.h>
static int lacks;  // 1: a driver that has never heard of it; 2: one that says no; 3: a system without nodes
static CUresult attribute(int* value, CUdevice_attribute which, CUdevice device) {
  const bool numa = which == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
  if (lacks == 1) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = cuDeviceGetAttribute(value, which, device);
  if (lacks == 2 && !numa) *value = 0;
  if (lacks == 3 && numa) *value = -1;
  return result;
}
#define cuDeviceGetAttribute attribute
#include "../../docs/paste/host_numa.cu"
#undef cuDeviceGetAttribute

#include "../../common/check.h"

#include <cstring>
#include <thread>

// The GPU adds one to every word of a range that begins in memory of its own and ends in the host's.
__global__ void add_one(unsigned* words, size_t count) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) ++words[i * 1024];
}
static void add_ones(CUdeviceptr at, size_t size) {
  add_one<<<1, 256>>>(reinterpret_cast<unsigned*>(at), size / 4096);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
}
static volatile unsigned* words(CUdeviceptr at) { return reinterpret_cast<volatile unsigned*>(at); }

static void put_device_memory(CUdeviceptr at, size_t size) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &prop, 0));
  CHECK(cuMemMap(at, size, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  CUmemAccessDesc access = {};
  access.location = prop.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(at, size, &access, 1));
}

static void expect_use(int node, size_t size) {
  CUdeviceptr at;
  CHECK(cuMemAddressReserve(&at, 3 * size, 0, 0, 0));
  put_device_memory(at, size);
  CHECK(put_host_memory(at + size, size, node, 0));
  const CUdeviceptr host = at + size, last = at + 2 * size - 4096;
  for (size_t i = 0; i < size / 4; i += 1024) words(host)[i] = unsigned(i);
  CHECK(cuMemsetD32(at, 7, size / 4));
  add_ones(at, 2 * size);  // over the border
  for (size_t i = 0; i < size / 4; i += 1024) EXPECT(words(host)[i] == i + 1, "%zu: %u", i, words(host)[i]);
  unsigned copied;
  CHECK(cuMemcpyDtoH(&copied, at + size - 4096, 4));
  EXPECT(copied == 8, "%u", copied);
  CHECK(cuMemcpyDtoH(&copied, last, 4));  // the copy engine
  EXPECT(copied == words(last)[0], "%u", copied);
  CHECK(cuMemcpyDtoD(host, at, 4096));
  CHECK(cudaDeviceSynchronize());
  EXPECT(words(host)[0] == 8, "%u", words(host)[0]);
  REFUSED(CUDA_ERROR_INVALID_VALUE, put_host_memory(host, size, node, 0));  // over what is there
  EXPECT(words(host)[0] == 8, "%u", words(host)[0]);
  REFUSED(CUDA_ERROR_INVALID_VALUE, put_host_memory(at + 2 * size, size, 4711, 0));
  CHECK(take_host_memory(host, size));
  put_device_memory(host, size);  // the other way round, at the same address
  CHECK(cuMemsetD32(host, 5, size / 4));
  add_ones(at, 2 * size);
  CHECK(cuMemcpyDtoH(&copied, last, 4));
  EXPECT(copied == 6, "%u", copied);
  CHECK(cuMemUnmap(at, 2 * size));
  CHECK(cuMemAddressFree(at, 3 * size));
}

static void expect_threads(int node, size_t size) {
  std::thread threads[4];
  for (auto& thread : threads)
    thread = std::thread([&] {
      CHECK(cudaSetDevice(0));
      CUdeviceptr at;
      CHECK(cuMemAddressReserve(&at, size, 0, 0, 0));
      for (unsigned i = 0; i < 5; ++i) {
        CHECK(put_host_memory(at, size, node, 0));
        words(at)[0] = i;
        add_ones(at, 4096);
        EXPECT(words(at)[0] == i + 1, "%u", words(at)[0]);
        CHECK(take_host_memory(at, size));
      }
      CHECK(cuMemAddressFree(at, size));
    });
  for (auto& thread : threads) thread.join();
}

static CUresult once() {
  int node = 5;
  size_t size = 5;
  CUdeviceptr at;
  CUresult result = host_numa(&node, &size, 0);
  if (result != CUDA_SUCCESS) {
    EXPECT(node == 5 && size == 5, "%d, %zu", node, size);
    return result;
  }
  CHECK(cuMemAddressReserve(&at, size, 0, 0, 0));
  if ((result = put_host_memory(at, size, node, 0)) == CUDA_SUCCESS) {
    words(at)[0] = 1;
    if ((result = take_host_memory(at, size)) != CUDA_SUCCESS) CHECK(take_host_memory(at, size));
  }
  CHECK(cuMemAddressFree(at, size));  // which fails if something is mapped
  return result;
}

int main(int argc, char** argv) {
  check::require_gpus(1);
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    const CUresult result = once();
    puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
    return result != CUDA_SUCCESS;
  }
  int node = -1;
  size_t size = 0;
  for (lacks = 1; lacks < 3; ++lacks) REFUSED(CUDA_ERROR_NOT_SUPPORTED, host_numa(&node, &size, 0));
  lacks = 3;
  CHECK(host_numa(&node, &size, 0));
  EXPECT(node == 0, "node %d", node);
  lacks = 0;
  CHECK(host_numa(&node, &size, 0));
  std::printf("node %d, granularity %zu\n", node, size);
  CHECK(cudaSetDevice(0));
  expect_use(node, size);
  expect_threads(node, size);
  puts("OK");
}
