// SPDX-License-Identifier: MIT-0
#include "tokens.h"
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <utility>

namespace ptx {

void fail(int line, const std::string& what) { throw Error("line " + std::to_string(line) + ": " + what); }

std::string quoted(std::string_view text) {
  std::string clean = "'";
  for (const char c : text.substr(0, 60)) clean += c >= ' ' && c <= '~' ? c : '?';
  return clean + (text.size() > 60 ? "...'" : "'");
}
std::string quoted(const Token& token) { return token.kind == Token::end ? "the end of the text" : quoted(token.text); }

uint64_t integer(std::string_view digits, int base, const Token& token) {
  if (!digits.empty() && digits.back() == 'U') digits.remove_suffix(1);
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::result_out_of_range) fail(token.line, quoted(token) + " does not fit into 64 bits");
  if (error != std::errc() || stop != end) fail(token.line, quoted(token) + " is no number");
  return value;
}

Operand literal(const Token& token) {
  Operand operand;
  const std::string_view text = token.text, rest = text.substr(std::min<size_t>(2, text.size()));
  const char prefix = text.size() > 2 && text[0] == '0' ? text[1] : '\0';
  if ((prefix == 'f' || prefix == 'F') && rest.size() == 8) {
    operand.kind = Operand::floating;
    const auto single = std::bit_cast<float>(static_cast<uint32_t>(integer(rest, 16, token)));
    operand.value = std::bit_cast<uint64_t>(static_cast<double>(single));
  } else if ((prefix == 'd' || prefix == 'D') && rest.size() == 16) {
    operand.kind = Operand::floating;
    operand.value = integer(rest, 16, token);
  } else if (prefix == 'x' || prefix == 'X') {
    operand.value = integer(rest, 16, token);
  } else if (prefix == 'b' || prefix == 'B') {
    operand.value = integer(rest, 2, token);
  } else if (text.find_first_of(".eE") != std::string_view::npos) {
    operand.kind = Operand::floating;
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) fail(token.line, quoted(token) + " is no number");
    operand.value = std::bit_cast<uint64_t>(value);
  } else {
    operand.value = integer(text, text.size() > 1 && text[0] == '0' ? 8 : 10, token);
  }
  return operand;
}

static bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

Token Lexer::next() {
  skip_space();
  const size_t from = at_;
  const int line = line_;
  const Token::Kind kind = skip_token();
  return {kind, text_.substr(from, at_ - from), line};
}

Token::Kind Lexer::skip_token() {
  if (at_ == text_.size()) return Token::end;
  const size_t from = at_;
  const char c = text_[at_];
  ++at_;
  if (is_letter(c) || c == '_' || c == '$' || c == '%') {
    skip_name();
    return Token::name;
  }
  if (c == '.') {  // "cta::cluster"-like ones are one word
    for (skip_name(); text_.substr(at_, 2) == "::"; skip_name()) at_ += 2;
    if (at_ == from + 1) fail(line_, "unexpected '.'");
    return Token::dotted;
  }
  if (is_digit(c)) {
    const bool has_prefix = c == '0' && is_letter(peek());
    skip_name();
    if (!has_prefix) skip_fraction();
    return Token::number;
  }
  if (c == '"') {
    const size_t closing = text_.find_first_of("\"\n", at_);
    if (closing == std::string_view::npos || text_[closing] == '\n') fail(line_, "a string without its end");
    at_ = closing + 1;
    return Token::string;
  }
  if (!std::strchr("{}()[]<>,;:+-*/@!|=~&^?", c) || !c) fail(line_, "unexpected " + quoted(text_.substr(from, 1)));
  return Token::sign;
}

void Lexer::skip_name() {
  while (in_name(peek())) ++at_;
}

void Lexer::skip_fraction() {  // the rest of 1.5e-3
  if (peek() == '.') {
    ++at_;
    skip_name();
  }
  const char last = text_[at_ - 1];
  if ((last == 'e' || last == 'E') && (peek() == '-' || peek() == '+')) {
    ++at_;
    skip_name();
  }
}

void Lexer::skip_space() {
  for (;;) {
    const char c = peek();
    if (c == '\n') ++line_;
    if (c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') ++at_;
    else if (text_.substr(at_, 2) == "//") at_ = std::min(text_.find('\n', at_), text_.size());
    else if (text_.substr(at_, 2) == "/*") {
      const size_t closing = text_.find("*/", at_ + 2);
      if (closing == std::string_view::npos) fail(line_, "a comment without its end");
      line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                           text_.begin() + static_cast<std::ptrdiff_t>(closing), '\n'));
      at_ = closing + 2;
    } else return;
  }
}

Token Tokens::take() { return std::exchange(token_, lexer_.next()); }

Token Tokens::take(Token::Kind kind, const char* what) {
  if (token_.kind != kind) fail(token_.line, std::string(what) + " expected, not " + quoted(token_));
  return take();
}

bool Tokens::accept(std::string_view text) {
  if (!is(text)) return false;
  take();
  return true;
}

void Tokens::expect(std::string_view text) {
  if (!accept(text)) fail(token_.line, quoted(text) + " expected, not " + quoted(token_));
}

void Tokens::skip_brackets(std::string_view opening, std::string_view closing, const std::string& what) {
  expect(opening);
  for (size_t depth = 1; depth; take()) {
    if (token_.kind == Token::end) fail(token_.line, what + " without its end");
    if (is(opening)) ++depth;
    if (is(closing)) --depth;
  }
}

uint64_t Tokens::unary(size_t depth) {
  if (depth > deepest) fail(token_.line, "nested too deep");
  if (accept("-")) return -unary(depth + 1);
  if (accept("+")) return unary(depth + 1);
  if (accept("~")) return ~unary(depth + 1);
  if (accept("(")) {
    const uint64_t value = binary(unary(depth + 1), 1, depth + 1);
    expect(")");
    return value;
  }
  const Token token = take(Token::number, "a number");
  const Operand value = literal(token);
  if (value.kind != Operand::integer) fail(token.line, "an integer expected, not " + quoted(token));
  return value.value;
}

uint64_t Tokens::sum(uint64_t first, size_t depth) {  // whose first number has been read
  uint64_t total = 0;
  for (uint64_t factor = 1;;) {
    while (accept("*")) first *= unary(depth);
    total += first * factor;
    factor = is("-") ? ~uint64_t(0) : 1;
    if (!accept("-") && !accept("+")) return total;
    first = unary(depth);
  }
}

// Of the operator that may come next, 0 for none. One token of foresight does not tell << from <: without parentheses
// both are weaker than +.
int Tokens::precedence() const {
  constexpr std::string_view all[] = {"|", "^", "&", "=!", "<>", "+-", "*/"};
  if (token_.kind != Token::sign) return 0;
  for (size_t k = 0; k < std::size(all); ++k)
    if (all[k].find(token_.text) != std::string_view::npos) return static_cast<int>(k) + 1;
  return 0;
}

std::string Tokens::operation() {
  std::string text(take().text);
  if (text == "=" || text == "!") {
    expect("=");
    return text + "=";
  }
  if (std::string_view("<>&|").find(text) == std::string_view::npos) return text;
  if (accept(text)) return text + text;
  return text != "&" && text != "|" && accept("=") ? text + "=" : text;
}

static uint64_t result_of(const std::string& operation, uint64_t a, uint64_t b, int line) {
  const auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  if (operation == "/" && (!b || y == -1)) fail(line, "a division by 0 or -1");
  if (operation == "*") return a * b;
  if (operation == "/") return static_cast<uint64_t>(x / y);
  if (operation == "+") return a + b;
  if (operation == "-") return a - b;
  if (operation == "<<") return b < 64 ? a << b : 0;
  if (operation == ">>") return b < 64 ? a >> b : 0;
  if (operation == "<") return x < y;
  if (operation == "<=") return x <= y;
  if (operation == ">") return x > y;
  if (operation == ">=") return x >= y;
  if (operation == "==") return a == b;
  if (operation == "!=") return a != b;
  if (operation == "&&") return a && b;
  if (operation == "||") return a || b;
  return operation == "&" ? a & b : operation == "^" ? a ^ b : a | b;
}

uint64_t Tokens::binary(uint64_t left, int least, size_t depth) {
  if (depth > deepest) fail(token_.line, "nested too deep");
  while (precedence() >= least) {
    const int line = token_.line, own = precedence();
    const std::string sign = operation();
    const uint64_t right = binary(unary(depth), own + 1, depth + 1);
    left = result_of(sign, left, right, line);
  }
  return left;
}

uint64_t Tokens::expression(uint64_t first) {
  const uint64_t value = binary(first, 1, 0);
  if (!accept("?")) return value;
  const uint64_t one = binary(unary(), 1, 1);
  expect(":");
  const uint64_t other = binary(unary(), 1, 1);
  return value ? one : other;
}

uint64_t Tokens::constant_up_to(uint64_t largest, const char* what) {
  const int line = token_.line;
  const uint64_t value = constant();
  if (value > largest) fail(line, std::string(what) + " is too large");
  return value;
}

}  // namespace ptx
