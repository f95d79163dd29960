// SPDX-License-Identifier: MIT-0
// Lab 07a: Fence it
//
// A and B are two addresses of one memory. Each thread writes a question and an answer there, and reads them, its own
// and those of its left neighbour:
//   question: written at A, read at A, and in the last step read at B
//   answer:   written at B, and in the last step read at A
// The three functions between the steps are empty, and the threads read old values. What does each of the three need: a
// barrier, an alias fence, both, or nothing?
// - every thread reads new values, and not by luck
// - as few alias fences as possible run
// - nothing but the three functions changes
// Read 07_aliasing/README.md#5-put-a-fence-between.
#include <cuda/ptx>
#include "../lab.h"

const unsigned threads = 1024;

// >>> your part: what each thread does between its steps
__device__ void after_questions() {}
__device__ void before_answers() {}
__device__ void after_answers() {}
// <<<

__global__ void ask_and_answer(int* const a, int* const b, int* questions, int* answers) {
  const unsigned i = threadIdx.x, left = i ? i - 1 : threads - 1;
  questions[i] = b[i], answers[i] = a[threads + i];  // old values, which may stay in a cache
  a[i] = 42;
  after_questions();
  questions[i] = a[i] + a[left];  // at the address of the write
  before_answers();
  b[threads + i] = questions[i] - 42;
  after_answers();
  answers[i] = a[threads + i] + a[threads + left] + b[i] + b[left];  // at the address where nobody wrote
}

int main() {
  lab::begin();
  const size_t size = 2 << 20;  // one granule
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

  CUmemGenericAllocationHandle memory;
  CUdeviceptr a = 0, b = 0;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  for (CUdeviceptr* address : {&a, &b}) {
    CHECK(cuMemAddressReserve(address, size, 0, 0, 0));
    CHECK(cuMemMap(*address, size, 0, memory, 0));
    CHECK(cuMemSetAccess(*address, size, &access, 1));
  }
  int* read;  // what the threads read: questions, then answers
  CHECK(cudaMalloc(&read, 2 * threads * sizeof(int)));
  lab::fill<int>(a, 2 * threads, 7);
  ask_and_answer<<<1, threads>>>(reinterpret_cast<int*>(a), reinterpret_cast<int*>(b), read, read + threads);

  const CUdeviceptr questions = reinterpret_cast<CUdeviceptr>(read), answers = questions + threads * sizeof(int);
  std::printf("questions: %llu of %u new\n", lab::count<int>(questions, threads, 2 * 42), threads);
  std::printf("answers: %llu of %u new\n", lab::count<int>(answers, threads, 4 * 42), threads);

  CHECK(cudaFree(read));
  for (CUdeviceptr address : {a, b}) {
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  CHECK(cuMemRelease(memory));
  return lab::end();
}
