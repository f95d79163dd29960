// SPDX-License-Identifier: MIT-0
// setp, set, selp, slct: what compares, and what depends on it.
#include <functional>

#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

template <class AnyList, class F>
Handler comparison_of(Type type, AnyList list, F) {
  return one_of(type, list, []<class T>() -> Handler { return applying<F, bool, T, T>(); });
}

constexpr auto are_numbers = []<class T>(T a, T b) {
  if constexpr (is_float<T>) return !is_nan(a) && !is_nan(b);
  else return true;
};

// Floats have further ones, also such that are true if an operand is a NaN (ltu): the opposite of the opposite
// (not ge).
Handler comparison(Modifiers& m, Type type) {
  using Compared = List<bool, uint16_t, uint32_t, uint64_t, int16_t, int32_t, int64_t, float, double, F16, BF16>;
  using Float = List<float, double, F16, BF16>;
  const auto has = [&](auto... words) { return (m.take(words) || ...); };
  if (has("eq")) return comparison_of(type, Compared(), [](auto a, auto b) { return a == b; });
  if (has("lt", "lo")) return comparison_of(type, Compared(), [](auto a, auto b) { return a < b; });
  if (has("le", "ls")) return comparison_of(type, Compared(), [](auto a, auto b) { return a < b || a == b; });
  if (has("gt", "hi")) return comparison_of(type, Compared(), [](auto a, auto b) { return b < a; });
  if (has("ge", "hs")) return comparison_of(type, Compared(), [](auto a, auto b) { return b < a || a == b; });
  if (has("ne")) return comparison_of(type, Compared(), [](auto a, auto b) { return !(a == b) && are_numbers(a, b); });
  if (has("neu")) return comparison_of(type, Float(), [](auto a, auto b) { return !(a == b); });
  if (has("equ")) return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b || b < a); });
  if (has("ltu")) return comparison_of(type, Float(), [](auto a, auto b) { return !(b < a || a == b); });
  if (has("leu")) return comparison_of(type, Float(), [](auto a, auto b) { return !(b < a); });
  if (has("gtu")) return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b || a == b); });
  if (has("geu")) return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b); });
  if (has("num")) return comparison_of(type, Float(), are_numbers);
  if (has("nan")) return comparison_of(type, Float(), [](auto a, auto b) { return !are_numbers(a, b); });
  return nullptr;
}

// Without a branch: of that no compiler makes vectors.
const Handler select = exactly<uint64_t, uint64_t, uint64_t, uint64_t>(
    [](uint64_t a, uint64_t b, uint64_t c) { return b ^ ((a ^ b) & (0 - (c & 1))); });

Handler take_bool_operation(Modifiers& m) {
  using U = uint64_t;
  if (m.take("and")) return exactly<U, U, U>(std::bit_and<U>());
  if (m.take("or")) return exactly<U, U, U>(std::bit_or<U>());
  if (m.take("xor")) return exactly<U, U, U>(std::bit_xor<U>());
  return nullptr;
}

// What `set` gives where the comparison is true: 1.0, or all ones.
uint64_t truth(Type type, bool of_pair) {
  switch (type) {
    case Type::f32: return 0x3f80'0000;
    case Type::f16:
    case Type::f16x2: return 0x3c00;
    case Type::bf16:
    case Type::bf16x2: return 0x3f80;
    default: return of_pair ? 0xffff : ~uint64_t(0);
  }
}

}  // namespace

// setp d{|e}, a, b{, c}: d = (a compared with b) combined with c, e = its opposite combined with c; of a pair d and e
// are for its halves. set d, a, b{, c}: d is all ones or 1.0 where setp is true.
void lower_comparison(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  using U = uint64_t;
  const bool is_set = i.opcode == "set";
  const Type to_type = is_set ? m.type() : Type::pred;
  const Type type = m.type();
  const bool is_pair = type == Type::f16x2 || type == Type::bf16x2;
  const Handler combine = take_bool_operation(m);
  FloatMode mode;
  mode.flushes = m.take("ftz");
  const Handler compare = comparison(m, element_of(type));
  if (!compare || i.operands.size() != (combine ? 4u : 3u)) l.not_simulated(i);
  const int a = l.row(i.operands[1], type);
  const int b = l.row(i.operands[2], type);
  const int c = combine ? l.row(i.operands[3]) : -1;
  const ptx::Operand& destination = i.operands[0];
  const bool has_two = destination.kind == ptx::Operand::list;
  if (!is_set && !has_two && !combine && !is_pair) {  // the common case: one operation
    const int to = l.row(destination);
    l.emit(compare, i, to, a, b).mode = mode;
    return;
  }
  const auto result_of = [&](Handler handler, int x, int y = -1, int z = -1) {
    const int to = l.temporary();
    l.emit(handler, i, to, x, y, z).mode = mode;
    return to;
  };
  const auto combined = [&](int result) { return combine ? result_of(combine, result, c) : result; };
  const int compared = result_of(compare, a, b);
  const int first = combined(compared);
  int second = -1;
  if (is_pair) {
    const Handler upper = exactly<U, U>([](U x) { return x >> 16; });
    const int high_a = result_of(upper, a);
    const int high_b = result_of(upper, b);
    second = combined(result_of(compare, high_a, high_b));
  } else if (has_two) {
    second = combined(result_of(exactly<bool, bool>([](bool x) { return !x; }), compared));
  }
  if (!is_set) {
    l.emit(copy, i, l.row(has_two ? destination.elements.at(0) : destination), first);
    if (has_two) l.emit(copy, i, l.row(destination.elements.at(1)), second);
    return;
  }
  const uint64_t yes = truth(to_type, is_pair);
  const int low = result_of(select, l.constant(yes), l.constant(0), first);
  const int high = is_pair ? result_of(select, l.constant(yes << 16), l.constant(0), second) : l.constant(0);
  l.emit(exactly<U, U, U>(std::bit_or<U>()), i, l.row(destination), low, high);
}

// selp d, a, b, p: a where p is true. slct d, a, b, c: a where c is not below 0.
void lower_selection(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  using U = uint64_t;
  constexpr auto choose = [](U a, U b, auto c) { return c >= 0 ? a : b; };
  const Type type = m.type();
  Handler handler = select;
  FloatMode mode;
  Type of_condition = Type::pred;
  if (i.opcode == "slct") {
    of_condition = m.type();
    mode.flushes = m.take("ftz");
    handler = of_condition == Type::f32 ? exactly<U, U, U, float>(choose) : exactly<U, U, U, int32_t>(choose);
  }
  if (i.operands.size() != 4) l.not_simulated(i);
  const int to = l.row(i.operands[0]);
  const int a = l.row(i.operands[1], type);
  const int b = l.row(i.operands[2], type);
  const int condition = l.row(i.operands[3], of_condition);
  l.emit(handler, i, to, a, b, condition).mode = mode;
}

}  // namespace gpu::arithmetic
