// SPDX-License-Identifier: MIT-0
// A graph is launched twice; the second time its memory has been unmapped.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>

__global__ void fill(int* data) { data[threadIdx.x] = 1; }

int main() {
  constexpr size_t size = 2 << 20;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t instance = nullptr;
  int errors = cudaSetDevice(0);
  errors |= cuMemAddressReserve(&address, size, 0, 0, 0);
  errors |= cuMemCreate(&handle, size, &properties, 0);
  errors |= cuMemMap(address, size, 0, handle, 0);
  errors |= cuMemSetAccess(address, size, &access, 1);
  errors |= cudaStreamCreate(&stream);
  errors |= cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  fill<<<1, 64, 0, stream>>>(reinterpret_cast<int*>(address));
  errors |= cudaStreamEndCapture(stream, &graph);
  errors |= cudaGraphInstantiate(&instance, graph, 0);
  errors |= cudaGraphLaunch(instance, stream);
  errors |= cudaStreamSynchronize(stream);
  errors |= cuMemUnmap(address, size);
  errors |= cudaGraphLaunch(instance, stream);
  const bool is_fault = cudaStreamSynchronize(stream) == cudaErrorIllegalAddress;
  std::puts(!errors && is_fault ? "OK" : "not so");
  return errors || !is_fault;
}
