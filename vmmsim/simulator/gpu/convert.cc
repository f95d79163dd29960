// SPDX-License-Identifier: MIT-0
// cvt: one kind of number as another.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

using Wide = __int128;

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
uint64_t put_finished(T value, FloatMode mode) {
  return put(finished(value, mode));
}

uint64_t put_real(double value, Type t, FloatMode mode) {
  switch (t) {
    case Type::f16: return put_finished(F16{value}, mode);
    case Type::bf16: return put_finished(BF16{value}, mode);
    case Type::f32: return put_finished(static_cast<float>(value), mode);
    default: return put_finished(value, mode);
  }
}

// The nearest of the values that a type has.
uint64_t fitting(Wide value, Type type) {
  return static_cast<uint64_t>(std::clamp(value, least_of(type), greatest_of(type)));
}

uint64_t real_from_integer(Wide value, Type to, FloatMode mode) {
  const bool negative = value < 0;
  const auto size = static_cast<uint64_t>(negative ? -value : value);
  const auto below_0 = static_cast<int64_t>(value);
  if (to == Type::f32) return put_finished(negative ? float(below_0) : float(size), mode);
  if (to == Type::f64) return put_finished(negative ? double(below_0) : double(size), mode);
  const bool is_long = size >> 53;  // more digits than a double has: the last one is odd if any are lost
  const uint64_t digits = is_long ? size >> 11 | ((size & 2047) != 0) : size;
  const double odd = static_cast<double>(digits) * (is_long ? 2048 : 1);
  return put_real(negative ? -odd : odd, to, mode);
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

uint64_t real_from_real(double value, uint64_t bits, Type from, Type to, FloatMode mode) {
  if (std::isnan(value) && !mode.saturates && !mode.rectifies) {  // these keep what a NaN carries
    if (from == Type::bf16 && to == Type::f32) return bits << 16 & UINT32_MAX;
    if (from == Type::f64 && to == Type::f32) return std::bit_cast<uint32_t>(static_cast<float>(value));
    if (from == Type::f64 && to == Type::f16) return (bits >> 48 & 0x8000) | 0x7e00 | (bits >> 42 & 0x3ff);
  }
  if (mode.to_integral) value = std::nearbyint(value);
  return put_real(value, to, mode);
}

uint64_t convert_one(uint64_t bits, Type from, Type to, FloatMode mode) {
  if (is_integer(from)) {
    const Wide value = integer_in(bits, from);
    if (!is_integer(to)) return real_from_integer(value, to, mode);
    if (mode.saturates) return fitting(value, to);
    return static_cast<uint64_t>(integer_in(static_cast<uint64_t>(value), to));
  }
  double value = real_in(bits, from);
  const bool flushes = mode.flushes && (from == Type::f32 || to == Type::f32);
  if (flushes && std::fabs(value) < 0x1p-126) value = std::copysign(0.0, value);
  if (is_integer(to)) return integer_from_real(value, from, to);
  mode.flushes = false;
  return real_from_real(value, bits, from, to, mode);
}

void convert(Warp& w, const MicroOp& op, Lanes active) {
  const RoundingScope scope(op.mode.rounding);
  for (const unsigned lane : each(active)) {
    w.rows[op.to].lane[lane] = convert_one(w.rows[op.a].lane[lane], op.from_type, op.type, op.mode);
  }
}

using AllIntegers = List<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t, int64_t>;

// A smaller integer as one of 64 bits.
Handler extension(Type type) {
  return from<uint64_t>(type, AllIntegers(), [](auto a) { return static_cast<uint64_t>(a); });
}

template <class To>
Handler truncation() {
  return exactly<To, float>([](float a) {
    using Limits = std::numeric_limits<To>;
    return std::isnan(a) ? To(0) : static_cast<To>(std::clamp<double>(a, Limits::min(), Limits::max()));
  });
}

// The conversions that programs do most, done fast; null: it is none of them.
Handler common_conversion(Type to, Type type, FloatMode mode) {
  if (mode == FloatMode{FloatMode::to_zero, false, false, false, true} && type == Type::f32) {
    if (to == Type::s32) return truncation<int32_t>();
    if (to == Type::u32) return truncation<uint32_t>();
  }
  if (mode != FloatMode()) return nullptr;
  const auto changed = [](auto a) { return a; };
  if (to == Type::f64 && type == Type::f32) return exactly<double, float>(changed);
  if (to == Type::f64) return from<double>(type, AllIntegers(), changed);
  if (to != Type::f32) return nullptr;
  if (type != Type::f64) return from<float>(type, AllIntegers(), changed);
  return exactly<uint32_t, double>([](double a) { return std::bit_cast<uint32_t>(static_cast<float>(a)); });
}

}  // namespace

void lower_conversion(Lowering& l, const ptx::Decoded& i) {
  if (i.has(Word::pack)) return lower_pack(l, i);
  const FloatMode mode = float_mode_of(i);
  const Type to = i.types[0], from = i.types[1];
  const auto known = [](Type t) {
    return is_integer(t) || t == Type::f16 || t == Type::bf16 || t == Type::f32 || t == Type::f64;
  };
  const bool is_pair = to == Type::f16x2 || to == Type::bf16x2;
  if (!known(from) || !known(element_of(to))) l.not_simulated(i);
  const auto emit_conversion = [&](int target, int source) {
    const Handler common = common_conversion(to, from, mode);
    MicroOp& op = l.emit(common ? common : convert, i, target, source);
    op.type = element_of(to);
    op.from_type = from;
    if (!common) op.mode = mode;
  };
  const int d = l.row(i["d"]);
  const int a = l.row(i["a"], from);
  if (is_pair) {  // a goes to the upper half
    const int b = l.row(i["b"], from);
    const int high = l.temporary(), low = l.temporary();
    emit_conversion(high, a);
    emit_conversion(low, b);
    l.emit(exactly<uint64_t, uint64_t, uint64_t>([](uint64_t x, uint64_t y) { return x << 16 | y; }), i, d, high, low);
    return;
  }
  const bool grows = ptx::bits(to) > ptx::bits(from);
  const bool loses_sign = grows && is_signed(from) && !is_signed(to) && ptx::bits(to) < 64;
  if (is_integer(to) && is_integer(from) && !mode.saturates && !loses_sign)
    l.emit(extension(grows ? from : to), i, d, a);
  else emit_conversion(d, a);
}

}  // namespace gpu::arithmetic
