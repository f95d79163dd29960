// SPDX-License-Identifier: MIT-0
// PTX that the driver's compiler refuses, and what looks like it and is taken: what loading a module answers, in which
// line the log says that something is wrong, and what the same text answers as a library. Left out: a log of 0 bytes,
// where the driver crashes.
#include "conformance.h"

struct Text {
  const char *what, *text;
};

// A text of this version and target with a kernel. BODY begins in line 6 with the registers that it may use.
#define HEAD(version, target) ".version " version "\n.target " target "\n.address_size 64\n"
#define KERNEL(body)                                                                                          \
  ".visible .entry k(.param .u64 out) {\n"                                                                    \
  ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .pred %p<9>;\n" \
  "ld.param.u64 %rd1, [out]; mov.u32 %r1, 1; mov.f32 %f1, 0f3f800000; .shared .align 16 .b8 room[64];\n" body \
  "\n"                                                                                                        \
  "ret; }\n"
#define BODY(what, body) {what, HEAD("9.0", "sm_90") KERNEL(body)}
#define BODY_FOR(what, version, target, body) {what, HEAD(version, target) KERNEL(body)}
#define WHOLE(what, rest) {what, HEAD("9.0", "sm_90") rest}

static const Text texts[] = {
    BODY("nothing wrong", "st.u32 [%rd1], %r1;"),
    // Versions.
    BODY_FOR("version 99.9", "99.9", "sm_90", ""),
    BODY_FOR("version 9.1", "9.1", "sm_90", ""),
    BODY_FOR("version 9.9", "9.9", "sm_90", ""),
    BODY_FOR("version 10.0", "10.0", "sm_90", ""),
    BODY_FOR("version 0.1", "0.1", "sm_90", ""),
    BODY_FOR("version 8.9", "8.9", "sm_90", ""),
    BODY_FOR("version 5.5", "5.5", "sm_50", ""),
    BODY_FOR("version 5.0", "5.0", "sm_50", ""),
    BODY_FOR("version 1.0", "1.0", "sm_10", ""),
    BODY_FOR("version 9", "9", "sm_90", ""),
    BODY_FOR("version nonsense", "nine", "sm_90", ""),
    BODY_FOR("version 99.9 and a wrong opcode", "99.9", "sm_90", "addd.u32 %r1, %r1, %r1;"),
    BODY_FOR("version too old for the target", "7.0", "sm_90", ""),
    {"no version", ".target sm_90\n.address_size 64\n" KERNEL("")},
    // Targets.
    BODY_FOR("target sm_100", "9.0", "sm_100", ""),
    BODY_FOR("target sm_103", "9.0", "sm_103", ""),
    BODY_FOR("target sm_120", "9.0", "sm_120", ""),
    BODY_FOR("target sm_90a", "9.0", "sm_90a", ""),
    BODY_FOR("target sm_100a", "9.0", "sm_100a", ""),
    BODY_FOR("target sm_100f", "9.0", "sm_100f", ""),
    BODY_FOR("target sm_89", "9.0", "sm_89", ""),
    BODY_FOR("target sm_50", "9.0", "sm_50", ""),
    BODY_FOR("target sm_30", "9.0", "sm_30", ""),
    BODY_FOR("target sm_20", "6.0", "sm_20", ""),
    BODY_FOR("target sm_91", "9.0", "sm_91", ""),
    BODY_FOR("target sm_999", "9.0", "sm_999", ""),
    BODY_FOR("target sm_1", "9.0", "sm_1", ""),
    BODY_FOR("target compute_90", "9.0", "compute_90", ""),
    BODY_FOR("target nonsense", "9.0", "nonsense", ""),
    {"no target", ".version 9.0\n.address_size 64\n" KERNEL("")},
    {"addresses of 32 bits", ".version 9.0\n.target sm_90\n.address_size 32\n.visible .entry k() { ret; }\n"},
    {"no address size", ".version 9.0\n.target sm_90\n.visible .entry k() { ret; }\n"},
    // Opcodes.
    BODY("a wrong opcode", "addd.u32 %r1, %r1, %r1;"),
    BODY("a wrong opcode in the second line", "add.u32 %r1, %r1, %r1;\nmoov.u32 %r1, %r1;"),
    BODY("two wrong opcodes", "addd.u32 %r1, %r1, %r1;\nmoov.u32 %r1, %r1;"),
    BODY("a wrong opcode of no operand", "frobnicate;"),
    BODY("a wrong opcode behind ret", "ret;\nfrobnicate %r1;"),
    BODY("an opcode in capitals", "ADD.u32 %r1, %r1, %r1;"),
    BODY("a wrong modifier", "add.foo.u32 %r1, %r1, %r1;"),
    BODY("a wrong type", "add.u33 %r1, %r1, %r1;"),
    BODY("no type", "add %r1, %r1, %r1;"),
    BODY("an untyped type", "add.b32 %r1, %r1, %r1;"),
    BODY("and of integers", "and.u32 %r1, %r1, %r1;"),
    BODY("a modifier of another", "add.wide.u32 %rd2, %r1, %r1;"),
    BODY("mul without lo", "mul.u32 %r1, %r1, %r1;"),
    BODY("div.f32 without rounding", "div.f32 %f1, %f1, %f1;"),
    BODY("saturation of unsigned", "add.sat.u32 %r1, %r1, %r1;"),
    BODY("rounding of integers", "add.rn.u32 %r1, %r1, %r1;"),
    BODY("setp of no relation", "setp.xx.u32 %p1, %r1, %r1;"),
    BODY("ld of no space that is one", "ld.foo.u32 %r1, [%rd1];"),
    BODY("cvt to the same without rounding", "cvt.f32.f64 %f1, %d1;"),
    BODY("cvt with too much rounding", "cvt.rn.u32.u64 %r1, %rd1;"),
    BODY("mov of a vector type", "mov.v2.u32 %r1, %r1;"),
    BODY("a modifier twice", "add.u32.u32 %r1, %r1, %r1;"),
    BODY("bar.sync of a name", "bar.foo 0;"),
    BODY("atom of no operation", "atom.global.foo.u32 %r1, [%rd1], %r1;"),
    BODY("atom.add of signed 64 bits", "atom.global.add.s64 %rd2, [%rd1], %rd1;"),
    BODY("atom.add.u64", "atom.global.add.u64 %rd2, [%rd1], %rd1;"),
    BODY("shfl without sync", "shfl.up.b32 %r1, %r1, 1, 0;"),
    BODY("vote without sync", "vote.all.pred %p1, %p1;"),
    // One mode, and one only.
    BODY("szext without a mode", "szext.s32 %r1, %r1, %r1;"),
    BODY("szext of two modes", "szext.clamp.wrap.s32 %r1, %r1, %r1;"),
    BODY("shf without a mode", "shf.l.b32 %r1, %r1, %r1, %r1;"),
    BODY("bmsk without a mode", "bmsk.b32 %r1, %r1, %r1;"),
    BODY("dp2a of no half", "dp2a.u32.u32 %r1, %r1, %r1, %r1;"),
    BODY("mul24 of no half", "mul24.u32 %r1, %r1, %r1;"),
    BODY("mad24 of no half", "mad24.u32 %r1, %r1, %r1, %r1;"),
    BODY("mul of two halves", "mul.lo.hi.u32 %r1, %r1, %r1;"),
    BODY("two roundings", "add.rn.rz.f32 %f1, %f1, %f1;"),
    BODY("div rounded and approximate", "div.approx.rn.f32 %f1, %f1, %f1;"),
    BODY("setp of two relations", "setp.eq.ne.u32 %p1, %r1, %r1;"),
    BODY("setp with two operations", "setp.eq.and.or.u32 %p1, %r1, %r1, %p1;"),
    BODY("shfl up and down", "shfl.sync.up.down.b32 %r1, %r1, 1, 0, -1;"),
    BODY("vote of two kinds", "vote.sync.all.any.pred %p1, %p1, -1;"),
    BODY("match of two kinds", "match.any.all.sync.b32 %r1, %r1, -1;"),
    BODY("membar of two scopes", "membar.cta.gl;"),
    BODY("ld of two scopes", "ld.relaxed.gpu.sys.u32 %r1, [%rd1];"),
    BODY("ld of two orders", "ld.relaxed.acquire.gpu.u32 %r1, [%rd1];"),
    BODY("ld of two spaces", "ld.global.shared.u32 %r1, [%rd1];"),
    BODY("red of two operations", "red.global.min.max.u32 [%rd1], %r1;"),
    BODY("testp of two kinds", "testp.finite.infinite.f32 %p1, %f1;"),
    BODY("prmt of two modes", "prmt.f4e.b4e.b32 %r1, %r1, %r1, %r1;"),
    BODY("redux of no operation", "redux.sync.u32 %r1, %r1, -1;"),
    BODY("isspacep of no space", "isspacep %p1, %rd1;"),
    BODY("prefetch of no level", "prefetch [%rd1];"),
    BODY("prefetch of two levels", "prefetch.global.L1.L2 [%rd1];"),
    BODY("fence without a scope", "fence.sc;"),
    BODY("cvt with two roundings", "cvt.rn.rz.f32.f64 %f1, %d1;"),
    // Operands.
    BODY("an operand too few", "add.u32 %r1, %r1;"),
    BODY("an operand too many", "add.u32 %r1, %r1, %r1, %r1;"),
    BODY("no operands", "add.u32;"),
    BODY("a register of 64 bits for 32", "add.u32 %r1, %rd1, %r1;"),
    BODY("a register of 32 bits for 64", "add.u64 %rd2, %rd1, %r1;"),
    BODY("a register of 16 bits for 32", "add.u32 %r1, %h1, %r1;"),
    BODY("a float for an integer", "add.u32 %r1, %f1, %r1;"),
    BODY("an integer for a float", "add.f32 %f1, %f1, %r1;"),
    BODY("untyped bits for a float", "mov.b32 %r1, %f1;"),
    BODY("mov.u32 from a float", "mov.u32 %r1, %f1;"),
    BODY("a predicate as a number", "add.u32 %r1, %p1, %r1;"),
    BODY("a number as a predicate", "@%r1 bra done;\ndone:"),
    BODY("a result that is a constant", "add.u32 5, %r1, %r1;"),
    BODY("a float constant for an integer", "add.u32 %r1, %r1, 0f3f800000;"),
    BODY("an integer constant for a float", "add.f32 %f1, %f1, 1;"),
    BODY("a constant of 33 bits", "add.u32 %r1, %r1, 0x100000000;"),
    BODY("a register that was not declared", "add.u32 %r1, %r1, %r99;"),
    BODY("a name that was not declared", "add.u32 %r1, %r1, x;"),
    BODY("a label that is not there", "bra nowhere;"),
    BODY("a label twice", "a: a:"),
    BODY("a branch to a register", "bra %r1;"),
    BODY("an address that is none", "ld.u32 %r1, %rd1;"),
    BODY("an address of 32 bits", "ld.global.u32 %r2, [%r1];"),
    BODY("a shared address of 64 bits", "ld.shared.u32 %r2, [%rd1];"),
    BODY("a load into a wider register", "ld.global.u32 %rd2, [%rd1];"),
    BODY("a load into a narrower register", "ld.global.u64 %r2, [%rd1];"),
    BODY("a load into a float", "ld.global.u32 %f2, [%rd1];"),
    BODY("a store of a wider register", "st.global.u32 [%rd1], %rd1;"),
    BODY("a store into constant memory", "st.const.u32 [%rd1], %r1;"),
    BODY("a vector of three", "ld.global.v3.u32 {%r1, %r2, %r3}, [%rd1];"),
    BODY("a vector of too few registers", "ld.global.v4.u32 {%r1, %r2}, [%rd1];"),
    BODY("a vector of no registers", "ld.global.v2.u32 %r1, [%rd1];"),
    BODY("a load of a global name as shared", "ld.shared.u32 %r1, [g];"),
    BODY("shl by 64 bits", "shl.b32 %r1, %r1, %rd1;"),
    BODY("selp of a number", "selp.u32 %r1, %r1, %r1, %r1;"),
    BODY("a special register that is none", "mov.u32 %r1, %foo;"),
    BODY("a special register as a result", "mov.u32 %tid.x, %r1;"),
    BODY("a part of a special register that is none", "mov.u32 %r1, %tid.q;"),
    BODY("a call of nothing", "call nowhere;"),
    BODY("no semicolon", "add.u32 %r1, %r1, %r1"),
    BODY("a brace too many", "}"),
    BODY("a bracket too few", "ld.global.u32 %r1, [%rd1;"),
    BODY("a character that is none", "add.u32 %r1, %r1, #;"),
    BODY("a comment that does not end", "/* add.u32 %r1, %r1, %r1;"),
    BODY("a register twice", ".reg .b32 %r3;"),
    // What a target or a version lacks.
    BODY_FOR("cp.async for sm_75", "9.0", "sm_75", "cp.async.ca.shared.global [room], [%rd1], 4;"),
    BODY_FOR("cp.async for sm_80", "9.0", "sm_80", "cp.async.ca.shared.global [room], [%rd1], 4;"),
    BODY_FOR("cp.async in version 6.5", "6.5", "sm_75", "cp.async.ca.shared.global [room], [%rd1], 4;"),
    BODY_FOR("redux for sm_75", "9.0", "sm_75", "redux.sync.add.u32 %r1, %r1, -1;"),
    BODY_FOR("barrier.cluster for sm_80", "9.0", "sm_80", "barrier.cluster.arrive;"),
    BODY_FOR("barrier.cluster for sm_90", "9.0", "sm_90", "barrier.cluster.arrive;"),
    BODY_FOR("elect for sm_80", "9.0", "sm_80", "elect.sync %r1|%p1, -1;"),
    BODY_FOR("mapa for sm_80", "9.0", "sm_80", "mapa.shared::cluster.u32 %r2, %r1, 0;"),
    BODY_FOR("griddepcontrol for sm_80", "9.0", "sm_80", "griddepcontrol.wait;"),
    BODY_FOR("setmaxnreg for sm_90", "9.0", "sm_90", "setmaxnreg.inc.sync.aligned.u32 96;"),
    BODY_FOR("setmaxnreg for sm_90a", "9.0", "sm_90a", "setmaxnreg.inc.sync.aligned.u32 96;"),
    BODY_FOR("wgmma.fence for sm_90", "9.0", "sm_90", "wgmma.fence.sync.aligned;"),
    BODY_FOR("wgmma.fence for sm_90a", "9.0", "sm_90a", "wgmma.fence.sync.aligned;"),
    BODY_FOR("tcgen05 for sm_90", "9.0", "sm_90", "tcgen05.wait::ld.sync.aligned;"),
    BODY_FOR("add.f16 for sm_50", "9.0", "sm_50", "add.f16 %h1, %h1, %h1;"),
    BODY_FOR("fma.bf16 for sm_75", "9.0", "sm_75", "fma.rn.bf16 %h1, %h1, %h1, %h1;"),
    BODY_FOR("add.bf16 for sm_80", "9.0", "sm_80", "add.bf16 %h1, %h1, %h1;"),
    BODY_FOR("add.u16x2 for sm_80", "9.0", "sm_80", "add.u16x2 %r1, %r1, %r1;"),
    BODY_FOR("min.relu for sm_80", "9.0", "sm_80", "min.relu.s32 %r1, %r1, %r1;"),
    BODY_FOR("tanh for sm_70", "9.0", "sm_70", "tanh.approx.f32 %f1, %f1;"),
    BODY_FOR("atom.add.f64 for sm_50", "9.0", "sm_50", "atom.global.add.f64 %d1, [%rd1], %d1;"),
    BODY_FOR("atom.cas.b16 for sm_60", "9.0", "sm_60", "atom.global.cas.b16 %h1, [%rd1], %h1, %h1;"),
    BODY_FOR("fence.proxy for sm_60", "9.0", "sm_60", "fence.proxy.alias;"),
    BODY_FOR("fence.sc for sm_60", "9.0", "sm_60", "fence.sc.gpu;"),
    BODY_FOR("ld.acquire for sm_60", "9.0", "sm_60", "ld.acquire.gpu.global.u32 %r1, [%rd1];"),
    BODY_FOR("ld.acquire in version 5.0", "5.0", "sm_50", "ld.acquire.gpu.global.u32 %r1, [%rd1];"),
    BODY_FOR("nanosleep for sm_60", "9.0", "sm_60", "nanosleep.u32 1;"),
    BODY_FOR("match for sm_60", "9.0", "sm_60", "match.any.sync.b32 %r1, %r1, -1;"),
    BODY_FOR("activemask in version 6.0", "6.0", "sm_70", "activemask.b32 %r1;"),
    BODY_FOR("mbarrier for sm_75", "9.0", "sm_75", "mbarrier.init.shared.b64 [room], 1;"),
    BODY_FOR("createpolicy for sm_75", "9.0", "sm_75", "createpolicy.fractional.L2::evict_last.b64 %rd2;"),
    BODY_FOR("st.async for sm_80", "9.0", "sm_80",
             "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r1, [%r1];"),
    BODY_FOR("v8 for sm_90", "9.0", "sm_90", "ld.global.v8.u32 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%rd1];"),
    BODY_FOR("shfl without sync for sm_60", "6.0", "sm_60", "shfl.up.b32 %r1, %r1, 1, 0;"),
    BODY_FOR("%cluster_ctarank for sm_80", "9.0", "sm_80", "mov.u32 %r1, %cluster_ctarank;"),
    BODY_FOR("reqnctapercluster for sm_80", "9.0", "sm_80", "ret; }\n.visible .entry other() .reqnctapercluster 2 {"),
    // Declarations.
    WHOLE("a kernel twice", ".visible .entry k() { ret; }\n.visible .entry k() { ret; }\n"),
    WHOLE("no kernel", ".visible .global .u32 g;\n"),
    WHOLE("nothing at all", ""),
    WHOLE("a kernel without its end", ".visible .entry k() { ret;\n"),
    WHOLE("a variable twice", ".visible .global .u32 g;\n.visible .global .u32 g;\n.visible .entry k() { ret; }\n"),
    WHOLE("a variable of no type", ".visible .global g;\n.visible .entry k() { ret; }\n"),
    WHOLE("a function that nobody has", ".extern .func f();\n.visible .entry k() { call f; ret; }\n"),
    WHOLE("a function with other parameters",
          ".func f(.param .u32 x) { ret; }\n.visible .entry k() { .param .u64 y; call f, (y); ret; }\n"),
    WHOLE("a kernel with a result", ".visible .entry (.param .u32 y) k() { ret; }\n"),
    WHOLE("4096 bytes of parameters", ".visible .entry k(.param .b8 x[4096]) { ret; }\n"),
    WHOLE("4097 bytes of parameters", ".visible .entry k(.param .b8 x[4097]) { ret; }\n"),
    WHOLE("32764 bytes of parameters", ".visible .entry k(.param .b8 x[32764]) { ret; }\n"),
    WHOLE("32765 bytes of parameters", ".visible .entry k(.param .b8 x[32765]) { ret; }\n"),
    {"4097 bytes of parameters for sm_60", HEAD("9.0", "sm_60") ".visible .entry k(.param .b8 x[4097]) { ret; }\n"},
    WHOLE("48 KiB of shared memory", ".visible .entry k() { .shared .b8 x[49152]; st.shared.u32 [x], 1; ret; }\n"),
    WHOLE("48 KiB and a byte of shared memory",
          ".visible .entry k() { .shared .b8 x[49153]; st.shared.u32 [x], 1; ret; }\n"),
    WHOLE("48 KiB and a byte of shared memory that nobody uses",
          ".visible .entry k() { .shared .b8 x[49153]; ret; }\n"),
    WHOLE("64 KiB of constants", ".visible .const .b8 c[65536];\n.visible .entry k() { ret; }\n"),
    WHOLE("64 KiB and a byte of constants", ".visible .const .b8 c[65537];\n.visible .entry k() { ret; }\n"),
    WHOLE("an alignment of 3", ".visible .global .align 3 .u32 g;\n.visible .entry k() { ret; }\n"),
    WHOLE("blocks of 1025 threads", ".visible .entry k() .maxntid 1025 { ret; }\n"),
    WHOLE("blocks of 1024 threads", ".visible .entry k() .maxntid 1024 { ret; }\n"),
    WHOLE("blocks of no threads", ".visible .entry k() .maxntid 0 { ret; }\n"),
    WHOLE("blocks of a known and a most size", ".visible .entry k() .maxntid 32 .reqntid 32 { ret; }\n"),
    WHOLE("clusters of 9", ".visible .entry k() .reqnctapercluster 9 { ret; }\n"),
    WHOLE("clusters of 16", ".visible .entry k() .reqnctapercluster 16 { ret; }\n"),
    WHOLE("clusters of 17", ".visible .entry k() .reqnctapercluster 17 { ret; }\n"),
    WHOLE("a directive that is none", ".frobnicate 3;\n.visible .entry k() { ret; }\n"),
    WHOLE("text behind the end", ".visible .entry k() { ret; }\nThat was all.\n"),
};

// "CUDA_ERROR_INVALID_PTX, line 6": the first line that the log names.
static std::string answer(CUresult result, const char* log) {
  std::string told = check::name(result);
  const char* const line = std::strstr(log, ", line ");
  if (line) told += ", line " + std::to_string(std::atoi(line + 7));
  else if (*log) told += ", a log without a line";
  return told;
}

SECTION("texts") {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  for (const Text& each : texts) {
    char log[8192] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    CUmodule module = nullptr;
    const CUresult result = cuModuleLoadDataEx(&module, each.text, 2, options, values);
    std::string told = answer(result, log);
    if (result == CUDA_SUCCESS) CHECK(cuModuleUnload(module));
    CUlibrary library = nullptr;
    CUmodule of_library = nullptr;
    const CUresult loaded = cuLibraryLoadData(&library, each.text, nullptr, nullptr, 0, nullptr, nullptr, 0);
    const CUresult got = loaded ? loaded : cuLibraryGetModule(&of_library, library);
    if (loaded != result) told += "; as a library " + std::string(check::name(loaded));
    if (!loaded && got != result) told += ", its module " + std::string(check::name(got));
    if (!loaded) CHECK(cuLibraryUnload(library));
    say(each.what, told);
  }
}

// The calls that load one write what is wrong into a log of the size that they are given.
SECTION("logs") {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
  const char wrong[] = HEAD("9.0", "sm_90") KERNEL("addd.u32 %r1, %r1, %r1;");
  for (const size_t size : {1, 2, 10, 40, 4096}) {
    char log[4097];
    std::memset(log, 'x', sizeof log);
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(size)};
    CUmodule module;
    const std::string of = "a log of " + std::to_string(size) + " bytes";
    say(of, cuModuleLoadDataEx(&module, wrong, 2, options, values));
    size_t last = sizeof log;
    while (last > 0 && log[last - 1] == 'x') --last;
    if (size < 100) say(of + ", writes, then says", std::to_string(last) + ", " + std::to_string(size_t(values[1])));
    else say(of + " ends with a zero", last > 0 && !log[last - 1] ? "yes" : "no");
  }
  CUmodule module;
  say("no log", cuModuleLoadDataEx(&module, wrong, 0, nullptr, nullptr));
  say("the same by cuModuleLoadData", cuModuleLoadData(&module, wrong));
  say("the same by cuModuleLoadFatBinary", cuModuleLoadFatBinary(&module, wrong));
  say("and the context then", cuCtxSynchronize());
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
