// SPDX-License-Identifier: MIT-0
// The CUDA runtime inside a file that was stripped of its names, known by its code: see known_runtimes.py. Nothing here
// needs the C++ library (hook.cc).
#pragma once
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>
#include "../elf_file.h"

namespace known_runtimes {

struct Runtime {
  const char* build;  // "13.0.48"
  uint32_t size;      // of its code
  struct {
    uint32_t offset;
    uint64_t word;
  } samples[15];
};

constexpr Runtime runtimes[] = {
#define KNOWN_RUNTIME(build, size, ...) {build, size, {__VA_ARGS__}},
#define CALL(...)
#include "known_runtimes.inc"
#undef KNOWN_RUNTIME
#undef CALL
};

constexpr char all[] = "12.9 and 13.0 to 13.5, on 64-bit x86";

constexpr uint16_t NONE = 0xffff;
struct Function {
  std::string_view name;
  uint16_t places[std::size(runtimes)];  // in units of 16 bytes
};
constexpr Function functions[] = {
#define KNOWN_RUNTIME(...)
#define CALL(name, ...) {#name, {__VA_ARGS__}},
#include "known_runtimes.inc"
#undef KNOWN_RUNTIME
#undef CALL
};

// Where a file has one of them: its number and the address of its code, as the file counts.
struct Found {
  int runtime = -1;
  uint64_t address = 0;
  explicit operator bool() const { return runtime >= 0; }

  // Calls visit(name, address) for each of its functions.
  template <class Visit> void each_function(const Visit& visit) const {
    for (const Function& function : functions)
      if (function.places[runtime] != NONE) visit(function.name, address + 16 * function.places[runtime]);
  }
};

inline bool is_here(const Runtime& runtime, std::string_view code) {
  if (code.size() < runtime.size) return false;
  for (const auto& [offset, word] : runtime.samples)
    if (std::memcmp(code.data() + offset, &word, sizeof word) != 0) return false;
  return true;
}

inline Found find(const ElfFile& file) {
  Found found;
  if (!processor::has_known_runtimes) return found;
  file.each_code([&](std::string_view code, uint64_t address) {
    for (uint64_t at = -address % 16; at < code.size() && !found; at += 16)
      for (const Runtime& runtime : runtimes)
        if (is_here(runtime, code.substr(at))) found = {int(&runtime - runtimes), address + at};
  });
  return found;
}

}  // namespace known_runtimes
