// SPDX-License-Identifier: MIT-0
// What an instruction of a text is: one of those of instructions.h, with its modifiers as fields and its operands by
// name.
#pragma once
#include <array>
#include <bitset>
#include <initializer_list>
#include "syntax.h"

namespace ptx {

struct Decoded {
  const Instruction* written = nullptr;
  Opcode opcode = Opcode::none;
  std::array<Type, 3> types = {};                              // in their order; none: it has fewer
  Space space = Space::generic, other_space = Space::generic;  // the first and the second that it names
  Scope scope = Scope::none;
  Order order = Order::none;
  CacheOperator cache = CacheOperator::none;
  Rounding rounding = Rounding::none;
  Comparison comparison = Comparison::none;
  Operation operation = Operation::none;
  uint8_t count = 1;  // of elements: .v2
  std::bitset<128> words = {};
  const Form* form = nullptr;
  std::array<int8_t, 8> places = {};  // of the form's parameters among the operands; -1: left out

  Type type() const { return types[0]; }
  bool has(Word word) const { return words[static_cast<size_t>(word)]; }
  // The place among these of the first that it has; how many they are, if it has none.
  size_t which(std::initializer_list<Word>) const;
  const Operand* find(std::string_view name) const;  // by its name in instructions.h; null: it is left out
  const Operand& operator[](std::string_view name) const { return *find(name); }
  const std::vector<Operand>& operands() const { return written->operands; }
};

// Of the instructions of one function.
class Decoder {
 public:
  explicit Decoder(const Function& function) : function_(function) {}
  // Throws Error, in words of ptxas's, if there is no such instruction.
  Decoded decode(const Instruction& instruction) {
    decode_modifiers(instruction);
    decode_operands();
    return decoded_;
  }

 protected:
  void decode_modifiers(const Instruction&);
  void decode_operands();
  [[noreturn]] void fail(const std::string& what) const;
  [[noreturn]] void fail_for_opcode(const std::string& what) const;  // what, and "for instruction 'add'"
  bool has(const Modifier*) const;
  // A register or constant of the type.
  bool fits(const Operand&, Type, bool may_be_wider = false) const;
  const Function& function_;
  Decoded decoded_;
  std::vector<const Modifier*> modifiers_;

 private:
  struct Misfit;
  Misfit misfit(const Form&) const;
  [[noreturn]] void refuse_modifiers(const Misfit&) const;
  void set_fields();
  void check_groups(const Form&) const;
  bool bind(const Form&);
  bool fits(const Operand&, const Parameter&) const;
  bool fits_value(const Operand&, const Parameter&) const;
  bool fits_type(const Operand&, const Parameter&) const;
  std::string name() const;
  size_t name_size_ = 0;            // how many modifiers belong to the name
  std::vector<const Form*> forms_;  // that have these modifiers
  std::vector<Type> types_;
};

}  // namespace ptx
