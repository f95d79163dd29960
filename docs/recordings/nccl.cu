// SPDX-License-Identifier: MIT-0
// One process, two GPUs: NCCL sums up two buffers that were registered with it. The buffers are memory of cuMemCreate.
// Multicast is not used: build and run it so.
//   nvcc -o nccl docs/recordings/nccl.cu -lcuda -lnccl && NCCL_NVLS_ENABLE=0 ./run.sh --view --real ./nccl
#include <cuda.h>
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                    \
  do {                                                                 \
    if (const int error = int(call)) {                                 \
      std::printf("%s gives %d in line %d\n", #call, error, __LINE__); \
      std::exit(1);                                                    \
    }                                                                  \
  } while (0)

constexpr size_t size = 64u << 20;

static float* make(int gpu, CUmemGenericAllocationHandle& handle) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {gpu}};
  CUdeviceptr address = 0;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
  CHECK(cuMemMap(address, size, 0, handle, 0));
  CUmemAccessDesc access[2] = {};
  for (int peer = 0; peer < 2; ++peer) {
    access[peer].location = {CU_MEM_LOCATION_TYPE_DEVICE, {peer}};
    access[peer].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(address, size, access, 2));
  return reinterpret_cast<float*>(address);
}

int main() {
  if (!std::getenv("NCCL_NVLS_ENABLE")) {
    std::printf("set NCCL_NVLS_ENABLE=0: this program uses no multicast\n");
    return 2;
  }
  ncclComm_t communicators[2];
  float* buffers[2];
  CUmemGenericAllocationHandle handles[2];
  void* registered[2];
  cudaStream_t streams[2];
  CHECK(ncclCommInitAll(communicators, 2, nullptr));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamCreate(&streams[gpu]));
    buffers[gpu] = make(gpu, handles[gpu]);
    CHECK(cudaMemset(buffers[gpu], 0, size));
    CHECK(ncclCommRegister(communicators[gpu], buffers[gpu], size, &registered[gpu]));
  }
  for (int step = 0; step < 2; ++step) {
    CHECK(ncclGroupStart());
    for (int gpu = 0; gpu < 2; ++gpu)
      CHECK(ncclAllReduce(buffers[gpu], buffers[gpu], size / sizeof(float), ncclFloat, ncclSum, communicators[gpu],
                          streams[gpu]));
    CHECK(ncclGroupEnd());
  }
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaStreamSynchronize(streams[gpu]));
    CHECK(ncclCommDeregister(communicators[gpu], registered[gpu]));
  }
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(ncclCommDestroy(communicators[gpu]));
    CHECK(cuMemUnmap(CUdeviceptr(buffers[gpu]), size));
    CHECK(cuMemAddressFree(CUdeviceptr(buffers[gpu]), size));
    CHECK(cuMemRelease(handles[gpu]));
  }
  std::printf("OK\n");
  return 0;
}
