// SPDX-License-Identifier: MIT-0
// What is said on stderr is a line for who reads it by a program, and fits the terminal for who reads it there.
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "log.h"

// A line in several, of at most so many columns each: broken at blanks, and indented from the second one on.
inline std::string wrapped(const std::string& line, size_t columns) {
  static constexpr size_t indent = 4;
  std::string all;
  size_t used = 0;
  for (size_t at = 0; at < line.size();) {
    const size_t blanks = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find_first_of(" \n", blanks), line.size());
    size_t width = blanks - at;
    for (size_t i = blanks; i < end; ++i) width += (line[i] & 0xc0) != 0x80;  // characters, in UTF-8
    if (used > indent && used + width > columns) {
      all += '\n' + std::string(indent, ' ');
      used = indent;
      width -= blanks - at;
      at = blanks;
    }
    all.append(line, at, end - at);
    used += width;
    at = end;
    if (at < line.size() && line[at] == '\n') {
      all += line[at++];
      used = 0;
    }
  }
  return all;
}

inline std::string for_stderr(const std::string& line) {
  winsize size = {};
  static constexpr size_t least = 30;  // columns; below it words would be all that fits
  const bool is_terminal = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= least;
  return is_terminal ? wrapped(line, size.ws_col) : line;
}

// A line, with its end.
inline void log_wrapped(const std::string& line) {
  const std::string shown = for_stderr(line);
  write_log(line.data(), line.size(), shown.data(), shown.size());
}
