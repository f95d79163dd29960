// SPDX-License-Identifier: MIT-0
// The instructions of PTX: what ptxas 13.0 takes of them, found out by asking it, and from which target and version on.
#pragma once
#include <string_view>

namespace ptx {

// As the manual writes them, https://docs.nvidia.com/cuda/parallel-thread-execution: a line with # has the parts of it
// from here on. In brackets come the names of some instructions, and then what they have in common. The order of
// modifiers is free, but for that of types and of those in a name.
//   add.cc.word d, a{, b};           a row; what has several names is written with the first of them
//   .word = { .u32, .u64 };          a set of modifiers; one may name a further set, or some in a row: .add.word
//   {.sem.scope}                     both or none, where .weak is none
//   d[|p]    d{.sel}    {-}a    _    a second result; a part of a register; a sign; a result that nobody wants
//   .reg .u32 d, _;                  the type of d, which may also be _. What is not declared has the first type of the
//                                    row if it is d, or else the last one
//   .reg >= d; .reg 2x d; .reg .d a  of this size or a larger one; of twice the size; of the first type
//   .imm a; .sym a; .sreg a;         a is a constant; a name; or also a special register
//   a = { 4, 8 }; a < 16; a % 32;    what it may be if it is a constant: one of these, below 16, a multiple of 32
//   mask : .sync;                    where an operand may be missing, it comes with a modifier
//   .*    *                          all modifiers that there are; whatever operands
constexpr std::string_view instructions = R"(
.integer = { .u16, .u32, .u64, .s16, .s32, .s64 };  .word = { .u32, .u64, .s32, .s64 };  .word32 = { .u32, .s32 };
.signed = { .s16, .s32, .s64 };  .bits = { .b16, .b32, .b64 };  .int = { .u8, .s8, .integer };
.half = { .f16, .f16x2 };  .bhalf = { .bf16, .bf16x2 };  .halves = { .half, .bhalf };  .rnd = { .rn, .rz, .rm, .rp };
.irnd = { .rni, .rzi, .rmi, .rpi };  .CmpOp = { .eq, .ne, .lt, .le, .gt, .ge };
.CmpOpU = { .CmpOp, .lo, .ls, .hi, .hs };  .CmpOpF = { .CmpOp, .equ, .neu, .ltu, .leu, .gtu, .geu, .num, .nan };
.BoolOp = { .and, .or, .xor };  .small = { .b8, .u8, .s8, .b16, .b32, .u16, .u32, .s16, .s32, .f32 };
.element = { .small, .b64, .u64, .s64, .f64 };  .type = { .element, .b128 };
.asem = { .relaxed, .acquire, .release, .acq_rel };  .rsem = { .relaxed, .release };
.wsem = { .acquire, .relaxed };  .sem = { .release, .relaxed };  .near = { .cta, .cluster };
.space = { .global, .ss };  .place = { .ss, {.global}{.hint} };  .scope = { .cta, .cluster, .gpu, .sys };
.ss = { .shared, .shared::cta, .shared::cluster };  .ownss = { .shared, .shared::cta };  .size = { .u32, .u64 };
.window = { .global, .local, .const, .param, .param::entry, .ss };
.primary = { .L2::evict_last, .L2::evict_normal, .L2::evict_first, .L2::evict_unchanged };
.secondary = { .L2::evict_first, .L2::evict_unchanged };  .prefetch = { .L2::64B, .L2::128B, .L2::256B };
.hint = { .L2::cache_hint };
.evict = { .L1::evict_normal, .L1::evict_unchanged, .L1::evict_first, .L1::evict_last, .L1::no_allocate };
.ltype = { .f16, .bf16 };  .reduction = { .amm.u, .min_max.s64, .add.f, .BoolOp.b };
.vreduction = { .v24.add.f32, .vec.amm.ltype, .v24.amm.pair };
.vatomic = { .v24.add.f32, .noftz.vec.amm.ltype, .noftz.v24.amm.pair };
.amm = { .add, .min, .max };  .min_max = { .min, .max };  .inc_dec = { .inc, .dec };
.u = { .u32, .s32, .u64 };  .f = { .f32, .f64 };  .b = { .b32, .b64 };  .pair = { .f16x2, .bf16x2 };
.vec = { .v2, .v4, .v8 };  .v24 = { .v2, .v4 };  .mode = { .clamp, .wrap };  .itype = { .u16, .s16, .u32, .s32 };
.reg .pred p, q;  .reg .u32 membermask, size, src-size, count, parity, limit;  .reg .u16 ctaMask, byteMask;
.reg .u64 cache-policy, phase;  .reg .u64 state, _;  parity < 2;
cache-policy : .L2::cache_hint;  ctaMask : .multicast::cluster;  byteMask : .cp_mask;  c : .BoolOp;
# integer-arithmetic-instructions, extended-precision-integer-arithmetic-instructions
[add, sub]  add.integer d, a, b;  add.sat.s32 d, a, b;  add.cc.word d, a, b;
[addc, subc]  addc{.cc}.word d, a, b;
[mul.lo, mul.hi]  mul.lo.integer d, a, b;
[mul.wide]  mul.wide.itype d, a, b;  .reg 2x d;
[mul24.lo, mul24.hi]  mul24.lo.word32 d, a, b;
[mad.lo, mad.hi]  mad.lo.integer d, a, b, c;
[mad.lo, mad.hi, madc.lo, madc.hi]  mad.lo.cc.word d, a, b, c;
[madc.lo, madc.hi]  madc.lo.word d, a, b, c;
[mad.hi, mad24.hi]  mad.hi.sat.s32 d, a, b, c;
[mad.wide]  mad.wide.itype d, a, b, c;  .reg 2x d, c;
[mad24.lo, mad24.hi]  mad24.lo.word32 d, a, b, c;
[sad]  sad.integer d, a, b, c;
[div, rem]  div.integer d, a, b;
[abs, neg]  abs.signed d, a;
[add, min, max]  add.pair d, a, b;  .pair = { .u16x2, .s16x2 };
[max, min]  max.integer d, a, b;  max.relu.s32 d, a, b;  max.relu.s16x2 d, a, b;
[popc, clz]  popc.b d, a;  .reg .u32 d;
[bfind]  bfind{.shiftamt}.word d, a;  .reg .u32 d;
[fns]  fns.b32 d, mask, base, offset;
[brev]  brev.b d, a;
[bfe]  bfe.word d, a, b, c;  .reg .u32 b, c;  b < 256;  c < 256;
[bfi]  bfi.b f, a, b, c, d;  .reg .u32 c, d;  c < 256;  d < 256;
[szext]  szext.mode.word32 d, a, b;  .reg .u32 b;
[bmsk]  bmsk.mode.b32 d, a, b;  .reg .u32 d, a, b;
[dp2a.lo, dp2a.hi, dp4a]  dp2a.lo.word32.word32 d, a, b, c;  .reg .u32 d, c;
# floating-point-instructions, half-precision-floating-point-instructions
[testp]  testp{.op}.f p, a;  .op = { .finite, .infinite, .number, .notanumber, .normal, .subnormal };
[copysign]  copysign.f d, a, b;
[add, sub, mul]
  add{.rnd}{.ftz}{.sat}.f32 d, a, b;  add{.rnd}.f64 d, a, b;  add{.rn}{.ftz}{.sat}.half d, a, b;
  add{.rn}.bhalf d, a, b;  add{.rnd}{.ftz}.f32x2 d, a, b;
[fma, mad]  fma.rnd{.ftz}{.sat}.f32 d, a, b, c;  fma.rnd.f64 d, a, b, c;
[fma]
  fma.rn{.ftz}{.limit}.half d, a, b, c;  .limit = { .sat, .relu };  fma.rnd{.relu}.bhalf d, a, b, c;
  fma.rn.oob{.oob_limit}.halves d, a, b, c;  .oob_limit = { .relu, .sat };  fma.rnd{.ftz}.f32x2 d, a, b, c;
[div]  div.how{.ftz}.f32 d, a, b;  .how = { .approx, .rnd };
[div.full]  div.full{.ftz}.f32 d, a, b;
[div]  div.rnd.f64 d, a, b;
[abs, neg]  abs{.ftz}.type d, a;  .type = { .f32, .half };  abs.wide d, a;  .wide = { .f64, .bhalf };
[max, min]
  max{.ftz}{.NaN}.f32 d, a, b;  max{.ftz}{.NaN}.xorsign.abs.f32 d, a, b;  max.f64 d, a, b;
  max{.ftz}{.NaN}.half d, a, b;  max{.ftz}{.NaN}.xorsign.abs.half d, a, b;  max{.NaN}.bhalf d, a, b;
  max{.NaN}.xorsign.abs.bhalf d, a, b;
[rcp, sqrt]  rcp.how{.ftz}.f32 d, a;  .how = { .approx, .rnd };
[rcp]  rcp.rnd{.ftz}.f64 d, a;  rcp.approx.ftz.f64 d, a;
[sqrt]  sqrt.rnd.f64 d, a;
[rsqrt]  rsqrt.approx{.ftz}.f d, a;
[cos, sin, lg2, ex2]  cos.approx{.ftz}.f32 d, a;
[ex2]  ex2.approx.half d, a;  ex2.approx.ftz.bhalf d, a;
[tanh]  tanh.approx.type d, a;  .type = { .f32, .halves };
# comparison-and-selection-instructions, half-precision-comparison-instructions
[set]
  set{.BoolOp}.equal.dtype.bits d, a, b{, c};  .equal = { .eq, .ne };  .dtype = { .u32, .s32, .f16, .bf16, .f32 };
  set{.BoolOp}.CmpOpU.dtype.utype d, a, b{, c};  .utype = { .u16, .u32, .u64 };
  set{.BoolOp}.CmpOp.dtype.signed d, a, b{, c};
  set{.BoolOp}.CmpOpF{.ftz}.ftype.f32 d, a, b{, c};  .ftype = { .f32, .f16, .u32, .s32 };
  set{.BoolOp}.CmpOpF.bf16.f32 d, a, b{, c};  set{.BoolOp}.CmpOpF.dtype.f64 d, a, b{, c};
  set{.BoolOp}.CmpOpF{.ftz}.htype.f16 d, a, b{, c};  .htype = { .itype, .f16 };
  set{.BoolOp}.CmpOpF.bf16.f16 d, a, b{, c};
  set{.BoolOp}.CmpOpF.btype.bf16 d, a, b{, c};  .btype = { .itype, .bf16 };
  set{.BoolOp}.CmpOpF{.ftz}.pair.f16x2 d, a, b{, c};  .pair = { .u32, .s32, .f16x2 };
  set{.BoolOp}.CmpOpF.bpair.bf16x2 d, a, b{, c};  .bpair = { .u32, .s32, .bf16x2 };  .reg .pred c;
[setp]
  setp{.BoolOp}.equal.bits p[|q], a, b{, c};  .equal = { .eq, .ne };
  setp{.BoolOp}.CmpOpU.utype p[|q], a, b{, c};  .utype = { .u16, .u32, .u64 };
  setp{.BoolOp}.CmpOp.signed p[|q], a, b{, c};
  setp{.BoolOp}.CmpOpF{.ftz}.ftype p[|q], a, b{, c};  .ftype = { .f32, .f16x2 };
  setp{.BoolOp}.CmpOpF.wtype p[|q], a, b{, c};  .wtype = { .f64, .bf16x2 };  .reg .pred p, _;  .reg .pred c;
[setp]  setp{.BoolOp}.CmpOpF{.ftz}.f16 p, a, b{, c};  setp{.BoolOp}.CmpOpF.bf16 p, a, b{, c};  .reg .pred c;
[selp]  selp.type d, a, b, c;  .type = { .bits, .integer, .f32, .f64 };  .reg .pred c;
[slct]
  slct.dtype.s32 d, a, b, c;  .dtype = { .bits, .integer, .f32, .f64 };  .reg .d a, b;
  slct{.ftz}.dtype.f32 d, a, b, c;
# logic-and-shift-instructions
[and, or, xor]  and.type d, a, b;  .type = { .pred, .bits };
[not]  not.type d, a;  .type = { .pred, .bits };
[cnot]  cnot.bits d, a;
[lop3]  lop3.b32 d, a, b, c, immLut;  .imm immLut;
[lop3]  lop3.or_and.b32 d|p, a, b, c, immLut, q;  .or_and = { .and, .or };  .reg .b32 d, _;  .imm immLut;
[shf.l, shf.r]  shf.l.mode.b32 d, a, b, c;  .reg .u32 c;
[shl]  shl.bits d, a, b;  .reg .u32 b;
[shr]  shr.type d, a, b;  .type = { .bits, .integer };  .reg .u32 b;
# data-movement-and-conversion-instructions
[mov]  mov{.vec}.type *;  .vec = { .v2, .v4 };  .type = { .pred, .b128, .bits, .integer, .f32, .f64 };
[prmt]  prmt.b32{.pmode} d, a, b, c;  .pmode = { .f4e, .b4e, .rc8, .ecl, .ecr, .rc16 };
[shfl]
  shfl{.sync}.kind.b32 d[|p], a, b, c{, membermask};  .kind = { .up, .down, .bfly, .idx };
  .reg .b32 d;  .reg .u32 b, c;  membermask : .sync;
[ld]
  ld{.weak}{.cop}{.global}{.prefetch}{.hint}.data d, [a]{, cache-policy};
  ld.nc{.nc_cop}.global{.prefetch}{.hint}.data d, [a]{, cache-policy};  ld.volatile{.global}{.prefetch}.data d, [a];
  ld.sem.scope{.evict}{.global}{.prefetch}{.hint}.data d, [a]{, cache-policy};
  ld.mmio.relaxed.sys{.global}.type d, [a];  ld{.weak}{.own_cop}.own.data d, [a];  ld.volatile.ss.data d, [a];
  ld.sem.scope.ss.data d, [a];
  .sem = { .relaxed, .acquire };  .own_cop = { .ca, .cg, .cs, .lu, .cv };  .cop = { .own_cop, .evict };
  .nc_cop = { .ca, .cg, .cs, .evict };  .own = { .const, .local, .param, .param::entry, .param::func, .ss };
  .data = { .type, .vec.element };  .reg >= d;
[ldu]  ldu{.global}.data d, [a];  .data = { .type, .v2.element, .v4.small };  .reg >= d;
[st]
  st{.weak}{.cop}{.global}{.hint}.data [a], b{, cache-policy};  st.volatile{.space}.data [a], b;
  st.sem.scope{.evict}{.global}{.hint}.data [a], b{, cache-policy};  st{.weak}{.own_cop}.own.data [a], b;
  st.sem.scope.ss.data [a], b;  st.mmio.relaxed.sys{.global}.type [a], b;
  .sem = { .relaxed, .release };  .own_cop = { .wb, .cg, .cs, .wt };  .cop = { .own_cop, .evict };
  .own = { .local, .param, .param::func, .ss };
  .data = { .type, .v2.element, .vec.small };  .vec = { .v4, .v8 };  .reg >= b;
[cvt]  cvt{.sat}.int.int d, a;  .reg >= d, a;  .sreg a;
[cvt]
  cvt.irnd{.ftz}{.sat}.int.f32 d, a;  cvt.irnd{.sat}.int.stype d, a;  .stype = { .f16, .f64 };
  cvt.irnd.integer.bf16 d, a;  cvt.rnd{.sat}.stype.int d, a;
  cvt.rnd{.ftz}{.sat}.f32.ftype d, a;  .ftype = { .u8, .s8, .f64, .integer };
  cvt.rnd.bf16.btype d, a;  .btype = { .f64, .integer };  cvt.rnd{.sat}.f16.f64 d, a;
  cvt.rnd{.ftz}{.sat}.f16.f32 d, a;  cvt.nz{.relu}{.satfinite}.f16.f32 d, a;  .nz = { .rn, .rz };
  cvt.nz{.relu}{.satfinite}.bf16.f32 d, a;  cvt.rnd{.ftz}.bf16.f32 d, a;
  cvt{.rnd}.wtype.bf16 d, a;  .wtype = { .f64, .f16 };  cvt{.rnd}.bf16.f16 d, a;  cvt{.rnd}{.ftz}.f32.bf16 d, a;
  cvt{.ftz}{.sat}.f32.f16 d, a;  cvt{.ftz}{.sat}.f64.f32 d, a;  cvt{.sat}.f64.f16 d, a;
  cvt{.irnd}{.ftz}{.sat}.f32.f32 d, a;  cvt{.irnd}{.sat}.f16.f16 d, a;  cvt{.irnd}{.sat}.f64.f64 d, a;
  cvt{.irnd}.bf16.bf16 d, a;  cvt.nz{.relu}{.satfinite}.pair.f32 d, a, b;
  cvt.nz{.relu}.tf32.f32 d, a;  cvt.rna{.satfinite}.tf32.f32 d, a;
  cvt.rn{.relu}.satfinite.f8x2.f32 d, a, b;  .f8x2 = { .e4m3x2, .e5m2x2 };  cvt.rn{.relu}.satfinite.f8x2.f16x2 d, a;
  cvt.rn{.relu}.f16x2.f8x2 d, a;  .reg >= d, a, b;
[cvt.pack]
  cvt.pack.sat.type.s32 d, a, b;  .type = { .u16, .s16 };
  cvt.pack.sat.small.s32.b32 d, a, b, c;  .small = { .u8, .s8, .u4, .s4, .u2, .s2 };  .reg .u32 d, a, b, c;
[cvta, cvta.to]  cvta.window.size d, a;
[cvta]  cvta.window.size d, a;  .sym a;
[isspacep]  isspacep.window p, a;  .reg .u32 a;
[isspacep]  isspacep.window p, a;  .reg .u64 a;
[istypep]  istypep.type p, a;  .type = { .texref, .samplerref, .surfref };  .reg .u64 a;
[mapa]  mapa{.shared::cluster}.size d, a, b;  .reg .u32 b;
[mapa]  mapa{.shared::cluster}.size d, a, b;  .reg .u32 b;  .sym a;
[getctarank]  getctarank{.shared::cluster}.size d, a;  .reg .u32 d;
[getctarank]  getctarank{.shared::cluster}.size d, a;  .reg .u32 d;  .sym a;
[prefetch]
  prefetch{.space}.level [a];  .space = { .global, .local };  .level = { .L1, .L2 };
  prefetch{.global}.eviction [a];  .eviction = { .L2::evict_last, .L2::evict_normal };
  prefetch{.tensor_space}.tensormap [a];  .tensor_space = { .const, .param };
[prefetchu]  prefetchu.L1 [a];
[applypriority]  applypriority{.global}.L2::evict_normal [a], size;  size = { 128 };
[discard]  discard{.global}.L2 [a], size;  size = { 128 };
[createpolicy.fractional]
  createpolicy.fractional.primary{.secondary}.b64 cache-policy{, fraction};  .reg .f32 fraction;
[createpolicy.range]
  createpolicy.range{.global}.primary{.secondary}.b64 cache-policy, [a], primary-size, total-size;
  .reg .u32 primary-size, total-size;
[createpolicy.cvt.L2]  createpolicy.cvt.L2.b64 cache-policy, access-property;  .reg .u64 access-property;
[cp.async.ca.shared.global, cp.async.ca.shared::cta.global]
  cp.async.ca.shared.global{.prefetch}{.hint} [dst], [src], cp-size{, src-size}{, cache-policy};
  cp.async.ca.shared.global{.prefetch}{.hint} [dst], [src], cp-size, ignore-src{, cache-policy};
  cp-size = { 4, 8, 16 };  .reg .pred ignore-src;
[cp.async.cg.shared.global, cp.async.cg.shared::cta.global]
  cp.async.cg.shared.global{.prefetch}{.hint} [dst], [src], cp-size{, src-size}{, cache-policy};
  cp.async.cg.shared.global{.prefetch}{.hint} [dst], [src], cp-size, ignore-src{, cache-policy};
  cp-size = { 16 };  .reg .pred ignore-src;
[cp.async.commit_group, cp.async.wait_all, cp.async.bulk.commit_group]  cp.async.commit_group;
[cp.async.wait_group]  cp.async.wait_group N;  .imm N;
[cp.async.bulk.wait_group]  cp.async.bulk.wait_group{.read} N;  .imm N;
[cp.async.mbarrier.arrive]  cp.async.mbarrier.arrive{.noinc}{.ownss}.b64 [addr];
[cp.async.bulk.shared::cluster.global]
  cp.async.bulk.shared::cluster.global.complete{.multicast}{.hint}
    [dstMem], [srcMem], size, [mbar]{, ctaMask}{, cache-policy};
  .complete = { .mbarrier::complete_tx::bytes };  .multicast = { .multicast::cluster };  size % 16;
[cp.async.bulk.shared::cta.global]
  cp.async.bulk.shared::cta.global.complete{.hint} [dstMem], [srcMem], size, [mbar]{, cache-policy};
  .complete = { .mbarrier::complete_tx::bytes };  size % 16;
[cp.async.bulk.shared::cluster.shared::cta]
  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [dstMem], [srcMem], size, [mbar];  size % 16;
[cp.async.bulk.global.shared::cta]
  cp.async.bulk.global.shared::cta.bulk_group{.cp_mask}{.hint} [dstMem], [srcMem], size{, byteMask}{, cache-policy};
  size % 16;
[cp.async.bulk.prefetch.L2.global]
  cp.async.bulk.prefetch.L2.global{.hint} [srcMem], size{, cache-policy};  size % 16;
[cp.async.bulk.tensor, cp.async.bulk.prefetch.tensor, cp.reduce.async.bulk.tensor]  cp.async.bulk.tensor.* *;
[cp.reduce.async.bulk.global.shared::cta]
  cp.reduce.async.bulk.global.shared::cta.bulk_group{.hint}.kind [dstMem], [srcMem], size{, cache-policy};  size % 16;
  .kind = { .reduction, .inc_dec.u32, .add.noftz.ltype, .min_max.ltype };
[cp.reduce.async.bulk.shared::cluster.shared::cta]
  cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.kind [dstMem], [srcMem], size, [mbar];
  .kind = { .amm.word32, .inc_dec.u32, .add.u64, .BoolOp.b32 };  size % 16;
[multimem.ld_reduce]
  multimem.ld_reduce{.sem.scope}{.global}.kind d, [a];  .sem = { .weak, .relaxed, .acquire };
  .kind = { .reduction, .amm.pair, .add.acc::f32.pair, .add.acc::f32.vec.ltype, .add.acc::f32.v24.pair, .vreduction };
[multimem.st]
  multimem.st{.sem.scope}{.global}.data [a], b;  .sem = { .weak, .relaxed, .release };
  .data = { .type, .v24.float, .vec.ltype };  .type = { .b, .f, .pair, .word };  .float = { .f32, .pair };
[multimem.red]
  multimem.red{.sem.scope}{.global}.kind [a], b;  .sem = { .relaxed, .release };
  .kind = { .reduction, .add.pair, .vreduction };
[multimem.cp.async.bulk.global.shared::cta]
  multimem.cp.async.bulk.global.shared::cta.bulk_group{.cp_mask} [dstMem], [srcMem], size{, byteMask};  size % 16;
[multimem.cp.reduce.async.bulk.global.shared::cta]
  multimem.cp.reduce.async.bulk.global.shared::cta.bulk_group.kind [dstMem], [srcMem], size;  size % 16;
  .kind = { .reduction, .inc_dec.u32, .add.noftz.ltype, .min_max.ltype };
[st.async]
  st.async{.sem}{.ss}.mbarrier::complete_tx::bytes.data [a], b, [mbar];  .sem = { .weak, .cluster };
  .data = { {.v24}.type32, {.v2}.type64 };  .type32 = { .b32, .u32, .s32, .f32 };
  .type64 = { .b64, .u64, .s64, .f64 };
[red.async]
  red.async.relaxed.cluster{.shared::cluster}.mbarrier::complete_tx::bytes.kind [a], b, [mbar];
  .kind = { .amm.word32, .inc_dec.u32, .add.x64, .BoolOp.b32 };  .x64 = { .u64, .s64 };
# parallel-synchronization-and-communication-instructions
[atom]
  atom{.asem}{.scope}.place.kind d, [a], b{, cache-policy};
  .kind = { .reduction, .inc_dec.u32, .add.noftz.halves };  .reg d, _;
[atom]
  atom{.asem}{.scope}{.global}{.hint}.vatomic d, [a], b{, cache-policy};
  atom{.asem}{.scope}.place.exch.etype d, [a], b{, cache-policy};  .etype = { .b32, .b64, .b128 };
  atom{.asem}{.scope}{.space}.cas.ctype d, [a], b, c;  .ctype = { .b128, .bits };  .reg d, _;
[red]  red{.rsem}{.scope}.place.kind [a], b{, cache-policy};  .kind = { .reduction, .inc_dec.u32, .add.noftz.halves };
[red]  red{.rsem}{.scope}{.global}{.hint}.vatomic [a], b{, cache-policy};
[bar.sync, bar.cta.sync]  bar.sync a{, b};  .reg .u32 a, b;  a < 16;  b % 32;
[bar.arrive, bar.cta.arrive]  bar.arrive a, b;  .reg .u32 a, b;  a < 16;  b % 32;
[barrier.sync, barrier.cta.sync]  barrier.sync{.aligned} a{, b};  .reg .u32 a, b;  a < 16;  b % 32;
[barrier.arrive, barrier.cta.arrive]  barrier.arrive{.aligned} a, b;  .reg .u32 a, b;  a < 16;  b % 32;
[bar.red, bar.cta.red]  bar.red.popc.u32 d, a{, b}, p;  .reg .u32 d, a, b;  a < 16;  b % 32;
[bar.red, bar.cta.red]  bar.red.op.pred d, a{, b}, p;  .op = { .and, .or };  .reg .u32 a, b;  a < 16;  b % 32;
[barrier.red, barrier.cta.red]  barrier.red{.aligned}.popc.u32 d, a{, b}, p;  .reg .u32 d, a, b;  a < 16;  b % 32;
[barrier.red, barrier.cta.red]
  barrier.red{.aligned}.op.pred d, a{, b}, p;  .op = { .and, .or };  .reg .u32 a, b;  a < 16;  b % 32;
[bar.warp.sync]  bar.warp.sync membermask;
[barrier.cluster.arrive]  barrier.cluster.arrive{.sem}{.aligned};  .sem = { .release, .relaxed };
[barrier.cluster.wait]  barrier.cluster.wait{.acquire}{.aligned};
[membar]  membar.level;  .level = { .cta, .gl, .sys };
[fence]  fence{.sem}.scope;  .sem = { .sc, .acq_rel, .acquire, .release };  fence.mbarrier_init.release.cluster;
[fence, fence.proxy.async::generic]
  fence.acquire.sync_restrict::shared::cluster.cluster;  fence.release.sync_restrict::shared::cta.cluster;
[fence.proxy.alias, membar.proxy.alias]  fence.proxy.alias;
[fence.proxy.async]  fence.proxy.async{.space};  .space = { .global, .shared::cta, .shared::cluster };
[fence.proxy.tensormap::generic]
  fence.proxy.tensormap::generic.acquire.scope [addr], size;  size = { 128 };
  fence.proxy.tensormap::generic.release.scope;
[vote]  vote{.sync}.kind.pred d, a{, membermask};  .kind = { .all, .any, .uni };  membermask : .sync;
[vote]  vote{.sync}.ballot.b32 d, a{, membermask};  .reg .u32 d;  .reg .pred a;  membermask : .sync;
[match]  match.any.sync.b d, a, membermask;  .reg .u32 d;
[match]  match.all.sync.b d[|p], a, membermask;  .reg .b32 d, _;
[activemask]  activemask.b32 d;
[redux]
  redux.sync.amm.word32 d, a, membermask;  redux.sync.BoolOp.b32 d, a, membermask;
  redux.sync{.abs}{.NaN}.min_max.f32 d, a, membermask;
[griddepcontrol]  griddepcontrol.action;  .action = { .launch_dependents, .wait };
[elect]  elect.sync d|p, membermask;  .reg .b32 d, _;
[mbarrier.init]  mbarrier.init{.ownss}.b64 [addr], count;
[mbarrier.inval]  mbarrier.inval{.ownss}.b64 [addr];
[mbarrier.expect_tx, mbarrier.complete_tx]  mbarrier.expect_tx{.relaxed.near}{.ss}.b64 [addr], count;
[mbarrier.arrive, mbarrier.arrive_drop]
  mbarrier.arrive{.sem.near}{.ownss}.b64 state, [addr]{, count};
  mbarrier.arrive{.sem.near}.shared::cluster.b64 _, [addr]{, count};
[mbarrier.arrive.noComplete, mbarrier.arrive_drop.noComplete]
  mbarrier.arrive.noComplete{.release.cta}{.ownss}.b64 state, [addr], count;
[mbarrier.arrive.expect_tx, mbarrier.arrive_drop.expect_tx]
  mbarrier.arrive.expect_tx{.sem.near}{.ownss}.b64 state, [addr], count;
  mbarrier.arrive.expect_tx{.sem.near}.shared::cluster.b64 _, [addr], count;
[mbarrier.test_wait, mbarrier.try_wait]  mbarrier.test_wait{.wsem.near}{.ownss}.b64 p, [addr], phase;
[mbarrier.try_wait]  mbarrier.try_wait{.wsem.near}{.ownss}.b64 p, [addr], phase, limit;
[mbarrier.test_wait.parity, mbarrier.try_wait.parity]
  mbarrier.test_wait.parity{.wsem.near}{.ownss}.b64 p, [addr], parity;
[mbarrier.try_wait.parity]  mbarrier.try_wait.parity{.wsem.near}{.ownss}.b64 p, [addr], parity, limit;
[mbarrier.pending_count]  mbarrier.pending_count.b64 d, phase;  .reg .u32 d;
# control-flow-instructions
[bra]  bra{.uni} *;
[brx.idx]  brx.idx{.uni} index, tlist;  .reg .u32 index;  .sym tlist;
[call]  call{.uni} *;
[ret]  ret{.uni};
[exit, trap, brkpt]  exit;
# miscellaneous-instructions, stack-manipulation-instructions
[nanosleep]  nanosleep.u32 t;  .reg .u32 t;
[pmevent]  pmevent{.mask} a;  .imm a;
[setmaxnreg, st.bulk]  setmaxnreg.* *;
[alloca, stackrestore, stacksave]  alloca.size *;
# video-instructions
[vadd, vsub, vabsdiff, vmin, vmax]
  vadd.word32.word32.word32{.sat} d, a{.sel}, b{.sel};  .reg .u32 d, a, b, c;
  vadd.word32.word32.word32{.sat}.amm d, a{.sel}, b{.sel}, c;
[vadd, vsub, vabsdiff, vmin, vmax]
  vadd.word32.word32.word32{.sat} d{.sel}, a{.sel}, b{.sel}, c;  .reg .u32 d, a, b, c;
[vadd2, vsub2, vabsdiff2, vmin2, vmax2, vavrg2, vadd4, vsub4, vabsdiff4, vmin4, vmax4, vavrg4]
  vadd2.word32.word32.word32{.sat_add} d{.mask}, a{.sel}, b{.sel}, c;  .sat_add = { .sat, .add };
  .reg .u16x2 d, a, b, c;
[vmad]
  vmad.word32.word32.word32{.sat}{.po}{.scale} d, {-}a{.sel}, {-}b{.sel}, {-}c{.sel};
  .scale = { .shr7, .shr15 };  .reg .u32 d, a, b, c;
[vset]
  vset.word32.word32.CmpOp d, a{.sel}, b{.sel};  .reg .u32 d, a, b, c;
  vset.word32.word32.CmpOp.amm d, a{.sel}, b{.sel}, c;
[vset]  vset.word32.word32.CmpOp d{.sel}, a{.sel}, b{.sel}, c;  .reg .u32 d, a, b, c;
[vset2, vset4]  vset2.word32.word32.CmpOp{.add} d{.mask}, a{.sel}, b{.sel}, c;  .reg .u16x2 d, a, b, c;
[vshl, vshr]
  vshl.word32.word32.u32{.sat}.mode d, a{.sel}, b{.sel};  .reg .u32 d, a, b, c;
  vshl.word32.word32.u32{.sat}.mode.amm d, a{.sel}, b{.sel}, c;
[vshl, vshr]  vshl.word32.word32.u32{.sat}.mode d{.sel}, a{.sel}, b{.sel}, c;  .reg .u32 d, a, b, c;
# texture-instructions, surface-instructions, warp-level-matrix-instructions, tensorcore-5th-generation-instructions
[mma, clusterlaunchcontrol, ldmatrix, movmatrix, stmatrix, suld, suq, sured, sust, tcgen05, tensormap, tex, tld4,
txq, wgmma, wmma]
  mma.* *;
)";

// What exists from a target and a version of PTX on: of an instruction, or of all, what has all these modifiers.
constexpr std::string_view needs = R"(
activemask 30 62,  alloca 52 73,  stacksave 52 73,  stackrestore 52 73,  applypriority 80 74,  atom.v2 90 81,
atom.v4 90 81,  atom.v8 90 81,  atom.add.f64 60 50,  red.add.f64 60 50,  atom.f16 70 63,  atom.cas.b16 70 63,
atom.f16x2 60 62,  atom.bf16 90 78,  atom.bf16x2 90 78,  atom.b128 90 83,  atom.cta 60 50,  atom.gpu 60 50,
atom.sys 60 50,  red.async 90 81,  bar.warp 30 60,  bar.cta 30 78,  barrier 30 60,  barrier.cluster 90 78,
bmsk 70 76,  szext 70 76,  clusterlaunchcontrol 100 86,  cp.async 80 70,  cp.async.bulk 90 80,  cp.reduce 90 80,
.cp_mask 100 86,  createpolicy 80 74,  cvt.pack 72 65,  cvt.f16x2.f32 80 70,  cvt.e4m3x2 89 78,  cvt.e5m2x2 89 78,
discard 80 74,  dp2a 61 50,  dp4a 61 50,  elect 90 80,  ex2.f16 75 70,  ex2.f16x2 75 70,  ex2.bf16 90 78,
ex2.bf16x2 90 78,  fence 70 60,  fence.proxy 70 75,  fence.proxy.async 90 80,  fence.mbarrier_init 90 80,  fns 30 60,
getctarank 90 78,  griddepcontrol 90 78,  ld.v8 100 88,  ld.v4.u64 100 88,  ld.v4.s64 100 88,  ld.v4.b64 100 88,
ld.v4.f64 100 88,  st.v8 100 88,  st.async 90 81,  st.bulk 100 86,  ldmatrix 75 65,  mapa 90 78,  match 70 60,
mbarrier 80 70,  mbarrier.try_wait 90 78,  mbarrier.expect_tx 90 80,  mbarrier.complete_tx 90 80,  mma 70 64,
movmatrix 75 78,  multimem 90 81,  multimem.cp 90 91,  nanosleep 70 62,  redux 80 70,  redux.f32 100 86,
setmaxnreg 90 80,  shfl.sync 30 60,  vote.sync 30 60,  stmatrix 90 78,  tanh 75 70,  tanh.bf16 90 78,
tanh.bf16x2 90 78,  tcgen05 100 86,  tensormap 90 83,  wgmma 90 80,  wmma 70 60,  add.bf16 90 78,  add.bf16x2 90 78,
sub.bf16 90 78,  sub.bf16x2 90 78,  mul.bf16 90 78,  mul.bf16x2 90 78,  setp.bf16 90 78,  setp.bf16x2 90 78,
set.bf16 90 78,  set.bf16x2 90 78,  add.f32x2 100 86,  sub.f32x2 100 86,  mul.f32x2 100 86,  fma.f32x2 100 86,
min.f16 80 70,  min.f16x2 80 70,  max.f16 80 70,  max.f16x2 80 70,  min.relu 90 80,  max.relu 90 80,  fma.relu 80 70,
fma.oob 90 81,  .u16x2 90 80,  .s16x2 90 80,  .bf16 80 70,  .bf16x2 80 70,  .tf32 80 70,  add.f16 53 42,
add.f16x2 53 42,  sub.f16 53 42,  sub.f16x2 53 42,  mul.f16 53 42,  mul.f16x2 53 42,  fma.f16 53 42,  fma.f16x2 53 42,
neg.f16 53 60,  neg.f16x2 53 60,  abs.f16 53 65,  abs.f16x2 53 65,  setp.f16 53 42,  setp.f16x2 53 42,  set.f16 53 42,
set.f16x2 53 42,  .NaN 80 70,  .xorsign 86 72,  .weak 70 60,  .relaxed 70 60,  .acquire 70 60,  .release 70 60,
.acq_rel 70 60,  .sc 70 60,  .mmio 70 82,  .cluster 90 78,  .shared::cluster 90 78,  .shared::cta 30 78,
.param::entry 30 83,  .param::func 30 83,  .mbarrier::complete_tx::bytes 90 80,  .L1::no_allocate 70 74,
.L1::evict_first 70 74,  .L1::evict_last 70 74,  .L1::evict_normal 70 74,  .L1::evict_unchanged 70 74,
.L2::cache_hint 80 74,  .L2::64B 75 74,  .L2::128B 75 74,  .L2::256B 80 74
)";

// The same of special registers, by how their names begin, and of targets.
struct Need {
  std::string_view name;
  unsigned target, version;
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

// Modifiers that change nothing if they stand twice.
constexpr std::string_view repeatable = "sat cc approx sync uni relu NaN satfinite shiftamt";

// The modifiers of instructions that have .*
constexpr std::string_view other_words = R"(
u16 u32 u64 s16 s32 s64 b16 b32 b64 f16 f16x2 bf16 bf16x2 f32 f64 rn rz rm rp global shared const param shared::cta
shared::cluster weak relaxed acquire release acq_rel mmio cta cluster gpu sys v2 v4 v8 L2::evict_first L2::evict_last
L2::cache_hint u8 s8 b8 b128 pred tf32 e4m3 e5m2 e4m3x2 e5m2x2 e4m3x4 e5m2x4 e2m1x2 e2m1x4 e2m3x2 e3m2x2 e2m3x4 e3m2x4
ue8m0x2 u16x2 s16x2 u8x4 s8x4 b1 b6x16_p32 b4x16_p64 u4 s4 u2 s2 e2m1 e2m3 e3m2 f32x2 rna rs rni rzi rmi rpi ftz sat
satfinite relu NaN xorsign abs approx full cc noftz oob scaled lo hi wide clamp wrap l r add sub min max and or xor
inc dec cas exch popc any all uni ballot sync aligned gl arrive wait warp red to L1 L2 async bulk mbarrier
commit_group wait_group wait_all read bulk_group prefetch tensor 1d 2d 3d 4d 5d a1d a2d acube cube a2dms 2dms tile
im2col im2col::w im2col::w::128 im2col_no_offs tile::gather4 tile::scatter4 multicast::cluster cp_mask ignore_src
noinc init inval expect_tx complete_tx test_wait try_wait parity pending_count noComplete arrive_drop alias proxy
proxy::async proxy::async.global proxy::tensormap mbarrier_init sync_restrict::shared::cta
sync_restrict::shared::cluster tensormap::generic async.global async::generic fractional range L2::evict_unchanged
mbarrier::complete_tx::bytes m8n8 m8n8k4 m8n8k16 m8n8k32 m8n8k128 m16n8k4 m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128
m16n8k256 m16n16k16 m32n8k16 m8n32k16 m16n16k8 m16n16 m16n8 x1 x2 x4 x8 x16 x32 x64 x128 trans row col load store mma
ld_reduce st ld cp reduce shift alloc dealloc relinquish_alloc_permit commit fence ws acc::f32 acc::f16 mask pack
explicit cta_group::1 cta_group::2 level::eviction_priority replace cp_fenceproxy try_cancel query_cancel is_canceled
get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z b1024 p b trap zero width height depth
channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples filter_mode addr_mode_0
addr_mode_1 addr_mode_2 base level grad unified explicitcluster acquire::cluster evict_normal evict_first evict_last
no_allocate sp sp::ordered_metadata block_scale scale_vec::1X scale_vec::2X scale_vec::4X kind::mxf8f6f4 kind::mxf4
kind::mxf4nvf4 kind::f8f6f4 kind::tf32 kind::f16 kind::i8
)";

}  // namespace ptx
