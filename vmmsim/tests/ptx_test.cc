// SPDX-License-Identifier: MIT-0
// The readers of simulator/ptx: each construct of PTX and what must come out of it, each error and its line, fat
// binaries, and the PTX in the programs that are named as arguments.
#include <bit>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include "../simulator/ptx/check.h"
#include "fuzz/ptx_input.h"
#include "unit_check.h"

namespace {

using ptx::Operand;
using ptx::Type;

const std::string header = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

ptx::Module read(const std::string& text) {
  try {
    ptx::Module module = ptx::parse(header + text);
    check_module(module);
    return module;
  } catch (const ptx::Error& error) {
    ++failures;
    std::printf("%s\n  in: %s\n", error.what(), text.c_str());
    return {};
  }
}

// A kernel whose body begins in line 4, after the registers.
const std::string kernel_begin = ".entry k(.param .u64 a) { .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<4>;";
ptx::Function kernel(const std::string& body) {
  static ptx::Module kept;  // what the views in a function point to
  kept = read(".global .u32 g[4]; .func f; " + kernel_begin + body + "}");
  return kept.functions.empty() ? ptx::Function{} : kept.functions.back();
}
ptx::Instruction instruction(const std::string& text) {
  const ptx::Function function = kernel(text + ";");
  return function.code.empty() ? ptx::Instruction{} : function.code.back();
}
Operand operand(const std::string& text) {  // of an instruction
  const ptx::Instruction parsed = instruction("mov.b32 " + text);
  return parsed.operands.empty() ? Operand{} : parsed.operands.front();
}
ptx::Variable variable(const std::string& text) {
  const ptx::Module module = read(".global .u32 other; " + text);
  return module.variables.empty() ? ptx::Variable{} : module.variables.back();
}

template <class T>
T value_at(const ptx::Variable& variable, size_t at) {
  T value = {};
  if (at + sizeof value <= variable.initial.size()) std::memcpy(&value, &variable.initial[at], sizeof value);
  return value;
}

void refuse(int line, const std::string& what, const std::string& text, int ptx_line) {
  std::string said = "(it was read)";
  try {
    ptx::parse(text);
  } catch (const ptx::Error& error) {
    said = error.what();
  }
  const std::string expected = "line " + std::to_string(ptx_line) + ": ";
  if (said.starts_with(expected) && said.find(what) != std::string::npos) return;
  ++failures;
  std::printf("%s:%d: '%s...%s' expected, not '%s'\n", __FILE__, line, expected.c_str(), what.c_str(), said.c_str());
}
#define REFUSED(ptx_line, what, text) refuse(__LINE__, what, header + (text), ptx_line)
#define REFUSED_BODY(ptx_line, what, text) refuse(__LINE__, what, header + kernel_begin + (text) + "}", ptx_line)

void test_module() {
  const ptx::Module module = read(
      "\t// a comment\n/* and\n another */ .file 1 \"a.cu\", 12, 34\n"
      ".pragma \"x\"; .entry k {ret;}");
  CHECK(module.version == 90 && module.target == 90);
  CHECK(module.functions.size() == 1 && module.functions[0].code[0].line == 7);
  const ptx::Module old = ptx::parse(".version 7.8 .target sm_75 .address_size 64\0\0");
  CHECK(old.version == 78 && old.target == 75 && old.functions.empty());
  const ptx::Module sections = read(
      ".section .debug_info {\n.b8 1 .b64 $L_a-$L_b { } .b32 .debug_abbrev\n}"
      ".global .u8 x;");
  CHECK(sections.variables.size() == 1);
  CHECK(ptx::type_named("bf16x2") == Type::bf16x2 && ptx::bits(Type::bf16x2) == 32);
  CHECK(ptx::type_named("f64") == Type::f64 && ptx::bytes(Type::f64) == 8 && ptx::bits(Type::b128) == 128);
  CHECK(ptx::type_named("e5m2x4") == Type::e5m2x4 && ptx::type_named("pred") == Type::pred);
  CHECK(ptx::type_named("v2") == Type::none && ptx::type_named("") == Type::none && ptx::bits(Type::none) == 0);
}

void test_numbers() {
  const auto integer = [](const char* text) {
    const Operand parsed = operand(text);
    CHECK(parsed.kind == Operand::integer);
    return parsed.value;
  };
  CHECK(integer("12") == 12 && integer("0") == 0 && integer("0U") == 0 && integer("7U") == 7);
  CHECK(integer("017") == 15 && integer("0x1F") == 31 && integer("0XfFU") == 255 && integer("0b101") == 5 &&
        integer("0B11") == 3);
  CHECK(integer("-1640531535") == uint64_t(-1640531535) && integer("18446744073709551615") == ~uint64_t(0));
  CHECK(integer("-0x8000000000000000") == uint64_t(1) << 63 && integer("WARP_SZ") == 32);
  CHECK(integer("(1+2*3)") == 7 && integer("2*3+4*5-1") == 25 && integer("-(2+3)*~0") == 5 && integer("+4") == 4);
  const auto real = [](const char* text) {
    const Operand parsed = operand(text);
    CHECK(parsed.kind == Operand::floating);
    return std::bit_cast<double>(parsed.value);
  };
  CHECK(real("0f3F800000") == 1 && real("0FBFA00000") == -1.25 && real("0d4004000000000000") == 2.5);
  CHECK(real("1.5e-3") == 1.5e-3 && real("-2.5") == -2.5 && real("3e2") == 300 && real("-0f3F800000") == -1);
  REFUSED_BODY(4, "does not fit", "mov.b64 %rd1, 18446744073709551616;");
  REFUSED_BODY(4, "no number", "mov.b64 %rd1, 0x;");
  REFUSED_BODY(4, "no number", "mov.b64 %rd1, 0xfg;");
  REFUSED_BODY(4, "no number", "mov.b64 %rd1, 08;");
  REFUSED_BODY(4, "no number", "mov.b64 %rd1, 0f3F80;");
  REFUSED_BODY(4, "no number", "mov.b64 %rd1, 1.5e;");
  REFUSED_BODY(4, "';' expected", "mov.b64 %rd1, 1.5.6;");
  REFUSED_BODY(4, "expected, not '~'", "mov.b64 %rd1, (4~2);");
  REFUSED_BODY(4, "an integer expected", "mov.b64 %rd1, (1.5+1);");
  REFUSED_BODY(4, "nested too deep", "mov.b64 %rd1, " + std::string(1000000, '(') + ";");
  REFUSED_BODY(4, "nested too deep", "mov.b64 %rd1, (" + std::string(1000000, '~') + "1);");
}

void test_operands() {
  Operand parsed = operand("%r3");
  CHECK(parsed.kind == Operand::reg && parsed.index == 4 + 3 && !parsed.address && !parsed.negated);
  CHECK(operand("_").kind == Operand::reg && operand("_").index == -1);
  CHECK(operand("!%p2").negated && operand("!%p2").index == 2 && operand("-%r0").negated);
  for (const char* const name : {"%tid.x", "%globaltimer", "%envreg2", "%lanemask_lt", "%clock64", "%ntid"})
    CHECK(operand(name).kind == Operand::special && operand(name).name == name);
  parsed = operand("[%rd1+-16]");
  CHECK(parsed.kind == Operand::reg && parsed.address && parsed.index == 13 + 1 && parsed.offset == -16);
  CHECK(operand("[%rd1-8]").offset == -8 && operand("[%rd1+8]").offset == 8 && operand("[%rd1]").offset == 0);
  parsed = operand("[g+8]");
  CHECK(parsed.kind == Operand::symbol && parsed.address && parsed.name == "g" && parsed.value == 8);
  parsed = operand("g+4");
  CHECK(parsed.kind == Operand::symbol && !parsed.address && parsed.value == 4);
  parsed = operand("[16+4]");
  CHECK(parsed.kind == Operand::integer && parsed.address && parsed.value == 20);
  CHECK(operand("[a]").name == "a" && operand("[a+4]").value == 4);
  parsed = operand("{%r1, _, 5}");
  CHECK(parsed.kind == Operand::list && parsed.elements.size() == 3 && parsed.elements[0].index == 5);
  CHECK(parsed.elements[1].index == -1 && parsed.elements[2].value == 5);
  parsed = operand("[%rd1, {%r1, %r2}]");  // of a tensor
  CHECK(parsed.kind == Operand::list && parsed.address && parsed.elements.size() == 2);
  CHECK(parsed.elements.back().elements.size() == 2);
  parsed = operand("%p1|%p2");
  CHECK(parsed.kind == Operand::list && parsed.elements.size() == 2 && parsed.elements[1].index == 2);
  CHECK(operand("_|%p0").elements[0].index == -1);
  REFUSED_BODY(4, "'%r9' is not declared", "mov.b32 %r9, 0;");
  REFUSED_BODY(4, "'%r01' is not declared", "mov.b32 %r01, 0;");
  REFUSED_BODY(5, "nothing is named 'nothing'", "\nmov.b64 %rd1, nothing;");
  REFUSED_BODY(4, "a number expected", "ld.u32 %r1, [%rd1+%rd2];");
  REFUSED_BODY(4, "no address", "ld.u32 %r1, [[%rd1]];");
  REFUSED_BODY(4, "']' expected", "ld.u32 %r1, [%rd1;");
  REFUSED_BODY(4, "nested too deep", "mov.b32 " + std::string(100000, '{') + ";");
  REFUSED_BODY(4, "nested too deep", "mov.b32 " + std::string(100000, '[') + ";");
  std::string pairs;
  for (int k = 0; k < 100000; ++k) pairs += "_|";
  REFUSED_BODY(4, "nested too deep", "mov.b32 " + pairs + "_;");
}

void test_instructions() {
  ptx::Instruction parsed = instruction("ret; @!%p1 ld.global.L1::no_allocate.v2.u32\t{%r1, %r2},\n[%rd1+8] ");
  CHECK(parsed.guard == 1 && parsed.guard_negated && parsed.opcode == "ld" && parsed.operands.size() == 2 &&
        parsed.line == 4);
  CHECK(parsed.modifiers == std::vector<std::string_view>({"global", "L1::no_allocate", "v2", "u32"}));
  CHECK(parsed.text == "@!%p1 ld.global.L1::no_allocate.v2.u32\t{%r1, %r2},\n[%rd1+8]");
  parsed = instruction(
      "@%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], "
      "[%rd1, {%r1, %r2}], [%r3]");
  CHECK(parsed.guard == 3 && !parsed.guard_negated && parsed.operands.size() == 3);
  CHECK(parsed.modifiers[3] == "2d" && parsed.modifiers[6] == "mbarrier::complete_tx::bytes");
  CHECK(instruction("ret").operands.empty() && instruction("ret").guard == -1);
  REFUSED_BODY(4, "is no predicate", "@%r1 ret;");
  REFUSED_BODY(5, "an operand expected, not '}'", "\nret");
  REFUSED_BODY(4, "an operand expected, not ';'", "add.u32 %r1,;");
  REFUSED_BODY(4, "an instruction expected, not '%r1'", "%r1 = 5;");
  REFUSED_BODY(4, "unexpected '#'", "#");
  REFUSED_BODY(4, "unexpected '.'", "mov. b32 %r1, 1;");
  REFUSED(5, "without its end", ".entry k {\nret;");
}

void test_calls() {
  const std::string parameters = ".param .b64 p; .param .b32 r;";
  ptx::Instruction parsed = instruction(parameters + "call.uni (r), f, (p, 3)");
  CHECK(parsed.operands.size() == 3 && parsed.operands[0].kind == Operand::list && parsed.operands[1].name == "f");
  CHECK(parsed.operands[0].elements[0].name == "r" && parsed.operands[2].elements[0].name == "p");
  CHECK(parsed.operands[2].elements[1].value == 3);
  CHECK(instruction("call f").operands.size() == 1);
  CHECK(instruction(parameters + "call f, (p)").operands[1].elements.size() == 1);
  CHECK(instruction("call f, ()").operands[1].elements.empty());
  parsed = instruction(parameters +
                       "proto: .callprototype (.param .b32 _) _ (.param .align 8 .b8 _[16]) .noreturn;"
                       "call (r), %rd1, (p), proto");
  CHECK(parsed.operands.size() == 4 && parsed.operands[1].kind == Operand::reg && parsed.operands[3].name == "proto");
  CHECK(instruction("table: .calltargets f; call %rd1, (), table").operands.size() == 3);
  REFUSED_BODY(4, "nothing is named 'h'", "call h;");
}

void test_labels() {
  ptx::Function parsed = kernel("bra.uni end; again: @%p1 bra again; end: ret; last:");
  CHECK(parsed.code.size() == 3 && parsed.code[0].operands[0].kind == Operand::label);
  CHECK(parsed.code[0].operands[0].index == 2 && parsed.code[1].operands[0].index == 1);
  parsed =
      kernel("brx.idx %r1, t1; t0: .branchtargets a; t1: .branchtargets a, b, a; a: ret; b: ret; brx.idx %r1, t0;");
  CHECK(parsed.branch_targets == std::vector<std::vector<int>>({{1}, {1, 2, 1}}));
  CHECK(parsed.code[0].operands[1].kind == Operand::symbol && parsed.code[0].operands[1].name == "t1");
  CHECK(parsed.code[0].operands[1].value == 1 && parsed.code[3].operands[1].value == 0);
  // A label belongs to its scope, and a scope sees those around it.
  parsed = kernel("{ bra l; l: ret; } { l: bra l; bra out; } l: bra l; out: ret;");
  CHECK(parsed.code[0].operands[0].index == 1 && parsed.code[2].operands[0].index == 2);
  CHECK(parsed.code[3].operands[0].index == 5 && parsed.code[4].operands[0].index == 4);
  REFUSED_BODY(4, "'l' is defined twice", "l: l: ret;");
  REFUSED_BODY(5, "nothing is named 'l'", "\nbra l; { l: ret; }");
  REFUSED_BODY(5, "no label 'l'", "\nt: .branchtargets l;");
  REFUSED_BODY(5, "is no place to go to", "t:\n.branchtargets t;");
  REFUSED_BODY(4, "is no value", "l: mov.b64 {%r1, l}, 0;");
}

void test_scopes() {
  ptx::Function parsed = kernel(
      "{ .reg .b32 t<2>, %r1; .param .b64 param0; mov.b32 t1, %r1; st.param.b64 [param0+0], %rd1; }"
      "{ .reg .f32 t; .param .b32 param0; mov.f32 t, 1.0; st.param.b32 [param0], %r1; }");
  CHECK(parsed.registers.size() == 17 + 3 + 1 && parsed.registers.back() == Type::f32);
  CHECK(parsed.registers[18] == Type::b32 && parsed.registers[19] == Type::b32 && parsed.registers[3] == Type::pred);
  CHECK(parsed.code[0].operands[0].index == 18 && parsed.code[0].operands[1].index == 19);
  CHECK(parsed.code[2].operands[0].index == 20 && parsed.code[3].operands[1].index == 5);
  CHECK(parsed.variables.size() == 2 && parsed.variables[0].name != parsed.variables[1].name);
  CHECK(parsed.code[1].operands[0].name == parsed.variables[0].name);
  CHECK(parsed.code[3].operands[0].name == parsed.variables[1].name && parsed.variables[1].size == 4);
  parsed = kernel(".shared .align 8 .b8 tile[64]; .local .f64 x, y; .reg .b32 q1<3>; mov.b32 q12, q10; ret;");
  CHECK(parsed.variables.size() == 3 && parsed.variables[0].space == ptx::Space::shared &&
        parsed.variables[0].size == 64);
  CHECK(parsed.variables[0].name == "tile" && parsed.variables[2].name == "y");
  CHECK(parsed.variables[2].space == ptx::Space::local);
  CHECK(parsed.code[0].operands[0].index == 17 + 2);
  REFUSED_BODY(4, "'%x' is not declared", "{ .reg .b32 %x; } mov.b32 %x, 1;");
  REFUSED_BODY(4, "is defined twice", ".reg .b32 x; .reg .b32 x;");
  REFUSED_BODY(4, "is defined twice", ".reg .b32 %r<3>;");
  REFUSED_BODY(4, "is defined twice", ".local .u32 a;");
  REFUSED_BODY(4, "no type of a register", ".reg .v3 .b32 x;");
  REFUSED_BODY(4, "is too large", ".reg .b32 %x<4000000000>;");
  REFUSED_BODY(4, "more registers", ".reg .b32 %x<200000000>;");
  REFUSED_BODY(4, "more registers", ".reg .b32 %x<1000000>, %y<2000000>, %z<2000000>;");
  REFUSED_BODY(4, "nested too deep", std::string(1000000, '{'));
  REFUSED_BODY(4, "an instruction or a declaration expected", ".extern .global .u32 x;");
}

void test_functions() {
  const ptx::Module module = read(
      ".extern .func (.param .b32 r) vprintf (.param .b64 x, .param .b64 y);\n"
      ".weak .func (.param .align 8 .b8 r[16]) twice (.param .b32 x) .noreturn;\n"
      ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 4 .b8 b[12], .param .u8 c)\n"
      ".maxntid 16, 8, 2 .minnctapersm 2 .maxnreg 64 .pragma \"nounroll\";\n{ ret; }\n"
      ".weak .func (.param .align 8 .b8 r[16]) twice (.param .b32 x) { .pragma \"nounroll\";\n.loc 1 2 3\n"
      ".loc 1 2 3, function_name $L_info + 4, inlined_at 1 5 6\nret; ;; }\n"
      ".entry l() .reqntid 32 .reqnctapercluster 2, 1, 1 .explicitcluster .maxclusterrank 8 { exit; }");
  CHECK(module.functions.size() == 4);
  if (module.functions.size() != 4) return;
  CHECK(module.functions[0].name == "vprintf" && module.functions[0].is_declared_only && !module.functions[0].is_entry);
  CHECK(module.functions[0].parameters.size() == 2 && module.functions[0].returns[0].name == "r");
  CHECK(module.functions[1].name == "twice" && !module.functions[1].is_declared_only);
  CHECK(module.functions[1].returns[0].size == 16 && module.functions[1].returns[0].alignment == 8);
  const ptx::Function& kernel = module.functions[2];
  CHECK(kernel.is_entry && kernel.max_threads == 256 && kernel.parameters.size() == 3 && kernel.code.size() == 1);
  CHECK(kernel.parameters[0].type == Type::u64 && kernel.parameters[0].alignment == 8);
  CHECK(kernel.parameters[1].size == 12 && kernel.parameters[1].alignment == 4 && kernel.parameters[2].size == 1);
  CHECK(kernel.parameters[2].space == ptx::Space::param);
  CHECK(module.functions[3].required_threads[0] == 32 && !module.functions[3].max_threads &&
        module.functions[3].parameters.empty());
  REFUSED(5, "'f' is defined twice", ".func f { ret; }\n.func f { ret; }");
  REFUSED(5, "'f' is defined twice", ".func f { ret; }\n.func f;");
  CHECK(!read(".visible .func f;\n.visible .func f { ret; }").functions[0].is_declared_only);
  for (const char* const linkage : {"", ".extern ", ".weak "})
    REFUSED(5, "Inconsistent redefinition", linkage + std::string(".func f;\n.visible .func f { ret; }"));
  REFUSED(4, "'x' is defined twice", ".func f(.param .b32 x, .param .b32 x);");
  REFUSED(4, "a parameter expected", ".entry f(.reg .b32 x);");
  REFUSED(4, "no directive of a function", ".entry f .maxthreads 3 {}");
  REFUSED(4, "a function or a variable expected", ".alias f, g;");
}

// The source of each instruction of the first function, as "file:line < where it was inlined < ...".
std::vector<std::string> sources(const std::string& text) {
  std::vector<std::string> all;
  const ptx::Module parsed = read(text);
  if (parsed.functions.empty()) return all;
  for (const ptx::Instruction& i : parsed.functions[0].code) {
    std::string& chain = all.emplace_back();
    for (const ptx::Location* at = i.source; at; at = at->inlined_at)
      chain += (chain.empty() ? "" : " < ") + std::string(*at->file) + ":" + std::to_string(at->line);
  }
  return all;
}

void test_locations() {
  const auto expect = [](const std::string& body, const std::vector<std::string>& wanted) {
    const std::string names = "\n.file 1 \"a.cu\", 12, 34\n.file 2 \"/x/b.h\"\n";
    for (const std::string& text : {".entry k {" + body + "}" + names, names + ".entry k {" + body + "}"})
      CHECK(sources(text) == wanted);
  };
  expect("ret; .loc 1 5 0 .loc 2 7 3 ret; ret; { .loc 1 8 1 ret; } ret;",
         {"", "/x/b.h:7", "/x/b.h:7", "a.cu:8", "a.cu:8"});
  expect(".loc 1 0 3 ret; .loc 3 5 1 ret;", {"", ":5"});  // no line; no file of this number
  const std::string in = ", function_name $L_info + 4, inlined_at ";
  expect(".loc 2 3 3" + in + "1 8 5 ret; .loc 2 0 0" + in + "1 8 5 ret;", {"/x/b.h:3 < a.cu:8", "a.cu:8"});
  // f, inlined into k in lines 8 and 9 and columns 5 and 6, calls g in its lines 3 and 4; g has lines 1 and 2.
  const std::string f8 = ".loc 1 3 3" + in + "1 8 5 ", f9 = ".loc 1 3 3" + in + "1 9 6 ";
  const std::string g1 = ".loc 2 1 1" + in + "1 3 3 ret; ", g2 = ".loc 2 2 1" + in + "1 3 3 ret; ";
  expect(f8 + g1 + ".loc 1 8 1 ret; " + f8 + g2,
         {"/x/b.h:1 < a.cu:3 < a.cu:8", "a.cu:8", "/x/b.h:2 < a.cu:3 < a.cu:8"});
  expect(f8 + g1 + f9 + g1 + g2, {"/x/b.h:1 < a.cu:3 < a.cu:8", "/x/b.h:1 < a.cu:3 < a.cu:9", "/x/b.h:2 < a.cu:3"});
  expect(f8 + "ret; " + g1, {"a.cu:3 < a.cu:8", "/x/b.h:1 < a.cu:3 < a.cu:8"});
  expect(f8 + "ret; " + f9 + "ret; " + g1, {"a.cu:3 < a.cu:8", "a.cu:3 < a.cu:9", "/x/b.h:1 < a.cu:3"});
  expect(f8 + g1 + ".loc 1 4 3" + in + "1 9 6 .loc 2 1 1" + in + "1 4 3 ret;",
         {"/x/b.h:1 < a.cu:3 < a.cu:8", "/x/b.h:1 < a.cu:4 < a.cu:9"});
  expect(".loc 1 5 0 ret; .loc 1 6 0" + in + "0 0 0 ret;", {"a.cu:5", "a.cu:6"});
  // What one function says does not hold for the next.
  const std::string before = ".func g; .func f { .loc 1 3 3" + in + "1 8 5 ret; .loc 1 5 0 } .file 1 \"a.cu\" ";
  CHECK(sources(before + ".func g { ret; .loc 1 7 0" + in + "1 3 3 ret; }") ==
        std::vector<std::string>({"", "a.cu:7 < a.cu:3"}));
  CHECK(sources(before + ".func g { .loc 1 7 0" + in + "1 5 0 ret; }") ==
        std::vector<std::string>({"a.cu:7 < a.cu:5"}));
  REFUSED(4, "the name of a file", ".file 1 a");
  REFUSED(4, "a number expected", ".file \"a\"");
  REFUSED(4, "a number expected", ".loc 1 2 .func f;");
  REFUSED(5, "too large", "\n.loc 1 2147483648 1");
  REFUSED(4, "too large", ".loc 1 -2 1");
  REFUSED_BODY(4, "a number expected", ".loc 1 2 3, inlined_at 4 5, ret;");
  REFUSED_BODY(4, "a label expected", ".loc 1 2 3, function_name 4");
  REFUSED_BODY(4, "function_name or inlined_at expected", ".loc 1 2 3, inlined 1 2 3");
}

// What ptxas 13.0 takes and refuses; what it says of whole texts is in conformance/.
const char* const taken[] = {
    "add.u32 %r1, %r1, -1;", "mad.wide.u32 %rd1, %r1, 4, %rd1;", "mov.b64 {%r1, _}, %rd1;", "mov.b32 %r1, %f1;",
    "setp.eq.and.u32 %p1|_, %r1, 1, !%p2;", "ld.global.nc.L1::no_allocate.v4.f32 {%f1, %f2, %f3, _}, [%rd1+16];",
    "cvt.rzi.s32.f32 %r1, %f1;", "cvt.u64.u32 %rd1, %tid.x;", "st.shared.u8 [room], %r1;",
    "atom.global.cas.b64 %rd1, [%rd1], %rd1, %rd1;", "selp.f32 %f1, 0f00000000, %f1, %p1;",
    "fence.proxy.async.shared::cta;", "mov.u16 %h1, %ctaid.x;", "prmt.b32 %r1, %r1, 0, 0x3210;",
    // As ptxas 13.0 takes them: modifiers in another order or twice, operands that seem too many or too wide.
    "add.f32.sat.rn %f1, %f1, %f1;", "add.sat.sat.s32 %r1, %r1, %r1;", "fma.rn.oob.relu.f16 %h1, %h1, %h1, %h1;",
    "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;", "cvt.f32.bf16 %f1, %h1;", "cvt.rni.sat.f64.f64 %d1, %d2;",
    "cvt.pack.sat.s4.s32.b32 %r1, %r1, %r2, %r3;", "cvt.u32.u64 %r1, %clock64;", "cvt.rn.f16.f32 %r1, %f1;",
    "createpolicy.cvt.L2.b64 %rd1, 0x10F0000000000000;", "createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;",
    "createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd1, [%rd2], 128, 256;",
    "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0, %r2;",
    "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r1], %r2;",
    "cp.async.cg.shared.global.L2::cache_hint.L2::64B [%r1], [%rd1], 16, %r2, %rd2;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [%r1], "
    "[%rd1], 16, [%r2], %h1, %rd2;",
    "multimem.ld_reduce.weak.global.add.acc::f32.v4.f16 {%h0, %h1, %h2, %h3}, [%rd1];",
    "multimem.red.relaxed.gpu.global.add.v2.f32 [%rd1], {%f1, %f2};",
    "red.async.relaxed.cluster.shared::cluster."
    "mbarrier::complete_tx::bytes.add.s64 [%r1], %rd1, [%r2];",
    "lop3.and.b32 _|%p1, %r1, %r1, %r1, 7, !%p2;", "shfl.sync.up.b32 %r1|_, %f1, 1, 0, -1;",
    "setp.eq.or.b32 _|%p1, %r1, 1, %p2;", "mapa.u64 %rd1, room, 1;",
    "atom.relaxed.gpu.global.add.v2.f32 {%f1, %f2}, [%rd1], {%f1, %f2};", "atom.global.exch.b32 _, [%rd1], %f1;",
    "vmad.s32.s32.s32.sat.shr7 %r1, %r2.h0, %r3.b1, -%r4;", "vset4.s32.s32.lt.add %r1, %r2, %r3.b0123, %r4;",
    "ld.mmio.relaxed.sys.global.u32 %r1, [%rd1];", "mov.pred %p1, %is_explicit_cluster;",
    "p: .callprototype _ (); call %rd1, (), p;", "mov.u64 %rd1, %pm0_64;",
    "fence.acquire.sync_restrict::shared::cluster.cluster;", "fence.release.sync_restrict::shared::cta.cluster;",
    "slct.ftz.u32.f32 %r1, %r1, %r1, %f1;", "slct.u32.s32 %r1, %r1, %r1, %r1;",
    "ldu.global.v4.u32 {%r1, %r1, %r1, %r1}, [%rd1];",
    "mbarrier.arrive_drop.noComplete.release.cta.shared.b64 %rd1, [%r1], %r1;"};
const char* const refused[] = {
    "addd.u32 %r1, %r1, %r1;", "add.u32 %r1, %rd1, %r1;", "add.f32 %f1, %f1, 1;", "mul.u32 %r1, %r1, %r1;",
    "ld.global.v2.u32 %r1, [%rd1];", "cvt.f32.f64 %f1, %d1;", "setp.xx.u32 %p1, %r1, %r1;", "wgmma.fence.sync.aligned;",
    "mov.u64 %rd1, %tid.x;", "ld.global.u64 %r1, [%rd1];", "shl.b32 %r1, %r1, %rd1;", "bra %r1;",
    // A modifier that is missing, twice, out of its place or of another form.
    "shf.l.r.wrap.b32 %r1, %r1, %r1, %r1;", "shf.wrap.l.b32 %r1, %r1, %r1, %r1;", "mul.u32.lo %r1, %r1, %r1;",
    "cp.async.shared.global [%r1], [%rd1], 16;", "cp.async.ca.global.shared [%r1], [%rd1], 16;",
    "ld.relaxed.u32 %r1, [%rd1];", "ld.gpu.u32 %r1, [%rd1];", "ld.global.ca.cg.u32 %r1, [%rd1];",
    "ld.volatile.const.u32 %r1, [%rd1];", "ld.shared.L2::64B.u32 %r1, [%r1];", "ld.nc.u32 %r1, [%rd1];",
    "ld.mmio.relaxed.gpu.global.u32 %r1, [%rd1];", "ld.v2.b128 {_, _}, [%rd1];", "st.global.ca.u32 [%rd1], %r1;",
    "st.acquire.gpu.u32 [%rd1], %r1;", "cvt.rn.s32.f32 %r1, %f1;", "cvt.s32.f32 %r1, %f1;",
    "cvt.sat.u64.u32 %rd1, %r1;", "cvt.rn.f32.f16 %f1, %h1;", "cvt.rn.e4m3x2.f32 %h1, %f1, %f2;",
    "cvt.f32.rzi.u32 %r1, %f1;", "lop3.and.b32 %r1, %r1, %r1, %r1, 7, %p1;",
    "lop3.xor.b32 %r1|%p1, %r1, %r1, "
    "%r1, 7, %p1;",
    "barrier.cluster;", "barrier.cluster.arrive.wait;", "barrier.cluster.wait.release;", "bar.sync.arrive 0, 32;",
    "bar.sync.aligned 0;", "bar.red.popc.s32 %r1, 0, %p1;", "bar.arrive 0;", "createpolicy.fractional.b64 %rd1;",
    "createpolicy.fractional.L2::evict_unchanged.L2::evict_last.b64 %rd1;",
    "atom.global.add.noftz.f32 %f1, [%rd1], %f1;", "atom.global.add.f16 %h1, [%rd1], %h1;",
    "atom.shared.add.v2.f32 {%f1, %f2}, [%r1], {%f1, %f2};", "red.global.exch.b32 [%rd1], %r1;",
    "red.acquire.gpu.global.add.u32 [%rd1], %r1;", "redux.sync.add.b32 %r1, %r1, -1;", "fence.gl;",
    "fence.mbarrier_init.release.gpu;", "membar.cluster;", "mbarrier.init.shared::cluster.b64 [%r1], 1;",
    "mbarrier.arrive.release.shared.b64 %rd1, [%r1];", "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];",
    "mbarrier.test_wait.shared.b64 %p1, [%r1], %rd1, 10;", "multimem.ld_reduce.relaxed.global.add.u32 %r1, [%rd1];",
    "multimem.red.min.f16x2 [%rd1], %r1;", "multimem.st.v2.u32 [%rd1], {%r1, %r2};",
    "set.lo.u32.s32 %r1, %r1, "
    "%r2;",
    "setp.lt.b32 %p1, %r1, %r2;", "setp.eq.and.u32 %p1, %r1, %r2;", "max.xorsign.f32 %f1, %f1, %f1;",
    "min.relu.u32 %r1, %r1, %r1;", "fma.rn.oob.f32 %f1, %f1, %f1, %f1;", "sqrt.approx.f64 %d1, %d1;",
    "prefetch.shared.L1 [%r1];", "isspacep.param::func %p1, %rd1;", "vadd2.s32.s32.s32.sat.add %r1, %r1, %r1, %r1;",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%rd1], 16, [%r2], 1;",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd1], [%r1], 16;",
    "st.async.weak.cluster.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];",
    // An operand of another kind, and one that is too large.
    "add.u32 %r1, -%r1, %r1;", "add.u32 %r1, %tid.x, %r1;", "add.u64 %rd1, g, %rd1;", "add.u32 _, %r1, %r1;",
    "add.u32 %r1, [%rd1], %r1;", "add.u32 %r1.b0, %r1, %r1;", "add.bf16 %h1, %h1, 1.5;", "st.u64 [%rd1], g;",
    "mov.u32 %r1, {%h0, %h1};", "mov.f32 %f1, %tid.x;", "mov.u32 %r1, %is_explicit_cluster;", "mov.pred %p1, %tid.x;",
    "cvt.rn.f32.u32 %f1, %tid.x;", "elect.sync %r1, -1;", "shfl.sync.up.b32 _|%p1, %r1, 1, 0, -1;",
    "shfl.sync.up.b32 %r1, %r1, 1, 0;", "st.v2.u32 [%rd1], {%r1, _};", "isspacep.global 7, %rd1;", "brx.idx %r1, 7;",
    "bar.sync 16;", "bar.sync 0, 33;", "bfe.u32 %r1, %r1, 256, 1;", "cp.async.ca.shared.global [%r1], [%rd1], 3;",
    "cp.async.cg.shared.global [%r1], [%rd1], 8;", "cp.async.bulk.prefetch.L2.global [%rd1], 15;",
    "discard.global.L2 [%rd1], 64;", "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 2;", "pmevent %r1;",
    // An address of 32 bits where one may be of global memory, and a name that lies elsewhere.
    "red.add.u32 [%r1], %r1;", "mbarrier.init.b64 [%r1], 1;", "prefetch.L1 [%r1];", "multimem.st.u32 [%r1], %r1;",
    "call %rd1, ();", "call %r1, (), %rd1;", "call g;", "call 7;", "mov.u32 %r1, g;", "st.param.b32 [%rd1], %r1;",
    "slct.ftz.u32.s32 %r1, %r1, %r1, %r1;", "ldu.global.v8.u32 {%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1}, [%rd1];",
    "fence.acquire.sync_restrict::shared::cta.cluster;", "fence.release.sync_restrict::shared::cluster.cluster;",
    "mbarrier.arrive_drop.noComplete.relaxed.cta.shared.b64 %rd1, [%r1], %r1;",
    "mbarrier.arrive.noComplete.release.cluster.shared.b64 %rd1, [%r1], %r1;", "discard.global.L2 [%r1], 128;",
    "atom.global.inc.u32 %r1, [%r1], %r1;", "ldu.global.u32 %r1, [%r1];", "ld.global.u32 %r1, [room];",
    "ld.u32 %r1, [a];", "st.shared.u32 [g], %r1;", "mapa.u64 %rd1, g, 1;",
    "cp.async.ca.shared.global [%r1], [room], 16;",
    "red.async.relaxed.cluster.shared::cluster."
    "mbarrier::complete_tx::bytes.inc.u32 [g], %r1, [%r2];"};

// Whether a kernel with this body is taken.
bool takes(const std::string& body) {
  try {
    const std::string registers = ".reg .b16 %h<4>; .reg .f32 %f<4>; .reg .f64 %d<4>; .shared .b8 room[64];";
    ptx::check(ptx::parse(".version 9.0\n.target sm_90\n.address_size 64\n.global .u32 g[4];\n" + kernel_begin +
                          registers + body + "}"),
               90);
    return true;
  } catch (const ptx::Error&) {
    return false;
  }
}
void test_checks() {
  for (const char* const body : taken)
    if (!takes(body)) ++failures, std::printf("refused: %s\n", body);
  for (const char* const body : refused)
    if (takes(body)) ++failures, std::printf("taken: %s\n", body);
  const auto takes_parameters = [](const std::string& version, unsigned bytes) {
    try {
      ptx::check(
          ptx::parse(".version " + version + "\n.target sm_90\n.address_size 64\n.visible .entry k(.param .b8 x[" +
                     std::to_string(bytes) + "]) { ret; }\n"),
          90);
      return true;
    } catch (const ptx::Error&) {
      return false;
    }
  };
  CHECK(takes_parameters("8.0", 4352) && !takes_parameters("8.0", 4353));
  CHECK(takes_parameters("8.1", 32764) && !takes_parameters("8.1", 32765));
}

void test_variables() {
  ptx::Variable parsed = variable(".visible .global .align 16 .b8 x[40];");
  CHECK(parsed.name == "x" && parsed.alignment == 16 && parsed.size == 40 && parsed.initial.empty());
  CHECK(parsed.space == ptx::Space::global && parsed.type == Type::b8 && parsed.linkage == ptx::Linkage::visible &&
        !parsed.is_managed);
  parsed = variable(".const .s32 x[2][3] = {{1, -2}, {0x3}};");
  CHECK(parsed.space == ptx::Space::constant && parsed.size == 24 && parsed.alignment == 4);
  CHECK(value_at<int>(parsed, 0) == 1 && value_at<int>(parsed, 4) == -2 && value_at<int>(parsed, 12) == 3);
  parsed = variable(".global .f64 x[] = {1.5e-3, 0d3FF0000000000000, -7};");
  CHECK(parsed.size == 24 && value_at<double>(parsed, 0) == 1.5e-3 && value_at<double>(parsed, 16) == -7);
  CHECK(value_at<float>(variable(".global .f32 x = 0fBFA00000;"), 0) == -1.25f);
  CHECK(value_at<uint32_t>(variable(".global .b32 x = 0f3F800000;"), 0) == 0x3f800000);
  CHECK(value_at<float>(variable(".global .v2 .f32 x = {1.0, 2.0};"), 4) == 2);
  CHECK(variable(".global .v4 .f32 x[3];").size == 48 && variable(".global .v4 .f32 x;").alignment == 16);
  CHECK(variable(".global .attribute(.managed) .u32 x = 7;").is_managed);
  CHECK(variable(".global .attribute(.unified(19, 95), .managed) .u16 x[2][3][4];").size == 48);
  parsed = variable(".extern .shared .align 16 .b8 x[];");
  CHECK(parsed.linkage == ptx::Linkage::external && parsed.size == 0 && parsed.alignment == 16 &&
        parsed.space == ptx::Space::shared);
  CHECK(variable(".extern .global .u32 x; .visible .global .u32 x = 5;").initial.size() == 4);
  CHECK(variable(".visible .global .u32 x = 5; .extern .global .u32 x;").initial.size() == 4);
  const ptx::Module several = read(".global .align 8 .u16 x, y[3] = {1}, z;");
  CHECK(several.variables.size() == 3 && several.variables[1].size == 6 && several.variables[2].alignment == 8);

  parsed = variable(".global .align 8 .u64 x[5] = {1, other, generic(other)+8, other+4, generic(other+2)};");
  CHECK(parsed.relocations.size() == 4 && value_at<uint64_t>(parsed, 0) == 1);
  if (parsed.relocations.size() == 4) {
    CHECK(parsed.relocations[0].at == 8 && parsed.relocations[0].symbol == "other" &&
          parsed.relocations[0].offset == 0);
    CHECK(parsed.relocations[1].at == 16 && parsed.relocations[1].offset == 8);
    CHECK(parsed.relocations[2].offset == 4 && parsed.relocations[3].offset == 2);
  }
  const std::string bytes =
      "0XFF(generic(other)+1), 0xFF00(generic(other)+1), 0xFF0000(generic(other)+1), "
      "0xFF000000(generic(other)+1), 0xFF00000000(generic(other)+1), 0xFF0000000000(generic(other)+1), "
      "0xFF000000000000(generic(other)+1)";
  const std::string last = ", 0xFF00000000000000(generic(other)+1)";
  parsed = variable(".global .align 1 .u8 x[10] = {1, " + bytes + last + ", 2};");
  CHECK(parsed.relocations.size() == 1 && parsed.relocations[0].at == 1 && parsed.relocations[0].offset == 1);
  CHECK(parsed.size == 10 && value_at<uint8_t>(parsed, 9) == 2);
  REFUSED(4, "a part of an address is missing", ".global .u32 other; .global .u8 x[] = {" + bytes + "};");
  REFUSED(4, "out of order", ".global .u32 other; .global .u8 x[9] = {0xFF(other), 0xFF0000(other)};");
  REFUSED(4, "an address has 64 bits", ".global .u32 other; .global .u32 x = other;");
  REFUSED(5, "nothing is named 'other'", "\n.global .u64 x = other;");
  REFUSED(4, "too many initial values", ".global .u32 x[2] = {1, 2, 3};");
  REFUSED(4, "neither f32 nor f64", ".global .u16 x = 1.5;");
  REFUSED(4, "has no size", ".global .u32 x[];");
  REFUSED(4, "has no size", ".global .u32 x[0];");
  REFUSED(4, "is too large", ".global .u64 x[1000000000000];");
  REFUSED(4, "is too large", ".global .u64 x[1000000][1000000];");
  REFUSED(4, "is too large", ".global .b8 x[0x100000000][0x100000000];");
  REFUSED(4, "more registers or initial values", ".global .b8 x[2][1000000000] = {{1}, {1}};");
  REFUSED(4, "too many initial values", ".global .b8 x[][0x10000000000] = {{}, {}, {}, {1}};");
  REFUSED(4, "power of two", ".global .align 3 .u32 x;");
  REFUSED(4, "is too large", ".global .align 0x40000000 .u32 x;");
  REFUSED(4, "no type of a variable", ".global .pred x;");
  REFUSED(4, "no type of a variable", ".global .texref x;");
  REFUSED(4, "a type expected", ".global x;");
  REFUSED(4, "is defined twice", ".global .u32 x; .global .u32 x;");
}

void test_broken_modules() {
  refuse(__LINE__, "'.version' expected, not the end", "", 1);
  refuse(__LINE__, "'.version' expected", "\n\nhello", 3);
  refuse(__LINE__, "Missing .target directive", ".version 9.0\n", 2);
  refuse(__LINE__, "Target architecture not defined", ".version 9.0\n.target debug\n.address_size 64", 2);
  refuse(__LINE__, "no version of PTX", ".version 9", 1);
  REFUSED(5, "a comment without its end", "\n/* never");
  REFUSED(4, "a string without its end", ".pragma \"x\n\";");
  REFUSED(4, "a .section without its end", ".section .debug_info { {}");
  REFUSED(4, "32-Bit addressing", ".address_size 32");
  REFUSED(4, "unexpected '?'", "\x01");
  std::string cut = header + ".func f; .global .u64 x[2] = {1, generic(x)+8};" + kernel_begin +
                    "{ .reg .pred p; l: @p bra l; } call f; t: .branchtargets e; brx.idx %r1, t; e: ret; }";
  for (size_t size = 0; size <= cut.size(); ++size) try_ptx(cut.substr(0, size));  // wherever it ends
}

std::string fat_binary(const std::string& payload, uint64_t flags, uint64_t size) {
  std::string bytes(16 + 64, '\0');
  const auto put = [&](size_t at, auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
  const uint64_t stored = (payload.size() + 7) / 8 * 8;
  put(0, uint32_t(0xba55ed50)), put(4, uint16_t(1)), put(6, uint16_t(16)), put(8, 64 + stored);
  put(16, uint16_t(1)), put(20, uint32_t(64)), put(24, stored), put(44, uint32_t(75)), put(56, flags);
  put(32, static_cast<uint32_t>(flags ? payload.size() : 0)), put(72, size);
  bytes += payload;
  bytes.resize(16 + 64 + stored);
  return bytes;
}

std::string refusal(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());  // so that a sanitizer sees what is read beyond the end
  try {
    for (const ptx::Image& image : ptx::read_fat_binary(std::as_bytes(std::span(exact)))) ptx::unpacked(image);
    return "";
  } catch (const ptx::Error& error) {
    return error.what();
  }
}

void test_fat_binaries() {
  const std::string text = header + ".entry k { ret; }", plain = fat_binary(text, 0, 0);
  CHECK(ptx::fat_binary_size(plain.data()) == plain.size());
  const auto images = ptx::read_fat_binary(std::as_bytes(std::span(plain)));
  CHECK(images.size() == 1 && images[0].is_ptx && images[0].architecture == 75 && ptx::unpacked(images[0]) == text);
  std::string lto = plain;
  lto[16] = 8;
  CHECK(ptx::read_fat_binary(std::as_bytes(std::span(lto)))[0].is_lto && !images[0].is_lto);
  for (size_t size = 0; size < plain.size(); ++size)
    CHECK(refusal(plain.substr(0, size)).find("cut off") != std::string::npos);
  for (size_t at = 0; at < plain.size(); ++at)  // each byte damaged
    for (const char value : {'\0', '\x7f', '\xff'}) {
      std::string damaged = plain;
      damaged[at] = value;
      refusal(damaged);
    }
  std::string damaged = plain;
  damaged[0] = 'x';
  CHECK(refusal(damaged).find("no fat binary") != std::string::npos);
  damaged = plain, damaged[26] = 1;
  CHECK(refusal(damaged).find("larger than the fat binary") != std::string::npos);
  damaged = plain, damaged[21] = '\xff';
  CHECK(refusal(damaged).find("larger than the fat binary") != std::string::npos);
  CHECK(refusal(fat_binary(text, 0x8011, uint64_t(1) << 40)).find("too large") != std::string::npos);
  const auto little_endian = [](uint64_t value, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&value), bytes);
  };
  // A zstd frame of one raw block, with its size; an LZ4 block of literals alone.
  const std::string zstd =
      "\x28\xb5\x2f\xfd\xa0" + little_endian(text.size(), 4) + little_endian(text.size() << 3 | 1, 3) + text;
  CHECK(text.size() > 15 && text.size() < 15 + 255);
  const std::string lz4 = "\xf0" + little_endian(text.size() - 15, 1) + text;
  for (const auto& [compressed, flags] : {std::pair(zstd, 0x8011), std::pair(lz4, 0x2011)}) {
    const std::string packed = fat_binary(compressed, flags, text.size());
    const auto found = ptx::read_fat_binary(std::as_bytes(std::span(packed)));
    CHECK(found.size() == 1 && ptx::unpacked(found[0]) == text);
    for (const uint64_t size : {text.size() - 1, text.size() + 1})
      CHECK(refusal(fat_binary(compressed, flags, size)).find("damaged") != std::string::npos);
    for (size_t size = 0; size < compressed.size(); ++size)
      CHECK(refusal(fat_binary(compressed.substr(0, size), flags, text.size())).find("damaged") != std::string::npos);
    CHECK(refusal(fat_binary(text, flags, text.size())).find("damaged") != std::string::npos);
  }
}

// What tests/conformance/linking.cu does not see: names that no module has, and where the instructions point to.
void test_linking() {
  const auto unit = [](const std::string& body) {
    return ptx::parse(header + ".global .u32 x = 7;\n.global .u64 p = x;\n.func own() { ret; }\n" + body);
  };
  ptx::Linker linker;
  linker.add(unit(".visible .entry a() { .shared .u32 x; .reg .u32 %r; ld.shared.u32 %r, [x]; call own, (); ret; }"),
             "first");
  linker.add(unit(".extern .global .u32 y; .visible .entry b() { .reg .u32 %r; ld.global.u32 %r, [y]; "
                  "ld.global.u32 %r, [x]; call own, (); ret; }"),
             "second");
  CHECK(linker.undefined({}) == "Undefined reference to 'y' in 'second'" && linker.undefined({"y"}).empty());
  const ptx::Module parsed = linker.finish();
  CHECK(parsed.target == 90 && parsed.functions.size() == 4 && parsed.variables.size() == 5);
  if (parsed.functions.size() != 4 || parsed.variables.size() != 5) return;
  const auto &a = parsed.functions[1], &b = parsed.functions[3];
  CHECK(a.name == "a" && a.code[0].operands[1].name == "x" && a.code[1].operands[0].name == "own");
  const std::string renamed = parsed.variables[2].name;
  CHECK(renamed != "x" && parsed.variables[3].relocations[0].symbol == renamed);
  CHECK(b.name == "b" && b.code[0].operands[1].name == "y" && b.code[1].operands[1].name == renamed);
  CHECK(b.code[2].operands[0].name == parsed.functions[2].name && parsed.functions[2].name != "own");
  CHECK(b.code[1].text == "ld.global.u32 %r, [x]");

  ptx::Linker units;  // the launch's own shared memory is aligned as the strictest wants it, for the newest target
  for (const char* text : {".target sm_90\n.address_size 64\n.extern .shared .align 16 .b8 room[];",
                           ".target sm_75\n.address_size 64\n.extern .shared .align 64 .b8 room[];"})
    units.add(ptx::parse(std::string(".version 7.8\n") + text), text);
  const ptx::Module both = units.finish();
  CHECK(both.target == 90 && both.variables.size() == 1 && both.variables[0].alignment == 64);
}

void test_choice() {
  const auto image = [](bool is_ptx, unsigned architecture) {
    ptx::Image parsed;
    parsed.is_ptx = is_ptx, parsed.architecture = architecture;
    return parsed;
  };
  const std::vector<ptx::Image> all = {image(true, 75), image(true, 90), image(false, 89), image(true, 100)};
  CHECK(ptx::newest_ptx(all, 90) == &all[1] && ptx::newest_ptx(all, 89) == &all[0]);
  CHECK(!ptx::newest_ptx(all, 70) && !ptx::newest_ptx({}, 90));
  CHECK(ptx::why_none(std::span(all).last(2), 90).find("it holds PTX for compute_100, machine code for sm_89, and ") !=
        std::string::npos);
  ptx::Image lto = image(false, 90);
  lto.is_lto = true;
  const std::string why = ptx::why_none({&lto, 1}, 90);
  CHECK(why.find("LTO code for lto_90") != why.npos && why.find("without -dlto") != why.npos);
}

// The fat binaries in a program that nvcc built: found by their magic.
void test_program(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> program((std::istreambuf_iterator<char>(file)), {});
  const std::span bytes = std::as_bytes(std::span(program));
  bool is_for_75 = false, is_for_90 = false;
  for (size_t at = 0; at + 16 <= bytes.size(); at += 8) {
    const uint32_t magic = 0xba55ed50;
    if (std::memcmp(&bytes[at], &magic, sizeof magic) != 0) continue;
    try {
      for (const ptx::Image& image : ptx::read_fat_binary(bytes.subspan(at, ptx::fat_binary_size(&bytes[at])))) {
        if (!image.is_ptx) continue;
        const std::string text = ptx::unpacked(image);
        const ptx::Module module = ptx::parse(text);
        check_module(module);
        size_t kernels = 0;
        for (const ptx::Function& function : module.functions) kernels += function.is_entry && !function.code.empty();
        CHECK((kernels > 0) == (text.find(".entry") != text.npos) && module.target == image.architecture);
        is_for_75 |= image.architecture == 75;
        is_for_90 |= image.architecture == 90;
      }
    } catch (const ptx::Error& error) {
      ++failures;
      std::printf("%s: %s\n", path, error.what());
    }
  }
  if (!is_for_75 || !is_for_90) ++failures, std::printf("%s: no PTX for 75 and for 90 was found in it\n", path);
}

}  // namespace

int main(int count, char** arguments) {
  test_module();
  test_numbers();
  test_operands();
  test_instructions();
  test_calls();
  test_labels();
  test_scopes();
  test_functions();
  test_locations();
  test_checks();
  test_variables();
  test_broken_modules();
  test_fat_binaries();
  test_linking();
  test_choice();
  for (int k = 1; k < count; ++k) test_program(arguments[k]);
  return end_of_checks();
}
