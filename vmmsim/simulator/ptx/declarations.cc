// SPDX-License-Identifier: MIT-0
#include "declarations.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace ptx {

// Far above what a compiler writes, and low enough that no text makes the reader take much memory or time.
static constexpr uint64_t largest_variable = uint64_t(1) << 40, largest_alignment = 1 << 20;  // bytes

void Declarations::spend(uint64_t bytes) {
  if (bytes > most_memory - spent_) fail(next().line, "more registers or initial values than are read");
  spent_ += bytes;
}

Variable Declarations::specification(Space space, unsigned& vector) {
  Variable variable;
  variable.space = space;
  variable.alignment = 0;
  vector = 1;
  bool of_pointee = false;
  while (next().kind == Token::dotted) {
    const Token word = take();
    if (word.text == ".align") {
      const uint64_t alignment = constant_up_to(largest_alignment, "an alignment");
      if (!std::has_single_bit(alignment)) fail(word.line, "an alignment is a power of two");
      if (!of_pointee) variable.alignment = alignment;
    } else if (word.text == ".attribute") {
      expect("(");
      do {
        if (accept(".managed")) variable.is_managed = true;
        else if (accept(".unified")) {
          expect("(");
          constant();
          expect(",");
          constant();
          expect(")");
        } else fail(next().line, "no attribute: " + quoted(next()));
      } while (accept(","));
      expect(")");
    } else if (word.text == ".ptr") {
      of_pointee = true;
    } else if (word.text == ".v2" || word.text == ".v4" || word.text == ".v8") {
      vector = static_cast<unsigned>(word.text[2] - '0');
    } else if (!of_pointee || !std::strchr("gcls", word.text[1])) {  // .ptr's .global, .const, .local or .shared
      variable.type = type_named(word.text.substr(1));
      if (bits(variable.type) < 8) fail(word.line, "no type of a variable: " + quoted(word));
    }
  }
  if (variable.type == Type::none) fail(next().line, "a type expected, not " + quoted(next()));
  if (!variable.alignment) variable.alignment = bytes(variable.type) * vector;
  return variable;
}

Variable Declarations::declarator(Variable variable, unsigned vector, bool may_be_unsized) {
  const Token name = take(Token::name, "a name");
  variable.name = name.text;
  std::vector<uint64_t> dimensions;
  bool is_unsized = false;  // the first dimension is as large as there are initial values
  const auto add = [&](uint64_t count) {
    dimensions.push_back(count);
    if (dimensions.size() > deepest || __builtin_mul_overflow(variable.size, count, &variable.size) ||
        variable.size > largest_variable)
      fail(name.line, quoted(name) + " is too large");
  };
  variable.size = bytes(variable.type);
  while (accept("[")) {
    if (is("]") && !dimensions.empty()) fail(next().line, "only the first dimension may be left out");
    is_unsized |= is("]");
    add(is("]") ? 1 : constant_up_to(largest_variable, "a dimension"));
    if (!dimensions.back()) fail(name.line, quoted(name) + " has no size");
    expect("]");
  }
  if (vector > 1) add(vector);
  if (is_unsized) dimensions[0] = largest_variable;
  uint64_t count = 0;
  if (accept("=")) count = initial_values(variable, dimensions, 0, 0);
  else if (is_unsized && !may_be_unsized) fail(name.line, quoted(name) + " has no size");
  if (is_unsized) variable.size *= count;
  for (const auto& address : variable.relocations)
    if (variable.size < 8 || address.at > variable.size - 8)
      fail(name.line, "a part of an address is missing at the end");
  return variable;
}

// Returns how many there are at this level.
uint64_t Declarations::initial_values(Variable& variable, const std::vector<uint64_t>& dimensions, size_t level,
                                      uint64_t at) {
  if (level == dimensions.size()) {
    initial_value(variable, at);
    return 1;
  }
  uint64_t count = 0, stride = bytes(variable.type);
  for (size_t k = level + 1; k < dimensions.size(); ++k) stride *= dimensions[k];
  expect("{");
  if (accept("}")) return 0;
  do {
    if (count == dimensions[level] || at > largest_variable) fail(next().line, "too many initial values");
    initial_values(variable, dimensions, level + 1, at);
    ++count;
    at += stride;
  } while (accept(","));
  expect("}");
  return count;
}

// A number, or the address of a symbol: x, x+8, generic(x)+8. Of an address that lies unaligned each byte is written
// alone, as 0xFF00(x) for the second.
void Declarations::initial_value(Variable& variable, uint64_t at) {
  const int line = next().line;
  const unsigned size = bytes(variable.type);
  uint64_t value = 0;
  if (next().kind == Token::name) {
    if (size != 8) fail(line, "an address has 64 bits, or is given byte for byte");
    variable.relocations.push_back(relocation(at));
  } else {
    const bool negative = accept("-");
    if (next().kind == Token::number) {
      const Operand number = literal(take());
      if (accept("(")) byte_of_address(variable, at, number.value, line);
      else value = initial_number(number, negative, variable.type, line);
    } else {
      const uint64_t first = unary();
      value = sum(negative ? -first : first);
    }
  }
  if (at + size > variable.initial.size()) {
    spend(at + size - variable.initial.size());
    variable.initial.resize(at + size);
  }
  std::memcpy(&variable.initial[at], &value, std::min(size, 8u));
}
uint64_t Declarations::initial_number(const Operand& number, bool negative, Type type, int line) {
  const bool is_floating = number.kind == Operand::floating;
  if (!is_floating && type != Type::f32 && type != Type::f64) return sum(negative ? -number.value : number.value);
  auto real = is_floating ? std::bit_cast<double>(number.value) : static_cast<double>(number.value);
  if (negative) real = -real;
  if (bytes(type) == 8) return std::bit_cast<uint64_t>(real);
  if (bytes(type) == 4) return std::bit_cast<uint32_t>(static_cast<float>(real));
  fail(line, "a floating-point value for a type that is neither f32 nor f64");
}
Variable::Relocation Declarations::relocation(uint64_t at) {
  const bool is_generic = accept("generic");
  if (is_generic) expect("(");
  const Token symbol = take(Token::name, "a symbol");
  uint64_t plus = offset();
  if (is_generic) {
    expect(")");
    plus += offset();
  }
  unknown_.push_back({symbol.text, symbol.line});
  return {at, std::string(symbol.text), static_cast<int64_t>(plus)};
}
void Declarations::byte_of_address(Variable& variable, uint64_t at, uint64_t mask, int line) {  // after the parenthesis
  const Variable::Relocation here = relocation(at);
  expect(")");
  const auto byte = mask ? static_cast<unsigned>(std::countr_zero(mask) / 8) : 0;
  if (bytes(variable.type) != 1 || mask != uint64_t(0xff) << byte * 8)
    fail(line, "an address has 64 bits, or is given byte for byte");
  if (byte == 0) {
    variable.relocations.push_back(here);
    return;
  }
  const Variable::Relocation* const begun = variable.relocations.empty() ? nullptr : &variable.relocations.back();
  if (!begun || begun->at + byte != at || begun->symbol != here.symbol || begun->offset != here.offset)
    fail(line, "the bytes of an address are out of order");
}

}  // namespace ptx
