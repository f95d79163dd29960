// SPDX-License-Identifier: MIT-0
// What a lesson asks of the machine before it begins; check.h includes it.
#pragma once
#include <initializer_list>

#include "check.h"

namespace check {
// What a GPU must have: an attribute that is not 0; otherwise "what is missing; how to get it".
struct Needed {
  CUdevice_attribute attribute;
  const char* missing;
};
const Needed vmm = {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
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
}  // namespace check
