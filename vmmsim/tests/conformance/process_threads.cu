// SPDX-License-Identifier: MIT-0
// Threads of a process with a driver: those that run host functions, those that end with a context, and many at once.
#include "process_questions.h"

#include <mutex>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/prctl.h>

// --- The thread of a host function.
struct Found {
  pthread_t thread;
  size_t stack;
  char name[16];
  int policy;
  sched_param parameters;
};
static void look(void* result) {
  Found& found = *static_cast<Found*>(result);
  found.thread = pthread_self();
  pthread_attr_t attributes;
  pthread_getattr_np(pthread_self(), &attributes);
  pthread_attr_getstacksize(&attributes, &found.stack);
  pthread_attr_destroy(&attributes);
  prctl(PR_GET_NAME, found.name);
  pthread_getschedparam(pthread_self(), &found.policy, &found.parameters);
}
static Found look_in(cudaStream_t stream) {
  Found found = {};
  CHECK(cudaLaunchHostFunc(stream, look, &found));
  CHECK(cudaDeviceSynchronize());
  return found;
}
static std::vector<cudaStream_t> make_streams(int count) {
  std::vector<cudaStream_t> all(count);
  for (cudaStream_t& stream : all) CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return all;
}
SECTION("the thread of a host function") {
  prctl(PR_SET_NAME, "ours");
  make_context();
  const auto streams = make_streams(2);
  const Found first = look_in(streams[0]), again = look_in(streams[0]), second = look_in(streams[1]);
  Found of_ours;
  std::thread([&] { look(&of_ours); }).join();
  say("main's", yes(first.thread == pthread_self()));
  say("the same for two functions of a stream", yes(first.thread == again.thread));
  say("the same for two streams", yes(first.thread == second.thread));
  say("a stack as std::thread has", first.stack == of_ours.stack ? "yes" : std::to_string(first.stack / 1024) + " KiB");
  say("main's name", yes(std::string(first.name) == "ours"));
  say("a name that begins with cuda", yes(std::string(first.name).compare(0, 4, "cuda") == 0));
  say("the usual policy", yes(first.policy == SCHED_OTHER));
  CUcontext other;
  cudaStream_t stream;
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  say("the same in another context", yes(first.thread == look_in(stream).thread));
}

// --- Host functions that wait.
static sem_t go_on;
static std::atomic<int> begun;
static void wait_for_go(void*) {
  ++begun;
  sem_wait(&go_on);
}
static void let_go(int count) {
  for (int i = 0; i < count; ++i) sem_post(&go_on);
}
static void waiting_functions(int count) {
  begun = 0;
  void* memory;
  CHECK(cudaMalloc(&memory, MiB));
  const auto streams = make_streams(count + 1);
  for (int i = 0; i < count; ++i) CHECK(cudaLaunchHostFunc(streams[i], wait_for_go, nullptr));
  comes_true([] { return begun > 0; });
  CHECK(cudaMemsetAsync(memory, 7, MiB, streams[count]));
  say("a memset in another stream", cudaStreamSynchronize(streams[count]));
  *flag = 1;
  wait_for<<<1, 1, 0, streams[count]>>>(const_cast<int*>(flag));
  say("a kernel", cudaStreamSynchronize(streams[count]));
  unsigned char value = 0;
  CHECK(cudaMemcpyAsync(&value, memory, 1, cudaMemcpyDeviceToHost, streams[count]));
  say("a copy", cudaStreamSynchronize(streams[count]));
  say("what it brought", std::to_string(value));
  say("more than one function has begun", yes(comes_true([] { return begun > 1; })));
  CHECK(cudaLaunchHostFunc(streams[count], [](void* word) { *static_cast<std::atomic<int>*>(word) += 1000; }, &begun));
  say("another host function has run", yes(comes_true([] { return begun >= 1000; })));
  let_go(count);
  say("let go, all", cudaDeviceSynchronize());
  say("functions that ran", std::to_string(begun));
}
SECTION("host functions that wait") {
  make_context();
  sem_init(&go_on, 0, 0);
  run_kernel();
  *flag = 1;
  CHECK(cudaDeviceSynchronize());
  section("two");
  waiting_functions(2);
  section("32");
  waiting_functions(32);
}
SECTION("host functions of two contexts") {
  make_context();
  sem_init(&go_on, 0, 0);
  CHECK(cudaLaunchHostFunc(make_streams(1)[0], wait_for_go, nullptr));
  comes_true([] { return begun > 0; });
  CUcontext other;
  CHECK(cuCtxCreate(&other, nullptr, 0, 0));
  CHECK(cudaLaunchHostFunc(make_streams(1)[0], [](void*) { ++begun; }, nullptr));
  say("one begins while another context's waits", yes(comes_true([] { return begun > 1; })));
  let_go(1);
  say("all", cudaDeviceSynchronize());
}

// --- Threads that end.
static CUcontext context;
static CUdeviceptr memory;
static void ends_with_context(const char* what, bool destroy) {
  say(what, "");
  unsigned char value = 0;
  say("  set current in main", cuCtxSetCurrent(context));
  say("  memset of the thread's memory", cuMemsetD8(memory, 5, 4));
  say("  copy of it", cuMemcpyDtoH(&value, memory, 1));
  say("  value", std::to_string(value));
  say("  free", cuMemFree(memory));
  say("  synchronize", cuCtxSynchronize());
  if (destroy) say("  destroy", cuCtxDestroy(context));
}
SECTION("threads that end with a context current") {
  CHECK(cuInit(0));
  std::thread([] {
    CHECK(cuCtxCreate(&context, nullptr, 0, 0));
    CHECK(cuMemAlloc(&memory, MiB));
  }).join();
  ends_with_context("cuCtxCreate", true);
  std::thread([] {
    CHECK(cuCtxCreate(&context, nullptr, 0, 0));
    CHECK(cuCtxPushCurrent(context));
    CHECK(cuMemAlloc(&memory, MiB));
  }).join();
  ends_with_context("cuCtxCreate, and pushed once more", true);
  std::thread([] {
    CHECK(cuDevicePrimaryCtxRetain(&context, 0));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemAlloc(&memory, MiB));
  }).join();
  ends_with_context("cuDevicePrimaryCtxRetain", false);
}
SECTION("a thread that ends while its work runs") {
  make_context();
  std::thread([] {
    CHECK(cudaSetDevice(0));
    run_kernel(cudaStreamPerThread);
    CHECK(cudaMalloc(reinterpret_cast<void**>(&memory), 4));
    CHECK(cudaMemsetAsync(reinterpret_cast<void*>(memory), 9, 4, cudaStreamPerThread));
  }).join();
  *flag = 1;
  say("a kernel and a memset in its cudaStreamPerThread", cudaDeviceSynchronize());
  unsigned char value = 0;
  CHECK(cudaMemcpy(&value, reinterpret_cast<void*>(memory), 1, cudaMemcpyDeviceToHost));
  say("value", std::to_string(value));
}

// --- Calls of what runs at the end of a thread.
static std::string when;
static void tell_end(void*) {
  CUcontext current = nullptr;
  int device = -1;
  say(when + ": cuCtxGetCurrent", cuCtxGetCurrent(&current));
  say(when + ": the context of the thread", yes(current == context));
  say(when + ": cuMemsetD8", cuMemsetD8(memory, 1, 4));
  say(when + ": cuMemFree", cuMemFree(memory));
  say(when + ": cudaGetDevice", cudaGetDevice(&device));
  say(when + ": cudaDeviceSynchronize", cudaDeviceSynchronize());
}
static pthread_key_t early, late;
struct AtEnd {
  ~AtEnd() {
    if (is_told) tell_end(nullptr);
  }
  bool is_told = false;
};
static thread_local AtEnd at_end;

static void* with_key(void* key) {
  CHECK(cudaSetDevice(0));
  CHECK(cuCtxGetCurrent(&context));
  CHECK(cuMemAlloc(&memory, MiB));
  if (key) pthread_setspecific(*static_cast<pthread_key_t*>(key), &memory);
  else at_end.is_told = true;
  return nullptr;
}
static void run_with_key(const char* name, pthread_key_t* key) {
  when = name;
  pthread_t thread;
  EXPECT(pthread_create(&thread, nullptr, with_key, key) == 0 && pthread_join(thread, nullptr) == 0, "no thread");
}
SECTION("calls at a thread's end") {
  pthread_key_create(&early, tell_end);
  make_context();
  pthread_key_create(&late, tell_end);
  run_with_key("a key of before cuInit", &early);
  run_with_key("a key of after cuInit", &late);
  run_with_key("a thread_local object", nullptr);
  // In the second round of destructors, when the driver's own may have had their turn.
  pthread_key_t twice;
  pthread_key_create(&twice, [](void* value) { pthread_setspecific(late, value); });
  run_with_key("a key that is set by a destructor", &twice);
  say("afterwards", use_gpu());
}

SECTION("200 threads") {
  constexpr int count = 200;
  make_context();
  std::atomic<int> ready = 0, right = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < count; ++i)
    all.emplace_back([&, i] {
      cudaStream_t stream;
      void* own;
      unsigned char value = 0;
      bool is_well = cudaSetDevice(0) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess &&
                     cudaMalloc(&own, 4096) == cudaSuccess;
      ++ready;
      while (ready < count) std::this_thread::yield();
      is_well = is_well && cudaMemsetAsync(own, i, 4096, stream) == cudaSuccess &&
                cudaMemcpyAsync(&value, own, 1, cudaMemcpyDeviceToHost, stream) == cudaSuccess &&
                cudaStreamSynchronize(stream) == cudaSuccess && cudaFree(own) == cudaSuccess &&
                cudaStreamDestroy(stream) == cudaSuccess;
      right += is_well && value == i;
    });
  for (std::thread& thread : all) thread.join();
  say("threads whose calls all went well", std::to_string(right));
}

int main(int argc, char** argv) { return ask_in_sections(argc, argv); }
