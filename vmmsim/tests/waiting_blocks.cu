// SPDX-License-Identifier: MIT-0
// Blocks that wait: for all blocks of their grid, for the host, for a lock, for a kernel on another GPU, for a while;
// and streams that wait for a word in memory.
// What waits takes hardly any time of the processor from those that work; and all of them go on when what they wait for
// comes, whoever brings it.
#include <cooperative_groups.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "check.h"

constexpr unsigned grid_blocks = 512, grid_threads = 64, grid_barriers = 50;

static double processor_seconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

__global__ void grid_barrier(unsigned* counts) {
  const auto grid = cooperative_groups::this_grid();
  for (unsigned i = 0; i < grid_barriers; ++i) {
    if (threadIdx.x == 0) atomicAdd(&counts[i], 1);
    grid.sync();
    if (counts[i] != gridDim.x) __trap();
  }
}

__global__ void wait_for_host(volatile unsigned* flag, unsigned* seen) {
  while (*flag == 0) {
  }
  seen[blockIdx.x * blockDim.x + threadIdx.x] = *flag;
}

__global__ void sleep_until_host(volatile unsigned* flag) {
  for (unsigned ns = 8; *flag == 0; ns = ns < 512 ? 2 * ns : ns) __nanosleep(ns);
}

__global__ void add_under_lock(unsigned* lock, volatile unsigned* sum) {
  if (threadIdx.x != 0) return;
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  __threadfence();
  for (unsigned i = 0; i < 200; ++i) *sum = *sum + 1;
  __threadfence();
  atomicExch(lock, 0);
}

__global__ void wait_a_while(volatile unsigned* never, long long cycles, unsigned* gave_up) {
  const long long begin = clock64();
  while (*never == 0)
    if (clock64() - begin > cycles) {
      *gave_up = 1;
      return;
    }
}

// Two GPUs by turns: this one waits for the number before its own.
__global__ void by_turns(unsigned* turn, unsigned first, unsigned last) {
  for (unsigned mine = first; mine < last; mine += 2) {
    while (*static_cast<volatile unsigned*>(turn) != mine) {
    }
    __threadfence_system();
    atomicExch_system(turn, mine + 1);
  }
}

// A thread of another warp of the block, which works long before it stores.
__global__ void wait_within_block(unsigned* sum) {
  __shared__ volatile unsigned flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  if (threadIdx.x == 32) {
    unsigned x = 1;
    for (unsigned i = 0; i < 20000; ++i) x = x * 1664525 + 1013904223;
    flag = x | 1;
  }
  if (threadIdx.x < 32)
    while (flag == 0) {
    }
  if (threadIdx.x == 0) *sum = flag;
}

static void test_grid_barrier(unsigned* memory) {
  CHECK(cudaMemset(memory, 0, grid_barriers * sizeof *memory));
  void* arguments[] = {&memory};
  const double before = processor_seconds();
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_barrier), grid_blocks, grid_threads, arguments));
  CHECK(cudaDeviceSynchronize());
  const double taken = processor_seconds() - before;
  EXPECT(taken < 1, "%u barriers of %u blocks took %.1f s of the processor", grid_barriers, grid_blocks, taken);
}

// The host stores after a while, in memory of its own and by a copy from another stream.
static void test_host(unsigned* memory) {
  constexpr auto a_while = std::chrono::milliseconds(300);
  unsigned* flag;
  CHECK(cudaMallocHost(&flag, sizeof *flag));
  *flag = 0;
  const double before = processor_seconds();
  wait_for_host<<<4, 64>>>(flag, memory);
  sleep_until_host<<<1, 1>>>(flag);
  std::this_thread::sleep_for(a_while);
  EXPECT(cudaStreamQuery(nullptr) == cudaErrorNotReady, "the kernel did not wait");
  *static_cast<volatile unsigned*>(flag) = 7;
  CHECK(cudaDeviceSynchronize());
  unsigned seen[4 * 64];
  CHECK(cudaMemcpy(seen, memory, sizeof seen, cudaMemcpyDefault));
  for (const unsigned value : seen) EXPECT(value == 7, "a thread saw %u", value);

  cudaStream_t waits, copies;
  CHECK(cudaStreamCreateWithFlags(&waits, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
  CHECK(cudaMemset(memory, 0, 2 * sizeof *memory));
  wait_for_host<<<1, 1, 0, waits>>>(memory, memory + 1);
  std::this_thread::sleep_for(a_while);
  CHECK(cudaMemcpyAsync(memory, flag, sizeof *flag, cudaMemcpyDefault, copies));
  CHECK(cudaStreamSynchronize(waits));
  const double taken = processor_seconds() - before;
  EXPECT(taken < 0.1, "waiting for the host for %.1f s took %.2f s of the processor", 0.6, taken);
  CHECK(cudaStreamDestroy(waits));
  CHECK(cudaStreamDestroy(copies));
  CHECK(cudaFreeHost(flag));
}

static void test_lock_and_clock(unsigned* memory) {
  CHECK(cudaMemset(memory, 0, 4 * sizeof *memory));
  add_under_lock<<<32, 32>>>(memory, memory + 1);
  wait_a_while<<<1, 32>>>(memory + 2, 20'000'000, memory + 3);
  wait_within_block<<<1, 64>>>(memory + 4);
  unsigned results[5];
  CHECK(cudaMemcpy(results, memory, sizeof results, cudaMemcpyDefault));
  EXPECT(results[1] == 32 * 200, "the sum under the lock is %u", results[1]);
  EXPECT(results[3] == 1, "the wait for the clock did not end");
  EXPECT(results[4] != 0, "the warp did not see the other one's flag");
}

// Streams that wait for a word in memory.
static void test_streams(unsigned* memory) {
  constexpr auto a_while = std::chrono::milliseconds(300);
  cudaStream_t streams[8];
  CHECK(cudaMemset(memory, 0, sizeof *memory));
  CHECK(cudaDeviceSynchronize());
  const auto word = reinterpret_cast<CUdeviceptr>(memory);
  const double before = processor_seconds();
  for (cudaStream_t& stream : streams) {
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cuStreamWaitValue32(stream, word, 7, CU_STREAM_WAIT_VALUE_EQ));
  }
  std::this_thread::sleep_for(a_while);
  for (const cudaStream_t stream : streams)
    EXPECT(cudaStreamQuery(stream) == cudaErrorNotReady, "a stream did not wait");
  CHECK(cuStreamWriteValue32(nullptr, word, 7, 0));
  for (const cudaStream_t stream : streams) CHECK(cudaStreamDestroy(stream));
  CHECK(cudaDeviceSynchronize());
  const double taken = processor_seconds() - before;
  EXPECT(taken < 0.1, "8 streams that waited for %.1f s took %.2f s of the processor", 0.3, taken);
}

static void test_two_gpus(unsigned* memory) {
  constexpr unsigned turns = 400;
  CHECK(cudaMemset(memory, 0, sizeof *memory));
  CHECK(cudaDeviceSynchronize());
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cudaSetDevice(gpu));
    if (gpu == 1) CHECK(cudaDeviceEnablePeerAccess(0, 0));
    by_turns<<<1, 1>>>(memory, unsigned(gpu), turns);
  }
  for (int gpu = 1; gpu >= 0; --gpu) {
    CHECK(cudaSetDevice(gpu));
    CHECK(cudaDeviceSynchronize());
  }
  unsigned last;
  CHECK(cudaMemcpy(&last, memory, sizeof last, cudaMemcpyDefault));
  EXPECT(last == turns, "the last turn was %u", last);
}

int main() {
  unsigned* memory;
  CHECK(cudaMalloc(&memory, 4096));
  test_grid_barrier(memory);
  test_host(memory);
  test_lock_and_clock(memory);
  test_streams(memory);
  test_two_gpus(memory);
  CHECK(cudaFree(memory));
  std::puts("OK");
}
