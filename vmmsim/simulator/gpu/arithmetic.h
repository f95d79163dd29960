// SPDX-License-Identifier: MIT-0
// What a thread computes by itself, one function applied to the rows of a warp: the values that rows hold, and how a
// handler is made of a function on them. Results are those of IEEE 754 bit for bit where PTX asks for it. The
// instructions marked .approx are computed more exactly than on a GPU.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <limits>
#include <utility>

#include "half.h"
#include "warp.h"

namespace gpu::arithmetic {

using ptx::Type;
using ptx::Word;

inline bool is_integer(Type t) { return t >= Type::b8 && t <= Type::s64 && t != Type::b128; }
inline Type element_of(Type type) {
  if (type == Type::f16x2) return Type::f16;
  return type == Type::bf16x2 ? Type::bf16 : type;
}

// The operations of one kind: what gives the handler for a type (of the first operand, if they have several); null: not
// simulated.
using Choose = Handler (*)(const ptx::Decoded&, Type);
using Operations = std::unordered_map<ptx::Opcode, Choose>;
const Operations& integer_operations();   // integer.cc
const Operations& floating_operations();  // floating.cc
extern const Handler copy;                // arithmetic.cc: all 64 bits of a row

FloatMode float_mode_of(const ptx::Decoded&);

// The instructions that are not one operation on all their operands.
void lower_conversion(Lowering&, const ptx::Decoded&);  // convert.cc
void lower_comparison(Lowering&, const ptx::Decoded&);  // comparison.cc: setp, set
void lower_selection(Lowering&, const ptx::Decoded&);   // comparison.cc: selp, slct
void lower_pack(Lowering&, const ptx::Decoded&);        // video.cc: cvt.pack
void lower_with_carry(Lowering&, const ptx::Decoded&);  // integer.cc: add.cc, addc ...

// --- Values --------------------------------------------------------------------------------------------------------
// The sum to double's precision, rounded to odd: a digit lost anywhere leaves a 1 in the last place. Rounding that
// again to a type of less than half the digits gives what rounding the exact sum once would have given.
inline double add_to_odd(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  const double lost = (a - (sum - part)) + (b - part);
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (!(std::fabs(lost) > 0) || bits & 1) return sum;
  return std::bit_cast<double>((lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

// An f16 or bf16, held in a double: the exact value until it is put into a register.
template <class Format>
struct Short {
  double value;
  friend Short operator+(Short a, Short b) { return {add_to_odd(a.value, b.value)}; }
  friend Short operator-(Short a, Short b) { return {add_to_odd(a.value, -b.value)}; }
  friend Short operator*(Short a, Short b) { return {a.value * b.value}; }
  friend Short operator-(Short a) { return {-a.value}; }
  friend bool operator<(Short a, Short b) { return a.value < b.value; }
  friend bool operator==(Short a, Short b) { return a.value == b.value; }
};
using F16 = Short<Half>;
using BF16 = Short<Bfloat>;
template <class T>
struct Pair {
  T low, high;
};

template <class T> constexpr bool is_short = false;
template <class F> constexpr bool is_short<Short<F>> = true;
template <class T> constexpr bool is_pair = false;
template <class T> constexpr bool is_pair<Pair<T>> = true;
template <class T> constexpr bool is_float = std::floating_point<T> || is_short<T>;
template <class T> constexpr bool is_float<Pair<T>> = is_float<T>;
template <class T> constexpr unsigned width = 8 * sizeof(T);

template <class T>
T mask(unsigned count) {
  return count >= width<T> ? static_cast<T>(-1) : static_cast<T>((T(1) << count) - 1);
}

template <class Format> constexpr int digits = std::is_same_v<Format, Half> ? 10 : 7;  // after the point
template <class Format> constexpr int least_exponent = std::is_same_v<Format, Half> ? -14 : -126;
template <class Format> constexpr double most = std::is_same_v<Format, Half> ? 65504 : 0x1.fep127;

// Rounds as fesetround says.
template <class Format>
uint64_t shorten(double value) {
  if (std::isfinite(value) && value != 0) {
    const int unit = std::max(std::ilogb(value), least_exponent<Format>) - digits<Format>;
    value = std::copysign(std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit), value);
    const int mode = std::fegetround();
    if (std::fabs(value) > most<Format>) {
      const bool outwards = mode == FE_TONEAREST || mode == (value > 0 ? FE_UPWARD : FE_DOWNWARD);
      value = std::copysign(outwards ? INFINITY : most<Format>, value);
    }
  }
  return Format::bits(static_cast<float>(value));
}

template <class T>
T get(uint64_t bits) {
  if constexpr (std::same_as<T, bool>) return bits & 1;
  else if constexpr (std::integral<T>) return static_cast<T>(bits);
  else if constexpr (std::same_as<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::same_as<T, double>) return std::bit_cast<double>(bits);
  else if constexpr (std::same_as<T, F16>) return {Half::value(bits & 0xffff)};
  else if constexpr (std::same_as<T, BF16>) return {Bfloat::value(bits & 0xffff)};
  else return {get<decltype(T::low)>(bits), get<decltype(T::high)>(bits >> 16)};
}

template <class T>
uint64_t put(T value) {
  if constexpr (std::integral<T>) return static_cast<uint64_t>(value);
  else if constexpr (std::same_as<T, float>) return std::isnan(value) ? 0x7fff'ffff : std::bit_cast<uint32_t>(value);
  else if constexpr (std::same_as<T, double>) return std::bit_cast<uint64_t>(value);
  else if constexpr (std::same_as<T, F16>) return shorten<Half>(value.value);
  else if constexpr (std::same_as<T, BF16>) return shorten<Bfloat>(value.value);
  else return (put(value.low) & 0xffff) | (put(value.high) & 0xffff) << 16;
}

double real(std::floating_point auto value) { return value; }
template <class F> double real(Short<F> value) { return value.value; }
template <class T> T from_real(double value) {
  if constexpr (is_short<T>) return {value};
  else return static_cast<T>(value);
}
template <class T> bool is_nan(T value) { return std::isnan(real(value)); }

template <class T>
T flushed(T value) {
  if constexpr (is_pair<T>) return {flushed(value.low), flushed(value.high)};
  else if constexpr (std::same_as<T, float> || is_short<T>) {
    constexpr double least = std::same_as<T, F16> ? 0x1p-14 : 0x1p-126;
    return std::fabs(real(value)) < least ? from_real<T>(std::copysign(0.0, real(value))) : value;
  } else return value;
}

template <class T>
T finished(T value, FloatMode mode) {
  if constexpr (is_pair<T>) return {finished(value.low, mode), finished(value.high, mode)};
  else if constexpr (is_float<T>) {
    if (mode.flushes) value = flushed(value);  // what is too small before it is rounded, whatever it is rounded to
    if constexpr (is_short<T>) value = get<T>(put(value));
    const double x = real(value);
    if (mode.saturates) return from_real<T>(x > 0 ? std::min(x, 1.0) : 0);
    if (mode.rectifies && x <= 0) return from_real<T>(0);
  }
  return value;
}

// --- Applying a function to a warp ---------------------------------------------------------------------------------
// While it lives, the processor rounds so. A compiler moves floating-point operations past it, unless they take what is
// read from memory after its beginning and what they give is in memory at its end. It is so here, where they work on
// rows; -frounding-math makes the same code of it, but for sums of products (fma), no longer done in vectors.
class RoundingScope {
 public:
  explicit RoundingScope(FloatMode::Rounding rounding) {
    constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
    std::fesetround(modes[rounding]);
  }
  ~RoundingScope() { std::fesetround(FE_TONEAREST); }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;
};

template <class F, class To, class... From>
To evaluate(From... from) {
  if constexpr (is_pair<To>) {
    using Half = decltype(To::low);
    return {static_cast<Half>(F{}(from.low...)), static_cast<Half>(F{}(from.high...))};
  } else {
    return F{}(from...);
  }
}

template <class F, class To, class... From>
To evaluate_flushed(From... from) {
  const To value = evaluate<F, To>(from...);
  if constexpr (std::same_as<To, float> && (std::same_as<From, float> && ...))
    if (std::fabs(F{}(static_cast<double>(from)...)) < 0x1p-126) return std::copysign(0.0f, value);
  return value;
}

constexpr int MicroOp::* operands[] = {&MicroOp::a, &MicroOp::b, &MicroOp::c, &MicroOp::d};

// The operation To = F(From...), of rows a, b, c, d in this order, rounded and finished as op.mode says.
template <class F, class To, class... From>
[[gnu::noinline]] void apply_in_mode(Warp& w, const MicroOp& op, Lanes active) {
  const RoundingScope scope(op.mode.rounding);
  [&]<size_t... k>(std::index_sequence<k...>) {
    for_each_lane(active, [&](unsigned lane) {
      const auto from = [&](int row) { return w.rows[row].lane[lane]; };
      const To value = op.mode.flushes ? evaluate_flushed<F, To>(flushed(get<From>(from(op.*operands[k])))...)
                                       : evaluate<F, To>(get<From>(from(op.*operands[k]))...);
      w.rows[op.to].lane[lane] = put<To>(finished(value, op.mode));
    });
  }(std::make_index_sequence<sizeof...(From)>());
}

// The same; without a mode, as it mostly is, it is fast.
template <class F, class To, class... From>
void apply(Warp& w, const MicroOp& op, Lanes active) {
  if constexpr ((is_float<To> || ... || is_float<From>))
    if (op.mode != FloatMode()) return apply_in_mode<F, To, From...>(w, op, active);
  uint64_t* const to = w.rows[op.to].lane;
  [&]<size_t... k>(std::index_sequence<k...>) {
    const std::array<const uint64_t*, sizeof...(k)> from = {w.rows[op.*operands[k]].lane...};
    set_lanes(to, active, [&](unsigned lane) { return put<To>(evaluate<F, To>(get<From>(from[k][lane])...)); });
  }(std::make_index_sequence<sizeof...(From)>());
}

template <class T> constexpr bool fits_vectors = std::floating_point<T> || (std::integral<T> && sizeof(T) != 2);
template <class F, class To, class... From>
Handler applying() {
  if constexpr ((fits_vectors<To> && ... && fits_vectors<From>)) return fastest<apply<F, To, From...>>();
  else return apply<F, To, From...>;
}

// To = f(From...).
template <class To, class... From, class F>
Handler exactly(F) {
  return applying<F, To, From...>();
}

// --- One of several types ------------------------------------------------------------------------------------------
template <class... T> struct List {};
using Integers = List<uint16_t, uint32_t, uint64_t, int16_t, int32_t, int64_t>;
using Bits = List<uint32_t, uint64_t>;
using Floats = List<float, double>;
using AllFloats = List<float, double, F16, BF16, Pair<F16>, Pair<BF16>>;

template <class T>
bool is(Type type) {
  switch (type) {
    case Type::pred: return std::same_as<T, bool>;
    case Type::b8:
    case Type::u8: return std::same_as<T, uint8_t>;
    case Type::b16:
    case Type::u16: return std::same_as<T, uint16_t>;
    case Type::b32:
    case Type::u32: return std::same_as<T, uint32_t>;
    case Type::b64:
    case Type::u64: return std::same_as<T, uint64_t>;
    case Type::s8: return std::same_as<T, int8_t>;
    case Type::s16: return std::same_as<T, int16_t>;
    case Type::s32: return std::same_as<T, int32_t>;
    case Type::s64: return std::same_as<T, int64_t>;
    case Type::f16: return std::same_as<T, F16>;
    case Type::bf16: return std::same_as<T, BF16>;
    case Type::f16x2: return std::same_as<T, Pair<F16>>;
    case Type::bf16x2: return std::same_as<T, Pair<BF16>>;
    case Type::f32: return std::same_as<T, float>;
    case Type::f64: return std::same_as<T, double>;
    default: return false;
  }
}

template <class T, size_t> using Repeat = T;
template <class F, class T, size_t... k>
Handler repeated(std::index_sequence<k...>) {
  return applying<F, T, Repeat<T, k>...>();
}

// What make<T>() gives for the T in the list that `type` is; null: none is.
template <class Make>
Handler one_of(Type, List<>, Make) {
  return nullptr;
}
template <class Make, class First, class... Rest>
Handler one_of(Type type, List<First, Rest...>, Make make) {
  if (is<First>(type)) return make.template operator()<First>();
  return one_of(type, List<Rest...>(), make);
}
// T = f(T...) of so many sources.
template <unsigned sources, class AnyList, class F>
Handler same(Type type, AnyList list, F) {
  return one_of(type, list, []<class T> { return repeated<F, T>(std::make_index_sequence<sources>()); });
}
// To = f(T).
template <class To, class AnyList, class F>
Handler from(Type type, AnyList list, F) {
  return one_of(type, list, []<class T>() -> Handler { return applying<F, To, T>(); });
}
// The same, of an instruction whose only modifier is its type.
template <unsigned sources, class AnyList, auto f>
Handler same_for(const ptx::Decoded&, Type type) {
  return same<sources>(type, AnyList(), f);
}
template <class To, class AnyList, auto f>
Handler from_any(const ptx::Decoded&, Type type) {
  return from<To>(type, AnyList(), f);
}

}  // namespace gpu::arithmetic
