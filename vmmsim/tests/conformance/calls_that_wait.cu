// SPDX-License-Identifier: MIT-0
// Which calls wait for a kernel that runs? One holds a stream up until it is let go on, which happens when the call has
// returned, or until its patience is over. And what does such a kernel find that touches memory freed meanwhile?
#include "conformance.h"

#include <functional>
#include <memory>
#include <thread>

// Nanoseconds that a kernel waits: far longer than any call takes by itself, also where others take the processors.
static const long patience = 1000000000;

__device__ long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return long(time);
}
// Says that it runs, waits until it may go on, then writes to `last`, if there is one, what `last` held and 1.
__global__ void hold(volatile int* words, volatile int* last, long limit) {
  words[1] = 1;
  __threadfence_system();
  const long begin = now();
  while (!words[0] && now() - begin < limit) __nanosleep(1000);
  if (last) words[2] = ++*last;
}

struct Held {
  volatile int* words;
  cudaStream_t stream;
  explicit Held(cudaStream_t where, int* last = nullptr) : stream(where) {
    static volatile int* const all = [] {
      int* made;
      CHECK(cudaMallocHost(&made, 3 * sizeof *made));
      return made;
    }();
    words = all;
    words[0] = words[1] = words[2] = 0;
    hold<<<1, 1, 0, stream>>>(words, last, patience);
    CHECK(cudaGetLastError());
    while (!words[1]) {
    }
  }
  bool runs() const { return cudaStreamQuery(stream) == cudaErrorNotReady; }
  void go_on() { words[0] = 1; }
};

struct Kind {
  const char* name;
  cudaStream_t stream;
};
static Kind kinds[] = {{"non-blocking", nullptr}, {"legacy", nullptr}, {"another thread's", nullptr}};

using Call = std::function<void()>;
// `prepare` makes what the call needs, before the kernel runs, and returns the call.
static void ask(const char* what, Call (*prepare)(), Call (*tidy)() = nullptr) {
  std::string answer;
  for (const Kind& kind : kinds) {
    const Call call = prepare();
    std::unique_ptr<Held> held;
    const auto launch = [&] { held = std::make_unique<Held>(kind.stream); };
    if (&kind == &kinds[2]) std::thread(launch).join();
    else launch();
    Held& kernel = *held;
    call();
    answer += std::string(answer.empty() ? "" : ", ") + kind.name + (kernel.runs() ? " no" : " yes");
    kernel.go_on();
    CHECK(cudaDeviceSynchronize());
    if (tidy) tidy()();
  }
  say(std::string("waits: ") + what, answer);
}

template <size_t size> Call free_of() {
  void* p;
  CHECK(cudaMalloc(&p, size));
  return [p] { CHECK(cudaFree(p)); };
}
template <size_t size> Call host_free_of() {
  void* p;
  CHECK(cudaMallocHost(&p, size));
  return [p] { CHECK(cudaFreeHost(p)); };
}
static void* made;
static Call free_made() {
  return [] { CHECK(cudaFree(made)); };
}
static Call free_made_host() {
  return [] { CHECK(cudaFreeHost(made)); };
}
static CUdeviceptr at;
static Call unmap() {
  at = reserve(page);
  map_new(at, page);
  return [] { CHECK(cuMemUnmap(at, page)); };
}
static Call free_at() {
  return [] { CHECK(cuMemAddressFree(at, page)); };
}
static Call grow() {
  at = reserve(page);
  return [] { map_new(at, page); };
}
static Call unmap_at() {
  return [] { unmap_and_free(at, page, page); };
}

// For each VMM call what it takes is made first; afterwards all of it goes. `part` is the second half of a reservation.
static CUmemGenericAllocationHandle memory;
static CUdeviceptr part;
static int exported = -1;
static void map_first_half() {
  at = reserve(2 * page);
  part = at + page;
  memory = create(page, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CHECK(cuMemMap(at, page, 0, memory, 0));
  const CUmemAccessDesc access = access_of(0);
  CHECK(cuMemSetAccess(at, page, &access, 1));
}
static void map_both_halves() {
  map_first_half();
  CHECK(cuMemMap(part, page, 0, memory, 0));
  const CUmemAccessDesc access = access_of(0);
  CHECK(cuMemSetAccess(part, page, &access, 1));
}
static Call all_goes() {
  return [] {
    if (memory) CHECK(cuMemRelease(memory));
    if (exported >= 0) close(exported);
    memory = 0;
    exported = -1;
    CHECK(cuMemUnmap(at, 2 * page));  // holes do no harm
    CHECK(cuMemAddressFree(at, 2 * page));
  };
}
static void set_access(CUdeviceptr where, CUmemAccess_flags flags) {
  const CUmemAccessDesc access = access_of(0, flags);
  CHECK(cuMemSetAccess(where, page, &access, 1));
}
static void each_vmm_call() {
  ask("cuMemAddressReserve", [] { return Call([] { at = reserve(page); }); }, free_at);
  ask("cuMemAddressFree", [] {
    at = reserve(page);
    return free_at();
  });
  ask(
      "cuMemCreate", [] { return Call([] { memory = create(page); }); },
      [] { return Call([] { CHECK(cuMemRelease(memory)); }); });
  ask("cuMemRelease, the last reference", [] {
    memory = create(page);
    return Call([] { CHECK(cuMemRelease(memory)); });
  });
  memory = 0;
  const auto halves = [](const char* what, void (*prepare)(), void (*call)()) {
    static void (*prepared)();
    static void (*called)();
    prepared = prepare;
    called = call;
    ask(
        what,
        [] {
          prepared();
          return Call(called);
        },
        all_goes);
  };
  halves("cuMemMap", map_first_half, [] { CHECK(cuMemMap(part, page, 0, memory, 0)); });
  halves(
      "cuMemSetAccess, the first right",
      [] {
        map_first_half();
        CHECK(cuMemMap(part, page, 0, memory, 0));
      },
      [] { set_access(part, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); });
  halves("cuMemSetAccess, a right less", map_both_halves, [] { set_access(part, CU_MEM_ACCESS_FLAGS_PROT_READ); });
  halves("cuMemSetAccess, no right", map_both_halves, [] { set_access(part, CU_MEM_ACCESS_FLAGS_PROT_NONE); });
  halves("cuMemUnmap, and another mapping holds the memory", map_both_halves, [] { CHECK(cuMemUnmap(part, page)); });
  halves("cuMemRetainAllocationHandle", map_first_half, [] {
    CUmemGenericAllocationHandle again;
    CHECK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at)));
    CHECK(cuMemRelease(again));
  });
  halves("cuMemExportToShareableHandle", map_first_half,
         [] { CHECK(cuMemExportToShareableHandle(&exported, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0)); });
  halves(
      "cuMemImportFromShareableHandle",
      [] {
        map_first_half();
        CHECK(cuMemExportToShareableHandle(&exported, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
      },
      [] {
        CUmemGenericAllocationHandle again;
        void* const fd = reinterpret_cast<void*>(size_t(exported));
        CHECK(cuMemImportFromShareableHandle(&again, fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        CHECK(cuMemRelease(again));
      });
  ask("cuMemGetInfo", [] { return Call([] { free_bytes(); }); });
}

// A buffer grows, and its new part goes again, while a kernel uses the old part.
static void grow_in_use() {
  at = reserve(2 * page);
  map_new(at, page);
  int* const word = reinterpret_cast<int*>(at);
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaDeviceSynchronize());
  Held kernel(kinds[0].stream, word);
  map_new(at + page, page);
  CHECK(cuMemUnmap(at + page, page));
  const bool ran = kernel.runs();
  kernel.go_on();
  const cudaError_t answer = cudaDeviceSynchronize();
  say("mapped and unmapped behind it", std::string(ran ? "while the kernel ran" : "after waiting") + ", then " +
                                           check::name(answer) + ", the word is " + std::to_string(kernel.words[2]));
  unmap_and_free(at, page, 2 * page);
}

// Memory of `size` bytes is freed while a kernel runs that will write to it.
static void in_use(size_t size) {
  int* p;
  CHECK(cudaMalloc(&p, size));
  CHECK(cudaMemset(p, 0, size));
  CHECK(cudaDeviceSynchronize());
  Held kernel(kinds[0].stream, p);
  CHECK(cudaFree(p));
  const bool ran = kernel.runs();
  kernel.go_on();
  const cudaError_t answer = cudaDeviceSynchronize();
  say("cudaFree of " + std::to_string(size) + " bytes that a kernel will write",
      std::string(ran ? "returns at once" : "waits") + ", then " + check::name(answer));
}
int main(int argc, char** argv) {
  alarm(240);
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaStreamCreateWithFlags(&kinds[0].stream, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&kinds[2].stream, cudaStreamNonBlocking));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, hold));
  if (argc > 1) {
    in_use(size_t(atol(argv[1])));
    std::fflush(stdout);
    _exit(0);
  }
  {
    Held first(nullptr);
    first.go_on();
    CHECK(cudaDeviceSynchronize());
  }
  section("calls while a kernel runs in a stream");
  ask("nothing", [] { return Call([] {}); });
  ask("cudaFree of nothing", [] { return Call([] { CHECK(cudaFree(nullptr)); }); });
  ask("cudaFree of 1 MiB", free_of<MiB>);
  ask("cudaFree of 64 MiB", free_of<64 * MiB>);
  ask("cudaMalloc of 4 bytes", [] { return Call([] { CHECK(cudaMalloc(&made, 4)); }); }, free_made);
  ask("cudaMalloc of 64 MiB", [] { return Call([] { CHECK(cudaMalloc(&made, 64 * MiB)); }); }, free_made);
  ask("cudaMallocHost", [] { return Call([] { CHECK(cudaMallocHost(&made, 64 * MiB)); }); }, free_made_host);
  ask("cudaFreeHost of 4 bytes", host_free_of<4>);
  ask("cuMemUnmap", unmap, free_at);
  ask("cuMemCreate, cuMemMap, cuMemSetAccess", grow, unmap_at);
  ask("cudaHostUnregister", [] {
    void* const p = std::aligned_alloc(4096, page);
    CHECK(cudaHostRegister(p, page, 0));
    return Call([p] { CHECK(cudaHostUnregister(p)); });
  });
  ask("cudaStreamCreate and cudaStreamDestroy", [] {
    return Call([] {
      cudaStream_t stream;
      CHECK(cudaStreamCreate(&stream));
      CHECK(cudaStreamDestroy(stream));
    });
  });
  ask("cudaEventCreate and cudaEventDestroy", [] {
    return Call([] {
      cudaEvent_t event;
      CHECK(cudaEventCreate(&event));
      CHECK(cudaEventDestroy(event));
    });
  });
  ask("cudaFreeAsync", [] {
    void* p;
    CHECK(cudaMallocAsync(&p, MiB, nullptr));
    CHECK(cudaDeviceSynchronize());
    return Call([p] { CHECK(cudaFreeAsync(p, kinds[0].stream)); });
  });
  ask("cudaFree of memory of cudaMallocAsync", [] {
    void* p;
    CHECK(cudaMallocAsync(&p, MiB, nullptr));
    CHECK(cudaDeviceSynchronize());
    return Call([p] { CHECK(cudaFree(p)); });
  });

  section("calls of virtual memory management while a kernel runs in a stream");
  each_vmm_call();

  section("a buffer grows while a kernel uses it");
  grow_in_use();

  section("memory is free again while a kernel runs");
  {
    void* p;
    CHECK(cudaMalloc(&p, 64 * MiB));
    const size_t before = free_bytes();
    Held kernel(kinds[0].stream);
    CHECK(cudaFree(p));
    say("64 MiB", mib((long long)(free_bytes() - before)) + (kernel.runs() ? "" : ", after waiting"));
    kernel.go_on();
    CHECK(cudaDeviceSynchronize());
  }

  section("memory that a kernel will write is freed");
  for (const size_t size : {size_t(4), 64 * MiB}) run_again(std::to_string(size));
  std::printf("OK\n");
}
