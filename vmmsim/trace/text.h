// SPDX-License-Identifier: MIT-0
// How all rooms write an address and the name of a kernel.
#pragma once
#include <cxxabi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

inline std::string hexadecimal(uint64_t value) {  // "0x1f"
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

inline std::string demangled(const std::string& name) {  // "fill(int*)" for "_Z4fillPi"
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string found = status == 0 ? text : name;
  std::free(text);
  return found;
}
