// SPDX-License-Identifier: MIT-0
// Floating point, of 16, 32 and 64 bits, and of two values of 16 bits.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

constexpr auto fused = []<class T>(T a, T b, T c) -> T {
  if constexpr (is_short<T>) return {add_to_odd(a.value * b.value, c.value)};
  else return std::fma(a, b, c);
};

Handler quotient(const ptx::Decoded&, Type type) {
  return same<2>(type, Floats(), [](auto a, auto b) { return a / b; });
}

constexpr auto absolute = []<class T>(T a) { return from_real<T>(std::fabs(real(a))); };

template <bool greatest, bool keeps_nan>
constexpr auto extreme = []<class T>(T a, T b) -> T {
  const T nan = from_real<T>(std::numeric_limits<double>::quiet_NaN());
  if (is_nan(a) && is_nan(b)) return nan;
  if (is_nan(a) || is_nan(b)) {
    if (keeps_nan) return nan;
    return is_nan(a) ? b : a;
  }
  if (a == b) return std::signbit(real(a)) == greatest ? b : a;  // -0 is below +0
  return (a < b) == greatest ? b : a;
};
template <bool greatest>
Handler choose_extreme(const ptx::Decoded& i, Type type) {
  return i.has(Word::NaN) ? same<2>(type, AllFloats(), extreme<greatest, true>)
                          : same<2>(type, AllFloats(), extreme<greatest, false>);
}

// A function of one real number, computed in double: for .approx, and not for .rn.
template <auto f>
Handler real_function(const ptx::Decoded&, Type type) {
  return same<1>(type, AllFloats(), []<class T>(T x) { return from_real<T>(f(real(x))); });
}
// One that IEEE 754 defines: in the type itself, so that it is rounded once.
template <auto f>
Handler exact_function(const ptx::Decoded&, Type type) {
  return same<1>(type, Floats(), f);
}

Handler choose_test(const ptx::Decoded& i, Type type) {
  const auto test = [&](auto f) { return from<bool>(type, Floats(), f); };
  if (i.has(Word::finite)) return test([](auto x) { return std::isfinite(x); });
  if (i.has(Word::infinite)) return test([](auto x) { return std::isinf(x); });
  if (i.has(Word::number)) return test([](auto x) { return !std::isnan(x); });
  if (i.has(Word::notanumber)) return test([](auto x) { return std::isnan(x); });
  if (i.has(Word::normal)) return test([](auto x) { return std::isnormal(x) || x == 0; });
  if (i.has(Word::subnormal)) return test([](auto x) { return std::fpclassify(x) == FP_SUBNORMAL; });
  return nullptr;
}

// The sign of a, the rest of b.
constexpr auto with_sign_of = []<class T>(T a, T b) {
  constexpr T sign = T(1) << (width<T> - 1);
  return static_cast<T>((a & sign) | (b & ~sign));
};
Handler copy_sign(const ptx::Decoded&, Type type) {
  if (type == Type::f32) return same<2>(Type::u32, Bits(), with_sign_of);
  return type == Type::f64 ? same<2>(Type::u64, Bits(), with_sign_of) : nullptr;
}

}  // namespace

FloatMode float_mode_of(const ptx::Decoded& i) {
  using ptx::Rounding;
  const auto is = [&](Rounding one, Rounding other) { return i.rounding == one || i.rounding == other; };
  FloatMode mode;
  if (is(Rounding::rz, Rounding::rzi)) mode.rounding = FloatMode::to_zero;
  if (is(Rounding::rm, Rounding::rmi)) mode.rounding = FloatMode::down;
  if (is(Rounding::rp, Rounding::rpi)) mode.rounding = FloatMode::up;
  mode.to_integral = i.rounding >= Rounding::rni;
  mode.flushes = i.has(Word::ftz);
  mode.saturates = i.has(Word::sat);
  mode.rectifies = i.has(Word::relu);
  return mode;
}

const Operations& floating_operations() {
  static const Operations all = {
      {ptx::Opcode::add, same_for<2, AllFloats, [](auto a, auto b) { return a + b; }>},
      {ptx::Opcode::sub, same_for<2, AllFloats, [](auto a, auto b) { return a - b; }>},
      {ptx::Opcode::mul, same_for<2, AllFloats, [](auto a, auto b) { return a * b; }>},
      {ptx::Opcode::mad, same_for<3, Floats, fused>},
      {ptx::Opcode::fma, same_for<3, AllFloats, fused>},
      {ptx::Opcode::div, quotient},
      {ptx::Opcode::abs, same_for<1, AllFloats, absolute>},
      {ptx::Opcode::neg, same_for<1, AllFloats, [](auto a) { return -a; }>},
      {ptx::Opcode::min, choose_extreme<false>},
      {ptx::Opcode::max, choose_extreme<true>},
      {ptx::Opcode::rcp, exact_function<[]<class T>(T x) -> T { return 1 / x; }>},
      {ptx::Opcode::sqrt, exact_function<[](auto x) { return std::sqrt(x); }>},
      {ptx::Opcode::rsqrt, real_function<[](double x) { return 1 / std::sqrt(x); }>},
      {ptx::Opcode::sin, real_function<[](double x) { return std::sin(x); }>},
      {ptx::Opcode::cos, real_function<[](double x) { return std::cos(x); }>},
      {ptx::Opcode::ex2, real_function<[](double x) { return std::exp2(x); }>},
      {ptx::Opcode::lg2, real_function<[](double x) { return std::log2(x); }>},
      {ptx::Opcode::tanh, real_function<[](double x) { return std::tanh(x); }>},
      {ptx::Opcode::testp, choose_test},
      {ptx::Opcode::copysign, copy_sign},
  };
  return all;
}

}  // namespace gpu::arithmetic
