// SPDX-License-Identifier: MIT-0
// The arguments of a lesson, which are few: numbers, flags and names of files.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace check {
// "--name N", N from min to max; a flag (max 0) is just "--name", and becomes 1; a text is any word.
struct Option {
  const char* name;
  long* value;
  long min, max;
  const char** text = nullptr;
};

// Whether the word is a value of this option, which then has it.
inline bool take(const Option& option, const char* word) {
  if (*word == '\0') return false;
  if (option.text) {
    *option.text = word;
    return true;
  }
  char* end;
  *option.value = std::strtol(word, &end, 10);
  return *end == '\0' && *option.value >= option.min && *option.value <= option.max;
}

// Reads them all. Exits 0 with the usage for --help, and 2 for what it does not know.
inline void arguments(int argc, char** argv, const char* usage, std::initializer_list<Option> options = {}) {
  for (int i = 1; i < argc; ++i) {
    const char* name = argv[i];
    if (std::strcmp(name, "--help") == 0) {
      std::fputs(usage, stdout);
      std::exit(0);
    }
    const Option* option = nullptr;
    for (const Option& each : options)
      if (std::strcmp(name, each.name) == 0) option = &each;
    if (option && option->max == 0) {
      *option->value = 1;
      continue;
    }
    const char* value = "";
    if (option && i + 1 < argc) {
      ++i;
      value = argv[i];
    }
    if (option && take(*option, value)) continue;
    std::fprintf(stderr, "%s: bad argument: %s %s\n%s", argv[0], name, value, usage);
    std::exit(2);
  }
}
}  // namespace check
