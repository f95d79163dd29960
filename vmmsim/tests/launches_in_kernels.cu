// SPDX-License-Identifier: MIT-0
// Kernels that launch others. A kernel that asks the runtime for more is refused, and the others of its module are not.
#include "check.h"

struct Log {
  int next;
  int order[64];
};

__device__ void note(Log* log, int what) { log->order[atomicAdd(&log->next, 1)] = what; }

__global__ void child(Log* log, int what, double weight, char more) {
  if (threadIdx.x + threadIdx.y + threadIdx.z == 0) note(log, what + int(weight) + more);
}
__global__ void nested(Log* log, int what) {
  note(log, what);
  child<<<1, 64>>>(log, what, 0.5, 1);
}

// What one stream has runs in order, and what the children launch comes before the stream's next. The tail comes last.
__global__ void parent(Log* log) {
  cudaStream_t stream;
  log->order[63] = 63;
  child<<<1, 1, 0, cudaStreamTailLaunch>>>(log, 90, 0, 0);
  nested<<<1, 1>>>(log, 10);
  child<<<dim3(1, 1, 1), dim3(4, 2, 4), 100>>>(log, 20, 1.5, 1);
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess) {
    cudaMemcpyAsync(&log->order[62], &log->order[63], sizeof(int), cudaMemcpyDeviceToDevice, stream);
    cudaStreamDestroy(stream);
  }
  child<<<1, 2000>>>(log, 80, 0, 0);
  log->order[61] = cudaGetLastError();
  log->order[60] = cudaGetLastError();
}

// Each block's children are its own.
__global__ void count(int* at, int depth) {
  atomicAdd(at, 1);
  if (depth && threadIdx.x == 0) count<<<2, 4>>>(at, depth - 1);
}

__global__ void fails(int* at) { *at = 1; }
__global__ void launches_what_fails() { fails<<<1, 1>>>(nullptr); }

__global__ void asks_for_more(int* at) {
  cudaFuncAttributes attributes;
  *at = cudaFuncGetAttributes(&attributes, fails);
}

int main() {
  check::require_gpus(1);
  Log* log;
  CHECK(cudaMallocManaged(&log, sizeof *log));
  parent<<<1, 1>>>(log);
  CHECK(cudaDeviceSynchronize());
  EXPECT(log->next == 4, "%d", log->next);
  constexpr int expected[] = {10, 11, 22, 90};
  for (int k = 0; k < 4; ++k) EXPECT(log->order[k] == expected[k], "%d of %d", log->order[k], k);
  EXPECT(log->order[62] == 63, "%d", log->order[62]);
  EXPECT(log->order[61] == cudaErrorInvalidConfiguration && log->order[60] == cudaSuccess, "%d", log->order[61]);

  int* number;
  CHECK(cudaMallocManaged(&number, sizeof *number));
  *number = 0;
  count<<<3, 4>>>(number, 3);
  CHECK(cudaDeviceSynchronize());
  EXPECT(*number == 12 + 24 + 48 + 96, "%d", *number);

  asks_for_more<<<1, 1>>>(number);
  REFUSED(cudaErrorNotSupported, cudaGetLastError());
  launches_what_fails<<<1, 1>>>();
  REFUSED(cudaErrorIllegalAddress, cudaDeviceSynchronize());
  std::puts("OK");
}
