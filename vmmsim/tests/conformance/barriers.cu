// SPDX-License-Identifier: MIT-0
// Barriers in shared memory (mbarrier), the bulk copies that complete them, and what the toolkit builds on both:
// cuda::barrier, cuda::pipeline, memcpy_async. First instructions one by one, then whole blocks, then faults. There is
// a line for each question; after a fault the rest is asked in another process.
#include "conformance.h"

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>

#include <csignal>
#include <cstdint>
#include <utility>
#include <vector>

#pragma nv_diag_suppress static_var_with_dynamic_init  // barriers in shared memory, which init() makes

namespace cg = cooperative_groups;
using Barrier = cuda::barrier<cuda::thread_scope_block>;

constexpr size_t bytes = 1 << 16;
static char *to, *from;    // on the GPU, `bytes` each, up to where a mapping ends; `from` may only be read
static int number, first;  // of a question

static uint32_t mixed(uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352d;
  x = (x ^ x >> 15) * 0x846ca68b;
  return x ^ x >> 16;
}

static void prepare() {
  const CUdeviceptr address = reserve(8 * page);
  map_new(address + page, page), map_new(address + 5 * page, page);
  to = reinterpret_cast<char*>(address + 2 * page - bytes);
  from = reinterpret_cast<char*>(address + 6 * page - bytes);
  std::vector<uint32_t> random(bytes / 4);
  for (size_t i = 0; i < random.size(); ++i) random[i] = mixed(uint32_t(i) + 1);
  CHECK(cudaMemcpy(from, random.data(), bytes, cudaMemcpyHostToDevice));
  const CUmemAccessDesc descriptor = access_of(0, CU_MEM_ACCESS_FLAGS_PROT_READ);
  CHECK(cuMemSetAccess(address + 5 * page, page, &descriptor, 1));
}

// Asks one question: of the answer in `to` so many words are told, or a hash of all.
template <class Run> static void ask(const std::string& what, int words, Run run) {
  if (number++ < first) return;
  std::printf("%s:", what.c_str());
  std::fflush(stdout);
  CHECK(cudaMemset(to, 0, bytes));
  run();
  CHECK(cudaGetLastError());
  if (const cudaError_t error = cudaDeviceSynchronize(); error != cudaSuccess) {
    std::printf(" %s, ", check::name(error));
    std::fflush(stdout);
    std::raise(SIGTERM);
  }
  std::vector<uint64_t> found(bytes / 8);
  CHECK(cudaMemcpy(found.data(), to, bytes, cudaMemcpyDeviceToHost));
  uint64_t hash = 14695981039346656037u;
  for (const uint64_t word : found) hash = (hash ^ word) * 1099511628211u, hash ^= hash >> 29;
  for (int i = 0; i < words; ++i) std::printf(" %llx", (unsigned long long)found[i]);
  if (!words) std::printf(" %016llx", (unsigned long long)hash);
  std::puts("");
  std::fflush(stdout);
}

// --- Instructions --------------------------------------------------------------------------------------------------

// PTX in which "!p1;", "!r1;" or "!rd1;" stores a register into the next word of the answer.
static std::string text_of(const std::string& body, int& words) {
  std::string text =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry ask(.param .u64 to, .param .u64 from) {\n"
      ".reg .b64 %rd<20>; .reg .b32 %r<20>; .reg .pred %p<9>; .reg .b64 %x; .reg .b32 %y;\n"
      ".shared .align 128 .b8 buffer[4096]; .shared .align 8 .b64 gate[4];\n"
      "ld.param.u64 %rd1, [to]; ld.param.u64 %rd2, [from]; mov.u32 %r1, %tid.x;\n";
  words = 0;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '!' || body[i + 1] == '%') {
      text += body[i];
      continue;
    }
    const size_t end = body.find(';', i);
    const std::string reg = body.substr(i + 1, end - i - 1), value = "%" + reg;
    if (reg[0] == 'p') text += "selp.b64 %x, 1, 0, " + value + ";";
    else if (reg[1] == 'd') text += "mov.b64 %x, " + value + ";";
    else text += "cvt.u64.u32 %x, " + value + ";";
    text += " st.global.u64 [%rd1+" + std::to_string(8 * words++) + "], %x;\n";
    i = end;
  }
  return text + "\nret;\n}\n";
}
static void run_text(const std::string& text) {
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, text.c_str()));
  CHECK(cuModuleGetFunction(&function, module, "ask"));
  void* parameters[] = {&to, &from};
  CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
}
static void ask(const std::string& what, const std::string& body) {
  int words;
  const std::string text = text_of(body, words);
  ask(what, words, [&] { run_text(text); });
}

static const std::string init2 = "mbarrier.init.shared.b64 [gate], 2;\n",
                         init1 = "mbarrier.init.shared::cta.b64 [gate], 1;\n",
                         arrive = "mbarrier.arrive.shared.b64 %rd3, [gate];\n",
                         test = "mbarrier.test_wait.shared.b64 %p1, [gate], %rd3; !p1;\n",
                         parities =
                             "mbarrier.test_wait.parity.shared.b64 %p1, [gate], 0; !p1;\n"
                             "mbarrier.test_wait.parity.shared.b64 %p1, [gate], 1; !p1;\n",
                         pending = "mbarrier.pending_count.b64 %r3, %rd3; !r3;\n";
static std::string expect(int n) {
  return "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [gate], " + std::to_string(n) + ";\n";
}
static std::string complete(int n) {
  return "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [gate], " + std::to_string(n) + ";\n";
}
// A bulk copy of n bytes from the global to the shared memory, with a barrier of its own, and the wait for it.
static std::string load(int n, int offset = 0, int number = 0) {
  const std::string size = std::to_string(n), gate = "[gate+" + std::to_string(8 * number) + "]",
                    label = "again" + std::to_string(number);
  return "mbarrier.init.shared::cta.b64 " + gate + ", 1;\n" + "mbarrier.arrive.expect_tx.shared.b64 _, " + gate + ", " +
         size + ";\nfence.proxy.async;\n" +
         "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buffer], [%rd2+" + std::to_string(offset) +
         "], " + size + ", " + gate + ";\n" + label + ": mbarrier.try_wait.parity.shared.b64 %p1, " + gate +
         ", 0; @!%p1 bra " + label + ";\n";
}
static const std::string finish_stores =
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;\n";
static std::string store(int n) {
  return "fence.proxy.async.shared::cta;\ncp.async.bulk.global.shared::cta.bulk_group [%rd1], [buffer], " +
         std::to_string(n) + ";\n" + finish_stores;
}
static void ask_instructions() {
  ask("phases", init2 + arrive + test + parities + arrive + test + parities + arrive + test + parities + arrive + test +
                    parities + arrive + arrive + parities);
  ask("a wait for a phase with a limit of time",
      init2 + arrive +
          "mbarrier.try_wait.shared.b64 %p1, [gate], %rd3, 1000; !p1;\n"
          "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [gate], 1, 10; !p1;\n");
  ask("counts", "mbarrier.init.shared.b64 [gate], 9;\n" + arrive + pending +
                    "mbarrier.arrive.shared::cta.b64 %rd3, [gate], 3;\n" + pending +
                    "mbarrier.arrive.noComplete.shared.b64 %rd3, [gate], 2;\n" + pending + test +
                    "mbarrier.arrive.release.cluster.shared::cta.b64 %rd3, [gate], 3;\n" + pending + test + arrive +
                    pending);
  ask("who leaves",
      "mbarrier.init.shared.b64 [gate], 5;\n"
      "mbarrier.arrive_drop.shared.b64 %rd3, [gate];\n" +
          pending + "mbarrier.arrive_drop.shared.b64 %rd3, [gate], 2;\n" + pending +
          "mbarrier.arrive_drop.noComplete.shared.b64 %rd3, [gate], 1;\n" + pending + test + arrive + pending + test +
          arrive + pending + test);
  ask("bytes that are expected",
      init1 + expect(64) + arrive + test + complete(32) + test + complete(32) + test + arrive + test);
  ask("bytes that come before they are expected",
      init2 + complete(48) + arrive + test + expect(100) + arrive + test + complete(52) + test);
  ask("an arrival that expects bytes", init2 +
                                           "mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd3, [gate], 16;\n" +
                                           pending + test + "mbarrier.arrive.expect_tx.shared.b64 %rd3, [gate], 16;\n" +
                                           pending + test + complete(16) + test + complete(16) + test);
  ask("an arrival at the block's own barrier as one of the cluster",
      init2 +
          "mov.u32 %r3, gate; mapa.shared::cluster.u32 %r4, %r3, 0; setp.eq.u32 %p2, %r3, %r4;\n"
          "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n"
          "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 8;\n" +
          parities + "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r4], 8;\n" + parities);
  ask("generic addresses", "mov.u64 %rd4, gate; cvta.shared.u64 %rd4, %rd4;\nmbarrier.init.b64 [%rd4], 1;\n" + arrive +
                               "mbarrier.arrive.b64 %rd3, [%rd4]; mbarrier.test_wait.b64 %p1, [%rd4], %rd3; !p1;\n" +
                               parities + "mbarrier.inval.b64 [%rd4];\n");
  ask("the cluster that a block is",
      "mov.u32 %r3, %cluster_ctarank; !r3; mov.u32 %r3, %cluster_nctarank; !r3;\n"
      "mov.u32 %r3, gate; getctarank.shared::cluster.u32 %r3, %r3; !r3;\n"
      "mov.u64 %rd3, gate; cvta.shared.u64 %rd3, %rd3;\n"
      "isspacep.shared::cluster %p1, %rd3; !p1; isspacep.shared::cta %p1, %rd3; !p1;\n"
      "isspacep.shared::cluster %p1, %rd1; !p1;\n");
  ask("fences",
      "fence.mbarrier_init.release.cluster; fence.proxy.async; fence.proxy.async.global;\n"
      "fence.proxy.async.shared::cta; fence.proxy.async.shared::cluster;\n"
      "cp.async.bulk.prefetch.L2.global [%rd2], 1024; mov.u32 %r3, 1; !r3;\n");
  ask("copies of threads that arrive at a barrier",
      init2 +
          "cp.async.ca.shared.global [buffer], [%rd2], 16; cp.async.mbarrier.arrive.shared.b64 [gate];\n"
          "cp.async.wait_all;\n" +
          arrive + pending +
          "cp.async.mbarrier.arrive.noinc.shared.b64 [gate]; cp.async.wait_all;\n"
          "later: mbarrier.test_wait.shared.b64 %p1, [gate], %rd3; @!%p1 bra later; !p1;\n" +
          arrive + pending);
  for (const int n : {16, 48, 1024, 4096}) ask("bulk copy of " + std::to_string(n) + " bytes", load(n, 16) + store(n));
  ask("bulk copy of no bytes", load(0));
  ask("bulk copy with a hint",
      "createpolicy.fractional.L2::evict_first.b64 %rd9, 1.0;\n" + init1 +
          "mbarrier.arrive.expect_tx.shared.b64 _, [gate], 64;\nfence.proxy.async;\n"
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [buffer], [%rd2], 64, "
          "[gate], %rd9;\n"
          "again: mbarrier.try_wait.parity.shared.b64 %p1, [gate], 0; @!%p1 bra again;\n"
          "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%rd1], [buffer], 64, %rd9;\n" +
          finish_stores);
  for (const char* operation :
       {"add.u32", "add.s32", "add.u64", "and.b32", "or.b32", "xor.b64", "min.s32", "max.s32", "min.u64", "max.s64",
        "inc.u32", "dec.u32", "add.f32", "add.f64", "add.noftz.f16", "add.noftz.bf16", "min.f16", "max.bf16"})
    ask(std::string("bulk reduction ") + operation, load(2048) + store(2048) + load(2048, 64, 1) +
                                                        "cp.reduce.async.bulk.global.shared::cta.bulk_group." +
                                                        operation + " [%rd1], [buffer], 2048;\n" + finish_stores);
}

// --- Blocks --------------------------------------------------------------------------------------------------------

__global__ void split_arrivals(uint32_t* to) {  // what the others wrote before they arrived
  __shared__ Barrier barrier;
  __shared__ uint32_t values[1024];
  const unsigned t = threadIdx.x, n = blockDim.x;
  if (t == 0) init(&barrier, n);
  __syncthreads();
  uint32_t sum = 0;
  for (unsigned round = 0; round < 7; ++round) {
    values[t] = t * 77 + round;
    auto token = barrier.arrive();
    sum = sum * 31 + round;
    barrier.wait(std::move(token));
    sum = sum * 31 + values[(t + 33 * round + 1) % n];
    barrier.arrive_and_wait();
  }
  to[blockIdx.x * n + t] = sum;
}

__global__ void leaving_one_by_one(uint32_t* to) {
  __shared__ Barrier barrier;
  __shared__ unsigned there;
  const unsigned t = threadIdx.x;
  if (t == 0) init(&barrier, blockDim.x), there = 0;
  __syncthreads();
  for (unsigned round = 0; round < t % 9; ++round) {
    atomicAdd(&there, 1);
    barrier.arrive_and_wait();
    to[t] = to[t] * 5 + *(volatile unsigned*)&there;
    barrier.arrive_and_wait();
  }
  barrier.arrive_and_drop();
}

// One warp makes, the others use: two barriers for each of four places, waited for by parity.
__global__ void producer_and_consumers(uint32_t* to) {
  __shared__ Barrier full[4], empty[4];
  __shared__ uint32_t values[4][32];
  const unsigned t = threadIdx.x, consumers = blockDim.x - 32;
  if (t < 4) init(&full[t], 32), init(&empty[t], consumers);
  __syncthreads();
  uint32_t sum = 0;
  for (unsigned item = 0; item < 50; ++item) {
    const unsigned at = item % 4;
    const bool turn = item / 4 % 2;
    if (t < 32) {
      empty[at].wait_parity(!turn);
      values[at][t] = item * 1000 + t;
      (void)full[at].arrive();
    } else {
      full[at].wait_parity(turn);
      sum = sum * 31 + values[at][(t * 7 + item) % 32];
      (void)empty[at].arrive();
    }
  }
  to[t] = sum;
}

__global__ void lanes_at_barriers(uint32_t* to) {  // each lane waits for the one before it
  __shared__ Barrier barriers[32];
  const unsigned t = threadIdx.x;
  init(&barriers[t], 1);
  __syncwarp();
  for (unsigned round = 0; round < 3; ++round) {
    if (t > 0) barriers[t - 1].wait_parity(round % 2);
    to[t] = to[t] * 3 + (t ? to[t - 1] : round);
    __threadfence_block();
    (void)barriers[t].arrive();
    if (t < 31) barriers[31].wait_parity(round % 2);
  }
}

__global__ void copies_of_a_block(uint32_t* to, const uint32_t* from) {
  __shared__ alignas(16) uint32_t values[1024];
  __shared__ Barrier barrier;
  const auto block = cg::this_thread_block();
  if (threadIdx.x == 0) init(&barrier, blockDim.x);
  __syncthreads();
  cuda::memcpy_async(block, values, from, cuda::aligned_size_t<16>(1024), barrier);  // by bulk
  barrier.arrive_and_wait();
  uint32_t sum = values[threadIdx.x % 256];
  barrier.arrive_and_wait();
  cuda::memcpy_async(block, values, from + 1, 1024, barrier);  // by words
  barrier.arrive_and_wait();
  sum = sum * 31 + values[(threadIdx.x + 5) % 256];
  barrier.arrive_and_wait();
  cuda::memcpy_async(values + threadIdx.x, from + 2 * threadIdx.x, 4, barrier);  // each thread its own
  barrier.arrive_and_wait();
  sum = sum * 31 + values[blockDim.x - 1 - threadIdx.x];
  block.sync();
  cg::memcpy_async(block, values, from + 4, 2048);
  cg::wait(block);
  to[threadIdx.x] = sum * 31 + values[(threadIdx.x * 3) % 512];
}

__global__ void bulk_copies(uint32_t* to, const uint32_t* from) {
  __shared__ alignas(128) uint32_t values[2048];
  __shared__ Barrier barrier;
  if (threadIdx.x == 0) init(&barrier, blockDim.x), cuda::device::experimental::fence_proxy_async_shared_cta();
  __syncthreads();
  for (unsigned round = 0; round < 3; ++round) {
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
      cuda::device::memcpy_async_tx(values, from + 2048 * round, cuda::aligned_size_t<16>(sizeof values), barrier);
      token = cuda::device::barrier_arrive_tx(barrier, 1, sizeof values);
    } else {
      token = barrier.arrive();
    }
    barrier.wait(std::move(token));
    for (unsigned i = threadIdx.x; i < 2048; i += blockDim.x) values[i] += i;
    cuda::device::experimental::fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
      cuda::device::experimental::cp_async_bulk_shared_to_global(to + 2048 * round, values, sizeof values);
      cuda::device::experimental::cp_async_bulk_commit_group();
      cuda::device::experimental::cp_async_bulk_wait_group_read<0>();
    }
    __syncthreads();
  }
}

__global__ void pipeline_of_a_block(uint32_t* to, const uint32_t* from) {
  __shared__ alignas(16) uint32_t values[3][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
  const auto block = cg::this_thread_block();
  auto pipeline = cuda::make_pipeline(block, &state);
  uint32_t sum = 0;
  for (unsigned begun = 0, used = 0; used < 12; ++used) {
    for (; begun < 12 && begun < used + 3; ++begun) {
      pipeline.producer_acquire();
      cuda::memcpy_async(block, values[begun % 3], from + 256 * begun, cuda::aligned_size_t<16>(1024), pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum = sum * 31 + values[used % 3][(threadIdx.x * 5 + used) % 256];
    pipeline.consumer_release();
  }
  to[threadIdx.x] = sum;
}

__global__ void pipeline_of_two_roles(uint32_t* to, const uint32_t* from) {
  __shared__ alignas(16) uint32_t values[2][256];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  const auto block = cg::this_thread_block();
  const bool produces = threadIdx.x < 32;
  auto pipeline =
      cuda::make_pipeline(block, &state, produces ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
  uint32_t sum = 0;
  for (unsigned item = 0; item < 9; ++item) {
    if (produces) {
      pipeline.producer_acquire();
      for (unsigned i = threadIdx.x; i < 256; i += 32)
        cuda::memcpy_async(&values[item % 2][i], from + 256 * item + i, 4, pipeline);
      pipeline.producer_commit();
    } else {
      pipeline.consumer_wait();
      sum = sum * 31 + values[item % 2][(threadIdx.x * 5 + item) % 256];
      pipeline.consumer_release();
    }
  }
  to[threadIdx.x] = sum;
}

__global__ void pipeline_of_a_thread(uint32_t* to, const uint32_t* from) {
  __shared__ uint32_t values[2][256];
  auto pipeline = cuda::make_pipeline();
  const unsigned t = threadIdx.x;
  uint32_t sum = 0;
  for (unsigned begun = 0, used = 0; used < 10; ++used) {
    for (; begun < 10 && begun < used + 2; ++begun) {
      pipeline.producer_acquire();
      cuda::memcpy_async(&values[begun % 2][t], from + 256 * begun + t, 4, pipeline);
      pipeline.producer_commit();
    }
    pipeline.consumer_wait();
    sum = sum * 31 + values[used % 2][t];
    pipeline.consumer_release();
  }
  to[t] = sum;
}

static void ask_block(const char* what, void (*kernel)(uint32_t*), int blocks, int threads) {
  ask(what + (" of " + std::to_string(threads)), 0,
      [&] { kernel<<<blocks, threads>>>(reinterpret_cast<uint32_t*>(to)); });
}
static void ask_block(const char* what, void (*kernel)(uint32_t*, const uint32_t*), int threads) {
  ask(what, 0,
      [&] { kernel<<<1, threads>>>(reinterpret_cast<uint32_t*>(to), reinterpret_cast<const uint32_t*>(from)); });
}
static void ask_blocks() {
  for (const int threads : {1, 32, 100, 1024}) ask_block("split_arrivals", split_arrivals, 3, threads);
  ask_block("leaving_one_by_one", leaving_one_by_one, 1, 200);
  ask_block("producer_and_consumers", producer_and_consumers, 1, 160);
  ask_block("lanes_at_barriers", lanes_at_barriers, 1, 32);
  ask_block("copies_of_a_block", copies_of_a_block, 128);
  ask_block("bulk_copies", bulk_copies, 64);
  ask_block("pipeline_of_a_block", pipeline_of_a_block, 64);
  ask_block("pipeline_of_two_roles", pipeline_of_two_roles, 96);
  ask_block("pipeline_of_a_thread", pipeline_of_a_thread, 256);
}

// --- Faults --------------------------------------------------------------------------------------------------------

static std::string bulk(const std::string& to, const std::string& from, const std::string& size,
                        const std::string& gate = "gate") {
  return init1 + "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [" + to + "], [" + from + "], " +
         size + ", [" + gate + "];\n" +
         "mov.u32 %r5, 0; again: mbarrier.try_wait.parity.shared.b64 %p1, [gate], 0, "
         "1000; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 100; @%p2 bra again;\n";
}
static std::string bulk_store(const std::string& to, const std::string& from, const std::string& size) {
  return "cp.async.bulk.global.shared::cta.bulk_group [" + to + "], [" + from + "], " + size + ";\n" + finish_stores;
}
static const struct {
  const char* what;
  std::string body;
} faults[] = {
    {"bulk copy within shared memory",
     "mbarrier.init.shared.b64 [gate], 1; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128; fence.proxy.async;\n"
     "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [buffer], [buffer+128], 128, [gate];\n"},
    {"bulk copy within shared memory, to an address of the cluster",
     "mbarrier.init.shared.b64 [gate], 1; mbarrier.arrive.expect_tx.shared.b64 _, [gate], 128; fence.proxy.async;\n"
     "mov.u32 %r3, buffer; mapa.shared::cluster.u32 %r3, %r3, 0; mov.u32 %r4, gate;\n"
     "mapa.shared::cluster.u32 %r4, %r4, 0;\n"
     "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], [buffer+128], 128, [%r4];\n"},
    {"a barrier that is not aligned", "mbarrier.init.shared.b64 [gate+4], 1;\n"},
    {"an arrival that is not aligned", init1 + "mbarrier.arrive.shared.b64 _, [gate+4];\n"},
    {"a wait that is not aligned", init1 + "mbarrier.try_wait.parity.shared.b64 %p1, [gate+4], 0; !p1;\n"},
    {"a barrier in global memory", "mbarrier.init.b64 [%rd1], 1;\n"},
    {"a barrier far outside of shared memory", "mov.u32 %r3, 0x100000; mbarrier.init.shared.b64 [%r3], 1;\n"},
    {"bulk copy from an address that is not aligned", bulk("buffer", "%rd2+8", "64")},
    {"bulk copy to an address that is not aligned", bulk("buffer+8", "%rd2", "64")},
    {"bulk copy with a barrier that is not aligned", bulk("buffer", "%rd2", "64", "gate+4")},
    {"bulk copy from null", "mov.u64 %rd3, 0;\n" + bulk("buffer", "%rd3", "64")},
    {"bulk copy from behind the memory", bulk("buffer", "%rd2+65536", "64")},
    {"bulk copy across the memory's end", bulk("buffer", "%rd2+65504", "64")},
    {"bulk store to an address that is not aligned", bulk_store("%rd1+8", "buffer", "64")},
    {"bulk store from an address that is not aligned", bulk_store("%rd1", "buffer+8", "64")},
    {"bulk store to null", "mov.u64 %rd3, 0;\n" + bulk_store("%rd3", "buffer", "64")},
    {"bulk store behind the memory", bulk_store("%rd1+65536", "buffer", "64")},
    {"bulk store to memory that may only be read", bulk_store("%rd2", "buffer", "64")},
    {"bulk reduction to an address that is not aligned",
     "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1+8], [buffer], 64;\n" + finish_stores},
};

int main(int argc, char** argv) {
  check::require_gpus(1);
  if (argc < 3) {
    ask_through_crashes("ask");
    std::puts("OK");
    return 0;
  }
  first = std::atoi(argv[2]);
  alarm(100);
  CHECK(cudaSetDevice(0)), CHECK(cudaFree(nullptr));
  prepare();
  ask_instructions();
  ask_blocks();
  for (const auto& fault : faults) ask(fault.what, fault.body);
}
