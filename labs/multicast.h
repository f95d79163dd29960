// SPDX-License-Identifier: MIT-0
// What the labs about multicast share: how they begin, and a mapping for one GPU. They have never run on hardware.
#pragma once
#include <algorithm>
#include <cstdlib>
#include "lab.h"

namespace lab {
// NCCL_NVLS_ENABLE=0 is how a site tells NCCL to leave multicast alone. Read as NCCL reads it: a number that is 0.
inline bool site_refuses() {
  const char* value = std::getenv("NCCL_NVLS_ENABLE");
  char* end = nullptr;
  return value && std::strtoll(value, &end, 0) == 0 && end != value;
}

// Begins with all GPUs, two at least, and returns their number. The site's refusal comes before any call of the driver.
inline int begin_multicast() {
  REQUIRE(!site_refuses(), "NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine");
  const int gpus = check::require_gpus(2);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    int supported = 0, reaches = 1;
    CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, gpu));
    for (int other = 0; other < gpu && reaches; ++other) CHECK(cuDeviceCanAccessPeer(&reaches, gpu, other));
    REQUIRE(supported && reaches, "no multicast with GPU %d; choose others with CUDA_VISIBLE_DEVICES", gpu);
  }
  begin(gpus);
  return gpus;
}

inline CUmemAllocationProp memory_of(int gpu) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu;
  return properties;
}

// Maps memory, or a multicast object, at an address of its own. This GPU alone may read and write there.
inline CUdeviceptr map_for(int gpu, CUmemGenericAllocationHandle handle, size_t size) {
  const CUmemAccessDesc access = {memory_of(gpu).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUdeviceptr address = 0;
  CHECK(cuMemAddressReserve(&address, size, size & -size, 0, 0));  // aligned to the granularity, or to more
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CHECK(cuMemSetAccess(address, size, &access, 1));
  return address;
}

inline void unmap(CUdeviceptr address, size_t size) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, size));
}

// Stores to the same element of all replicas. In a name `mc` is a multicast address.
__device__ inline void store_all(int* mc, int value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("multimem.st.relaxed.sys.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(mc)), "r"(value)
               : "memory");
#else  // earlier GPUs have none, and do not come here
  __trap();
#endif
}
}  // namespace lab
