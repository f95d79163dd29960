// SPDX-License-Identifier: MIT-0
// A program as others write them, in a compressed fat binary: a kernel whose blocks wait for one another, and the
// libraries of the toolkit, where it has them.
#include <cooperative_groups.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#if __has_include(<thrust/sort.h>) && __has_include(<cub/device/device_scan.cuh>)
#define HAVE_LIBRARIES
#include <thrust/device_ptr.h>
#include <thrust/sort.h>
#include <cub/device/device_scan.cuh>
#endif

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const cudaError_t error = (call);                                                      \
    if (error != cudaSuccess) {                                                            \
      std::fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)
#define EXPECT(condition) \
  ((condition) ? void() : (std::fprintf(stderr, "line %d: expected %s\n", __LINE__, #condition), std::exit(1)))

// In each round every thread writes, and reads what a thread of another block has written in the same round.
__global__ void rounds(int* data, int* wrong) {
  const auto grid = cooperative_groups::this_grid();
  for (int round = 1; round < 10; ++round) {
    data[grid.thread_rank()] = round;
    grid.sync();
    if (data[(grid.thread_rank() + 1000) % grid.size()] != round) atomicAdd(wrong, 1);
    grid.sync();
  }
}

static void test_grid_sync(int* data, int* wrong) {
  CHECK(cudaMemset(wrong, 0, sizeof *wrong));
  void* arguments[] = {&data, &wrong};
  const auto kernel = reinterpret_cast<const void*>(rounds);
  for (int launch = 0; launch < 2; ++launch)
    CHECK(cudaLaunchCooperativeKernel(kernel, dim3(40), dim3(128), arguments, 0, nullptr));
  int count;
  CHECK(cudaMemcpy(&count, wrong, sizeof count, cudaMemcpyDeviceToHost));
  EXPECT(count == 0);
  EXPECT(cudaLaunchCooperativeKernel(kernel, dim3(100000), dim3(128), arguments, 0, nullptr) ==
         cudaErrorCooperativeLaunchTooLarge);
  EXPECT(cudaGetLastError() == cudaErrorCooperativeLaunchTooLarge);
}

// How far the multiprocessor's clock comes in so many nanoseconds.
__global__ void count_cycles(int nanoseconds, int* cycles) {
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  const long long first = clock64();
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < nanoseconds);
  *cycles = static_cast<int>(clock64() - first);
}

static void test_clock(int* cycles) {
  int rate, found;  // in kHz
  CHECK(cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0));
  count_cycles<<<1, 1>>>(20'000'000, cycles);
  CHECK(cudaMemcpy(&found, cycles, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found > 15 * rate);  // not a clock of nanoseconds, which comes to 20 million
}

#ifdef HAVE_LIBRARIES
static void test_libraries(int* data, int* result) {
  std::vector<int> values(5000), found(values.size());
  unsigned random = 1;
  for (int& value : values) value = static_cast<int>((random = random * 1664525 + 1013904223) >> 12);
  const size_t bytes = values.size() * sizeof(int);
  const int size = static_cast<int>(values.size());

  CHECK(cudaMemcpy(data, values.data(), bytes, cudaMemcpyHostToDevice));
  size_t temporary_bytes = 0;
  void* temporary = nullptr;
  CHECK(cub::DeviceScan::InclusiveSum(nullptr, temporary_bytes, data, result, size));
  CHECK(cudaMalloc(&temporary, temporary_bytes));
  CHECK(cub::DeviceScan::InclusiveSum(temporary, temporary_bytes, data, result, size));
  CHECK(cudaFree(temporary));
  CHECK(cudaMemcpy(found.data(), result, bytes, cudaMemcpyDeviceToHost));
  std::vector<int> expected(values.size());
  std::partial_sum(values.begin(), values.end(), expected.begin());
  EXPECT(found == expected);

  thrust::sort(thrust::device_pointer_cast(data), thrust::device_pointer_cast(data) + size);
  CHECK(cudaMemcpy(found.data(), data, bytes, cudaMemcpyDeviceToHost));
  std::sort(values.begin(), values.end());
  EXPECT(found == values);
}
#endif

int main() {
  int *data, *result;
  CHECK(cudaMalloc(&data, 5120 * sizeof *data));
  CHECK(cudaMalloc(&result, 5120 * sizeof *result));
  test_grid_sync(data, result);
  test_clock(result);
  const cudaChannelFormatDesc two = cudaCreateChannelDesc<short2>();
  EXPECT(two.x == 16 && two.y == 16 && !two.z && !two.w && two.f == cudaChannelFormatKindSigned);
#ifdef HAVE_LIBRARIES
  test_libraries(data, result);
#else
  std::puts("this toolkit has no Thrust and CUB: not tested");
#endif
  CHECK(cudaFree(result));
  CHECK(cudaFree(data));
  std::puts("OK");
}
