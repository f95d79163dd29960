// SPDX-License-Identifier: MIT-0
// docs/paste/sleep.cu at work: pointers and a captured graph over several sleeps, a kernel under way, a GPU that is
// full, each call failing in each of several states. `once` is one life, for each of whose calls to fail.
#include "paste_test.h"

#include <cstring>
#include <string>

// The calls of the snippet come by here: the one whose turn it is fails without being made, and so do all undoings
// after it if they are refused too. A release cannot be tried again, so it is made, and answers an error.
static int calls, failing, refused;  // since when; the number of the one that fails, 0 for none; whether undoings are
static const char* failed_call;
static int* asked_to_stop;   // what the kernel under way waits for
static size_t copied_bytes;  // into the memory
static bool fails(const char* name) {
  if (asked_to_stop) {
    EXPECT(strcmp(name, "cuCtxSynchronize") == 0, "%s before it has waited for the GPU", name);
    *static_cast<volatile int*>(asked_to_stop) = 1;
    asked_to_stop = nullptr;
  }
  const bool copies = strncmp(name, "cuMemcpy", 8) == 0;
  EXPECT(!copies || !failing || calls < failing, "%s after a failed %s", name, failed_call);
  const bool undoing = strcmp(name, "cuMemUnmap") == 0 && refused && failing && calls >= failing;
  if (++calls == failing) failed_call = name;
  return undoing || calls == failing;
}
template <class... P, class... A> static CUresult by_way(const char* name, CUresult (*call)(P...), A... arguments) {
  return fails(name) ? CUDA_ERROR_UNKNOWN : call(arguments...);
}
static CUresult release(CUmemGenericAllocationHandle handle) {
  const bool failed = fails("cuMemRelease");
  const CUresult result = cuMemRelease(handle);
  return failed ? CUDA_ERROR_UNKNOWN : result;
}
static CUresult copy_back(CUdeviceptr to, const void* from, size_t size) {
  copied_bytes += size;
  return fails("cuMemcpyHtoD") ? CUDA_ERROR_UNKNOWN : cuMemcpyHtoD(to, from, size);
}
static CUresult copy_out(void* to, CUdeviceptr from, size_t size) {
  return fails("cuMemcpyDtoH") ? CUDA_ERROR_UNKNOWN : cuMemcpyDtoH(to, from, size);
}
static CUresult page_locked(void** host, size_t size) {
  return fails("cuMemAllocHost") ? CUDA_ERROR_UNKNOWN : cuMemAllocHost(host, size);
}
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemAllocHost
#define BY_WAY(call, ...) by_way(#call, call, ##__VA_ARGS__)
#define cuMemcpyHtoD copy_back
#define cuMemcpyDtoH copy_out
#define cuMemAllocHost page_locked
#define cuMemRelease release
#define cuCtxSynchronize() BY_WAY(cuCtxSynchronize)
#define cuDeviceGraphMemTrim(...) BY_WAY(cuDeviceGraphMemTrim, __VA_ARGS__)
#define cuMemGetAllocationGranularity(...) BY_WAY(cuMemGetAllocationGranularity, __VA_ARGS__)
#define cuMemAddressReserve(...) BY_WAY(cuMemAddressReserve, __VA_ARGS__)
#define cuMemAddressFree(...) BY_WAY(cuMemAddressFree, __VA_ARGS__)
#define cuMemCreate(...) BY_WAY(cuMemCreate, __VA_ARGS__)
#define cuMemMap(...) BY_WAY(cuMemMap, __VA_ARGS__)
#define cuMemSetAccess(...) BY_WAY(cuMemSetAccess, __VA_ARGS__)
#define cuMemUnmap(...) BY_WAY(cuMemUnmap, __VA_ARGS__)
#define cuMemFreeHost(...) BY_WAY(cuMemFreeHost, __VA_ARGS__)
#include "../../docs/paste/sleep.cu"
#undef cuMemcpyHtoD
#undef cuMemcpyDtoH
#undef cuMemAllocHost
#undef cuMemRelease
#undef cuCtxSynchronize
#undef cuDeviceGraphMemTrim
#undef cuMemGetAllocationGranularity
#undef cuMemAddressReserve
#undef cuMemAddressFree
#undef cuMemCreate
#undef cuMemMap
#undef cuMemSetAccess
#undef cuMemUnmap
#undef cuMemFreeHost

constexpr size_t MiB = 1 << 20;
using State = SleepingMemory::State;

struct Node {
  Node* next;
  unsigned value;
};
__global__ void link(Node* a, Node* b) {
  a->next = b, a->value = 1;
  b->next = a, b->value = 2;
}
__global__ void follow(Node* a, unsigned* sum) { *sum = a->next->value * 10 + a->next->next->value; }
__global__ void add(unsigned* to, const unsigned* value) { *to += *value; }
__global__ void store_when_asked(const int* asked, unsigned* to, unsigned value) {
  while (!*static_cast<const volatile int*>(asked)) {
  }
  *to = value;
}

template <class T> static T* pointer(CUdeviceptr address) { return reinterpret_cast<T*>(address); }
static unsigned load(CUdeviceptr address) {
  unsigned value;
  CHECK(cudaMemcpy(&value, pointer<unsigned>(address), sizeof value, cudaMemcpyDeviceToHost));
  return value;
}
static void store(CUdeviceptr address, unsigned value) {
  CHECK(cudaMemcpy(pointer<unsigned>(address), &value, sizeof value, cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
}
static void expect_all(const SleepingMemory& set, State state, const char* when) {
  for (const auto& each : set.mappings) EXPECT(each.state == state, "%s: state %d", when, each.state);
}

// Two mappings to keep, and one to drop, with pointers from one into another.
struct Example {
  SleepingMemory set{0};
  CUdeviceptr weights = 0, more = 0, cache = 0;
  size_t size, more_size, cache_size;
  explicit Example(size_t unit = 4 * MiB) : size(unit - 1), more_size(2 * unit), cache_size(8 * unit) {
    CHECK(set.add(&weights, &size, true));
    CHECK(set.add(&more, &more_size, true));
    CHECK(set.add(&cache, &cache_size, false));
  }
  void write() {
    link<<<1, 1>>>(pointer<Node>(weights), pointer<Node>(more));
    finish();
    store(more + more_size - 4, 33);
  }
  void expect_content(const char* when) {
    follow<<<1, 1>>>(pointer<Node>(weights), pointer<unsigned>(cache + cache_size - 4));
    finish();
    EXPECT(load(cache + cache_size - 4) == 21, "%s: %u by pointers", when, load(cache + cache_size - 4));
    EXPECT(load(more + more_size - 4) == 33, "%s: the last word is %u", when, load(more + more_size - 4));
  }
};

static void expect_pointers_to_stay() {
  Example example;
  SleepingMemory& set = example.set;
  EXPECT(example.size == 4 * MiB, "%zu bytes", example.size);  // rounded up
  expect_all(set, SleepingMemory::ASLEEP, "before the first wake");
  CHECK(set.sleep());  // of what sleeps
  CHECK(set.wake());
  CHECK(set.wake());  // of what is awake
  example.write();
  const size_t awake = free_memory();
  for (int round = 0; round < 3; ++round) {
    CHECK(set.sleep());
    expect_all(set, SleepingMemory::ASLEEP, "asleep");
    CHECK(cudaDeviceSynchronize());
    EXPECT(free_memory() >= awake + 40 * MiB, "asleep, %zu bytes are free, and %zu before", free_memory(), awake);
    copied_bytes = 0;
    CHECK(set.wake());
    expect_all(set, SleepingMemory::AWAKE, "awake");
    EXPECT(copied_bytes == 12 * MiB, "%zu bytes were copied", copied_bytes);
    example.expect_content("awake");
  }
  CUdeviceptr late = 0;
  size_t size = 1;
  CHECK(set.add(&late, &size, true));
  CHECK(set.wake());
  store(late, 44);
  CHECK(set.sleep());
  CHECK(set.remove(example.more));  // asleep
  CHECK(set.wake());
  EXPECT(load(late) == 44, "%u", load(late));
  CHECK(set.remove(late));  // awake
  EXPECT(set.remove(late) == CUDA_ERROR_INVALID_VALUE && set.mappings.size() == 2, "removed twice");
  CHECK(set.destroy());
  CHECK(set.destroy());
}

// A graph of a copy, a memset, a kernel and memory nodes, captured once.
static void expect_graph_to_stay() {
  Example example;
  SleepingMemory& set = example.set;
  CHECK(set.wake());
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  unsigned *term = pointer<unsigned>(example.cache), *sum = pointer<unsigned>(example.weights);
  void* own = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&own, 32 * MiB, stream));  // memory nodes, which the graph takes and gives back
  CHECK(cudaMemsetAsync(own, 1, 32 * MiB, stream));
  CHECK(cudaMemcpyAsync(term, own, 4, cudaMemcpyDeviceToDevice, stream));
  add<<<1, 1, 0, stream>>>(sum, term);
  CHECK(cudaFreeAsync(own, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&replay, graph, 0));
  store(example.weights, 5);
  for (unsigned round = 1; round <= 3; ++round) {
    CHECK(cudaGraphLaunch(replay, stream));  // sleep waits for this stream too
    cuuint64_t held = 0;
    CHECK(set.sleep());
    CHECK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &held));
    EXPECT(held == 0, "the graph holds %llu bytes", (unsigned long long)held);
    CHECK(set.wake());
    EXPECT(load(example.weights) == 5 + round * 0x01010101, "round %u: %u", round, load(example.weights));
  }
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));  // no time to sleep: refused, nothing changes
  CHECK(cudaMemsetAsync(term, 0, 4, stream));
  const CUresult refusal = set.sleep();
  EXPECT(refusal != CUDA_SUCCESS, "it slept while a stream captured");
  expect_all(set, SleepingMemory::AWAKE, "after a capture");
  cudaGraph_t spoilt = nullptr;
  cudaStreamEndCapture(stream, &spoilt);
  if (spoilt) CHECK(cudaGraphDestroy(spoilt));
  cudaGetLastError();
  CHECK(cudaGraphExecDestroy(replay));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudaStreamDestroy(stream));
  CHECK(set.destroy());
}

// sleep waits for a kernel that stores as late as can be, in a stream that no other waits for.
static void expect_to_wait() {
  Example example;
  cudaStream_t stream;
  int* asked;
  CHECK(example.set.wake());
  CHECK(example.set.sleep());  // the host memory is there: nothing else could wait
  CHECK(example.set.wake());
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaHostAlloc(reinterpret_cast<void**>(&asked), sizeof *asked, cudaHostAllocMapped));
  *asked = 0;
  store_when_asked<<<1, 1, 0, stream>>>(asked, pointer<unsigned>(example.weights), 77);
  CHECK(cudaGetLastError());
  asked_to_stop = asked;
  CHECK(example.set.sleep());
  CHECK(example.set.wake());
  EXPECT(load(example.weights) == 77, "%u", load(example.weights));
  CHECK(example.set.destroy());
  CHECK(cudaFreeHost(asked));
  CHECK(cudaStreamDestroy(stream));
}

// While it sleeps others take the GPU. It stays asleep, takes nothing, and wakes when there is room.
static void expect_to_sleep_on() {
  Example example;
  SleepingMemory& set = example.set;
  CHECK(set.wake());
  example.write();
  CHECK(set.sleep());
  CUmemGenericAllocationHandle room;  // for the first mapping alone
  CHECK(cuMemCreate(&room, example.size, &set.memory, 0));
  std::vector<CUmemGenericAllocationHandle> others;
  for (size_t size = size_t(64) << 30; size >= 2 * MiB;) {
    CUmemGenericAllocationHandle handle;
    const CUresult result = cuMemCreate(&handle, size, &set.memory, 0);
    if (result == CUDA_SUCCESS) others.push_back(handle);
    else size /= 2;
    EXPECT(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY, "%s", check::name(result));
  }
  CHECK(cuMemRelease(room));
  copied_bytes = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT(set.wake() == CUDA_ERROR_OUT_OF_MEMORY, "it woke");
    expect_all(set, SleepingMemory::ASLEEP, "without room");
  }
  EXPECT(copied_bytes == 0, "it copied %zu bytes", copied_bytes);
  for (const auto each : others) CHECK(cuMemRelease(each));
  CHECK(set.wake());
  example.expect_content("with room again");
  CHECK(set.destroy());
}

// Each call of each function fails, with its undoing or without, and what is left can sleep and wake.
static void expect_to_go_on() {
  int failures = 0;
  for (refused = 0; refused < 2; ++refused)
    for (const char* what : {"sleep", "wake", "first wake"})
      for (const char* next : {"sleep", "wake"}) {
        const bool first = strcmp(what, "first wake") == 0;
        for (int number = 1, more = 1; more; ++number) {
          Example example(2 * MiB);
          SleepingMemory& set = example.set;
          if (!first) {
            CHECK(set.wake());
            example.write();
            if (strcmp(what, "wake") == 0) CHECK(set.sleep());
          }
          const State before = set.mappings[0].state;
          calls = 0, failing = number;
          const CUresult result = strcmp(what, "sleep") == 0 ? set.sleep() : set.wake();
          more = calls >= failing;
          failing = 0;
          const std::string about = std::string(what) + ", whose " + (more ? failed_call : "calls all work") +
                                    (more ? " fails, then " : ", then ") + next;
          EXPECT((result == CUDA_SUCCESS) == !more, "%s: %s", about.c_str(), check::name(result));
          failures += more;
          if (more && !refused && strcmp(failed_call, "cuMemUnmap") != 0) expect_all(set, before, about.c_str());
          const bool sleeps = strcmp(next, "sleep") == 0;
          CHECK(sleeps ? set.sleep() : set.wake());
          expect_all(set, sleeps ? SleepingMemory::ASLEEP : SleepingMemory::AWAKE, about.c_str());
          CHECK(set.wake());
          if (first) example.write();
          example.expect_content(about.c_str());
          CHECK(set.destroy());
        }
      }
  for (int number = 1, more = 1; more; ++number) {
    Example example(2 * MiB);
    CHECK(example.set.wake());
    CHECK(example.set.sleep());
    CUdeviceptr address = 4711;
    size_t size = 5;
    calls = 0, failing = number, refused = 0;
    CUresult result = example.set.add(&address, &size, true);
    if (result != CUDA_SUCCESS) EXPECT(address == 4711 && size == 5 && example.set.mappings.size() == 3, "changed");
    else result = example.set.wake();
    if (result == CUDA_SUCCESS) result = example.set.destroy();
    more = calls >= failing;
    failing = 0;
    EXPECT((result == CUDA_SUCCESS) == !more, "%s", check::name(result));
    failures += more;
    CHECK(example.set.destroy());
  }
  std::printf("%d failures\n", failures);
}

// One life. What fails is done again.
static CUresult once() {
  CUresult first = CUDA_SUCCESS;
  const auto step = [&](auto&& call) {
    const CUresult result = call();
    if (result == CUDA_SUCCESS) return;
    EXPECT(first == CUDA_SUCCESS, "twice: %s", check::name(result));
    first = result;
    CHECK(call());
  };
  SleepingMemory set{0};
  CUdeviceptr kept = 0, dropped = 0;
  size_t size = 2 * MiB;
  step([&] { return set.add(&kept, &size, true); });
  step([&] { return set.add(&dropped, &size, false); });
  step([&] { return set.wake(); });
  CHECK(cuMemsetD32(kept, 7, size / 4));
  step([&] { return set.sleep(); });
  step([&] { return set.wake(); });
  EXPECT(load(kept + size - 4) == 7, "%u", load(kept + size - 4));
  step([&] { return set.destroy(); });
  return first;
}

int main(int argc, char** argv) {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    const CUresult result = once();
    puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
    return result != CUDA_SUCCESS;
  }
  expect_pointers_to_stay();
  expect_graph_to_stay();
  expect_to_wait();
  expect_to_sleep_on();
  expect_to_go_on();
  puts("OK");
}
