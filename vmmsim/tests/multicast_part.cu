// SPDX-License-Identifier: MIT-0
// A part of a multicast object, mapped from its start on: microsoft/mscclpp maps as many bytes as it uses. For the
// simulator only, as everything that makes a multicast object and is no lesson.
#include "check.h"

#include <vector>

namespace {

constexpr size_t granule = 2 << 20, whole = 4 * granule, part = granule;

// NCCL_NVLS_ENABLE=0 is a site's refusal. Read as NCCL reads it: a number that is 0.
bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

__global__ void store_all(unsigned* mc, unsigned value) {
  unsigned* const to = mc + blockIdx.x * blockDim.x + threadIdx.x;
  asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(value));
}

CUmemAccessDesc open_to(int gpu) {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = gpu;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

// Memory of a GPU, bound to all of the object. Returns its own address.
unsigned* bind(CUmemGenericAllocationHandle object, int gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = open_to(gpu).location;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address;
  const CUmemAccessDesc access = open_to(gpu);
  CHECK(cuMemCreate(&memory, whole, &properties, 0));
  CHECK(cuMulticastBindMem(object, 0, memory, 0, whole, 0));
  CHECK(cuMemAddressReserve(&address, whole, 0, 0, 0));
  CHECK(cuMemMap(address, whole, 0, memory, 0));
  CHECK(cuMemSetAccess(address, whole, &access, 1));
  CHECK(cudaSetDevice(gpu));
  CHECK(cuMemsetD32(address, 0, whole / 4));
  return reinterpret_cast<unsigned*>(address);
}

void expect(int gpu, const unsigned* at, unsigned value) {
  std::vector<unsigned> found(granule / 4);
  CHECK(cudaSetDevice(gpu));
  CHECK(cudaMemcpy(found.data(), at, granule, cudaMemcpyDeviceToHost));
  for (const unsigned each : found) EXPECT(each == value, "it is %u", each);
}

}  // namespace

int main() {
  check::require_gpus(2);
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast here");
  CUmulticastObjectProp properties = {};
  properties.numDevices = 2;
  properties.size = whole;
  CUmemGenericAllocationHandle object;
  CHECK(cuInit(0));
  CHECK(cuMulticastCreate(&object, &properties));
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuMulticastAddDevice(object, gpu));
  unsigned* const own[] = {bind(object, 0), bind(object, 1)};

  CUdeviceptr mc;
  CHECK(cuMemAddressReserve(&mc, 2 * whole, 0, 0, 0));
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(mc, part, part, object, 0));
  REFUSED(CUDA_ERROR_NOT_SUPPORTED, cuMemMap(mc, 2 * whole, 0, object, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(mc, part / 2, 0, object, 0));
  CHECK(cuMemMap(mc, part, 0, object, 0));
  CHECK(cuMemMap(mc + part, whole, 0, object, 0));  // all of it, right behind
  for (int gpu = 0; gpu < 2; ++gpu) {
    const CUmemAccessDesc access = open_to(gpu);
    CHECK(cuMemSetAccess(mc, part + whole, &access, 1));
  }
  const auto store_there = [&](CUdeviceptr where, unsigned value) {
    store_all<<<granule / 1024, 256>>>(reinterpret_cast<unsigned*>(where), value);
    CHECK(cudaDeviceSynchronize());
  };
  store_there(mc, 7);
  for (int gpu = 0; gpu < 2; ++gpu) {
    expect(gpu, own[gpu], 7);
    expect(gpu, own[gpu] + granule / 4, 0);
  }
  store_there(mc + part + granule, 8);
  for (int gpu = 0; gpu < 2; ++gpu) {
    expect(gpu, own[gpu], 7);
    expect(gpu, own[gpu] + granule / 4, 8);
  }
  CHECK(cuMemUnmap(mc, part + whole));
  CHECK(cuMemAddressFree(mc, 2 * whole));
  std::puts("OK");
}
