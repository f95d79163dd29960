// SPDX-License-Identifier: MIT-0
#include "check.h"
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <unordered_map>
#include "instructions.h"
#include "tokens.h"

namespace ptx {
namespace {

constexpr uint64_t most_shared = 232448, most_constants = 65536;  // bytes of a kernel, of a module
constexpr uint64_t most_parameters = 32764, most_parameters_before_8_1 = 4352;

// A list of words, divided by spaces or bars.
bool has_word(std::string_view list, std::string_view word) {
  const auto divides = [](char c) { return c == ' ' || c == '|'; };
  for (size_t at = list.find(word); at != list.npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || divides(list[at - 1])) && (end == list.size() || divides(list[end]))) return true;
  }
  return false;
}
// Calls work(word) for each; stops and returns true when that does.
template <class Work>
bool any_word(std::string_view list, Work work) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0 && work(list.substr(0, end))) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

bool is_type(std::string_view word) {
  return type_named(word) != Type::none || has_word("u16x2 s16x2 f32x2 tf32", word);
}
bool is_floating(Type type) {
  return type == Type::f32 || type == Type::f64 || (type >= Type::f16 && type <= Type::bf16x2);
}
bool is_untyped(Type type) { return type >= Type::b8 && type <= Type::b128; }
bool is_integer(Type type) { return type >= Type::u8 && type <= Type::s64; }
bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }

// Whether a register of one type may stand where an instruction has another.
bool goes_with(Type reg, Type type, bool may_be_wider) {
  if (reg == Type::pred || type == Type::pred) return reg == type;
  if (may_be_wider ? bits(reg) < bits(type) : bits(reg) != bits(type)) return false;
  if (type == Type::bf16 || type == Type::bf16x2) return is_untyped(reg) || reg == type;
  if (is_untyped(reg) || is_untyped(type)) return true;
  if (reg == Type::f16x2) return is_integer(type) || reg == type;
  return is_integer(reg) ? is_integer(type) : reg == type;
}

bool is_wide_special(std::string_view name) {
  return name == "%clock64" || name == "%globaltimer" || name == "%current_graph_exec" || name.ends_with("_64");
}

class Checker {
 public:
  Checker(const Module& module, const Function& function) : module_(module), function_(function) {
    for (const auto* variables : {&function.variables, &function.parameters, &function.returns, &module.variables})
      for (const Variable& variable : *variables) variables_.emplace(variable.name, variable.space);
  }

  void check(const Instruction& i) {
    instruction_ = &i;
    types_.clear();
    for (const std::string_view word : i.modifiers)
      if (is_type(word)) types_.push_back(word);
    const std::vector<const Form*> forms = fitting_forms();
    for (const Need& need : needs) check_need(need);
    for (const Operand& operand : i.operands) check_specials(operand);
    check_relations();
    if (has_word("setmaxnreg wgmma", i.opcode) && module_.target_variant != 'a')
      fail("Instruction '" + opcode() + "' not supported on .target 'sm_" + std::to_string(module_.target) + "'");
    if (i.opcode == "bra" && (i.operands.size() != 1 || i.operands[0].kind != Operand::label))
      fail("Label expected for argument 0 of instruction 'bra'");
    if (i.opcode == "mov") check_mov();
    else check_operands(forms);
    check_spaces();
    if (i.opcode == "call") check_call();
    if (i.opcode == "cvt") check_saturation();
    if (has_word("ld ldu st atom red prefetch prefetchu applypriority discard multimem mbarrier", i.opcode) &&
        !has("param"))
      check_address();
    if ((i.opcode == "shfl" || i.opcode == "vote") && !has("sync") && module_.target >= 70 && module_.version >= 64)
      fail("Instruction '" + opcode() +
           "' without '.sync' is not supported on .target sm_70 and higher from PTX ISA "
           "version 6.4");
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { ptx::fail(instruction_->line, what); }
  std::string opcode() const { return std::string(instruction_->opcode); }
  bool has(std::string_view word) const {
    const auto& all = instruction_->modifiers;
    return std::find(all.begin(), all.end(), word) != all.end();
  }
  bool has_one_of(std::string_view words) const {
    return std::ranges::any_of(instruction_->modifiers, [&](std::string_view word) { return has_word(words, word); });
  }

  // The forms of the longest name that the instruction begins with, and how many modifiers belong to it.
  struct Named {
    const std::vector<const Form*>* forms = nullptr;
    size_t modifiers = 0;
  };
  Named forms_of_name() const {
    static const auto& all = *new std::unordered_map<std::string_view, std::vector<const Form*>>([] {
      std::unordered_map<std::string_view, std::vector<const Form*>> by_name;
      for (const Form& form : forms)
        any_word(form.opcodes, [&](std::string_view name) { return by_name[name].push_back(&form), false; });
      return by_name;
    }());
    std::string name = opcode();
    Named found;
    for (size_t k = 0;; name += "." + std::string(instruction_->modifiers[k++])) {
      if (const auto at = all.find(name); at != all.end()) found = {&at->second, k};
      if (k == instruction_->modifiers.size()) break;
    }
    if (!found.forms) fail("Not a name of any known instruction: '" + name + "'");
    return found;
  }

  // What keeps an instruction from having a form.
  struct Misfit {
    size_t count = 0;
    std::string_view word = {}, lacks = {};  // a modifier that is too many; those of which it lacks one
  };
  Misfit misfit(const Form& form, size_t named) const {
    const auto& all = instruction_->modifiers;
    std::vector<std::string_view> left(all.begin() + static_cast<std::ptrdiff_t>(named), all.end());
    Misfit result;
    if (form.modifiers == "*") {
      std::erase_if(left, [](std::string_view word) { return has_word(other_words, word); });
    } else {
      any_word(form.modifiers, [&](std::string_view words) {
        const bool may_lack = words.ends_with('?');
        if (may_lack) words.remove_suffix(1);
        const auto found = std::ranges::find_if(left, [&](std::string_view word) { return has_word(words, word); });
        const bool is_in_order = found == left.end() || !is_type(*found) || std::none_of(left.begin(), found, is_type);
        if (found != left.end() && is_in_order) left.erase(found);
        else if (!may_lack) ++result.count, result.lacks = words;
        return false;
      });
      std::erase_if(
          left, [&](std::string_view word) { return has_word(repeatable, word) && std::ranges::count(all, word) > 1; });
    }
    result.count += left.size();
    if (!left.empty()) result.word = left.front();
    return result;
  }

  std::vector<const Form*> fitting_forms() const {
    const Named named = forms_of_name();
    std::vector<const Form*> fitting;
    std::optional<Misfit> least;
    for (const Form* const form : *named.forms) {
      const Misfit found = misfit(*form, named.modifiers);
      if (!found.count) fitting.push_back(form);
      if (!least || found.count < least->count) least = found;
    }
    if (!fitting.empty()) return fitting;
    const std::string_view word = least->word.empty() ? least->lacks.substr(0, least->lacks.find('|')) : least->word;
    if (is_type(word)) fail("Unexpected instruction types specified for '" + opcode() + "'");
    if (!least->word.empty()) fail("Illegal modifier '." + std::string(word) + "' for instruction '" + opcode() + "'");
    std::string needed = "'.";
    for (const char c : least->lacks) needed += c == '|' ? "' or '." : std::string(1, c);
    fail(needed + "' modifier required for instruction '" + opcode() + "'");
  }

  void check_relations() const {
    for (const auto& [opcodes, words, others, needs] : relations)
      if (has_word(opcodes, instruction_->opcode) && has_one_of(words) && has_one_of(others) != needs)
        fail("These modifiers " + std::string(needs ? "need others with them" : "do not go together") +
             " for instruction '" + opcode() + "'");
  }

  void check_need(const Need& need) const {
    bool is_opcode = true;
    const bool lacks = any_word(need.words, [&](std::string_view word) {
      const bool is_here = is_opcode ? word == "." || word == instruction_->opcode : has(word);
      is_opcode = false;
      return !is_here;
    });
    if (!lacks) need_target(need, need.words.starts_with(". ") ? need.words.substr(2) : need.words);
  }
  void need_target(const Need& need, std::string_view words) const {
    std::string feature = "Feature '" + std::string(words) + "' requires ";
    std::replace(feature.begin() + 9, feature.end() - 10, ' ', '.');
    if (module_.target < need.target) fail(feature + ".target sm_" + std::to_string(need.target) + " or higher");
    if (module_.version < need.version)
      fail(feature + "PTX ISA .version " + std::to_string(need.version / 10) + "." + std::to_string(need.version % 10) +
           " or later");
  }
  void check_specials(const Operand& operand) const {
    for (const Operand& element : operand.elements) check_specials(element);
    if (operand.kind != Operand::special) return;
    for (const Need& need : special_needs)
      if (operand.name.starts_with(need.words)) need_target(need, operand.name);
  }

  // {(results),} a function's name {, (arguments)}; or a register with its address, and what it looks like as the last.
  void check_call_form() const {
    const auto& operands = instruction_->operands;
    const auto at = [&](size_t k) { return k < operands.size() ? &operands[k] : nullptr; };
    size_t k = at(0) && is_list(*at(0));
    const Operand* const callee = at(k++);
    if (at(k) && is_list(*at(k))) ++k;
    const bool has_prototype = at(k) && is_name(*at(k));
    if (k + has_prototype != operands.size()) fail("Arguments mismatch for instruction 'call'");
    const bool is_by_name = callee && is_name(*callee) && !variables_.contains(callee->name);
    const bool is_by_address = callee && callee->kind == Operand::reg && fits(*callee, Type::u64) && has_prototype;
    if (!is_by_name && !is_by_address) fail("Label expected for argument 0 of instruction 'call'");
  }
  // A call by name, of a function that the module has: its parameters have the same sizes.
  void check_call() const {
    check_call_form();
    const Operand* callee = nullptr;
    std::vector<const Operand*> lists;
    for (const Operand& operand : instruction_->operands) {
      if (operand.kind == Operand::list) lists.push_back(&operand);
      else if (!callee) callee = &operand;
    }
    if (!callee || callee->kind != Operand::symbol) return;
    const auto found = std::find_if(module_.functions.begin(), module_.functions.end(),
                                    [&](const Function& function) { return function.name == callee->name; });
    if (found == module_.functions.end()) return;
    const bool has_returns = !lists.empty() && lists[0] < callee;
    const bool is_right = all_fit(found->returns, has_returns ? lists[0] : nullptr) &&
                          all_fit(found->parameters, lists.size() > has_returns ? lists.back() : nullptr);
    if (!is_right) fail("Type of argument does not match formal parameter of '" + found->name + "'");
  }
  bool all_fit(const std::vector<Variable>& formal, const Operand* given) const {
    if (formal.size() != (given ? given->elements.size() : 0)) return false;
    for (size_t k = 0; k < formal.size(); ++k) {
      const auto variable = std::find_if(function_.variables.begin(), function_.variables.end(),
                                         [&](const Variable& each) { return each.name == given->elements[k].name; });
      if (variable != function_.variables.end() && variable->size != formal[k].size) return false;
    }
    return true;
  }

  // --- Operands
  Type type_of(const Operand& reg) const { return function_.registers[static_cast<size_t>(reg.index)]; }
  Type type_at(size_t place) const { return place < types_.size() ? type_named(types_[place]) : Type::none; }
  static Type twice(Type type) {
    switch (type) {
      case Type::u16: return Type::u32;
      case Type::s16: return Type::s32;
      case Type::u32: return Type::u64;
      case Type::s32: return Type::s64;
      default: return Type::none;
    }
  }

  // A register or constant of a type.
  bool fits(const Operand& operand, Type type, bool may_be_wider = false) const {
    if (operand.address || !operand.name.empty()) return false;
    if (operand.negated && type != Type::pred) return false;
    switch (operand.kind) {
      case Operand::reg:
        return operand.index >= 0 && (type == Type::none || goes_with(type_of(operand), type, may_be_wider));
      case Operand::integer: return !is_floating(type);
      case Operand::floating: return type == Type::f32 || type == Type::f64 || type == Type::b32 || type == Type::b64;
      default: return false;
    }
  }
  bool is_sink(const Operand& operand) const {
    return operand.kind == Operand::reg && operand.index < 0 && !operand.address;
  }
  // As many as .v2 says.
  bool all_fit(const Operand& operand, Type type, bool may_be_wider, bool may_sink = true) const {
    const size_t count = has("v2") ? 2 : has("v4") ? 4 : has("v8") ? 8 : 1;
    if (count == 1) return fits(operand, type, may_be_wider);
    return is_list(operand) && operand.elements.size() == count &&
           std::ranges::all_of(operand.elements, [&](const Operand& element) {
             return (may_sink && is_sink(element)) || fits(element, type, may_be_wider);
           });
  }
  // Two results, "r|p".
  bool two_fit(const Operand& operand, Type first, bool may_sink) const {
    return is_list(operand) && operand.elements.size() == 2 &&
           (fits(operand.elements[0], first) || (may_sink && is_sink(operand.elements[0]))) &&
           (fits(operand.elements[1], Type::pred) || is_sink(operand.elements[1]));
  }
  // A part of a register, for video.
  bool part_fits(Operand operand) const {
    if (operand.kind != Operand::reg && operand.kind != Operand::integer) return false;
    operand.name.clear();
    operand.negated &= instruction_->opcode != "vmad";
    return fits(operand, Type::u32);
  }
  static bool is_list(const Operand& operand) { return operand.kind == Operand::list && !operand.address; }
  static bool is_constant(const Operand& operand) { return operand.kind == Operand::integer && !operand.address; }
  bool is_word(const Operand& operand) const {
    return fits(operand, Type::u32) && (operand.kind != Operand::reg || type_of(operand) != Type::f16x2);
  }
  static bool is_name(const Operand& operand) { return operand.kind == Operand::symbol && !operand.address; }

  bool fits(const Operand& operand, char letter) const {
    const Type first = type_at(0), last = type_at(types_.size() - 1);
    switch (letter) {
      case 't':
      case 's': return fits(operand, last);
      case 'd': return fits(operand, first);
      case 'D': return all_fit(operand, first, true);
      case 'S': return all_fit(operand, last, true, false);
      case 'v': return all_fit(operand, last, false);
      case 'T': return is_sink(operand) || all_fit(operand, last, false);
      case 'w': return fits(operand, twice(last));
      case 'r':
      case 'u': return is_word(operand);
      case 'n': return is_word(operand) && (!is_constant(operand) || operand.value < 16);
      case 'g': return is_word(operand) && (!is_constant(operand) || operand.value % 32 == 0);
      case 'e': return is_word(operand) && (!is_constant(operand) || operand.value < 256);
      case 'o': return is_word(operand) && (!is_constant(operand) || operand.value < 2);
      case 'z': return is_word(operand) && (!is_constant(operand) || operand.value % 16 == 0);
      case 'h': return fits(operand, Type::u16);
      case 'l': return fits(operand, Type::u64);
      case 'f': return fits(operand, Type::f32);
      case 'p': return fits(operand, Type::pred);
      case 'q': return fits(operand, Type::pred) || two_fit(operand, Type::pred, true);
      case 'R': return fits(operand, Type::b32) || two_fit(operand, Type::b32, false);
      case 'E': return two_fit(operand, Type::b32, true);
      case 'L': return is_sink(operand) || fits(operand, Type::u64);
      case 'i': return is_word(operand) || fits(operand, Type::u64);
      case 'b': return operand.kind == Operand::reg && is_word(operand);
      case 'V': return part_fits(operand);
      case 'Q': return operand.kind == Operand::reg && part_fits(operand);
      case 'c': return operand.kind == Operand::special || fits(operand, last, true);
      case 'm': return is_name(operand) || fits(operand, last);
      case 'N': return is_name(operand);
      case 'k': return is_constant(operand);
      case '4': return is_constant(operand) && (operand.value == 4 || operand.value == 8 || operand.value == 16);
      case '6': return is_constant(operand) && operand.value == 16;
      case '8': return is_constant(operand) && operand.value == 128;
      case '_': return is_sink(operand);
      case 'a':
      case 'A': return operand.address;
      default: return true;
    }
  }

  bool all_fit(std::string_view letters) const {
    const auto& operands = instruction_->operands;
    std::string all(letters);
    for (const auto& [opcodes, words, operand] : further_operands)
      if ((opcodes.empty() || has_word(opcodes, instruction_->opcode)) && has_one_of(words)) all += operand;
    return std::ranges::equal(operands, all,
                              [&](const Operand& operand, char letter) { return fits(operand, letter); });
  }
  // What a name means lies where the instruction looks for it. Of two spaces the first two operands have one each.
  void check_spaces() const {
    std::vector<std::string_view> spaces;
    for (const std::string_view word : instruction_->modifiers)
      if (has_word("global const local param param::entry param::func shared shared::cta shared::cluster", word))
        spaces.push_back(word.substr(0, word.find(':')));
    const bool takes_names = has_word("cvta mapa getctarank", instruction_->opcode);
    if (takes_names && instruction_->opcode != "cvta") spaces = {"shared"};
    for (size_t k = 0; k < instruction_->operands.size(); ++k) {
      const Operand& operand = instruction_->operands[k];
      if (operand.address && operand.kind == Operand::reg && instruction_->opcode == "st" && has("param"))
        fail("A parameter is stored by its name");
      if (operand.kind != Operand::symbol || !(operand.address || takes_names)) continue;
      const auto variable = variables_.find(operand.name);
      if (variable == variables_.end()) continue;
      const std::string_view its = name_of(variable->second);
      const std::string_view wanted = spaces.size() < 2 ? "" : k < 2 ? spaces[k] : "shared";
      const bool fits =
          spaces.empty() ? its != "const" && its != "param" : its == (spaces.size() == 1 ? spaces[0] : wanted);
      if (!fits) fail("State space mismatch between instruction and address in instruction '" + opcode() + "'");
    }
  }
  static std::string_view name_of(Space space) {
    constexpr std::string_view names[] = {"generic", "global", "shared", "local", "const", "param"};
    return names[static_cast<size_t>(space)];
  }

  void check_operands(const std::vector<const Form*>& forms) const {
    const auto takes = [&](const Form* form) {
      if (form->operands == "*") return true;
      if (form->operands == " ") return instruction_->operands.empty();
      return any_word(form->operands, [&](std::string_view letters) { return all_fit(letters); });
    };
    const auto form = std::ranges::find_if(forms, takes);
    if (form == forms.end()) fail("Arguments mismatch for instruction '" + opcode() + "'");
    const std::string_view letters = (*form)->operands;
    const auto& operands = instruction_->operands;
    const bool has_result = !letters.empty() && !std::strchr(" *aAxungozk_", letters[0]);
    if (has_result && ((operands[0].kind != Operand::reg && operands[0].kind != Operand::list) || operands[0].negated))
      fail("Result register required for instruction '" + opcode() + "'");
  }

  // A value, parts of a register into it or out of it, or a vector.
  void check_mov() const {
    const auto& operands = instruction_->operands;
    const Type type = type_at(0);
    bool is_right = operands.size() == 2 && !operands[0].address && !operands[1].address;
    if (is_right && operands[0].kind == Operand::special)
      fail("Read-only special register cannot be destination argument");
    if (is_right && operands[0].kind != Operand::reg && !is_list(operands[0]))
      fail("Result register required for instruction 'mov'");
    const bool is_vector = has("v2") || has("v4");
    const bool is_whole = is_integer(type) || (is_untyped(type) && type != Type::b128);
    if (is_right && (is_vector || (is_list(operands[0]) && is_list(operands[1])))) {
      is_right = is_vector && is_list(operands[0]) && is_list(operands[1]);
    } else if (is_right) {
      for (const Operand& operand : operands)
        is_right &= is_list(operand) ? is_untyped(type) && has_bits(operand, type)
                                     : fits(operand, type) || operand.kind == Operand::special ||
                                           (is_whole && is_name(operand) && has_room_for(operand, type));
      const Operand& from = operands[1];
      if (from.name == "%is_explicit_cluster") is_right &= type == Type::pred;
      else if (from.kind == Operand::special && from.name != "%gridid")
        is_right &= is_whole && is_wide_special(from.name) == (bits(type) == 64);
    }
    if (!is_right) fail("Arguments mismatch for instruction 'mov'");
  }
  bool has_room_for(const Operand& name, Type type) const {
    const auto variable = variables_.find(name.name);
    return variable == variables_.end() || variable->second != Space::global || bits(type) == 64;
  }
  bool has_bits(const Operand& list, Type type) const {  // all elements together
    unsigned sum = 0;
    for (const Operand& element : list.elements) {
      if (element.kind != Operand::reg || element.index < 0) return true;
      sum += bits(function_.registers[static_cast<size_t>(element.index)]);
    }
    return sum == bits(type);
  }

  // What saturates could else lose something.
  void check_saturation() const {
    const Type to = type_at(0), from = type_at(1);
    if (!has("sat") || has("pack") || !is_integer(to) || !is_integer(from)) return;
    const bool keeps_sign =
        is_signed(to) == is_signed(from) ? bits(to) >= bits(from) : is_signed(to) && bits(to) > bits(from);
    if (keeps_sign) fail("Illegal modifier '.sat' for instruction 'cvt'");
  }

  // Addresses have 64 bits, but for those in spaces of their own.
  void check_address() const {
    if (instruction_->opcode == "st" && has("const")) fail("State space incorrect for instruction 'st'");
    for (const Operand& operand : instruction_->operands) {
      if (!operand.address || operand.kind != Operand::reg || operand.index < 0) continue;
      const Type type = function_.registers[static_cast<size_t>(operand.index)];
      if (is_floating(type) || type == Type::pred)
        fail("Illegal to use a register of this type as address operand. Use integer or bit only.");
      const bool is_small = has("shared") || has("shared::cta") || has("shared::cluster") || has("local") ||
                            has("const") || has("async") || has("bulk");
      if (!is_small && bits(type) < 64) fail("32-Bit addressing is not supported on sm_90 or higher architectures");
    }
  }

  const Module& module_;
  const Function& function_;
  std::unordered_map<std::string_view, Space> variables_;  // that the function knows
  const Instruction* instruction_ = nullptr;
  std::vector<std::string_view> types_;  // among the instruction's modifiers
};

void check_target(const Module& module) {
  const auto found = std::find_if(std::begin(targets), std::end(targets),
                                  [&](const Need& need) { return need.target == module.target; });
  const std::string target = "sm_" + std::to_string(module.target);
  if (found == std::end(targets)) fail(module.target_line, "Unsupported .target '" + target + "'");
  if (module.version < found->version)
    fail(module.target_line, "PTX .version " + std::to_string(module.version / 10) + "." +
                                 std::to_string(module.version % 10) + " does not support .target " + target);
}

// The bytes of shared memory that a kernel declares, and of the module's that it names.
uint64_t shared_bytes(const Module& module, const Function& function) {
  uint64_t sum = 0;
  const auto add = [&](const Variable& variable) {
    if (variable.space != Space::shared || variable.linkage == Linkage::external) return;
    sum = (sum + variable.alignment - 1) / variable.alignment * variable.alignment + variable.size;
  };
  for (const Variable& variable : function.variables) add(variable);
  for (const Variable& variable : module.variables) {
    const bool is_named = std::any_of(function.code.begin(), function.code.end(), [&](const Instruction& i) {
      return std::any_of(i.operands.begin(), i.operands.end(),
                         [&](const Operand& operand) { return operand.name == variable.name; });
    });
    if (is_named) add(variable);
  }
  return sum;
}

void check_sizes(const Module& module, const Function& kernel) {
  const auto too_much = [&](const char* what, uint64_t bytes, uint64_t most) {
    if (bytes > most)
      fail(kernel.line, "Entry function '" + kernel.name + "' uses too much " + what + " (" + std::to_string(bytes) +
                            " bytes, " + std::to_string(most) + " max)");
  };
  too_much("shared data", shared_bytes(module, kernel), most_shared);
  uint64_t bytes = 0;
  for (const Variable& parameter : kernel.parameters)
    bytes = (bytes + parameter.alignment - 1) / parameter.alignment * parameter.alignment + parameter.size;
  too_much("parameter space", bytes, module.version >= 81 ? most_parameters : most_parameters_before_8_1);
}

}  // namespace

void check(const Module& module, unsigned capability) {
  check_target(module);
  if (module.target > capability)
    throw Error("the PTX is for a later GPU: .target sm_" + std::to_string(module.target));
  for (const Function& function : module.functions) {
    if (function.is_declared_only && function.linkage != Linkage::external)
      throw Error("Unresolved extern function '" + function.name + "'");
    Checker checker(module, function);
    for (const Variable& result : function.returns)
      if (result.reg >= 0 && bits(result.type) < 32)
        throw Error("a function cannot return a predicate or fewer than 32 bits in a register: '" + function.name +
                    "'");
    if (function.cluster_line && module.target < 90)
      fail(function.cluster_line, "directives about clusters require .target sm_90 or higher");
    for (const Instruction& i : function.code) checker.check(i);
    if (function.is_entry) check_sizes(module, function);
  }
  uint64_t constants = 0;
  for (const Variable& variable : module.variables)
    if (variable.space == Space::constant) constants += variable.size;
  if (constants > most_constants)
    throw Error("File uses too much global constant data (" + std::to_string(constants) + " bytes, " +
                std::to_string(most_constants) + " max)");
}

}  // namespace ptx
