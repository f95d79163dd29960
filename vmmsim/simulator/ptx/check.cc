// SPDX-License-Identifier: MIT-0
#include "check.h"
#include <algorithm>
#include <iterator>
#include <unordered_map>
#include "decode.h"
#include "instructions.h"
#include "tokens.h"

namespace ptx {
namespace {

constexpr uint64_t most_shared = 232448, most_constants = 65536;  // bytes of a kernel, of a module
constexpr uint64_t most_parameters = 32764, most_parameters_before_8_1 = 4352;

bool is_list(const Operand& operand) { return operand.kind == Operand::list && !operand.address; }
bool is_name(const Operand& operand) { return operand.kind == Operand::symbol && !operand.address; }

bool is_wide_special(std::string_view name) {
  return name == "%clock64" || name == "%globaltimer" || name == "%current_graph_exec" || name.ends_with("_64");
}

// What depends on more than the instruction itself.
class Checker : Decoder {
 public:
  Checker(const Module& module, const Function& function) : Decoder(function), module_(module) {
    for (const auto* variables : {&function.variables, &function.parameters, &function.returns, &module.variables})
      for (const Variable& variable : *variables) variables_.emplace(variable.name, variable.space);
  }

  void check(const Instruction& i) {
    decode_modifiers(i);
    for (const Feature& feature : syntax().features())
      if ((feature.opcode == Opcode::none || feature.opcode == decoded_.opcode) &&
          std::ranges::all_of(feature.modifiers, [&](const Modifier* each) { return has(each); }))
        need(feature.name, feature.target, feature.version);
    for (const Operand& operand : i.operands) check_specials(operand);
    if ((is(Opcode::setmaxnreg) || is(Opcode::wgmma)) && module_.target_variant != 'a')
      fail("Instruction '" + std::string(i.opcode) + "' not supported on .target 'sm_" +
           std::to_string(module_.target) + "'");
    if (is(Opcode::bra) && (i.operands.size() != 1 || i.operands[0].kind != Operand::label))
      fail("Label expected for argument 0 of instruction 'bra'");
    decode_operands();
    if (is(Opcode::mov)) check_mov();
    check_spaces();
    if (is(Opcode::call)) check_call();
    if (is(Opcode::cvt)) check_saturation();
    check_address();
    const bool lacks_sync = (is(Opcode::shfl) || is(Opcode::vote)) && !decoded_.has(Word::sync);
    if (lacks_sync && module_.target >= 70 && module_.version >= 64)
      fail("Instruction '" + std::string(i.opcode) +
           "' without '.sync' is not supported on .target sm_70 and higher from PTX ISA version 6.4");
  }

 private:
  bool is_of_param() const { return decoded_.space == Space::param && has(syntax().modifier("param")); }
  bool is(Opcode opcode) const { return decoded_.opcode == opcode; }
  const std::vector<Operand>& operands() const { return decoded_.written->operands; }

  void need(std::string_view name, unsigned target, unsigned version) const {
    const std::string feature = "Feature '" + std::string(name) + "' requires ";
    if (module_.target < target) fail(feature + ".target sm_" + std::to_string(target) + " or higher");
    if (module_.version < version)
      fail(feature + "PTX ISA .version " + std::to_string(version / 10) + "." + std::to_string(version % 10) +
           " or later");
  }
  void check_specials(const Operand& operand) const {
    for (const Operand& element : operand.elements) check_specials(element);
    if (operand.kind != Operand::special) return;
    for (const Need& of : special_needs)
      if (operand.name.starts_with(of.name)) need(operand.name, of.target, of.version);
  }

  // {(results),} a function's name {, (arguments)}; or a register with its address, and what it looks like as the last.
  void check_call_form() const {
    const auto at = [&](size_t k) { return k < operands().size() ? &operands()[k] : nullptr; };
    size_t k = at(0) && is_list(*at(0));
    const Operand* const callee = at(k++);
    if (at(k) && is_list(*at(k))) ++k;
    const bool has_prototype = at(k) && is_name(*at(k));
    if (k + has_prototype != operands().size()) fail_for_opcode("Arguments mismatch");
    const bool is_by_name = callee && is_name(*callee) && !variables_.contains(callee->name);
    const bool is_by_address = callee && callee->kind == Operand::reg && fits(*callee, Type::u64) && has_prototype;
    if (!is_by_name && !is_by_address) fail("Label expected for argument 0 of instruction 'call'");
  }
  // A call by name, of a function that the module has: its parameters have the same sizes.
  void check_call() const {
    check_call_form();
    const Operand* callee = nullptr;
    std::vector<const Operand*> lists;
    for (const Operand& operand : operands()) {
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

  // What a name means lies where the instruction looks for it. Of two spaces the first two operands have one each.
  void check_spaces() const {
    const bool is_of_shared = is(Opcode::mapa) || is(Opcode::getctarank),
               takes_names = is_of_shared || is(Opcode::cvta);
    const Space first = is_of_shared ? Space::shared : decoded_.space;
    const Space second = is_of_shared ? Space::generic : decoded_.other_space;
    for (size_t k = 0; k < operands().size(); ++k) {
      const Operand& operand = operands()[k];
      if (operand.address && operand.kind == Operand::reg && is(Opcode::st) && is_of_param())
        fail("A parameter is stored by its name");
      if (operand.kind != Operand::symbol || !(operand.address || takes_names)) continue;
      const auto variable = variables_.find(operand.name);
      if (variable == variables_.end()) continue;
      const Space space = variable->second;
      const Space wanted = second == Space::generic || k == 0 ? first : k == 1 ? second : Space::shared;
      const bool fits = first == Space::generic ? space != Space::constant && space != Space::param : space == wanted;
      if (!fits)
        fail("State space mismatch between instruction and address in instruction '" +
             std::string(decoded_.written->opcode) + "'");
    }
  }

  // A value, parts of a register into it or out of it, or a vector.
  void check_mov() const {
    const std::vector<Operand>& operands = decoded_.written->operands;
    const Type type = decoded_.type();
    bool is_right = operands.size() == 2 && !operands[0].address && !operands[1].address;
    if (is_right && operands[0].kind == Operand::special)
      fail("Read-only special register cannot be destination argument");
    if (is_right && operands[0].kind != Operand::reg && !is_list(operands[0]))
      fail_for_opcode("Result register required");
    const bool is_vector = decoded_.count > 1;
    const bool is_whole = is_typed_integer(type) || (is_untyped(type) && type != Type::b128);
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
    if (!is_right) fail_for_opcode("Arguments mismatch");
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
    const Type to = decoded_.types[0], from = decoded_.types[1];
    if (!decoded_.has(Word::sat) || decoded_.has(Word::pack) || !is_typed_integer(to) || !is_typed_integer(from))
      return;
    const bool keeps_sign =
        is_signed(to) == is_signed(from) ? bits(to) >= bits(from) : is_signed(to) && bits(to) > bits(from);
    if (keeps_sign) fail_for_opcode("Illegal modifier '.sat'");
  }

  // Addresses have 64 bits, but for those in spaces of their own.
  void check_address() const {
    constexpr Opcode accesses[] = {Opcode::ld,      Opcode::ldu,      Opcode::st,        Opcode::atom,
                                   Opcode::red,     Opcode::prefetch, Opcode::prefetchu, Opcode::applypriority,
                                   Opcode::discard, Opcode::multimem, Opcode::mbarrier};
    const Space space = decoded_.space;
    if (std::ranges::find(accesses, decoded_.opcode) == std::end(accesses) || is_of_param()) return;
    const bool is_small = space == Space::shared || decoded_.other_space == Space::shared || space == Space::local ||
                          space == Space::constant || decoded_.has(Word::async) || decoded_.has(Word::bulk);
    for (const Operand& operand : operands()) {
      if (!operand.address || operand.kind != Operand::reg || operand.index < 0) continue;
      const Type type = function_.registers[static_cast<size_t>(operand.index)];
      if (is_floating(type) || type == Type::pred)
        fail("Illegal to use a register of this type as address operand. Use integer or bit only.");
      if (!is_small && bits(type) < 64) fail("32-Bit addressing is not supported on sm_90 or higher architectures");
    }
  }

  const Module& module_;
  std::unordered_map<std::string_view, Space> variables_;  // that the function knows
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
