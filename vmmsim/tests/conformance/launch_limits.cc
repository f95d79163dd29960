// SPDX-License-Identifier: MIT-0
// Launches that exceed what a kernel, a block or a grid may have, and which error comes first when they exceed two; the
// attributes of a launch; and what occupancy answers with dynamic shared memory and for kernels with such limits.
// Left out: kernels of many registers, for the simulator does not know how many there are; attribute -1, and how much
// dynamic shared memory is left if there is no place for the answer, where the driver crashes.
#include "conformance.h"

#include <vector>

static const char text[] = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry plain() { ret; }
.visible .entry one(.param .u64 out) { ret; }
.visible .entry most64() .maxntid 64 { ret; }
.visible .entry most8x8() .maxntid 8, 8 { ret; }
.visible .entry just64() .reqntid 64 { ret; }
.visible .entry just8x8() .reqntid 8, 8, 1 { ret; }
.visible .entry registers16() .maxnreg 16 { ret; }
.visible .entry crowded() .maxntid 128 .minnctapersm 16 { ret; }
.visible .entry most2000() .maxntid 2000 { ret; }
.visible .entry sharing() {
  .shared .align 4 .b8 room[40000];
  st.shared.u32 [room], 1; ret;
}
)";
// With `count` values that live at the same time: as many registers.
static std::string with_values(unsigned count) {
  std::string body =
      ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry many(.param .u64 out) {\n"
      ".reg .b64 %a; .reg .b32 %r<300>; .reg .pred %p; ld.param.u64 %a, [out]; mov.u32 %r0, 3;\n";
  const auto number = [](unsigned n) { return std::to_string(n); };
  for (unsigned k = 1; k <= count; ++k)
    body += "ld.volatile.global.u32 %r" + number(k) + ", [%a+" + number(4 * k) + "];\n";
  body += "again:\n";
  for (unsigned k = 1; k <= count; ++k)
    body += "mad.lo.u32 %r" + number(k) + ", %r" + number(k) + ", %r" + number(k % count + 1) + ", %r0;\n";
  body += "add.u32 %r0, %r0, 1; setp.lt.u32 %p, %r0, 9; @%p bra again;\n";
  for (unsigned k = 1; k <= count; ++k)
    body += "st.volatile.global.u32 [%a+" + number(4 * k) + "], %r" + number(k) + ";\n";
  return body + "ret; }\n";
}

static CUmodule module;
static void set_up() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  CHECK(cuModuleLoadData(&module, text));
}
static CUfunction function(const char* name) {
  CUfunction found;
  CHECK(cuModuleGetFunction(&found, module, name));
  return found;
}

struct Shape {
  unsigned grid[3], block[3], shared;
};
static std::string text_of(const Shape& s) {
  const auto list = [](const unsigned (&d)[3]) {
    return std::to_string(d[0]) + "x" + std::to_string(d[1]) + "x" + std::to_string(d[2]);
  };
  return list(s.grid) + " of " + list(s.block) + (s.shared ? ", shared " + std::to_string(s.shared) : "");
}
static std::string launched(CUfunction kernel, const Shape& s, void** arguments, bool cooperatively = false) {
  const auto& [grid, block, shared] = s;
  const CUresult result = cooperatively ? cuLaunchCooperativeKernel(kernel, grid[0], grid[1], grid[2], block[0],
                                                                    block[1], block[2], shared, nullptr, arguments)
                                        : cuLaunchKernel(kernel, grid[0], grid[1], grid[2], block[0], block[1],
                                                         block[2], shared, nullptr, arguments, nullptr);
  const CUresult then = cuCtxSynchronize();
  return std::string(check::name(result)) + (then ? std::string(", then ") + check::name(then) : "");
}

SECTION("sizes") {
  set_up();
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 4096));
  void* arguments[] = {&memory};
  const Shape shapes[] = {
      {{1, 1, 1}, {1, 1, 1}, 0},         {{1, 1, 1}, {1024, 1, 1}, 0},     {{1, 1, 1}, {1025, 1, 1}, 0},
      {{1, 1, 1}, {1, 1024, 1}, 0},      {{1, 1, 1}, {1, 1025, 1}, 0},     {{1, 1, 1}, {1, 1, 64}, 0},
      {{1, 1, 1}, {1, 1, 65}, 0},        {{1, 1, 1}, {32, 32, 2}, 0},      {{1, 1, 1}, {64, 1, 1}, 0},
      {{1, 1, 1}, {65, 1, 1}, 0},        {{1, 1, 1}, {8, 8, 1}, 0},        {{1, 1, 1}, {1, 64, 1}, 0},
      {{1, 1, 1}, {63, 1, 1}, 0},        {{1, 1, 1}, {4, 16, 1}, 0},       {{1, 1, 1}, {128, 1, 1}, 0},
      {{1, 1, 1}, {129, 1, 1}, 0},       {{0, 1, 1}, {1, 1, 1}, 0},        {{1, 0, 1}, {1, 1, 1}, 0},
      {{1, 1, 0}, {1, 1, 1}, 0},         {{1, 1, 1}, {0, 1, 1}, 0},        {{1, 1, 1}, {1, 0, 1}, 0},
      {{1, 1, 1}, {1, 1, 0}, 0},         {{0, 0, 0}, {0, 0, 0}, 0},        {{1u << 31, 1, 1}, {1, 1, 1}, 0},
      {{~0u, 1, 1}, {1, 1, 1}, 0},       {{1, 65536, 1}, {1, 1, 1}, 0},    {{1, 1, 65536}, {1, 1, 1}, 0},
      {{1, ~0u, 1}, {1, 1, 1}, 0},       {{1, 1, 1}, {~0u, 1, 1}, 0},      {{1, 1, 1}, {65536, 65536, 1}, 0},
      {{1, 1, 1}, {1, 1, 1}, 8192},      {{1, 1, 1}, {1, 1, 1}, 9152},     {{1, 1, 1}, {1, 1, 1}, 9153},
      {{1, 1, 1}, {1, 1, 1}, 49152},     {{1, 1, 1}, {1, 1, 1}, 49153},    {{1, 1, 1}, {1, 1, 1}, 232448},
      {{1, 1, 1}, {1, 1, 1}, 232449},    {{1, 1, 1}, {1, 1, 1}, 1u << 30}, {{1, 1, 1}, {1, 1, 1}, ~0u},
      {{1, 1, 1}, {1025, 1, 1}, 49153},  {{0, 1, 1}, {1025, 1, 1}, 0},     {{1, 65536, 1}, {1025, 1, 1}, 0},
      {{1, 65536, 1}, {1, 1, 1}, 49153}, {{1, 1, 1}, {129, 1, 1}, 49153},  {{0, 1, 1}, {1, 1, 1}, 49153},
      {{0, 1, 1}, {129, 1, 1}, 0},       {{1, 65536, 1}, {129, 1, 1}, 0},
  };
  for (const char* const name : {"plain", "one", "most64", "most8x8", "just64", "just8x8", "crowded", "sharing"}) {
    section(name);
    for (const Shape& shape : shapes) say(text_of(shape), launched(function(name), shape, arguments));
  }
  section("shapes without the parameter");
  for (const Shape& shape : {shapes[0], shapes[2], shapes[16], shapes[34]})
    say(text_of(shape), launched(function("one"), shape, nullptr));
  section("shapes of the null function");
  for (const Shape& shape : {shapes[0], shapes[2], shapes[16], shapes[34]})
    say(text_of(shape), launched(nullptr, shape, nullptr));
  section("cooperatively");
  const Shape together[] = {
      {{1, 1, 1}, {32, 1, 1}, 0},        {{4224, 1, 1}, {32, 1, 1}, 0},      {{4225, 1, 1}, {32, 1, 1}, 0},
      {{65, 65, 1}, {32, 1, 1}, 0},      {{264, 1, 1}, {1024, 1, 1}, 0},     {{265, 1, 1}, {1024, 1, 1}, 0},
      {{528, 1, 1}, {1, 1, 1}, 49152},   {{529, 1, 1}, {1, 1, 1}, 49152},    {{1, 1, 1}, {1025, 1, 1}, 0},
      {{0, 1, 1}, {1, 1, 1}, 0},         {{1u << 31, 1, 1}, {1, 1, 1}, 0},   {{1, 65536, 1}, {1, 1, 1}, 0},
      {{100000, 1, 1}, {1025, 1, 1}, 0}, {{100000, 1, 1}, {1, 1, 1}, 49153}, {{1, 1, 1}, {1, 1, 1}, 49153},
  };
  for (const char* const name : {"plain", "most64", "sharing"})
    for (const Shape& shape : together)
      say(std::string(name) + " " + text_of(shape), launched(function(name), shape, nullptr, true));
}

SECTION("registers") {
  set_up();
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 4096));
  CHECK(cuMemsetD8(memory, 0, 4096));
  void* arguments[] = {&memory};
  for (const unsigned values : {8u}) {
    CUmodule loaded;
    CUfunction many;
    CHECK(cuModuleLoadData(&loaded, with_values(values).c_str()));
    CHECK(cuModuleGetFunction(&many, loaded, "many"));
    int count = 0, most = 0;
    CHECK(cuFuncGetAttribute(&count, CU_FUNC_ATTRIBUTE_NUM_REGS, many));
    CHECK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, many));
    const std::string of = std::to_string(values) + " values";
    say(of + ", registers are at least as many", count >= int(values) ? "yes" : "no");
    say(of + ", threads of a block", std::to_string(most));
    for (const unsigned threads : {32u, 256u, 320u, 512u, 1024u, 1025u}) {
      say(of + ", " + std::to_string(threads) + " threads", launched(many, {{1, 1, 1}, {threads, 1, 1}, 0}, arguments));
      int blocks = -1;
      const CUresult asked = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, many, int(threads), 0);
      say(of + ", " + std::to_string(threads) + " threads, blocks fit",
          std::to_string(blocks) + " " + check::name(asked));
    }
    say(of + ", 256 threads and too much shared memory", launched(many, {{1, 1, 1}, {256, 1, 1}, 49153}, arguments));
    say(of + ", 1024 threads and too much", launched(many, {{1, 1, 1}, {1024, 1, 1}, 49153}, arguments));
  }
}

SECTION("attributes of a launch") {
  set_up();
  const CUfunction plain = function("plain");
  const auto ask = [&](const std::string& what, std::vector<CUlaunchAttribute> all, unsigned count,
                       unsigned blocks = 1) {
    CUlaunchConfig config = {};
    config.gridDimX = blocks, config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.attrs = all.empty() ? nullptr : all.data();
    config.numAttrs = count;
    const CUresult result = cuLaunchKernelEx(&config, plain, nullptr, nullptr);
    const CUresult then = cuCtxSynchronize();
    say(what, std::string(check::name(result)) + (then ? std::string(", then ") + check::name(then) : ""));
  };
  const auto one = [](unsigned id, unsigned value = 0) {
    CUlaunchAttribute attribute = {};
    attribute.id = CUlaunchAttributeID(id);
    std::memcpy(&attribute.value, &value, sizeof value);
    return attribute;
  };
  ask("no attributes", {}, 0);
  ask("the attribute that is ignored", {one(CU_LAUNCH_ATTRIBUTE_IGNORE)}, 1);
  ask("attribute 99", {one(99)}, 1);
  ask("cooperative 0", {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0)}, 1);
  ask("cooperative 1", {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}, 1);
  ask("cooperative 2", {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 2)}, 1);
  ask("cooperative, too large", {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}, 1, 100000);
  ask("cooperative 1, then 0, too large",
      {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1), one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0)}, 2, 100000);
  ask("cooperative 0, then 1, too large",
      {one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 0), one(CU_LAUNCH_ATTRIBUTE_COOPERATIVE, 1)}, 2, 100000);
  ask("synchronization policy 1", {one(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 1)}, 1);
  ask("synchronization policy 9", {one(CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, 9)}, 1);
  ask("priority -1", {one(CU_LAUNCH_ATTRIBUTE_PRIORITY, unsigned(-1))}, 1);
  ask("priority -99", {one(CU_LAUNCH_ATTRIBUTE_PRIORITY, unsigned(-99))}, 1);
  ask("priority 99", {one(CU_LAUNCH_ATTRIBUTE_PRIORITY, 99)}, 1);
  ask("programmatic serialization 1", {one(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 1)}, 1);
  ask("programmatic serialization 2", {one(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, 2)}, 1);
  ask("domain map 0", {one(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, 0)}, 1);
  ask("domain 1", {one(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 1)}, 1);
  ask("domain 2", {one(CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, 2)}, 1);
  ask("access policy window of nothing", {one(CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW)}, 1);
  ask("carveout 50", {one(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50)}, 1);
  ask("carveout 101", {one(CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101)}, 1);
  ask("scheduling policy 1", {one(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 1)}, 1);
  ask("scheduling policy 9", {one(CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, 9)}, 1);
  ask("an attribute is missing", {}, 1);
}

static size_t CUDA_CB by_threads(int threads) { return size_t(threads) * 64; }
static size_t CUDA_CB too_much(int) { return 1 << 20; }

SECTION("attributes of a kernel") {
  set_up();
  const struct {
    CUfunction_attribute what;
    const char* name;
  } all[] = {{CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, "MAX_THREADS_PER_BLOCK"},
             {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, "SHARED_SIZE_BYTES"},
             {CU_FUNC_ATTRIBUTE_PTX_VERSION, "PTX_VERSION"},
             {CU_FUNC_ATTRIBUTE_BINARY_VERSION, "BINARY_VERSION"},
             {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, "CACHE_MODE_CA"},
             {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, "MAX_DYNAMIC_SHARED_SIZE_BYTES"},
             {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, "PREFERRED_SHARED_MEMORY_CARVEOUT"},
             {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, "CLUSTER_SIZE_MUST_BE_SET"},
             {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, "REQUIRED_CLUSTER_WIDTH"},
             {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, "NON_PORTABLE_CLUSTER_SIZE_ALLOWED"},
             {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE, "CLUSTER_SCHEDULING_POLICY_PREFERENCE"}};
  for (const char* const name : {"plain", "most64", "most8x8", "just64", "most2000", "sharing"})
    for (const auto& [what, called] : all) {
      int value = -7;
      const CUresult result = cuFuncGetAttribute(&value, what, function(name));
      say(std::string(called) + " of " + name,
          std::string(check::name(result)) + (result ? "" : ", " + std::to_string(value)));
    }
  for (const auto& [what, called] : all)
    for (const int value : {-1, 0, 1, 2, 100, 101, 49153, 232449}) {
      const std::string of = std::string("set ") + called + " to " + std::to_string(value);
      say(of, cuFuncSetAttribute(function("plain"), what, value));
    }
}

SECTION("occupancy") {
  set_up();
  const char* const names[] = {"plain", "most64", "just64", "registers16", "crowded", "most2000", "sharing"};
  for (const bool raised : {false, true}) {
    section(raised ? "with the limit raised" : "as loaded");
    for (const char* const name : names) {
      const CUfunction kernel = function(name);
      if (raised) {
        const int most = std::strcmp(name, "sharing") ? 232448 : 192448;
        say(std::string(name) + ", raise the limit",
            cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
      }
      for (const int threads : {-1, 0, 1, 32, 33, 64, 65, 128, 1024, 1025, 2048})
        for (const size_t shared : {0, 1, 7168, 49152, 49153, 65536, 116736, 232448, 232449}) {
          int blocks = -7;
          const CUresult result = cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared);
          if (shared && threads != 32 && threads != 1024) continue;
          say(std::string(name) + ", " + std::to_string(threads) + " threads, " + std::to_string(shared),
              std::string(check::name(result)) + (result ? "" : ", " + std::to_string(blocks)));
        }
      const auto ask = [&](const char* what, CUoccupancyB2DSize of, size_t shared, int limit, unsigned flags = 0) {
        int grid = -7, block = -7;
        const CUresult result =
            cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, kernel, of, shared, limit, flags);
        say(std::string(name) + ", best block, " + what,
            std::string(check::name(result)) +
                (result ? "" : ", " + std::to_string(grid) + " of " + std::to_string(block)));
      };
      ask("no shared memory", nullptr, 0, 0);
      ask("32 KiB", nullptr, 32768, 0);
      ask("48 KiB and a byte", nullptr, 49153, 0);
      ask("64 bytes a thread", by_threads, 0, 0);
      ask("a MiB", too_much, 0, 0);
      ask("at most 100 threads", nullptr, 0, 100);
      ask("at most 5000 threads", nullptr, 0, 5000);
      ask("at most -1 threads", nullptr, 0, -1);
      ask("flags 1", nullptr, 0, 0, 1);
      ask("flags 2", nullptr, 0, 0, 2);
    }
  }
}
SECTION("wrong arguments of occupancy") {
  set_up();
  int number;
  const CUfunction plain = function("plain");
  say("blocks to null", cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, plain, 32, 0));
  say("blocks of null", cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nullptr, 32, 0));
  say("blocks of null, 0 threads", cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nullptr, 0, 0));
  say("blocks, flags 2", cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&number, plain, 32, 0, 2));
  say("best block to null", cuOccupancyMaxPotentialBlockSize(nullptr, &number, plain, nullptr, 0, 0));
  say("best block to two nulls", cuOccupancyMaxPotentialBlockSize(nullptr, nullptr, plain, nullptr, 0, 0));
  say("best block of null", cuOccupancyMaxPotentialBlockSize(&number, &number, nullptr, nullptr, 0, 0));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
