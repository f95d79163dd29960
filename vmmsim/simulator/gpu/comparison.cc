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
Handler comparison(ptx::Comparison comparison, Type type) {
  using Compared = List<bool, uint16_t, uint32_t, uint64_t, int16_t, int32_t, int64_t, float, double, F16, BF16>;
  using Float = List<float, double, F16, BF16>;
  using enum ptx::Comparison;
  switch (comparison) {
    case eq: return comparison_of(type, Compared(), [](auto a, auto b) { return a == b; });
    case lt:
    case lo: return comparison_of(type, Compared(), [](auto a, auto b) { return a < b; });
    case le:
    case ls: return comparison_of(type, Compared(), [](auto a, auto b) { return a < b || a == b; });
    case gt:
    case hi: return comparison_of(type, Compared(), [](auto a, auto b) { return b < a; });
    case ge:
    case hs: return comparison_of(type, Compared(), [](auto a, auto b) { return b < a || a == b; });
    case ne: return comparison_of(type, Compared(), [](auto a, auto b) { return !(a == b) && are_numbers(a, b); });
    case neu: return comparison_of(type, Float(), [](auto a, auto b) { return !(a == b); });
    case equ: return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b || b < a); });
    case ltu: return comparison_of(type, Float(), [](auto a, auto b) { return !(b < a || a == b); });
    case leu: return comparison_of(type, Float(), [](auto a, auto b) { return !(b < a); });
    case gtu: return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b || a == b); });
    case geu: return comparison_of(type, Float(), [](auto a, auto b) { return !(a < b); });
    case num: return comparison_of(type, Float(), are_numbers);
    case nan: return comparison_of(type, Float(), [](auto a, auto b) { return !are_numbers(a, b); });
    case none: break;
  }
  return nullptr;
}

// Without a branch: of that no compiler makes vectors.
const Handler select = exactly<uint64_t, uint64_t, uint64_t, uint64_t>(
    [](uint64_t a, uint64_t b, uint64_t c) { return b ^ ((a ^ b) & (0 - (c & 1))); });

Handler bool_operation(ptx::Operation operation) {
  using U = uint64_t;
  if (operation == ptx::Operation::and_) return exactly<U, U, U>(std::bit_and<U>());
  if (operation == ptx::Operation::or_) return exactly<U, U, U>(std::bit_or<U>());
  return operation == ptx::Operation::xor_ ? exactly<U, U, U>(std::bit_xor<U>()) : nullptr;
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

// setp: p = (a compared with b) combined with c, q = its opposite combined with c; of a pair p and q are for its
// halves. set: d is all ones or 1.0 where setp is true.
void lower_comparison(Lowering& l, const ptx::Decoded& i) {
  using U = uint64_t;
  const bool is_set = i.opcode == ptx::Opcode::set;
  const Type type = i.types[is_set];
  const bool is_pair = type == Type::f16x2 || type == Type::bf16x2;
  const Handler combine = bool_operation(i.operation);
  FloatMode mode;
  mode.flushes = i.has(Word::ftz);
  const Handler compare = comparison(i.comparison, element_of(type));
  const int a = l.row(i["a"], type);
  const int b = l.row(i["b"], type);
  const int c = combine ? l.row(i["c"]) : -1;
  const ptx::Operand* const other = i.find("q");
  if (!is_set && !other && !combine && !is_pair) {  // the common case: one operation
    const int to = l.row(i["p"]);
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
  } else if (other) {
    second = combined(result_of(exactly<bool, bool>([](bool x) { return !x; }), compared));
  }
  if (!is_set) {
    l.emit(copy, i, l.row(i["p"]), first);
    if (other) l.emit(copy, i, l.row(*other), second);
    return;
  }
  const uint64_t yes = truth(i.type(), is_pair);
  const int low = result_of(select, l.constant(yes), l.constant(0), first);
  const int high = is_pair ? result_of(select, l.constant(yes << 16), l.constant(0), second) : l.constant(0);
  l.emit(exactly<U, U, U>(std::bit_or<U>()), i, l.row(i["d"]), low, high);
}

// selp: a where c is true. slct: a where c is not below 0.
void lower_selection(Lowering& l, const ptx::Decoded& i) {
  using U = uint64_t;
  constexpr auto choose = [](U a, U b, auto c) { return c >= 0 ? a : b; };
  const Type type = i.type();
  const bool is_slct = i.opcode == ptx::Opcode::slct;
  const Type of_condition = is_slct ? i.types[1] : Type::pred;
  const Handler handler = !is_slct                    ? select
                          : of_condition == Type::f32 ? exactly<U, U, U, float>(choose)
                                                      : exactly<U, U, U, int32_t>(choose);
  FloatMode mode;
  mode.flushes = i.has(Word::ftz);
  const int to = l.row(i["d"]);
  const int a = l.row(i["a"], type);
  const int b = l.row(i["b"], type);
  const int condition = l.row(i["c"], of_condition);
  l.emit(handler, i, to, a, b, condition).mode = mode;
}

}  // namespace gpu::arithmetic
