// SPDX-License-Identifier: MIT-0
#include <algorithm>
#include <iterator>
#include "ptx.h"

namespace ptx {

static constexpr struct {
  std::string_view name;
  unsigned bits;
} types[] = {{"", 0},        {"pred", 1},    {"b8", 8},      {"b16", 16},    {"b32", 32},    {"b64", 64}, {"b128", 128},
             {"u8", 8},      {"u16", 16},    {"u32", 32},    {"u64", 64},    {"s8", 8},      {"s16", 16}, {"s32", 32},
             {"s64", 64},    {"f16", 16},    {"f16x2", 32},  {"bf16", 16},   {"bf16x2", 32}, {"e4m3", 8}, {"e5m2", 8},
             {"e4m3x2", 16}, {"e5m2x2", 16}, {"e4m3x4", 32}, {"e5m2x4", 32}, {"f32", 32},    {"f64", 64}};

Type type_named(std::string_view name) {
  const auto found = std::find_if(std::begin(types), std::end(types), [&](auto& type) { return type.name == name; });
  return found == std::end(types) ? Type::none : static_cast<Type>(found - std::begin(types));
}

unsigned bits(Type type) { return types[static_cast<size_t>(type)].bits; }

}  // namespace ptx
