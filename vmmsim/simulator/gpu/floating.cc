// SPDX-License-Identifier: MIT-0
// Floating point, of 16, 32 and 64 bits, and of two values of 16 bits.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

constexpr auto fused = []<class T>(T a, T b, T c) -> T {
  if constexpr (is_short<T>) return {add_to_odd(a.value * b.value, c.value)};
  else return std::fma(a, b, c);
};

Handler quotient(Modifiers& m, Type type) {
  m.ignore({"approx", "full"});
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
Handler choose_extreme(Modifiers& m, Type type) {
  return m.take("NaN") ? same<2>(type, AllFloats(), extreme<greatest, true>)
                       : same<2>(type, AllFloats(), extreme<greatest, false>);
}

// A function of one real number, computed in double: for .approx, and not for .rn.
template <auto f>
Handler real_function(Modifiers& m, Type type) {
  m.ignore({"approx"});
  return same<1>(type, AllFloats(), []<class T>(T x) { return from_real<T>(f(real(x))); });
}
// One that IEEE 754 defines: in the type itself, so that it is rounded once.
template <auto f>
Handler exact_function(Modifiers& m, Type type) {
  m.ignore({"approx"});
  return same<1>(type, Floats(), f);
}

Handler choose_test(Modifiers& m, Type type) {
  const auto test = [&](auto f) { return from<bool>(type, Floats(), f); };
  if (m.take("finite")) return test([](auto x) { return std::isfinite(x); });
  if (m.take("infinite")) return test([](auto x) { return std::isinf(x); });
  if (m.take("number")) return test([](auto x) { return !std::isnan(x); });
  if (m.take("notanumber")) return test([](auto x) { return std::isnan(x); });
  if (m.take("normal")) return test([](auto x) { return std::isnormal(x) || x == 0; });
  if (m.take("subnormal")) return test([](auto x) { return std::fpclassify(x) == FP_SUBNORMAL; });
  return nullptr;
}

// The sign of a, the rest of b.
constexpr auto with_sign_of = []<class T>(T a, T b) {
  constexpr T sign = T(1) << (width<T> - 1);
  return static_cast<T>((a & sign) | (b & ~sign));
};
Handler copy_sign(Modifiers&, Type type) {
  if (type == Type::f32) return same<2>(Type::u32, Bits(), with_sign_of);
  return type == Type::f64 ? same<2>(Type::u64, Bits(), with_sign_of) : nullptr;
}

}  // namespace

FloatMode take_float_mode(Modifiers& m) {
  FloatMode mode;
  m.take("rn");
  if (m.take("rz")) mode.rounding = FloatMode::to_zero;
  if (m.take("rm")) mode.rounding = FloatMode::down;
  if (m.take("rp")) mode.rounding = FloatMode::up;
  mode.flushes = m.take("ftz");
  mode.saturates = m.take("sat");
  mode.rectifies = m.take("relu");
  return mode;
}

const Operations& floating_operations() {
  static const Operations all = {
      {"add", same_for<2, AllFloats, [](auto a, auto b) { return a + b; }>},
      {"sub", same_for<2, AllFloats, [](auto a, auto b) { return a - b; }>},
      {"mul", same_for<2, AllFloats, [](auto a, auto b) { return a * b; }>},
      {"mad", same_for<3, Floats, fused>},
      {"fma", same_for<3, AllFloats, fused>},
      {"div", quotient},
      {"abs", same_for<1, AllFloats, absolute>},
      {"neg", same_for<1, AllFloats, [](auto a) { return -a; }>},
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
      {"testp", choose_test},
      {"copysign", copy_sign},
  };
  return all;
}

}  // namespace gpu::arithmetic
