// SPDX-License-Identifier: MIT-0
// What the operands of an instruction become: rows of the register file.
#include <algorithm>
#include <cassert>
#include <sstream>
#include "lowering.h"
#include "warp.h"

namespace gpu {
namespace {

void not_predicate(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane] ^ 1; });
}

}  // namespace

void Lowering::not_simulated(const ptx::Instruction& i, const std::string& what) {
  const std::string source = source_of(i);
  std::istringstream words{std::string(i.text)};  // a call has several lines
  std::string text;
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  throw NotSimulated{"line " + std::to_string(i.line) + " of the PTX of kernel " + state_.lowered.name +
                     (source.empty() ? "" : " (" + source + ")") + ": " + text + (what.empty() ? "" : ": " + what)};
}

int Lowering::temporary() { return state_.lowered.rows++; }

int Lowering::carry() {
  if (state_.carry < 0) state_.carry = temporary();
  return state_.carry;
}

int Lowering::constant(uint64_t value) {
  const auto [known, is_new] = state_.constants.try_emplace(value, 0);
  int& row = known->second;
  if (!is_new) return row;
  row = temporary();
  state_.lowered.constants.push_back({row, value});
  return row;
}

int Lowering::special_register(const std::string& name) {
  if (const auto known = state_.specials.find(name); known != state_.specials.end()) return known->second;
  const int row = temporary();
  if (const LoweredKernel::SpecialValue value = special_value(name)) {
    state_.lowered.specials.push_back({row, value});
    state_.specials[name] = row;
  } else if (const Handler reader = special_reader(name)) {
    emit(reader, *state_.instruction, row).effects = Effects::side_effects;
  } else {
    not_simulated(*state_.instruction, name);
  }
  return row;
}

int Lowering::row_of(const ptx::Decoded& i, std::string_view operand, ptx::Type type) {
  const ptx::Operand* const found = i.find(operand);
  return found ? row(*found, type) : -1;
}

int Lowering::row(const ptx::Operand& operand, ptx::Type type) {
  int row = -1;
  switch (operand.kind) {
    case ptx::Operand::reg:
      row = operand.index < 0 ? temporary() : state_.register_row(operand.index);
      if (operand.offset && !operand.address) {  // st.u32 [%rd1], %r1 + 1
        const int sum = temporary();
        emit(add_offset, *state_.instruction, sum, row).offset = operand.offset;
        row = sum;
      }
      break;
    case ptx::Operand::integer: return constant(operand.value);
    case ptx::Operand::floating: {
      const auto value = std::bit_cast<double>(operand.value);
      return constant(ptx::bits(type) == 32 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : operand.value);
    }
    case ptx::Operand::symbol: return address_row(symbol(operand.name), operand.value);
    case ptx::Operand::special: return special_register(operand.name);
    default: not_simulated(*state_.instruction, "an operand of this kind");
  }
  if (!operand.negated) return row;
  const int to = temporary();
  emit(not_predicate, *state_.instruction, to, row);
  return to;
}

MicroOp& Lowering::emit(Handler handler, const ptx::Decoded& i, int to, int a, int b, int c, int d) {
  assert(std::max({to, a, b, c, d}) < state_.lowered.rows);
  MicroOp& op = state_.ops.emplace_back();
  op.run = handler;
  op.from = i.written;
  op.to = to;
  op.a = a;
  op.b = b;
  op.c = c;
  op.d = d;
  if (i.written->guard >= 0) op.guard = state_.register_row(i.written->guard);
  op.guard_negated = i.written->guard_negated;
  op.effects = state_.effects;
  return op;
}

int Lowering::target(const ptx::Operand& label) {
  if (label.kind != ptx::Operand::label) not_simulated(*state_.instruction, "a branch to something that is no label");
  return pending_target(label.index);
}

int Lowering::table(const ptx::Operand& operand) {
  const auto& tables = state_.call->function->branch_targets;
  if (operand.kind != ptx::Operand::symbol || operand.value >= tables.size()) not_simulated(*state_.instruction);
  std::vector<int>& table = state_.lowered.branch_tables.emplace_back();
  for (const int index : tables[operand.value]) table.push_back(pending_target(index));
  return static_cast<int>(state_.lowered.branch_tables.size()) - 1;
}

Lowering::Symbol Lowering::symbol(const std::string& name) {
  const auto& parameters = state_.call->parameters;
  if (const auto formal = parameters.find(name); formal != parameters.end()) return formal->second;
  const ptx::Variable* const variable = state_.variable(*state_.call->function, name);
  if (!variable) {
    const uint64_t address = function_address(state_.module, name);
    if (!address) not_simulated(*state_.instruction, "the address of " + name);
    return {ptx::Space::generic, address};
  }
  if (variable->space == ptx::Space::shared && variable->linkage == ptx::Linkage::external)
    return {ptx::Space::shared, state_.lowered.dynamic_shared_at};
  if (variable->space == ptx::Space::shared) return {ptx::Space::shared, state_.shared_offsets.at(variable)};
  if (variable->space == ptx::Space::local || variable->space == ptx::Space::param) {
    auto& offsets = state_.frames[state_.frame].offsets;
    state_.lay_out(offsets, *variable, state_.lowered.frames[state_.frame].bytes);
    return {ptx::Space::local, offsets.at(variable), state_.frame > 0};
  }
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) not_simulated(*state_.instruction, "the address of " + name);
  return {variable->space, found->second.address};
}

int Lowering::frame_row() const { return state_.lowered.frame_row; }

int Lowering::address_row(const Symbol& symbol, uint64_t offset) {
  if (!symbol.in_frame) return constant(symbol.address + offset);
  const int to = temporary();
  emit(add_offset, *state_.instruction, to, frame_row()).offset = static_cast<int64_t>(symbol.address + offset);
  return to;
}

}  // namespace gpu
