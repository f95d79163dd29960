// SPDX-License-Identifier: MIT-0
// The grammar of PTX, read from left to right with one token of foresight. Names are looked up where they are used, in
// the scopes that are open there; what may be a label that comes later is settled when its scope is closed.
#include <algorithm>
#include <bit>
#include <charconv>
#include <climits>
#include <cstring>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include "ptx.h"

namespace ptx {
namespace {

// Far above what a compiler writes, and low enough that no text makes the reader take much memory or time.
constexpr size_t largest_text = size_t(64) << 20;                                      // bytes
constexpr uint64_t largest_variable = uint64_t(1) << 40, largest_alignment = 1 << 20;  // bytes
constexpr uint64_t most_memory = uint64_t(256) << 20;  // bytes, for initial values and registers of the whole text
constexpr uint64_t register_cost = 64;                 // bytes that a register counts as
constexpr size_t deepest = 32;                         // of scopes, lists, parentheses and dimensions

constexpr struct {
  std::string_view name;
  unsigned bits;
} types[] = {{"", 0},        {"pred", 1},    {"b8", 8},      {"b16", 16},    {"b32", 32},    {"b64", 64}, {"b128", 128},
             {"u8", 8},      {"u16", 16},    {"u32", 32},    {"u64", 64},    {"s8", 8},      {"s16", 16}, {"s32", 32},
             {"s64", 64},    {"f16", 16},    {"f16x2", 32},  {"bf16", 16},   {"bf16x2", 32}, {"e4m3", 8}, {"e5m2", 8},
             {"e4m3x2", 16}, {"e5m2x2", 16}, {"e4m3x4", 32}, {"e5m2x4", 32}, {"f32", 32},    {"f64", 64}};

// Special registers without their number or .x; any other name with % must have been declared.
constexpr std::string_view special_registers =
    " tid ntid laneid warpid nwarpid ctaid nctaid smid nsmid gridid is_explicit_cluster clusterid nclusterid "
    "cluster_ctaid"
    " cluster_nctaid cluster_ctarank cluster_nctarank lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock"
    " clock_hi clock64 globaltimer globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size dynamic_smem_size"
    " current_graph_exec reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap"
    " reserved_smem_offset_0 reserved_smem_offset_1 ";

struct Token {
  enum Kind { end, name, dotted, number, string, sign };
  Kind kind = end;
  std::string_view text = {};
  int line = 1;
};

[[noreturn]] void fail(int line, const std::string& what) { throw Error("line " + std::to_string(line) + ": " + what); }

std::string quoted(std::string_view text) {
  std::string clean = "'";
  for (const char c : text.substr(0, 60)) clean += c >= ' ' && c <= '~' ? c : '?';
  return clean + (text.size() > 60 ? "...'" : "'");
}
std::string quoted(const Token& token) { return token.kind == Token::end ? "the end of the text" : quoted(token.text); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    skip_space();
    const size_t from = at_;
    const int line = line_;
    const Token::Kind kind = skip_token();
    return {kind, text_.substr(from, at_ - from), line};
  }

 private:
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  Token::Kind skip_token() {
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
      const size_t close = text_.find_first_of("\"\n", at_);
      if (close == std::string_view::npos || text_[close] == '\n') fail(line_, "a string without its end");
      at_ = close + 1;
      return Token::string;
    }
    if (!std::strchr("{}()[]<>,;:+-*/@!|=~&^?", c) || !c) fail(line_, "unexpected " + quoted(text_.substr(from, 1)));
    return Token::sign;
  }
  void skip_name() {
    while (in_name(peek())) ++at_;
  }
  void skip_fraction() {  // the rest of 1.5e-3
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
  void skip_space() {
    for (;;) {
      const char c = peek();
      if (c == '\n') ++line_;
      if (c == '\n' || c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v') ++at_;
      else if (text_.substr(at_, 2) == "//") at_ = std::min(text_.find('\n', at_), text_.size());
      else if (text_.substr(at_, 2) == "/*") {
        const size_t close = text_.find("*/", at_ + 2);
        if (close == std::string_view::npos) fail(line_, "a comment without its end");
        line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                             text_.begin() + static_cast<std::ptrdiff_t>(close), '\n'));
        at_ = close + 2;
      } else return;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
};

// The number that `digits` spell in a base. A suffix U changes nothing.
uint64_t integer(std::string_view digits, int base, const Token& token) {
  if (!digits.empty() && digits.back() == 'U') digits.remove_suffix(1);
  uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error == std::errc::result_out_of_range) fail(token.line, quoted(token) + " does not fit into 64 bits");
  if (error != std::errc() || stop != end) fail(token.line, quoted(token) + " is no number");
  return value;
}

// A literal as an operand: an integer, or floating with the bits of a double.
Operand literal(const Token& token) {
  Operand made;
  const std::string_view text = token.text, rest = text.substr(std::min<size_t>(2, text.size()));
  const char prefix = text.size() > 2 && text[0] == '0' ? text[1] : '\0';
  if ((prefix == 'f' || prefix == 'F') && rest.size() == 8) {
    made.kind = Operand::floating;
    const auto single = std::bit_cast<float>(static_cast<uint32_t>(integer(rest, 16, token)));
    made.value = std::bit_cast<uint64_t>(static_cast<double>(single));
  } else if ((prefix == 'd' || prefix == 'D') && rest.size() == 16) {
    made.kind = Operand::floating;
    made.value = integer(rest, 16, token);
  } else if (prefix == 'x' || prefix == 'X') {
    made.value = integer(rest, 16, token);
  } else if (prefix == 'b' || prefix == 'B') {
    made.value = integer(rest, 2, token);
  } else if (text.find_first_of(".eE") != std::string_view::npos) {
    made.kind = Operand::floating;
    double value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) fail(token.line, quoted(token) + " is no number");
    made.value = std::bit_cast<uint64_t>(value);
  } else {
    made.value = integer(text, text.size() > 1 && text[0] == '0' ? 8 : 10, token);
  }
  return made;
}

class Parser {
 public:
  explicit Parser(Module& module) : module_(module), lexer_({module.text.data(), module.text.size()}) { take(); }

  void parse() {
    expect(".version");
    const Token version = take(Token::number, "a version");
    const size_t dot = std::min(version.text.find('.'), version.text.size() - 1);
    const uint64_t major = integer(version.text.substr(0, dot), 10, version);
    const uint64_t minor = integer(version.text.substr(dot + 1), 10, version);
    if (major > 99 || minor > 9) fail(version.line, "no version of PTX: " + quoted(version));
    module_.version = static_cast<unsigned>(major * 10 + minor);
    while (token_.kind != Token::end) declaration();
    if (!module_.target) fail(token_.line, "no .target sm_...");
    for (const Reference& reference : unknown_)
      if (!globals_.count(reference.name)) fail(reference.line, "nothing is named " + quoted(reference.name));
  }

 private:
  // A name whose meaning comes later in the text: of an operand of an instruction, of an entry of a table of branch
  // targets, or (none) of something that can be no label.
  struct Reference {
    enum Where : uint8_t { none, operand, table };
    std::string_view name;
    int line = 0;
    Where where = none;
    size_t of = 0, at = 0;
  };
  struct Label {
    enum Kind : uint8_t { instruction, table, other } kind;
    int index;
  };
  struct Meaning {  // of a name: a register, or a variable
    int reg = -1;
    std::string variable;
  };
  struct RegisterRange {  // %r<9>
    int first;
    uint64_t count;
  };
  struct Scope {
    std::unordered_map<std::string_view, Meaning> names;
    std::unordered_map<std::string_view, RegisterRange> ranges;
    std::unordered_map<std::string_view, Label> labels;
    std::vector<Reference> references;
  };
  struct Global {
    bool is_function;
    size_t index;  // in Module::functions or variables
  };

  // ---- tokens
  Token take() { return std::exchange(token_, lexer_.next()); }
  Token take(Token::Kind kind, const char* what) {
    if (token_.kind != kind) fail(token_.line, std::string(what) + " expected, not " + quoted(token_));
    return take();
  }
  bool is(std::string_view text) const { return token_.text == text && token_.kind != Token::string; }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!accept(text)) fail(token_.line, quoted(text) + " expected, not " + quoted(token_));
  }
  void spend(uint64_t bytes) {
    if (bytes > most_memory - spent_) fail(token_.line, "more registers or initial values than are read");
    spent_ += bytes;
  }

  // ---- constants: sums and products, which are the same for signed and unsigned values
  uint64_t unary(size_t depth = 0) {
    if (depth > deepest) fail(token_.line, "nested too deep");
    if (accept("-")) return -unary(depth + 1);
    if (accept("+")) return unary(depth + 1);
    if (accept("~")) return ~unary(depth + 1);
    if (accept("(")) {
      const uint64_t value = sum(unary(depth + 1), depth + 1);
      expect(")");
      return value;
    }
    const Token token = take(Token::number, "a number");
    const Operand value = literal(token);
    if (value.kind != Operand::integer) fail(token.line, "an integer expected, not " + quoted(token));
    return value.value;
  }
  uint64_t sum(uint64_t first, size_t depth = 0) {  // whose first number has been read
    uint64_t total = 0;
    for (uint64_t factor = 1;;) {
      while (accept("*")) first *= unary(depth);
      total += first * factor;
      factor = is("-") ? ~uint64_t(0) : 1;
      if (!accept("-") && !accept("+")) return total;
      first = unary(depth);
    }
  }
  uint64_t constant() { return sum(unary()); }
  uint64_t offset() { return is("+") || is("-") ? constant() : 0; }  // "+8", "-8", "+-8" or nothing
  uint64_t constant_up_to(uint64_t largest, const char* what) {
    const int line = token_.line;
    const uint64_t value = constant();
    if (value > largest) fail(line, std::string(what) + " is too large");
    return value;
  }

  void skip_brackets(std::string_view open, std::string_view close, const std::string& what) {
    expect(open);
    for (size_t depth = 1; depth; take()) {
      if (token_.kind == Token::end) fail(token_.line, what + " without its end");
      if (is(open)) ++depth;
      if (is(close)) --depth;
    }
  }

  // ---- lines of the source
  struct Position {
    int file, line, column;
    auto operator<=>(const Position&) const = default;
  };
  int number_of_loc() {
    const int line = token_.line;
    const uint64_t number = unary();
    if (number > INT_MAX) fail(line, "a number of .loc is too large");
    return static_cast<int>(number);
  }
  Position position() {
    const int file = number_of_loc();
    const int line = number_of_loc();
    const int column = number_of_loc();
    return {file, line, column};
  }
  const Location* add_location(const Position& at, const Location* inlined_at) {
    if (!at.line) return inlined_at;  // the compiler knows no line
    module_.locations.push_back({&module_.files[static_cast<uint64_t>(at.file)], at.line, inlined_at});
    return &module_.locations.back();
  }
  // What .loc says holds for the instructions up to the next. A compiler writes the place of a call before what was
  // inlined there, once. Where several copies of a function have calls in the same place, only the .loc just before
  // tells which of them is meant.
  void source_line() {
    const Position here = position();
    const Location* inlined_at = nullptr;
    while (accept(",")) {
      if (accept("function_name")) {
        take(Token::name, "a label");
        offset();
      } else if (accept("inlined_at")) {
        const Position call = position();
        const auto known = known_positions_.find(call);
        if (known != known_positions_.end() && known->second) inlined_at = known->second;
        else inlined_at = call == last_position_ ? location_ : add_location(call, nullptr);
      } else {
        fail(token_.line, "function_name or inlined_at expected, not " + quoted(token_));
      }
    }
    location_ = add_location(here, inlined_at);
    last_position_ = here;
    const auto [known, is_new] = known_positions_.try_emplace(here, location_);
    if (!is_new && known->second && known->second->inlined_at != inlined_at) known->second = nullptr;
  }

  // ---- directives that say nothing about what a program computes; false if the token begins none
  bool skip_directive() {
    if (accept(".file")) {
      const uint64_t number = constant();
      const std::string_view name = take(Token::string, "the name of a file").text;
      module_.files[number] = name.substr(1, name.size() - 2);
      while (accept(",")) constant();
    } else if (accept(".loc")) {
      source_line();
    } else if (accept(".pragma")) {
      do take(Token::string, "a string");
      while (accept(","));
      expect(";");
    } else if (accept(".section")) {
      take();
      skip_brackets("{", "}", "a .section");
    } else {
      return false;
    }
    return true;
  }

  // ---- the module
  void declaration() {
    if (skip_directive() || accept(";")) return;
    if (accept(".target")) {
      do {
        const Token word = take(Token::name, "a target");
        if (word.text.substr(0, 3) != "sm_") continue;
        const auto digits = word.text.substr(3, word.text.find_first_not_of("0123456789", 3) - 3);
        const uint64_t target = integer(digits, 10, word);
        if (!target || target > 9999) fail(word.line, "no target: " + quoted(word));
        module_.target = static_cast<unsigned>(target);
      } while (accept(","));
    } else if (accept(".address_size")) {
      const int line = token_.line;
      if (constant() != 64) fail(line, "addresses of 64 bits only are read");
    } else {
      const Linkage linkage = accept_linkage();
      if (is(".entry") || is(".func")) function(take().text == ".entry", linkage);
      else if (const auto space = accept_space(); space && *space != Space::local && *space != Space::param) {
        variables(*space, linkage, module_.variables, false);
      } else fail(token_.line, "a function or a variable expected, not " + quoted(token_));
    }
  }

  void define(std::string_view name, Global global, int line) {
    if (!globals_.emplace(name, global).second) fail(line, quoted(name) + " is defined twice");
  }

  Linkage accept_linkage() {
    if (accept(".extern")) return Linkage::external;
    if (accept(".visible")) return Linkage::visible;
    if (accept(".weak")) return Linkage::weak;
    if (accept(".common")) return Linkage::common;
    return Linkage::internal;
  }

  // ---- variables
  std::optional<Space> accept_space() {
    if (accept(".global")) return Space::global;
    if (accept(".const")) return Space::constant;
    if (accept(".shared")) return Space::shared;
    if (accept(".local")) return Space::local;
    if (accept(".param")) return Space::param;
    return std::nullopt;
  }

  // What stands before the name: .align 8 .b8, or .u64 .ptr .global .align 16
  Variable specification(Space space, unsigned& vector) {
    Variable made;
    made.space = space;
    made.alignment = 0;
    vector = 1;
    bool of_pointee = false;
    while (token_.kind == Token::dotted) {
      const Token word = take();
      if (word.text == ".align") {
        const uint64_t alignment = constant_up_to(largest_alignment, "an alignment");
        if (!std::has_single_bit(alignment)) fail(word.line, "an alignment is a power of two");
        if (!of_pointee) made.alignment = alignment;
      } else if (word.text == ".attribute") {
        expect("(");
        do {
          if (accept(".managed")) made.is_managed = true;
          else if (accept(".unified")) {
            expect("(");
            constant();
            expect(",");
            constant();
            expect(")");
          } else fail(token_.line, "no attribute: " + quoted(token_));
        } while (accept(","));
        expect(")");
      } else if (word.text == ".ptr") {
        of_pointee = true;
      } else if (word.text == ".v2" || word.text == ".v4" || word.text == ".v8") {
        vector = static_cast<unsigned>(word.text[2] - '0');
      } else if (!of_pointee || !std::strchr("gcls", word.text[1])) {  // .ptr's .global, .const, .local or .shared
        made.type = type_named(word.text.substr(1));
        if (bits(made.type) < 8) fail(word.line, "no type of a variable: " + quoted(word));
      }
    }
    if (made.type == Type::none) fail(token_.line, "a type expected, not " + quoted(token_));
    if (!made.alignment) made.alignment = bytes(made.type) * vector;
    return made;
  }

  // The name, the dimensions and the initial value, after the specification.
  Variable declarator(Variable made, unsigned vector, bool may_be_unsized) {
    const Token name = take(Token::name, "a name");
    made.name = name.text;
    std::vector<uint64_t> dimensions;
    bool is_unsized = false;  // the first dimension is as large as there are initial values
    const auto add = [&](uint64_t count) {
      dimensions.push_back(count);
      if (dimensions.size() > deepest || __builtin_mul_overflow(made.size, count, &made.size) ||
          made.size > largest_variable)
        fail(name.line, quoted(name) + " is too large");
    };
    made.size = bytes(made.type);
    while (accept("[")) {
      if (is("]") && !dimensions.empty()) fail(token_.line, "only the first dimension may be left out");
      is_unsized |= is("]");
      add(is("]") ? 1 : constant_up_to(largest_variable, "a dimension"));
      if (!dimensions.back()) fail(name.line, quoted(name) + " has no size");
      expect("]");
    }
    if (vector > 1) add(vector);
    if (is_unsized) dimensions[0] = largest_variable;
    uint64_t count = 0;
    if (accept("=")) count = initial_values(made, dimensions, 0, 0);
    else if (is_unsized && !may_be_unsized) fail(name.line, quoted(name) + " has no size");
    if (is_unsized) made.size *= count;
    for (const auto& address : made.relocations)
      if (made.size < 8 || address.at > made.size - 8) fail(name.line, "a part of an address is missing at the end");
    return made;
  }

  // Returns how many there are at this level.
  uint64_t initial_values(Variable& variable, const std::vector<uint64_t>& dimensions, size_t level, uint64_t at) {
    if (level == dimensions.size()) {
      initial_value(variable, at);
      return 1;
    }
    uint64_t count = 0, stride = bytes(variable.type);
    for (size_t k = level + 1; k < dimensions.size(); ++k) stride *= dimensions[k];
    expect("{");
    if (accept("}")) return 0;
    do {
      if (count == dimensions[level] || at > largest_variable) fail(token_.line, "too many initial values");
      initial_values(variable, dimensions, level + 1, at);
      ++count;
      at += stride;
    } while (accept(","));
    expect("}");
    return count;
  }

  // A number, or the address of a symbol: x, x+8, generic(x)+8. Of an address that lies unaligned each byte is written
  // alone, as 0xFF00(x) for the second.
  void initial_value(Variable& variable, uint64_t at) {
    const int line = token_.line;
    const unsigned size = bytes(variable.type);
    uint64_t value = 0;
    if (token_.kind == Token::name) {
      if (size != 8) fail(line, "an address has 64 bits, or is given byte for byte");
      variable.relocations.push_back(relocation(at));
    } else {
      const bool negative = accept("-");
      if (token_.kind == Token::number) {
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
  uint64_t initial_number(const Operand& number, bool negative, Type type, int line) {
    const bool is_floating = number.kind == Operand::floating;
    if (!is_floating && type != Type::f32 && type != Type::f64) return sum(negative ? -number.value : number.value);
    auto real = is_floating ? std::bit_cast<double>(number.value) : static_cast<double>(number.value);
    if (negative) real = -real;
    if (bytes(type) == 8) return std::bit_cast<uint64_t>(real);
    if (bytes(type) == 4) return std::bit_cast<uint32_t>(static_cast<float>(real));
    fail(line, "a floating-point value for a type that is neither f32 nor f64");
  }
  Variable::Relocation relocation(uint64_t at) {
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
  void byte_of_address(Variable& variable, uint64_t at, uint64_t mask, int line) {  // after the parenthesis
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

  // One declaration of one or more variables, after the space.
  void variables(Space space, Linkage linkage, std::vector<Variable>& to, bool in_function) {
    const bool is_extern = linkage == Linkage::external;
    unsigned vector = 1;
    Variable specified = specification(space, vector);
    specified.linkage = linkage;
    do {
      const Token name = token_;
      Variable made = declarator(specified, vector, is_extern);
      if (in_function) {
        if (scopes_.size() > 1) made.name += "@" + std::to_string(to.size());  // unique: no name has a @
        add_name(name, {-1, made.name});
      } else if (const auto known = globals_.find(name.text);
                 known != globals_.end() && !known->second.is_function &&
                 (is_extern || to[known->second.index].linkage == Linkage::external)) {  // declared and defined
        if (!is_extern) to[known->second.index] = std::move(made);
        continue;
      } else {
        define(name.text, {false, to.size()}, name.line);
      }
      to.push_back(std::move(made));
    } while (accept(","));
    expect(";");
  }

  // ---- functions
  void parameters(std::vector<Variable>& to) {  // after the parenthesis
    if (accept(")")) return;
    do {
      if (!is(".param")) fail(token_.line, "a parameter expected, not " + quoted(token_));
      take();
      unsigned vector = 1;
      const Variable specified = specification(Space::param, vector);
      const Token name = token_;
      to.push_back(declarator(specified, vector, true));
      if (name.text != "_") add_name(name, {-1, to.back().name});
    } while (accept(","));
    expect(")");
  }

  void function(bool is_entry, Linkage linkage) {
    Function made;
    made.is_entry = is_entry;
    made.linkage = linkage;
    scopes_.assign(1, {});
    for (bool more = true; more;) {
      if (accept(".attribute")) skip_brackets("(", ")", "an attribute");  // .attribute(.unified(1, 2))
      else more = accept(".noreturn");
    }
    if (!is_entry && accept("(")) parameters(made.returns);
    const Token name = take(Token::name, "the name of a function");
    made.name = name.text;
    if (accept("(")) parameters(made.parameters);
    while (token_.kind == Token::dotted) performance_directive(made);
    made.is_declared_only = !is("{");
    size_t index = module_.functions.size();
    if (const auto known = globals_.find(name.text); known != globals_.end()) {
      index = known->second.index;
      if (!known->second.is_function || !(made.is_declared_only || module_.functions[index].is_declared_only))
        fail(name.line, quoted(name) + " is defined twice");
    } else {
      define(name.text, {true, index}, name.line);
      module_.functions.emplace_back();
      module_.functions.back().is_declared_only = true;
    }
    if (made.is_declared_only) expect(";");
    else body(made);
    if (!made.is_declared_only || module_.functions[index].name.empty()) module_.functions[index] = std::move(made);
  }
  void performance_directive(Function& made) {
    const Token word = take();
    if (word.text == ".maxntid" || word.text == ".reqntid") {
      uint64_t threads = 1;
      do threads *= constant_up_to(1 << 16, "a number of threads");
      while (accept(","));
      made.max_threads = static_cast<unsigned>(std::min<uint64_t>(threads, ~0u));
    } else if (word.text == ".minnctapersm" || word.text == ".maxnctapersm" || word.text == ".maxnreg" ||
               word.text == ".reqnctapercluster" || word.text == ".maxclusterrank" || word.text == ".abi_preserve" ||
               word.text == ".abi_preserve_control") {
      do constant();
      while (accept(","));
    } else if (word.text == ".pragma") {
      do take(Token::string, "a string");
      while (accept(","));
      accept(";");
    } else if (word.text != ".noreturn" && word.text != ".explicitcluster" && word.text != ".blocksareclusters") {
      fail(word.line, "no directive of a function: " + quoted(word));
    }
  }

  void body(Function& made) {
    function_ = &made;
    location_ = nullptr;
    last_position_.reset();
    known_positions_.clear();
    expect("{");
    while (!scopes_.empty()) {
      if (token_.kind == Token::end) fail(token_.line, "function " + quoted(made.name) + " without its end");
      if (accept("{")) {
        if (scopes_.size() == deepest) fail(token_.line, "nested too deep");
        scopes_.emplace_back();
      } else if (accept("}")) {
        close_scope();
      } else if (token_.kind == Token::name) {
        const Token first = take();
        if (accept(":")) label(first);
        else instruction(first, first);
      } else if (is("@")) {
        const Token first = take();
        instruction(first, {});
      } else if (!accept(";") && !skip_directive()) {
        body_declaration(made);
      }
    }
  }

  void body_declaration(Function& made) {
    const int line = token_.line;
    if (accept(".reg")) return registers(made);
    const Linkage linkage = accept(".extern") ? Linkage::external : Linkage::internal;
    const auto space = accept_space();
    if (!space || *space == Space::global || *space == Space::constant ||
        (linkage == Linkage::external && *space != Space::shared))
      fail(line, "an instruction or a declaration expected" + (space ? "" : ", not " + quoted(token_)));
    variables(*space, linkage, made.variables, true);
  }

  void registers(Function& made) {
    const Token word = take(Token::dotted, "a type");
    const Type type = type_named(word.text.substr(1));
    if (type == Type::none) fail(word.line, "no type of a register: " + quoted(word));
    do {
      const Token name = take(Token::name, "a register");
      const int first = static_cast<int>(made.registers.size());
      uint64_t count = 1;
      if (accept("<")) {
        count = constant_up_to(most_memory, "a number of registers");
        expect(">");
        if (!scopes_.back().ranges.emplace(name.text, RegisterRange{first, count}).second)
          fail(name.line, quoted(name) + " is defined twice");
      } else {
        add_name(name, {first, {}});
      }
      spend(count > most_memory / register_cost ? most_memory + 1 : count * register_cost);
      made.registers.insert(made.registers.end(), count, type);
    } while (accept(","));
    expect(";");
  }

  void label(const Token& name) {
    Label made{Label::instruction, static_cast<int>(function_->code.size())};
    if (accept(".branchtargets")) {
      auto& tables = function_->branch_targets;
      made = {Label::table, static_cast<int>(tables.size())};
      tables.emplace_back();
      do {
        const Token target = take(Token::name, "a label");
        scopes_.back().references.push_back(
            {target.text, target.line, Reference::table, tables.size() - 1, tables.back().size()});
        tables.back().push_back(-1);
      } while (accept(","));
      expect(";");
    } else if (is(".callprototype") || is(".calltargets")) {
      made.kind = Label::other;
      while (!accept(";")) {
        if (token_.kind == Token::end || is("}")) fail(token_.line, "';' expected, not " + quoted(token_));
        take();
      }
    }
    if (!scopes_.back().labels.emplace(name.text, made).second) fail(name.line, quoted(name) + " is defined twice");
  }

  // All labels of the scope are known: settles what names them, and leaves the rest to the scope around it.
  void close_scope() {
    Scope scope = std::move(scopes_.back());
    scopes_.pop_back();
    for (const Reference& reference : scope.references) {
      const auto label = scope.labels.find(reference.name);
      if (label == scope.labels.end()) {
        if (!scopes_.empty()) scopes_.back().references.push_back(reference);
        else if (reference.where == Reference::table) fail(reference.line, "no label " + quoted(reference.name));
        else unknown_.push_back(reference);
        continue;
      }
      const Label& found = label->second;
      if (reference.where == Reference::table) {
        if (found.kind != Label::instruction) fail(reference.line, quoted(reference.name) + " is no place to go to");
        function_->branch_targets[reference.of][reference.at] = found.index;
      } else if (reference.where == Reference::operand) {
        Operand& operand = function_->code[reference.of].operands[reference.at];
        if (found.kind == Label::instruction) {
          operand.kind = Operand::label;
          operand.index = found.index;
        }
        if (found.kind == Label::table) operand.value = static_cast<uint64_t>(found.index);
      } else {
        fail(reference.line, "the label " + quoted(reference.name) + " is no value");
      }
    }
  }

  // ---- names
  void add_name(const Token& name, Meaning meaning) {
    if (!scopes_.back().names.emplace(name.text, std::move(meaning)).second)
      fail(name.line, quoted(name) + " is defined twice");
  }
  // The meaning of a name where it is used; of %r7 the register number 7 of %r<9>.
  std::optional<Meaning> find(std::string_view name) const {
    for (size_t k = scopes_.size(); k-- > 0;) {
      const Scope& scope = scopes_[k];
      if (const auto found = scope.names.find(name); found != scope.names.end()) return found->second;
      if (scope.ranges.empty()) continue;
      const size_t most = std::min<size_t>(name.size() - 1, 9);
      for (size_t digits = 1; digits <= most && is_digit(name[name.size() - digits]); ++digits) {
        const std::string_view number = name.substr(name.size() - digits);
        const auto range = scope.ranges.find(name.substr(0, name.size() - digits));
        uint64_t value = 0;
        std::from_chars(number.data(), number.data() + digits, value);
        if (range != scope.ranges.end() && value < range->second.count && (digits == 1 || number[0] != '0'))
          return Meaning{range->second.first + static_cast<int>(value), {}};
      }
    }
    return std::nullopt;
  }

  // ---- instructions
  // `first` is where it begins: its opcode, which is `opcode` then, or the @ of its guard.
  void instruction(const Token& first, Token opcode) {
    Instruction& made = function_->code.emplace_back();
    made.line = first.line;
    made.source = location_;
    last_position_.reset();
    if (opcode.text.empty()) {
      made.guard_negated = accept("!");
      const Token guard = take(Token::name, "a predicate");
      const auto found = find(guard.text);
      if (!found || found->reg < 0 || function_->registers[static_cast<size_t>(found->reg)] != Type::pred)
        fail(guard.line, quoted(guard) + " is no predicate");
      made.guard = found->reg;
      opcode = take(Token::name, "an instruction");
    }
    if (!is_letter(opcode.text[0])) fail(opcode.line, "an instruction expected, not " + quoted(opcode));
    made.opcode = opcode.text;
    while (token_.kind == Token::dotted) made.modifiers.push_back(take().text.substr(1));
    if (!is(";")) {
      do made.operands.push_back(operand(0));
      while (accept(","));
    }
    const char* const begin = first.text.data();
    const char* end = token_.text.data();
    expect(";");
    while (end > begin && std::strchr(" \t\r\n", end[-1])) --end;
    made.text = {begin, static_cast<size_t>(end - begin)};
  }

  // A list without its first brace. One in parentheses may be empty.
  Operand list(std::string_view close, size_t depth, std::vector<Operand> begun = {}) {
    Operand made;
    made.kind = Operand::list;
    made.elements = std::move(begun);
    if (close == ")" && accept(close)) return made;
    do made.elements.push_back(operand(depth + 1));
    while (accept(","));
    expect(close);
    return made;
  }

  Operand operand(size_t depth) {
    if (depth > deepest) fail(token_.line, "nested too deep");
    if (accept("{")) return list("}", depth);
    if (function_->code.back().opcode == "call" && accept("(")) return list(")", depth);
    if (accept("[")) return address(depth);
    const bool inverted = accept("!");
    const bool minus = !inverted && accept("-");
    if (token_.kind == Token::name) return named_or_two(depth, inverted || minus);
    if (inverted) fail(token_.line, "a register expected, not " + quoted(token_));
    return constant_operand(minus);
  }

  Operand address(size_t depth) {  // after the bracket
    const int line = token_.line;
    Operand made = operand(depth + 1);
    if (made.address || made.negated ||
        (made.kind != Operand::reg && made.kind != Operand::integer && made.kind != Operand::symbol))
      fail(line, "no address");
    if (made.kind == Operand::reg) made.offset = static_cast<int64_t>(offset());
    if (accept(",")) made = list("]", depth, {std::move(made)});  // of a tensor: [a, {b, c}]
    else expect("]");
    made.address = true;
    return made;
  }

  // What has a name, or two destinations: p|q.
  Operand named_or_two(size_t depth, bool negated) {
    Operand made = named(depth);
    if (negated && made.kind != Operand::reg && made.kind != Operand::special) fail(token_.line, "a register expected");
    made.negated = negated;
    if (!accept("|")) return made;
    Operand both;
    both.kind = Operand::list;
    both.elements.push_back(std::move(made));
    both.elements.push_back(operand(depth + 1));
    return both;
  }

  Operand constant_operand(bool minus) {
    Operand made;
    if (token_.kind == Token::number) {
      made = literal(take());
      if (made.kind == Operand::floating) {
        if (minus) made.value ^= uint64_t(1) << 63;
        return made;
      }
    } else if (is("(") || is("~") || is("+")) {
      made.value = unary();
    } else {
      fail(token_.line, "an operand expected, not " + quoted(token_));
    }
    made.value = sum(minus ? -made.value : made.value);
    return made;
  }

  // A register, special register or symbol, or what may be a label.
  Operand named(size_t depth) {
    const Token name = take();
    Operand made;
    made.kind = Operand::reg;
    if (name.text == "_") return made;
    if (const auto found = find(name.text); found && found->reg >= 0) {
      made.index = found->reg;
      return made;
    } else if (found) {
      made.name = found->variable;
    } else if (name.text == "WARP_SZ") {
      made.kind = Operand::integer;
      made.value = 32;
      return made;
    } else if (name.text[0] == '%') {
      return special(name);
    } else {
      made.name = name.text;
      scopes_.back().references.push_back({name.text, name.line, depth ? Reference::none : Reference::operand,
                                           function_->code.size() - 1, function_->code.back().operands.size()});
    }
    made.kind = Operand::symbol;
    made.value = offset();
    return made;
  }

  Operand special(const Token& name) {
    const std::string_view base = name.text.substr(1);
    const bool is_numbered = base.starts_with("pm") || base.starts_with("envreg");  // %pm0, %pm0_64, %envreg31
    const std::string word = " " + std::string(base) + " ";
    if (!is_numbered && special_registers.find(word) == special_registers.npos)
      fail(name.line, "the register " + quoted(name) + " is not declared");
    Operand made;
    made.kind = Operand::special;
    made.name = name.text;
    if (token_.kind == Token::dotted) {
      if (token_.text.size() != 2 || !std::strchr("xyzw", token_.text[1]))
        fail(token_.line, "no part of a register: " + quoted(token_));
      made.name += take().text;
    }
    return made;
  }

  Module& module_;
  Lexer lexer_;
  Token token_;  // the next one
  uint64_t spent_ = 0;
  std::unordered_map<std::string_view, Global> globals_;
  std::vector<Reference> unknown_;  // which the module must have when it ends
  Function* function_ = nullptr;    // that is being read, with its open scopes
  std::vector<Scope> scopes_;
  const Location* location_ = nullptr;                   // of the code that follows
  std::optional<Position> last_position_;                // of the .loc just before, if no instruction came between
  std::map<Position, const Location*> known_positions_;  // that the function has named; null: of several copies
};

}  // namespace

Type type_named(std::string_view name) {
  const auto found = std::find_if(std::begin(types), std::end(types), [&](auto& type) { return type.name == name; });
  return found == std::end(types) ? Type::none : static_cast<Type>(found - std::begin(types));
}

unsigned bits(Type type) { return types[static_cast<size_t>(type)].bits; }

Module parse(std::string_view text) {
  text = text.substr(0, text.find_last_not_of('\0') + 1);
  if (text.size() > largest_text) fail(1, "the text has more than " + std::to_string(largest_text) + " bytes");
  Module module;
  module.text.assign(text.begin(), text.end());
  Parser(module).parse();
  return module;
}

}  // namespace ptx
