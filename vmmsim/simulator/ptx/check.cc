// SPDX-License-Identifier: MIT-0
#include "check.h"
#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_map>
#include "instructions.h"
#include "tokens.h"

namespace ptx {
namespace {

constexpr uint64_t most_shared = 232448, most_constants = 65536;  // bytes of a kernel, of a module
constexpr uint64_t most_parameters = 32764, most_parameters_before_8_1 = 4352;

// A list of words, divided by spaces.
bool has_word(std::string_view list, std::string_view word) {
  for (size_t at = list.find(word); at != list.npos; at = list.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
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

// Whether a register of one type may stand where an instruction has another.
bool goes_with(Type reg, Type type, bool may_be_wider) {
  if (reg == Type::pred || type == Type::pred) return reg == type;
  if (may_be_wider ? bits(reg) < bits(type) : bits(reg) != bits(type)) return false;
  if (type == Type::bf16 || type == Type::bf16x2) return is_untyped(reg) || reg == type;
  if (is_untyped(reg) || is_untyped(type)) return true;
  return is_integer(reg) ? is_integer(type) : reg == type;
}

bool is_wide_special(std::string_view name) {
  return name == "%clock64" || name == "%globaltimer" || name == "%current_graph_exec";
}

class Checker {
 public:
  Checker(const Module& module, const Function& function) : module_(module), function_(function) {}

  void check(const Instruction& i) {
    instruction_ = &i;
    const Form& form = this->form();
    check_modifiers(form);
    for (const Need& need : needs) check_need(need);
    for (const Operand& operand : i.operands) check_specials(operand);
    for (const Choice& choice : choices)
      if (choice.opcode == i.opcode && (choice.types.empty() || has_type_of(choice.types)) &&
          !any_word(choice.words, [&](std::string_view word) { return has(word); }))
        fail(std::string(choice.otherwise));
    if (i.modifiers.size() - types_.size() > 1) check_alternatives();
    if ((i.opcode == "atom" || i.opcode == "red") && !has("async")) check_atomic();
    if (has_word("setmaxnreg wgmma", i.opcode) && module_.target_variant != 'a')
      fail("Instruction '" + opcode() + "' not supported on .target 'sm_" + std::to_string(module_.target) + "'");
    if (i.opcode == "bra" && (i.operands.size() != 1 || i.operands[0].kind != Operand::label))
      fail("Label expected for argument 0 of instruction 'bra'");
    if (i.opcode == "mov") check_mov();
    else if (!has("async") && !has("bulk") && form.operands != "*") check_operands(form);
    if (i.opcode == "call") check_call();
    if (i.opcode == "cvt") check_cvt();
    if ((i.opcode == "ld" || i.opcode == "st") && has("param") == false) check_address();
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
  // The instruction's only type is one of these.
  bool has_type_of(std::string_view list) const { return !types_.empty() && has_word(list, types_.back()); }

  const Form& form() const {
    static const auto& all = *new std::unordered_map<std::string_view, const Form*>([] {
      std::unordered_map<std::string_view, const Form*> by_name;
      for (const Form& form : forms) by_name[form.opcode] = &form;
      return by_name;
    }());
    const auto found = all.find(instruction_->opcode);
    if (found == all.end()) fail("Not a name of any known instruction: '" + opcode() + "'");
    return *found->second;
  }

  void check_modifiers(const Form& form) {
    types_.clear();
    const bool any = form.modifiers == "*";
    for (const std::string_view word : instruction_->modifiers) {
      if (is_type(word)) types_.push_back(word);
      if (has_word(any ? other_words : form.modifiers, word)) continue;
      if (is_type(word)) fail("Unexpected instruction types specified for '" + opcode() + "'");
      const std::string quoted = "'." + std::string(word) + "'";
      fail(has_word(other_words, word) ? "Illegal modifier " + quoted + " for instruction '" + opcode() + "'"
                                       : "Unknown modifier " + quoted);
    }
    if (!any && types_.size() != form.types) fail("Unexpected instruction types specified for '" + opcode() + "'");
    for (const Choice& misfit : misfits)
      if (!any && form.types == 1 && has_type_of(misfit.types) &&
          any_word(misfit.words, [&](std::string_view word) { return has(word); }))
        fail(std::string(misfit.otherwise) + " for instruction '" + opcode() + "'");
  }

  void check_alternatives() const {
    for (const auto& [opcodes, words, otherwise] : alternatives)
      if ((opcodes.empty() || has_word(opcodes, instruction_->opcode)) &&
          std::ranges::count_if(instruction_->modifiers, [&](auto word) { return has_word(words, word); }) > 1)
        fail(std::string(otherwise));
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

  // A call by name, of a function that the module has: its parameters have the same sizes.
  void check_call() const {
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

  bool fits(const Operand& operand, Type type, bool may_be_wider) const {
    if (type == Type::none) return true;  // one whose registers are not known here
    switch (operand.kind) {
      case Operand::reg:
        return operand.index < 0 ||
               goes_with(function_.registers[static_cast<size_t>(operand.index)], type, may_be_wider);
      case Operand::integer: return !is_floating(type);
      case Operand::floating: return !is_integer(type) && type != Type::pred;
      case Operand::label: return false;
      case Operand::list:
        return std::all_of(operand.elements.begin(), operand.elements.end(),
                           [&](const Operand& element) { return fits(element, type, may_be_wider); });
      default: return true;
    }
  }
  bool fits(const Operand& operand, char letter) const {
    const size_t count = has("v2") ? 2 : has("v4") ? 4 : has("v8") ? 8 : 1;
    const bool is_list = operand.kind == Operand::list && !operand.address;
    if (letter == 'D' || letter == 'S') {
      if (is_list ? operand.elements.size() != count : count > 1) return false;
    } else if (is_list && letter != 'q' && letter != 'x' && letter != 'a') {
      return false;
    }
    switch (letter) {
      case 't': return fits(operand, type_at(types_.size() - 1), false);
      case 'd': return fits(operand, type_at(0), false);
      case 's': return fits(operand, type_at(types_.size() - 1), false);
      case 'D': return fits(operand, type_at(0), true);
      case 'S': return fits(operand, type_at(types_.size() - 1), true);
      case 'w': return fits(operand, twice(type_at(types_.size() - 1)), false);
      case 'r': return fits(operand, Type::u32, false);
      case 'p':
      case 'q': return fits(operand, Type::pred, false);
      case 'a': return operand.address;
      default: return true;
    }
  }

  void check_operands(const Form& form) const {
    const auto& operands = instruction_->operands;
    const bool is_wide = has("wide");
    const bool any = any_word(form.operands, [&](std::string_view letters) {
      if (letters.size() != operands.size() || is_wide != (letters.find('w') != letters.npos)) return false;
      return std::equal(operands.begin(), operands.end(), letters.begin(),
                        [&](const Operand& operand, char letter) { return fits(operand, letter); });
    });
    if (!any && !(operands.empty() && form.operands == " "))
      fail("Arguments mismatch for instruction '" + opcode() + "'");
    const bool has_result = !operands.empty() && form.types > 0 && !operands[0].address && instruction_->opcode != "st";
    if (has_result && operands[0].kind != Operand::reg && operands[0].kind != Operand::list && form.operands[0] != 'x')
      fail("Result register required for instruction '" + opcode() + "'");
  }

  // A value, parts of a register into it or out of it, or a vector.
  void check_mov() const {
    const auto& operands = instruction_->operands;
    const Type type = type_at(0);
    const auto is_list = [](const Operand& operand) { return operand.kind == Operand::list; };
    bool is_right = operands.size() == 2 && !operands[0].address && !operands[1].address;
    if (is_right && operands[0].kind == Operand::special)
      fail("Read-only special register cannot be destination argument");
    if (is_right && operands[0].kind != Operand::reg && !is_list(operands[0]))
      fail("Result register required for instruction 'mov'");
    const bool is_vector = has("v2") || has("v4");
    if (is_right && (is_vector || (is_list(operands[0]) && is_list(operands[1])))) {
      is_right = is_vector && is_list(operands[0]) && is_list(operands[1]);
    } else if (is_right) {
      for (const Operand& operand : operands)
        is_right &= is_list(operand) ? has_bits(operand, type) : fits(operand, type, false);
      const Operand& from = operands[1];
      if (from.kind == Operand::special && from.name != "%gridid")
        is_right &= is_wide_special(from.name) == (bits(type) == 64);
    }
    if (!is_right) fail("Arguments mismatch for instruction 'mov'");
  }
  void check_atomic() const {
    for (const auto& [operation, types] : atomic_types)
      if (has(operation) && !has_type_of(types))
        fail("Operation ." + std::string(operation) + " requires another type for instruction '" + opcode() + "'");
  }
  bool has_bits(const Operand& list, Type type) const {  // all elements together
    unsigned sum = 0;
    for (const Operand& element : list.elements) {
      if (element.kind != Operand::reg || element.index < 0) return true;
      sum += bits(function_.registers[static_cast<size_t>(element.index)]);
    }
    return sum == bits(type);
  }

  void check_cvt() const {
    if (types_.size() != 2 || has("pack") || instruction_->operands.size() != 2) return;
    const Type to = type_at(0), from = type_at(1);
    const bool rounds_to_integer = has("rni") || has("rzi") || has("rmi") || has("rpi");
    const bool rounds = rounds_to_integer || has("rn") || has("rz") || has("rm") || has("rp");
    if (is_integer(to) && is_integer(from) && rounds) fail("Illegal rounding modifier for instruction 'cvt'");
    const bool to_float = to == Type::f32 || to == Type::f64 || to == Type::f16;
    const bool from_float = from == Type::f32 || from == Type::f64 || from == Type::f16;
    const bool needs = (is_integer(to) && from_float) || (to_float && is_integer(from)) ||
                       (to_float && from_float && bits(to) < bits(from));
    if (needs && !rounds) fail("Rounding modifier required for instruction 'cvt'");
    if (to_float && from_float && bits(to) >= bits(from) && rounds && !rounds_to_integer)
      fail("Illegal rounding modifier for instruction 'cvt'");
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
