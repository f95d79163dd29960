// SPDX-License-Identifier: MIT-0
// One call a line, for what a recording tells of where calls stand.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

__global__ void fill(int* data) { data[threadIdx.x] = 1; }

static CUmemAllocationProp on_gpu_0() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  return properties;
}

int main() {
  constexpr size_t size = 2 << 20;
  const CUmemAllocationProp properties = on_gpu_0();
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  int errors = cuInit(0);
  errors |= cudaSetDevice(0);
  errors |= cuMemAddressReserve(&address, size, 0, 0, 0);
  errors |= cuMemCreate(&handle, size, &properties, 0);
  errors |= cuMemMap(address, size, 0, handle, 0);
  errors |= cuMemSetAccess(address, size, &access, 1);
  fill<<<1, 64>>>(reinterpret_cast<int*>(address));
  errors |= cudaDeviceSynchronize();
  errors |= cuMemUnmap(address, size);
  errors |= cuMemRelease(handle);
  errors |= cuMemAddressFree(address, size);
  std::printf(errors ? "an error\n" : "OK\n");
  return errors != 0;
}
