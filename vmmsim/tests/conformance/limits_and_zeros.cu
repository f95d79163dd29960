// SPDX-License-Identifier: MIT-0
// Edges: parameters in a buffer of another size, a carveout of exactly 100 per cent, limits that are only queried,
// reductions of zeros of both signs, and integer divisions by 0.
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>

__global__ void store(unsigned* to, unsigned value) { *to = value; }
__global__ void nothing() {}
__global__ void zeros(unsigned* p) {
  const unsigned there[4] = {0x80000000, 0x00008000, 0x80008000, 0}, given[4] = {0x00008000, 0x80000000, 0, 0x80008000};
  for (int i = 0; i < 4; ++i) {
    p[2 * i] = p[2 * i + 1] = there[i];
    p[8 + 2 * i] = p[9 + 2 * i] = there[i];
    __threadfence();
    asm volatile("red.global.v2.f16x2.max.noftz [%0], {%1, %1};" ::"l"(p + 2 * i), "r"(given[i]) : "memory");
    asm volatile("red.global.v2.f16x2.min.noftz [%0], {%1, %1};" ::"l"(p + 8 + 2 * i), "r"(given[i]) : "memory");
  }
}
template <class T> __global__ void divide(T a, T b, T* to) { to[0] = a / b, to[1] = a % b; }

static void buffers(CUdeviceptr memory) {
  cudaFunction_t function;
  cudaGetFuncBySymbol(&function, (const void*)store);
  char packed[64] = {};
  const unsigned value = 7;
  memcpy(packed, &memory, 8), memcpy(packed + 8, &value, 4);
  for (size_t bytes : {8, 11, 12, 13, 16, 64}) {
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    const CUresult answer = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra);
    printf("12 bytes of parameters in a buffer of %zu: %d\n", bytes, answer);
  }
  printf("then: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
static void carveouts() {
  cudaFunction_t function;
  cudaGetFuncBySymbol(&function, (const void*)nothing);
  for (unsigned carveout : {0u, 1u, 99u, 100u, 101u, 1000u, ~0u, ~0u - 1}) {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT;
    attribute.value.sharedMemCarveout = carveout;
    const CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, nullptr, &attribute, 1};
    printf("a launch with carveout %u: %d\n", carveout, cuLaunchKernelEx(&config, function, nullptr, nullptr));
  }
}
static void limit(int what, size_t value) {
  size_t before = 77, after = 77;
  const CUresult get = cuCtxGetLimit(&before, CUlimit(what));
  const CUresult set = cuCtxSetLimit(CUlimit(what), value);
  const CUresult again = cuCtxGetLimit(&after, CUlimit(what));
  printf("limit %d: %d, %zu; to %zu: %d; %d, %zu\n", what, get, before, value, set, again, after);
}
static void limits() {
  for (int what : {7, 8, 9, 10, -1})
    for (size_t value : {0, 1, 232448}) limit(what, value);
  constexpr size_t unit = 3932160;  // what is set aside in the second-level cache for what shall stay there
  for (size_t value : {size_t(0), size_t(1), unit - 1, unit, unit + 1, 3 * unit, 10 * unit - 1, 10 * unit,
                       10 * unit + 1, 11 * unit, 16 * unit, 16 * unit + 1, size_t(1) << 40, ~size_t(0), size_t(0)})
    limit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, value);
  for (size_t less : {0, 1, 16, 17, 256, 257, 512, 513, 1024, 1025, 2048, 2049, 4096, 4097, 8192, 65536, 262144})
    limit(CU_LIMIT_STACK_SIZE, (512 << 10) - less);
  limit(CU_LIMIT_STACK_SIZE, 1024);
}
// The instructions themselves, of which a compiler may make others.
#define DIVISIONS(type, T, constraint)                                                              \
  __global__ void div_##type(T a, T b, T* to) {                                                     \
    asm volatile("div." #type " %0, %1, %2;" : "=" constraint(*to) : constraint(a), constraint(b)); \
  }                                                                                                 \
  __global__ void rem_##type(T a, T b, T* to) {                                                     \
    asm volatile("rem." #type " %0, %1, %2;" : "=" constraint(*to) : constraint(a), constraint(b)); \
  }
DIVISIONS(s16, short, "h")
DIVISIONS(u16, unsigned short, "h")
DIVISIONS(s32, int, "r")
DIVISIONS(u32, unsigned, "r")
DIVISIONS(s64, long long, "l")
DIVISIONS(u64, unsigned long long, "l")
template <class T> static void instructions(const char* type, void (*div)(T, T, T*), void (*rem)(T, T, T*), void* to) {
  for (const long long each : {0ll, 1ll, 7ll, -7ll, 1ll << 40, -(1ll << 40)}) {
    T* const quotient = static_cast<T*>(to);
    div<<<1, 1>>>(T(each), 0, quotient);
    rem<<<1, 1>>>(T(each), 0, quotient + 1);
    const char* const answer = cudaGetErrorName(cudaDeviceSynchronize());
    printf("div, rem.%s, %lld by 0: %s, %lld, %lld\n", type, (long long)T(each), answer, (long long)quotient[0],
           (long long)quotient[1]);
  }
}
template <class T> static void by_zero(const char* what, T a, T* to) {
  divide<T><<<1, 1>>>(a, T(0), to);
  printf("%s, %lld by 0: %s", what, (long long)a, cudaGetErrorName(cudaDeviceSynchronize()));
  printf(", %lld, %lld\n", (long long)to[0], (long long)to[1]);
}

int main() {
  unsigned* p;
  if (cudaMallocManaged(&p, 256)) return 1;
  buffers(CUdeviceptr(p));
  carveouts();
  limits();
  zeros<<<1, 1>>>(p);
  printf("zeros: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
  for (int i = 0; i < 16; ++i) printf("  %s %d: %08x\n", i < 8 ? "max" : "min", i % 8, p[i]);
  for (int a : {0, 1, 7, -7})
    by_zero("s16", short(a), (short*)p), by_zero("s32", a, (int*)p), by_zero("s64", (long long)a, (long long*)p);
  for (unsigned a : {0u, 1u, 7u})
    by_zero("u16", (unsigned short)a, (unsigned short*)p), by_zero("u32", a, p),
        by_zero("u64", (unsigned long long)a, (unsigned long long*)p);
  instructions("s16", div_s16, rem_s16, p), instructions("u16", div_u16, rem_u16, p);
  instructions("s32", div_s32, rem_s32, p), instructions("u32", div_u32, rem_u32, p);
  instructions("s64", div_s64, rem_s64, p), instructions("u64", div_u64, rem_u64, p);
  printf("end: %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}
