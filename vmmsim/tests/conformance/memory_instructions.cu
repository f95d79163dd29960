// SPDX-License-Identifier: MIT-0
// What the instructions that touch memory do: every width, space and operation, and what C++ makes of them. Prints what
// one thread gets; all values are in hexadecimal.
#include "conformance.h"

#include <vector>

using word = unsigned long long;
using half_word = unsigned short;

static word* out;  // what kernels leave
static unsigned char* bytes;
constexpr int results = 256;

static std::vector<word> finish() {
  std::vector<word> values(results);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(values.data(), out, results * sizeof(word), cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(out, 0xa5, results * sizeof(word)));
  return values;
}

// --- Loads: an instruction and its result in a 64-bit register
// clang-format off
#define LOADS(X)                                                                                                      \
  X("u8") X("s8") X("b8") X("u16") X("s16") X("b16") X("u32") X("s32") X("b32") X("u64") X("s64") X("b64")
#define KINDS(X)                                                                                                      \
  X("ld.global.") X("ld.global.nc.") X("ld.global.cg.") X("ld.global.cv.") X("ld.global.lu.")                         \
  X("ld.volatile.global.") X("ld.relaxed.cta.global.") X("ld.relaxed.sys.global.") X("ld.acquire.gpu.global.")        \
  X("ld.weak.global.") X("ld.") X("ld.volatile.") X("ld.acquire.sys.") X("ldu.global.")                               \
  X("ld.global.L1::no_allocate.") X("ld.global.L2::128B.")
// clang-format on
__global__ void loads(const unsigned char* p, word* out) {
  int n = 0;
  word v;
#define X(type)                                                               \
  asm volatile("ld.global." type " %0, [%1];" : "=l"(v) : "l"(p) : "memory"); \
  out[n++] = v;
  LOADS(X)
#undef X
#define X(kind)                                                       \
  asm volatile(kind "s16 %0, [%1+2];" : "=l"(v) : "l"(p) : "memory"); \
  out[n++] = v;
  KINDS(X)
#undef X
}

// --- Stores: an instruction, and the 8 bytes afterwards
// clang-format off
#define STORES(X)                                                                                                     \
  X("st.global.b8") X("st.global.u16") X("st.global.s32") X("st.global.u64") X("st.volatile.global.u32")              \
  X("st.relaxed.gpu.global.u32") X("st.release.sys.global.u32") X("st.release.cta.global.b16")                        \
  X("st.weak.global.u8") X("st.b32") X("st.volatile.u64") X("st.global.wb.u32") X("st.global.cg.u32")                 \
  X("st.global.cs.u32") X("st.global.wt.u32") X("st.global.L1::no_allocate.u32")
// clang-format on
__global__ void stores(word* p, word* out) {
  int n = 0;
  const word v = 0x8899aabbccddeeffull;
#define X(instruction)                                                \
  *p = 0x1111111111111111ull;                                         \
  asm volatile(instruction " [%0], %1;" ::"l"(p), "l"(v) : "memory"); \
  out[n++] = *(volatile word*)p;
  STORES(X)
#undef X
}

// --- Vectors: all elements
// clang-format off
#define VECTORS(X)                                                                                                    \
  X("ld.global", "st.global") X("ld", "st") X("ld.volatile.global", "st.volatile.global")                             \
  X("ld.relaxed.gpu.global", "st.relaxed.gpu.global")
// clang-format on
__global__ void vectors(unsigned char* p, unsigned char* to, word* out) {
  int n = 0;
  unsigned a, b, c, d;
  word v, w;
  unsigned short e, f, g, h;
#define X(ld, st)                                                                                              \
  asm volatile(ld ".v2.u8 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "l"(p) : "memory");                            \
  out[n++] = a, out[n++] = b;                                                                                  \
  asm volatile(ld ".v4.u16 {%0, %1, %2, %3}, [%4];" : "=h"(e), "=h"(f), "=h"(g), "=h"(h) : "l"(p) : "memory"); \
  out[n++] = e, out[n++] = f, out[n++] = g, out[n++] = h;                                                      \
  asm volatile(ld ".v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "l"(p) : "memory"); \
  out[n++] = a, out[n++] = b, out[n++] = c, out[n++] = d;                                                      \
  asm volatile(ld ".v2.u64 {%0, %1}, [%2+16];" : "=l"(v), "=l"(w) : "l"(p) : "memory");                        \
  out[n++] = v, out[n++] = w;                                                                                  \
  asm volatile(st ".v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(w), "l"(v) : "memory");                             \
  asm volatile(st ".v4.u32 [%0+16], {%1, %2, %3, %4};" ::"l"(to), "r"(d), "r"(c), "r"(b), "r"(a) : "memory");  \
  asm volatile(st ".v2.u16 [%0+4], {%1, %2};" ::"l"(to), "h"(h), "h"(g) : "memory");                           \
  for (int i = 0; i < 4; ++i) out[n++] = ((volatile word*)to)[i];
  VECTORS(X)
#undef X
}

// --- Atomics: an instruction, the value in memory, the operand; prints what it returns and what is then in memory
// clang-format off
#define ATOMICS32(X)                                                                                                  \
  X("add.u32", 0xfffffff0, 0x20) X("add.s32", 0x7fffffff, 1) X("inc.u32", 5, 6) X("inc.u32", 6, 6)                    \
  X("inc.u32", 9, 6) X("dec.u32", 5, 6) X("dec.u32", 0, 6) X("dec.u32", 9, 6) X("min.u32", 0x80000000, 1)             \
  X("min.s32", 0x80000000, 1) X("max.u32", 0x80000000, 1) X("max.s32", 0x80000000, 1)                                 \
  X("and.b32", 0xff00ff, 0xf0f0f0) X("or.b32", 0xff00ff, 0xf0f0f0) X("xor.b32", 0xff00ff, 0xf0f0f0)                   \
  X("add.f32", 0x3f800000, 0x40400000) X("add.f32", 0x4b800000, 0x3f800000) X("add.f32", 1, 1)                        \
  X("add.f32", 0x00800000, 0x80400000) X("add.f32", 0x7f800000, 0xff800000) X("add.f32", 0x80000000, 0x80000000)      \
  X("add.noftz.f16x2", 0x3c003c00, 0x4000c000) X("add.noftz.f16x2", 0x00010001, 0x00018001)                           \
  X("add.noftz.f16x2", 0x7bff7c00, 0x7bfffc00) X("add.noftz.f16x2", 0x68006801, 0x3c003c00)                           \
  X("add.noftz.bf16x2", 0x3f803f80, 0x4000c000) X("add.noftz.bf16x2", 0x00010001, 0x00018001)                         \
  X("add.noftz.bf16x2", 0x43804381, 0x3f803f80) X("add.noftz.bf16x2", 0x7f7f7f80, 0x7f7fff80)
#define ATOMICS64(X)                                                                                                  \
  X("add.u64", 0xffffffffffffffffull, 2) X("min.u64", 0x8000000000000000ull, 1)                                       \
  X("min.s64", 0x8000000000000000ull, 1) X("max.u64", 0x8000000000000000ull, 1)                                       \
  X("max.s64", 0x8000000000000000ull, 1) X("and.b64", 0xff00ff00ff00ff00ull, 0xf0f0f0f0f0f0f0f0ull)                   \
  X("or.b64", 0xff00ff00ff00ff00ull, 0xf0f0f0f0f0f0f0f0ull)                                                           \
  X("xor.b64", 0xff00ff00ff00ff00ull, 0xf0f0f0f0f0f0f0f0ull)                                                          \
  X("add.f64", 0x3ff0000000000000ull, 0x3ca0000000000000ull) X("add.f64", 1, 1)                                       \
  X("add.f64", 0x7ff0000000000000ull, 0xfff0000000000000ull)
#define ATOMICS16(X)                                                                                                  \
  X("add.noftz.f16", 0x3c00, 0x4000) X("add.noftz.f16", 0x0001, 0x0001) X("add.noftz.f16", 0x7bff, 0x7bff)            \
  X("add.noftz.f16", 0x7c00, 0xfc00) X("add.noftz.bf16", 0x3f80, 0x4000) X("add.noftz.bf16", 0x0001, 0x8001)
// clang-format on

// clang-format off
#define SCOPES(X)                                                                                                     \
  X("relaxed.cta") X("acquire.gpu") X("release.sys") X("acq_rel.cluster") X("acq_rel.sys") X("relaxed.gpu")
// clang-format on

template <class T> __device__ T* as(void* p) { return static_cast<T*>(p); }

// Runs `instruction` with p's word, once as atom and once as red.
#define ATOMIC(space, instruction, T, letter, old, operand, p)                                          \
  *as<volatile T>(p) = T(old);                                                                          \
  asm volatile("atom" space "." instruction " %0, [%1], %2;"                                            \
               : "=" letter(result)                                                                     \
               : "l"(ADDRESS), letter(T(operand))                                                       \
               : "memory");                                                                             \
  out[n++] = result, out[n++] = *as<volatile T>(p);                                                     \
  *as<volatile T>(p) = T(old);                                                                          \
  asm volatile("red" space "." instruction " [%0], %1;" ::"l"(ADDRESS), letter(T(operand)) : "memory"); \
  same &= *as<volatile T>(p) == T(out[n - 1]);

__global__ void atomics32(void* p, word* out) {
  int n = 0;
  bool same = true;
  unsigned result;
#define ADDRESS p
#define X(instruction, old, operand) ATOMIC(".global", instruction, unsigned, "r", old, operand, p)
  ATOMICS32(X)
#undef X
  out[n] = same;
}
__global__ void atomics64(void* p, word* out) {
  int n = 0;
  bool same = true;
  word result;
#define X(instruction, old, operand) ATOMIC(".global", instruction, word, "l", old, operand, p)
  ATOMICS64(X)
#undef X
  out[n] = same;
}
__global__ void atomics16(void* p, word* out) {
  int n = 0;
  bool same = true;
  unsigned short result;
#define X(instruction, old, operand) ATOMIC(".global", instruction, half_word, "h", old, operand, p)
  ATOMICS16(X)
#undef X
  out[n] = same;
}
__global__ void atomics32_generic(void* p, word* out) {
  int n = 0;
  bool same = true;
  unsigned result;
#define X(instruction, old, operand) ATOMIC("", instruction, unsigned, "r", old, operand, p)
  ATOMICS32(X)
#undef X
  out[n] = same;
}
#undef ADDRESS
__global__ void atomics32_shared(word* out) {
  __shared__ alignas(16) unsigned shared[4];
  int n = 0;
  bool same = true;
  unsigned result;
  void* p = shared + 1;
  const size_t at = __cvta_generic_to_shared(p);
#define ADDRESS at
#define X(instruction, old, operand) ATOMIC(".shared", instruction, unsigned, "r", old, operand, p)
  ATOMICS32(X)
#undef X
  out[n] = same;
#undef ADDRESS
}
__global__ void atomics32_shared_generic(word* out) {
  __shared__ alignas(16) unsigned shared[4];
  int n = 0;
  bool same = true;
  unsigned result;
  void* p = shared + 1;
#define ADDRESS p
#define X(instruction, old, operand) ATOMIC("", instruction, unsigned, "r", old, operand, p)
  ATOMICS32(X)
#undef X
  out[n] = same;
#undef ADDRESS
}
__global__ void atomics64_shared(word* out) {
  __shared__ word shared[2];
  int n = 0;
  bool same = true;
  word result;
  void* p = shared + 1;
#define ADDRESS p
#define X(instruction, old, operand) ATOMIC("", instruction, word, "l", old, operand, p)
  ATOMICS64(X)
#undef X
  out[n] = same;
#undef ADDRESS
}

__global__ void swaps(word* p, word* out) {
  int n = 0;
  unsigned short h;
  unsigned r;
  word l;
  *p = 0x1111222233334444ull;
  asm volatile("atom.global.cas.b16 %0, [%1], %2, %3;"
               : "=h"(h)
               : "l"(p), "h"((short)0x4444), "h"((short)0x5555)
               : "memory");
  out[n++] = h, out[n++] = *(volatile word*)p;
  asm volatile("atom.global.cas.b16 %0, [%1+2], %2, %3;"
               : "=h"(h)
               : "l"(p), "h"((short)0x4444), "h"((short)0x5555)
               : "memory");
  out[n++] = h, out[n++] = *(volatile word*)p;
  asm volatile("atom.global.cas.b32 %0, [%1+4], %2, %3;" : "=r"(r) : "l"(p), "r"(0x11112222), "r"(7) : "memory");
  out[n++] = r, out[n++] = *(volatile word*)p;
  asm volatile("atom.cas.b32 %0, [%1+4], %2, %3;" : "=r"(r) : "l"(p), "r"(0x11112222), "r"(8) : "memory");
  out[n++] = r, out[n++] = *(volatile word*)p;
  asm volatile("atom.acquire.sys.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(l)
               : "l"(p), "l"(0x733335555ull), "l"(9ull)
               : "memory");
  out[n++] = l, out[n++] = *(volatile word*)p;
  asm volatile("atom.exch.b32 %0, [%1], %2;" : "=r"(r) : "l"(p), "r"(11) : "memory");
  out[n++] = r, out[n++] = *(volatile word*)p;
  asm volatile("atom.release.gpu.global.exch.b64 %0, [%1], %2;" : "=l"(l) : "l"(p), "l"(12ull) : "memory");
  out[n++] = l, out[n++] = *(volatile word*)p;
#define X(scope)                                                                            \
  asm volatile("atom." scope ".global.add.u32 %0, [%1], 1;" : "=r"(r) : "l"(p) : "memory"); \
  out[n++] = r;
  SCOPES(X)
#undef X
}

__global__ void vector_atomics(unsigned char* p, word* out) {
  int n = 0;
  float* f = reinterpret_cast<float*>(p);
  unsigned* w = reinterpret_cast<unsigned*>(p);
  float a, b, c, d;
  unsigned short e, g, h, i;
  for (int k = 0; k < 4; ++k) f[k] = k + 1;
  asm volatile("atom.global.v4.f32.add {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"
               : "=f"(a), "=f"(b), "=f"(c), "=f"(d)
               : "l"(p), "f"(10.f), "f"(20.f), "f"(30.f), "f"(40.f)
               : "memory");
  out[n++] = a * 1000 + b * 100 + c * 10 + d;
  for (int k = 0; k < 4; ++k) out[n++] = ((volatile float*)f)[k];
  asm volatile("red.global.v2.f32.add [%0+8], {%1, %2};" ::"l"(p), "f"(1.f), "f"(2.f) : "memory");
  for (int k = 0; k < 4; ++k) out[n++] = ((volatile float*)f)[k];
  for (int k = 0; k < 4; ++k) w[k] = 0x3c004000 + k;
  asm volatile("atom.global.v4.f16.add.noftz {%0, %1, %2, %3}, [%4], {%5, %6, %7, %8};"
               : "=h"(e), "=h"(g), "=h"(h), "=h"(i)
               : "l"(p), "h"((short)0x3c00), "h"((short)0x3c00), "h"((short)0x4000), "h"((short)0x4000)
               : "memory");
  out[n++] = e, out[n++] = g, out[n++] = h, out[n++] = i, out[n++] = ((volatile word*)p)[0];
  asm volatile("red.global.v2.f16x2.max.noftz [%0], {%1, %2};" ::"l"(p), "r"(0x7e003c00), "r"(0x40008000) : "memory");
  out[n++] = ((volatile word*)p)[0];
  asm volatile("red.global.v2.f16x2.min.noftz [%0], {%1, %2};" ::"l"(p), "r"(0x7e003c00), "r"(0x40008000) : "memory");
  out[n++] = ((volatile word*)p)[0];
  asm volatile("red.global.v4.bf16x2.add.noftz [%0], {%1, %1, %1, %1};" ::"l"(p), "r"(0x3f803f80) : "memory");
  out[n++] = ((volatile word*)p)[0], out[n++] = ((volatile word*)p)[1];
}

// Many threads at once, on few words.
__global__ void crowd(unsigned* p) {
  extern __shared__ unsigned shared[];
  for (unsigned i = threadIdx.x; i < 64; i += blockDim.x) shared[i] = 0;
  __syncthreads();
  atomicAdd(&shared[threadIdx.x % 64], threadIdx.x);
  atomicAdd(&p[0], 1), atomicMax(&p[1], blockIdx.x * blockDim.x + threadIdx.x), atomicXor(&p[2], threadIdx.x);
  atomicAdd((float*)&p[3], 0.5f);
  if (threadIdx.x % 3 == 0) atomicInc(&p[4], 999);
  unsigned old = p[5], seen;
  do seen = old, old = atomicCAS(&p[5], seen, seen + 3);
  while (old != seen);
  __syncthreads();
  if (threadIdx.x < 64) atomicAdd(&p[6], shared[threadIdx.x]);
}

// --- Local memory, calls, generic addresses
struct Pair {
  int first;
  double second;
};
__device__ __noinline__ int sum(const int* values, int n) {
  int total = 0;
  for (int i = 0; i < n; ++i) total += values[i];
  return total;
}
__device__ __noinline__ Pair swap_and_scale(Pair p, signed char c, short s, float f) {
  return {int(p.second) + c, p.first * double(f) + s};
}
__device__ __noinline__ void through(int** where, int value) { **where = value; }

struct Big {
  int numbers[20];
  char name[12];
};
__global__ void languages(int n, Big big, word* out) {
  extern __shared__ int dynamic[];
  __shared__ int fixed[8];
  int local[40], *at = local;
  for (int i = 0; i < 40; ++i) local[i] = i * n;
  for (int i = 0; i < 8; ++i) fixed[i] = i + n, dynamic[i] = 100 * i;
  __syncthreads();
  int k = 0;
  out[k++] = sum(local, 40), out[k++] = sum(fixed, 8), out[k++] = sum(dynamic, 8), out[k++] = local[n * 5];
  const Pair p = swap_and_scale({n, 2.5}, -1, -300, 0.25f);
  out[k++] = unsigned(p.first), out[k++] = __double_as_longlong(p.second);
  through(&at, 77), out[k++] = local[0];
  at = fixed + 3, through(&at, 78), out[k++] = fixed[3];
  at = dynamic + 7, through(&at, 79), out[k++] = dynamic[7];
  out[k++] = sum(big.numbers, 20), out[k++] = big.numbers[n], out[k++] = big.name[n];
  out[k++] = __isGlobal(out), out[k++] = __isGlobal(local), out[k++] = __isLocal(local), out[k++] = __isLocal(fixed);
  out[k++] = __isShared(fixed), out[k++] = __isShared(dynamic), out[k++] = __isShared(out);
  out[k++] = __isConstant(out);
  out[k++] = __cvta_generic_to_shared(fixed + 1) - __cvta_generic_to_shared(fixed);
  out[k++] = (char*)__cvta_shared_to_generic(__cvta_generic_to_shared(dynamic + 2)) == (char*)(dynamic + 2);
  out[k++] = *(int*)__cvta_global_to_generic(__cvta_generic_to_global(out)) == int(out[0]);
}

// --- Variables of the module
__constant__ int table[5] = {10, 20, 30, 40, 50};
__constant__ int set_by_host[4];
__device__ int counter = 5;
__device__ double numbers[3] = {1.5, -2.25};
__device__ const char text[] = "words on the device";
__device__ int* pointer = &counter;
__device__ const char* pointers[2] = {text, text + 6};
__device__ const int* to_table = table + 2;
__device__ Pair pair = {3, 0.125};
__device__ int zeros[1000];
__global__ void variables(int i, word* out) {
  int k = 0;
  out[k++] = table[i], out[k++] = set_by_host[i], out[k++] = atomicAdd(&counter, 2), out[k++] = counter;
  out[k++] = __double_as_longlong(numbers[i]), out[k++] = text[i], out[k++] = *pointer, out[k++] = pointers[1][i];
  out[k++] = to_table[i], out[k++] = pair.first, out[k++] = __double_as_longlong(pair.second);
  out[k++] = zeros[i * 100];
  out[k++] = pointer == &counter, out[k++] = pointers[0] == text;
  *pointer = 40 + i;
}

__global__ void copies(const unsigned char* from, word* out) {
  extern __shared__ __align__(16) unsigned char target[];
  for (int i = 0; i < 64; ++i) target[i] = 0xee;
  const unsigned to = unsigned(__cvta_generic_to_shared(target));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.ca.shared.global [%0+8], [%1+8], 8;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.cg.shared.global [%0+16], [%1+16], 16;" ::"r"(to), "l"(from) : "memory");
  asm volatile("cp.async.cg.shared.global [%0+32], [%1+16], 16, %2;" ::"r"(to), "l"(from), "r"(6) : "memory");
  asm volatile("cp.async.ca.shared.global [%0+48], [%1+16], 8, %2;" ::"r"(to), "l"(from), "r"(0) : "memory");
  asm volatile("cp.async.commit_group;\n\tcp.async.wait_group 0;" ::: "memory");
  asm volatile("cp.async.wait_all;" ::: "memory");
  __syncthreads();
  for (int i = 0; i < 8; ++i) out[i] = reinterpret_cast<word*>(target)[i];
}

__global__ void prints(int i, const char* on_device) {
  printf("%d %i %u %x %X %o %c|%5d|%-5d|%05d|%+d\n", -i, i, -i, 255, 255, 8, 'x', i, i, i, i);
  printf("%ld %lld %lu %llx\n", -1L, 1LL << 40, ~0UL, ~0ULL);  // no %hd, %zu or %.*f: the chip's printf has them not
  printf("%f %.2f %e %g %a %10.3f|\n", 1.5, 2.345, 12345.678, 0.0001, 1.0, 3.14159);
  printf("%hd\n", 70000);
  printf("%s|%10s|%-10s|%.3s|%%|%s\n", "text", "right", "left", "cut", on_device);
  printf("%c%c%c|%p\n", 'a', 'b', 'c', (void*)0x1234);
  printf("no arguments\n");
  const int got = printf("%d %d\n", 1, 2);
  printf("printf returned %d\n", got);
}
__global__ void print_in_turn() {
  for (unsigned i = 0; i < blockDim.x; ++i) {
    if (threadIdx.x == i) printf("thread %u\n", i);
    __syncthreads();
  }
}

static void say_values(const std::vector<word>& values, int first, int count) {
  for (int i = 0; i < count; ++i) std::printf(" %llx", values[first + i]);
  std::puts("");
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&out, results * sizeof(word))), CHECK(cudaMalloc(&bytes, 4096));
  unsigned char pattern[64];
  for (int i = 0; i < 64; ++i) pattern[i] = 0x80 + 3 * i;
  CHECK(cudaMemcpy(bytes, pattern, sizeof pattern, cudaMemcpyHostToDevice));

#define X(name) name,
#define Y(name, old, operand) name " " #old " " #operand,
#define Z(ld, st) ld " and " st,
  const char* const load_types[] = {LOADS(X)};
  const char* const load_kinds[] = {KINDS(X)};
  const char* const store_kinds[] = {STORES(X)};
  const char* const vector_kinds[] = {VECTORS(Z)};
  const char *const atomic32[] = {ATOMICS32(Y)}, *const atomic64[] = {ATOMICS64(Y)}, *const atomic16[] = {ATOMICS16(Y)};
  std::vector<word> values;
  int n = 0;

  section("loads");
  loads<<<1, 1>>>(bytes, out), values = finish();
  for (const char* type : load_types) std::printf("ld.global.%s:", type), say_values(values, n++, 1);
  for (const char* kind : load_kinds) std::printf("%ss16:", kind), say_values(values, n++, 1);
  section("stores");
  stores<<<1, 1>>>((word*)(bytes + 128), out), values = finish(), n = 0;
  for (const char* kind : store_kinds) std::printf("%s:", kind), say_values(values, n++, 1);
  section("vectors");
  vectors<<<1, 1>>>(bytes, bytes + 128, out), values = finish(), n = 0;
  for (const char* kind : vector_kinds) std::printf("%s:", kind), say_values(values, n, 16), n += 16;

  const auto say_atomics = [&](const char* what, const char* const* names, int count) {
    section(what);
    values = finish();
    for (int i = 0; i < count; ++i) std::printf("%s:", names[i]), say_values(values, 2 * i, 2);
    std::printf("red does the same:"), say_values(values, 2 * count, 1);
  };
  atomics32<<<1, 1>>>(bytes + 128, out), say_atomics("atomics of 32 bits", atomic32, std::size(atomic32));
  atomics32_generic<<<1, 1>>>(bytes + 128, out);
  say_atomics("atomics of 32 bits, generic address", atomic32, std::size(atomic32));
  atomics32_shared<<<1, 1>>>(out), say_atomics("atomics of 32 bits, shared memory", atomic32, std::size(atomic32));
  atomics32_shared_generic<<<1, 1>>>(out);
  say_atomics("atomics of 32 bits, generic address of shared memory", atomic32, std::size(atomic32));
  atomics64<<<1, 1>>>(bytes + 128, out), say_atomics("atomics of 64 bits", atomic64, std::size(atomic64));
  atomics64_shared<<<1, 1>>>(out);
  say_atomics("atomics of 64 bits, generic address of shared memory", atomic64, std::size(atomic64));
  atomics16<<<1, 1>>>(bytes + 128, out), say_atomics("atomics of 16 bits", atomic16, std::size(atomic16));

  section("compare and swap, scopes");
  swaps<<<1, 1>>>((word*)(bytes + 128), out), values = finish();
  for (int i = 0; i < 7; ++i) say_values(values, 2 * i, 2);
  say_values(values, 14, 6);
  section("vectors of atomics");
  vector_atomics<<<1, 1>>>(bytes + 128, out), values = finish(), say_values(values, 0, 9), say_values(values, 9, 9);
  section("a crowd");
  CHECK(cudaMemset(bytes + 128, 0, 64));
  crowd<<<20, 256, 256>>>((unsigned*)(bytes + 128));
  unsigned counts[7];
  CHECK(cudaMemcpy(counts, bytes + 128, sizeof counts, cudaMemcpyDeviceToHost));
  for (const unsigned count : counts) std::printf("%x\n", count);

  section("local and shared memory, calls, generic addresses");
  Big big;
  for (int i = 0; i < 20; ++i) big.numbers[i] = 1000 + i;
  std::strcpy(big.name, "parameters");
  languages<<<1, 1, 64>>>(3, big, out), values = finish(), say_values(values, 0, 12), say_values(values, 12, 11);
  section("variables");
  const int constants[] = {7, 8, 9, 10};
  CHECK(cudaMemcpyToSymbol(set_by_host, constants, sizeof constants));
  variables<<<1, 1>>>(1, out), values = finish(), say_values(values, 0, 14);
  int counted;
  CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
  std::printf("counter: %d\n", counted);
  section("asynchronous copies");
  copies<<<1, 1, 64>>>(bytes, out), values = finish(), say_values(values, 0, 8);

  section("printf");
  CHECK(cudaMemcpy(bytes + 128, "from the host", 14, cudaMemcpyHostToDevice));
  prints<<<1, 1>>>(3, (char*)bytes + 128), CHECK(cudaDeviceSynchronize());
  print_in_turn<<<1, 40>>>(), CHECK(cudaDeviceSynchronize());
  print_in_turn<<<1, 1>>>(), std::printf("after the launch, before the wait\n"), CHECK(cudaDeviceSynchronize());
  std::puts("OK");
}
