// SPDX-License-Identifier: MIT-0
// What a kernel can do wrong, which error comes of it, where it first shows and what answers afterwards. Each case has
// a process of its own.
#include "conformance.h"

#undef NDEBUG  // a release build too asks what an assertion does
#include <cassert>

__global__ void nothing() {}
__global__ void set(int* p, int v) { *p = v; }
__global__ void trap() { asm volatile("trap;"); }
__global__ void assert_zero(int v) { assert(v == 0); }
__global__ void trap_in_one_lane(int* p) {
  if (threadIdx.x == 7) asm volatile("trap;");
  p[threadIdx.x] = 1;
}

// An access of each width, at p + offset.
template <class T> __global__ void load_at(const char* p, int offset, char* to) {
  *reinterpret_cast<T*>(to) = *reinterpret_cast<const volatile T*>(p + offset);
}
template <class T> __global__ void store_at(char* p, int offset) { *reinterpret_cast<volatile T*>(p + offset) = T(); }
__global__ void load16_at(const char* p, int offset, uint4* to) { *to = *reinterpret_cast<const uint4*>(p + offset); }
__global__ void store16_at(char* p, int offset) { *reinterpret_cast<uint4*>(p + offset) = make_uint4(1, 2, 3, 4); }
__global__ void atomic_at(char* p, int offset) { atomicAdd(reinterpret_cast<unsigned*>(p + offset), 1); }
__global__ void atomic8_at(char* p, int offset) { atomicAdd(reinterpret_cast<unsigned long long*>(p + offset), 1); }

__global__ void shared_at(unsigned at, unsigned* to) {  // 64 bytes of shared memory
  __shared__ unsigned words[16];
  words[threadIdx.x % 16] = threadIdx.x;
  __syncthreads();
  unsigned v;
  asm volatile("ld.volatile.shared.u32 %0, [%1];"
               : "=r"(v)
               : "r"(unsigned(__cvta_generic_to_shared(words)) + at)
               : "memory");
  *to = v;
}
__global__ void shared_store_at(unsigned at) {
  __shared__ unsigned words[16];
  words[threadIdx.x % 16] = threadIdx.x;
  __syncthreads();
  asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(unsigned(__cvta_generic_to_shared(words)) + at), "r"(1)
               : "memory");
}
__global__ void generic_shared_at(unsigned at, unsigned* to) {
  __shared__ unsigned words[16];
  words[threadIdx.x % 16] = threadIdx.x;
  __syncthreads();
  *to = *reinterpret_cast<volatile unsigned*>(reinterpret_cast<char*>(words) + at);
}
__global__ void shared_atomic_at(unsigned at) {
  __shared__ unsigned words[16];
  words[threadIdx.x % 16] = threadIdx.x;
  __syncthreads();
  atomicAdd(reinterpret_cast<unsigned*>(reinterpret_cast<char*>(words) + at), 1);
}
__global__ void local_at(int at, unsigned* to) {
  volatile unsigned words[16];
  for (int i = 0; i < 16; ++i) words[i] = i;
  *to = *reinterpret_cast<volatile unsigned*>(reinterpret_cast<volatile char*>(words) + at);
}
__device__ unsigned long long now() {  // nanoseconds
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__global__ void two_seconds(int* to) {
  const unsigned long long start = now();
  while (now() - start < 2'000'000'000) {
  }
  *to = 1;
}

static char* memory;  // 2 MiB, nothing behind it
static char* result;

static void finish(const std::string& what = "synchronize") { say(what, cudaDeviceSynchronize()); }
static void wrong(const char* what) {
  say("launch", cudaGetLastError());
  finish(what);
}

static void say_result() {
  unsigned value = 0;
  CHECK(cudaMemcpy(&value, result, 4, cudaMemcpyDeviceToHost));
  std::printf("value: %x\n", value);
}

SECTION("aligned accesses") {
  load_at<short><<<1, 1>>>(memory, 2, result), finish("load 2 at 2"), load_at<int><<<1, 1>>>(memory, 4, result);
  finish("load 4 at 4"), load_at<long long><<<1, 1>>>(memory, 8, result), finish("load 8 at 8");
  load16_at<<<1, 1>>>(memory, 16, (uint4*)result), finish("load 16 at 16");
  store16_at<<<1, 1>>>(memory, page - 16), finish("store 16 at the end"), atomic_at<<<1, 1>>>(memory, 4);
  finish("atomic 4 at 4"), atomic8_at<<<1, 1>>>(memory, 8), finish("atomic 8 at 8");
}
SECTION("load of 2 at 1") { load_at<short><<<1, 1>>>(memory, 1, result), wrong("load"); }
SECTION("load of 4 at 2") { load_at<int><<<1, 1>>>(memory, 2, result), wrong("load"); }
SECTION("load of 8 at 4") { load_at<long long><<<1, 1>>>(memory, 4, result), wrong("load"); }
SECTION("load of 16 at 8") { load16_at<<<1, 1>>>(memory, 8, (uint4*)result), wrong("load"); }
SECTION("store of 4 at 2") { store_at<int><<<1, 1>>>(memory, 2), wrong("store"); }
SECTION("store of 16 at 8") { store16_at<<<1, 1>>>(memory, 8), wrong("store"); }
SECTION("atomic of 4 at 2") { atomic_at<<<1, 1>>>(memory, 2), wrong("atomic"); }
SECTION("atomic of 8 at 4") { atomic8_at<<<1, 1>>>(memory, 4), wrong("atomic"); }
SECTION("load of 4, misaligned and behind the mapping") {
  load_at<int><<<1, 1>>>(memory, page + 2, result), wrong("load");
}
SECTION("load behind the mapping") { load_at<int><<<1, 1>>>(memory, page, result), wrong("load"); }
SECTION("load before the mapping") { load_at<int><<<1, 1>>>(memory, -4, result), wrong("load"); }
SECTION("load of null") { load_at<int><<<1, 1>>>(nullptr, 0, result), wrong("load"); }
SECTION("store to null") { store_at<int><<<1, 1>>>(nullptr, 0), wrong("store"); }
SECTION("load of null + 64") { load_at<int><<<1, 1>>>(nullptr, 64, result), wrong("load"); }
SECTION("load past all addresses") { load_at<int><<<1, 1>>>((char*)0x7fff'ffff'ffff'0000, 0, result), wrong("load"); }
SECTION("one lane of 32") { set<<<1, 32>>>((int*)(memory + page), 1), wrong("store"); }
SECTION("shared memory: load inside") { shared_at<<<1, 32>>>(60, (unsigned*)result), wrong("load"); }
SECTION("shared memory: load misaligned") { shared_at<<<1, 32>>>(2, (unsigned*)result), wrong("load"); }
SECTION("shared memory: load far outside") { shared_at<<<1, 32>>>(1 << 20, (unsigned*)result), wrong("load"); }
SECTION("shared memory: store far outside") { shared_store_at<<<1, 32>>>(1 << 20), wrong("store"); }
SECTION("shared memory: generic load far outside") {
  generic_shared_at<<<1, 32>>>(1 << 20, (unsigned*)result), wrong("load");
}
SECTION("shared memory: atomic far outside") { shared_atomic_at<<<1, 32>>>(1 << 20), wrong("atomic"); }
SECTION("shared memory: atomic misaligned") { shared_atomic_at<<<1, 32>>>(2), wrong("atomic"); }
SECTION("local memory: load inside") { local_at<<<1, 1>>>(60, (unsigned*)result), wrong("load"), say_result(); }
SECTION("trap") { trap<<<1, 1>>>(), wrong("trap"); }
SECTION("trap in one lane") { trap_in_one_lane<<<1, 32>>>((int*)memory), wrong("trap"); }
SECTION("assert that holds") { assert_zero<<<1, 32>>>(0), wrong("assert"); }
SECTION("assert that fails") { assert_zero<<<1, 32>>>(1), wrong("assert"); }
SECTION("what was done before a fault cannot be read") {
  int value = -1;
  set<<<1, 1>>>((int*)result, 5), finish(), trap<<<1, 1>>>();
  say("copy", cudaMemcpy(&value, result, 4, cudaMemcpyDeviceToHost));
  std::printf("value: %d\n", value);
}
SECTION("a kernel behind a fault in the stream") {
  trap<<<1, 1>>>(), say("launch", cudaGetLastError());
  nothing<<<1, 1>>>(), finish();
}
SECTION("a fault ends the kernels of other streams") {
  cudaStream_t first, second;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  cudaFuncAttributes loaded;  // before a kernel runs: loading waits for it
  CHECK(cudaFuncGetAttributes(&loaded, two_seconds)), CHECK(cudaFuncGetAttributes(&loaded, trap));
  two_seconds<<<1, 1, 0, first>>>((int*)memory), say("launch", cudaGetLastError());
  trap<<<1, 1, 0, second>>>(), say("launch", cudaGetLastError());
  say("synchronize the other stream", cudaStreamSynchronize(first));
  say("synchronize the trap's stream", cudaStreamSynchronize(second));
}
SECTION("after a trap") {
  void* p;
  CUcontext context;
  trap<<<1, 1>>>(), finish(), say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError", cudaGetLastError()), finish(), say("cudaMalloc", cudaMalloc(&p, 4));
  say("cuCtxSynchronize", cuCtxSynchronize()), say("cuMemFree", cuMemFree((CUdeviceptr)result));
  say("cuCtxGetCurrent", cuCtxGetCurrent(&context)), nothing<<<1, 1>>>(), say("launch", cudaGetLastError());
}
SECTION("after an assert") {
  void* p;
  assert_zero<<<1, 1>>>(1), finish(), say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError", cudaGetLastError()), finish(), say("cudaMalloc", cudaMalloc(&p, 4));
  say("cuCtxSynchronize", cuCtxSynchronize()), nothing<<<1, 1>>>(), say("launch", cudaGetLastError());
}
SECTION("after a misaligned access") {
  void* p;
  load_at<int><<<1, 1>>>(memory, 2, result), finish(), say("cudaGetLastError", cudaGetLastError());
  say("cudaGetLastError", cudaGetLastError()), finish(), say("cudaMalloc", cudaMalloc(&p, 4));
  say("cuCtxSynchronize", cuCtxSynchronize()), nothing<<<1, 1>>>(), say("launch", cudaGetLastError());
}
SECTION("launches that are refused") {
  nothing<<<1, 1025>>>(), say("1025 threads", cudaGetLastError());
  nothing<<<1, dim3(1, 1, 65)>>>(), say("65 threads along z", cudaGetLastError());
  nothing<<<1, 0>>>(), say("no threads", cudaGetLastError());
  nothing<<<0, 1>>>(), say("no blocks", cudaGetLastError());
  nothing<<<dim3(1, 65536), 1>>>(), say("65536 blocks along y", cudaGetLastError());
  nothing<<<1, 1, 49153>>>(), say("more than 48 KiB of shared memory", cudaGetLastError());
  nothing<<<1, 1, 1 << 20>>>(), say("1 MiB of shared memory", cudaGetLastError());
  nothing<<<1, 1>>>(), say("afterwards", cudaGetLastError()), finish();
}

static void set_up() {
  CHECK(cudaSetDevice(0)), CHECK(cudaMalloc(&result, 4096));
  const CUdeviceptr address = reserve(3 * page) + page;
  map_new(address, page);
  CHECK(cuMemsetD8(address, 0, page));
  memory = reinterpret_cast<char*>(address);
}

int main(int argc, char** argv) { return run_sections(argc, argv, set_up); }
