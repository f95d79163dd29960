// SPDX-License-Identifier: MIT-0
// What must hold whatever the readers of simulator/ptx are given: shared by the fuzzers, the replay of what they found,
// and the tests.
#pragma once
#include <cstdio>
#include <cstdlib>
#include "ptx/ptx.h"

inline void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

inline void check_operand(const ptx::Function& function, const ptx::Operand& operand, int depth = 0) {
  must(depth < 64, "operands are nested at most 64 deep");
  if (operand.kind == ptx::Operand::reg)
    must(operand.index >= -1 && operand.index < static_cast<int>(function.registers.size()), "a register is declared");
  if (operand.kind == ptx::Operand::label)
    must(operand.index >= 0 && operand.index <= static_cast<int>(function.code.size()), "a label is in the function");
  must(operand.kind == ptx::Operand::list || operand.elements.empty(), "only a list has elements");
  for (const ptx::Operand& element : operand.elements) check_operand(function, element, depth + 1);
}

inline void check_module(const ptx::Module& module) {
  const char *const begin = module.text.data(), *const end = begin + module.text.size();
  const auto check_view = [&](std::string_view view) {
    must(view.data() >= begin && view.data() + view.size() <= end, "what was read lies in the text");
  };
  const auto check_variable = [](const ptx::Variable& variable) {
    must(variable.type != ptx::Type::none && variable.alignment > 0, "a variable has a type and an alignment");
    must(variable.initial.size() <= variable.size, "an initial value fits");
    for (const auto& address : variable.relocations)
      must(variable.size >= 8 && address.at <= variable.size - 8, "an address fits");
  };
  for (const ptx::Variable& variable : module.variables) check_variable(variable);
  for (const ptx::Function& function : module.functions) {
    must(!function.is_declared_only || function.code.empty(), "what is only declared has no code");
    for (const auto* list : {&function.variables, &function.parameters, &function.returns})
      for (const ptx::Variable& variable : *list) check_variable(variable);
    for (const auto& table : function.branch_targets)
      for (const int target : table)
        must(target >= 0 && target <= static_cast<int>(function.code.size()), "a branch target is in the function");
    for (const ptx::Instruction& instruction : function.code) {
      must(!instruction.opcode.empty() && instruction.line > 0, "an instruction has an opcode and a line");
      for (const ptx::Location* at = instruction.source; at; at = at->inlined_at) {
        must(at->line > 0, "a location has a line");
        if (!at->file->empty()) check_view(*at->file);
      }
      must(instruction.guard < static_cast<int>(function.registers.size()), "a guard is declared");
      check_view(instruction.opcode);
      check_view(instruction.text);
      for (const std::string_view modifier : instruction.modifiers) check_view(modifier);
      for (const ptx::Operand& operand : instruction.operands) check_operand(function, operand);
    }
  }
}

inline void try_ptx(std::string_view text) {
  try {
    check_module(ptx::parse(text));
  } catch (const ptx::Error& error) {
    must(std::string_view(error.what()).starts_with("line "), "an error tells its line");
  }
}

inline void try_fat_binary(std::span<const std::byte> bytes) {
  try {
    for (const ptx::Image& image : ptx::read_fat_binary(bytes))
      if (image.is_ptx) ptx::unpacked(image);
  } catch (const ptx::Error&) {
  }
}
