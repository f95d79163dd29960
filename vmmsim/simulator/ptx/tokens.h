// SPDX-License-Identifier: MIT-0
// What PTX text is made of: tokens, read with one of foresight, literals, and constants of several of them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include "ptx.h"

namespace ptx {

constexpr size_t deepest = 32;  // of scopes, lists, parentheses and dimensions: far above what a compiler writes

struct Token {
  enum Kind { end, name, dotted, number, string, sign };
  Kind kind = end;
  std::string_view text = {};
  int line = 1;
};

[[noreturn]] void fail(int line, const std::string& what);  // throws Error
std::string quoted(std::string_view text);
std::string quoted(const Token&);
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The number that `digits`, of a token, spell in a base. A suffix U changes nothing.
uint64_t integer(std::string_view digits, int base, const Token&);

// A literal as an operand: an integer, or floating with the bits of a double.
Operand literal(const Token&);

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}
  Token next();

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  Token::Kind skip_token();
  void skip_name();
  void skip_fraction();
  void skip_space();

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

// A text from left to right. What expects something fails where the text has something else.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : lexer_(text) { take(); }
  const Token& next() const { return token_; }
  Token take();
  Token take(Token::Kind, const char* what);
  bool is(std::string_view text) const { return token_.text == text && token_.kind != Token::string; }
  bool accept(std::string_view text);  // takes it if it is there
  void expect(std::string_view text);
  void skip_brackets(std::string_view opening, std::string_view closing, const std::string& what);

  // Constants: sums and products, which are the same for signed and unsigned values.
  uint64_t unary(size_t depth = 0);
  uint64_t sum(uint64_t first, size_t depth = 0);  // whose first number has been read
  uint64_t constant() { return sum(unary()); }
  // The rest of a constant in an operand, whose first number has been read: all operators, and a ? b : c.
  uint64_t expression(uint64_t first);
  uint64_t constant_up_to(uint64_t largest, const char* what);
  uint64_t offset() { return is("+") || is("-") ? constant() : 0; }  // "+8", "-8", "+-8" or nothing

 private:
  int precedence() const;
  std::string operation();
  uint64_t binary(uint64_t left, int least, size_t depth);
  Lexer lexer_;
  Token token_;  // the next one
};

}  // namespace ptx
