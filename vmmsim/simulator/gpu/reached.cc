// SPDX-License-Identifier: MIT-0
// What a kernel reaches: the functions that it calls, which of them have frames, and their shared variables.
#include <algorithm>
#include <functional>
#include "lowering.h"

namespace gpu {

const ptx::Variable* variable_named(const std::vector<ptx::Variable>& variables, const std::string& name) {
  const auto found = std::find_if(variables.begin(), variables.end(), [&](auto& v) { return v.name == name; });
  return found == variables.end() ? nullptr : &*found;
}

const ptx::Function* function_named(const ptx::Module& module, const std::string& name) {
  const ptx::Function* found = nullptr;
  for (const ptx::Function& function : module.functions)
    if (function.name == name && (!found || found->is_declared_only)) found = &function;
  return found;
}

CallParts parts_of(const ptx::Instruction& call) {
  CallParts parts;
  for (const ptx::Operand& operand : call.operands) {
    const bool is_list = operand.kind == ptx::Operand::list;
    if (!parts.callee) (is_list ? parts.returns : parts.callee) = &operand;
    else if (is_list) parts.arguments = &operand;
  }
  return parts;
}

Signature signature_of(const ptx::Function& function) {
  Signature sizes;
  for (const ptx::Variable& result : function.returns) sizes.push_back(result.size);
  sizes.push_back(function.returns.size());
  for (const ptx::Variable& parameter : function.parameters) sizes.push_back(parameter.size);
  return sizes;
}
// Of a call in a function.
Signature signature_of(const Lowering::State& state, const ptx::Function& function, const CallParts& parts) {
  Signature sizes;
  const auto add = [&](const ptx::Operand* list) {
    if (list)
      for (const ptx::Operand& operand : list->elements) {
        const ptx::Variable* const variable = state.variable(function, operand.name);
        sizes.push_back(variable ? variable->size : 0);
      }
  };
  add(parts.returns);
  sizes.push_back(sizes.size());
  add(parts.arguments);
  return sizes;
}

namespace {

struct Search : Reached {
  std::set<const ptx::Function*> seen, on_the_way;
  std::set<Signature> by_address;  // of calls
};

// Lays out the shared variables that a function and those it calls use, and finds which of them have frames. Throws
// NotSimulated if one launches kernels.
void visit_function(Lowering::State& state, const ptx::Function& function, Search& reached) {
  if (!reached.seen.insert(&function).second) return;
  reached.on_the_way.insert(&function);
  const std::function<void(const ptx::Operand&)> visit = [&](const ptx::Operand& operand) {
    for (const ptx::Operand& element : operand.elements) visit(element);
    if (operand.kind == ptx::Operand::special && operand.name.starts_with("%reserved_smem_offset"))
      state.lowered.reserved_shared = reserved_shared;
    if (operand.kind != ptx::Operand::symbol) return;
    const bool is_of_runtime = operand.name.find(device_runtime) != operand.name.npos;
    state.lowered.launches_others |= is_of_runtime;
    if (is_of_runtime && !is_system_call(operand.name))
      throw NotSimulated{"kernel " + state.lowered.name + " calls " + operand.name + ", to launch another"};
    const ptx::Variable* const variable = state.variable(function, operand.name);
    const ptx::Function* const called = variable ? nullptr : function_named(state.module, operand.name);
    if (called && reached.on_the_way.contains(called)) reached.with_frames.insert(called);
    if (called) visit_function(state, *called, reached);
    if (!variable || variable->space != ptx::Space::shared) return;
    if (variable->linkage == ptx::Linkage::external)
      reached.dynamic_alignment = std::max(reached.dynamic_alignment, variable->alignment);
    else state.lay_out(state.shared_offsets, *variable, state.lowered.static_shared);
  };
  for (const ptx::Instruction& i : function.code) {
    for (const ptx::Operand& operand : i.operands) visit(operand);
    if (i.opcode != "call") continue;
    const CallParts parts = parts_of(i);
    if (is_by_address(parts)) reached.by_address.insert(signature_of(state, function, parts));
  }
  reached.on_the_way.erase(&function);
}

// The functions whose addresses the module has somewhere.
std::set<const ptx::Function*> functions_with_address(const ptx::Module& module) {
  std::set<const ptx::Function*> all;
  const auto add = [&](const std::string& name) {
    const ptx::Function* const function = function_named(module, name);
    if (function && !function->is_entry && !function->code.empty()) all.insert(function);
  };
  for (const ptx::Variable& variable : module.variables)
    for (const ptx::Variable::Relocation& relocation : variable.relocations) add(relocation.symbol);
  for (const ptx::Function& function : module.functions)
    for (const ptx::Instruction& i : function.code) {
      if (i.opcode == "call") continue;
      for (const ptx::Operand& operand : i.operands)
        if (operand.kind == ptx::Operand::symbol) add(operand.name);
    }
  return all;
}

}  // namespace

// All that a kernel reaches. A pointer may come from anywhere: what has an address and the parameters of a call by
// address is reached.
Reached reached_from(Lowering::State& state, const ptx::Function& kernel) {
  Search reached;
  visit_function(state, kernel, reached);
  if (reached.by_address.empty()) return reached;
  std::set<const ptx::Function*> candidates = functions_with_address(state.module);
  bool has_grown = true;
  while (has_grown) {
    has_grown = false;
    for (const ptx::Function* const function : candidates) {
      if (!reached.by_address.contains(signature_of(*function))) continue;
      has_grown |= reached.with_frames.insert(function).second;
      visit_function(state, *function, reached);
    }
  }
  return reached;
}

}  // namespace gpu
