// SPDX-License-Identifier: MIT-0
// Memory is unmapped, or closed to a GPU, while a kernel, a memset or a copy that uses it is queued or runs, or before
// a graph with such a node is launched. A fault is the end of a context, so each case has a process of its own.
#pragma once
#include "conformance.h"

#include <functional>

// What the GPU is to do with `size` bytes at `memory`, in the stream.
struct Work {
  std::string name;
  std::function<cudaError_t(char* memory, size_t size, cudaStream_t stream)> enqueue;
};

// Memory taken away, by unmapping it or by its access: what is done with [memory, memory + size).
struct Taking {
  std::string name;
  std::function<CUresult(CUdeviceptr memory, size_t size)> take;
};
inline const Taking unmapping = {"unmapped", [](CUdeviceptr memory, size_t size) { return cuMemUnmap(memory, size); }};
inline Taking closing(int gpu, unsigned flags = CU_MEM_ACCESS_FLAGS_PROT_NONE) {
  return {(flags ? "read-only for GPU " : "closed to GPU ") + std::to_string(gpu),
          [=](CUdeviceptr memory, size_t size) {
            const CUmemAccessDesc descriptor = access_of(gpu, flags);
            return cuMemSetAccess(memory, size, &descriptor, 1);
          }};
}

// In page-locked memory: a kernel waits for it, 5 seconds at most, so that nothing hangs.
static volatile int* go;
__global__ void wait_for(const volatile int* go) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  while (!*go && now - begin < 5'000'000'000);
}

__global__ void store(char* memory, size_t size) {
  for (size_t i = threadIdx.x; i < size; i += blockDim.x) memory[i] = 7;
}
__global__ void load(const char* memory, size_t size, int* sum) {
  int found = 0;
  for (size_t i = threadIdx.x; i < size; i += blockDim.x) found += memory[i];
  if (found == -1) *sum = found;
}

enum class When { queued, running, in_a_graph };
inline std::string sized(size_t size) {
  return size < 1 << 10   ? std::to_string(size) + " bytes"
         : size < 1 << 20 ? std::to_string(size >> 10) + " KiB"
                          : std::to_string(size >> 20) + " MiB";
}

// One case: `gpu` does the work, on memory of `owner`, which `open_to` says whom it is open to. One line.
inline void ask(const Work& work, size_t size, When when, const Taking& taking, int gpu, int owner,
                const std::vector<int>& open_to) {
  const size_t mapped = (size + page - 1) / page * page;
  CHECK(cudaSetDevice(owner)), CHECK(cudaFree(nullptr));
  const CUdeviceptr memory = reserve(mapped);
  map_new(memory, mapped, 0, owner);
  for (const int each : open_to) {
    const CUmemAccessDesc descriptor = access_of(each);
    CHECK(cuMemSetAccess(memory, mapped, &descriptor, 1));
  }
  CHECK(cudaSetDevice(gpu)), CHECK(cudaFree(nullptr));
  void* word;
  CHECK(cudaMallocHost(&word, 64));
  go = static_cast<volatile int*>(word), *go = 0;
  cudaFuncAttributes loaded;  // before a kernel runs: loading waits for it
  CHECK(cudaFuncGetAttributes(&loaded, wait_for));
  cudaStream_t stream;
  cudaEvent_t first;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&first));
  char* const pointer = reinterpret_cast<char*>(memory);
  CHECK(work.enqueue(pointer, size, stream));  // what it needs is made, and it goes well
  CHECK(cudaStreamSynchronize(stream));

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  if (when == When::in_a_graph) {
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    if (const cudaError_t captured = work.enqueue(pointer, size, stream)) return void(std::puts(check::name(captured)));
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    CHECK(cudaGraphLaunch(executable, stream)), CHECK(cudaStreamSynchronize(stream));
  } else {
    wait_for<<<1, 1, 0, stream>>>(go), CHECK(cudaGetLastError());
    CHECK(work.enqueue(pointer, size, stream));
    CHECK(cudaEventRecord(first, stream));
    if (when == When::running) {
      for (int more = 0; more < 24; ++more) CHECK(work.enqueue(pointer, size, stream));
      *go = 1;
      CHECK(cudaEventSynchronize(first));
    }
  }
  const CUresult taken = taking.take(memory, mapped);
  const bool is_over = cudaStreamQuery(stream) == cudaSuccess;
  *go = 1;
  if (when == When::in_a_graph) CHECK(cudaGraphLaunch(executable, stream));
  const cudaError_t end = cudaStreamSynchronize(stream);
  void* more;
  const cudaError_t after = cudaMalloc(&more, 64);
  std::printf("%s%s, then %s", brief(taken).c_str(), is_over && when != When::in_a_graph ? " when it was over" : "",
              check::name(end));
  if (after != end) std::printf(", cudaMalloc %s", check::name(after));
  std::puts("");
}

// The cases, in order. run_cases asks each in a process of its own, or the one whose number is the first argument.
struct Case {
  std::string name;
  std::function<void()> ask;
};
inline std::vector<Case> cases;
inline void add_case(const Work& work, size_t size, When when, const Taking& taking, int gpu = 0, int owner = 0,
                     std::vector<int> open_to = {0}) {
  const char* const whens[] = {"queued", "running", "in a graph"};
  cases.push_back({work.name + ", " + sized(size) + ", " + whens[int(when)] + ", " + taking.name,
                   [=] { ask(work, size, when, taking, gpu, owner, open_to); }});
}
inline int run_cases(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  if (argc > 1) return cases.at(std::atoi(argv[1])).ask(), 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    std::printf("%s: ", cases[i].name.c_str());
    const std::string end = run_again(std::to_string(i));
    if (end != "exit 0") say("end", end);
  }
  std::puts("OK");
  return 0;
}
