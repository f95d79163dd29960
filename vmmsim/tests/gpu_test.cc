// SPDX-License-Identifier: MIT-0
// The simulated GPU without a driver: what the multimem instructions do to the replicas, what faults, what is not
// simulated, and that kernels which wait for one another all get their turns.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>

#include "../simulator/gpu/gpu.h"
#include "../simulator/gpu/heap.h"
#include "../simulator/memory/memory.h"
#include "../simulator/memory/page_table.h"
#include "../simulator/memory/this_machine.h"

#define EXPECT(condition) \
  ((condition) ? void() : (std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

// A machine of one GPU. Page 0 of its multicast addresses stands for three frames, page 1 for two and one missing.
constexpr uint64_t multicast_address = 0x100000000000, other_multicast_address = multicast_address + memory::page_size,
                   read_only_multicast_address = other_multicast_address + memory::page_size;
static std::atomic<char*> frames[2][3];
namespace memory {
PageTable& page_table(int) {
  static PageTable table;
  return table;
}
const Machine& machine() {
  static Machine machine = [] {
    Machine one;
    one.multiprocessors = 1;
    return one;
  }();
  return machine;
}
std::string what_lies_at(CUdevice, uint64_t, bool) { return "something"; }
std::string unmapped_too_early(const Submission&, uint64_t, const char*) { return ""; }
bool is_registered(uint64_t, bool) { return false; }
Replicas replicas(uint64_t entry) { return frames[entry >> 21]; }
char* own_replica(uint64_t entry, CUdevice) { return frames[entry >> 21][1]; }
static std::vector<std::string> warnings;
void log_ordinary_access(const std::string& who) { warnings.push_back(who); }
static Options chosen;
const Options& options() { return chosen; }
constexpr uint64_t heap_address = 0x200000000000;
static int heaps = 0;  // that have memory
uint64_t allocate_heap(CUdevice, size_t size) {
  if (size > 1 << 30) refuse(CUDA_ERROR_OUT_OF_MEMORY, "");
  ++heaps;
  return heap_address;
}
void free_heap(uint64_t address) { heaps -= address == heap_address; }
}  // namespace memory

static std::atomic<int> unordered_reads = 0, too_early_reads = 0;  // of the thread's own writes, of another's
static std::atomic<unsigned> fences = 0;                           // the most that a thread has run, as told
static std::string functions;                                      // that the kernel may call

// Runs a kernel of `body`, on so many threads of each block, all of them in one cluster or in none; its parameters are
// `a` and `b`. Returns its fault, or "".
static std::string run(const std::string& body, uint64_t a, uint64_t b = 0, unsigned blocks = 1, unsigned threads = 1,
                       bool in_cluster = false) {
  auto text = std::make_shared<const ptx::Module>(ptx::parse(
      ".version 9.0\n.target sm_90\n.address_size 64\n" + functions +
      ".visible .entry k(.param .u64 a, .param .u64 b)\n{\n"
      ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<9>;\n"
      "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r8, %ctaid.x;\n" +
      body + "\nret;\n}\n"));
  auto module = std::make_shared<gpu::Module>(text, 0, [](const ptx::Variable&) { return 0; });
  std::promise<std::string> fault;
  gpu::Launch launch{module->kernel("k"), module, {blocks, 1, 1}, {threads, 1, 1}, 0, std::vector<std::byte>(16), {}};
  std::memcpy(launch.parameters.data(), &a, 8);
  std::memcpy(launch.parameters.data() + 8, &b, 8);
  if (in_cluster) launch.cluster = launch.grid, launch.has_clusters = true;
  launch.unordered_read = [](const gpu::UnorderedRead& its) { ++(its.by_another ? too_early_reads : unordered_reads); };
  launch.alias_fence = [](const gpu::AliasFence& its) { fences = its.count == fences + 1 ? its.count : 9; };
  launch.done = [&](const gpu::Fault* f) { fault.set_value(f ? std::to_string(f->error) + " " + f->why : ""); };
  gpu::launch(std::move(launch));
  return fault.get_future().get();
}

template <class T> static void put(T x, T y, T z) {  // into the three replicas
  const T values[] = {x, y, z};
  for (int i = 0; i < 3; ++i) std::memcpy(frames[0][i] + 64, &values[i], sizeof(T));
}
static uint64_t get(int replica, int at = 0) {
  uint64_t value;
  std::memcpy(&value, frames[0][replica] + 64 + at, 8);
  return value;
}
// What an instruction leaves in ordinary memory, which it reaches through `result`.
static uint64_t* result;
static uint64_t reduce(const std::string& body) {
  result[0] = result[1] = 0;
  const std::string fault = run(body, multicast_address + 64, reinterpret_cast<uint64_t>(result));
  if (!fault.empty()) std::fprintf(stderr, "%s: %s\n", body.c_str(), fault.c_str());
  EXPECT(fault.empty());
  return result[0];
}
static uint64_t reduce32(const std::string& name) {
  return reduce("multimem.ld_reduce." + name + " %r1, [%rd1]; st.global.u32 [%rd2], %r1;");
}
static uint64_t reduce64(const std::string& name) {
  return reduce("multimem.ld_reduce." + name + " %rd3, [%rd1]; st.global.u64 [%rd2], %rd3;");
}

static void test_multimem() {
  put<uint32_t>(5, 0xfffffffe, 7);
  EXPECT(reduce32("relaxed.sys.global.add.u32") == 10);
  EXPECT(reduce32("weak.global.min.u32") == 5);
  EXPECT(reduce32("acquire.gpu.global.min.s32") == 0xfffffffe);
  EXPECT(reduce32("max.u32") == 0xfffffffe);
  EXPECT(reduce32("max.s32") == 7);
  EXPECT(reduce32("and.b32") == 4);
  EXPECT(reduce32("or.b32") == 0xffffffff);
  EXPECT(reduce32("xor.b32") == (5 ^ 0xfffffffe ^ 7));
  put<uint64_t>(1ull << 40, ~0ull, 3);
  EXPECT(reduce64("add.u64") == (1ull << 40) + 2);
  EXPECT(reduce64("min.s64") == ~0ull);
  EXPECT(reduce64("xor.b64") == ((1ull << 40) ^ ~0ull ^ 3));
  put<double>(0.5, 0.25, -4);
  EXPECT(reduce("multimem.ld_reduce.relaxed.sys.global.add.f64 %d1, [%rd1]; st.global.f64 [%rd2], %d1;") ==
         0xc00a000000000000);  // -3.25
  // 2048 + 1 + 1: in halves each 1 is lost, in floats the sum is rounded once; the upper half of the pair is 1 + 2 - 3.
  put<uint32_t>(0x3c006800, 0x40003c00, 0xc2003c00);
  EXPECT(reduce32("add.f16x2") == 0x00006800);
  EXPECT(reduce32("add.acc::f32.f16x2") == 0x00006801);
  EXPECT(reduce32("max.f16x2") == 0x40006800);
  EXPECT(reduce32("min.f16x2") == 0xc2003c00);
  put<uint32_t>(0x80000000, 0x00008000, 0x80008000);  // -0 is less than +0
  EXPECT(reduce32("max.f16x2") == 0 && reduce32("min.f16x2") == 0x80008000);
  put<uint32_t>(0x3f804380, 0x40003f80, 0xc0403f80);  // 256 + 1 + 1 in bfloat
  EXPECT(reduce32("add.bf16x2") == 0x00004380);
  EXPECT(reduce32("add.acc::f32.bf16x2") == 0x00004381);
  put<uint64_t>(0x3f80000040000000, 0x4000000040000000, 0x4040000040000000);  // vectors: 2 + 2 + 2 and 1 + 2 + 3
  EXPECT(reduce("multimem.ld_reduce.relaxed.sys.global.add.v2.f32 {%f1, %f2}, [%rd1];"
                "st.global.v2.f32 [%rd2], {%f1, %f2};") == 0x40c0000040c00000);
  put<uint64_t>(0x3c003c003c003c00, 0x40003c003c003c00, 0x3c003c003c003c00);
  EXPECT(reduce("multimem.ld_reduce.add.acc::f32.v4.f16 {%h1, %h2, %h3, %h4}, [%rd1];"
                "st.global.v4.b16 [%rd2], {%h1, %h2, %h3, %h4};") == 0x4400420042004200);

  put<uint64_t>(1, 2, 3);
  reduce("mov.b32 %r1, 9; multimem.st.release.sys.global.u32 [%rd1+4], %r1;");
  for (int i = 0; i < 3; ++i) EXPECT(get(i) == (9ull << 32 | (i + 1)));
  reduce(
      "mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f40000000;"
      "multimem.st.relaxed.sys.global.v4.f32 [%rd1], {%f1, %f2, %f2, %f1};");
  for (int i = 0; i < 3; ++i) EXPECT(get(i) == 0x400000003f800000 && get(i, 8) == 0x3f80000040000000);
  reduce("mov.f32 %f1, 0f40000000; multimem.red.relaxed.sys.global.add.v2.f32 [%rd1], {%f1, %f1};");
  for (int i = 0; i < 3; ++i) EXPECT(get(i) == 0x4080000040400000);
  put<uint64_t>(10, 20, 30);
  reduce("mov.b64 %rd3, 25; multimem.red.release.gpu.global.max.u64 [%rd1], %rd3;");
  EXPECT(get(0) == 25 && get(1) == 25 && get(2) == 30);
  put<uint32_t>(0, 1000, 2000);  // from 100 blocks at once
  const std::string add = "mov.b32 %r1, 1; multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;";
  EXPECT(run(add, multicast_address + 64, 0, 100) == "");
  EXPECT((get(0) & 0xffffffff) == 100 && (get(1) & 0xffffffff) == 1100 && (get(2) & 0xffffffff) == 2100);
}

static void expect_fault(const std::string& body, uint64_t a, CUresult error, const std::string& words) {
  const std::string fault = run(body, a, reinterpret_cast<uint64_t>(result));
  if (fault.find(std::to_string(error) + " ") == 0 && fault.find(words) != fault.npos) return;
  std::fprintf(stderr, "%s: '%s', expected %d and '%s'\n", body.c_str(), fault.c_str(), error, words.c_str());
  std::exit(1);
}
static void test_faults() {
  const uint64_t ordinary = reinterpret_cast<uint64_t>(result);
  const std::string load = "multimem.ld_reduce.add.u32 %r1, [%rd1];", store = "multimem.st.u32 [%rd1], %r1;",
                    red = "multimem.red.add.u32 [%rd1], %r1;";
  for (const std::string& body : {load, store, red}) {
    expect_fault(body, multicast_address + 2, CUDA_ERROR_MISALIGNED_ADDRESS, "multiple of the access's 4 bytes");
    expect_fault(body, ordinary, CUDA_ERROR_ILLEGAL_ADDRESS, "ordinary address");
    expect_fault(body, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "something");
    expect_fault(body, other_multicast_address, CUDA_ERROR_ILLEGAL_ADDRESS, "GPU 1 of the 3");
  }
  for (const std::string& body : {store, red})
    expect_fault(body, read_only_multicast_address, CUDA_ERROR_ILLEGAL_ADDRESS, "something");
  // Where: line 8 and those after it are the body's.
  const std::string files = ".file 1 \"/home/me/src/a.cu\"\n.file 2 \"b.h\"\n.file 4 \"/c.h\"\n";
  const auto at = [&](const std::string& lines, const std::string& words) {
    expect_fault(files + lines + "\nst.global.u32 [%rd1], 1;", 0, CUDA_ERROR_ILLEGAL_ADDRESS,
                 "`st.global.u32 [%rd1], 1` (" + words + " of its PTX): something");
  };
  at("", "line 12");
  at(".loc 1 7 3", "src/a.cu:7, line 12");
  at(".loc 3 7 3", "line 12");  // a file without a name
  at(".loc 2 9 1, function_name $f, inlined_at 4 7 3", "b.h:9, inlined at c.h:7, line 12");
  std::string chain = ".loc 1 1 0 ";
  for (int k = 2; k <= 8; ++k) {
    const std::string call = k == 2 ? "1 1 0 " : "2 " + std::to_string(k - 1) + " 0 ";
    chain += ".loc 2 " + std::to_string(k) + " 0, inlined_at " + call;
  }
  at(chain,
     "b.h:8, inlined at b.h:7, inlined at b.h:6, inlined at b.h:5, inlined at b.h:4, inlined at b.h:3, "
     "inlined at b.h:2, inlined at src/a.cu:1, line 12");
  at(chain + ".loc 2 9 0, inlined_at 2 8 0",
     "b.h:9, inlined at b.h:8, inlined at b.h:7, inlined at b.h:6, ..., "
     "inlined at b.h:4, inlined at b.h:3, inlined at b.h:2, inlined at src/a.cu:1, line 12");
  for (const char* body :
       {"ld.global.u32 %r1, [%rd1];", "st.global.u32 [%rd1], 1;", "cp.async.ca.shared.global [0], [%rd1], 4;"}) {
    expect_fault(body, other_multicast_address, CUDA_ERROR_ILLEGAL_ADDRESS, "GPU 1 of the 3");
    memory::chosen.strict = true;
    expect_fault(body, multicast_address, CUDA_ERROR_ILLEGAL_ADDRESS, "something");
    memory::chosen.strict = false;
  }
  for (const char* body : {"red.global.add.u32 [%rd1], 1;", "atom.global.exch.b32 %r1, [%rd1], 1;",
                           "red.global.add.v2.f32 [%rd1], {%f1, %f1};"})
    expect_fault(body, multicast_address, CUDA_ERROR_ILLEGAL_ADDRESS, "something");
  EXPECT(memory::warnings.empty());
}

// Ordinary loads find this GPU's replica, the second, and stores reach all; it is told once for each kernel.
static void test_ordinary_access() {
  put<uint64_t>(1, 2, 3);
  EXPECT(reduce("ld.global.u64 %rd3, [%rd1]; st.global.u64 [%rd2], %rd3;") == 2);
  EXPECT(memory::warnings.size() == 1 &&
         memory::warnings[0].find("kernel k on GPU 0, block (0, 0, 0), thread (0, 0, 0), "
                                  "`ld.global.u64 %rd3, [%rd1]` (line 8 of its PTX)") == 0);
  EXPECT(reduce("mov.b32 %r1, 7; st.global.u32 [%rd1+4], %r1; ld.volatile.global.u64 %rd3, [%rd1];"
                "st.global.u64 [%rd2], %rd3;") == (7ull << 32 | 2));
  for (int i = 0; i < 3; ++i) EXPECT(get(i) == (7ull << 32 | (i + 1)));
  EXPECT(memory::warnings.size() == 2);
  reduce("mov.b64 %rd3, 5; mov.b64 %rd4, 6; st.v2.u64 [%rd1], {%rd3, %rd4};");
  for (int i = 0; i < 3; ++i) EXPECT(get(i) == 5 && get(i, 8) == 6);
  put<uint64_t>(1, 2, 3);
  EXPECT(reduce("ld.global.u64 %rd3, [%rd1]; multimem.red.add.u64 [%rd1], %rd3; ld.global.u64 %rd3, [%rd1];"
                "st.global.u64 [%rd2], %rd3;") == 4);  // nothing stale comes of the first-level cache
  EXPECT(run("mul.wide.u32 %rd3, %r8, 4; add.u64 %rd3, %rd3, %rd1; st.global.u32 [%rd3], %r8;", multicast_address + 64,
             0, 100) == "");
  for (int i = 0; i < 3; ++i) EXPECT(get(i, 4 * 98) == (99ull << 32 | 98));
  EXPECT(memory::warnings.size() == 5);
}

// Fails, and says which instruction it was, and where.
static void test_unknown(const std::string& body, const std::string& text, const std::string& source = "") {
  EXPECT(run(body, 0) == "801 not simulated: line 8 of the PTX of kernel k" + source + ": " + text);
}

// Each block waits until 32 have begun: as many as this GPU has room for must be on their way at once. The others
// follow when there is room.
static void test_turns() {
  result[0] = 0;
  EXPECT(run("red.release.gpu.global.add.u32 [%rd1], 1; again: ld.acquire.gpu.global.u32 %r1, [%rd1];"
             "setp.lt.u32 %p1, %r1, 32; @%p1 bra again;",
             reinterpret_cast<uint64_t>(result), 0, 100) == "");
  EXPECT(result[0] == 100);
}

// What a whole warp does at once: rows of elements, across a page as well, and operations that some lanes leave out.
static void test_rows(uint64_t address, uint32_t* before, uint32_t* after) {  // of two pages side by side: their frames
  const auto run_warp = [&](const std::string& body, uint64_t a) {
    const std::string at =
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 8; add.s64 %rd3, %rd1, %rd3;"
        "mul.wide.u32 %rd4, %r1, 4; add.s64 %rd4, %rd1, %rd4; add.u32 %r2, %r1, 100;";
    return run(at + body, a, 0, 1, 32);
  };
  uint32_t* const end = before + memory::page_size / 4;
  EXPECT(run_warp("st.global.u32 [%rd4], %r2;", address + memory::page_size - 64) == "");
  for (unsigned i = 0; i < 16; ++i) EXPECT(end[int(i) - 16] == 100 + i && after[i] == 116 + i);
  EXPECT(run_warp("ld.global.u32 %r3, [%rd4]; bar.sync 0; st.global.u32 [%rd4+64], %r3;",
                  address + memory::page_size - 64) == "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(after[i] == 100 + i);
  EXPECT(run_warp("st.global.v2.u32 [%rd3], {%r1, %r2};", address) == "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(before[2 * i] == i && before[2 * i + 1] == 100 + i);
  EXPECT(run_warp("ld.global.v2.u32 {%r3, %r4}, [%rd3]; sub.u32 %r4, %r4, %r3; st.global.u32 [%rd4], %r4;", address) ==
         "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(before[i] == 100);
  EXPECT(run_warp("setp.lt.u32 %p1, %r1, 16; @%p1 mov.u32 %r2, 7; st.global.u32 [%rd4], %r2;", address) == "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(before[i] == (i < 16 ? 7 : 100 + i));
  EXPECT(run_warp("setp.lt.u32 %p2, %r1, 0; setp.lt.u32 %p1, %r1, 8; @%p1 bra few; bra meet; few: mov.u32 %r3, 0; bra "
                  "meet; mov.u32 %r3, 1;"
                  "meet: @!%p2 activemask.b32 %r3; st.global.u32 [%rd4], %r3;",
                  address) == "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(before[i] == ~0u);
  EXPECT(run_warp("setp.lt.u32 %p1, %r1, 16; selp.b32 %r3, 0xffff, 0xffff0000, %p1;"
                  "redux.sync.add.u32 %r3, %r1, %r3; st.global.u32 [%rd4], %r3;",
                  address) == "");
  for (unsigned i = 0; i < 32; ++i) EXPECT(before[i] == (i < 16 ? 120 : 376));
  const std::string fault = run_warp(
      ".shared .align 4 .b8 few[128]; mov.u32 %r3, few; mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3+4], %r1;", 0);
  EXPECT(fault.find("write of 4 bytes at 0x80 of __shared__ memory, which has 128 bytes") != fault.npos);
  // A block has units of 128 bytes; what is told is what it asked for.
  const std::string of_28 = ".shared .align 4 .b8 few[28]; mov.u32 %r3, few; ";
  EXPECT(run_warp(of_28 + "mad.lo.u32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r1; ld.shared.v4.u32 {%r2, %r2, %r2, "
                          "%r2}, [few+112];",
                  0) == "");
  const std::string behind = run_warp(of_28 + "st.shared.u32 [%r3+128], %r1;", 0);
  EXPECT(behind.find("write of 4 bytes at 0x80 of __shared__ memory, which has 32 bytes") != behind.npos);
}

// What a loop writes under a guard alone keeps its value while other registers are written.
static void test_guarded_registers() {
  EXPECT(
      run("mov.u64 %rd3, 0; mov.u32 %r1, 0;"
          "again: setp.eq.u32 %p1, %r1, 0; @%p1 mov.u64 %rd4, 7; add.u64 %rd3, %rd3, %rd4;"
          "add.u64 %rd5, %rd3, 100; add.u64 %rd6, %rd3, 200; add.u64 %rd7, %rd3, 300; add.u64 %rd8, %rd3, 400;"
          "add.u64 %rd5, %rd5, %rd6; add.u64 %rd7, %rd7, %rd8; add.u64 %rd5, %rd5, %rd7; st.global.u64 [%rd1+8], %rd5;"
          "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 3; @%p1 bra again; st.global.u64 [%rd1], %rd3;",
          reinterpret_cast<uint64_t>(result)) == "");
  EXPECT(result[0] == 3 * 7);
}

// Of the last place of a float that a long integer does not reach by itself.
static void test_conversions() {
  EXPECT(reduce("mov.u64 %rd3, 0x1010000000000001; cvt.rn.bf16.u64 %h1, %rd3; st.global.u16 [%rd2], %h1;") == 0x5d81);
  EXPECT(reduce("mov.u64 %rd3, 0x1010000000000000; cvt.rn.bf16.u64 %h1, %rd3; st.global.u16 [%rd2], %h1;") == 0x5d80);
}

// Of what cp.async reads a size or a predicate says how much, and a policy nothing.
static void test_copies() {
  const auto copied = [](const std::string& modifier, const std::string& rest) {
    return reduce(
        ".shared .align 16 .b64 room; mov.u64 %rd3, 0x1122334455667788; st.global.u64 [%rd2], %rd3;"
        "setp.eq.u32 %p1, %r8, 0; mov.u32 %r1, 4;"  // %r8, %ctaid.x, is 0
        "cp.async.ca.shared.global" +
        modifier + " [room], [%rd2], 8" + rest +
        "; cp.async.wait_all;"
        "ld.shared.u64 %rd4, [room]; st.global.u64 [%rd2], %rd4;");
  };
  const uint64_t all = 0x1122334455667788;
  EXPECT(copied("", "") == all && copied("", ", %r1") == 0x55667788);
  EXPECT(copied("", ", %p1") == 0 && copied("", ", !%p1") == all);
  EXPECT(copied(".L2::cache_hint", ", %rd3") == all && copied(".L2::cache_hint.L2::64B", ", %r1, %rd3") == 0x55667788);
}

// Two pages of addresses that stand for one frame. What a thread has read of one it reads anew after a bulk copy; and a
// read of what it wrote at the other is told of, unless a fence is between; of what another thread wrote, unless it has
// waited: time is no wait.
static void test_aliases(uint64_t one, uint64_t other) {
  const std::string in_shared = ".shared .align 16 .b64 bytes[2]; mov.u64 %rd3, 5; st.shared.u64 [bytes], %rd3;",
                    fence = "fence.proxy.alias;";
  EXPECT(run("ld.global.u64 %rd3, [%rd1]; " + in_shared +
                 "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [bytes], 16;"
                 "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
                 "ld.global.u64 %rd4, [%rd1]; st.global.u64 [%rd2+8], %rd4;",
             one, one) == "");
  EXPECT(reinterpret_cast<uint64_t*>(memory::frame(memory::page_table(0).lookup(one)))[1] == 5);
  const std::string store = "st.global.u32 [%rd1], 1;", load = "ld.global.u32 %r1, [%rd2];";
  unordered_reads = 0;
  EXPECT(run(store + fence + load, one, other) == "" && unordered_reads == 0);
  EXPECT(run(store + load, one, other) == "" && unordered_reads == 1);
  const auto told = [&](const std::string& body, unsigned threads = 64) {
    fences = 0;
    EXPECT(run(body, one, other, 1, threads) == "");
    return fences.load();
  };
  EXPECT(told(fence) == 0 && told(fence + store + "membar.gl;", 1) == 0 && told(store + fence) == 1);
  EXPECT(told(store + fence + fence) == 2 && told(store + fence + fence + fence) == 2);
  const auto too_early = [&](const std::string& between, unsigned writer, const char* reads = "%rd2") {
    too_early_reads = 0;
    EXPECT(run(".shared .b32 count; mov.u32 %r5, 0; st.shared.u32 [count], %r5; bar.sync 0;"
               "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, " +
                   std::to_string(writer) + "; setp.eq.u32 %p2, %r1, 0; @%p1 st.global.u32 [%rd1], 1;" + fence +
                   between + " @%p2 ld.global.u32 %r1, [" + reads + "];",
               one, other, 1, 64) == "");
    return too_early_reads != 0;
  };
  const std::string counted = "atom.shared.add.u32 %r2, [count], 1;",
                    all_have = "again: ld.volatile.shared.u32 %r2, [count]; setp.lt.u32 %p3, %r2, 64; @%p3 bra again;";
  for (const char* const wait : {"bar.sync 0;", "barrier.sync 3;", "bar.sync 1, 64;"})
    EXPECT(!too_early(wait, 40) && !too_early(wait, 1) && !too_early(wait, 40, "%rd1"));
  EXPECT(!too_early(counted + all_have, 40));
  const std::string in_warp = "nanosleep.u32 1000000; nanosleep.u32 1000000; bar.warp.sync -1;";
  EXPECT(!too_early(in_warp, 1) && too_early(in_warp, 40));
  for (const char* const no_wait : {"", "nanosleep.u32 1000000;", "membar.gl;", "bar.arrive 1, 96;"})
    EXPECT(too_early(no_wait, 1) && too_early(no_wait, 1, "%rd1"));
  EXPECT(too_early("nanosleep.u32 1000000; nanosleep.u32 1000000; membar.gl;", 40));
}

// Of three blocks the first arrives at their barrier and is gone, the second waits, and the third comes when the second
// does: who has exited is not counted in its place.
static void test_cluster() {
  result[0] = result[1] = result[2] = 0;
  EXPECT(run("setp.eq.u32 %p1, %r8, 0; setp.eq.u32 %p2, %r8, 1; @%p1 bra first; @%p2 bra second;"
             "again: ld.acquire.gpu.global.u64 %rd3, [%rd1]; setp.eq.u64 %p3, %rd3, 0; @%p3 bra again;"
             "mov.u64 %rd3, 7; st.global.u64 [%rd1+8], %rd3; barrier.cluster.arrive; bra done;"
             "first: barrier.cluster.arrive; bra done;"
             "second: mov.u64 %rd3, 1; st.release.gpu.global.u64 [%rd1], %rd3; barrier.cluster.arrive;"
             "barrier.cluster.wait; ld.global.u64 %rd4, [%rd1+8]; st.global.u64 [%rd1+16], %rd4; done:",
             reinterpret_cast<uint64_t>(result), 0, 3, 1, true) == "");
  EXPECT(result[2] == 7);
  // A vector that is stored into a block's own memory completes the bytes of all its elements.
  result[0] = 0;
  EXPECT(run(".shared .align 8 .b8 room[8]; .shared .align 8 .b64 gate; mbarrier.init.shared.b64 [gate], 1;"
             "mbarrier.arrive.expect_tx.shared.b64 %rd3, [gate], 8; mov.u32 %r1, 3; mov.u32 %r2, room;"
             "mov.u32 %r3, gate; mapa.shared::cluster.u32 %r2, %r2, 0; mapa.shared::cluster.u32 %r3, %r3, 0;"
             "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r2], {%r1, %r1}, [%r3];"
             "mbarrier.test_wait.shared.b64 %p1, [gate], %rd3; selp.u64 %rd4, 7, 1, %p1; st.global.u64 [%rd1], %rd4;",
             reinterpret_cast<uint64_t>(result), 0, 1, 1, true) == "");
  EXPECT(result[0] == 7);
}

// Who waits for an mbarrier that nobody is left to complete is told so; not who gives up now and then, or is stopped.
static void test_barriers() {
  const std::string init =
                        ".shared .align 16 .b8 bytes[64]; .shared .b64 gate;"
                        "mbarrier.init.shared.b64 [gate], 2; mbarrier.expect_tx.shared.b64 [gate], 64;"
                        "mbarrier.arrive.shared.b64 %rd3, [gate];",
                    wait =
                        "mbarrier.try_wait.shared.b64 %p1, [gate], %rd3; @%p1 bra done; nanosleep.u32 20;"
                        "mbarrier.test_wait.parity.shared.b64 %p1, [gate], 0; @%p1 bra done;";
  auto patient = std::async([&] {  // 1 s, five times
    return run(init + "mov.u32 %r1, 0; again: mov.u64 %rd4, %globaltimer; inner: " + wait +
                   "mov.u64 %rd5, %globaltimer; sub.u64 %rd5, %rd5, %rd4; setp.lt.u64 %p1, %rd5, 1000000000;"
                   "@%p1 bra inner; mbarrier.expect_tx.shared.b64 [gate], 16;"
                   "add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra again; done:",
               0);
  });
  expect_fault(init + "again: " + wait + "bra again; done:", 0, CUDA_ERROR_LAUNCH_TIMEOUT,
               "lacks 1 of 2 arrivals and 64 bytes");
  EXPECT(patient.get() == "");
  // Bulk copies: what is not a multiple of 16, and a place that the GPU must not touch.
  const std::string copy =
      "mov.u32 %r1, 24; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [bytes], [%rd2], %r1, "
      "[gate];";
  expect_fault(init + copy, 0, CUDA_ERROR_MISALIGNED_ADDRESS, "24 bytes, is not a multiple of 16");
  expect_fault(init + "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [bytes], 16;", 16,
               CUDA_ERROR_ILLEGAL_ADDRESS, "something");
}

static void test_heap() {
  constexpr uint64_t size = 1 << 20, begin = memory::heap_address;
  {
    gpu::Heap heap(0, size);
    EXPECT(!heap.allocate(size + 1, 1) && !heap.allocate(~uint64_t(0), 1) && !heap.holds(begin) && !memory::heaps);
    EXPECT(heap.resize(2 * size) && heap.resize(size));
    const uint64_t whole = heap.allocate(size, 1);
    EXPECT(whole == begin && !heap.allocate(0, 1) && !heap.resize(2 * size) && memory::heaps == 1);
    EXPECT(heap.holds(begin + size - 1) && !heap.holds(begin + size));
    EXPECT(!heap.free(whole + 16) && heap.free(whole) && !heap.free(whole));
    std::vector<uint64_t> pieces;
    for (uint64_t at; (at = heap.allocate(1000, 1)); pieces.push_back(at)) EXPECT(at % 16 == 0);
    EXPECT(pieces.size() == size / 1008);
    for (size_t i = 0; i < pieces.size(); i += 2) EXPECT(heap.free(pieces[i]));
    EXPECT(!heap.allocate(1500, 1));  // what is free lies in pieces
    for (size_t i = 1; i < pieces.size(); i += 2) EXPECT(heap.free(pieces[i]));
    EXPECT(heap.allocate(16, 1) == begin);
    const uint64_t aligned = heap.allocate(100, 4096);
    EXPECT(aligned == begin + 4096 && heap.allocate(4080, 1) == begin + 16 && !heap.allocate(16, 3));
    EXPECT(heap.free(aligned) && heap.free(begin) && heap.free(begin + 16) && heap.allocate(size, 1) == begin);
  }
  EXPECT(memory::heaps == 0);
  gpu::Heap too_large(0, uint64_t(1) << 40);
  EXPECT(!too_large.allocate(1, 1));
}

// A call faults whose own frame does not fit into the stack any more: here the fourth, of 4096 bytes in all.
static void test_stack() {
  functions =
      ".func itself(.param .b32 n)\n{\n.local .align 8 .b8 room[1016]; .reg .b32 %r<2>; .reg .pred %p<2>;\n"
      "ld.param.u32 %r1, [n]; st.local.u32 [room], %r1; setp.eq.u32 %p1, %r1, 0;\n@%p1 ret;\nsub.u32 %r1, %r1, 1;\n"
      "{ .param .b32 next; st.param.b32 [next], %r1; call itself, (next); }\nret;\n}\n";
  const auto call = [](int depth) {
    return run(
        "{ .param .b32 n; mov.u32 %r1, " + std::to_string(depth) + "; st.param.b32 [n], %r1; call itself, (n); }", 0);
  };
  EXPECT(call(2).empty() && call(3).find("full, at 3 calls") != std::string::npos);
  functions = "";
}

int main() {
  test_unknown("wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned");
  test_unknown(".file 1 \"a.cu\" .loc 1 7 3 wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned", " (a.cu:7)");
  const std::string tensor = "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r1}], [%r2]",
                    many =
                        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                        "[%r1], [%rd1], 16, [%r2], %h1";
  test_unknown(tensor + ";", tensor + ": tensor maps are not simulated");
  test_unknown(many + ";", many);
  const std::string eights = "multimem.ld_reduce.add.v4.e4m3 {%r1, %r2, %r3, %r4}, [%rd1]";
  test_unknown(eights + ";", eights);
  const std::string too_wide = "ld.global.v8.u64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [%rd1]";
  test_unknown(too_wide + ";", too_wide);
  const size_t size = 8 * memory::page_size;
  void* const room = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT(room != MAP_FAILED);
  auto* const mapped = static_cast<char*>(room);
  char* const pages = mapped + memory::page_size - reinterpret_cast<uint64_t>(mapped) % memory::page_size;
  memory::PageTable& table = memory::page_table(0);
  const memory::Entry rights = memory::mapped | memory::readable | memory::writable;
  for (int i = 0; i < 3; ++i) frames[0][i] = pages + i * memory::page_size;
  frames[1][0] = frames[1][2] = pages;
  table.set(multicast_address, 0 << 21 | rights | memory::multicast);
  table.set(other_multicast_address, 1 << 21 | rights | memory::multicast);
  table.set(read_only_multicast_address, 0 << 21 | memory::mapped | memory::readable | memory::multicast);
  result = reinterpret_cast<uint64_t*>(pages + 3 * memory::page_size);
  table.set(reinterpret_cast<uint64_t>(result), reinterpret_cast<uint64_t>(result) | rights);
  test_multimem();
  test_faults();
  test_ordinary_access();
  test_turns();
  const auto page = [&](int number) { return pages + number * memory::page_size; };
  const auto address = reinterpret_cast<uint64_t>(page(4));
  for (const auto& [at, frame] : {std::pair(4, 6), std::pair(5, 4)})
    table.set(reinterpret_cast<uint64_t>(page(at)), reinterpret_cast<uint64_t>(page(frame)) | rights);
  test_rows(address, reinterpret_cast<uint32_t*>(page(6)), reinterpret_cast<uint32_t*>(page(4)));
  const memory::Entry aliased = reinterpret_cast<uint64_t>(page(6)) | rights | memory::aliased;
  for (int at : {4, 5}) table.set(reinterpret_cast<uint64_t>(page(at)), aliased);
  test_aliases(address, address + memory::page_size);
  test_guarded_registers();
  test_conversions();
  test_copies();
  test_cluster();
  test_stack();
  test_barriers();
  test_heap();
  gpu::stop();
  gpu::stop();
  std::puts("OK");
}
