// SPDX-License-Identifier: MIT-0
// Declarations of variables: what stands before a name, the dimensions, the initial values.
#pragma once
#include <vector>
#include "tokens.h"

namespace ptx {

constexpr uint64_t most_memory = uint64_t(256) << 20;  // bytes, for initial values and registers of the whole text

class Declarations : public Tokens {
 protected:
  using Tokens::Tokens;
  // A name whose meaning comes later in the text: of an operand of an instruction, of an entry of a table of branch
  // targets, or (none) of something that can be no label.
  struct Reference {
    enum Where : uint8_t { none, operand, table };
    std::string_view name;
    int line = 0;
    Where where = none;
    size_t owner = 0, place = 0;  // the instruction and its operand; the table and its entry
  };
  // What stands before the name: .align 8 .b8, or .u64 .ptr .global .align 16
  Variable specification(Space space, unsigned& vector);
  // The name, the dimensions and the initial value, after the specification.
  Variable declarator(Variable variable, unsigned vector, bool may_be_unsized);
  void spend(uint64_t bytes);
  std::vector<Reference> unknown_;  // which the module must have when it ends

 private:
  uint64_t initial_values(Variable& variable, const std::vector<uint64_t>& dimensions, size_t level, uint64_t at);
  void initial_value(Variable& variable, uint64_t at);
  uint64_t initial_number(const Operand& number, bool negative, Type type, int line);
  Variable::Relocation relocation(uint64_t at);
  void byte_of_address(Variable& variable, uint64_t at, uint64_t mask, int line);
  uint64_t spent_ = 0;
};

}  // namespace ptx
