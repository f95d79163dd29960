// SPDX-License-Identifier: MIT-0
// What a thread computes by itself: integers, bits, floating point, comparisons and conversions. Results are those of
// IEEE 754 bit for bit where PTX asks for it. The instructions marked .approx are computed more exactly than on a GPU.
#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include "half.h"
#include "warp.h"

namespace gpu {
namespace {

using ptx::Type;
using Wide = __int128;
using UnsignedWide = unsigned __int128;

// --- Values --------------------------------------------------------------------------------------------------------
// MicroOp::immediate of floating-point operations: a rounding mode of <cfenv> and these.
constexpr uint64_t flush = 1ull << 32;     // .ftz: subnormal operands and results become zeros of the same sign
constexpr uint64_t saturate = 1ull << 33;  // .sat: to 0 ... 1, a NaN to 0
constexpr uint64_t rectify = 1ull << 34;   // .relu: what is below 0 becomes 0

// The sum to double's precision, rounded to odd: a digit lost anywhere leaves a 1 in the last place. Rounding that
// again to a type of less than half the digits gives what rounding the exact sum once would have given.
double add_to_odd(double a, double b) {
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
template <class T> T not_a_number() { return from_real<T>(std::numeric_limits<double>::quiet_NaN()); }
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
T finished(T value, uint64_t flags) {
  if constexpr (is_pair<T>) return {finished(value.low, flags), finished(value.high, flags)};
  else if constexpr (is_float<T>) {
    if (flags & flush) value = flushed(value);  // what is too small before it is rounded, whatever it is rounded to
    if constexpr (is_short<T>) value = get<T>(put(value));
    const double x = real(value);
    if (flags & saturate) return from_real<T>(x > 0 ? std::min(x, 1.0) : 0);
    if (flags & rectify && x <= 0) return from_real<T>(0);
  }
  return value;
}

// --- Applying a function to a warp ---------------------------------------------------------------------------------
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

// The operation To = F(From...), of rows a, b, c, d in this order, rounded and finished as op.immediate says.
template <class F, class To, class... From>
[[gnu::noinline]] void apply_with_flags(Warp& w, const MicroOp& op, Lanes active) {
  std::fesetround(static_cast<int>(op.immediate & UINT32_MAX));
  const bool flushes = op.immediate & flush;
  [&]<size_t... k>(std::index_sequence<k...>) {
    for_each_lane(active, [&](unsigned lane) {
      const auto from = [&](int row) { return w.rows[row].lane[lane]; };
      const To value = flushes ? evaluate_flushed<F, To>(flushed(get<From>(from(op.*operands[k])))...)
                               : evaluate<F, To>(get<From>(from(op.*operands[k]))...);
      w.rows[op.to].lane[lane] = put<To>(finished(value, op.immediate));
    });
  }(std::make_index_sequence<sizeof...(From)>());
  std::fesetround(FE_TONEAREST);
}

// The same; without flags, as they mostly are, it is fast.
template <class F, class To, class... From>
void apply(Warp& w, const MicroOp& op, Lanes active) {
  if constexpr ((is_float<To> || ... || is_float<From>))
    if (op.immediate) return apply_with_flags<F, To, From...>(w, op, active);
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

template <class... T> struct List {};
using Unsigned = List<uint16_t, uint32_t, uint64_t>;
using Signed = List<int16_t, int32_t, int64_t>;
using Integers = List<uint16_t, uint32_t, uint64_t, int16_t, int32_t, int64_t>;
using Bits = List<uint32_t, uint64_t>;
using ThirtyTwo = List<uint32_t, int32_t>;
using ThirtyTwoUp = List<uint32_t, int32_t, uint64_t, int64_t>;
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

// To = f(From...).
template <class To, class... From, class F>
Handler exactly(F) {
  return applying<F, To, From...>();
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

const Handler copy = exactly<uint64_t, uint64_t>([](uint64_t x) { return x; });
const Handler select =
    exactly<uint64_t, uint64_t, uint64_t, bool>([](uint64_t a, uint64_t b, bool c) { return c ? a : b; });

template <class T> using Double = std::conditional_t<std::signed_integral<T>, Wide, UnsignedWide>;
template <class T> constexpr unsigned width = 8 * sizeof(T);
bool is_signed(Type t) { return t >= Type::s8 && t <= Type::s64; }
bool is_integer(Type t) { return t >= Type::b8 && t <= Type::s64 && t != Type::b128; }

// --- Which operation an instruction is -----------------------------------------------------------------------------
// Takes the modifiers that the operation understands; sets flags. Null: not simulated.
using Choose = Handler (*)(Modifiers&, uint64_t& flags);

uint64_t float_flags(Modifiers& m) {
  uint64_t flags = 0;
  m.take("rn");
  if (m.take("rz")) flags |= FE_TOWARDZERO;
  if (m.take("rm")) flags |= FE_DOWNWARD;
  if (m.take("rp")) flags |= FE_UPWARD;
  if (m.take("ftz")) flags |= flush;
  if (m.take("sat")) flags |= saturate;
  if (m.take("relu")) flags |= rectify;
  return flags;
}

int32_t clamp(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)); }

// Integers of any size are added in 64 bits.
template <auto f>
Handler sum(Modifiers& m, uint64_t& flags) {
  using F = decltype(f);
  using U = Pair<uint16_t>;
  if (m.take_any({"u16x2", "s16x2"})) return exactly<U, U, U>(f);
  const Type type = m.type();
  if (is_integer(type) && m.take("sat"))
    return same<2>(type, List<int32_t>(), [](int64_t a, int64_t b) { return clamp(F{}(a, b)); });
  if (is_integer(type)) return exactly<uint64_t, uint64_t, uint64_t>(f);
  flags = float_flags(m);
  return same<2>(type, AllFloats(), f);
}

constexpr auto multiply_low = [](auto a, auto b) { return a * b; };
constexpr auto multiply_high = []<class T>(T a, T b) {
  return static_cast<T>(static_cast<Double<T>>(a) * static_cast<Double<T>>(b) >> width<T>);
};
constexpr auto fused = []<class T>(T a, T b, T c) -> T {
  if constexpr (is_short<T>) return {add_to_odd(a.value * b.value, c.value)};
  else return std::fma(a, b, c);
};

// mul and mad, of integers: .lo, .hi or .wide.
template <bool adds>
Handler multiply(Modifiers& m, uint64_t& flags) {
  using U = uint64_t;
  const bool low = m.take("lo"), high = m.take("hi"), wide = m.take("wide");
  const Type type = m.type();
  if (low && !is_integer(type)) return nullptr;
  if (low && adds) return exactly<U, U, U, U>([](U a, U b, U c) { return a * b + c; });
  if (low) return exactly<U, U, U>(multiply_low);
  if (high && !adds) return same<2>(type, Integers(), multiply_high);
  if (high && m.take("sat"))
    return same<3>(type, List<int32_t>(),
                   [](int32_t a, int32_t b, int32_t c) { return clamp((static_cast<int64_t>(a) * b >> 32) + c); });
  if (high)
    return same<3>(type, Integers(), []<class T>(T a, T b, T c) {
      return static_cast<T>(static_cast<U>(multiply_high(a, b)) + static_cast<U>(c));
    });
  if (wide)
    return one_of(type, List<uint16_t, int16_t, uint32_t, int32_t>(), []<class T> {
      return adds ? exactly<U, T, T, U>([](T a, T b, U c) { return static_cast<U>(a) * static_cast<U>(b) + c; })
                  : exactly<U, T, T>([](T a, T b) { return static_cast<U>(a) * static_cast<U>(b); });
    });
  flags = float_flags(m);
  return adds ? same<3>(type, Floats(), fused) : same<2>(type, AllFloats(), multiply_low);
}

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

template <bool greatest, bool keeps_nan>
constexpr auto extreme = []<class T>(T a, T b) -> T {
  if constexpr (is_float<T>) {
    if (is_nan(a) && is_nan(b)) return not_a_number<T>();
    if (is_nan(a) || is_nan(b)) {
      if (keeps_nan) return not_a_number<T>();
      return is_nan(a) ? b : a;
    }
    if (a == b) return std::signbit(real(a)) == greatest ? b : a;  // -0 is below +0
  }
  return (a < b) == greatest ? b : a;
};

template <bool greatest>
constexpr auto extreme_above_0 = []<class T>(T a, T b) -> T { return std::max<T>(extreme<greatest, false>(a, b), 0); };

template <bool greatest>
Handler choose_extreme(Modifiers& m, uint64_t& flags) {
  const bool nan = m.take("NaN");
  using U = Pair<uint16_t>;
  using S = Pair<int16_t>;
  if (m.take("u16x2")) return exactly<U, U, U>(extreme<greatest, false>);
  if (m.take("s16x2")) {
    if (m.take("relu")) return exactly<S, S, S>(extreme_above_0<greatest>);
    return exactly<S, S, S>(extreme<greatest, false>);
  }
  const Type type = m.type();
  if (is_integer(type)) {
    if (m.take("relu")) return same<2>(type, List<int32_t>(), extreme_above_0<greatest>);
    return same<2>(type, Integers(), extreme<greatest, false>);
  }
  flags = float_flags(m);
  if (nan) return same<2>(type, AllFloats(), extreme<greatest, true>);
  return same<2>(type, AllFloats(), extreme<greatest, false>);
}

// A function of one real number, computed in double: for .approx, and not for .rn.
template <auto f>
Handler real_function(Modifiers& m, uint64_t& flags) {
  m.ignore({"approx"});
  const Type type = m.type();
  flags = float_flags(m);
  return same<1>(type, AllFloats(), []<class T>(T x) { return from_real<T>(f(real(x))); });
}
// One that IEEE 754 defines: in the type itself, so that it is rounded once.
template <auto f>
Handler exact_function(Modifiers& m, uint64_t& flags) {
  m.ignore({"approx"});
  const Type type = m.type();
  flags = float_flags(m);
  return same<1>(type, Floats(), f);
}

template <class F>
Handler bitwise(Modifiers& m, uint64_t&) {
  const Type type = m.type();
  return type == Type::pred || is_integer(type) ? exactly<uint64_t, uint64_t, uint64_t>(F()) : nullptr;
}

template <class T>
T mask(unsigned count) {
  return count >= width<T> ? static_cast<T>(-1) : static_cast<T>((T(1) << count) - 1);
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

template <bool clamps>
constexpr auto bit_mask = [](uint32_t a, uint32_t b) -> uint32_t {
  const uint32_t from = a & 31, past = from + (b & 31);
  if (clamps && a >= 32) return 0;
  const bool to_the_top = past >= 32 || (clamps && b >= 32);
  return ~0u << from & (to_the_top ? ~0u : ~(~0u << past));
};

template <bool clamps>
constexpr auto extend_sign_at = []<class T>(T a, uint32_t b) -> T {
  if (clamps && b >= 32) return a;
  const uint32_t count = b & 31, bits = static_cast<uint32_t>(a), high = ~0u << count;
  const bool negative = std::signed_integral<T> && count && (bits >> (count - 1) & 1);
  return static_cast<T>((bits & ~high) | (negative ? high : 0));
};

template <bool left, bool wraps>
constexpr auto funnel = [](uint32_t a, uint32_t b, uint32_t c) {
  const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
  const uint32_t by = wraps ? c & 31 : std::min(c, 32u);
  return static_cast<uint32_t>(left ? both << by >> 32 : both >> by);
};

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

uint32_t lookup3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (unsigned k = 0; k < 8; ++k)
    if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
  return result;
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
Handler choose_dot(Modifiers& m) {
  using U = uint32_t;
  const bool a_signed = m.type() == Type::s32;
  const bool b_signed = m.type() == Type::s32;
  if (a_signed && b_signed) return exactly<U, U, U, U>(dot<true, true, count, from>);
  if (a_signed) return exactly<U, U, U, U>(dot<true, false, count, from>);
  if (b_signed) return exactly<U, U, U, U>(dot<false, true, count, from>);
  return exactly<U, U, U, U>(dot<false, false, count, from>);
}

constexpr auto shift_left = []<class T>(T a, uint32_t by) -> T {
  return by < width<T> ? static_cast<T>(static_cast<uint64_t>(a) << by) : T(0);
};
constexpr auto shift_right = []<class T>(T a, uint32_t by) -> T {
  if (by >= width<T>) return a < 0 ? static_cast<T>(-1) : T(0);
  return static_cast<T>(a >> by);
};
template <auto f>
Handler shift(Modifiers& m, uint64_t&) {
  return one_of(m.type(), Integers(), []<class T>() -> Handler { return applying<decltype(f), T, T, uint32_t>(); });
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
constexpr auto add_difference = []<class T>(T a, T b, T c) {
  const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
  return static_cast<T>(static_cast<uint64_t>(c) + (a < b ? y - x : x - y));
};

template <bool high>
constexpr auto multiply_add24 = []<class T>(T a, T b, T c) -> T {
  return static_cast<T>(static_cast<uint32_t>(multiply24<high>(a, b)) + static_cast<uint32_t>(c));
};

// An instruction whose only modifier is its type.
template <unsigned sources, class AnyList, auto f>
Handler of_its_type(Modifiers& m, uint64_t&) {
  return same<sources>(m.type(), AnyList(), f);
}
template <auto f>
Handler of_its_bits(Modifiers& m, uint64_t&) {
  return from<uint32_t>(m.type(), Bits(), f);
}

// The instructions that compute one result from one to four operands, lane by lane.
const std::unordered_map<std::string_view, Choose> elementwise = {
    {"add", sum<[](auto a, auto b) { return a + b; }>},
    {"sub", sum<[](auto a, auto b) { return a - b; }>},
    {"mul", multiply<false>},
    {"mad", multiply<true>},
    {"fma",
     [](Modifiers& m, uint64_t& flags) {
       const Type type = m.type();
       flags = float_flags(m);
       return same<3>(type, AllFloats(), fused);
     }},
    {"mul24",
     [](Modifiers& m, uint64_t&) -> Handler {
       if (m.take("hi")) return same<2>(m.type(), ThirtyTwo(), multiply24<true>);
       if (m.take("lo")) return same<2>(m.type(), ThirtyTwo(), multiply24<false>);
       return nullptr;
     }},
    {"mad24",
     [](Modifiers& m, uint64_t&) -> Handler {
       if (m.take("hi")) return same<3>(m.type(), ThirtyTwo(), multiply_add24<true>);
       if (m.take("lo")) return same<3>(m.type(), ThirtyTwo(), multiply_add24<false>);
       return nullptr;
     }},
    {"sad", of_its_type<3, Integers, add_difference>},
    {"div",
     [](Modifiers& m, uint64_t& flags) {
       m.ignore({"approx", "full"});
       const Type type = m.type();
       if (is_integer(type)) return same<2>(type, Integers(), quotient);
       flags = float_flags(m);
       return same<2>(type, Floats(), [](auto a, auto b) { return a / b; });
     }},
    {"rem", of_its_type<2, Integers, remainder>},
    {"abs",
     [](Modifiers& m, uint64_t& flags) {
       const Type type = m.type();
       if (is_integer(type))
         return same<1>(type, Signed(),
                        []<class T>(T a) { return a < 0 ? static_cast<T>(0 - static_cast<uint64_t>(a)) : a; });
       flags = float_flags(m);
       return same<1>(type, AllFloats(), []<class T>(T a) { return from_real<T>(std::fabs(real(a))); });
     }},
    {"neg",
     [](Modifiers& m, uint64_t& flags) {
       const Type type = m.type();
       if (is_integer(type)) return exactly<uint64_t, uint64_t>([](uint64_t a) { return 0 - a; });
       flags = float_flags(m);
       return same<1>(type, AllFloats(), [](auto a) { return -a; });
     }},
    {"min", choose_extreme<false>},
    {"max", choose_extreme<true>},
    {"rcp", exact_function<[]<class T>(T x) -> T { return 1 / x; }>},
    {"sqrt", exact_function<[](auto x) { return std::sqrt(x); }>},
    {"rsqrt", real_function<[](double x) { return 1 / std::sqrt(x); }>},
    {"sin", real_function<[](double x) { return std::sin(x); }>},
    {"cos", real_function<[](double x) { return std::cos(x); }>},
    {"ex2", real_function<[](double x) { return std::exp2(x); }>},
    {"lg2", real_function<[](double x) { return std::log2(x); }>},
    {"tanh", real_function<[](double x) { return std::tanh(x); }>},
    {"testp",
     [](Modifiers& m, uint64_t&) -> Handler {
       const auto test = [&](auto f) { return from<bool>(m.type(), Floats(), f); };
       if (m.take("finite")) return test([](auto x) { return std::isfinite(x); });
       if (m.take("infinite")) return test([](auto x) { return std::isinf(x); });
       if (m.take("number")) return test([](auto x) { return !std::isnan(x); });
       if (m.take("notanumber")) return test([](auto x) { return std::isnan(x); });
       if (m.take("normal")) return test([](auto x) { return std::isnormal(x) || x == 0; });
       if (m.take("subnormal")) return test([](auto x) { return std::fpclassify(x) == FP_SUBNORMAL; });
       return nullptr;
     }},
    {"copysign",
     [](Modifiers& m, uint64_t&) -> Handler {  // the sign of a, the rest of b
       const Type type = m.type();
       const auto f = []<class T>(T a, T b) {
         constexpr T sign = T(1) << (width<T> - 1);
         return static_cast<T>((a & sign) | (b & ~sign));
       };
       if (type == Type::f32) return same<2>(Type::u32, Bits(), f);
       if (type == Type::f64) return same<2>(Type::u64, Bits(), f);
       return nullptr;
     }},
    {"and", bitwise<std::bit_and<uint64_t>>},
    {"or", bitwise<std::bit_or<uint64_t>>},
    {"xor", bitwise<std::bit_xor<uint64_t>>},
    {"not",
     [](Modifiers& m, uint64_t&) -> Handler {
       const Type type = m.type();
       if (type == Type::pred) return exactly<bool, bool>([](bool a) { return !a; });
       return is_integer(type) ? exactly<uint64_t, uint64_t>([](uint64_t a) { return ~a; }) : nullptr;
     }},
    {"cnot", of_its_type<1, Unsigned, []<class T>(T a) -> T { return a == 0; }>},
    {"shl", shift<shift_left>},
    {"shr", shift<shift_right>},
    {"shf",
     [](Modifiers& m, uint64_t&) {
       using U = uint32_t;
       const bool left = m.take("l");
       const bool wraps = m.take("wrap");
       if (!left) m.ignore({"r"});
       if (!wraps) m.ignore({"clamp"});
       m.type();
       if (left && wraps) return exactly<U, U, U, U>(funnel<true, true>);
       if (left) return exactly<U, U, U, U>(funnel<true, false>);
       if (wraps) return exactly<U, U, U, U>(funnel<false, true>);
       return exactly<U, U, U, U>(funnel<false, false>);
     }},
    {"lop3", of_its_type<4, List<uint32_t>, [](auto... x) { return lookup3(x...); }>},
    {"prmt",
     [](Modifiers& m, uint64_t&) {
       using U = uint32_t;
       m.type();
       if (m.take("f4e")) return exactly<U, U, U, U>(permute<0x6543'5432'4321'3210>);
       if (m.take("b4e")) return exactly<U, U, U, U>(permute<0x0123'7012'6701'5670>);
       if (m.take("rc8")) return exactly<U, U, U, U>(permute<0x3333'2222'1111'0000>);
       if (m.take("ecl")) return exactly<U, U, U, U>(permute<0x3333'3222'3211'3210>);
       if (m.take("ecr")) return exactly<U, U, U, U>(permute<0x3210'2210'1110'0000>);
       if (m.take("rc16")) return exactly<U, U, U, U>(permute<0x3232'1010'3232'1010>);
       return exactly<U, U, U, U>(permute<0>);
     }},
    {"popc", of_its_bits<[](auto a) { return static_cast<uint32_t>(std::popcount(a)); }>},
    {"clz", of_its_bits<[](auto a) { return static_cast<uint32_t>(std::countl_zero(a)); }>},
    {"bfind",
     [](Modifiers& m, uint64_t&) {
       if (m.take("shiftamt")) return from<uint32_t>(m.type(), ThirtyTwoUp(), find_highest<true>);
       return from<uint32_t>(m.type(), ThirtyTwoUp(), find_highest<false>);
     }},
    {"brev", of_its_type<1, Bits, reverse>},
    {"bfe", of_its_type<3, ThirtyTwoUp, extract>},
    {"bfi", of_its_type<4, Bits, insert>},
    {"fns",
     [](Modifiers& m, uint64_t&) {
       m.type();
       return exactly<uint32_t, uint32_t, uint32_t, int32_t>([](auto... x) { return find_nth_set(x...); });
     }},
    {"bmsk",
     [](Modifiers& m, uint64_t&) -> Handler {
       using U = uint32_t;
       m.type();
       if (m.take("clamp")) return exactly<U, U, U>(bit_mask<true>);
       if (m.take("wrap")) return exactly<U, U, U>(bit_mask<false>);
       return nullptr;
     }},
    {"szext",
     [](Modifiers& m, uint64_t&) {
       using U = uint32_t;
       using S = int32_t;
       const bool clamps = m.take("clamp");
       const bool is_signed = m.type() == Type::s32;
       m.ignore({"wrap"});
       if (is_signed && clamps) return exactly<S, S, U>(extend_sign_at<true>);
       if (is_signed) return exactly<S, S, U>(extend_sign_at<false>);
       if (clamps) return exactly<U, U, U>(extend_sign_at<true>);
       return exactly<U, U, U>(extend_sign_at<false>);
     }},
    {"dp4a", [](Modifiers& m, uint64_t&) { return choose_dot<4, 0>(m); }},
    {"dp2a",
     [](Modifiers& m, uint64_t&) -> Handler {
       if (m.take("hi")) return choose_dot<2, 2>(m);
       if (m.take("lo")) return choose_dot<2, 0>(m);
       return nullptr;
     }},
    {"selp",
     [](Modifiers& m, uint64_t&) {
       m.type();
       return select;
     }},
    {"slct",
     [](Modifiers& m, uint64_t& flags) {
       m.type();
       if (m.take("ftz")) flags = flush;
       const auto f = [](uint64_t a, uint64_t b, auto c) { return c >= 0 ? a : b; };
       if (m.type() == Type::f32) return exactly<uint64_t, uint64_t, uint64_t, float>(f);
       return exactly<uint64_t, uint64_t, uint64_t, int32_t>(f);
     }},
};

// --- add.cc, addc, sub.cc, subc, mad.cc, madc ----------------------------------------------------------------------
// Row c: the carry that comes in, to2: that goes out; -1: none.
template <class T, bool subtracts>
void add_with_carry(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    const T a = get<T>(w.rows[op.a].lane[lane]), b = get<T>(w.rows[op.b].lane[lane]);
    const UnsignedWide in = op.c < 0 ? 0 : w.rows[op.c].lane[lane] & 1;
    const UnsignedWide sum = subtracts ? UnsignedWide(a) - b - in : UnsignedWide(a) + b + in;
    w.rows[op.to].lane[lane] = static_cast<T>(sum);
    if (op.to2 >= 0) w.rows[op.to2].lane[lane] = sum >> width<T> & 1;
  });
}

template <bool subtracts>
Handler adder_with_carry(Type type) {
  return ptx::bits(type) == 64 ? add_with_carry<uint64_t, subtracts> : add_with_carry<uint32_t, subtracts>;
}

void lower_elementwise(Lowering&, const ptx::Instruction&, Modifiers&);

// add, addc, sub, subc: d, a, b; mad, madc: d, a, b, c. Without a carry, in or out, they are ordinary functions.
template <bool takes>
void lower_carry(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  const bool gives = m.take("cc");
  if (!takes && !gives) return lower_elementwise(l, i, m);
  const bool is_mad = i.opcode.starts_with("mad");
  const bool subtracts = i.opcode.starts_with("sub");
  const bool high = m.take("hi");
  if (!high) m.ignore({"lo"});
  const Type type = m.type();
  int a = l.row(i.operands.at(1));
  if (is_mad) {
    const Handler multiply =
        high ? same<2>(type, ThirtyTwoUp(), multiply_high) : exactly<uint64_t, uint64_t, uint64_t>(multiply_low);
    const int product = l.temporary();
    const int factor = l.row(i.operands.at(2));
    l.emit(multiply, i, product, a, factor);
    a = product;
  }
  const int to = l.row(i.operands.at(0));
  const int b = l.row(i.operands.at(is_mad ? 3 : 2));
  const int carry = l.carry();
  MicroOp& op = l.emit(subtracts ? adder_with_carry<true>(type) : adder_with_carry<false>(type), i, to, a, b);
  if (takes) op.c = carry;
  if (gives) op.to2 = carry;
}

// --- setp, set -----------------------------------------------------------------------------------------------------
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

Type element_of(Type type) {
  if (type == Type::f16x2) return Type::f16;
  return type == Type::bf16x2 ? Type::bf16 : type;
}

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

// setp d{|e}, a, b{, c}: d = (a compared with b) combined with c, e = its opposite combined with c; of a pair d and e
// are for its halves. set d, a, b{, c}: d is all ones or 1.0 where setp is true.
void lower_comparison(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  using U = uint64_t;
  const bool is_set = i.opcode == "set";
  const Type to_type = is_set ? m.type() : Type::pred;
  const Type type = m.type();
  const bool is_pair = type == Type::f16x2 || type == Type::bf16x2;
  const Handler combine = take_bool_operation(m);
  const uint64_t flags = m.take("ftz") ? flush : 0;
  const Handler compare = comparison(m, element_of(type));
  if (!compare || i.operands.size() != (combine ? 4u : 3u)) l.not_simulated(i);
  const int a = l.row(i.operands[1], type);
  const int b = l.row(i.operands[2], type);
  const int c = combine ? l.row(i.operands[3]) : -1;
  const ptx::Operand& destination = i.operands[0];
  const bool has_two = destination.kind == ptx::Operand::list;
  if (!is_set && !has_two && !combine && !is_pair) {  // the common case: one operation
    const int to = l.row(destination);
    l.emit(compare, i, to, a, b).immediate = flags;
    return;
  }
  const auto result_of = [&](Handler handler, int x, int y = -1, int z = -1) {
    const int to = l.temporary();
    l.emit(handler, i, to, x, y, z).immediate = flags;
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

// --- cvt -----------------------------------------------------------------------------------------------------------
constexpr uint64_t to_integral = 1ull << 35;  // .rni and the like: rounds to an integral value

Wide least_of(Type t) { return is_signed(t) ? -(Wide(1) << (ptx::bits(t) - 1)) : 0; }
Wide greatest_of(Type t) { return (Wide(1) << (ptx::bits(t) - is_signed(t))) - 1; }

Wide integer_in(uint64_t bits, Type t) {
  const unsigned unused = 64 - ptx::bits(t);
  if (is_signed(t)) return static_cast<int64_t>(bits << unused) >> unused;
  return bits << unused >> unused;
}

double real_in(uint64_t bits, Type t) {
  switch (t) {
    case Type::f16: return real(get<F16>(bits));
    case Type::bf16: return real(get<BF16>(bits));
    case Type::f32: return get<float>(bits);
    default: return get<double>(bits);
  }
}

template <class T>
uint64_t put_finished(T value, uint64_t flags) {
  return put(finished(value, flags));
}

uint64_t put_real(double value, Type t, uint64_t flags) {
  switch (t) {
    case Type::f16: return put_finished(F16{value}, flags);
    case Type::bf16: return put_finished(BF16{value}, flags);
    case Type::f32: return put_finished(static_cast<float>(value), flags);
    default: return put_finished(value, flags);
  }
}

// The nearest of the values that a type has.
uint64_t fitting(Wide value, Type type) {
  return static_cast<uint64_t>(std::clamp(value, least_of(type), greatest_of(type)));
}

uint64_t real_from_integer(Wide value, Type to, uint64_t flags) {
  const bool negative = value < 0;
  const auto size = static_cast<uint64_t>(negative ? -value : value);
  const auto below_0 = static_cast<int64_t>(value);
  if (to == Type::f32) return put_finished(negative ? float(below_0) : float(size), flags);
  if (to == Type::f64) return put_finished(negative ? double(below_0) : double(size), flags);
  const bool is_long = size >> 53;  // more digits than a double has: the last one is odd if any are lost
  const uint64_t digits = is_long ? size >> 11 | ((size & 2047) != 0) : size;
  const double odd = static_cast<double>(digits) * (is_long ? 2048 : 1);
  return put_real(negative ? -odd : odd, to, flags);
}

uint64_t integer_from_real(double value, Type from, Type to) {
  if (std::isnan(value)) {
    const bool is_0 = from != Type::f64 && ptx::bits(to) < 64;
    return is_0 ? 0 : static_cast<uint64_t>(integer_in(1ull << (ptx::bits(to) - 1), to));
  }
  value = std::nearbyint(value);
  if (std::fabs(value) >= 0x1p64) return static_cast<uint64_t>(value < 0 ? least_of(to) : greatest_of(to));
  return fitting(static_cast<Wide>(value), to);
}

uint64_t real_from_real(double value, uint64_t bits, Type from, Type to, uint64_t flags) {
  if (std::isnan(value) && !(flags & (saturate | rectify))) {  // these keep what a NaN carries
    if (from == Type::bf16 && to == Type::f32) return bits << 16 & UINT32_MAX;
    if (from == Type::f64 && to == Type::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
    if (from == Type::f64 && to == Type::f16) return (bits >> 48 & 0x8000) | 0x7e00 | (bits >> 42 & 0x3ff);
  }
  if (flags & to_integral) value = std::nearbyint(value);
  return put_real(value, to, flags);
}

uint64_t convert_one(uint64_t bits, Type from, Type to, uint64_t flags) {
  if (is_integer(from)) {
    const Wide value = integer_in(bits, from);
    if (!is_integer(to)) return real_from_integer(value, to, flags);
    if (flags & saturate) return fitting(value, to);
    return static_cast<uint64_t>(integer_in(static_cast<uint64_t>(value), to));
  }
  double value = real_in(bits, from);
  const bool flushes = flags & flush && (from == Type::f32 || to == Type::f32);
  if (flushes && std::fabs(value) < 0x1p-126) value = std::copysign(0.0, value);
  if (is_integer(to)) return integer_from_real(value, from, to);
  return real_from_real(value, bits, from, to, flags & ~flush);
}

void convert(Warp& w, const MicroOp& op, Lanes active) {
  std::fesetround(static_cast<int>(op.immediate & UINT32_MAX));
  for (const unsigned lane : each(active)) {
    w.rows[op.to].lane[lane] = convert_one(w.rows[op.a].lane[lane], op.from_type, op.type, op.immediate);
  }
  std::fesetround(FE_TONEAREST);
}

// A smaller integer as one of 64 bits; only these have to be fast.
Handler extension(Type type) {
  using Smaller = List<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t>;
  return from<uint64_t>(type, Smaller(), [](auto a) { return static_cast<uint64_t>(a); });
}

void lower_conversion(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  uint64_t flags = 0;
  if (m.take("rni")) flags |= FE_TONEAREST | to_integral;
  if (m.take("rzi")) flags |= FE_TOWARDZERO | to_integral;
  if (m.take("rmi")) flags |= FE_DOWNWARD | to_integral;
  if (m.take("rpi")) flags |= FE_UPWARD | to_integral;
  flags |= float_flags(m);
  const Type to = m.type();
  const Type from = m.type();
  const auto known = [](Type t) {
    return is_integer(t) || t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64;
  };
  const bool is_pair = to == Type::f16x2 || to == Type::bf16x2;
  if (!known(from) || !known(element_of(to)) || i.operands.size() != (is_pair ? 3u : 2u)) l.not_simulated(i);
  const auto emit_conversion = [&](int target, int source) {
    MicroOp& op = l.emit(convert, i, target, source);
    op.type = element_of(to);
    op.from_type = from;
    op.immediate = flags;
  };
  const int d = l.row(i.operands[0]);
  const int a = l.row(i.operands[1], from);
  if (is_pair) {  // a goes to the upper half
    const int b = l.row(i.operands[2], from);
    const int high = l.temporary(), low = l.temporary();
    emit_conversion(high, a);
    emit_conversion(low, b);
    l.emit(exactly<uint64_t, uint64_t, uint64_t>([](uint64_t x, uint64_t y) { return x << 16 | y; }), i, d, high, low);
    return;
  }
  const bool grows = ptx::bits(to) > ptx::bits(from);
  const bool loses_sign = grows && is_signed(from) && !is_signed(to) && ptx::bits(to) < 64;
  if (is_integer(to) && is_integer(from) && !(flags & saturate) && !loses_sign)
    l.emit(extension(grows ? from : to), i, d, a);
  else emit_conversion(d, a);
}

// --- mov -----------------------------------------------------------------------------------------------------------
// Puts the elements in `rows` together, or takes them apart; immediate: bits of one.
void pack(Warp& w, const MicroOp& op, Lanes active) {
  const auto element = mask<uint64_t>(static_cast<unsigned>(op.immediate));
  for_each_lane(active, [&](unsigned lane) {
    uint64_t value = 0;
    for (unsigned k = 0; k < op.count; ++k) value |= (w.rows[op.rows[k]].lane[lane] & element) << op.immediate * k;
    w.rows[op.to].lane[lane] = value;
  });
}
void unpack(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    const uint64_t value = w.rows[op.a].lane[lane];
    for (unsigned k = 0; k < op.count; ++k) w.rows[op.rows[k]].lane[lane] = value >> op.immediate * k;
  });
}

void lower_move(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  const Type type = m.type();
  if (i.operands.size() != 2 || type == Type::b128) l.not_simulated(i);
  const ptx::Operand &d = i.operands[0], &a = i.operands[1];
  const bool packs = a.kind == ptx::Operand::list, unpacks = d.kind == ptx::Operand::list;
  if (!packs && !unpacks) {
    const int from = l.row(a, type), to = l.row(d);
    l.emit(copy, i, to, from);
    return;
  }
  const auto& elements = (packs ? a : d).elements;
  if (elements.empty() || elements.size() > 8) l.not_simulated(i);
  const unsigned each = ptx::bits(type) / static_cast<unsigned>(elements.size());
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < elements.size(); ++k) rows[k] = l.row(elements[k]);
  const int whole = l.row(packs ? d : a);
  MicroOp& op = packs ? l.emit(pack, i, whole) : l.emit(unpack, i, -1, whole);
  op.rows = rows;
  op.count = static_cast<uint8_t>(elements.size());
  op.immediate = each;
}

// One of `elementwise`.
void lower_elementwise(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  Type type = Type::none;  // for literals
  for (const std::string_view word : i.modifiers)
    if (const Type t = ptx::type_named(word); t != Type::none) type = t;
  uint64_t flags = 0;
  const Handler handler = elementwise.at(i.opcode)(m, flags);
  if (!handler || i.operands.size() < 2 || i.operands.size() > 5) l.not_simulated(i);
  int rows[5] = {-1, -1, -1, -1, -1};
  for (size_t k = 0; k < i.operands.size(); ++k) rows[k] = l.row(i.operands[k], type);
  l.emit(handler, i, rows[0], rows[1], rows[2], rows[3], rows[4]).immediate = flags;
}

}  // namespace

const Opcodes arithmetic_opcodes = [] {
  Opcodes all = {
      {"mov", lower_move},         {"cvt", lower_conversion},   {"setp", lower_comparison},
      {"set", lower_comparison},   {"add", lower_carry<false>}, {"addc", lower_carry<true>},
      {"sub", lower_carry<false>}, {"subc", lower_carry<true>}, {"mad", lower_carry<false>},
      {"madc", lower_carry<true>},
  };
  for (const auto& [opcode, choose] : elementwise) all.try_emplace(opcode, lower_elementwise);
  return all;
}();

}  // namespace gpu
