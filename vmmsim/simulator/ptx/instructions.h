// SPDX-License-Identifier: MIT-0
// The instructions of PTX: what ptxas 13.0 takes of them, found out by asking it, and from which target and version on.
#pragma once
#include <string_view>

namespace ptx {

// --- What instructions there are -------------------------------------------------------------------------------------

// `opcodes`: with the modifiers that belong to the name, the longest that fits counts. Each of `modifiers` is what an
// instruction has one of, "a|b", or one at most, "a|b?"; the order is free, but for that of types. The operands are a
// letter each; several ways are divided by a space:
//   t, d, s  of the instruction's type, of its first, of its last     D, S  the same or wider    w  twice as wide
//   v  of its type, as many as .v2 says        T  the same, or the sink as a result
//   r  of 32 bits, an integer                  b  the same, no constant
//   u  r that is no result                     n, g, e, o, z  the same, but a constant is below 16, a multiple of 32,
//                                                             below 256, 0 or 1, a multiple of 16
//   h, l, i  of 16 bits, of 64, of 32 or 64    f  of f32
//   p  a predicate    q  or two of them        R  r or r|p      E  r|p or _|p     L  l or the sink    _  the sink
//   V  r of which it may take a part           Q  V, but no constant
//   a  an address                              A  one of which it does not matter how wide it is
//   c  S or a special register                 m  t or a name   N  a name
//   k  a constant                              4, 6, 8  the constant 4, 8 or 16; 16; 128      x  anything
// "*" as modifiers: all that there are; as operands: whatever.
struct Form {
  std::string_view opcodes, modifiers, operands;
};

#define INTEGERS "u16|u32|u64|s16|s32|s64"
#define WORDS "u32|u64|s32|s64"
#define BITS "b16|b32|b64"
#define HALVES "f16|f16x2"
#define BHALVES "bf16|bf16x2"
#define ALL_HALVES HALVES "|" BHALVES
#define ROUNDING "rn|rz|rm|rp"
#define INTEGRAL "rni|rzi|rmi|rpi"
#define ORDERED "eq|ne|lt|le|gt|ge"
#define UNORDERED ORDERED "|equ|neu|ltu|leu|gtu|geu|num|nan"
#define SCOPE "cta|cluster|gpu|sys"
#define SHARED "shared|shared::cta|shared::cluster"
#define L1 "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate"
#define L2 "L2::64B|L2::128B|L2::256B"
#define HINT "L2::cache_hint?"
#define EVICTION \
  "L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged L2::evict_first|L2::evict_unchanged?"
#define ONE_IN_MEMORY "b8|u8|s8|b128|" BITS "|" INTEGERS "|f32|f64"
#define IN_MEMORY "v2|v4|v8? " ONE_IN_MEMORY
#define VIDEO "u32|s32 u32|s32 u32|s32 "

// What atom, red and their like combine; `how` is what each has, `operands` that of one element or of several.
#define REDUCTIONS(opcode, how, operands)                                                     \
  {opcode, how " add|min|max u32|s32|u64", operands}, {opcode, how " min|max s64", operands}, \
      {opcode, how " add f32|f64", operands}, {                                               \
    opcode, how " and|or|xor b32|b64", operands                                               \
  }
#define VECTOR_REDUCTIONS(opcode, how, of_halves, operands)                                                       \
  {opcode, how " v2|v4 add f32", operands}, {opcode, how of_halves " v2|v4|v8 add|min|max f16|bf16", operands}, { \
    opcode, how of_halves " v2|v4 add|min|max f16x2|bf16x2", operands                                             \
  }
#define ATOMICS(opcode, how, operands)                                       \
  REDUCTIONS(opcode, how, operands), {opcode, how " inc|dec u32", operands}, \
      {opcode, how " add noftz " ALL_HALVES, operands}, VECTOR_REDUCTIONS(opcode, how, " noftz", operands)
#define AT SCOPE "? global|" SHARED "? " HINT
#define MULTIMEM SCOPE "? global?"
#define TO_CLUSTER "mbarrier::complete_tx::bytes"

constexpr Form forms[] = {
    {"abs neg", "s16|s32|s64", "tt"},
    {"abs neg", "ftz? f32|" HALVES, "tt"},
    {"abs neg", "f64|" BHALVES, "tt"},
    {"activemask", "b32", "t"},
    {"add sub", INTEGERS, "ttt"},
    {"add sub", "sat s32", "ttt"},
    {"add sub", "cc " WORDS, "ttt"},
    {"add min max", "u16x2|s16x2", "bbb"},
    {"add sub mul", ROUNDING "? ftz? sat? f32", "ttt"},
    {"add sub mul", ROUNDING "? f64", "ttt"},
    {"add sub mul", "rn? ftz? sat? " HALVES, "ttt"},
    {"add sub mul", "rn? " BHALVES, "ttt"},
    {"add sub mul", ROUNDING "? ftz? f32x2", "lll"},
    {"addc subc", "cc? " WORDS, "ttt"},
    {"alloca", "u32|u64", "*"},
    {"and or xor", "pred|" BITS, "ttt"},
    {"applypriority", "global? L2::evict_normal", "a8"},
    ATOMICS("atom", "relaxed|acquire|release|acq_rel? " AT, "Tav"),
    {"atom", "relaxed|acquire|release|acq_rel? " AT " exch b32|b64|b128", "Tav"},
    {"atom", "relaxed|acquire|release|acq_rel? " SCOPE "? global|" SHARED "? cas b128|" BITS, "Tavv"},
    {"bar.sync bar.cta.sync", "", "n ng"},
    {"bar.arrive bar.cta.arrive", "", "ng"},
    {"bar.red bar.cta.red", "popc u32", "rnp rngp"},
    {"bar.red bar.cta.red", "and|or pred", "pnp pngp"},
    {"bar.warp.sync", "", "u"},
    {"barrier.sync barrier.cta.sync", "aligned?", "n ng"},
    {"barrier.arrive barrier.cta.arrive", "aligned?", "ng"},
    {"barrier.red barrier.cta.red", "aligned? popc u32", "rnp rngp"},
    {"barrier.red barrier.cta.red", "aligned? and|or pred", "pnp pngp"},
    {"barrier.cluster.arrive", "release|relaxed? aligned?", " "},
    {"barrier.cluster.wait", "acquire? aligned?", " "},
    {"bfe", WORDS, "ttee"},
    {"bfi", "b32|b64", "tttee"},
    {"bfind", "shiftamt? " WORDS, "rt"},
    {"bmsk", "clamp|wrap b32", "rrr"},
    {"bra", "uni?", "x"},
    {"brev", "b32|b64", "tt"},
    {"brkpt exit trap", "", " "},
    {"brx.idx", "uni?", "uN"},
    {"call", "uni?", "*"},
    {"clz popc", "b32|b64", "rt"},
    {"cnot", BITS, "tt"},
    {"copysign", "f32|f64", "ttt"},
    {"cos sin lg2", "approx ftz? f32", "tt"},
    {"cp.async.ca.shared.global cp.async.ca.shared::cta.global", L2 "? " HINT, "AA4 AA4u AA4p"},
    {"cp.async.cg.shared.global cp.async.cg.shared::cta.global", L2 "? " HINT, "AA6 AA6u AA6p"},
    {"cp.async.commit_group cp.async.wait_all cp.async.bulk.commit_group", "", " "},
    {"cp.async.wait_group", "", "k"},
    {"cp.async.bulk.wait_group", "read?", "k"},
    {"cp.async.mbarrier.arrive", "noinc? shared|shared::cta? b64", "A"},
    {"cp.async.bulk.shared::cluster.global", TO_CLUSTER " multicast::cluster? " HINT, "AAzA"},
    {"cp.async.bulk.shared::cta.global", TO_CLUSTER " " HINT, "AAzA"},
    {"cp.async.bulk.shared::cluster.shared::cta", TO_CLUSTER, "AAzA"},
    {"cp.async.bulk.global.shared::cta", "bulk_group cp_mask? " HINT, "AAz"},
    {"cp.async.bulk.prefetch.L2.global", HINT, "Az"},
    {"cp.async.bulk.tensor cp.async.bulk.prefetch.tensor cp.reduce.async.bulk.tensor", "*", "*"},
    REDUCTIONS("cp.reduce.async.bulk.global.shared::cta", "bulk_group " HINT, "AAz"),
    {"cp.reduce.async.bulk.global.shared::cta", "bulk_group " HINT " inc|dec u32", "AAz"},
    {"cp.reduce.async.bulk.global.shared::cta", "bulk_group " HINT " add noftz f16|bf16", "AAz"},
    {"cp.reduce.async.bulk.global.shared::cta", "bulk_group " HINT " min|max f16|bf16", "AAz"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta", TO_CLUSTER " add|min|max u32|s32", "AAzA"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta", TO_CLUSTER " inc|dec u32", "AAzA"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta", TO_CLUSTER " add u64", "AAzA"},
    {"cp.reduce.async.bulk.shared::cluster.shared::cta", TO_CLUSTER " and|or|xor b32", "AAzA"},
    {"createpolicy.fractional", EVICTION " b64", "l lf"},
    {"createpolicy.range", "global? " EVICTION " b64", "lauu"},
    {"createpolicy.cvt.L2", "b64", "ll"},
    {"cvt", "sat? u8|s8|" INTEGERS " u8|s8|" INTEGERS, "Dc"},
    {"cvt", INTEGRAL " ftz? sat? u8|s8|" INTEGERS " f32", "DS"},
    {"cvt", INTEGRAL " sat? u8|s8|" INTEGERS " f16|f64", "DS"},
    {"cvt", INTEGRAL " " INTEGERS " bf16", "ds"},
    {"cvt", ROUNDING " sat? f16|f64 u8|s8|" INTEGERS, "DS"},
    {"cvt", ROUNDING " ftz? sat? f32 u8|s8|f64|" INTEGERS, "DS"},
    {"cvt", ROUNDING " bf16 f64|" INTEGERS, "ds"},
    {"cvt", ROUNDING " sat? f16 f64", "DS"},
    {"cvt", ROUNDING " ftz? sat? f16 f32", "DS"},
    {"cvt", "rn|rz relu? satfinite? f16 f32", "DS"},
    {"cvt", "rn|rz relu? satfinite? bf16 f32", "ds"},
    {"cvt", ROUNDING " ftz? bf16 f32", "ds"},
    {"cvt", ROUNDING "? f64|f16 bf16", "ds"},
    {"cvt", ROUNDING "? bf16 f16", "ds"},
    {"cvt", ROUNDING "? ftz? f32 bf16", "ds"},
    {"cvt", "ftz? sat? f32 f16", "DS"},
    {"cvt", "ftz? sat? f64 f32", "DS"},
    {"cvt", "sat? f64 f16", "DS"},
    {"cvt", INTEGRAL "? ftz? sat? f32 f32", "DS"},
    {"cvt", INTEGRAL "? sat? f16 f16", "DS"},
    {"cvt", INTEGRAL "? sat? f64 f64", "DS"},
    {"cvt", INTEGRAL "? bf16 bf16", "ds"},
    {"cvt", "rn|rz relu? satfinite? f16x2|bf16x2 f32", "dss"},
    {"cvt", "rn|rz relu? tf32 f32", "bs"},
    {"cvt", "rna satfinite? tf32 f32", "bs"},
    {"cvt", "rn relu? satfinite e4m3x2|e5m2x2 f32", "dss"},
    {"cvt", "rn relu? satfinite e4m3x2|e5m2x2 f16x2", "ds"},
    {"cvt", "rn relu? f16x2 e4m3x2|e5m2x2", "ds"},
    {"cvt.pack", "sat u16|s16 s32", "rrr"},
    {"cvt.pack", "sat u8|s8|u4|s4|u2|s2 s32 b32", "rrrr"},
    {"cvta", "global|local|const|param|param::entry|" SHARED " u32|u64", "tm"},
    {"cvta.to", "global|local|const|param|param::entry|" SHARED " u32|u64", "tt"},
    {"discard", "global? L2", "a8"},
    {"div", INTEGERS, "ttt"},
    {"div", "approx|" ROUNDING " ftz? f32", "ttt"},
    {"div.full", "ftz? f32", "ttt"},
    {"div", ROUNDING " f64", "ttt"},
    {"dp2a.lo dp2a.hi dp4a", "u32|s32 u32|s32", "rdsr"},
    {"elect", "sync", "Eu"},
    {"ex2", "approx ftz? f32", "tt"},
    {"ex2", "approx " HALVES, "tt"},
    {"ex2", "approx ftz " BHALVES, "tt"},
    {"fence", "sc|acq_rel|acquire|release? " SCOPE, " "},
    {"fence", "mbarrier_init release cluster", " "},
    {"fence fence.proxy.async::generic", "acquire sync_restrict::shared::cluster cluster", " "},
    {"fence fence.proxy.async::generic", "release sync_restrict::shared::cta cluster", " "},
    {"fence.proxy.alias membar.proxy.alias", "", " "},
    {"fence.proxy.async", "global|shared::cta|shared::cluster?", " "},
    {"fence.proxy.tensormap::generic", "acquire " SCOPE, "a8"},
    {"fence.proxy.tensormap::generic", "release " SCOPE, " "},
    {"fma mad", ROUNDING " ftz? sat? f32", "tttt"},
    {"fma mad", ROUNDING " f64", "tttt"},
    {"fma", "rn ftz? sat|relu? " HALVES, "tttt"},
    {"fma", ROUNDING " relu? " BHALVES, "tttt"},
    {"fma", "rn oob relu|sat? " ALL_HALVES, "tttt"},
    {"fma", ROUNDING " ftz? f32x2", "llll"},
    {"fns", "b32", "tttt"},
    {"getctarank", "shared::cluster? u32|u64", "rm"},
    {"griddepcontrol", "launch_dependents|wait", " "},
    {"isspacep", "global|local|const|param|param::entry|" SHARED, "pi"},
    {"istypep", "texref|samplerref|surfref", "pl"},
    {"ld", "weak? ca|cg|cs|lu|cv|" L1 "? global? " L2 "? " HINT " " IN_MEMORY, "Da"},
    {"ld", "nc ca|cg|cs|" L1 "? global " L2 "? " HINT " " IN_MEMORY, "Da"},
    {"ld", "volatile global? " L2 "? " IN_MEMORY, "Da"},
    {"ld", "relaxed|acquire " SCOPE " " L1 "? global? " L2 "? " HINT " " IN_MEMORY, "Da"},
    {"ld", "mmio relaxed sys global? " ONE_IN_MEMORY, "Da"},
    {"ld", "weak? ca|cg|cs|lu|cv? const|local|param|param::entry|param::func|" SHARED " " IN_MEMORY, "Da"},
    {"ld", "volatile " SHARED " " IN_MEMORY, "Da"},
    {"ld", "relaxed|acquire " SCOPE " " SHARED " " IN_MEMORY, "Da"},
    {"ldu", "global? v2|v4? " ONE_IN_MEMORY, "Da"},
    {"lop3", "b32", "ttttk"},
    {"lop3", "and|or b32", "Etttk"},
    {"mad.lo mad.hi", INTEGERS, "tttt"},
    {"mad.lo mad.hi madc.lo madc.hi", "cc " WORDS, "tttt"},
    {"madc.lo madc.hi", WORDS, "tttt"},
    {"mad.hi mad24.hi", "sat s32", "tttt"},
    {"mad.wide", "u16|s16|u32|s32", "wttw"},
    {"mad24.lo mad24.hi", "u32|s32", "tttt"},
    {"mapa", "shared::cluster? u32|u64", "tmu"},
    {"match", "any sync b32|b64", "rtu"},
    {"match", "all sync b32|b64", "Etu Rtu"},
    {"max min", INTEGERS, "ttt"},
    {"max min", "relu s32", "ttt"},
    {"max min", "relu s16x2", "bbb"},
    {"max min", "ftz? NaN? f32", "ttt"},
    {"max min", "ftz? NaN? xorsign abs f32", "ttt"},
    {"max min", "f64", "ttt"},
    {"max min", "ftz? NaN? " HALVES, "ttt"},
    {"max min", "ftz? NaN? xorsign abs " HALVES, "ttt"},
    {"max min", "NaN? " BHALVES, "ttt"},
    {"max min", "NaN? xorsign abs " BHALVES, "ttt"},
    {"mbarrier.init", "shared|shared::cta? b64", "Au"},
    {"mbarrier.inval", "shared|shared::cta? b64", "A"},
    {"mbarrier.expect_tx mbarrier.complete_tx", "relaxed? cta|cluster? " SHARED "? b64", "Au"},
    {"mbarrier.arrive mbarrier.arrive_drop", "release|relaxed? cta|cluster? shared|shared::cta? b64", "LA LAu"},
    {"mbarrier.arrive mbarrier.arrive_drop", "release|relaxed? cta|cluster? shared::cluster b64", "_A _Au"},
    {"mbarrier.arrive.noComplete mbarrier.arrive_drop.noComplete", "release? cta? shared|shared::cta? b64", "LAu"},
    {"mbarrier.arrive.expect_tx mbarrier.arrive_drop.expect_tx",
     "release|relaxed? cta|cluster? shared|shared::cta? b64", "LAu"},
    {"mbarrier.arrive.expect_tx mbarrier.arrive_drop.expect_tx", "release|relaxed? cta|cluster? shared::cluster b64",
     "_Au"},
    {"mbarrier.test_wait", "acquire|relaxed? cta|cluster? shared|shared::cta? b64", "pAl"},
    {"mbarrier.try_wait", "acquire|relaxed? cta|cluster? shared|shared::cta? b64", "pAl pAlu"},
    {"mbarrier.test_wait.parity", "acquire|relaxed? cta|cluster? shared|shared::cta? b64", "pAo"},
    {"mbarrier.try_wait.parity", "acquire|relaxed? cta|cluster? shared|shared::cta? b64", "pAo pAou"},
    {"mbarrier.pending_count", "b64", "rl"},
    {"membar", "cta|gl|sys", " "},
    {"mov", "v2|v4? pred|b128|" BITS "|" INTEGERS "|f32|f64", "*"},
    {"mul.lo mul.hi", INTEGERS, "ttt"},
    {"mul.wide", "u16|s16|u32|s32", "wtt"},
    {"mul24.lo mul24.hi", "u32|s32", "ttt"},
    REDUCTIONS("multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM, "ta"),
    {"multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM " add|min|max f16x2|bf16x2", "ta"},
    {"multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM " add acc::f32 f16x2|bf16x2", "ta"},
    {"multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM " add acc::f32 v2|v4|v8 f16|bf16", "va"},
    {"multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM " add acc::f32 v2|v4 f16x2|bf16x2", "va"},
    VECTOR_REDUCTIONS("multimem.ld_reduce", "weak|relaxed|acquire? " MULTIMEM, "", "va"),
    {"multimem.st", "weak|relaxed|release? " MULTIMEM " b32|b64|f32|f64|f16x2|bf16x2|" WORDS, "at"},
    {"multimem.st", "weak|relaxed|release? " MULTIMEM " v2|v4 f32|f16x2|bf16x2", "av"},
    {"multimem.st", "weak|relaxed|release? " MULTIMEM " v2|v4|v8 f16|bf16", "av"},
    REDUCTIONS("multimem.red", "relaxed|release? " MULTIMEM, "at"),
    {"multimem.red", "relaxed|release? " MULTIMEM " add f16x2|bf16x2", "at"},
    VECTOR_REDUCTIONS("multimem.red", "relaxed|release? " MULTIMEM, "", "av"),
    {"multimem.cp.async.bulk.global.shared::cta", "bulk_group cp_mask?", "AAz"},
    REDUCTIONS("multimem.cp.reduce.async.bulk.global.shared::cta", "bulk_group", "AAz"),
    {"multimem.cp.reduce.async.bulk.global.shared::cta", "bulk_group inc|dec u32", "AAz"},
    {"multimem.cp.reduce.async.bulk.global.shared::cta", "bulk_group add noftz f16|bf16", "AAz"},
    {"multimem.cp.reduce.async.bulk.global.shared::cta", "bulk_group min|max f16|bf16", "AAz"},
    {"nanosleep", "u32", "u"},
    {"not", "pred|" BITS, "tt"},
    {"pmevent", "mask?", "k"},
    {"prefetch", "global|local? L1|L2", "a"},
    {"prefetch", "global? L2::evict_last|L2::evict_normal", "a"},
    {"prefetch", "const|param? tensormap", "a"},
    {"prefetchu", "L1", "a"},
    {"prmt", "b32 f4e|b4e|rc8|ecl|ecr|rc16?", "tttt"},
    {"rcp sqrt", "approx|" ROUNDING " ftz? f32", "tt"},
    {"rcp", ROUNDING " ftz? f64", "tt"},
    {"rcp", "approx ftz f64", "tt"},
    {"sqrt", ROUNDING " f64", "tt"},
    ATOMICS("red", "relaxed|release? " AT, "av"),
    {"red.async", "relaxed cluster shared::cluster? " TO_CLUSTER " add|min|max u32|s32", "AtA"},
    {"red.async", "relaxed cluster shared::cluster? " TO_CLUSTER " inc|dec u32", "AtA"},
    {"red.async", "relaxed cluster shared::cluster? " TO_CLUSTER " add u64|s64", "AtA"},
    {"red.async", "relaxed cluster shared::cluster? " TO_CLUSTER " and|or|xor b32", "AtA"},
    {"redux", "sync add|min|max u32|s32", "ttu"},
    {"redux", "sync and|or|xor b32", "ttu"},
    {"redux", "sync abs? NaN? min|max f32", "ttu"},
    {"rem", INTEGERS, "ttt"},
    {"ret", "uni?", " "},
    {"rsqrt", "approx ftz? f32|f64", "tt"},
    {"sad", INTEGERS, "tttt"},
    {"selp", BITS "|" INTEGERS "|f32|f64", "tttp"},
    {"set", "and|or|xor? eq|ne u32|s32|f16|bf16|f32 b16|b32|b64", "dss"},
    {"set", "and|or|xor? " ORDERED "|lo|ls|hi|hs u32|s32|f16|bf16|f32 u16|u32|u64", "dss"},
    {"set", "and|or|xor? " ORDERED " u32|s32|f16|bf16|f32 s16|s32|s64", "dss"},
    {"set", "and|or|xor? " UNORDERED " ftz? f32|f16|u32|s32 f32", "dss"},
    {"set", "and|or|xor? " UNORDERED " bf16 f32", "dss"},
    {"set", "and|or|xor? " UNORDERED " u32|s32|f16|bf16|f32 f64", "dss"},
    {"set", "and|or|xor? " UNORDERED " ftz? u16|s16|u32|s32|f16 f16", "dss"},
    {"set", "and|or|xor? " UNORDERED " bf16 f16", "dss"},
    {"set", "and|or|xor? " UNORDERED " u16|s16|u32|s32|bf16 bf16", "dss"},
    {"set", "and|or|xor? " UNORDERED " ftz? u32|s32|f16x2 f16x2", "dss"},
    {"set", "and|or|xor? " UNORDERED " u32|s32|bf16x2 bf16x2", "dss"},
    {"setp", "and|or|xor? eq|ne " BITS, "qtt"},
    {"setp", "and|or|xor? " ORDERED "|lo|ls|hi|hs u16|u32|u64", "qtt"},
    {"setp", "and|or|xor? " ORDERED " s16|s32|s64", "qtt"},
    {"setp", "and|or|xor? " UNORDERED " ftz? f32|f16x2", "qtt"},
    {"setp", "and|or|xor? " UNORDERED " f64|bf16x2", "qtt"},
    {"setp", "and|or|xor? " UNORDERED " ftz? f16", "ptt"},
    {"setp", "and|or|xor? " UNORDERED " bf16", "ptt"},
    {"setmaxnreg", "*", "*"},
    {"shf.l shf.r", "clamp|wrap b32", "tttr"},
    {"shfl", "sync? up|down|bfly|idx b32", "Rtuu"},
    {"shl", BITS, "ttr"},
    {"shr", BITS "|" INTEGERS, "ttr"},
    {"slct", BITS "|" INTEGERS "|f32|f64 s32", "ddds"},
    {"slct", "ftz? " BITS "|" INTEGERS "|f32|f64 f32", "ddds"},
    {"st", "weak? wb|cg|cs|wt|" L1 "? global? " HINT " " IN_MEMORY, "aS"},
    {"st", "volatile global|" SHARED "? " IN_MEMORY, "aS"},
    {"st", "relaxed|release " SCOPE " " L1 "? global? " HINT " " IN_MEMORY, "aS"},
    {"st", "weak? wb|cg|cs|wt? local|param|param::func|" SHARED " " IN_MEMORY, "aS"},
    {"st", "relaxed|release " SCOPE " " SHARED " " IN_MEMORY, "aS"},
    {"st", "mmio relaxed sys global? " ONE_IN_MEMORY, "aS"},
    {"st.async", "weak|cluster? " SHARED "? " TO_CLUSTER " v2|v4? b32|u32|s32|f32", "AvA"},
    {"st.async", "weak|cluster? " SHARED "? " TO_CLUSTER " v2? b64|u64|s64|f64", "AvA"},
    {"st.bulk", "*", "*"},
    {"stackrestore stacksave", "u32|u64", "*"},
    {"szext", "clamp|wrap u32|s32", "ttr"},
    {"tanh", "approx f32|" ALL_HALVES, "tt"},
    {"testp", "finite|infinite|number|notanumber|normal|subnormal? f32|f64", "pt"},
    {"vadd vsub vabsdiff vmin vmax", VIDEO "sat?", "rVV VVVr"},
    {"vadd vsub vabsdiff vmin vmax", VIDEO "sat? add|min|max", "rVVr"},
    {"vadd2 vsub2 vabsdiff2 vmin2 vmax2 vavrg2 vadd4 vsub4 vabsdiff4 vmin4 vmax4 vavrg4", VIDEO "sat|add?", "QQQb"},
    {"vmad", VIDEO "sat? po? shr7|shr15?", "rVVV"},
    {"vset", "u32|s32 u32|s32 " ORDERED, "rVV VVVr"},
    {"vset", "u32|s32 u32|s32 " ORDERED " add|min|max", "rVVr"},
    {"vset2 vset4", "u32|s32 u32|s32 " ORDERED " add?", "QQQb"},
    {"vshl vshr", "u32|s32 u32|s32 u32 sat? clamp|wrap", "rVV VVVr"},
    {"vshl vshr", "u32|s32 u32|s32 u32 sat? clamp|wrap add|min|max", "rVVr"},
    {"vote", "sync? all|any|uni pred", "pp"},
    {"vote", "sync? ballot b32", "rp"},
    // What is not simulated.
    {"clusterlaunchcontrol ldmatrix mma movmatrix stmatrix suld suq sured sust tcgen05 tensormap tex tld4 txq wgmma "
     "wmma",
     "*", "*"},
};

// Modifiers that change nothing if they stand twice.
constexpr std::string_view repeatable = "sat cc approx sync uni relu NaN satfinite shiftamt";

// What has one of these words has an operand more, in this order.
constexpr struct {
  std::string_view opcodes, words;
  char operand;
} further_operands[] = {
    {"set setp lop3", "and|or|xor", 'p'},
    {"cp multimem", "multicast::cluster|cp_mask", 'h'},
    {"", "L2::cache_hint", 'l'},
    {"shfl vote", "sync", 'u'},
};

// What has one of the words of a row needs one of the others with it, or must have none. The opcodes are whole names.
constexpr struct {
  std::string_view opcodes, words, others;
  bool needs;
} relations[] = {
    {"mbarrier multimem", "relaxed|acquire|release", SCOPE, true},
    {"mbarrier multimem", SCOPE, "relaxed|acquire|release", true},
    {"atom red", SHARED, "L2::cache_hint|v2|v4|v8", false},
    {"ld ldu st", "v2|v4|v8", "b128", false},
    {"ldu st", "v4|v8", "b64|u64|s64|f64", false},
};

// The modifiers of instructions that have "*".
constexpr std::string_view other_words =
    "u16 u32 u64 s16 s32 s64 b16 b32 b64 f16 f16x2 bf16 bf16x2 f32 f64 rn rz rm rp global shared const param"
    " shared::cta shared::cluster weak relaxed acquire release acq_rel mmio cta cluster gpu sys v2 v4 v8"
    " L2::evict_first L2::evict_last L2::cache_hint"
    " u8 s8 b8 b128 pred tf32 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 e2m3x2 e3m2x2 e2m3x4 e3m2x4 ue8m0x2"
    " u16x2 s16x2 u8x4 s8x4 b1 b6x16_p32 b4x16_p64 u4 s4 u2 s2 e2m1 e2m3 e3m2 f32x2 rna rs rni rzi rmi rpi ftz sat"
    " satfinite relu NaN xorsign abs approx full cc noftz oob scaled lo hi wide clamp wrap l r add sub min max and or "
    "xor"
    " inc dec cas exch popc any all uni ballot sync aligned gl arrive wait warp red to L1 L2 async bulk mbarrier"
    " commit_group wait_group wait_all read bulk_group prefetch tensor 1d 2d 3d 4d 5d a1d a2d acube cube a2dms 2dms "
    "tile"
    " im2col im2col::w im2col::w::128 im2col_no_offs tile::gather4 tile::scatter4 multicast::cluster cp_mask ignore_src"
    " noinc init inval expect_tx complete_tx test_wait try_wait parity pending_count noComplete arrive_drop alias proxy"
    " proxy::async proxy::async.global proxy::tensormap mbarrier_init sync_restrict::shared::cta"
    " sync_restrict::shared::cluster tensormap::generic async.global async::generic fractional range "
    "L2::evict_unchanged"
    " mbarrier::complete_tx::bytes m8n8 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 "
    "m16n8k128 m16n8k256 m16n16k16"
    " m32n8k16 m8n32k16 m16n16k8 m8n8k128 m16n16 m16n8 x1 x2 x4 x8 x16 x32 x64 x128 trans row col load store mma"
    " ld_reduce st ld cp reduce shift alloc dealloc relinquish_alloc_permit commit fence ws acc::f32 acc::f16 mask "
    "pack explicit"
    " cta_group::1 cta_group::2 inc dec level::eviction_priority replace cp_fenceproxy try_cancel query_cancel"
    " is_canceled get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z b1024 p b trap zero"
    " width height depth channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples"
    " filter_mode addr_mode_0 addr_mode_1 addr_mode_2 base level grad unified explicitcluster acquire::cluster"
    " evict_normal evict_first evict_last no_allocate sp sp::ordered_metadata block_scale scale_vec::1X scale_vec::2X"
    " scale_vec::4X kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4 kind::f8f6f4 kind::tf32 kind::f16 kind::i8";

// What exists from a target and a version of PTX on. The first word is the opcode, or "." for any; the others are
// modifiers, which it must have all.
struct Need {
  std::string_view words;
  unsigned target, version;
};
constexpr Need needs[] = {
    {"activemask", 30, 62},
    {"alloca", 52, 73},
    {"stacksave", 52, 73},
    {"stackrestore", 52, 73},
    {"applypriority", 80, 74},
    {"atom v2", 90, 81},
    {"atom v4", 90, 81},
    {"atom v8", 90, 81},
    {"atom add f64", 60, 50},
    {"red add f64", 60, 50},
    {"atom f16", 70, 63},
    {"atom cas b16", 70, 63},
    {"atom f16x2", 60, 62},
    {"atom bf16", 90, 78},
    {"atom bf16x2", 90, 78},
    {"atom b128", 90, 83},
    {"atom cta", 60, 50},
    {"atom gpu", 60, 50},
    {"atom sys", 60, 50},
    {"red async", 90, 81},
    {"bar warp", 30, 60},
    {"bar cta", 30, 78},
    {"barrier", 30, 60},
    {"barrier cluster", 90, 78},
    {"bmsk", 70, 76},
    {"szext", 70, 76},
    {"clusterlaunchcontrol", 100, 86},
    {"cp async", 80, 70},
    {"cp async bulk", 90, 80},
    {"cp reduce", 90, 80},
    {". cp_mask", 100, 86},
    {"createpolicy", 80, 74},
    {"cvt pack", 72, 65},
    {"cvt f16x2 f32", 80, 70},
    {"cvt e4m3x2", 89, 78},
    {"cvt e5m2x2", 89, 78},
    {"discard", 80, 74},
    {"dp2a", 61, 50},
    {"dp4a", 61, 50},
    {"elect", 90, 80},
    {"ex2 f16", 75, 70},
    {"ex2 f16x2", 75, 70},
    {"ex2 bf16", 90, 78},
    {"ex2 bf16x2", 90, 78},
    {"fence", 70, 60},
    {"fence proxy", 70, 75},
    {"fence proxy async", 90, 80},
    {"fence mbarrier_init", 90, 80},
    {"fns", 30, 60},
    {"getctarank", 90, 78},
    {"griddepcontrol", 90, 78},
    {"ld v8", 100, 88},
    {"ld v4 u64", 100, 88},
    {"ld v4 s64", 100, 88},
    {"ld v4 b64", 100, 88},
    {"ld v4 f64", 100, 88},
    {"st v8", 100, 88},
    {"st async", 90, 81},
    {"st bulk", 100, 86},
    {"ldmatrix", 75, 65},
    {"mapa", 90, 78},
    {"match", 70, 60},
    {"mbarrier", 80, 70},
    {"mbarrier try_wait", 90, 78},
    {"mbarrier expect_tx", 90, 80},
    {"mbarrier complete_tx", 90, 80},
    {"mma", 70, 64},
    {"movmatrix", 75, 78},
    {"multimem", 90, 81},
    {"multimem cp", 90, 91},
    {"nanosleep", 70, 62},
    {"redux", 80, 70},
    {"redux f32", 100, 86},
    {"setmaxnreg", 90, 80},
    {"shfl sync", 30, 60},
    {"vote sync", 30, 60},
    {"stmatrix", 90, 78},
    {"tanh", 75, 70},
    {"tanh bf16", 90, 78},
    {"tanh bf16x2", 90, 78},
    {"tcgen05", 100, 86},
    {"tensormap", 90, 83},
    {"wgmma", 90, 80},
    {"wmma", 70, 60},
    {"add bf16", 90, 78},
    {"add bf16x2", 90, 78},
    {"sub bf16", 90, 78},
    {"sub bf16x2", 90, 78},
    {"mul bf16", 90, 78},
    {"mul bf16x2", 90, 78},
    {"setp bf16", 90, 78},
    {"setp bf16x2", 90, 78},
    {"set bf16", 90, 78},
    {"set bf16x2", 90, 78},
    {"add f32x2", 100, 86},
    {"sub f32x2", 100, 86},
    {"mul f32x2", 100, 86},
    {"fma f32x2", 100, 86},
    {"min f16", 80, 70},
    {"min f16x2", 80, 70},
    {"max f16", 80, 70},
    {"max f16x2", 80, 70},
    {"min relu", 90, 80},
    {"max relu", 90, 80},
    {"fma relu", 80, 70},
    {"fma oob", 90, 81},
    {". u16x2", 90, 80},
    {". s16x2", 90, 80},
    {". bf16", 80, 70},
    {". bf16x2", 80, 70},
    {". tf32", 80, 70},
    {"add f16", 53, 42},
    {"add f16x2", 53, 42},
    {"sub f16", 53, 42},
    {"sub f16x2", 53, 42},
    {"mul f16", 53, 42},
    {"mul f16x2", 53, 42},
    {"fma f16", 53, 42},
    {"fma f16x2", 53, 42},
    {"neg f16", 53, 60},
    {"neg f16x2", 53, 60},
    {"abs f16", 53, 65},
    {"abs f16x2", 53, 65},
    {"setp f16", 53, 42},
    {"setp f16x2", 53, 42},
    {"set f16", 53, 42},
    {"set f16x2", 53, 42},
    {". NaN", 80, 70},
    {". xorsign", 86, 72},
    {". weak", 70, 60},
    {". relaxed", 70, 60},
    {". acquire", 70, 60},
    {". release", 70, 60},
    {". acq_rel", 70, 60},
    {". sc", 70, 60},
    {". mmio", 70, 82},
    {". cluster", 90, 78},
    {". shared::cluster", 90, 78},
    {". shared::cta", 30, 78},
    {". param::entry", 30, 83},
    {". param::func", 30, 83},
    {". mbarrier::complete_tx::bytes", 90, 80},
    {". L1::no_allocate", 70, 74},
    {". L1::evict_first", 70, 74},
    {". L1::evict_last", 70, 74},
    {". L1::evict_normal", 70, 74},
    {". L1::evict_unchanged", 70, 74},
    {". L2::cache_hint", 80, 74},
    {". L2::64B", 75, 74},
    {". L2::128B", 75, 74},
    {". L2::256B", 80, 74},
};

constexpr Need special_needs[] = {
    {"%cluster", 90, 78},        {"%nclusterid", 90, 78},           {"%is_explicit_cluster", 90, 78},
    {"%aggr_smem_size", 90, 81}, {"%reserved_smem_offset", 80, 76}, {"%current_graph_exec", 50, 80},
};

// The first version of PTX that has a target.
constexpr Need targets[] = {
    {"", 10, 10}, {"", 11, 10},  {"", 12, 12},  {"", 13, 12},  {"", 20, 20},  {"", 21, 20},  {"", 30, 30}, {"", 32, 40},
    {"", 35, 31}, {"", 37, 41},  {"", 50, 40},  {"", 52, 41},  {"", 53, 42},  {"", 60, 50},  {"", 61, 50}, {"", 62, 50},
    {"", 70, 60}, {"", 72, 61},  {"", 75, 63},  {"", 80, 70},  {"", 86, 71},  {"", 87, 74},  {"", 88, 90}, {"", 89, 78},
    {"", 90, 78}, {"", 100, 86}, {"", 101, 86}, {"", 103, 88}, {"", 110, 90}, {"", 120, 87}, {"", 121, 88}};

#undef INTEGERS
#undef WORDS
#undef BITS
#undef HALVES
#undef BHALVES
#undef ALL_HALVES
#undef ROUNDING
#undef INTEGRAL
#undef ORDERED
#undef UNORDERED
#undef SCOPE
#undef SHARED
#undef L1
#undef L2
#undef HINT
#undef EVICTION
#undef IN_MEMORY
#undef VIDEO
#undef REDUCTIONS
#undef VECTOR_REDUCTIONS
#undef ATOMICS
#undef AT
#undef MULTIMEM
#undef TO_CLUSTER

}  // namespace ptx
