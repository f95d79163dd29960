// SPDX-License-Identifier: MIT-0
// What a lesson asks of the machine before it begins, and what it says of one that does not take its code; check.h
// includes it.
#pragma once
#include <initializer_list>

#include "check.h"

namespace check {
// What a GPU must have: an attribute that is not 0; otherwise "what is missing; how to get it".
struct Needed {
  CUdevice_attribute attribute;
  const char* missing;
};
inline const Needed vmm = {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                           "no virtual memory management; use bare metal, or a virtual GPU that passes it on"};

// The gate of every lesson: a driver of the toolkit's major or later, and this many GPUs that have what is needed.
// Returns how many GPUs there are.
inline int require_gpus(int wanted, std::initializer_list<Needed> needed = {vmm}) {
  int driver = 0, gpus = 0, has = 0;
  const CUresult result = cuInit(0);
  REQUIRE(result != CUDA_ERROR_STUB_LIBRARY, "only the toolkit's stub of a driver; install the NVIDIA driver");
  REQUIRE(result != CUDA_ERROR_NO_DEVICE, "the driver sees no GPU; look at nvidia-smi and CUDA_VISIBLE_DEVICES");
  CHECK(cuDriverGetVersion(&driver));
  REQUIRE(driver / 1000 >= CUDA_VERSION / 1000,
          "the driver is for CUDA %d.%d, this program for %d.%d; update the driver", driver / 1000, driver % 1000 / 10,
          CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
  succeeded(result, "cuInit(0)", __FILE__, __LINE__);
  CHECK(cuDeviceGetCount(&gpus));
  REQUIRE(gpus >= wanted, "needs %d GPUs, sees %d; use a larger machine, or widen CUDA_VISIBLE_DEVICES", wanted, gpus);
  for (int gpu = 0; gpu < wanted; ++gpu)
    for (const Needed& each : needed) {
      CHECK(cuDeviceGetAttribute(&has, each.attribute, gpu));
      REQUIRE(has, "%s", each.missing);
    }
  return gpus;
}

// The gate of lesson 06: two GPUs at least, and every one has multicast. Returns how many. NCCL_NVLS_ENABLE=0 asks NCCL
// to leave multicast alone; it is taken as a no here too, before any call of the driver. The kernel is one that needs
// code for compute capability 9.0, which a plain nvcc does not make.
template <class Kernel> int require_multicast(Kernel* kernel) {
  const char* nvls = std::getenv("NCCL_NVLS_ENABLE");
  REQUIRE(!nvls || std::strtol(nvls, nullptr, 0), "NCCL_NVLS_ENABLE=0 refuses multicast; ask whoever runs the machine");
  const Needed multicast = {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
                            "a GPU without multicast; choose others with CUDA_VISIBLE_DEVICES"};
  const int gpus = require_gpus(require_gpus(2), {multicast});
  cudaFuncAttributes built;
  CHECK(cudaFuncGetAttributes(&built, kernel));
  EXPECT(built.ptxVersion >= 90, "no multimem in this build; use nvcc -std=c++17 -arch=sm_90");
  return gpus;
}

// The driver takes no code of this program for the current GPU. Machine code (sm_90) is for one generation of GPUs, and
// runs on every driver of the toolkit's major; PTX (compute_75) is for all later ones, and needs a driver as new as the
// toolkit. Asks nothing that would make a context.
inline void end_without_code() {
#ifdef __CUDA_ARCH_LIST__
  const int architectures[] = {__CUDA_ARCH_LIST__};
#else
  const int architectures[] = {0};
#endif
  int gpu = 0, major = 0, minor = 0;
  char built[512] = "";
  for (const int each : architectures)
    std::snprintf(built + std::strlen(built), sizeof built - std::strlen(built), " %d.%d", each / 100, each / 10 % 10);
  cudaGetDevice(&gpu);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu);
  end(77,
      "SKIP: this program has no code that the driver takes for GPU %d (compute capability %d.%d), only for%s; build "
      "it with nvcc -arch=sm_%d%d (CMake: -DCMAKE_CUDA_ARCHITECTURES=%d%d), or update the driver",
      gpu, major, minor, built, major, minor, major, minor);
}
}  // namespace check
