// SPDX-License-Identifier: MIT-0
// Lab 03a: Open one buffer
//
// GPU 0 holds two buffers, `open` and `secret`, and no GPU may use either. Grant access by descriptors:
// - GPU 0, which holds the buffers, may read and write both
// - GPU 1 may read `open`, and not write it, and not reach `secret`
// - a third GPU reaches neither, and peer access stays off; look at each answer with CHECK
// Read 03_multi_gpu/README.md#2-let-the-loader-in and #3-let-the-reader-in.
#include "../lab.h"

const size_t size = 2 << 20, n = size / sizeof(int);  // one granule

// Memory of GPU 0, mapped. No GPU has access to it yet.
CUdeviceptr make() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemGenericAllocationHandle memory;
  CUdeviceptr address = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, memory, 0));
  CHECK(cuMemRelease(memory));  // the mapping keeps the memory
  return address;
}

void give_back(CUdeviceptr address) {
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, size));
}

int main() {
  lab::begin(2);
  const CUdeviceptr open = make(), secret = make();

  // >>> your part: grant access
  CHECK(cudaSetDevice(1));
  CHECK(cudaDeviceEnablePeerAccess(0, 0));  // GPU 1 reaches into GPU 0
  // <<<

  CHECK(cudaSetDevice(0));
  lab::fill<int>(open, n, 7);
  lab::fill<int>(secret, n, 8);
  std::printf("GPU 0: %llu of %zu integers are 8\n", lab::count<int>(secret, n, 8), n);
  CHECK(cudaSetDevice(1));
  std::printf("GPU 1: %llu of %zu integers are 7\n", lab::count<int>(open, n, 7), n);

  give_back(open);
  give_back(secret);
  return lab::end();
}
