// SPDX-License-Identifier: MIT-0
#include "syntax.h"
#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>
#include "instructions.h"

namespace ptx {
namespace {

using Texts = std::vector<std::string_view>;

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(" \n"), text.size());
  return text.substr(begin, text.find_last_not_of(" \n") + 1 - begin);
}
// What stands before one of some characters, which is taken away with it.
std::string_view take_until(std::string_view& text, const char* ends) {
  const size_t at = std::min(text.find_first_of(ends), text.size());
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return trimmed(taken);
}
bool accept(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}
Texts split(std::string_view text, const char* ends) {
  Texts parts;
  while (!text.empty())
    if (const std::string_view part = take_until(text, ends); !part.empty()) parts.push_back(part);
  return parts;
}
unsigned number(std::string_view text) {
  unsigned value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// By PTX's names, with _ for ::.
template <class Enumeration>
std::unordered_map<std::string_view, Enumeration> values_by_name() {
  std::unordered_map<std::string_view, Enumeration> values;
  for (const std::string_view name : split(words_of(Enumeration()), ","))
    values.emplace(name.substr(0, name.size() - name.ends_with('_')), static_cast<Enumeration>(values.size() + 1));
  return values;
}
template <class Enumeration>
Enumeration value_named(const std::string& name) {
  static const auto& values = *new auto(values_by_name<Enumeration>());
  const auto found = values.find(name);
  return found == values.end() ? Enumeration::none : found->second;
}

Space space_named(std::string_view word) {
  constexpr std::string_view names[] = {"generic", "global", "shared", "local", "const", "param"};
  const auto found = std::ranges::find(names, word.substr(0, word.find("::")));
  return found == std::end(names) ? Space::generic : static_cast<Space>(found - std::begin(names));
}

Modifier modifier_named(std::string_view word) {
  std::string name(word);
  for (size_t at; (at = name.find("::")) != name.npos;) name.replace(at, 2, "_");
  Modifier modifier{word, value_named<Type>(std::string(word)), space_named(word)};
  modifier.scope = value_named<Scope>(name);
  modifier.order = value_named<Order>(name);
  modifier.cache = value_named<CacheOperator>(name);
  modifier.rounding = value_named<Rounding>(name);
  modifier.comparison = value_named<Comparison>(name);
  modifier.operation = value_named<Operation>(name);
  modifier.word = value_named<Word>(name);
  if (word == "v2" || word == "v4" || word == "v8") modifier.count = static_cast<uint8_t>(word[1] - '0');
  return modifier;
}

}  // namespace

Opcode opcode_named(std::string_view name) { return value_named<Opcode>(std::string(name)); }

bool Slot::has(const Modifier* modifier) const { return std::ranges::find(choice, modifier) != choice.end(); }

bool Parameter::is_result() const {
  constexpr std::string_view names[] = {"d", "f", "p", "state", "cache-policy"};
  return kind == value && std::ranges::find(names, name) != std::end(names);
}

// Reads instructions.h.
class SyntaxReader {
 public:
  explicit SyntaxReader(Syntax& to) : to_(to) {}

  void read(std::string_view text) {
    while (!(text = trimmed(text)).empty()) {
      if (accept(text, "#")) {
        take_until(text, "\n");
      } else if (accept(text, "[")) {
        finish_section();
        section_ = {.names = split(take_until(text, "]"), ",")};
      } else {
        statement(take_until(text, ";"));
      }
    }
    finish_section();
  }

 private:
  // What some instructions have in common, or (without names) all of them.
  struct Section {
    Texts names = {}, rows = {};
    std::unordered_map<std::string_view, Texts> sets = {};
    std::unordered_map<std::string_view, Parameter> parameters = {};
  };

  void statement(std::string_view text) {
    for (const auto& [word, kind] : {std::pair(".reg ", Parameter::value), std::pair(".imm ", Parameter::constant),
                                     std::pair(".sym ", Parameter::symbol)})
      if (accept(text, word)) return declaration(text, kind);
    if (accept(text, ".sreg ")) {
      parameter(text).may_be_special = true;
    } else if (accept(text, ".")) {
      const std::string_view name = take_until(text, " ");
      text = trimmed(text).substr(3);  // = {
      section_.sets[name] = split(text.substr(0, text.rfind('}')), ",");
    } else if (const size_t space = text.find(' '); space < text.size() && std::strchr("=<%:", text[space + 1])) {
      const std::string_view name = take_until(text, " ");
      limit(parameter(name), text[0], trimmed(text.substr(1)));
    } else {
      section_.rows.push_back(text);
    }
  }

  void declaration(std::string_view text, Parameter::Kind kind) {
    const bool is_wide = accept(text, ">= "), is_twice = accept(text, "2x "), is_first = accept(text, ".d ");
    const std::string_view type = accept(text, ".") ? take_until(text, " ") : "";
    const Texts names = split(text, ",");
    for (const std::string_view name : names) {
      Parameter& declared = parameter(name);
      declared.kind = kind;
      declared.type = value_named<Type>(std::string(type));
      declared.has_first_type |= is_first;
      declared.may_be_wider = is_wide;
      declared.is_twice_as_wide = is_twice;
      declared.may_be_sink = names.back() == "_";
    }
  }
  void limit(Parameter& parameter, char sign, std::string_view text) {
    if (sign == '<') parameter.most = number(text) - 1;
    if (sign == '%') parameter.multiple = number(text);
    if (sign == ':') parameter.comes_with = &to_.choices_.emplace_back(choice(text.substr(1)));
    if (sign != '=') return;
    parameter.kind = Parameter::constant;
    for (const std::string_view value : split(text, "{,}")) parameter.values.push_back(number(value));
  }

  // The section's own, or else a copy of what all have.
  Parameter& parameter(std::string_view name) {
    Parameter usual{Parameter::value, name};
    usual.has_first_type = name == "d";
    if (const auto found = common_.parameters.find(name); found != common_.parameters.end()) usual = found->second;
    return section_.parameters.try_emplace(name, usual).first->second;
  }
  const Texts* set(std::string_view name) const {
    for (const Section* const section : {&section_, &common_})
      if (const auto found = section->sets.find(name); found != section->sets.end()) return &found->second;
    return nullptr;
  }
  // Whether one of a set is more than one modifier, so that a row with it is several.
  bool is_several(std::string_view name) const {
    const Texts* const all = set(name);
    return all && std::ranges::any_of(*all, [&](std::string_view each) {
             return each.find_first_of(".{", 1) != each.npos || is_several(each.substr(1));
           });
  }
  std::vector<const Modifier*> choice(std::string_view name) {
    const Texts* const all = set(name);
    if (!all) return {to_.add(name)};
    std::vector<const Modifier*> sum;
    for (const std::string_view each : *all)
      for (const Modifier* const modifier : choice(each.substr(1))) sum.push_back(modifier);
    return sum;
  }

  void finish_section() {
    if (section_.names.empty()) {
      common_ = section_;
      return;
    }
    for (std::string_view row : section_.rows) {
      row.remove_prefix(section_.names[0].size());
      const std::string_view modifiers = take_until(row, " \n");
      Form form;
      read_parameters(trimmed(row), form);
      expand({modifiers}, form);
    }
  }

  // Adds what the modifiers make of a form; the last of them comes first.
  void expand(Texts modifiers, Form form) {
    while (!modifiers.empty()) {
      std::string_view& text = modifiers.back();
      if (text.empty()) {
        modifiers.pop_back();
        continue;
      }
      const bool may_lack = accept(text, "{");
      const std::string_view part = text.substr(0, text.find_first_of(may_lack ? "}" : ".{", 1));
      text.remove_prefix(part.size() + may_lack);
      const Texts words = split(part, ".");
      if (!may_lack && is_several(words[0])) {
        for (const std::string_view each : *set(words[0])) {
          Texts with = modifiers;
          with.push_back(each);
          expand(with, form);
        }
        return;
      }
      form.has_any_modifiers |= words[0] == "*";
      const bool is_group = words.size() > 1;
      for (const std::string_view word : words)
        if (word != "*") form.slots.push_back({choice(word), may_lack, is_group});
    }
    const Form& added = to_.forms_.emplace_back(std::move(form));
    for (const std::string_view name : section_.names) add_name(name, added);
  }
  void add_name(std::string_view name, const Form& form) {
    Syntax::Named& named = to_.names_[std::string(name)];
    named.forms.push_back(&form);
    named.opcode = opcode_named(name.substr(0, name.find('.')));
    for (size_t dot; (dot = name.rfind('.')) != name.npos; name = name.substr(0, dot)) {
      to_.add(name.substr(dot + 1));
      to_.names_[std::string(name.substr(0, dot))].may_be_longer = true;
    }
  }

  void read_parameters(std::string_view text, Form& form) {
    form.has_any_operands = text == "*";
    while (!text.empty() && !form.has_any_operands) {
      const bool may_lack = accept(text, "{,");
      if (!may_lack) accept(text, ",");
      text = trimmed(text);
      const bool has_sign = accept(text, "{-}"), is_address = accept(text, "[");
      const std::string_view name = text.substr(0, text.find_first_of(" ,{}[]|"));
      text.remove_prefix(name.size());
      Parameter read = is_address ? Parameter{Parameter::address, name} : parameter(name);
      if (name == "_") read.kind = Parameter::sink;
      read.has_sign = has_sign;
      read.has_part = accept(text, "{.");
      if (read.has_part) take_until(text, "}");
      read.second_may_lack = accept(text, "[|");
      if (read.second_may_lack || accept(text, "|")) {
        read.second = text.substr(0, text.find_first_of(" ,]"));
        text.remove_prefix(read.second.size());
      }
      if (is_address || read.second_may_lack) accept(text, "]");
      if (may_lack) accept(text, "}");
      read.may_lack = may_lack;
      if (!may_lack) read.comes_with = nullptr;
      form.parameters.push_back(read);
      text = trimmed(text);
    }
  }

  Syntax& to_;
  Section common_, section_;
};

const Modifier* Syntax::add(std::string_view word) {
  return modifiers_.contains(word) ? &modifiers_.at(word)
                                   : &modifiers_.emplace(word, modifier_named(word)).first->second;
}

Syntax::Syntax() {
  SyntaxReader(*this).read(instructions);
  for (const std::string_view word : split(other_words, " \n")) modifiers_.at(add(word)->text).is_other = true;
  for (const std::string_view word : split(repeatable, " ")) modifiers_.at(word).is_repeatable = true;
  for (const std::string_view need : split(needs, ",")) {
    const Texts parts = split(need, " ");
    Feature feature{parts[0], Opcode::none, {}, number(parts[1]), number(parts[2])};
    std::string_view words = feature.name;
    const std::string_view opcode = take_until(words, ".");
    if (opcode.empty()) feature.name.remove_prefix(1);
    feature.opcode = opcode_named(opcode);
    for (const std::string_view word : split(words, ".")) feature.modifiers.push_back(add(word));
    features_.push_back(feature);
  }
}

const Modifier* Syntax::modifier(std::string_view word) const {
  const auto found = modifiers_.find(word);
  return found == modifiers_.end() ? nullptr : &found->second;
}
const Syntax::Named* Syntax::longest_name(const Instruction& instruction, size_t& modifiers) const {
  const Named* longest = nullptr;
  std::string name(instruction.opcode);
  for (size_t k = 0;; ++k) {
    const auto found = names_.find(name);
    if (found != names_.end() && !found->second.forms.empty()) longest = &found->second, modifiers = k;
    if (found == names_.end() || !found->second.may_be_longer || k == instruction.modifiers.size()) return longest;
    name += "." + std::string(instruction.modifiers[k]);
  }
}

const Syntax& syntax() {
  static const Syntax& the_syntax = *new Syntax;
  return the_syntax;
}

}  // namespace ptx
