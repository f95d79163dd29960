// SPDX-License-Identifier: MIT-0
// How a trace writes JSON.
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trace {

// As JSON. What is UTF-8 stays. A byte that is not, as a path may have one, becomes one of \udc80 to \udcff, as
// surrogateescape of Python has it, so that a reader gets the same bytes back.
std::string json_string(std::string_view text);

struct Json {  // what is JSON already
  std::string text;
};
Json number(std::integral auto value) {
  if constexpr (std::same_as<decltype(value), bool>) return {value ? "true" : "false"};
  else return {std::to_string(value)};
}

struct Member {  // of an object
  std::string json;
  Member(std::string_view name, const Json& value) : json(json_string(name) + ":" + value.text) {}
  Member(std::string_view name, std::string_view text) : Member(name, Json{json_string(text)}) {}
  Member(std::string_view name, std::integral auto value) : Member(name, number(value)) {}
  Member(std::string_view name, std::nullptr_t) : Member(name, Json{"null"}) {}
  Member(std::string_view name, std::optional<int64_t> value) : Member(name, value ? number(*value) : Json{"null"}) {}
};

std::string object(const std::vector<Member>&);
std::string list(const std::vector<std::string>& values);  // of JSON
std::string list_of_texts(const std::vector<std::string>&);

}  // namespace trace
