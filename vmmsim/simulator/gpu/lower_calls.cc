// SPDX-License-Identifier: MIT-0
// Calls: a function's code in the place of the call, or a call that stays one, of a function with a frame.
#include <algorithm>
#include <bit>
#include <utility>
#include "access.h"
#include "lowering.h"
#include "warp.h"

namespace gpu {

using memory::round_up;

namespace {

using Call = Lowering::State::Call;

// Where the results and parameters of a called function lie in its frame: the same for all that have the same sizes.
std::vector<size_t> parameter_offsets(const Signature& sizes, size_t returns, size_t& bytes) {
  std::vector<size_t> offsets;
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (k == returns) continue;  // how many results there are
    offsets.push_back(bytes);
    bytes = round_up(bytes + sizes[k], 16);
  }
  return offsets;
}

// A call that stays one: of a function with a frame, or by address.
void lower_real_call(Lowering& l, const ptx::Decoded& i, const CallParts& parts, const ptx::Function* callee) {
  Lowering::State& state = l.state();
  const auto is_in_register = [](const ptx::Variable& variable) { return variable.reg >= 0; };
  if (callee &&
      (std::ranges::any_of(callee->parameters, is_in_register) || std::ranges::any_of(callee->returns, is_in_register)))
    l.not_simulated(i, "parameters in registers of a function that calls itself");
  const Signature sizes = signature_of(state, *state.call->function, parts);
  if (callee && sizes != signature_of(*callee)) l.not_simulated(i, "a call with other parameters");
  CallSite site;
  site.caller = state.frame;
  size_t bytes = 0, next = 0;
  const size_t returns = parts.returns ? parts.returns->elements.size() : 0;
  const std::vector<size_t> offsets = parameter_offsets(sizes, returns, bytes);
  const auto offset_of = [&](const ptx::Operand& operand) {
    if (operand.kind != ptx::Operand::symbol) l.not_simulated(i, "a parameter in a register");
    const Lowering::Symbol symbol = l.symbol(operand.name);
    if (symbol.space != ptx::Space::local) l.not_simulated(i, "a parameter of the kernel's as another's");
    return symbol.address;
  };
  for (size_t k = 0; k < returns; ++k, ++next)
    site.returns.push_back({offsets[next], offset_of(parts.returns->elements[k]), sizes[next]});
  for (size_t k = 0; parts.arguments && k < parts.arguments->elements.size(); ++k, ++next)
    site.arguments.push_back({offset_of(parts.arguments->elements[k]), offsets[next], sizes[next + 1]});
  for (size_t k = 0; k < state.frames.size(); ++k)
    if (state.frames[k].function == callee) site.callee = k;
  const int address = callee ? -1 : l.row(*parts.callee);
  MicroOp& op = l.emit(call_function, i, -1, address);
  op.ends_run = true;
  op.call_site = static_cast<int>(state.lowered.call_sites.size());
  state.lowered.call_sites.push_back(std::move(site));
}

// Local memory for a parameter that a call gives as a register or a constant. What is passed is stored now; a result is
// loaded by what is in State::after_call.
Lowering::Symbol parameter_for(Lowering& l, const ptx::Decoded& i, const ptx::Variable& formal,
                               const ptx::Operand& given, bool is_result) {
  Lowering::State& state = l.state();
  if (state.frame > 0 || ptx::bits(formal.type) < 8 || ptx::bytes(formal.type) != formal.size)
    l.not_simulated(i, "a register for a parameter in memory");
  size_t& bytes = state.lowered.frames[0].bytes;
  const uint64_t address = round_up(bytes, 16);
  bytes = address + formal.size;
  constexpr ptx::Type types[] = {ptx::Type::b8, ptx::Type::b16, ptx::Type::b32, ptx::Type::b64};
  const ptx::Type type = types[std::countr_zero(ptx::bytes(formal.type))];
  if (is_result) state.after_call.push_back({&given, type, address});
  else emit_access(l, i, false, {ptx::Space::local, l.constant(address), 0}, type, {l.row(given, type)});
  return {ptx::Space::local, address};
}

}  // namespace

void lower_call(Lowering& l, const ptx::Decoded& i) {
  Lowering::State& state = l.state();
  const CallParts parts = parts_of(*i.written);
  if (is_by_address(parts)) return lower_real_call(l, i, parts, nullptr);
  if (!parts.callee || parts.callee->kind != ptx::Operand::symbol) l.not_simulated(i, "a call of something else");
  const auto& [returns, name, arguments] = parts;
  const std::string& callee = name->name;
  const ptx::Function* const function = function_named(state.module, callee);
  if (!function || function->is_declared_only || function->code.empty()) {
    if (!lower_system_call(l, i, callee, returns, arguments))
      l.not_simulated(i, callee + " has no body in this module");
    return;
  }
  const auto is_callee = [&](const Lowering::State::Frame& frame) { return frame.function == function; };
  if (std::any_of(state.frames.begin(), state.frames.end(), is_callee)) return lower_real_call(l, i, parts, function);
  Call call{function, state.call, {}};
  std::vector<std::pair<const ptx::Variable*, int>> in_registers;  // with the caller's rows
  const auto pass = [&](const std::vector<ptx::Variable>& formal, const ptx::Operand* actual) {
    if (formal.size() != (actual ? actual->elements.size() : 0)) l.not_simulated(i, "a call with other parameters");
    for (size_t k = 0; k < formal.size(); ++k) {
      const ptx::Operand& given = actual->elements[k];
      if (formal[k].reg >= 0) in_registers.emplace_back(&formal[k], l.row(given, formal[k].type));
      else if (given.kind != ptx::Operand::symbol)
        call.parameters[formal[k].name] = parameter_for(l, i, formal[k], given, actual == parts.returns);
      else call.parameters[formal[k].name] = l.symbol(given.name);
    }
  };
  pass(function->returns, returns);
  const size_t results = in_registers.size();
  pass(function->parameters, arguments);
  const std::vector<Lowering::State::Result> after = std::exchange(state.after_call, {});
  const int first = state.rows_of(*function);
  for (size_t k = results; k < in_registers.size(); ++k)
    l.emit(add_offset, i, first + in_registers[k].first->reg, in_registers[k].second);
  MicroOp* past = nullptr;  // lanes that the guard stops go around the function
  if (i.written->guard >= 0) {
    past = &l.emit(branch, i);
    past->guard_negated = !past->guard_negated;
    past->ends_run = true;
    past->effects = Effects::pure;
  }
  lower_function(l, call);
  if (past) past->target = static_cast<int>(state.ops.size());
  for (size_t k = 0; k < results; ++k)
    l.emit(add_offset, i, in_registers[k].second, first + in_registers[k].first->reg);
  for (const auto& [to, type, address] : after)
    emit_access(l, i, true, {ptx::Space::local, l.constant(address), 0}, type, {l.row(*to, type)});
}

namespace {

// A function that has a frame, by itself.
void lower_frame(Lowering& l, size_t number) {
  Lowering::State& state = l.state();
  state.frame = number;
  const ptx::Function& function = *state.frames[number].function;
  const Signature sizes = signature_of(function);
  Call call{&function, nullptr, {}};
  size_t next = 0, bytes = 0;
  const std::vector<size_t> offsets = parameter_offsets(sizes, function.returns.size(), bytes);
  for (const auto* const variables : {&function.returns, &function.parameters})
    for (const ptx::Variable& variable : *variables) {
      call.parameters[variable.name] = {ptx::Space::local, offsets[next], true};
      ++next;
    }
  LoweredKernel& lowered = state.lowered;
  lowered.frames[number].bytes = bytes;
  lowered.frames[number].entry = static_cast<int>(state.ops.size());
  lowered.frames[number].first_row = lowered.rows;
  lower_function(l, call);
  lowered.frames[number].end_row = lowered.rows;
  lowered.frames[number].bytes = round_up(lowered.frames[number].bytes, 16);
  lowered.functions_by_address[function_address(state.module, function.name)] = number;
}

}  // namespace

void lower_frames(Lowering& l) {
  Lowering::State& state = l.state();
  LoweredKernel& lowered = state.lowered;
  lowered.frames.resize(state.frames.size());
  if (state.frames.size() == 1) return;
  lowered.frame_row = l.temporary();
  lowered.constants.push_back({lowered.frame_row, 0});
  MicroOp& to_kernel = state.ops.emplace_back();
  to_kernel.run = branch;
  to_kernel.ends_run = true;
  for (size_t k = 1; k < state.frames.size(); ++k) lower_frame(l, k);
  to_kernel.target = static_cast<int>(state.ops.size());
  state.frame = 0;
}

}  // namespace gpu
