// SPDX-License-Identifier: MIT-0
#include "json.h"

#include <cstdio>

namespace trace {
namespace {

// How many bytes a letter of UTF-8 has at the beginning of a text; 0: there is none.
size_t size_of_letter(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0), second = byte(1);
  const size_t size = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < size; ++i)
    if (byte(i) >> 6 != 2) return 0;
  // Longer than need be, half a letter of UTF-16, and beyond the last.
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second >= 0x90))
    return 0;
  return size;
}

void append_joined(std::string& all, std::string_view value) {
  if (all.size() > 1) all += ',';
  all += value;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const size_t size = size_of_letter(text);
    const auto first = static_cast<unsigned char>(text[0]);
    if (!size || first < 0x20 || first == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", size ? first : 0xdc00u + first);
      result += code;
    } else {
      if (first == '"' || first == '\\') result += '\\';
      result += text.substr(0, size);
    }
    text.remove_prefix(size ? size : 1);
  }
  return result + '"';
}

std::string object(const std::vector<Member>& members) {
  std::string all = "{";
  for (const Member& member : members) append_joined(all, member.json);
  return all + "}";
}

std::string list(const std::vector<std::string>& values) {
  std::string all = "[";
  for (const std::string& value : values) append_joined(all, value);
  return all + "]";
}

std::string list_of_texts(const std::vector<std::string>& texts) {
  std::vector<std::string> values;
  for (const std::string& text : texts) values.push_back(json_string(text));
  return list(values);
}

}  // namespace trace
