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

void rename(std::string& name, const Names& renamed) {
  if (const auto found = renamed.find(name); found != renamed.end()) name = found->second;
}

void rename_symbols(Module& module, const Names& renamed) {
  for (Variable& it : module.variables) {
    for (Variable::Relocation& relocation : it.relocations) rename(relocation.symbol, renamed);
    if (it.linkage == Linkage::internal) rename(it.name, renamed);
  }
  for (Function& it : module.functions) {
    for (Instruction& i : it.code)
      for_each_symbol(it, i.operands, [&](Operand& operand) { rename(operand.name, renamed); });
    if (it.linkage == Linkage::internal) rename(it.name, renamed);
  }
}

}  // namespace

// A module has this symbol, too. Throws Error if the two cannot be one.
void Linker::meet(const std::string& name, const Symbol& other) {
  const auto [known, is_new] = symbols_.try_emplace(name, other);
  if (is_new) return;
  Symbol& it = known->second;
  const auto refuse = [&](const std::string& what, const char* first) {
    throw Error(what + " '" + name + "' in '" + units_[other.unit].name + "', first " + first + " in '" +
                units_[it.unit].name + "'");
  };
  const auto is_strong = [](const Symbol& symbol) { return symbol.is_defined && symbol.linkage == Linkage::visible; };
  if (it.is_function != other.is_function || it.space != other.space)
    refuse("Memory space doesn't match for", "specified");
  if (is_strong(it) && is_strong(other)) refuse("Multiple definition of", "defined");
  const bool is_larger = other.size > it.size;
  const bool are_common = it.linkage == Linkage::common || other.linkage == Linkage::common;
  if (it.size && other.size && it.size != other.size && !are_common) refuse("Size doesn't match for", "specified");
  const bool replaces =
      it.linkage == Linkage::common && other.linkage == Linkage::common ? is_larger : is_strong(other);
  if (other.is_defined && (!it.is_defined || replaces)) it = other;
}

void Linker::add(Module module, const std::string& name) {
  const size_t unit = units_.size();
  units_.push_back({std::move(module), name});
  for (const Variable& it : units_[unit].module.variables)
    if (it.linkage != Linkage::internal && !is_of_launch(it))
      meet(it.name, {unit, is_defined(it), false, it.linkage, it.space, it.size});
  for (const Function& it : units_[unit].module.functions)
    if (it.linkage != Linkage::internal) meet(it.name, {unit, is_defined(it), true, it.linkage, Space::generic, 0});
}

std::string Linker::undefined(const std::set<std::string>& provided) const {
  for (const Unit& unit : units_) {
    std::set<std::string> own;  // internal symbols
    for (const Variable& it : unit.module.variables)
      if (it.linkage == Linkage::internal || is_of_launch(it)) own.insert(it.name);
    for (const Function& it : unit.module.functions)
      if (it.linkage == Linkage::internal && is_defined(it)) own.insert(it.name);
    std::string missing;
    const auto look = [&](const std::string& name) {
      const auto known = symbols_.find(name);
      if (missing.empty() && !own.contains(name) && !provided.contains(name) && known != symbols_.end() &&
          !known->second.is_defined)
        missing = name;
    };
    for (const Variable& it : unit.module.variables)
      for (const Variable::Relocation& relocation : it.relocations) look(relocation.symbol);
    for (const Function& it : unit.module.functions)
      for (const Instruction& i : it.code)
        for_each_symbol(it, i.operands, [&](const Operand& operand) { look(operand.name); });
    if (!missing.empty()) return "Undefined reference to '" + missing + "' in '" + unit.name + "'";
  }
  return "";
}

Module Linker::finish() {
  Module made;
  std::set<std::string> taken;
  for (const auto& [name, symbol] : symbols_) taken.insert(name);
  made.variables = variables_of_launch();
  for (const Variable& it : made.variables) taken.insert(it.name);
  for (size_t unit = 0; unit < units_.size(); ++unit) {
    Module& from = units_[unit].module;
    Names renamed;
    const auto name_internal = [&](const auto& it) {
      if (it.linkage == Linkage::internal && !taken.insert(it.name).second)
        renamed[it.name] = it.name + "@" + std::to_string(unit);  // unique: no name has a @
    };
    for (const Variable& it : from.variables) name_internal(it);
    for (const Function& it : from.functions) name_internal(it);
    rename_symbols(from, renamed);
    move_kept(unit, made);
    made.version = std::max(made.version, from.version);
    made.target = std::max(made.target, from.target);
    made.parts.push_back(std::move(from));
  }
  units_.clear();
  return made;
}

// Those of all modules that have one name are one, with the largest alignment.
std::vector<Variable> Linker::variables_of_launch() const {
  std::map<std::string, Variable> by_name;
  for (const Unit& unit : units_)
    for (const Variable& it : unit.module.variables)
      if (is_of_launch(it)) {
        Variable& one = by_name.try_emplace(it.name, it).first->second;
        one.alignment = std::max(one.alignment, it.alignment);
      }
  std::vector<Variable> all;
  for (auto& [name, variable] : by_name) all.push_back(std::move(variable));
  return all;
}

// Of a symbol that several modules have, one is kept.
void Linker::move_kept(size_t unit, Module& to) {
  const auto is_kept = [&](const auto& it) {
    return it.linkage == Linkage::internal || symbols_.at(it.name).unit == unit;
  };
  for (Variable& it : units_[unit].module.variables)
    if (!is_of_launch(it) && is_kept(it)) to.variables.push_back(std::move(it));
  for (Function& it : units_[unit].module.functions)
    if (is_kept(it)) to.functions.push_back(std::move(it));
}

}  // namespace ptx
