// SPDX-License-Identifier: MIT-0
// New: PFN_cuMulticastBindMem_v13010
#include <cuda.h>
#include <cudaTypedefs.h>

// One name, two signatures: with 13010 or more the call takes the GPU as its second argument. So ask for the version
// that your function pointer was written for, never for CUDA_VERSION.
struct Bind {
  PFN_cuMulticastBindMem_v12010 without_gpu = nullptr;
  PFN_cuMulticastBindMem_v13010 with_gpu = nullptr;  // null if the driver is older than 13.1
};

Bind load() {
  Bind bind;
  CUdriverProcAddressQueryResult found;
  cuGetProcAddress("cuMulticastBindMem", reinterpret_cast<void**>(&bind.without_gpu), 12010, 0, &found);
  int driver = 0;
  if (cuDriverGetVersion(&driver) == CUDA_SUCCESS && driver >= 13010)
    cuGetProcAddress("cuMulticastBindMem", reinterpret_cast<void**>(&bind.with_gpu), 13010, 0, &found);
  return bind;
}
