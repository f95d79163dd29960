// SPDX-License-Identifier: MIT-0
// Order and concurrency: what waits for what in streams, and what really runs side by side. No answer here depends on
// how fast anything is: whoever waits in a kernel does so for something that comes only if the order is the one in
// question.
#include "conformance.h"

#include <atomic>
#include <thread>
#include <vector>

using Stream = cudaStream_t;
static const long patience = 20000000000;  // nanoseconds a kernel waits for what comes; and for what may not come
static const long short_patience = 500000000;

__device__ long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return long(time);
}
// Waits until *flag is not 0. Then *result is 1, or 0 if nobody set it.
__global__ void wait_for(volatile int* flag, volatile int* result, long limit) {
  const long begin = now();
  while (!*flag && now() - begin < limit) {
  }
  *result = *flag != 0;
}
__global__ void set(volatile int* flag) { *flag = 1; }
__global__ void append(int* list, int value) { list[++list[0]] = value; }
__global__ void spin(long time) {
  for (const long begin = now(); now() - begin < time;) {
  }
}
// Says that it is here, and waits for the other.
__global__ void meet(volatile int* mine, volatile int* other, volatile int* result, long limit) {
  *mine = 1;
  __threadfence_system();
  const long begin = now();
  while (!*other && now() - begin < limit) {
  }
  *result = *other != 0;
}
__global__ void double_all(int* data, int count) {
  for (int i = int(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += int(gridDim.x * blockDim.x)) data[i] *= 2;
}

// Memory that host and GPU both see at once, zeros.
static volatile int* shared_words(int count) {
  int* words;
  CHECK(cudaMallocHost(&words, count * sizeof *words));
  for (int i = 0; i < count; ++i) words[i] = 0;
  return words;
}
static Stream new_stream(unsigned flags = cudaStreamDefault) {
  Stream stream;
  CHECK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

// Can work in `second`, put in later, go on while a kernel in `first` waits for it?
static void overtakes(const char* what, Stream first, Stream second) {
  volatile int* const words = shared_words(2);
  wait_for<<<1, 1, 0, first>>>(words, words + 1, short_patience);
  set<<<1, 1, 0, second>>>(words);
  CHECK(cudaDeviceSynchronize());
  say(what, yes(words[1]));
}

// The order of events as the host sees it: each is a letter.
static std::string order;
static void CUDART_CB note(void* letter) { order += *static_cast<const char*>(letter); }
static void in_order(Stream stream, const char* letter) { CHECK(cudaLaunchHostFunc(stream, note, (void*)letter)); }
// A kernel that holds its stream up until open() is called.
struct Gate {
  volatile int* words = shared_words(2);
  void hold(Stream stream) { wait_for<<<1, 1, 0, stream>>>(words, words + 1, patience); }
  void open() { *words = 1; }
};

static void call_in_a_host_function() {
  static cudaError_t answer;
  alarm(20);
  CHECK(cudaFree(nullptr));
  CHECK(cudaLaunchHostFunc(
      nullptr,
      [](void*) {
        void* p;
        answer = cudaMalloc(&p, 4);
      },
      nullptr));
  CHECK(cudaDeviceSynchronize());
  say("cudaMalloc in a host function", answer);
}

int main(int argc, char**) {
  if (argc > 1) return call_in_a_host_function(), 0;
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const Stream a = new_stream(), b = new_stream(), free_a = new_stream(cudaStreamNonBlocking),
               free_b = new_stream(cudaStreamNonBlocking);
  set<<<1, 1>>>(shared_words(1));  // every kernel once, so that all are loaded
  spin<<<1, 1>>>(0);
  CHECK(cudaDeviceSynchronize());

  section("a later kernel overtakes an earlier one that waits for it");
  overtakes("both in one stream", a, a);
  overtakes("two blocking streams", a, b);
  overtakes("two non-blocking streams", free_a, free_b);
  overtakes("blocking, then non-blocking", a, free_a);
  overtakes("stream 0, then blocking", nullptr, a);
  overtakes("blocking, then stream 0", a, nullptr);
  overtakes("stream 0, then non-blocking", nullptr, free_a);
  overtakes("non-blocking, then stream 0", free_a, nullptr);
  overtakes("stream 0, then the thread's stream", nullptr, cudaStreamPerThread);
  overtakes("the thread's stream, then blocking", cudaStreamPerThread, a);
  overtakes("the legacy stream, then stream 0", cudaStreamLegacy, nullptr);

  section("two kernels meet");
  {
    volatile int* const words = shared_words(4);
    meet<<<1, 1, 0, a>>>(words, words + 1, words + 2, patience);
    meet<<<1, 1, 0, b>>>(words + 1, words, words + 3, patience);
    CHECK(cudaDeviceSynchronize());
    say("the first saw the second", yes(words[2]));
    say("the second saw the first", yes(words[3]));
  }

  section("events");
  {
    volatile int* const words = shared_words(2);
    cudaEvent_t event, later;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&later));
    Gate gate;
    gate.hold(a);
    set<<<1, 1, 0, a>>>(words);
    CHECK(cudaEventRecord(event, a));
    CHECK(cudaStreamWaitEvent(b, event, 0));
    wait_for<<<1, 1, 0, b>>>(words, words + 1, 0);  // does not wait itself
    say("the event", cudaEventQuery(event));
    say("the stream that waits for it", cudaStreamQuery(b));
    say("a stream that does not", cudaStreamQuery(free_a));
    gate.open();
    CHECK(cudaStreamSynchronize(b));
    say("the event now", cudaEventQuery(event));
    say("what was before the event is seen after it", yes(words[1]));

    Gate again;
    again.hold(a);
    CHECK(cudaEventRecord(event, a));
    CHECK(cudaStreamWaitEvent(b, event, 0));
    CHECK(cudaEventRecord(event, free_a));  // the wait is for what was recorded when it was put in
    CHECK(cudaEventSynchronize(event));
    say("recorded again elsewhere: the event", cudaEventQuery(event));
    say("the stream that waits for the first record", cudaStreamQuery(b));
    say("destroy the event while it is waited for", cudaEventDestroy(event));
    again.open();
    say("the stream in the end", cudaStreamSynchronize(b));

    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, a));
    spin<<<1, 1, 0, a>>>(20000000);
    CHECK(cudaEventRecord(later, a));
    CHECK(cudaEventSynchronize(later));
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, event, later));
    say("20 ms of spinning take 20 ms at least", yes(milliseconds >= 19.9f));
    say("and less than 2 s", yes(milliseconds < 2000));
  }

  section("host functions");
  {
    Gate gate;
    gate.hold(a);
    in_order(a, "1");
    in_order(a, "2");
    CHECK(cudaStreamAddCallback(a, [](Stream, cudaError_t status, void*) { order += status ? "?" : "3"; }, nullptr, 0));
    in_order(a, "4");
    say("before the gate opens", order.empty() ? "none" : order);
    gate.open();
    CHECK(cudaStreamSynchronize(a));
    say("one stream", order);
    order.clear();

    volatile int* const words = shared_words(2);
    static std::atomic<int> entered;
    entered = 0;
    CHECK(cudaLaunchHostFunc(a, [](void*) { entered = 1; }, nullptr));
    wait_for<<<1, 1, 0, a>>>(words, words + 1, patience);
    while (!entered) std::this_thread::yield();
    say("the kernel after a host function", cudaStreamQuery(a));
    *words = 1;
    CHECK(cudaStreamSynchronize(a));
    say("saw the host's store", yes(words[1]));

    say("a call in a host function: end", run_again("call"));  // it might wait for itself
    static Stream given;
    CHECK(cudaStreamAddCallback(a, [](Stream stream, cudaError_t, void*) { given = stream; }, nullptr, 0));
    CHECK(cudaStreamSynchronize(a));
    say("a callback gets its stream", yes(given == a));
  }

  section("copies");
  {
    const int count = 1 << 18;
    int *pinned, *device;
    std::vector<int> pageable(count);
    CHECK(cudaMallocHost(&pinned, count * sizeof(int)));
    CHECK(cudaMalloc(&device, count * sizeof(int)));
    for (int i = 0; i < count; ++i) pinned[i] = pageable[i] = i;

    Gate gate;
    gate.hold(a);
    CHECK(cudaMemcpyAsync(device, pinned, count * sizeof(int), cudaMemcpyHostToDevice, a));
    say("a pinned copy behind a kernel returns at once: the stream", cudaStreamQuery(a));
    pinned[count - 1] = -5;  // before the copy has begun
    gate.open();
    CHECK(cudaStreamSynchronize(a));
    int last;
    CHECK(cudaMemcpy(&last, device + count - 1, sizeof last, cudaMemcpyDeviceToHost));
    say("it reads the memory when it runs", yes(last == -5));

    CHECK(cudaMemcpyAsync(device, pageable.data(), count * sizeof(int), cudaMemcpyHostToDevice, a));
    pageable[count - 1] = -6;  // such a copy has read its source when it returns
    CHECK(cudaStreamSynchronize(a));
    CHECK(cudaMemcpy(&last, device + count - 1, sizeof last, cudaMemcpyDeviceToHost));
    say("a pageable copy has read its source when it returns", yes(last == count - 1));

    double_all<<<8, 256, 0, a>>>(device, count);
    CHECK(cudaMemcpyAsync(pinned, device, count * sizeof(int), cudaMemcpyDeviceToHost, a));
    CHECK(cudaMemsetAsync(device, 0, count * sizeof(int), a));
    CHECK(cudaStreamSynchronize(a));
    bool right = true;
    for (int i = 0; i < count; ++i) right &= pinned[i] == 2 * i;
    say("kernel, copy, memset in order", yes(right));
    CHECK(cudaMemcpyAsync(pageable.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost, a));
    say("a pageable copy to the host is done when it returns: last element", std::to_string(pageable[count - 1]));

    Gate other;
    other.hold(free_a);
    CHECK(cudaMemcpy(&last, device, sizeof last, cudaMemcpyDeviceToHost));
    say("cudaMemcpy does not wait for a non-blocking stream", cudaStreamQuery(free_a));
    CHECK(cudaMemset(device, 1, 4));
    say("neither does cudaMemset", cudaStreamQuery(free_a));
    other.open();
    CHECK(cudaStreamSynchronize(free_a));

    spin<<<1, 1, 0, a>>>(50000000);  // much longer than the copy takes
    CHECK(cudaMemcpy(&last, device, sizeof last, cudaMemcpyDeviceToHost));
    say("cudaMemcpy waits for a blocking stream", cudaStreamQuery(a));
  }

  section("waiting");
  {
    Gate gate;
    const Stream doomed = new_stream(cudaStreamNonBlocking);
    volatile int* const words = shared_words(2);
    gate.hold(free_a);
    say("cudaStreamSynchronize of another stream", cudaStreamSynchronize(free_b));
    say("cudaStreamSynchronize of stream 0", cudaStreamSynchronize(nullptr));
    say("the held stream", cudaStreamQuery(free_a));
    wait_for<<<1, 1, 0, doomed>>>(words, words + 1, patience);
    say("cudaStreamDestroy of a busy stream", cudaStreamDestroy(doomed));
    *words = 1;
    gate.open();
    CHECK(cudaDeviceSynchronize());
    say("its work was finished", yes(words[1]));
    say("the held stream after cudaDeviceSynchronize", cudaStreamQuery(free_a));
  }

  section("memory in the order of streams");
  {
    int* p;
    int result[4] = {};
    CHECK(cudaMallocAsync(&p, 16 * sizeof(int), a));
    CHECK(cudaMemsetAsync(p, 0, 16 * sizeof(int), a));
    for (int i = 1; i <= 3; ++i) append<<<1, 1, 0, a>>>(p, 10 * i);
    CHECK(cudaMemcpyAsync(result, p, sizeof result, cudaMemcpyDeviceToHost, a));
    CHECK(cudaFreeAsync(p, a));
    CHECK(cudaStreamSynchronize(a));
    say("allocate, fill, copy, free", std::to_string(result[0]) + ": " + std::to_string(result[1]) + " " +
                                          std::to_string(result[2]) + " " + std::to_string(result[3]));
  }

  section("threads");
  {
    // Each thread has a stream of its own: the kernels of two threads meet there.
    volatile int* const words = shared_words(4);
    const auto one = [&](int mine) {
      CHECK(cudaSetDevice(0));
      meet<<<1, 1, 0, cudaStreamPerThread>>>(words + mine, words + 1 - mine, words + 2 + mine, patience);
      CHECK(cudaStreamSynchronize(cudaStreamPerThread));
    };
    std::thread first(one, 0), second(one, 1);
    first.join();
    second.join();
    say("kernels of two threads' own streams met", yes(words[2] && words[3]));
  }
  std::puts("OK");
}
