// SPDX-License-Identifier: MIT-0
// Several modules made one. A symbol that is not internal means the same in all of them; an internal one is its own
// module's, and gets another name where two have the same.
#include <algorithm>

#include "ptx.h"

namespace ptx {
namespace {

// The launch's own shared memory is no symbol that some module defines.
bool is_of_launch(const Variable& variable) {
  return variable.space == Space::shared && variable.linkage == Linkage::external;
}
bool is_defined(const Variable& variable) { return variable.linkage != Linkage::external; }
bool is_defined(const Function& function) { return !function.is_declared_only; }

bool is_of_function(const Function& function, const std::string& name) {
  for (const auto* variables : {&function.variables, &function.parameters, &function.returns})
    if (std::any_of(variables->begin(), variables->end(), [&](auto& variable) { return variable.name == name; }))
      return true;
  return false;
}

// Calls work(operand) for each operand of a function that names a symbol of its module.
template <class Function, class Operands, class Work>
void for_each_symbol(const Function& function, Operands& operands, const Work& work) {
  for (auto& operand : operands) {
    for_each_symbol(function, operand.elements, work);
    if (operand.kind == Operand::symbol && !is_of_function(function, operand.name)) work(operand);
  }
}

using Names = std::map<std::string, std::string>;

void substitute(std::string& name, const Names& renamed) {
  if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
}

void rename_symbols(Module& module, const Names& renamed) {
  for (Variable& variable : module.variables) {
    for (Variable::Relocation& relocation : variable.relocations) substitute(relocation.symbol, renamed);
    if (variable.linkage == Linkage::internal) substitute(variable.name, renamed);
  }
  for (Function& function : module.functions) {
    for (Instruction& i : function.code)
      for_each_symbol(function, i.operands, [&](Operand& operand) { substitute(operand.name, renamed); });
    if (function.linkage == Linkage::internal) substitute(function.name, renamed);
  }
}

}  // namespace

// A module has this symbol, too. Throws Error if the two cannot be one.
void Linker::meet(const std::string& name, const Symbol& other) {
  const auto [known, is_new] = symbols_.try_emplace(name, other);
  if (is_new) return;
  Symbol& earlier = known->second;
  const auto refuse = [&](const std::string& what, const char* first) {
    throw Error(what + " '" + name + "' in '" + units_[other.unit].name + "', first " + first + " in '" +
                units_[earlier.unit].name + "'");
  };
  const auto is_strong = [](const Symbol& symbol) { return symbol.is_defined && symbol.linkage == Linkage::visible; };
  if (earlier.is_function != other.is_function || earlier.space != other.space)
    refuse("Memory space doesn't match for", "specified");
  if (is_strong(earlier) && is_strong(other)) refuse("Multiple definition of", "defined");
  const bool is_larger = other.size > earlier.size;
  const bool are_common = earlier.linkage == Linkage::common || other.linkage == Linkage::common;
  if (earlier.size && other.size && earlier.size != other.size && !are_common)
    refuse("Size doesn't match for", "specified");
  const bool replaces =
      earlier.linkage == Linkage::common && other.linkage == Linkage::common ? is_larger : is_strong(other);
  if (other.is_defined && (!earlier.is_defined || replaces)) earlier = other;
}

void Linker::add(Module module, const std::string& name) {
  const size_t unit = units_.size();
  units_.push_back({std::move(module), name});
  for (const Variable& variable : units_[unit].module.variables)
    if (variable.linkage != Linkage::internal && !is_of_launch(variable))
      meet(variable.name, {unit, is_defined(variable), false, variable.linkage, variable.space, variable.size});
  for (const Function& function : units_[unit].module.functions)
    if (function.linkage != Linkage::internal)
      meet(function.name, {unit, is_defined(function), true, function.linkage, Space::generic, 0});
}

std::string Linker::undefined(const std::set<std::string>& provided) const {
  for (const Unit& unit : units_) {
    std::set<std::string> own;  // internal symbols
    for (const Variable& variable : unit.module.variables)
      if (variable.linkage == Linkage::internal || is_of_launch(variable)) own.insert(variable.name);
    for (const Function& function : unit.module.functions)
      if (function.linkage == Linkage::internal && is_defined(function)) own.insert(function.name);
    std::string missing;
    const auto look = [&](const std::string& name) {
      const auto known = symbols_.find(name);
      if (missing.empty() && !own.contains(name) && !provided.contains(name) && known != symbols_.end() &&
          !known->second.is_defined)
        missing = name;
    };
    for (const Variable& variable : unit.module.variables)
      for (const Variable::Relocation& relocation : variable.relocations) look(relocation.symbol);
    for (const Function& function : unit.module.functions)
      for (const Instruction& i : function.code)
        for_each_symbol(function, i.operands, [&](const Operand& operand) { look(operand.name); });
    if (!missing.empty()) return "Undefined reference to '" + missing + "' in '" + unit.name + "'";
  }
  return "";
}

Module Linker::finish() {
  Module linked;
  std::set<std::string> taken;
  for (const auto& [name, symbol] : symbols_) taken.insert(name);
  linked.variables = variables_of_launch();
  for (const Variable& variable : linked.variables) taken.insert(variable.name);
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    Module& from = units_[unit].module;
    Names renamed;
    const auto name_internal = [&](const auto& symbol) {
      if (symbol.linkage == Linkage::internal && !taken.insert(symbol.name).second)
        renamed[symbol.name] = symbol.name + "@" + std::to_string(unit);  // unique: no name has a @
    };
    for (const Variable& variable : from.variables) name_internal(variable);
    for (const Function& function : from.functions) name_internal(function);
    rename_symbols(from, renamed);
    move_kept(unit, linked);
    linked.version = std::max(linked.version, from.version);
    linked.target = std::max(linked.target, from.target);
    linked.parts.push_back(std::move(from));
  }
  units_.clear();
  return linked;
}

// Those of all modules that have one name are one, with the largest alignment.
std::vector<Variable> Linker::variables_of_launch() const {
  std::map<std::string, Variable> by_name;
  for (const Unit& unit : units_)
    for (const Variable& variable : unit.module.variables)
      if (is_of_launch(variable)) {
        Variable& one = by_name.try_emplace(variable.name, variable).first->second;
        one.alignment = std::max(one.alignment, variable.alignment);
      }
  std::vector<Variable> all;
  for (auto& [name, variable] : by_name) all.push_back(std::move(variable));
  return all;
}

// Of a symbol that several modules have, one is kept.
void Linker::move_kept(size_t unit, Module& to) {
  const auto is_kept = [&](const auto& symbol) {
    return symbol.linkage == Linkage::internal || symbols_.at(symbol.name).unit == unit;
  };
  for (Variable& variable : units_[unit].module.variables)
    if (!is_of_launch(variable) && is_kept(variable)) to.variables.push_back(std::move(variable));
  for (Function& function : units_[unit].module.functions)
    if (is_kept(function)) to.functions.push_back(std::move(function));
}

}  // namespace ptx
