// SPDX-License-Identifier: MIT-0
// Functions that kernels call: by address, through virtual tables, into themselves, until the stack ends; and
// what shuffles give that ask lanes which do not take part.
#include "conformance.h"

#include <cstdint>
#include <string>

// --- Lanes that do not take part -------------------------------------------------------------------------------------
// Lanes 0 to 7 ask lanes 16 to 23. What they get: '0' zero, 's' what they have themselves, 't' what the others have in
// that register, '?' something else.
enum Others : int { on_another_way, exited, skipped };

__device__ char kind(uint32_t got, uint32_t mine, uint32_t theirs) {
  return got == 0 ? '0' : got == mine ? 's' : got == theirs ? 't' : '?';
}

template <Others where> __global__ void ask_others(char* found) {
  uint32_t value = 100 + threadIdx.x, got = 55, lane = threadIdx.x;
  asm volatile("" : "+r"(value), "+r"(got), "+r"(lane));
  if (where == exited && lane >= 8) return;
  if (where == skipped) {
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %2, 8; @p shfl.sync.down.b32 %0, %1, 16, 0x1f, 0xff; }"
                 : "+r"(got)
                 : "r"(value), "r"(lane));
  } else if (lane < 8) {
    asm volatile("shfl.sync.down.b32 %0, %1, 16, 0x1f, 0xff;" : "+r"(got) : "r"(value));
  } else {
    for (unsigned k = 0; k < 100 + lane; ++k) asm volatile("add.u32 %0, %0, 1;" : "+r"(got));
  }
  if (lane < 8) found[lane] = kind(got, 100 + lane, 116 + lane);
}

// The register is written on the way that the lanes go.
__global__ void ask_for_new(char* found) {
  uint32_t value = 100 + threadIdx.x, got = 55, lane = threadIdx.x;
  asm volatile("" : "+r"(value), "+r"(got), "+r"(lane));
  if (lane < 8) {
    asm volatile("{ .reg .u32 other; xor.b32 other, %1, 0x300; shfl.sync.down.b32 %0, other, 16, 0x1f, 0xff; }"
                 : "+r"(got)
                 : "r"(value));
    found[lane] = kind(got, (100 + lane) ^ 0x300, (116 + lane) ^ 0x300);
  }
}

static void lanes() {
  section("shuffles that ask lanes which do not take part");
  char* found;
  CHECK(cudaMallocManaged(&found, 64));
  const auto ask = [&](const char* what, void (*kernel)(char*)) {
    kernel<<<1, 32>>>(found);
    CHECK(cudaDeviceSynchronize());
    say(what, std::string(found, 8));
  };
  ask("on another way", ask_others<on_another_way>);
  ask("exited", ask_others<exited>);
  ask("skipped by a guard", ask_others<skipped>);
  ask("a register of this way", ask_for_new);
  CHECK(cudaFree(found));
}

// --- Calls -----------------------------------------------------------------------------------------------------------
using Operation = int (*)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int multiply(int a, int b) { return a * b; }
__device__ __noinline__ int later(int a, int b) {
  __syncwarp(__activemask());
  return a - b + int(threadIdx.x);
}
__device__ Operation operations[] = {add, multiply, later};
__constant__ Operation chosen = multiply;

struct Shape {
  __device__ Shape(int size) : size(size) {}
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
  int size;
};
struct Square : Shape {
  using Shape::Shape;
  __device__ int area() const override { return size * size; }
};
struct Box : Square {
  using Square::Square;
  __device__ int area() const override { return 6 * Square::area(); }
};

struct Large {
  int numbers[9];
  double sum;
};
__device__ __noinline__ Large grown(Large from, int by) {
  for (int& number : from.numbers) number += by;
  from.sum += from.numbers[8];
  return from;
}
__device__ Large (*grow)(Large, int) = grown;

__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
__device__ __noinline__ bool is_odd(unsigned n);
__device__ __noinline__ bool is_even(unsigned n) { return n == 0 || is_odd(n - 1); }
__device__ __noinline__ bool is_odd(unsigned n) { return n != 0 && is_even(n - 1); }
// With an array of each call's own.
__device__ __noinline__ int permutations(int* used, int depth, int size) {
  if (depth == size) return 1;
  int order[6], all = 0;
  for (int k = 0; k < size; ++k) order[k] = (k * 5 + depth) % size;
  for (int k = 0; k < size; ++k) {
    if (used[order[k]]) continue;
    used[order[k]] = 1;
    all += permutations(used, depth + 1, size);
    used[order[k]] = 0;
  }
  return all;
}

__global__ void call_by_address(long* found) {
  const int lane = int(threadIdx.x);
  found[lane] = operations[lane % 3](lane, 7) + 1000 * chosen(lane, 3);
}
__global__ void call_virtual(long* found) {
  Shape* shapes[2] = {new Square(int(threadIdx.x)), new Box(int(threadIdx.x) + 1)};
  found[threadIdx.x] = shapes[threadIdx.x % 2]->area() + 10000 * shapes[0]->area();
  delete shapes[0];
  delete shapes[1];
}
__global__ void call_with_structures(long* found) {
  Large large = {};
  for (int k = 0; k < 3; ++k) large = grow(large, int(threadIdx.x) + k);
  found[threadIdx.x] = long(large.sum) + large.numbers[4];
}
__global__ void call_itself(long* found) {
  int used[6] = {};
  const int lane = int(threadIdx.x);
  found[lane] = fibonacci(lane % 12) + 1000 * is_even(unsigned(lane)) + 10000 * permutations(used, 0, lane % 6);
}

static void calls() {
  section("calls");
  long* found;
  CHECK(cudaMallocManaged(&found, 64 * sizeof *found));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 8192));
  const auto ask = [&](const std::string& what, void (*kernel)(long*)) {
    kernel<<<1, 64>>>(found);
    if (say(what, cudaDeviceSynchronize()) != cudaSuccess) return;
    long sum = 0;
    for (int k = 0; k < 64; ++k) sum = sum * 31 % 1000003 + found[k];
    say("  first, last, all", std::to_string(found[1]) + ", " + std::to_string(found[63]) + ", " + std::to_string(sum));
  };
  ask("by address", call_by_address);
  ask("virtual", call_virtual);
  ask("with structures", call_with_structures);
  ask("into itself", call_itself);
  CHECK(cudaFree(found));
}

// --- The stack -------------------------------------------------------------------------------------------------------
__device__ __noinline__ int deep(int n, volatile int* stop) {
  volatile int local[64];
  for (int k = 0; k < 64; ++k) local[k] = n + k;
  if (n == *stop) return local[n % 64];
  return deep(n + 1, stop) + local[(n + 7) % 64];
}
__global__ void go_deep(int* stop, int* found) { *found = deep(0, stop); }

// In a process of its own, which a fault ends.
static void say_deep(const std::string& what, size_t limit, int depth) {
  std::fflush(stdout);
  if (fork() == 0) {
    int *stop, *found;
    CHECK(cudaMallocManaged(&stop, 8));
    found = stop + 1;
    *stop = depth;
    if (limit) say(what + ", set the limit", cudaDeviceSetLimit(cudaLimitStackSize, limit));
    size_t now = 0;
    CHECK(cudaDeviceGetLimit(&now, cudaLimitStackSize));
    say(what + ", the limit", std::to_string(now));
    go_deep<<<1, 1>>>(stop, found);
    say(what + ", the launch", cudaGetLastError());
    if (say(what, cudaDeviceSynchronize()) == cudaSuccess) say("  it is", std::to_string(*found));
    std::fflush(stdout);
    _exit(0);
  }
  int status;
  wait(&status);
}

static void stack() {
  section("the stack");
  say_deep("1 call", 0, 1);
  say_deep("1000 calls", 0, 1000);
  say_deep("50 calls, 16 KiB", 16384, 40);
  say_deep("1000 calls, 16 KiB", 16384, 1000);
  say_deep("1000 calls, 512 KiB", 524288, 1000);
  say_deep("too much", size_t(1) << 40, 1);
}

int main() {
  stack();  // before this process has a GPU, which no child could use
  check::require_gpus(1);
  lanes();
  calls();
}
