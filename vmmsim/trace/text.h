// SPDX-License-Identifier: MIT-0
// How all rooms write an address, a size, a path and the name of a kernel.
#pragma once
#include <cxxabi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

inline std::string hexadecimal(uint64_t value) {  // "0x1f"
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// In the largest unit of which it is a whole number, so that nothing is lost: "2 MiB", "1000 bytes".
inline std::string size_text(uint64_t bytes) {
  int shift = 40;
  for (const char* const unit : {"TiB", "GiB", "MiB", "KiB"}) {
    if (bytes && bytes >> shift << shift == bytes) return std::to_string(bytes >> shift) + " " + unit;
    shift -= 10;
  }
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

// "lesson/main.cu": what stands before the last directory differs from machine to machine.
inline std::string_view short_path(std::string_view path) {
  size_t slash = path.rfind('/');
  if (slash != path.npos && slash > 0) slash = path.rfind('/', slash - 1);
  return path.substr(slash + 1);  // all of it, if there is no slash
}

inline std::string demangled(const std::string& name) {  // "fill(int*)" for "_Z4fillPi"
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string found = status == 0 ? text : name;
  std::free(text);
  return found;
}
