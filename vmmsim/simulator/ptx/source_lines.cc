// SPDX-License-Identifier: MIT-0
#include "source_lines.h"
#include <climits>

namespace ptx {

void SourceLines::read_file() {
  const uint64_t number = tokens_.constant();
  const std::string_view name = tokens_.take(Token::string, "the name of a file").text;
  module_.files[number] = name.substr(1, name.size() - 2);
  while (tokens_.accept(",")) tokens_.constant();
}

void SourceLines::read_loc() {
  const Position here = position();
  const Location* inlined_at = nullptr;
  while (tokens_.accept(",")) {
    if (tokens_.accept("function_name")) {
      tokens_.take(Token::name, "a label");
      tokens_.offset();
    } else if (tokens_.accept("inlined_at")) {
      inlined_at = inlining_call();
    } else {
      fail(tokens_.next().line, "function_name or inlined_at expected, not " + quoted(tokens_.next()));
    }
  }
  location_ = add(here, inlined_at);
  last_position_ = here;
  const auto [known, is_new] = known_positions_.try_emplace(here, location_);
  if (!is_new && known->second && known->second->inlined_at != inlined_at) known->second = nullptr;
}

void SourceLines::begin_function() {
  location_ = nullptr;
  last_position_.reset();
  known_positions_.clear();
}

const Location* SourceLines::of_instruction() {
  last_position_.reset();
  return location_;
}

int SourceLines::number() {
  const int line = tokens_.next().line;
  const uint64_t number = tokens_.unary();
  if (number > INT_MAX) fail(line, "a number of .loc is too large");
  return static_cast<int>(number);
}

SourceLines::Position SourceLines::position() {
  const int file = number();
  const int line = number();
  const int column = number();
  return {file, line, column};
}

const Location* SourceLines::inlining_call() {
  const Position call = position();
  const auto known = known_positions_.find(call);
  if (known != known_positions_.end() && known->second) return known->second;
  return call == last_position_ ? location_ : add(call, nullptr);
}

const Location* SourceLines::add(const Position& position, const Location* inlined_at) {
  if (!position.line) return inlined_at;  // the compiler knows no line
  module_.locations.push_back({&module_.files[static_cast<uint64_t>(position.file)], position.line, inlined_at});
  return &module_.locations.back();
}

}  // namespace ptx
