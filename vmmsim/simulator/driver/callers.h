// SPDX-License-Identifier: MIT-0
// Where the program made a call: for --trace by files and offsets in them, and for --leaks by lines of sources.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace driver {

// A frame of the stack: a file of machine code, as the loader calls it, and the offset in it to which a call returns.
// Of Python the offset is 0, and the file "/home/me/program.py:12:main".
struct Caller {
  std::string file;
  uint64_t offset = 0;
  auto operator<=>(const Caller&) const = default;
};
using Callers = std::vector<Caller>;
std::string text_of(const Caller&);  // "a.out+0x1234"; a line of Python as it is

// Of the call in progress: the innermost frame outside our two libraries, then those of the same file that led there;
// then the lines of Python.
Callers callers();

// For each stack where in the program that is, as the view has it: the innermost line of a source that is here and the
// program's own, "at lesson/main.cu:12"; or else what is known, "in grow(unsigned long) (a.out+0x1234)". It asks
// addr2line.
std::vector<std::string> places_of(const std::vector<Callers>&);

}  // namespace driver
