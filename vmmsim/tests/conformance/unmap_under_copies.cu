// SPDX-License-Identifier: MIT-0
// Memory is unmapped, or closed to the GPU, under kernels, memsets and copies of each kind: which call waits, and which
// fault comes of it.
#include "gone_memory.h"

constexpr size_t KiB = 1 << 10;

// Memory of another kind, of at least this size, made once.
static char* page_locked(size_t size) {
  static void* made = nullptr;
  if (!made) CHECK(cudaMallocHost(&made, size));
  return static_cast<char*>(made);
}
static char* pageable(size_t size) {
  static std::vector<char> made(size);
  return made.data();
}
static char* ordinary(size_t size) {
  static void* made = nullptr;
  if (!made) CHECK(cudaMalloc(&made, size));
  return static_cast<char*>(made);
}
static char* managed(size_t size) {
  static void* made = nullptr;
  if (!made) CHECK(cudaMallocManaged(&made, size));
  return static_cast<char*>(made);
}

static Work copies(const char* name, cudaMemcpyKind kind, char* (*other)(size_t), bool from_memory) {
  return {name, [=](char* memory, size_t size, cudaStream_t stream) {
            return from_memory ? cudaMemcpyAsync(other(size), memory, size, kind, stream)
                               : cudaMemcpyAsync(memory, other(size), size, kind, stream);
          }};
}
static Work copies_2d(const char* name, cudaMemcpyKind kind, char* (*other)(size_t), bool from_memory) {
  return {name, [=](char* memory, size_t size, cudaStream_t stream) {
            char *const to = from_memory ? other(size) : memory, *const from = from_memory ? memory : other(size);
            const size_t row = size / 4;
            return cudaMemcpy2DAsync(to, row, from, row, row / 2, 4, kind, stream);
          }};
}

int main(int argc, char** argv) {
  if (argc == 1) check::require_gpus(1);
  const Work stores = {"stores of a kernel", [](char* memory, size_t size, cudaStream_t stream) {
                         store<<<1, 256, 0, stream>>>(memory, size);
                         return cudaGetLastError();
                       }};
  const Work loads = {"loads of a kernel", [](char* memory, size_t size, cudaStream_t stream) {
                        load<<<1, 256, 0, stream>>>(memory, size, reinterpret_cast<int*>(ordinary(64)));
                        return cudaGetLastError();
                      }};
  const Work memset = {"memset", [](char* memory, size_t size, cudaStream_t stream) {
                         return cudaMemsetAsync(memory, 1, size, stream);
                       }};
  const Work memset_words = {"memset of words", [](char* memory, size_t size, cudaStream_t stream) {
                               return cuMemsetD32Async(CUdeviceptr(memory), 1, size / 4, stream) == CUDA_SUCCESS
                                          ? cudaSuccess
                                          : cudaErrorUnknown;
                             }};
  const Work memset_2d = {"memset in 2D", [](char* memory, size_t size, cudaStream_t stream) {
                            return cudaMemset2DAsync(memory, size / 4, 1, size / 8, 4, stream);
                          }};
  const Work all[] = {
      stores,
      loads,
      memset,
      memset_words,
      memset_2d,
      copies("copy from page-locked memory", cudaMemcpyHostToDevice, page_locked, false),
      copies("copy to page-locked memory", cudaMemcpyDeviceToHost, page_locked, true),
      copies("copy from cudaMalloc's memory", cudaMemcpyDeviceToDevice, ordinary, false),
      copies("copy to cudaMalloc's memory", cudaMemcpyDeviceToDevice, ordinary, true),
      copies("copy from managed memory", cudaMemcpyDefault, managed, false),
      copies("copy to managed memory", cudaMemcpyDefault, managed, true),
      copies_2d("copy in 2D from page-locked memory", cudaMemcpyHostToDevice, page_locked, false),
      copies_2d("copy in 2D to page-locked memory", cudaMemcpyDeviceToHost, page_locked, true),
      copies_2d("copy in 2D from cudaMalloc's memory", cudaMemcpyDeviceToDevice, ordinary, false),
      copies_2d("copy in 2D to cudaMalloc's memory", cudaMemcpyDeviceToDevice, ordinary, true),
  };
  for (const When when : {When::queued, When::in_a_graph})
    for (const Work& work : all)
      for (const size_t size : {8 * size_t(1), 64 * KiB, 4 * MiB}) add_case(work, size, when, unmapping);
  for (const Work& work : {memset, memset_words})  // from which size on a kernel does it
    for (const size_t size : {64 * size_t(1), 512 * size_t(1), 4 * KiB, 16 * KiB})
      for (const When when : {When::queued, When::in_a_graph}) add_case(work, size, when, unmapping);
  for (const size_t size : {8 * size_t(1), 64 * KiB})  // a larger one is not queued: the call waits for the stream
    add_case(copies("copy from pageable memory", cudaMemcpyHostToDevice, pageable, false), size, When::queued,
             unmapping);
  for (const Work& work : all)
    if (work.name.find("2D") == std::string::npos && work.name.find("kernel") == std::string::npos &&
        work.name.find("managed") == std::string::npos)
      add_case(work, 128 * MiB, When::running, unmapping);
  for (const Taking& taking : {closing(0), closing(0, CU_MEM_ACCESS_FLAGS_PROT_READ)})
    for (const Work& work : all)
      if (work.name.find("2D") == std::string::npos) add_case(work, 4 * MiB, When::queued, taking);
  add_case(all[5], 128 * MiB, When::running, closing(0));
  add_case(all[6], 128 * MiB, When::running, closing(0));
  add_case(all[7], 128 * MiB, When::running, closing(0));
  return run_cases(argc, argv);
}
