// SPDX-License-Identifier: MIT-0
// Vectors of 8 and 16 bytes arrive whole, although PTX promises it of their elements only: libraries send data beside
// its flag so.
#include "conformance.h"

// A lane loads so often, and on until it has met the stores: the writer may not run as yet, where others take the
// processors. If it never does, that is said.
constexpr unsigned loads = 200'000, most_loads = 50 * loads;
constexpr int enough_changes = 100, most_lanes = 32;

struct Result {
  int is_done, torn, lanes_that_met_stores;
};

struct Pair {
  static constexpr int bytes = 8;
  static __device__ void store(char* to, unsigned n) {
    asm volatile("st.volatile.global.v2.u32 [%0], {%1, %1};" ::"l"(to), "r"(n) : "memory");
  }
  static __device__ bool load(const char* from, unsigned* n) {  // whether it is torn
    unsigned b;
    asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(*n), "=r"(b) : "l"(from) : "memory");
    return *n != b;
  }
};
struct Four {
  static constexpr int bytes = 16;
  static __device__ void store(char* to, unsigned n) {
    asm volatile("st.volatile.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(to), "r"(n) : "memory");
  }
  static __device__ bool load(const char* from, unsigned* n) {
    unsigned b, c, d;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(*n), "=r"(b), "=r"(c), "=r"(d)
                 : "l"(from)
                 : "memory");
    return *n != b || *n != c || *n != d;
  }
};
struct LongPair {
  static constexpr int bytes = 16;
  static __device__ void store(char* to, unsigned n) {
    asm volatile("st.volatile.global.v2.u64 [%0], {%1, %1};" ::"l"(to), "l"((unsigned long long)n) : "memory");
  }
  static __device__ bool load(const char* from, unsigned* n) {
    unsigned long long a, b;
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
    *n = unsigned(a);
    return a != b;
  }
};

// One block stores 1, 2, ... until each lane of the other has loaded often enough.
template <class Vector>
__global__ void store_and_load(char* bytes, volatile Result* result) {
  char* const mine = bytes + threadIdx.x * Vector::bytes;
  if (blockIdx.x == 0) {
    for (unsigned n = 1; !result->is_done; ++n) Vector::store(mine, n);
    return;
  }
  int torn = 0, changes = 0;
  for (unsigned i = 0, n = 0, before = 0; i < loads || (changes < enough_changes && i < most_loads); ++i, before = n) {
    torn += Vector::load(mine, &n);
    changes += n != before;
  }
  atomicAdd((int*)&result->torn, torn);
  atomicAdd((int*)&result->lanes_that_met_stores, changes >= enough_changes);
  __syncthreads();
  result->is_done = 1;
}

template <class Vector>
static void ask(const char* what, int lanes) {
  char* bytes;
  Result *result, found;
  CHECK(cudaMalloc(&bytes, most_lanes * Vector::bytes));
  CHECK(cudaMalloc(&result, sizeof *result));
  CHECK(cudaMemset(bytes, 0, most_lanes * Vector::bytes));
  CHECK(cudaMemset(result, 0, sizeof *result));
  store_and_load<Vector><<<2, lanes>>>(bytes, result);
  CHECK(cudaMemcpy(&found, result, sizeof found, cudaMemcpyDeviceToHost));
  say(std::string(what) + ", " + std::to_string(lanes) + " lanes",
      std::string(found.torn ? "torn" : "whole") +
          (found.lanes_that_met_stores == lanes ? "" : ", but hardly a load met a store"));
  CHECK(cudaFree(result));
  CHECK(cudaFree(bytes));
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  for (const int lanes : {1, 31, 32}) {
    ask<Pair>("2 of 4 bytes", lanes);
    ask<Four>("4 of 4 bytes", lanes);
    ask<LongPair>("2 of 8 bytes", lanes);
  }
  std::puts("OK");
}
