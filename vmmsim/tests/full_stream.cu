// SPDX-License-Identifier: MIT-0
// A stream takes about a thousand kernels that have not ended; then a launch waits. Nothing else does, so that whatever
// lets the stream go on can come: from another thread, another stream, a host function. But while its kernels go on to
// end, there are never so many.
#include <atomic>
#include <cstdio>
#include <thread>
#include "check.h"

namespace {

constexpr int most = 3000;
constexpr long patience = 20'000'000'000;  // nanoseconds

struct Words {
  int put_in;     // launches that have returned
  int when_full;  // how many that were when the stream took no more
  int is_open, opened, ended;
};
volatile Words* words;  // host and GPU both see it at once

__device__ long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return long(time);
}
// Gives the host time for all its launches, and then waits until it is let go on.
__global__ void hold(volatile Words* words) {
  const long begin = now();
  while (words->put_in < 1000 && now() - begin < patience) {
  }
  for (const long full = now(); now() - full < 200'000'000;) {
  }
  words->when_full = words->put_in;
  while (!words->is_open && now() - begin < patience) {
  }
  words->opened = words->is_open;
}
__global__ void open(volatile Words* words) { words->is_open = 1; }
__global__ void end(Words* words) { atomicAdd(&words->ended, 1); }

cudaStream_t new_stream(unsigned flags) {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, flags));
  return stream;
}

// Fills `filled` behind a kernel in `held`, while another thread waits to let it go on.
void fill(const char* what, cudaStream_t held, cudaStream_t filled) {
  const cudaStream_t other = new_stream(cudaStreamNonBlocking), third = new_stream(cudaStreamNonBlocking);
  words->put_in = words->when_full = words->is_open = words->opened = words->ended = 0;
  hold<<<1, 1, 0, held>>>(words);
  std::thread opener([&] {
    while (!words->when_full) std::this_thread::yield();
    cudaEvent_t event;
    void* memory;
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventRecord(event, filled));
    CHECK(cudaMalloc(&memory, 1));
    CHECK(cudaLaunchHostFunc(filled, [](void*) {}, nullptr));
    CHECK(cudaLaunchHostFunc(third, [](void*) {}, nullptr));
    CHECK(cudaEventRecord(event, third));
    CHECK(cudaStreamWaitEvent(other, event));
    open<<<1, 1, 0, other>>>(words);
    CHECK(cudaGetLastError());
    CHECK(cudaEventDestroy(event));
    CHECK(cudaFree(memory));
  });
  for (int i = 0; i < most; ++i) {
    end<<<1, 1, 0, filled>>>(const_cast<Words*>(words));
    CHECK(cudaGetLastError());
    words->put_in = i + 1;
  }
  opener.join();
  CHECK(cudaDeviceSynchronize());
  std::printf("%s: full with %d kernels\n", what, words->when_full);
  EXPECT(words->when_full >= 1000 && words->when_full <= 1100, "the stream took %d", words->when_full);
  EXPECT(words->opened, "the stream was not let go on");
  EXPECT(words->ended == most, "of %d kernels %d ran", most, words->ended);
  CHECK(cudaStreamDestroy(other));
  CHECK(cudaStreamDestroy(third));
}

// A vector grows while others launch without end. To free waits for what they have put in, which is not much.
void grow() {
  constexpr int times = 20, most_meanwhile = 800;  // growths; kernels for each, where two streams hold 2000
  std::atomic<bool> goes_on = true;
  std::atomic<int> at_work = 0;
  const auto launch = [&](cudaStream_t stream) {
    for (; goes_on; ++at_work) {
      end<<<100, 128, 0, stream>>>(const_cast<Words*>(words));
      CHECK(cudaGetLastError());
    }
  };
  std::thread first(launch, new_stream(cudaStreamNonBlocking)), second(launch, new_stream(cudaStreamNonBlocking));
  while (at_work < 100) std::this_thread::yield();
  const int before = at_work;
  for (int i = 0; i < times; ++i) {
    void* memory;
    CHECK(cudaMalloc(&memory, 4));
    CHECK(cudaFree(memory));
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    constexpr size_t size = 2 << 20;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr address;
    CHECK(cuMemCreate(&handle, size, &properties, 0));
    CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
    CHECK(cuMemMap(address, size, 0, handle, 0));
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
    CHECK(cuMemRelease(handle));
  }
  const int meanwhile = at_work - before;
  goes_on = false;
  first.join();
  second.join();
  CHECK(cudaDeviceSynchronize());
  std::printf("%d growths beside %d kernels\n", times, meanwhile);
  EXPECT(meanwhile <= times * most_meanwhile, "while a vector grew %d times, %d were launched", times, meanwhile);
}

}  // namespace

int main() {
  check::require_gpus(1);
  void* pinned;
  CHECK(cudaMallocHost(&pinned, sizeof(Words)));
  words = static_cast<volatile Words*>(pinned);
  const cudaStream_t alone = new_stream(cudaStreamNonBlocking);
  fill("a stream", alone, alone);
  fill("stream 0 behind another", new_stream(cudaStreamDefault), nullptr);
  grow();
  std::puts("OK");
}
