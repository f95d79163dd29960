// SPDX-License-Identifier: MIT-0
// One memory at two addresses: which reads are stale, and what cures them. Each of 1024 threads of a block has one
// element: it reads it through b, writes it through a (or someone else does), does something, and reads it through b
// again. How many of the second reads bring the old value is the answer; where any number is allowed, the chip's stands
// in braces in the expected output.
#include "conformance.h"

constexpr unsigned threads = 1024;

// What a thread works with: its element at both addresses, the new value, a word elsewhere, and where to leave what it
// has read: a load whose value nobody uses is none, for the assembler drops it.
struct Hand {
  unsigned *a, *b, value, *mailbox, *read;
  __device__ void use(unsigned v) const { asm volatile("st.global.u32 [%0], %1;" ::"l"(read), "r"(v) : "memory"); }
};

__device__ unsigned load(const unsigned* p) {
  unsigned v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ void store(unsigned* p, unsigned v) { asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }

#define LOAD(name, instruction)                                           \
  __device__ unsigned name(const unsigned* p) {                           \
    unsigned v;                                                           \
    asm volatile(instruction " %0, [%1];" : "=r"(v) : "l"(p) : "memory"); \
    return v;                                                             \
  }
LOAD(load_volatile, "ld.volatile.global.u32")
LOAD(load_relaxed_cta, "ld.relaxed.cta.global.u32")
LOAD(load_relaxed_gpu, "ld.relaxed.gpu.global.u32")
LOAD(load_relaxed_sys, "ld.relaxed.sys.global.u32")
LOAD(load_acquire_cta, "ld.acquire.cta.global.u32")
LOAD(load_acquire_gpu, "ld.acquire.gpu.global.u32")
LOAD(load_acquire_sys, "ld.acquire.sys.global.u32")
LOAD(load_nc, "ld.global.nc.u32")
LOAD(load_ca, "ld.global.ca.u32")
LOAD(load_cg, "ld.global.cg.u32")
LOAD(load_cs, "ld.global.cs.u32")
LOAD(load_lu, "ld.global.lu.u32")
LOAD(load_cv, "ld.global.cv.u32")

#define STORE(name, instruction) \
  __device__ void name(unsigned* p, unsigned v) { asm volatile(instruction " [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
STORE(store_volatile, "st.volatile.global.u32")
STORE(store_relaxed_gpu, "st.relaxed.gpu.global.u32")
STORE(store_release_sys, "st.release.sys.global.u32")
STORE(store_wt, "st.global.wt.u32")
STORE(red_add, "red.relaxed.gpu.global.add.u32")

#define FENCE(instruction) asm volatile(instruction ";" ::: "memory")

// read b, write a, `something`, read b again
#define BETWEEN(name, something)             \
  struct name {                              \
    __device__ static unsigned run(Hand h) { \
      h.use(load(h.b));                      \
      store(h.a, h.value);                   \
      something;                             \
      return load(h.b);                      \
    }                                        \
  };
BETWEEN(nothing, )
BETWEEN(membar_cta, FENCE("membar.cta"))
BETWEEN(membar_gl, FENCE("membar.gl"))
BETWEEN(membar_sys, FENCE("membar.sys"))
BETWEEN(fence_cta, FENCE("fence.acq_rel.cta"))
BETWEEN(fence_cluster, FENCE("fence.acq_rel.cluster"))
BETWEEN(fence_gpu, FENCE("fence.acq_rel.gpu"))
BETWEEN(fence_sys, FENCE("fence.acq_rel.sys"))
BETWEEN(fence_sc_cta, FENCE("fence.sc.cta"))
BETWEEN(fence_sc_gpu, FENCE("fence.sc.gpu"))
BETWEEN(fence_proxy_alias, FENCE("fence.proxy.alias"))
BETWEEN(fence_proxy_async, FENCE("fence.proxy.async"))
BETWEEN(barrier, __syncthreads())
BETWEEN(warp_barrier, __syncwarp())
BETWEEN(sleeping, __nanosleep(100000))
BETWEEN(reading_a, h.use(load(h.a)))
BETWEEN(volatile_read_of_b, h.use(load_volatile(h.b)))
BETWEEN(relaxed_cta_read_of_b, h.use(load_relaxed_cta(h.b)))
BETWEEN(relaxed_gpu_read_of_b, h.use(load_relaxed_gpu(h.b)))
BETWEEN(acquire_cta_read_of_b, h.use(load_acquire_cta(h.b)))
BETWEEN(acquire_gpu_read_of_b, h.use(load_acquire_gpu(h.b)))
BETWEEN(acquire_read_elsewhere, h.use(load_acquire_gpu(h.mailbox)))
BETWEEN(volatile_read_elsewhere, h.use(load_volatile(h.mailbox)))
BETWEEN(cg_read_of_b, h.use(load_cg(h.b)))
BETWEEN(cv_read_of_b, h.use(load_cv(h.b)))
BETWEEN(atomic_on_b, h.use(atomicAdd(h.b, 0)))
BETWEEN(red_on_b, red_add(h.b, 0))
BETWEEN(atomic_on_a, h.use(atomicAdd(h.a, 0)))
BETWEEN(atomic_elsewhere, h.use(atomicAdd(h.mailbox, 0)))
BETWEEN(store_of_the_neighbour_through_b, if (threadIdx.x % 2) store(h.b, h.value))
BETWEEN(discarding, asm volatile("prefetch.global.L1 [%0];" ::"l"(h.b) : "memory"))

// how the second read is done
#define AGAIN(name, read)                    \
  struct name {                              \
    __device__ static unsigned run(Hand h) { \
      h.use(load(h.b));                      \
      store(h.a, h.value);                   \
      return read(h.b);                      \
    }                                        \
  };
AGAIN(again_volatile, load_volatile)
AGAIN(again_relaxed_cta, load_relaxed_cta)
AGAIN(again_relaxed_gpu, load_relaxed_gpu)
AGAIN(again_relaxed_sys, load_relaxed_sys)
AGAIN(again_acquire_cta, load_acquire_cta)
AGAIN(again_acquire_gpu, load_acquire_gpu)
AGAIN(again_acquire_sys, load_acquire_sys)
AGAIN(again_nc, load_nc)
AGAIN(again_ca, load_ca)
AGAIN(again_cg, load_cg)
AGAIN(again_cs, load_cs)
AGAIN(again_lu, load_lu)
AGAIN(again_cv, load_cv)

// how the first read is done
#define FIRST(name, read)                    \
  struct name {                              \
    __device__ static unsigned run(Hand h) { \
      h.use(read(h.b));                      \
      store(h.a, h.value);                   \
      return load(h.b);                      \
    }                                        \
  };
__device__ unsigned no_load(const unsigned*) { return 0; }
FIRST(first_not_at_all, no_load)
FIRST(first_volatile, load_volatile)
FIRST(first_relaxed_cta, load_relaxed_cta)
FIRST(first_acquire_cta, load_acquire_cta)
FIRST(first_nc, load_nc)
FIRST(first_cg, load_cg)
FIRST(first_cs, load_cs)
FIRST(first_lu, load_lu)
FIRST(first_cv, load_cv)

// how the write is done
#define WRITE(name, write)                   \
  struct name {                              \
    __device__ static unsigned run(Hand h) { \
      h.use(load(h.b));                      \
      write;                                 \
      return load(h.b);                      \
    }                                        \
  };
WRITE(write_volatile, store_volatile(h.a, h.value))
WRITE(write_relaxed, store_relaxed_gpu(h.a, h.value))
WRITE(write_release, store_release_sys(h.a, h.value))
WRITE(write_wt, store_wt(h.a, h.value))
WRITE(write_atomic, h.use(atomicExch(h.a, h.value)))
WRITE(write_red, red_add(h.a, h.value))
WRITE(write_through_b, store(h.b, h.value))
WRITE(write_b_then_a, (store(h.b, 7), store(h.a, h.value)))
WRITE(write_a_then_b, (store(h.a, 7), store(h.b, h.value)))
WRITE(atomic_through_b, h.use(atomicExch(h.b, h.value)))
WRITE(volatile_through_b, store_volatile(h.b, h.value))

// without any read before
struct b_then_a {
  __device__ static unsigned run(Hand h) {
    store(h.b, 7), store(h.a, h.value);
    return load(h.b);
  }
};
struct b_then_a_then_fence {
  __device__ static unsigned run(Hand h) {
    store(h.b, 7), store(h.a, h.value);
    FENCE("fence.proxy.alias");
    return load(h.b);
  }
};
struct b_then_barrier_then_a {
  __device__ static unsigned run(Hand h) {
    store(h.b, 7);
    __syncthreads();
    store(h.a, h.value);
    __syncthreads();
    return load(h.b);
  }
};
struct half_of_b_then_a {  // two bytes of the word
  __device__ static unsigned run(Hand h) {
    asm volatile("st.global.u16 [%0], 7;" ::"l"(h.b) : "memory");
    store(h.a, h.value);
    return load(h.b);
  }
};
struct neighbour_of_b_then_a {  // another word of the sector
  __device__ static unsigned run(Hand h) {
    if (threadIdx.x % 2) store(h.b, 7);
    __syncwarp();
    store(h.a, h.value);
    return load(h.b);
  }
};

// who reads and who writes
struct fence_before_the_write {
  __device__ static unsigned run(Hand h) {
    h.use(load(h.b));
    FENCE("fence.proxy.alias");
    store(h.a, h.value);
    return load(h.b);
  }
};
struct another_warp_writes {
  __device__ static unsigned run(Hand h) {
    const unsigned other = (threadIdx.x + 32) % threads;
    h.use(load(h.b));
    __syncthreads();
    store(h.a - threadIdx.x + other, h.value - threadIdx.x + other);
    __syncthreads();
    return load(h.b);
  }
};
struct another_warp_fences {
  __device__ static unsigned run(Hand h) {
    h.use(load(h.b));
    store(h.a, h.value);
    __syncthreads();
    if (threadIdx.x >= 1024 - 32) FENCE("fence.proxy.alias");
    __syncthreads();
    return load(h.b);
  }
};
struct another_warp_has_read {
  __device__ static unsigned run(Hand h) {
    h.use(load(h.b - threadIdx.x + (threadIdx.x + 32) % threads));
    __syncthreads();
    store(h.a, h.value);
    __syncthreads();
    return load(h.b);
  }
};
struct writer_fences_only {
  __device__ static unsigned run(Hand h) {
    h.use(load(h.b));
    __syncthreads();
    if (threadIdx.x < 32) {
      for (unsigned i = threadIdx.x; i < threads; i += 32) store(h.a - threadIdx.x + i, h.value - threadIdx.x + i);
      FENCE("membar.cta");
    }
    __syncthreads();
    return load(h.b);
  }
};

template <class Case> __global__ void alone(unsigned* a, unsigned* b, unsigned* mailbox, unsigned* second) {
  const unsigned i = threadIdx.x;
  second[i] = Case::run({a + i, b + i, i + 1, mailbox + i, mailbox + threads + i});
}

static unsigned *a, *b, *second, *mailbox;

// Counts the threads that have read 0, which was there before, or the 7 that some write in between, not index + 1.
static void say_stale(const char* what) {
  unsigned got[threads], stale = 0, sevens = 0, odd = 0;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(got, second, sizeof got, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < threads; ++i) {
    const bool is_new = got[i] == i + 1;
    stale += got[i] == 0, sevens += !is_new && got[i] == 7, odd += !is_new && got[i] != 0 && got[i] != 7;
  }
  std::printf("%s: %u of %u stale", what, stale, threads);
  if (sevens) std::printf(", %u are 7", sevens);
  if (odd) std::printf(", %u neither", odd);
  std::puts("");
}
static void prepare() {
  CHECK(cudaMemset(a, 0, threads * 4)), CHECK(cudaMemset(mailbox, 0, 2 * threads * 4));
  CHECK(cudaMemset(second, 255, threads * 4));
}
template <class Case> void ask(const char* what) {
  prepare();
  alone<Case><<<1, threads>>>(a, b, mailbox, second);
  say_stale(what);
}
#define ASK(name) ask<name>(#name)

// Two blocks: the second one writes when the first has read, and the first reads again when it is told.
__device__ void tell(unsigned* flag) {
  __syncthreads();
  if (threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], 1;" ::"l"(flag) : "memory");
}
template <bool acquire> __device__ void await(unsigned* flag) {
  if (threadIdx.x == 0)
    while ((acquire ? load_acquire_gpu(flag) : load_relaxed_gpu(flag)) == 0) {
    }
  __syncthreads();
}
template <bool acquire> __global__ void two_blocks(unsigned* from, unsigned* to, unsigned* flags, unsigned* second) {
  const unsigned i = threadIdx.x;
  if (blockIdx.x == 0) {
    flags[threads + i] = load(from + i);
    tell(flags);
    await<acquire>(flags + 32);
    second[i] = load(from + i);
  } else {
    await<true>(flags);
    store(to + i, i + 1);
    __threadfence();
    tell(flags + 32);
  }
}

// The same address, in two kernels that follow one another; and a copy between.
__global__ void read_all(const unsigned* p, unsigned* to) { to[threadIdx.x] = load(p + threadIdx.x); }
__global__ void write_all(unsigned* p) { store(p + threadIdx.x, threadIdx.x + 1); }

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  const CUdeviceptr addresses = reserve(2 * page);
  const CUmemGenericAllocationHandle handle = create(page);
  for (const size_t offset : {size_t(0), page}) CHECK(cuMemMap(addresses + offset, page, 0, handle, 0));
  const CUmemAccessDesc descriptor = access_of(0);
  CHECK(cuMemSetAccess(addresses, 2 * page, &descriptor, 1));
  a = reinterpret_cast<unsigned*>(addresses), b = reinterpret_cast<unsigned*>(addresses + page);
  CHECK(cudaMalloc(&second, threads * 4)), CHECK(cudaMalloc(&mailbox, 2 * threads * 4));

  section("between the write and the second read");
  ASK(nothing), ASK(membar_cta), ASK(membar_gl), ASK(membar_sys), ASK(fence_cta), ASK(fence_cluster), ASK(fence_gpu);
  ASK(fence_sys), ASK(fence_sc_cta), ASK(fence_sc_gpu), ASK(fence_proxy_alias), ASK(fence_proxy_async), ASK(barrier);
  ASK(warp_barrier), ASK(sleeping), ASK(reading_a), ASK(volatile_read_of_b), ASK(relaxed_cta_read_of_b);
  ASK(relaxed_gpu_read_of_b), ASK(acquire_cta_read_of_b), ASK(acquire_gpu_read_of_b), ASK(acquire_read_elsewhere);
  ASK(volatile_read_elsewhere), ASK(cg_read_of_b), ASK(cv_read_of_b), ASK(atomic_on_b), ASK(red_on_b), ASK(atomic_on_a);
  ASK(atomic_elsewhere), ASK(store_of_the_neighbour_through_b), ASK(discarding);
  section("the second read");
  ASK(again_volatile), ASK(again_relaxed_cta), ASK(again_relaxed_gpu), ASK(again_relaxed_sys), ASK(again_acquire_cta);
  ASK(again_acquire_gpu), ASK(again_acquire_sys), ASK(again_nc), ASK(again_ca), ASK(again_cg), ASK(again_cs);
  ASK(again_lu), ASK(again_cv);
  section("the first read");
  ASK(first_not_at_all), ASK(first_volatile), ASK(first_relaxed_cta), ASK(first_acquire_cta), ASK(first_nc);
  ASK(first_cg), ASK(first_cs), ASK(first_lu), ASK(first_cv);
  section("the write");
  ASK(write_volatile), ASK(write_relaxed), ASK(write_release), ASK(write_wt), ASK(write_atomic), ASK(write_red);
  ASK(write_through_b), ASK(write_b_then_a), ASK(write_a_then_b), ASK(atomic_through_b), ASK(volatile_through_b);
  section("without any read before");
  ASK(b_then_a), ASK(b_then_a_then_fence), ASK(b_then_barrier_then_a), ASK(half_of_b_then_a);
  ASK(neighbour_of_b_then_a);
  section("who");
  ASK(fence_before_the_write), ASK(another_warp_writes), ASK(another_warp_fences), ASK(another_warp_has_read);
  ASK(writer_fences_only);

  section("another block writes");
  const struct {
    const char* what;
    bool acquire;
    unsigned* to;
  } blocks[] = {{"through b, awaited by acquire", true, b},
                {"through b, awaited by relaxed reads", false, b},
                {"through a, awaited by acquire", true, a},
                {"through a, awaited by relaxed reads", false, a}};
  for (const auto& it : blocks) {
    prepare();
    if (it.acquire) two_blocks<true><<<2, threads>>>(b, it.to, mailbox, second);
    else two_blocks<false><<<2, threads>>>(b, it.to, mailbox, second);
    say_stale(it.what);
  }

  section("another kernel writes");
  prepare();
  read_all<<<1, threads>>>(b, mailbox), write_all<<<1, threads>>>(a), read_all<<<1, threads>>>(b, second);
  say_stale("read, write, read in three kernels");
  prepare();
  unsigned values[threads];
  for (unsigned i = 0; i < threads; ++i) values[i] = i + 1;
  read_all<<<1, threads>>>(b, mailbox);
  CHECK(cudaMemcpy(a, values, sizeof values, cudaMemcpyHostToDevice));
  read_all<<<1, threads>>>(b, second);
  say_stale("read, copy, read");
  std::puts("OK");
}
