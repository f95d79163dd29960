// SPDX-License-Identifier: MIT-0
// Memory of one GPU is unmapped, or closed to one of two, under kernels, memsets and copies between them: which call
// waits, and which fault comes of it.
#include "gone_memory.h"

// Memory of a GPU, open to both.
static char* of_gpu(int gpu, size_t size) {
  static CUdeviceptr made = 0;
  if (made) return reinterpret_cast<char*>(made);
  const size_t mapped = (size + page - 1) / page * page;
  made = reserve(mapped);
  map_new(made, mapped, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, gpu);
  const CUmemAccessDesc descriptor = access_of(1 - gpu);
  CHECK(cuMemSetAccess(made, mapped, &descriptor, 1));
  return reinterpret_cast<char*>(made);
}

int main(int argc, char** argv) {
  if (argc == 1) require_peers();
  // The memory that is taken is GPU 1's, and open to both. GPU 0 does the work, unless it says otherwise.
  const auto copies = [](const char* name, bool from_memory, bool peer_call) {
    return Work{name, [=](char* memory, size_t size, cudaStream_t stream) {
                  char* const other = of_gpu(0, size);
                  char *const to = from_memory ? other : memory, *const from = from_memory ? memory : other;
                  if (!peer_call) return cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, stream);
                  return cudaMemcpyPeerAsync(to, from_memory ? 0 : 1, from, from_memory ? 1 : 0, size, stream);
                }};
  };
  const Work stores = {"stores of a kernel", [](char* memory, size_t size, cudaStream_t stream) {
                         store<<<1, 256, 0, stream>>>(memory, size);
                         return cudaGetLastError();
                       }};
  const Work loads = {"loads of a kernel", [](char* memory, size_t size, cudaStream_t stream) {
                        load<<<1, 256, 0, stream>>>(memory, size, reinterpret_cast<int*>(of_gpu(0, size)));
                        return cudaGetLastError();
                      }};
  const Work memset = {"memset", [](char* memory, size_t size, cudaStream_t stream) {
                         return cudaMemsetAsync(memory, 1, size, stream);
                       }};
  const Work all[] = {stores,
                      loads,
                      memset,
                      copies("copy from GPU 1 to GPU 0", true, false),
                      copies("copy from GPU 0 to GPU 1", false, false),
                      copies("cudaMemcpyPeerAsync from GPU 1 to GPU 0", true, true),
                      copies("cudaMemcpyPeerAsync from GPU 0 to GPU 1", false, true)};
  for (const int gpu : {0, 1})
    for (Work work : all) {
      work.name += " by GPU " + std::to_string(gpu);
      for (const size_t size : {size_t(8), 4 * MiB})
        for (const Taking& taking : {unmapping, closing(0), closing(1)})
          add_case(work, size, When::queued, taking, gpu, 1, {0, 1});
      for (const Taking& taking : {unmapping, closing(gpu)})
        add_case(work, 4 * MiB, When::in_a_graph, taking, gpu, 1, {0, 1});
      if (work.name.rfind("copy", 0) == 0)
        for (const Taking& taking : {unmapping, closing(gpu)})
          add_case(work, 64 * MiB, When::running, taking, gpu, 1, {0, 1});
    }
  return run_cases(argc, argv);
}
