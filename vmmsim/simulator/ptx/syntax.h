// SPDX-License-Identifier: MIT-0
// The tables of instructions.h as they are looked into: the modifiers, each with what it says, and the forms of each
// instruction.
#pragma once
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
#include "ptx.h"

namespace ptx {

PTX_WORDS(Opcode, abs, activemask, add, addc, alloca, and_, applypriority, atom, bar, barrier, bfe, bfi, bfind, bmsk,
          bra, brev, brkpt, brx, call, clusterlaunchcontrol, clz, cnot, copysign, cos, cp, createpolicy, cvt, cvta,
          discard, div, dp2a, dp4a, elect, ex2, exit, fence, fma, fns, getctarank, griddepcontrol, isspacep, istypep,
          ld, ldmatrix, ldu, lg2, lop3, mad, mad24, madc, mapa, match, max, mbarrier, membar, min, mma, mov, movmatrix,
          mul, mul24, multimem, nanosleep, neg, not_, or_, pmevent, popc, prefetch, prefetchu, prmt, rcp, red, redux,
          rem, ret, rsqrt, sad, selp, set, setmaxnreg, setp, shf, shfl, shl, shr, sin, slct, sqrt, st, stackrestore,
          stacksave, stmatrix, sub, subc, suld, suq, sured, sust, szext, tanh, tcgen05, tensormap, testp, tex, tld4,
          trap, txq, vabsdiff, vabsdiff2, vabsdiff4, vadd, vadd2, vadd4, vavrg2, vavrg4, vmad, vmax, vmax2, vmax4, vmin,
          vmin2, vmin4, vote, vset, vset2, vset4, vshl, vshr, vsub, vsub2, vsub4, wgmma, wmma, xor_)
PTX_WORDS(Scope, cta, cluster, gpu, sys, gl)
PTX_WORDS(Order, weak, volatile_, relaxed, acquire, release, acq_rel, sc)
PTX_WORDS(CacheOperator, ca, cg, cs, lu, cv, wb, wt)
PTX_WORDS(Rounding, rn, rz, rm, rp, rna, rni, rzi, rmi, rpi)
PTX_WORDS(Comparison, eq, ne, lt, le, gt, ge, lo, ls, hi, hs, equ, neu, ltu, leu, gtu, geu, num, nan)
PTX_WORDS(Operation, add, min, max, inc, dec, and_, or_, xor_, exch, cas, popc)
PTX_WORDS(Word, acc_f32, alias, all, any, arrive, arrive_drop, async, b4e, ballot, bfly, bulk, bulk_group, cc, clamp,
          cluster, commit_group, complete_tx, cp, cp_mask, down, ecl, ecr, expect_tx, f4e, finite, ftz, hi, idx,
          infinite, init, inval, l, launch_dependents, ld_reduce, lo, mbarrier, mbarrier_init, mmio, multicast_cluster,
          NaN, noComplete, noinc, normal, notanumber, number, oob, pack, parity, pending_count, po, prefetch, proxy,
          rc16, rc8, red, reduce, relu, sat, satfinite, shared_cluster, shiftamt, shr15, shr7, st, subnormal, sync,
          sync_restrict_shared_cluster, sync_restrict_shared_cta, tensor, tensormap_generic, test_wait, to, try_wait,
          uni, up, wait, wait_all, wait_group, warp, wide, wrap,
          xorsign)  // what else changes what an instruction does
#undef PTX_WORDS
Opcode opcode_named(std::string_view);  // none: there is no such opcode

// What a modifier says, if it says something of that kind.
struct Modifier {
  std::string_view text = {};
  Type type = Type::none;
  Space space = Space::generic;
  Scope scope = Scope::none;
  Order order = Order::none;
  CacheOperator cache = CacheOperator::none;
  Rounding rounding = Rounding::none;
  Comparison comparison = Comparison::none;
  Operation operation = Operation::none;
  Word word = Word::none;
  uint8_t count = 0;                             // of elements: .v2
  bool is_repeatable = false, is_other = false;  // as in the lists of instructions.h
};

// One of several modifiers.
struct Slot {
  std::vector<const Modifier*> choice;
  bool may_lack = false;
  bool is_in_group = false;  // if one of these is there, all are
  bool has(const Modifier* modifier) const;
};

// What an operand must be.
struct Parameter {
  enum Kind : uint8_t { value, address, constant, symbol, sink } kind = value;
  std::string_view name = {}, second = {};  // second: a second result, or empty
  bool may_lack = false, second_may_lack = false;
  const std::vector<const Modifier*>* comes_with = nullptr;  // if it may lack: it is there if one of these is
  Type type = Type::none;                                    // none: that of the first or last modifier which is a type
  bool has_first_type = false, may_be_wider = false, is_twice_as_wide = false;
  bool may_be_sink = false, may_be_special = false, has_part = false, has_sign = false;
  uint64_t most = ~uint64_t(0), multiple = 1;  // of a constant
  std::vector<uint64_t> values = {};           // of a constant; empty: any
  bool is_result() const;
};

struct Form {
  std::vector<Slot> slots = {};
  std::vector<Parameter> parameters = {};
  bool has_any_modifiers = false, has_any_operands = false;
};

// What exists from a target and a version of PTX on.
struct Feature {
  std::string_view name;
  Opcode opcode;  // none: whatever has the modifiers
  std::vector<const Modifier*> modifiers;
  unsigned target, version;
};

class Syntax {
 public:
  // What has a name. What begins so may also have a longer one.
  struct Named {
    Opcode opcode = Opcode::none;
    std::vector<const Form*> forms = {};  // none: it is only how others begin
    bool may_be_longer = false;
  };
  Syntax();
  const Modifier* modifier(std::string_view word) const;  // null: no instruction has it
  // The longest name that the instruction begins with, and how many modifiers belong to it; null: it has none.
  const Named* longest_name(const Instruction&, size_t& modifiers) const;
  const std::vector<Feature>& features() const { return features_; }

 private:
  friend class SyntaxReader;
  const Modifier* add(std::string_view word);
  std::unordered_map<std::string_view, Modifier> modifiers_;
  std::unordered_map<std::string, Named> names_;
  std::deque<Form> forms_;
  std::deque<std::vector<const Modifier*>> choices_;  // of Parameter::comes_with
  std::vector<Feature> features_;
};
const Syntax& syntax();

}  // namespace ptx
