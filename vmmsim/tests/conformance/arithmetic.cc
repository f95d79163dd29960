// SPDX-License-Identifier: MIT-0
// What the GPU computes: each instruction of PTX over some thousand inputs, special ones and random ones, and a hash of
// all results. Of the instructions that are only approximate: whether they keep within a bound.
//
//   arithmetic           a line for each instruction
//   arithmetic add.s32   its inputs and results, to find out where two machines differ
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>
#include "check.h"

// An instruction: "{a,b}" in its name stands for a and for b. The operands, the destination first, by letters:
//   h 16 bits, r 32, l 64; H, R, L the same but not 0; s a 32-bit number up to 80; c one from 0 to 3
//   f f32, d f64, e f16, E f16x2, b bf16, B bf16x2
// The body: $0 stands for the destination, $1 ... for the sources, $n for the name. %p1 to %p3, %x1 to %x4 (32 bits),
// %y1 to %y4 (64 bits) and %z1 to %z4 (16 bits) are free. Without a body it is the instruction with its operands.
struct Row {
  const char *names, *operands, *body = nullptr;
};

static const char* const predicates =  // which of the two is set
    "selp.b32 %x1, 1, 0, %p1; selp.b32 %x2, 2, 0, %p2; or.b32 $0, %x1, %x2;";

static const Row rows[] = {
    // Integers
    {"{add,sub}.{u16,s16}", "hhh"},
    {"{add,sub}.{u32,s32}", "rrr"},
    {"{add,sub}.{u64,s64}", "lll"},
    {"{add,sub}.sat.s32", "rrr"},
    {"add.{u16x2,s16x2}", "rrr"},
    {"mul.{lo,hi}.{u16,s16}", "hhh"},
    {"mul.{lo,hi}.{u32,s32}", "rrr"},
    {"mul.{lo,hi}.{u64,s64}", "lll"},
    {"mul.wide.{u16,s16}", "rhh"},
    {"mul.wide.{u32,s32}", "lrr"},
    {"mad.{lo,hi}.{u16,s16}", "hhhh"},
    {"mad.{lo,hi}.{u32,s32}", "rrrr"},
    {"mad.{lo,hi}.{u64,s64}", "llll"},
    {"mad.wide.{u16,s16}", "rhhr"},
    {"mad.wide.{u32,s32}", "lrrl"},
    {"mad.hi.sat.s32", "rrrr"},
    {"mul24.{lo,hi}.{u32,s32}", "rrr"},
    {"mad24.{lo,hi}.{u32,s32}", "rrrr"},
    {"sad.{u16,s16}", "hhhh"},
    {"sad.{u32,s32}", "rrrr"},
    {"sad.{u64,s64}", "llll"},
    {"{div,rem}.{u16,s16}", "hhH"},
    {"{div,rem}.{u32,s32}", "rrR"},
    {"{div,rem}.{u64,s64}", "llL"},
    {"{abs,neg}.s16", "hh"},
    {"{abs,neg}.s32", "rr"},
    {"{abs,neg}.s64", "ll"},
    {"{min,max}.{u16,s16}", "hhh"},
    {"{min,max}.{u32,s32}", "rrr"},
    {"{min,max}.{u64,s64}", "lll"},
    {"{min,max}.{u16x2,s16x2}", "rrr"},
    {"{min,max}.relu.{s32,s16x2}", "rrr"},
    {"add.cc", "lll",
     "mov.b64 {%x1,%x2}, $1; mov.b64 {%x3,%x4}, $2; add.cc.u32 %x1, %x1, %x3;"
     "addc.u32 %x2, %x2, %x4; mov.b64 $0, {%x1,%x2};"},
    {"addc.cc", "rrr", "add.cc.u32 %x1, $1, $2; addc.cc.s32 %x2, $1, $1; addc.u32 $0, %x2, $2;"},
    {"sub.cc", "lll",
     "mov.b64 {%x1,%x2}, $1; mov.b64 {%x3,%x4}, $2; sub.cc.u32 %x1, %x1, %x3;"
     "subc.u32 %x2, %x2, %x4; mov.b64 $0, {%x1,%x2};"},
    {"subc.cc", "rrr", "sub.cc.u32 %x1, $1, $2; subc.cc.s32 %x2, $2, $1; subc.u32 $0, %x2, $2;"},
    {"add.cc.u64", "lll", "add.cc.u64 %y1, $1, $2; addc.cc.u64 %y2, %y1, $1; addc.u64 $0, %y2, 0;"},
    {"sub.cc.u64", "lll", "sub.cc.u64 %y1, $1, $2; subc.cc.u64 %y2, %y1, $1; subc.u64 $0, %y2, 0;"},
    {"mad.cc", "rrrr", "mad.lo.cc.u32 %x1, $1, $2, $3; madc.hi.u32 %x2, $1, $2, $3; xor.b32 $0, %x1, %x2;"},
    {"madc.cc", "rrrr", "mad.hi.cc.s32 %x1, $1, $2, $3; madc.lo.cc.s32 %x2, $1, $2, $3; madc.hi.s32 $0, %x2, $2, $1;"},
    // Bits
    {"{popc,clz,brev}.b32", "rr"},
    {"{popc,clz}.b64", "rl"},
    {"brev.b64", "ll"},
    {"bfind{,.shiftamt}.{u32,s32}", "rr"},
    {"bfind{,.shiftamt}.{u64,s64}", "rl"},
    {"bfe.{u32,s32}", "rrss"},
    {"bfe.{u64,s64}", "llss"},
    {"bfi.b32", "rrrss"},
    {"bfi.b64", "lllss"},
    {"fns.b32", "rrss", "and.b32 %x1, $2, 31; sub.s32 %x2, $3, 40; fns.b32 $0, $1, %x1, %x2;"},
    {"bmsk.{clamp,wrap}.b32", "rss"},
    {"szext.{clamp,wrap}.{u32,s32}", "rrs"},
    {"dp4a.{u32,s32}.{u32,s32}", "rrrr"},
    {"dp2a.{lo,hi}.{u32,s32}.{u32,s32}", "rrrr"},
    {"{and,or,xor}.b16", "hhh"},
    {"{and,or,xor}.b32", "rrr"},
    {"{and,or,xor}.b64", "lll"},
    {"{not,cnot}.b16", "hh"},
    {"{not,cnot}.b32", "rr"},
    {"{not,cnot}.b64", "ll"},
    {"lop3.b32", "rrrr",
     "lop3.b32 %x1, $1, $2, $3, 0x1b; lop3.b32 %x2, $2, $3, $1, 0xe4;"
     "lop3.b32 $0, %x1, %x2, $3, 0x96;"},
    {"{shl,shr}.b16", "hhs"},
    {"{shl,shr}.b32", "rrs"},
    {"{shl,shr}.b64", "lls"},
    {"shr.{u16,s16}", "hhs"},
    {"shr.{u32,s32}", "rrs"},
    {"shr.{u64,s64}", "lls"},
    {"shl.b32 far", "rrr", "shl.b32 $0, $1, $2;"},
    {"shf.{l,r}.{clamp,wrap}.b32", "rrrs"},
    {"prmt.b32", "rrrr"},
    {"prmt.b32.{f4e,b4e,rc8,ecl,ecr,rc16}", "rrrc"},
    {"pred", "rrr",
     "setp.lt.s32 %p1, $1, $2; setp.ne.u32 %p2, $1, 0; and.pred %p3, %p1, %p2; xor.pred %p1, %p3, %p2;"
     "not.pred %p2, %p3; mov.pred %p3, %p2; or.pred %p2, %p3, %p1; @!%p1 not.pred %p1, %p2; "
     "selp.b32 %x1, 1, 0, %p1; selp.b32 %x2, 2, 0, %p2; or.b32 $0, %x1, %x2;"},
    // Comparisons and choices
    {"setp.{eq,ne,lt,le,gt,ge}.{u16,s16}", "rhh", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u32,s32}", "rrr", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,ne,lt,le,gt,ge}.{u64,s64}", "rll", "$n %p1|%p2, $1, $2;"},
    {"setp.{lo,ls,hi,hs}.u32", "rrr", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,ne}.b64", "rll", "$n %p1|%p2, $1, $2;"},
    {"setp.{lt,ge}.{and,or,xor}.s32", "rrrr", "and.b32 %x1, $3, 1; setp.ne.u32 %p3, %x1, 0; $n %p1|%p2, $1, $2, %p3;"},
    {"setp.eq.{and,or,xor}.u32", "rrrr", "and.b32 %x1, $3, 1; setp.ne.u32 %p3, %x1, 0; $n %p1|%p2, $1, $2, !%p3;"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}{,.ftz}.f32", "rff", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f64", "rdd", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}.f16", "ree", "$n %p1, $1, $2; not.pred %p2, %p1;"},
    {"setp.{eq,neu,lt,geu,nan}.bf16", "rbb", "$n %p1, $1, $2; not.pred %p2, %p1;"},
    {"setp.{eq,neu,lt,geu,nan}.f16x2", "rEE", "$n %p1|%p2, $1, $2;"},
    {"setp.{eq,neu,lt,geu,nan}.bf16x2", "rBB", "$n %p1|%p2, $1, $2;"},
    {"set.{eq,lt,ge}.{u32,s32,f32}.s32", "rrr"},
    {"set.{neu,lt,num}.{u32,f32}.f32", "rff"},
    {"set.{lt,geu}.f16.f16", "hee"},
    {"set.{lt,geu}.{f16x2,u32}.f16x2", "rEE"},
    {"set.{lt,geu}.bf16x2.bf16x2", "rBB"},
    {"set.lt.and.u32.s32", "rrrr", "and.b32 %x1, $3, 1; setp.ne.u32 %p3, %x1, 0; set.lt.and.u32.s32 $0, $1, $2, %p3;"},
    {"selp.b32", "rrrr", "and.b32 %x1, $3, 1; setp.ne.u32 %p3, %x1, 0; selp.b32 $0, $1, $2, %p3;"},
    {"slct.b32.s32", "rrrr"},
    {"slct.b64.s32", "lllr"},
    {"slct.b32{,.ftz}.f32", "rrrf", "$n $0, $1, $2, $3;"},
    {"mov.b64 pair", "lrr", "mov.b64 %y1, {$1,$2}; mov.b64 {%x1,%x2}, %y1; mov.b64 $0, {%x2,%x1};"},
    {"mov.b64 four", "ll", "mov.b64 {%z1,%z2,%z3,%z4}, $1; mov.b64 $0, {%z3,%z1,%z4,%z2};"},
    {"mov.b32 pair", "rhh", "mov.b32 %x1, {$1,$2}; mov.b32 {%z1,%z2}, %x1; mov.b32 $0, {%z2,%z1};"},
    {"literals", "rr", "add.s32 %x1, $1, -5; mad.lo.s32 %x2, %x1, 0x10003, 0xffffffff; xor.b32 $0, %x2, 1048576;"},
    {"float literals", "ff", "fma.rn.f32 %f1, $1, 0f3FC00000, 0fBDCCCCCD; add.f32 $0, %f1, 0.25;"},
    // Conversions
    {"cvt.{u8,s8,u16,s16,u32,s32}.{u8,s8,u16,s16,u32,s32}", "rr"},
    {"cvt.{u8,s8,u16,s16,u32,s32}.{u64,s64}", "rl"},
    {"cvt.{u64,s64}.{u8,s8,u16,s16,u32,s32}", "lr"},
    {"cvt.sat.{u8,s8,u16,s16}.{u32,s32}", "rr"},
    {"cvt.sat.{u8,s8,u16,s16,u32,s32}.{u64,s64}", "rl"},
    {"cvt.sat.{u32.s32,s32.u32}", "rr"},
    {"cvt.sat.{u64.s64,s64.u64}", "ll"},
    {"cvt.sat.u64.s32", "lr"},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz}.{u16,s16,u32,s32}.f32", "rf"},
    {"cvt.rzi.{u8,s8}.f32", "rf"},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz}.{u64,s64}.f32", "lf"},
    {"cvt.{rni,rzi,rmi,rpi}.{u16,s16,u32,s32}.f64", "rd"},
    {"cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f64", "ld"},
    {"cvt.{rni,rzi,rmi,rpi}.{u16,s16,u32,s32}.f16", "re"},
    {"cvt.{rni,rzi,rmi,rpi}.{u64,s64}.f16", "le"},
    {"cvt.rzi.{s32,u32}.bf16", "rb"},
    {"cvt.rzi.u16.bf16", "hb"},
    {"cvt.rzi.{u64,s64}.bf16", "lb"},
    {"cvt.{rn,rz,rm,rp}.f32.{u8,s8,u16,s16,u32,s32}", "fr"},
    {"cvt.{rn,rz,rm,rp}.f32.{u64,s64}", "fl"},
    {"cvt.{rn,rz,rm,rp}.f64.{u16,s32,u32}", "dr"},
    {"cvt.{rn,rz,rm,rp}.f64.{u64,s64}", "dl"},
    {"cvt.{rn,rz,rm,rp}.f16.{u16,s32,u32}", "er"},
    {"cvt.{rn,rz,rm,rp}.f16.{u64,s64}", "el"},
    {"cvt.rn.bf16.u16", "bh"},
    {"cvt.rn.bf16.{s32,u32}", "br"},
    {"cvt.rn.bf16.{u64,s64}", "bl"},
    {"cvt.{f32,ftz.f32,sat.f32}.f16", "fe"},
    {"cvt.f64.f16", "de"},
    {"cvt.f32.bf16", "fb"},
    {"cvt{,.ftz}.f64.f32", "df"},
    {"cvt.{rn,rz,rm,rp}.f16.f32", "ef"},
    {"cvt.rn.{sat,ftz}.f16.f32", "ef"},
    {"cvt.{rn,rz,rm,rp}.f16.f64", "ed"},
    {"cvt.{rn,rz}{,.relu}.{f16x2}.f32", "Eff"},
    {"cvt.{rn,rz}{,.relu}.{bf16x2}.f32", "Bff"},
    {"cvt.{rn,rz}{,.relu}.bf16.f32", "bf"},
    {"cvt.{rn,rz,rm,rp}{,.ftz,.sat}.f32.f64", "fd"},
    {"cvt.{rni,rzi,rmi,rpi}{,.ftz,.sat}.f32.f32", "ff"},
    {"cvt{.sat,.ftz}.f32.f32", "ff"},
    {"cvt.{rni,rzi,rmi,rpi}.f64.f64", "dd"},
    {"cvt.sat.f64.f64", "dd"},
    {"cvt.{rni,rzi,rmi,rpi}.f16.f16", "ee"},
    // f32 and f64
    {"{add,sub,mul}{,.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32", "fff"},
    {"{add,sub,mul}{.rn,.rz,.rm,.rp}.f64", "ddd"},
    {"fma{.rn,.rz,.rm,.rp}{,.ftz}{,.sat}.f32", "ffff"},
    {"{fma,mad}{.rn,.rz,.rm,.rp}.f64", "dddd"},
    {"mad.rn.ftz.f32", "ffff"},
    {"div{.rn,.rz,.rm,.rp}{,.ftz}.f32", "fff"},
    {"div{.rn,.rz,.rm,.rp}.f64", "ddd"},
    {"{rcp,sqrt}{.rn,.rz,.rm,.rp}{,.ftz}.f32", "ff"},
    {"{rcp,sqrt}{.rn,.rz,.rm,.rp}.f64", "dd"},
    {"{abs,neg}{,.ftz}.f32", "ff"},
    {"{abs,neg}.f64", "dd"},
    {"{min,max}{,.ftz}{,.NaN}.f32", "fff"},
    {"{min,max}.f64", "ddd"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f32", "rf", "$n %p1, $1; not.pred %p2, %p1;"},
    {"testp.{finite,infinite,number,notanumber,normal,subnormal}.f64", "rd", "$n %p1, $1; not.pred %p2, %p1;"},
    {"copysign.f32", "rff"},
    {"copysign.f64", "ldd"},
    // f16 and bf16
    {"{add,sub,mul}{,.rn}{,.ftz}{,.sat}.f16", "eee"},
    {"{add,sub,mul}{,.ftz}{,.sat}.f16x2", "EEE"},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16", "eeee"},
    {"fma.rn{,.ftz}{,.sat,.relu}.f16x2", "EEEE"},
    {"{abs,neg}{,.ftz}.f16", "ee"},
    {"{abs,neg}{,.ftz}.f16x2", "EE"},
    {"{min,max}{,.ftz}{,.NaN}.f16", "eee"},
    {"{min,max}{,.ftz}{,.NaN}.f16x2", "EEE"},
    {"{add,sub,mul}.bf16", "bbb"},
    {"{add,sub,mul}.rn.bf16x2", "BBB"},
    {"fma.rn{,.relu}.bf16", "bbbb"},
    {"fma.rn{,.relu}.bf16x2", "BBBB"},
    {"{abs,neg}.bf16", "bb"},
    {"{abs,neg}.bf16x2", "BB"},
    {"{min,max}{,.NaN}.bf16", "bbb"},
    {"{min,max}{,.NaN}.bf16x2", "BBB"},
};

// Instructions that are only approximate, of arguments from 1/64 to 64: how far off they may be, of the result or, if
// that is smaller than 1, in absolute terms.
struct Approximate {
  const char *names, *operands;
  double bound;
  double (*exact)(double, double);
};
static const Approximate approximate[] = {
    {"div.{approx,full}{,.ftz}.f32", "fff", 0x1p-22, [](double x, double y) { return x / y; }},
    {"rcp.approx{,.ftz}.f32", "ff", 0x1p-22, [](double x, double) { return 1 / x; }},
    {"sqrt.approx{,.ftz}.f32", "ff", 0x1p-22, [](double x, double) { return std::sqrt(x); }},
    {"rsqrt.approx{,.ftz}.f32", "ff", 0x1p-21, [](double x, double) { return 1 / std::sqrt(x); }},
    {"sin.approx{,.ftz}.f32", "ff", 0x1p-15, [](double x, double) { return std::sin(x); }},
    {"cos.approx{,.ftz}.f32", "ff", 0x1p-15, [](double x, double) { return std::cos(x); }},
    {"ex2.approx{,.ftz}.f32", "ff", 0x1p-20, [](double x, double) { return std::exp2(x); }},
    {"lg2.approx{,.ftz}.f32", "ff", 0x1p-20, [](double x, double) { return std::log2(x); }},
    {"tanh.approx.f32", "ff", 0x1p-10, [](double x, double) { return std::tanh(x); }},
    {"rcp.approx.ftz.f64", "dd", 0x1p-19, [](double x, double) { return 1 / x; }},
    {"rsqrt.approx{,.ftz}.f64", "dd", 0x1p-19, [](double x, double) { return 1 / std::sqrt(x); }},
};

static std::vector<std::string> expanded(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const size_t close = pattern.find('}', open);
  std::vector<std::string> names;
  for (size_t from = open + 1; from <= close;) {
    const size_t to = std::min(pattern.find(',', from), close);
    for (const std::string& rest : expanded(pattern.substr(close + 1)))
      names.push_back(pattern.substr(0, open) + pattern.substr(from, to - from) + rest);
    from = to + 1;
  }
  return names;
}

static unsigned bits_of(char letter) { return std::strchr("hHeb", letter) ? 16 : std::strchr("lLd", letter) ? 64 : 32; }

// --- Inputs --------------------------------------------------------------------------------------------------------
constexpr unsigned count = 4096, sources = 4;
static uint64_t state;
static uint64_t random_bits() {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 32) ^ state << 19;
}

// A float with so many bits in all and after the point: special ones first, then any bits, then some near 1.
static uint64_t float_input(unsigned k, unsigned bits, unsigned digits) {
  const uint64_t sign = 1ull << (bits - 1), one = ((1ull << (bits - 2 - digits)) - 1) << digits, ulp = 1,
                 infinity = sign - (1ull << digits);
  const uint64_t special[] = {0,
                              sign,
                              one,
                              one | sign,
                              infinity,
                              infinity | sign,
                              infinity | 1ull << (digits - 1),
                              ulp,
                              sign | ulp,
                              1ull << digits,
                              (1ull << digits) - 1,
                              infinity - 1,
                              sign | (infinity - 1),
                              one + 1,
                              one - 1,
                              one | 1ull << (digits - 1)};
  constexpr unsigned specials = sizeof special / sizeof *special;
  if (k < specials) return special[k];
  const uint64_t all = random_bits() & ((sign << 1) - 1);
  const uint64_t exponent = (one >> digits) - (k % 4 == 1 ? 1 : 12) + random_bits() % (k % 4 == 1 ? 3 : 24);
  return k % 4 == 0 ? all : (all & (sign | ((1ull << digits) - 1))) | exponent << digits;
}

static uint64_t input(char letter, unsigned k) {
  const unsigned bits = bits_of(letter);
  const uint64_t all = bits == 64 ? ~0ull : (1ull << bits) - 1;
  switch (letter) {
    case 'f': return float_input(k, 32, 23);
    case 'd': return float_input(k, 64, 52);
    case 'e': return float_input(k, 16, 10);
    case 'b': return float_input(k, 16, 7);
    case 'E':
    case 'B': {
      const uint64_t low = input(letter == 'E' ? 'e' : 'b', k);
      return low | input(letter == 'E' ? 'e' : 'b', k < 16 ? (k + 5) % 16 : k) << 16;
    }
    case 's': return k < 16 ? k * 4 : random_bits() % 81;
    case 'c': return random_bits() % 4;
  }
  const uint64_t special[] = {0, 1, 2, all, all - 1, all >> 1, (all >> 1) + 1, (all >> 1) + 2,
                              3, 5, 7, 10,  0x80,    0xff,     0x7f & all,     all / 3};
  uint64_t value = k < 16 ? special[k] : random_bits() & all;
  if (k >= 16 && k % 3 == 0) value >>= random_bits() % bits;
  if (k >= 16 && k % 3 == 1) value = ~(value >> random_bits() % bits) & all;
  return std::strchr("HRL", letter) && value == 0 ? 1 : value;
}

static std::vector<uint64_t> inputs_of(const std::string& operands) {
  state = 42;
  std::vector<uint64_t> inputs(count * sources);
  for (unsigned i = 0; i < count; ++i)
    for (unsigned k = 0; k + 1 < operands.size(); ++k) {  // each special one of the first with each of the second
      const unsigned which = i < 256 ? (k == 0 ? i % 16 : k == 1 ? i / 16 : (i + i / 16) % 16) : i;
      inputs[i * sources + k] = input(operands[k + 1], which);
    }
  return inputs;
}

// --- The kernels ---------------------------------------------------------------------------------------------------
static std::string kernel(size_t number, const std::string& name, const std::string& operands, const char* body) {
  std::string text =
      ".visible .entry kernel" + std::to_string(number) +
      "(.param .u64 inputs, .param .u64 results) {\n"
      ".reg .b64 %rd<9>, %l<9>, %y<9>;\n.reg .b32 %t, %r<9>, %x<9>, %f<9>;\n"
      ".reg .b16 %h<9>, %z<9>;\n.reg .pred %p<4>;\n"
      "ld.param.u64 %rd1, [inputs];\nld.param.u64 %rd2, [results];\n"
      "mov.u32 %t, %ctaid.x;\nmov.u32 %r8, %ntid.x;\nmov.u32 %r7, %tid.x;\nmad.lo.s32 %t, %t, %r8, %r7;\n"
      "mul.wide.u32 %rd3, %t, 32;\nadd.s64 %rd1, %rd1, %rd3;\nmul.wide.u32 %rd3, %t, 8;\nadd.s64 %rd2, %rd2, %rd3;\n";
  std::vector<std::string> names;
  for (unsigned k = 0; k < operands.size(); ++k) {
    const unsigned bits = bits_of(operands[k]);
    const std::string number = std::to_string(k);
    names.push_back((bits == 16 ? "%h" : bits == 64 ? "%l" : "%r") + number);
    if (k == 0) continue;
    text += "ld.global.u" + std::to_string(bits) + " " + names[k] + ", [%rd1+" + std::to_string(8 * (k - 1)) + "];\n";
  }
  std::string code;
  if (body) {
    code = body;
    if (std::strstr(body, "%p1|%p2") || std::strncmp(body, "$n %p1,", 7) == 0) code += predicates;
  } else {
    code = "$n $0";
    for (unsigned k = 1; k < operands.size(); ++k) code += ", $" + std::to_string(k);
    code += ";";
  }
  for (size_t i = 0; i < code.size(); ++i) {
    if (code[i] != '$') text += code[i];
    else text += code[++i] == 'n' ? name : names[static_cast<size_t>(code[i] - '0')];
  }
  return text + "\nst.global.u" + std::to_string(bits_of(operands[0])) + " [%rd2], " + names[0] + ";\nret;\n}\n";
}

// Runs each instruction of a pattern that is wanted, all in one module.
static void run(const char* pattern, const std::string& operands, const char* body, const std::string& wanted,
                const std::vector<uint64_t>& inputs,
                const std::function<void(const std::string&, const std::vector<uint64_t>&)>& use) {
  static CUdeviceptr from = 0, to = 0;
  if (!from) {
    CHECK(cuMemAlloc(&from, count * sources * 8));
    CHECK(cuMemAlloc(&to, count * 8));
  }
  std::vector<std::string> names;
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n";
  for (const std::string& name : expanded(pattern)) {
    if (!wanted.empty() && name != wanted) continue;
    text += kernel(names.size(), name, operands, body);
    names.push_back(name);
  }
  if (names.empty()) return;
  CUmodule module;
  CHECK(cuModuleLoadData(&module, text.c_str()));
  CHECK(cuMemcpyHtoD(from, inputs.data(), inputs.size() * 8));
  for (size_t k = 0; k < names.size(); ++k) {
    std::vector<uint64_t> results(count);
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, module, ("kernel" + std::to_string(k)).c_str()));
    CHECK(cuMemcpyHtoD(to, results.data(), results.size() * 8));
    void* parameters[] = {&from, &to};
    CHECK(cuLaunchKernel(function, count / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr));
    CHECK(cuMemcpyDtoH(results.data(), to, results.size() * 8));
    use(names[k], results);
  }
  CHECK(cuModuleUnload(module));
}

// --- What is said of the results -----------------------------------------------------------------------------------
// Of a NaN only that it is one enters the hash. Where PTX says that it has one form, that is said beside it.
struct Summary {
  uint64_t hash = 14695981039346656037u, ones = ~0ull, zeros = 0;
  bool nan = false;
  void add(uint64_t value) {
    hash = (hash ^ value) * 1099511628211u;
    hash ^= hash >> 29;
  }
  void add_float(uint64_t value, unsigned bits, unsigned digits) {
    const uint64_t sign = 1ull << (bits - 1);
    if ((value & (sign - 1)) <= sign - (1ull << digits)) return add(value);
    nan = true;
    ones &= value, zeros |= value;
    add(~0ull);
  }
};

static void describe(const std::string& name, const std::string& operands, const std::vector<uint64_t>& inputs,
                     const std::vector<uint64_t>& results, bool details) {
  Summary summary;
  for (unsigned i = 0; i < count; ++i) {
    const uint64_t value = results[i];
    switch (operands[0]) {
      case 'f': summary.add_float(value, 32, 23); break;
      case 'd': summary.add_float(value, 64, 52); break;
      case 'e': summary.add_float(value, 16, 10); break;
      case 'b': summary.add_float(value, 16, 7); break;
      case 'E': summary.add_float(value & 0xffff, 16, 10), summary.add_float(value >> 16, 16, 10); break;
      case 'B': summary.add_float(value & 0xffff, 16, 7), summary.add_float(value >> 16, 16, 7); break;
      default: summary.add(value);
    }
    if (!details) continue;
    for (unsigned k = 0; k + 1 < operands.size(); ++k)
      std::printf("%0*llx ", int(bits_of(operands[k + 1]) / 4), (unsigned long long)inputs[i * sources + k]);
    std::printf("-> %0*llx\n", int(bits_of(operands[0]) / 4), (unsigned long long)value);
  }
  std::printf("%s %016llx", name.c_str(), (unsigned long long)summary.hash);
  if (summary.nan && operands[0] != 'd') {
    if (summary.ones == summary.zeros) std::printf(" nan %llx", (unsigned long long)summary.ones);
    else std::printf(" nans of several forms");
  }
  std::puts("");
}

static void check_bound(const std::string& name, const Approximate& a, const std::vector<double>& x,
                        const std::vector<uint64_t>& results, bool details) {
  bool kept = true;
  for (unsigned i = 0; i < count; ++i) {
    double result;
    float single;
    std::memcpy(&single, &results[i], 4);
    std::memcpy(&result, &results[i], 8);
    if (a.operands[0] == 'f') result = single;
    const double exact = a.exact(x[i * sources], x[i * sources + 1]), error = std::fabs(result - exact);
    const bool keeps = error <= a.bound * std::fmax(1, std::fabs(exact));
    kept = kept && keeps;
    if (details) std::printf("%.9g %.9g -> %.17g, exactly %.17g\n", x[i * sources], x[i * sources + 1], result, exact);
  }
  std::printf("%s within 2^%d: %s\n", name.c_str(), std::ilogb(a.bound), kept ? "yes" : "no");
}

int main(int argc, char** argv) {
  check::require_gpus(1);
  CUdevice device;
  CUcontext context;
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  const std::string wanted = argc > 1 ? argv[1] : "";
  for (const Row& row : rows) {
    const std::vector<uint64_t> inputs = inputs_of(row.operands);
    run(row.names, row.operands, row.body, wanted, inputs,
        [&](auto& name, auto& results) { describe(name, row.operands, inputs, results, !wanted.empty()); });
  }
  for (const Approximate& row : approximate) {
    std::vector<uint64_t> inputs(count * sources);
    std::vector<double> x(count * sources);
    state = 42;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const float value = std::ldexp(1 + float(random_bits() % 4096) / 4096, int(random_bits() % 12) - 6);
      x[i] = value;
      if (row.operands[0] == 'd') std::memcpy(&inputs[i], &x[i], 8);
      else std::memcpy(&inputs[i], &value, 4);
    }
    run(row.names, row.operands, nullptr, wanted, inputs,
        [&](auto& name, auto& results) { check_bound(name, row, x, results, !wanted.empty()); });
  }
}
