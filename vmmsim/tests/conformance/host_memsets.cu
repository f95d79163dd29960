// SPDX-License-Identifier: MIT-0
// A memset of memory that the host can read, behind a kernel that writes it: does the host see an old value after the
// call? Each is asked 20 times.
#include "conformance.h"

#include <cstdlib>

constexpr size_t n = 1 << 20;

__global__ void count_up(int* to) { ++to[blockIdx.x * blockDim.x + threadIdx.x]; }

template <class Call> static void ask(const char* memory, int* at, const char* name, Call memset) {
  int old = 0;
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (size_t i = 0; i < n; ++i) at[i] = 1;
    count_up<<<n / 256, 256>>>(at);
    memset();
    const volatile int* seen = at;
    old += seen[10] != 0 || seen[n - 1] != 0;
    CHECK(cudaDeviceSynchronize());
  }
  say(std::string(name) + " of " + memory + ": the host sees an old value", std::to_string(old) + " times of 20");
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  int *pinned, *managed;
  CHECK(cudaMallocHost(&pinned, n * sizeof(int)));
  CHECK(cudaMallocManaged(&managed, n * sizeof(int)));
  int* registered = static_cast<int*>(std::aligned_alloc(4096, n * sizeof(int)));
  CHECK(cudaHostRegister(registered, n * sizeof(int), 0));
  const struct {
    const char* name;
    int* at;
  } memories[] = {{"pinned memory", pinned}, {"registered memory", registered}, {"managed memory", managed}};
  for (const auto& each : memories) {
    int* const at = each.at;
    const auto address = reinterpret_cast<CUdeviceptr>(at);
    ask(each.name, at, "cudaMemset", [=] { CHECK(cudaMemset(at, 0, n * sizeof(int))); });
    ask(each.name, at, "cuMemsetD8", [=] { CHECK(cuMemsetD8(address, 0, n * sizeof(int))); });
    ask(each.name, at, "cuMemsetD32", [=] { CHECK(cuMemsetD32(address, 0, n)); });
    ask(each.name, at, "cudaMemset2D", [=] { CHECK(cudaMemset2D(at, 1 << 12, 0, 1 << 12, n * sizeof(int) >> 12)); });
  }
  CHECK(cudaHostUnregister(registered));
  std::free(registered);
  CHECK(cudaFreeHost(pinned));
  CHECK(cudaFree(managed));
  std::puts("OK");
}
