// SPDX-License-Identifier: MIT-0
// The lines of the source that .file and .loc tell of.
#pragma once
#include <map>
#include <optional>
#include "tokens.h"

namespace ptx {

// What .loc says holds for the instructions up to the next. A compiler writes the place of a call before what was
// inlined there, once. Where several copies of a function have calls in the same place, only the .loc just before
// tells which of them is meant.
class SourceLines {
 public:
  SourceLines(Tokens& tokens, Module& module) : tokens_(tokens), module_(module) {}
  void read_file();  // after .file
  void read_loc();   // after .loc
  void begin_function();
  const Location* of_instruction();  // that begins here

 private:
  struct Position {
    int file, line, column;
    auto operator<=>(const Position&) const = default;
  };
  int number();
  Position position();
  const Location* inlining_call();  // after inlined_at
  const Location* add(const Position&, const Location* inlined_at);

  Tokens& tokens_;
  Module& module_;
  const Location* location_ = nullptr;                   // of the code that follows
  std::optional<Position> last_position_;                // of the .loc just before, if no instruction came between
  std::map<Position, const Location*> known_positions_;  // that the function has named; null: of several copies
};

}  // namespace ptx
