// SPDX-License-Identifier: MIT-0
// What atom, red, redux and multimem combine values with.
#include <concepts>
#include "access.h"
#include "half.h"

namespace gpu {

using ptx::Operation;
using ptx::Type;

namespace {

template <class T> Combine integer(Operation operation) {
  if (operation == Operation::min) return [](uint64_t a, uint64_t b, uint64_t) { return T(a) < T(b) ? a : b; };
  if (operation == Operation::max) return [](uint64_t a, uint64_t b, uint64_t) { return T(a) < T(b) ? b : a; };
  if (operation == Operation::add) return [](uint64_t a, uint64_t b, uint64_t) { return a + b; };
  if (operation == Operation::and_) return [](uint64_t a, uint64_t b, uint64_t) { return a & b; };
  if (operation == Operation::or_) return [](uint64_t a, uint64_t b, uint64_t) { return a | b; };
  if (operation == Operation::xor_) return [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; };
  if (operation == Operation::exch) return [](uint64_t, uint64_t b, uint64_t) { return b; };
  if (operation == Operation::cas) return [](uint64_t a, uint64_t b, uint64_t c) { return T(a) == T(b) ? c : a; };
  if (operation == Operation::inc) return [](uint64_t a, uint64_t b, uint64_t) { return T(a) >= T(b) ? 0 : a + 1; };
  if (operation == Operation::dec)
    return [](uint64_t a, uint64_t b, uint64_t) { return T(a) == 0 || T(a) > T(b) ? b : a - 1; };
  return nullptr;
}

struct Single {
  static float value(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
  static uint64_t bits(float value) { return std::isnan(value) ? 0x7fff'ffff : std::bit_cast<uint32_t>(value); }
};
struct FlushedSingle {  // subnormal numbers are zeros: so it is in the second-level cache, and not in shared memory
  static float flushed(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.f, value) : value; }
  static float value(uint64_t bits) { return flushed(Single::value(bits)); }
  static uint64_t bits(float value) { return Single::bits(flushed(value)); }
};
struct Double {
  static double value(uint64_t bits) { return std::bit_cast<double>(bits); }
  static uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
};

template <class F> uint64_t add(uint64_t a, uint64_t b, uint64_t) {
  const auto x = F::value(a), y = F::value(b), sum = x + y;
  if constexpr (std::same_as<F, Double>)  // of two infinities comes a NaN with a sign, on x86 and not on Arm
    if (std::isnan(sum) && !std::isnan(x) && !std::isnan(y)) return 0xfff8'0000'0000'0000;
  return F::bits(sum);
}
// Of a number and a NaN the number, of two the one NaN that there is; -0 is less than +0.
template <class F, bool greatest> uint64_t extreme(uint64_t a, uint64_t b, uint64_t) {
  const auto x = F::value(a), y = F::value(b);
  if (std::isnan(x) && std::isnan(y)) return F::bits(x);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? b : a;
  return (x == y ? std::signbit(x) : x < y) == greatest ? b : a;
}
template <Combine one> uint64_t both(uint64_t a, uint64_t b, uint64_t) {
  return (one(a & 0xffff, b & 0xffff, 0) & 0xffff) | (one(a >> 16 & 0xffff, b >> 16 & 0xffff, 0) & 0xffff) << 16;
}
template <class F> Combine small_float(Operation operation, bool pair) {
  if (operation == Operation::add) return pair ? both<add<F>> : add<F>;
  if (operation == Operation::min) return pair ? both<extreme<F, false>> : extreme<F, false>;
  if (operation == Operation::max) return pair ? both<extreme<F, true>> : extreme<F, true>;
  return nullptr;
}

template <class T> uint64_t combine_in(char* bytes, Combine combination, uint64_t b, uint64_t c) {
  T* const at = reinterpret_cast<T*>(bytes);
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    const T combined = static_cast<T>(combination(old, b, c));
    if (__atomic_compare_exchange_n(at, &old, combined, true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return old;
  }
}

template <class T> uint64_t combine_alone_in(char* bytes, Combine combination, uint64_t b, uint64_t c) {
  T old;
  std::memcpy(&old, bytes, sizeof old);
  const T combined = static_cast<T>(combination(old, b, c));
  std::memcpy(bytes, &combined, sizeof combined);
  return old;
}

}  // namespace

Combine combination_of(Operation operation, Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16: return integer<uint16_t>(operation);
    case Type::b32:
    case Type::u32: return integer<uint32_t>(operation);
    case Type::b64:
    case Type::u64: return integer<uint64_t>(operation);
    case Type::s32: return integer<int32_t>(operation);
    case Type::s64: return integer<int64_t>(operation);
    case Type::f16:
    case Type::f16x2: return small_float<Half>(operation, type == Type::f16x2);
    case Type::bf16:
    case Type::bf16x2: return small_float<Bfloat>(operation, type == Type::bf16x2);
    case Type::f32: return operation == Operation::add ? add<FlushedSingle> : nullptr;
    case Type::f64: return operation == Operation::add ? add<Double> : nullptr;
    default: return nullptr;
  }
}

Combine without_flush(Combine combination) { return combination == add<FlushedSingle> ? add<Single> : combination; }

uint64_t combine(char* bytes, unsigned size, Combine combination, uint64_t b, uint64_t c) {
  switch (size) {
    case 2: return combine_in<uint16_t>(bytes, combination, b, c);
    case 4: return combine_in<uint32_t>(bytes, combination, b, c);
    default: return combine_in<uint64_t>(bytes, combination, b, c);
  }
}

uint64_t combine_alone(char* bytes, unsigned size, Combine combination, uint64_t b, uint64_t c) {
  switch (size) {
    case 2: return combine_alone_in<uint16_t>(bytes, combination, b, c);
    case 4: return combine_alone_in<uint32_t>(bytes, combination, b, c);
    default: return combine_alone_in<uint64_t>(bytes, combination, b, c);
  }
}

}  // namespace gpu
