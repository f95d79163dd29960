// SPDX-License-Identifier: MIT-0
// The 16-bit floating types. A value of them is held in a float, which holds each exactly; back, it is rounded to the
// nearest, to even if two are as near. Not every compiler has these types itself.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace gpu {

struct Half {
  static float value(uint64_t bits) {
    const uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00) return std::bit_cast<float>(sign | 0x7f80'0000u | (rest & 0x3ff) << 13);
    // The exponent of a half lies 112 below that of a float; the factor also makes the subnormal ones right.
    return std::bit_cast<float>(sign | rest << 13) * 0x1p112f;
  }
  static uint64_t bits(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value), sign = all >> 16 & 0x8000u;
    const float size = std::fabs(value);
    if (std::isnan(value)) return 0x7fff;
    if (size >= 65520) return sign | 0x7c00;
    if (size < 0x1p-14f) return sign | static_cast<uint32_t>(std::nearbyint(size * 0x1p24f));  // subnormal
    const uint32_t rest = (all & 0x7fff'ffffu) - (112u << 23);
    return sign | (rest + 0xfff + (rest >> 13 & 1)) >> 13;
  }
};

struct Bfloat {
  static float value(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static uint64_t bits(float value) {
    const uint32_t all = std::bit_cast<uint32_t>(value);
    return std::isnan(value) ? 0x7fff : (all + 0x7fff + (all >> 16 & 1)) >> 16;
  }
};

}  // namespace gpu
