// SPDX-License-Identifier: MIT-0
// Small questions about mappings: asynchronous copies and memsets without access, queries without a current context,
// and ranges to unmap that are not whole granules.
#include "conformance.h"

SECTION("asynchronously, without access") {
  const CUdeviceptr closed = reserve(page), open = reserve(page);
  map_new(closed, page, 0);
  map_new(open, page);
  void* host;
  cudaStream_t stream;
  CHECK(cudaMallocHost(&host, 4096));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  const auto at = [](CUdeviceptr address) { return reinterpret_cast<void*>(address); };
  say("memset", cudaMemsetAsync(at(closed), 1, 4096, stream));
  say("copy to the host", cudaMemcpyAsync(host, at(closed), 4096, cudaMemcpyDeviceToHost, stream));
  say("copy from the host", cudaMemcpyAsync(at(closed), host, 4096, cudaMemcpyHostToDevice, stream));
  say("copy from it", cudaMemcpyAsync(at(open), at(closed), 4096, cudaMemcpyDeviceToDevice, stream));
  say("copy to it", cudaMemcpyAsync(at(closed), at(open), 4096, cudaMemcpyDeviceToDevice, stream));
  say("synchronize", cudaStreamSynchronize(stream));
  cudaGetLastError();
  say("memset of other memory", cudaMemsetAsync(at(open), 1, 4096, stream));
  say("synchronize", cudaStreamSynchronize(stream));
}

SECTION("without a current context") {
  const CUdeviceptr memory = reserve(page);
  map_new(memory, page);
  CHECK(cuCtxSetCurrent(nullptr));
  CUdeviceptr base;
  size_t size;
  unsigned type;
  CUmemGenericAllocationHandle handle;
  say("cuMemGetAddressRange", cuMemGetAddressRange(&base, &size, memory));
  say("cuPointerGetAttribute", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
  say("cuMemRetainAllocationHandle", cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(memory)));
}

SECTION("ranges to unmap") {
  const CUdeviceptr room = reserve(16 * MiB), memory = room + page;
  const CUmemGenericAllocationHandle handle = create(page);
  const CUmemAccessDesc to_gpu = access_of(0);
  const auto ask = [&](const std::string& what, CUdeviceptr at, size_t size) {
    CHECK(cuMemMap(memory, page, 0, handle, 0));
    CHECK(cuMemSetAccess(memory, page, &to_gpu, 1));
    unsigned long long flags;
    say("unmap " + what, cuMemUnmap(at, size));
    const bool is_there = cuMemGetAccess(&flags, &to_gpu.location, memory) == CUDA_SUCCESS;
    say("it is mapped then", std::string(is_there ? "yes" : "no"));
    if (is_there) CHECK(cuMemUnmap(memory, page));
  };
  ask("from 1 byte in, its size", memory + 1, page);
  ask("from 1 byte in, 1 byte less", memory + 1, page - 1);
  ask("from 1 byte before, its size", memory - 1, page);
  ask("from 1 byte before, 2 bytes more", memory - 1, page + 2);
  ask("from its start, 1 byte less", memory, page - 1);
  ask("from its start, 1 byte more", memory, page + 1);
}

int main(int argc, char** argv) {
  if (argc > 1) {
    alarm(20);
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
  }
  return run_sections(argc, argv);
}
