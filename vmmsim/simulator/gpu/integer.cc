// SPDX-License-Identifier: MIT-0
// Integers, bits and predicates.
#include <functional>

#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

using Wide = __int128;
using UnsignedWide = unsigned __int128;
template <class T> using Double = std::conditional_t<std::signed_integral<T>, Wide, UnsignedWide>;
using Unsigned = List<uint16_t, uint32_t, uint64_t>;
using Signed = List<int16_t, int32_t, int64_t>;
using ThirtyTwo = List<uint32_t, int32_t>;
using ThirtyTwoUp = List<uint32_t, int32_t, uint64_t, int64_t>;
using U32 = uint32_t;
using U64 = uint64_t;

// --- Sums, products, quotients -------------------------------------------------------------------------------------
int32_t clamp(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }

// Integers of any size are added in 64 bits.
template <auto f>
Handler sum(const ptx::Decoded& i, Type type) {
  using F = decltype(f);
  using U = Pair<uint16_t>;
  if (type == Type::u16x2 || type == Type::s16x2) return exactly<U, U, U>(f);
  if (!is_integer(type)) return nullptr;
  if (i.has(Word::sat)) return same<2>(type, List<int32_t>(), [](int64_t a, int64_t b) { return clamp(F{}(a, b)); });
  return exactly<U64, U64, U64>(f);
}

constexpr auto multiply_low = [](auto a, auto b) { return a * b; };
constexpr auto multiply_high = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b) >> width<T>);
};
// mul and mad: .lo, .hi or .wide.
template <bool adds>
Handler multiply(const ptx::Decoded& i, Type type) {
  if (i.has(Word::lo)) {
    if (!is_integer(type)) return nullptr;
    return adds ? exactly<U64, U64, U64, U64>([](U64 a, U64 b, U64 c) { return a * b + c; })
                : exactly<U64, U64, U64>(multiply_low);
  }
  if (i.has(Word::wide))
    return one_of(type, List<uint16_t, int16_t, uint32_t, int32_t>(), []<class T> {
      return adds ? exactly<U64, T, T, U64>(
                        [](T a, T b, U64 c) { return static_cast<U64>(a) * static_cast<U64>(b) + c; })
                  : exactly<U64, T, T>([](T a, T b) { return static_cast<U64>(a) * static_cast<U64>(b); });
    });
  if (!i.has(Word::hi)) return nullptr;
  if (!adds) return same<2>(type, Integers(), multiply_high);
  if (i.has(Word::sat))
    return same<3>(type, List<int32_t>(),
                   [](int32_t a, int32_t b, int32_t c) { return clamp((static_cast<int64_t>(a) * b >> 32) + c); });
  return same<3>(type, Integers(), []<class T>(T a, T b, T c) {
    return static_cast<T>(static_cast<U64>(multiply_high(a, b)) + static_cast<U64>(c));
  });
}

// mul24 and mad24 multiply the low 24 bits.
template <bool high>
constexpr auto multiply24 = []<class T>(T a, T b) -> T {
  const auto cut = [](T x) -> int64_t {
    const int64_t low = static_cast<uint32_t>(x) & 0xff'ffff;
    return std::signed_integral<T> ? (low ^ 0x80'0000) - 0x80'0000 : low;
  };
  return static_cast<T>(cut(a) * cut(b) >> (high ? 16 : 0));
};
template <bool high>
constexpr auto multiply_add24 = []<class T>(T a, T b, T c) -> T {
  return static_cast<T>(static_cast<uint32_t>(multiply24<high>(a, b)) + static_cast<uint32_t>(c));
};

template <bool adds>
Handler multiply_24_bits(const ptx::Decoded& i, Type type) {
  if (i.has(Word::sat)) return nullptr;
  if (i.has(Word::hi))
    return adds ? same<3>(type, ThirtyTwo(), multiply_add24<true>) : same<2>(type, ThirtyTwo(), multiply24<true>);
  return adds ? same<3>(type, ThirtyTwo(), multiply_add24<false>) : same<2>(type, ThirtyTwo(), multiply24<false>);
}

constexpr auto add_difference = []<class T>(T a, T b, T c) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<T>(static_cast<uint64_t>(c) + (a < b ? y - x : x - y));
};

// What a division by zero gives is the GPU's own matter: all ones.
constexpr auto quotient = []<class T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::signed_integral<T>)
    if (b == -1) return static_cast<T>(0 - static_cast<uint64_t>(a));
  return static_cast<T>(a / b);
};
constexpr auto remainder = []<class T>(T a, T b) -> T {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (std::signed_integral<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
};

constexpr auto absolute = []<class T>(T a) { return a < 0 ? static_cast<T>(0 - static_cast<U64>(a)) : a; };

Handler negative(const ptx::Decoded&, Type type) {
  return is_integer(type) ? exactly<U64, U64>([](U64 a) { return 0 - a; }) : nullptr;
}

template <bool greatest>
constexpr auto extreme = []<class T>(T a, T b) -> T { return (a < b) == greatest ? b : a; };
template <bool greatest>
constexpr auto extreme_above_0 = []<class T>(T a, T b) -> T { return std::max<T>(extreme<greatest>(a, b), 0); };

template <bool greatest>
Handler choose_extreme(const ptx::Decoded& i, Type type) {
  using U = Pair<uint16_t>;
  using S = Pair<int16_t>;
  if (type == Type::u16x2) return exactly<U, U, U>(extreme<greatest>);
  const bool of_pairs = type == Type::s16x2;
  if (i.has(Word::relu)) {
    if (of_pairs) return exactly<S, S, S>(extreme_above_0<greatest>);
    return same<2>(type, List<int32_t>(), extreme_above_0<greatest>);
  }
  return of_pairs ? exactly<S, S, S>(extreme<greatest>) : same<2>(type, Integers(), extreme<greatest>);
}

// dp4a, dp2a: so many elements of a, and bytes of b from this one on, signed or not as the types say.
template <bool a_signed, bool b_signed, unsigned count, unsigned from>
constexpr auto dot = [](uint32_t a, uint32_t b, uint32_t c) {
  for (unsigned k = 0; k < count; ++k) {
    const unsigned size = 32 / count;
    const uint32_t sign = 1u << (size - 1);
    uint32_t x = a >> size * k & mask<uint32_t>(size);
    uint32_t y = b >> 8 * (k + from) & 255;
    if (a_signed) x = (x ^ sign) - sign;
    if (b_signed) y = (y ^ 128) - 128;
    c += x * y;
  }
  return c;
};
template <unsigned count, unsigned from>
Handler choose_dot(const ptx::Decoded& i, Type type) {
  const bool a_signed = type == Type::s32;
  const bool b_signed = i.types[1] == Type::s32;
  if (a_signed && b_signed) return exactly<U32, U32, U32, U32>(dot<true, true, count, from>);
  if (a_signed) return exactly<U32, U32, U32, U32>(dot<true, false, count, from>);
  if (b_signed) return exactly<U32, U32, U32, U32>(dot<false, true, count, from>);
  return exactly<U32, U32, U32, U32>(dot<false, false, count, from>);
}
Handler choose_dot_of_2(const ptx::Decoded& i, Type type) {
  if (i.has(Word::hi)) return choose_dot<2, 2>(i, type);
  return choose_dot<2, 0>(i, type);
}

// --- Bits ----------------------------------------------------------------------------------------------------------
template <class F>
Handler bitwise(const ptx::Decoded&, Type type) {
  return type == Type::pred || is_integer(type) ? exactly<U64, U64, U64>(F()) : nullptr;
}
Handler invert(const ptx::Decoded&, Type type) {
  if (type == Type::pred) return exactly<bool, bool>([](bool a) { return !a; });
  return is_integer(type) ? exactly<U64, U64>([](U64 a) { return ~a; }) : nullptr;
}

constexpr auto shift_left = []<class T>(T a, uint32_t by) -> T {
  return by < width<T> ? static_cast<T>(static_cast<uint64_t>(a) << by) : T(0);
};
constexpr auto shift_right = []<class T>(T a, uint32_t by) -> T {
  if (by >= width<T>) return a < 0 ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> by);
};
template <auto f>
Handler shift(const ptx::Decoded&, Type type) {
  return one_of(type, Integers(), []<class T>() -> Handler { return applying<decltype(f), T, T, uint32_t>(); });
}

template <bool left, bool wraps>
constexpr auto funnel = [](uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  const uint32_t by = wraps ? c & 31 : std::min(c, 32u);
  return static_cast<uint32_t>(left ? both << by >> 32 : both >> by);
};

Handler funnel_shift(const ptx::Decoded& i, Type) {
  const bool left = i.has(Word::l), wraps = i.has(Word::wrap);
  if (left && wraps) return exactly<U32, U32, U32, U32>(funnel<true, true>);
  if (left) return exactly<U32, U32, U32, U32>(funnel<true, false>);
  if (wraps) return exactly<U32, U32, U32, U32>(funnel<false, true>);
  return exactly<U32, U32, U32, U32>(funnel<false, false>);
}

// prmt. The modes but for the plain one choose from four selectors of 16 bits by the lowest bits of c.
template <uint64_t selectors>
constexpr auto permute = [](uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  if (selectors) c = selectors >> 16 * (c & 3) & 0xffff;
  uint32_t result = 0;
  for (unsigned k = 0; k < 4; ++k) {
    const uint32_t selector = c >> 4 * k;
    uint32_t byte = bytes >> 8 * (selector & 7) & 255;
    if (selector & 8) byte = byte & 128 ? 255 : 0;  // its sign alone
    result |= byte << 8 * k;
  }
  return result;
};

Handler choose_permutation(const ptx::Decoded& i, Type) {
  if (i.has(Word::f4e)) return exactly<U32, U32, U32, U32>(permute<0x6543'5432'4321'3210>);
  if (i.has(Word::b4e)) return exactly<U32, U32, U32, U32>(permute<0x0123'7012'6701'5670>);
  if (i.has(Word::rc8)) return exactly<U32, U32, U32, U32>(permute<0x3333'2222'1111'0000>);
  if (i.has(Word::ecl)) return exactly<U32, U32, U32, U32>(permute<0x3333'3222'3211'3210>);
  if (i.has(Word::ecr)) return exactly<U32, U32, U32, U32>(permute<0x3210'2210'1110'0000>);
  if (i.has(Word::rc16)) return exactly<U32, U32, U32, U32>(permute<0x3232'1010'3232'1010>);
  return exactly<U32, U32, U32, U32>(permute<0>);
}

uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
}

constexpr auto reverse = []<class T>(T a) {
  T result = 0;
  for (unsigned k = 0; k < width<T>; ++k) result = static_cast<T>(result | (a >> k & 1) << (width<T> - 1 - k));
  return result;
};

template <bool shift_amount>
constexpr auto find_highest = []<class T>(T a) -> uint32_t {
  using U = std::make_unsigned_t<T>;
  const auto bits = static_cast<U>(a < 0 ? ~a : a);
  if (!bits) return UINT32_MAX;
  const auto position = static_cast<uint32_t>(std::bit_width(bits) - 1);
  return shift_amount ? width<T> - 1 - position : position;
};

Handler choose_highest(const ptx::Decoded& i, Type type) {
  return i.has(Word::shiftamt) ? from<U32>(type, ThirtyTwoUp(), find_highest<true>)
                               : from<U32>(type, ThirtyTwoUp(), find_highest<false>);
}

constexpr auto extract = []<class T>(T a, T b, T c) -> T {
  using U = std::make_unsigned_t<T>;
  const unsigned from = b & 0xff, count = c & 0xff, top = width<T> - 1;
  const bool is_negative = count && (static_cast<U>(a) >> std::min(from + count - 1, top) & 1);
  const bool ones = std::signed_integral<T> && is_negative;
  const U field = from > top ? 0 : static_cast<U>(a) >> from;
  const U known = from > top ? 0 : mask<U>(std::min(count, top + 1 - from));
  return static_cast<T>((field & known) | (ones ? ~known : 0));
};

constexpr auto insert = []<class T>(T a, T b, T c, T d) -> T {
  const unsigned from = c & 0xff, count = d & 0xff;
  if (from >= width<T>) return b;
  const T field = static_cast<T>(mask<T>(count) << from);
  return static_cast<T>((b & ~field) | (static_cast<T>(a << from) & field));
};

uint32_t find_nth_set(uint32_t bits, uint32_t base, int32_t offset) {
  if (offset == 0) return base < 32 && bits >> base & 1 ? base : UINT32_MAX;
  const int step = offset > 0 ? 1 : -1;
  int64_t left = std::abs(static_cast<int64_t>(offset));
  for (int64_t at = base; at >= 0 && at < 32; at += step) {
    if (bits >> at & 1) --left;
    if (left == 0) return static_cast<uint32_t>(at);
  }
  return UINT32_MAX;
}

Handler choose_nth_set(const ptx::Decoded&, Type) {
  return exactly<U32, U32, U32, int32_t>([](auto... x) { return find_nth_set(x...); });
}

template <bool clamps>
constexpr auto bit_mask = [](uint32_t a, uint32_t b) -> uint32_t {
  const uint32_t from = a & 31, past = from + (b & 31);
  if (clamps && a >= 32) return 0;
  const bool to_the_top = past >= 32 || (clamps && b >= 32);
  return ~0u << from & (to_the_top ? ~0u : ~(~0u << past));
};

Handler choose_bit_mask(const ptx::Decoded& i, Type) {
  return i.has(Word::clamp) ? exactly<U32, U32, U32>(bit_mask<true>) : exactly<U32, U32, U32>(bit_mask<false>);
}

template <bool clamps>
constexpr auto extend_sign_at = []<class T>(T a, uint32_t b) -> T {
  if (clamps && b >= 32) return a;
  const uint32_t count = b & 31, bits = static_cast<uint32_t>(a), high = ~0u << count;
  const bool negative = std::signed_integral<T> && count && (bits >> (count - 1) & 1);
  return static_cast<T>((bits & ~high) | (negative ? high : 0));
};

template <bool clamps>
Handler extension_of_sign(Type type) {
  using S32 = int32_t;
  return type == Type::s32 ? exactly<S32, S32, U32>(extend_sign_at<clamps>)
                           : exactly<U32, U32, U32>(extend_sign_at<clamps>);
}
Handler choose_extension_of_sign(const ptx::Decoded& i, Type type) {
  return i.has(Word::clamp) ? extension_of_sign<true>(type) : extension_of_sign<false>(type);
}

// --- add.cc, addc, sub.cc, subc, mad.cc, madc ----------------------------------------------------------------------
// Row c: the carry that comes in, to2: that goes out; -1: none. A subtraction adds the complement: it leaves a carry if
// it borrowed nothing, and takes one off if there is none.
template <class T, bool subtracts>
void add_with_carry(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    const T a = get<T>(w.rows[op.a].lane[lane]), b = get<T>(w.rows[op.b].lane[lane]);
    const UnsignedWide in = op.c < 0 ? subtracts : w.rows[op.c].lane[lane] & 1;
    const UnsignedWide sum = UnsignedWide(a) + (subtracts ? static_cast<T>(~b) : b) + in;
    w.rows[op.to].lane[lane] = static_cast<T>(sum);
    if (op.to2 >= 0) w.rows[op.to2].lane[lane] = sum >> width<T> & 1;
  });
}

template <bool subtracts>
Handler adder_with_carry(Type type) {
  return ptx::bits(type) == 64 ? add_with_carry<uint64_t, subtracts> : add_with_carry<uint32_t, subtracts>;
}

}  // namespace

// add.cc, addc, sub.cc, subc, mad.cc, madc
void lower_with_carry(Lowering& l, const ptx::Decoded& i) {
  using enum ptx::Opcode;
  const bool takes = i.opcode == addc || i.opcode == subc || i.opcode == madc;
  const bool is_mad = i.opcode == mad || i.opcode == madc;
  const bool subtracts = i.opcode == sub || i.opcode == subc;
  const Type type = i.type();
  int a = l.row(i["a"]);
  if (is_mad) {
    const Handler product_of =
        i.has(Word::hi) ? same<2>(type, ThirtyTwoUp(), multiply_high) : exactly<U64, U64, U64>(multiply_low);
    const int product = l.temporary();
    const int factor = l.row(i["b"]);
    l.emit(product_of, i, product, a, factor);
    a = product;
  }
  const int to = l.row(i["d"]);
  const int b = l.row(i[is_mad ? "c" : "b"]);
  const int carry = l.carry();
  MicroOp& op = l.emit(subtracts ? adder_with_carry<true>(type) : adder_with_carry<false>(type), i, to, a, b);
  if (takes) op.c = carry;
  if (i.has(Word::cc)) op.to2 = carry;
}

const Operations& integer_operations() {
  static const Operations all = {
      {ptx::Opcode::add, sum<[](auto a, auto b) { return a + b; }>},
      {ptx::Opcode::sub, sum<[](auto a, auto b) { return a - b; }>},
      {ptx::Opcode::mul, multiply<false>},
      {ptx::Opcode::mad, multiply<true>},
      {ptx::Opcode::mul24, multiply_24_bits<false>},
      {ptx::Opcode::mad24, multiply_24_bits<true>},
      {ptx::Opcode::sad, same_for<3, Integers, add_difference>},
      {ptx::Opcode::div, same_for<2, Integers, quotient>},
      {ptx::Opcode::rem, same_for<2, Integers, remainder>},
      {ptx::Opcode::abs, same_for<1, Signed, absolute>},
      {ptx::Opcode::neg, negative},
      {ptx::Opcode::min, choose_extreme<false>},
      {ptx::Opcode::max, choose_extreme<true>},
      {ptx::Opcode::dp4a, choose_dot<4, 0>},
      {ptx::Opcode::dp2a, choose_dot_of_2},
      {ptx::Opcode::and_, bitwise<std::bit_and<U64>>},
      {ptx::Opcode::or_, bitwise<std::bit_or<U64>>},
      {ptx::Opcode::xor_, bitwise<std::bit_xor<U64>>},
      {ptx::Opcode::not_, invert},
      {ptx::Opcode::cnot, same_for<1, Unsigned, []<class T>(T a) -> T { return a == 0; }>},
      {ptx::Opcode::shl, shift<shift_left>},
      {ptx::Opcode::shr, shift<shift_right>},
      {ptx::Opcode::shf, funnel_shift},
      {ptx::Opcode::lop3, same_for<4, List<U32>, [](auto... x) { return lookup3(x...); }>},
      {ptx::Opcode::prmt, choose_permutation},
      {ptx::Opcode::popc, from_any<U32, Bits, [](auto a) { return static_cast<U32>(std::popcount(a)); }>},
      {ptx::Opcode::clz, from_any<U32, Bits, [](auto a) { return static_cast<U32>(std::countl_zero(a)); }>},
      {ptx::Opcode::brev, same_for<1, Bits, reverse>},
      {ptx::Opcode::bfind, choose_highest},
      {ptx::Opcode::bfe, same_for<3, ThirtyTwoUp, extract>},
      {ptx::Opcode::bfi, same_for<4, Bits, insert>},
      {ptx::Opcode::bmsk, choose_bit_mask},
      {ptx::Opcode::fns, choose_nth_set},
      {ptx::Opcode::szext, choose_extension_of_sign},
  };
  return all;
}

}  // namespace gpu::arithmetic
