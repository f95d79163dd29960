// SPDX-License-Identifier: MIT-0
// How threads go together: what a warp's lanes tell one another, barriers, ways that part and meet again, and threads
// that wait for each other without any barrier. A line for each question: a hash of what all threads found out.
#include "check.h"

#include <cstdint>
#include <string>
#include <vector>

constexpr unsigned full = 0xffffffff;

__device__ uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352d;
  x = (x ^ x >> 15) * 0x846ca68b;
  return x ^ x >> 16;
}
__device__ unsigned thread_number() {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (threadIdx.z + blockDim.z * block));
}
__device__ void note(uint32_t* found, uint32_t value) {
  found[thread_number()] = mixed(found[thread_number()] ^ value);
}

// --- What lanes tell one another -----------------------------------------------------------------------------------
__global__ void shuffles(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  for (int width = 32; width; width /= 2)
    for (int by = 0; by < 33; by += 1 + by / 3) {
      note(found, __shfl_sync(full, mine, by + int(threadIdx.x), width));
      note(found, __shfl_up_sync(full, mine, by & 31, width));
      note(found, __shfl_down_sync(full, mine, by & 31, width));
      note(found, __shfl_xor_sync(full, mine, by & 31, width));
    }
}

#define SHUFFLE(mode, b, c)                                                                           \
  asm volatile("{ .reg .pred p; shfl.sync." mode ".b32 %0|p, %2, %3, %4, -1; selp.b32 %1, 1, 0, p; }" \
               : "=r"(value), "=r"(inside)                                                            \
               : "r"(mine), "r"(b), "r"(c));                                                          \
  note(found, value), note(found, inside)
__global__ void shuffles_and_ranges(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  uint32_t value, inside;
  for (unsigned b = 0; b < 32; b += 5)
    for (unsigned c : {0x1fu, 0u, 0x1810u, 0x1c03u, 0x1005u, 0x1e1fu}) {
      SHUFFLE("up", b, c);
      SHUFFLE("down", b, c);
      SHUFFLE("bfly", b, c);
      SHUFFLE("idx", b, c);
    }
}

__global__ void shuffles_of_half_warps(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  const unsigned lane = threadIdx.x % 32;
  if (lane < 16) {
    for (int by = 8; by; by /= 2) note(found, __shfl_xor_sync(0x0000ffff, mine, by));
  } else if (lane % 2) {
    note(found, __shfl_sync(0xaaaa0000, mine, 21));
    note(found, __shfl_down_sync(0xaaaa0000, mine, 2));
  }
  const unsigned half = lane < 16 ? 0x0000ffff : 0xffff0000;  // one instruction, two sets of lanes
  note(found, __shfl_sync(half, mine, lane < 16 ? 3 : 30));
}

__global__ void votes(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  for (unsigned k = 0; k < 33; ++k) {
    const bool yes = k == 32 || mine % 32 < k;
    note(found, __ballot_sync(full, yes));
    note(found, __all_sync(full, yes) + 2 * __any_sync(full, yes) + 4 * __uni_sync(full, yes));
    if (threadIdx.x % 32 < k % 20) {
      const unsigned mask = (1u << k % 20) - 1;
      note(found, __ballot_sync(mask, !yes) + __any_sync(mask, yes));
    }
  }
}

__global__ void matches(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  for (unsigned modulus : {1u, 2u, 3u, 7u, 20u, 1000u}) {
    int same;
    note(found, __match_any_sync(full, mine % modulus));
    note(found, __match_any_sync(full, (unsigned long long)(mine % modulus) << 33));
    note(found, __match_all_sync(full, mine % modulus, &same) + same);
    if (threadIdx.x & 1) note(found, __match_any_sync(0xaaaaaaaa, mine % modulus));
  }
}

// Of sm_80 and sm_90: text that the driver compiles.
static const char* const newer =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry reductions(.param .u64 found) {\n"
    ".reg .b32 %r<30>;\n.reg .b64 %rd<4>;\n.reg .pred %p<4>;\n"
    "ld.param.u64 %rd1, [found];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\n"
    "mad.lo.s32 %r2, %r1, 747796405, 2891336453;\nxor.b32 %r2, %r2, 0x5a5a;\n"
    "redux.sync.add.u32 %r3, %r2, -1;\nredux.sync.min.u32 %r4, %r2, -1;\nredux.sync.max.u32 %r5, %r2, -1;\n"
    "redux.sync.min.s32 %r6, %r2, -1;\nredux.sync.max.s32 %r7, %r2, -1;\nredux.sync.and.b32 %r8, %r2, -1;\n"
    "redux.sync.or.b32 %r9, %r1, -1;\nredux.sync.xor.b32 %r10, %r2, -1;\nredux.sync.add.s32 %r11, %r2, -1;\n"
    "elect.sync %r12|%p1, -1;\nselp.b32 %r13, 77, 0, %p1;\nand.b32 %r14, %r1, 16;\nsetp.ne.u32 %p2, %r14, 0;\n"
    "mov.u32 %r15, 0;\nmov.u32 %r16, 0;\n"
    "@%p2 redux.sync.add.u32 %r15, %r2, 0xffff0000;\n@!%p2 elect.sync %r16|%p3, 0x0000ffff;\n"
    "mad.lo.s32 %r20, %r3, 31, %r4;\nmad.lo.s32 %r20, %r20, 31, %r5;\nmad.lo.s32 %r20, %r20, 31, %r6;\n"
    "mad.lo.s32 %r20, %r20, 31, %r7;\nmad.lo.s32 %r20, %r20, 31, %r8;\nmad.lo.s32 %r20, %r20, 31, %r9;\n"
    "mad.lo.s32 %r20, %r20, 31, %r10;\nmad.lo.s32 %r20, %r20, 31, %r11;\nmad.lo.s32 %r20, %r20, 31, %r13;\n"
    "mad.lo.s32 %r20, %r20, 31, %r15;\nmad.lo.s32 %r20, %r20, 31, %r16;\nmad.lo.s32 %r20, %r20, 31, %r12;\n"
    "st.global.u32 [%rd1], %r20;\nret;\n}\n";

// --- Ways that part ------------------------------------------------------------------------------------------------
__global__ void nested_loops(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  for (unsigned i = 0; i < mine % 7; ++i) {
    for (unsigned j = i; j < mine % 11; ++j) {
      if ((i ^ j ^ mine) & 4) continue;
      note(found, i * 100 + j);
      if (j > mine % 9) break;
    }
    if (i > mine % 5) return;
  }
  unsigned long long n = mine % 1000 + 1;
  unsigned steps = 0;
  for (; n != 1; ++steps) n = n % 2 ? 3 * n + 1 : n / 2;
  note(found, steps);
}

__global__ void switches(uint32_t* found) {
  uint32_t mine = mixed(thread_number());
  for (int k = 0; k < 20; ++k) {
    switch (mine % 13) {  // as many cases as a table takes
      case 0: mine = mine * 3 + 1; break;
      case 1: mine ^= mine >> 3; break;
      case 2: mine = mixed(mine); [[fallthrough]];
      case 3: mine += 17; break;
      case 4: mine = mine / 7; break;
      case 5: mine = ~mine; break;
      case 6: mine = __brev(mine); break;
      case 7: mine = __popc(mine) * 12345; break;
      case 8: mine = __clz(mine) + 99; break;
      case 9: mine = mine << 5 | mine >> 27; break;
      case 10: mine -= 1000; break;
      default: mine = mine * 0x9e3779b9 + k;
    }
    note(found, mine);
  }
}

// The targets of a table, which a compiler for a GPU seldom makes of a switch.
static const char* const tables =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry by_table(.param .u64 found) {\n"
    ".reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n.reg .pred %p<2>;\n"
    "ld.param.u64 %rd1, [found];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd1, %rd1, %rd2;\n"
    "mov.u32 %r2, %r1;\nmov.u32 %r3, 0;\n"
    "again: and.b32 %r4, %r2, 3;\n"
    "ways: .branchtargets one, two, three, one;\n"
    "brx.idx %r4, ways;\n"
    "one: add.s32 %r2, %r2, 5;\nbra.uni next;\n"
    "two: mul.lo.s32 %r2, %r2, 3;\nbra.uni next;\n"
    "three: shr.u32 %r2, %r2, 1;\n"
    "next: add.s32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 25;\n@%p1 bra again;\n"
    "st.global.u32 [%rd1], %r2;\nret;\n}\n";

struct Triple {
  uint32_t a;
  uint64_t b;
  uint16_t c;
};
__device__ __noinline__ Triple turned(Triple t, int by) {
  if (by % 3 == 0) return {uint32_t(t.b), uint64_t(t.a) << 32 | t.c, uint16_t(by)};
  if (by % 3 == 1) return {t.a + t.c, t.b ^ t.a, uint16_t(t.a)};
  t.c += by;
  return t;
}
__device__ __noinline__ uint32_t folded(Triple t) {
  for (int k = 0; k < 3; ++k)
    if (t.a & 1) t = turned(t, k + t.c);
  return mixed(t.a ^ uint32_t(t.b) ^ uint32_t(t.b >> 32) ^ t.c);
}
__global__ void calls(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  Triple t = {mine, (uint64_t)mine * mine, (uint16_t)(mine >> 7)};
  for (unsigned k = 0; k < mine % 6; ++k) {
    if (mine >> k & 1) t = turned(t, k);
    note(found, folded(t));
  }
}

__global__ void arrays_of_a_thread(uint32_t* found) {  // in local memory
  const uint32_t mine = mixed(thread_number());
  uint32_t values[20];
  for (int k = 0; k < 20; ++k) values[k] = mixed(mine + k);
  for (int k = 0; k < 40; ++k) values[values[k % 20] % 20] += values[(k * 7 + mine) % 20];
  for (int k = 0; k < 20; ++k) note(found, values[k]);
}

// --- Barriers ------------------------------------------------------------------------------------------------------
__global__ void sums_of_a_block(uint32_t* found) {  // of any size
  __shared__ uint32_t sums[1024];
  const unsigned t = threadIdx.x;
  sums[t] = mixed(thread_number());
  __syncthreads();
  for (unsigned size = blockDim.x; size > 1; size = (size + 1) / 2) {
    if (t < size / 2) sums[t] += sums[size - 1 - t];
    __syncthreads();
  }
  note(found, sums[0]);
}

__global__ void barriers_that_count(uint32_t* found) {
  const uint32_t mine = mixed(thread_number());
  for (unsigned k = 0; k < 9; ++k) {
    const bool yes = mine % 8 < k;
    note(found, __syncthreads_count(yes));
    note(found, __syncthreads_and(yes) + 2 * __syncthreads_or(yes));
  }
}

__global__ void barriers_after_exits(uint32_t* found) {
  __shared__ uint32_t sum;
  const unsigned t = threadIdx.x;
  if (t == 0) sum = 0;
  __syncthreads();
  if (t / 32 == 1) return;                  // a whole warp
  if (t / 32 == 2 && t % 32 >= 10) return;  // most of one
  atomicAdd(&sum, t);
  __syncthreads();
  note(found, sum);
  note(found, __syncthreads_count(t & 1));
  if (t % 2) return;  // half of each
  __syncthreads();
  note(found, sum + 1);
}

__global__ void barriers_on_two_ways(uint32_t* found) {
  __shared__ uint32_t values[256];
  const unsigned t = threadIdx.x;
  if (t % 2) {
    values[t] = mixed(t);
    asm volatile("barrier.sync 0;" ::: "memory");
    note(found, values[t - 1]);
  } else {
    values[t] = mixed(t + 1000);
    asm volatile("barrier.sync 0;" ::: "memory");
    note(found, values[t + 1]);
  }
  __syncthreads();
  values[t] = t;
  __syncthreads();
  note(found, values[255 - t]);
}

__global__ void named_barriers(uint32_t* found) {  // warps 0 and 1 fill, warps 2 and 3 use, through two buffers
  __shared__ uint32_t buffers[2][64];
  const unsigned t = threadIdx.x % 64;
  const bool fills = threadIdx.x < 64;
  for (unsigned k = 0; k < 10; ++k) {
    const unsigned buffer = k % 2, is_full = 1 + buffer, is_empty = 3 + buffer;
    if (fills) {
      if (k >= 2) asm volatile("bar.sync %0, 128;" ::"r"(is_empty) : "memory");
      buffers[buffer][t] = mixed(t + 64 * k);
      asm volatile("bar.arrive %0, 128;" ::"r"(is_full) : "memory");
    } else {
      asm volatile("bar.sync %0, 128;" ::"r"(is_full) : "memory");
      note(found, buffers[buffer][63 - t]);
      if (k < 8) asm volatile("bar.arrive %0, 128;" ::"r"(is_empty) : "memory");
    }
  }
  unsigned ones;
  asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 40; bar.red.popc.u32 %0, %2, 64, p; }"
               : "=r"(ones)
               : "r"(t), "r"(7 + fills));
  note(found, ones);
}

__global__ void barriers_of_a_warp(uint32_t* found) {
  __shared__ uint32_t values[256];
  const unsigned t = threadIdx.x, lane = t % 32;
  for (unsigned k = 0; k < 8; ++k) {
    if (lane < 8 + k) {
      values[t] = mixed(t + k);
      __syncwarp((1u << (8 + k)) - 1);
      note(found, values[t / 32 * 32 + (lane + 3) % (8 + k)]);
    } else if (lane % 2) {
      values[t] = k;
    }
    __syncwarp();
    note(found, values[t / 32 * 32 + lane % 8]);
    __syncwarp();
  }
}

__global__ void lanes_that_exit(uint32_t* found) {  // nobody waits for them
  const unsigned lane = threadIdx.x % 32;
  uint32_t x = lane;
  if (lane % 3) {
    __syncwarp();
    note(found, __ballot_sync(full, lane % 2));
    if (lane % 5 == 0) return;
    note(found, __any_sync(full, lane == 7));
  } else {
    for (unsigned k = 0; k < lane * 10; ++k) x = mixed(x);
    note(found, x);
  }
}

// --- Waiting without a barrier -------------------------------------------------------------------------------------
__global__ void lanes_that_wait(uint32_t* found) {
  __shared__ volatile uint32_t flags[32];
  const unsigned lane = threadIdx.x;
  flags[lane] = 0;
  __syncwarp();
  if (lane) {
    while (!flags[lane - 1]) {
    }  // each for the one before it
    flags[lane] = flags[lane - 1] + lane;
  } else {
    flags[0] = 1;
  }
  note(found, flags[lane]);
  __syncwarp();
  flags[lane] = 0;
  __syncwarp();
  if (lane < 31) {
    while (!flags[lane + 1]) __nanosleep(20);  // and for the one after it
    flags[lane] = flags[lane + 1] + lane;
  } else {
    flags[31] = 7;
  }
  note(found, flags[lane]);
}

__global__ void locks(uint32_t* found) {  // every thread of every block takes the same lock
  __shared__ unsigned held, sum;
  if (threadIdx.x == 0) held = sum = 0;
  __syncthreads();
  for (bool done = false; !done;) {
    if (atomicCAS(&held, 0, 1) == 0) {
      __threadfence_block();
      *(volatile unsigned*)&sum = *(volatile unsigned*)&sum + threadIdx.x;
      __threadfence_block();
      atomicExch(&held, 0);
      done = true;
    }
  }
  __syncthreads();
  note(found, sum);
}

__device__ volatile uint32_t turn;
__global__ void blocks_that_wait(uint32_t* found) {  // the last block begins, the first one ends
  const uint32_t mine = gridDim.x - 1 - blockIdx.x;
  if (threadIdx.x == 0)
    for (int round = 0; round < 3; ++round) {
      while (turn != mine + round * gridDim.x) {
      }
      __threadfence();
      turn = turn + 1;
    }
  __syncthreads();
  note(found, blockIdx.x);
}

// --- Who and where a thread is -------------------------------------------------------------------------------------
#define REGISTER(name)                                   \
  asm volatile("mov.u32 %0, %%" name ";" : "=r"(value)); \
  note(found, value)
__global__ void special_registers(uint32_t* found) {
  uint32_t value;
  REGISTER("tid.x");
  REGISTER("tid.y");
  REGISTER("tid.z");
  REGISTER("ntid.x");
  REGISTER("ntid.y");
  REGISTER("ntid.z");
  REGISTER("ctaid.x");
  REGISTER("ctaid.y");
  REGISTER("ctaid.z");
  REGISTER("nctaid.x");
  REGISTER("nctaid.y");
  REGISTER("nctaid.z");
  REGISTER("laneid");
  REGISTER("lanemask_eq");
  REGISTER("lanemask_lt");
  REGISTER("lanemask_le");
  REGISTER("lanemask_gt");
  REGISTER("lanemask_ge");
  REGISTER("dynamic_smem_size");
}

__global__ void clocks(uint32_t* found) {
  const long long began = clock64();
  unsigned long long first, last;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(last));
  while (last == first);
  uint32_t sm, sms, warp, warps;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  asm volatile("mov.u32 %0, %%nsmid;" : "=r"(sms));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
  note(found, clock64() > began && last > first && sm < sms && warp < warps);
}

__global__ void shared_memory(uint32_t* found) {  // what the program wrote, and the launch's own part behind it
  __shared__ uint32_t own[33];
  __shared__ double other[3];
  extern __shared__ uint64_t dynamic[];
  const unsigned t = threadIdx.x;
  if (t < 33) own[t] = t;
  if (t < 3) other[t] = t * 0.5;
  for (unsigned k = t; k < 100; k += blockDim.x) dynamic[k] = k * 3;
  __syncthreads();
  note(found, own[t % 33] + uint32_t(other[t % 3] * 4) + uint32_t(dynamic[t % 100]));
  const bool behind = (char*)dynamic >= (char*)(own + 33) && (char*)dynamic >= (char*)(other + 3);
  note(found, behind + 2 * ((uintptr_t)dynamic % 8 == 0));
}

// --- Asking --------------------------------------------------------------------------------------------------------
static uint32_t* device_memory;
constexpr unsigned most = 1 << 16;

static void tell(const std::string& name) {
  static std::vector<uint32_t> found(most);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(found.data(), device_memory, most * 4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(device_memory, 0, most * 4));
  uint64_t hash = 14695981039346656037u;
  for (const uint32_t value : found) hash = (hash ^ value) * 1099511628211u, hash ^= hash >> 29;
  std::printf("%s %016llx\n", name.c_str(), (unsigned long long)hash);
  std::fflush(stdout);
}
static void ask(const char* name, void (*kernel)(uint32_t*), dim3 grid, dim3 block, size_t shared = 0) {
  kernel<<<grid, block, shared>>>(device_memory);
  CHECK(cudaGetLastError());
  tell(name);
}
static void ask_text(const char* name, const char* text) {
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, text));
  CHECK(cuModuleGetFunction(&function, module, name));
  void* parameters[] = {&device_memory};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, parameters, nullptr));
  tell(name);
  CHECK(cuModuleUnload(module));
}

int main() {
  check::require_gpus(1);
  CHECK(cudaMalloc(&device_memory, most * 4));
  CHECK(cudaMemset(device_memory, 0, most * 4));
  ask("shuffles", shuffles, 2, 128);
  ask("shuffles_and_ranges", shuffles_and_ranges, 1, 64);
  ask("shuffles_of_half_warps", shuffles_of_half_warps, 1, 64);
  ask("votes", votes, 1, 96);
  ask("matches", matches, 1, 96);
  ask_text("reductions", newer);
  ask("nested_loops", nested_loops, 5, 100);
  ask("switches", switches, 5, 100);
  ask_text("by_table", tables);
  ask("calls", calls, 3, 80);
  ask("arrays_of_a_thread", arrays_of_a_thread, 3, 80);
  for (const unsigned size : {1, 31, 32, 33, 100, 256, 1000, 1024})
    ask(("sums_of_a_block of " + std::to_string(size)).c_str(), sums_of_a_block, 3, size);
  for (const unsigned size : {20, 256, 1000})
    ask(("barriers_that_count of " + std::to_string(size)).c_str(), barriers_that_count, 3, size);
  ask("barriers_after_exits", barriers_after_exits, 3, 200);
  ask("barriers_on_two_ways", barriers_on_two_ways, 3, 256);
  ask("named_barriers", named_barriers, 3, 128);
  ask("barriers_of_a_warp", barriers_of_a_warp, 3, 256);
  ask("lanes_that_exit", lanes_that_exit, 3, 64);
  ask("lanes_that_wait", lanes_that_wait, 4, 32);
  ask("locks", locks, 3, 96);
  ask("blocks_that_wait", blocks_that_wait, 32, 64);
  ask("special_registers", special_registers, dim3(3, 2, 4), dim3(7, 5, 3), 384);
  ask("clocks", clocks, 3, 64);
  ask("shared_memory", shared_memory, 3, 64, 800);
  CHECK(cudaFree(device_memory));
}
