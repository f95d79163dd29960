// SPDX-License-Identifier: MIT-0
// A captured graph works on a growable buffer, and goes on working when the buffer has grown in place: it keeps the
// address. A buffer that moves when it grows needs a new graph, or an update of the old one.
#include "check.h"

#include <vector>

namespace {

constexpr size_t chunk = 2 << 20, most = 16 * chunk;

// How much there is, and where, a graph reads when it is launched.
__global__ void add_one(int* numbers, const size_t* count) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < *count; i += size_t(gridDim.x) * blockDim.x) ++numbers[i];
}

CUdeviceptr buffer;  // `most` addresses, of which `size` bytes have memory
size_t size = 0;

void grow() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, chunk, &properties, 0));
  CHECK(cuMemMap(buffer + size, chunk, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemSetAccess(buffer + size, chunk, &access, 1));
  CHECK(cuMemsetD32(buffer + size, 0, chunk / 4));
  size += chunk;
}

}  // namespace

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cuMemAddressReserve(&buffer, most, 0, 0, 0));
  size_t* count;
  CHECK(cudaMallocHost(&count, sizeof *count));
  grow();

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t launchable;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  add_one<<<8, 256, 0, stream>>>(reinterpret_cast<int*>(buffer), count);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&launchable, graph, 0));

  while (size < most) {
    *count = size / sizeof(int);
    CHECK(cudaGraphLaunch(launchable, stream));
    CHECK(cudaStreamSynchronize(stream));
    grow();
  }
  std::vector<int> numbers(size / sizeof(int));
  CHECK(cudaMemcpy(numbers.data(), reinterpret_cast<void*>(buffer), size, cudaMemcpyDefault));
  const size_t of_chunk = chunk / sizeof(int), last = most / chunk - 1;
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT(numbers[i] == int(last - i / of_chunk), "number %zu is %d", i, numbers[i]);

  CHECK(cudaGraphExecDestroy(launchable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFreeHost(count));
  CHECK(cuMemUnmap(buffer, size));
  CHECK(cuMemAddressFree(buffer, most));
  std::puts("OK");
}
