// SPDX-License-Identifier: MIT-0
// From a kernel's PTX to the operations that warps run. The functions that a kernel calls are put into it: each has one
// set of rows however often it is called, as without recursion a thread is never in it twice. Functions that are called
// by their address, and one of each circle of calls, are lowered by themselves, with what they call put into them, and
// have frames (calls.cc).
#include <algorithm>
#include <cassert>
#include <deque>
#include <set>
#include <sstream>
#include <utility>
#include "../memory/page_table.h"
#include "warp.h"

namespace gpu {

using memory::round_up;

namespace {

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

// Where a branch goes is known when its whole function is lowered. Until then MicroOp::target tells the index of the
// instruction, as a number below -1. The same function makes one of the other.
int pending_target(int index) { return -2 - index; }
bool is_pending(int target) { return target <= -2; }

ptx::Instruction instruction_without_operands(std::string_view opcode) {
  ptx::Instruction i;
  i.opcode = i.text = opcode;
  return i;
}

void not_predicate(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane] ^ 1; });
}

}  // namespace

struct Lowering::State {
  // A function while its code is put into the kernel's.
  struct Call {
    const ptx::Function* function;
    const Call* caller;                        // null: the kernel, or a function with a frame
    std::map<std::string, Symbol> parameters;  // the formal ones, returns included: what the call site gave for them
  };
  // The kernel, or a function that has a frame, with all that is put into it.
  struct Frame {
    const ptx::Function* function;
    std::map<const ptx::Function*, int> registers = {};     // the row of a function's first register
    std::map<const ptx::Variable*, uint64_t> offsets = {};  // of what lies in local memory
  };
  const ptx::Module& module;
  const std::map<std::string, Module::Global>& variables;
  LoweredKernel& lowered;
  std::deque<MicroOp> ops = {};
  std::map<uint64_t, int> constants = {};
  std::map<std::string, int> specials = {};
  std::map<const ptx::Variable*, uint64_t> shared_offsets = {};
  std::vector<Frame> frames = {};  // as LoweredKernel::frames
  size_t frame = 0;                // that is being lowered
  int carry = -1;
  std::vector<const ptx::Instruction*> after_call = {};
  const Call* call = nullptr;                     // whose function is being lowered
  const ptx::Instruction* instruction = nullptr;  // that is being lowered
  Effects effects = Effects::side_effects;        // of its operations, unless they say otherwise

  // What a name means in a function, if it is a variable.
  const ptx::Variable* variable(const ptx::Function& function, const std::string& name) const {
    const ptx::Variable* const own = variable_named(function.variables, name);
    return own ? own : variable_named(module.variables, name);
  }
  // Gives a variable its place at the end of memory of which `size` bytes are taken, unless it has one.
  static void lay_out(std::map<const ptx::Variable*, uint64_t>& offsets, const ptx::Variable& variable, size_t& size) {
    const auto [known, is_new] = offsets.try_emplace(&variable, 0);
    if (!is_new) return;
    known->second = round_up(size, variable.alignment);
    size = known->second + variable.size;
  }
  int register_row(int index) const { return frames[frame].registers.at(call->function) + index; }
};

bool Modifiers::take_any(std::initializer_list<std::string_view> names) {
  bool any = false;
  for (const std::string_view name : names) any |= take(name);
  return any;
}

bool Modifiers::take(std::string_view name) {
  const auto found = std::find(left_.begin(), left_.end(), name);
  if (found == left_.end()) return false;
  left_.erase(found);
  return true;
}

ptx::Type Modifiers::type() {
  for (auto at = left_.begin(); at != left_.end(); ++at)
    if (const ptx::Type type = ptx::type_named(*at); type != ptx::Type::none) {
      left_.erase(at);
      return type;
    }
  return ptx::Type::none;
}

size_t take_one(Lowering& l, const ptx::Instruction& i, Modifiers& m, std::initializer_list<std::string_view> words) {
  size_t place = 0;
  for (const std::string_view word : words) {
    if (m.take(word)) return place;
    ++place;
  }
  l.not_simulated(i);
}

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

MicroOp& Lowering::emit(Handler handler, const ptx::Instruction& i, int to, int a, int b, int c, int d) {
  assert(std::max({to, a, b, c, d}) < state_.lowered.rows);
  MicroOp& op = state_.ops.emplace_back();
  op.run = handler;
  op.from = &i;
  op.to = to;
  op.a = a;
  op.b = b;
  op.c = c;
  op.d = d;
  if (i.guard >= 0) op.guard = state_.register_row(i.guard);
  op.guard_negated = i.guard_negated;
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

namespace {

using Call = Lowering::State::Call;

// --- What a kernel reaches -------------------------------------------------------------------------------------------

using Signature =
    std::vector<uint64_t>;  // the sizes of the results, how many they are, and the sizes of the parameters

// The parts of a call: results, what is called, arguments. The lists may be missing.
struct CallParts {
  const ptx::Operand* returns = nullptr;
  const ptx::Operand* callee = nullptr;
  const ptx::Operand* arguments = nullptr;
};
CallParts parts_of(const ptx::Instruction& call) {
  CallParts parts;
  for (const ptx::Operand& operand : call.operands) {
    const bool is_list = operand.kind == ptx::Operand::list;
    if (!parts.callee) (is_list ? parts.returns : parts.callee) = &operand;
    else if (is_list) parts.arguments = &operand;
  }
  return parts;
}
bool is_by_address(const CallParts& parts) { return parts.callee && parts.callee->kind == ptx::Operand::reg; }

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

struct Reached {
  std::set<const ptx::Function*> seen, on_the_way;
  std::set<const ptx::Function*> with_frames;
  std::set<Signature> by_address;  // of calls
  uint64_t dynamic_alignment = 16;
};

// Lays out the shared variables that a function and those it calls use, and finds which of them have frames. Throws
// NotSimulated if one launches kernels.
void visit_function(Lowering::State& state, const ptx::Function& function, Reached& reached) {
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

// All that a kernel reaches. A pointer may come from anywhere: what has an address and the parameters of a call by
// address is reached.
Reached reached_from(Lowering::State& state, const ptx::Function& kernel) {
  Reached reached;
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

// --- Functions -------------------------------------------------------------------------------------------------------

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
void lower_real_call(Lowering& l, Lowering::State& state, const ptx::Instruction& i, const CallParts& parts,
                     const ptx::Function* callee) {
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

void lower_function(Lowering&, Lowering::State&, const Call&);
void lower_instruction(Lowering&, Lowering::State&, const ptx::Instruction&);

// Local memory for a parameter that a call gives as a register or a constant. What is passed is stored now; a result is
// loaded by what is in State::after_call.
Lowering::Symbol parameter_for(Lowering& l, Lowering::State& state, const ptx::Instruction& i,
                               const ptx::Variable& formal, const ptx::Operand& given, bool is_result) {
  if (state.frame > 0 || ptx::bits(formal.type) < 8 || ptx::bytes(formal.type) != formal.size)
    l.not_simulated(i, "a register for a parameter in memory");
  size_t& bytes = state.lowered.frames[0].bytes;
  ptx::Operand address;
  address.address = true;
  address.value = round_up(bytes, 16);
  bytes = address.value + formal.size;
  static constexpr std::string_view types[] = {"b8", "b16", "b32", "b64"};
  ptx::Instruction& move = state.lowered.made.emplace_back(i);
  move.opcode = is_result ? "ld" : "st";
  move.modifiers = {"local", types[std::countr_zero(ptx::bytes(formal.type))]};
  move.operands = is_result ? std::vector{given, address} : std::vector{address, given};
  if (is_result) state.after_call.push_back(&move);
  else lower_instruction(l, state, move);
  return {ptx::Space::local, address.value};
}

// The row of a function's first register, in the frame that is being lowered.
int rows_of(Lowering::State& state, const ptx::Function& function) {
  const auto [known, is_new] = state.frames[state.frame].registers.try_emplace(&function, state.lowered.rows);
  if (is_new) state.lowered.rows += static_cast<int>(function.registers.size());
  return known->second;
}

void lower_call(Lowering& l, Lowering::State& state, const ptx::Instruction& i) {
  const CallParts parts = parts_of(i);
  if (is_by_address(parts)) return lower_real_call(l, state, i, parts, nullptr);
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
  if (std::any_of(state.frames.begin(), state.frames.end(), is_callee))
    return lower_real_call(l, state, i, parts, function);
  Call call{function, state.call, {}};
  std::vector<std::pair<const ptx::Variable*, int>> in_registers;  // with the caller's rows
  const auto pass = [&](const std::vector<ptx::Variable>& formal, const ptx::Operand* actual) {
    if (formal.size() != (actual ? actual->elements.size() : 0)) l.not_simulated(i, "a call with other parameters");
    for (size_t k = 0; k < formal.size(); ++k) {
      const ptx::Operand& given = actual->elements[k];
      if (formal[k].reg >= 0) in_registers.emplace_back(&formal[k], l.row(given, formal[k].type));
      else if (given.kind != ptx::Operand::symbol)
        call.parameters[formal[k].name] = parameter_for(l, state, i, formal[k], given, actual == parts.returns);
      else call.parameters[formal[k].name] = l.symbol(given.name);
    }
  };
  pass(function->returns, returns);
  const size_t results = in_registers.size();
  pass(function->parameters, arguments);
  const std::vector<const ptx::Instruction*> after = std::exchange(state.after_call, {});
  const int first = rows_of(state, *function);
  for (size_t k = results; k < in_registers.size(); ++k)
    l.emit(add_offset, i, first + in_registers[k].first->reg, in_registers[k].second);
  MicroOp* past = nullptr;  // lanes that the guard stops go around the function
  if (i.guard >= 0) {
    past = &l.emit(branch, i);
    past->guard_negated = !past->guard_negated;
    past->ends_run = true;
    past->effects = Effects::pure;
  }
  lower_function(l, state, call);
  if (past) past->target = static_cast<int>(state.ops.size());
  for (size_t k = 0; k < results; ++k)
    l.emit(add_offset, i, in_registers[k].second, first + in_registers[k].first->reg);
  for (const ptx::Instruction* const load : after) lower_instruction(l, state, *load);
}

void lower_instruction(Lowering& l, Lowering::State& state, const ptx::Instruction& i) {
  for (const Opcodes* opcodes : {&arithmetic_opcodes, &memory_opcodes, &warp_opcodes, &exchange_opcodes}) {
    const auto found = opcodes->find(i.opcode);
    if (found == opcodes->end()) continue;
    Modifiers modifiers(i);
    state.effects = opcodes == &arithmetic_opcodes ? Effects::pure : Effects::side_effects;
    found->second(l, i, modifiers);
    if (!modifiers.empty()) l.not_simulated(i);
    return;
  }
  l.not_simulated(i);
}

void lower_function(Lowering& l, Lowering::State& state, const Call& call) {
  const ptx::Function& function = *call.function;
  const Call* const caller = state.call;
  const ptx::Instruction* const call_site = state.instruction;
  state.call = &call;
  rows_of(state, function);
  const size_t first_op = state.ops.size();
  const size_t first_table = state.lowered.branch_tables.size();
  std::vector<int> starts;  // the operation with which each instruction begins
  for (const ptx::Instruction& i : function.code) {
    starts.push_back(static_cast<int>(state.ops.size()));
    state.instruction = &i;
    state.effects = Effects::side_effects;
    if (i.opcode == "call") {
      lower_call(l, state, i);
    } else if (i.opcode == "ret" && call.caller) {
      MicroOp& op = l.emit(branch, i);
      op.effects = Effects::pure;
      op.target = pending_target(static_cast<int>(function.code.size()));
      op.ends_run = true;
    } else if (i.opcode == "ret" && state.frame > 0) {
      l.emit(return_from_function, i).ends_run = true;
    } else {
      lower_instruction(l, state, i);
    }
  }
  starts.push_back(static_cast<int>(state.ops.size()));
  const auto resolve = [&](int& target) {
    if (is_pending(target)) target = starts.at(static_cast<size_t>(pending_target(target)));
  };
  for (size_t k = first_op; k < state.ops.size(); ++k) resolve(state.ops[k].target);
  for (size_t k = first_table; k < state.lowered.branch_tables.size(); ++k)
    for (int& target : state.lowered.branch_tables[k]) resolve(target);
  state.call = caller;
  state.instruction = call_site;
}

// A function that has a frame, by itself. It may end without ret.
void lower_frame(Lowering& l, Lowering::State& state, size_t number) {
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
  lower_function(l, state, call);
  static const ptx::Instruction end = instruction_without_operands("ret");
  state.call = &call;
  l.emit(return_from_function, end).ends_run = true;
  lowered.frames[number].end_row = lowered.rows;
  lowered.frames[number].bytes = round_up(lowered.frames[number].bytes, 16);
  lowered.functions_by_address[function_address(state.module, function.name)] = number;
}

// All functions that have frames, before the kernel: lanes that are called away come back before the others go on.
void lower_frames(Lowering& l, Lowering::State& state) {
  LoweredKernel& lowered = state.lowered;
  lowered.frames.resize(state.frames.size());
  if (state.frames.size() == 1) return;
  lowered.frame_row = l.temporary();
  lowered.constants.push_back({lowered.frame_row, 0});
  MicroOp& to_kernel = state.ops.emplace_back();
  to_kernel.run = branch;
  to_kernel.ends_run = true;
  for (size_t k = 1; k < state.frames.size(); ++k) lower_frame(l, state, k);
  to_kernel.target = static_cast<int>(state.ops.size());
  state.frame = 0;
}

}  // namespace

uint64_t function_address(const ptx::Module& module, const std::string& name) {
  const ptx::Function* const function = function_named(module, name);
  if (!function) return 0;
  return function_window + 16 * static_cast<uint64_t>(function - module.functions.data() + 1);
}

std::shared_ptr<const LoweredKernel> lower(const std::shared_ptr<const ptx::Module>& module,
                                           const ptx::Function& kernel,
                                           const std::map<std::string, Module::Global>& variables) {
  auto lowered = std::make_shared<LoweredKernel>();
  lowered->name = kernel.name;
  lowered->module = module;
  Lowering::State state{*module, variables, *lowered};
  Lowering lowering(state);
  const Reached reached = reached_from(state, kernel);
  for (auto& [variable, offset] : state.shared_offsets) offset += lowered->reserved_shared;
  lowered->dynamic_shared_at = lowered->reserved_shared + round_up(lowered->static_shared, reached.dynamic_alignment);
  state.frames.push_back({&kernel});
  for (const ptx::Function* const function : reached.with_frames) state.frames.push_back({function});
  lower_frames(lowering, state);
  Call call{&kernel, nullptr, {}};
  uint64_t offset = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    offset = round_up(offset, std::max<uint64_t>(parameter.alignment, 1));
    call.parameters[parameter.name] = {ptx::Space::param, offset};
    offset += parameter.size;
  }
  lower_function(lowering, state, call);
  static const ptx::Instruction end = instruction_without_operands("exit");  // the text may end without ret
  state.call = &call;
  lower_instruction(lowering, state, end);
  lowered->local_bytes = lowered->frames[0].bytes = round_up(lowered->frames[0].bytes, 16);
  lowered->ops.assign(state.ops.begin(), state.ops.end());
  allocate_registers(*lowered);
  int16_t straight = 0;
  for (auto op = lowered->ops.rbegin(); op != lowered->ops.rend(); ++op) {
    const bool goes_on = op->guard < 0 && !op->ends_run && op->cost == 1;
    op->straight = straight = goes_on ? std::min<int16_t>(straight + 1, 256) : 0;
  }
  lowered->may_spin = std::ranges::any_of(lowered->ops, may_be_spun_on);
  return lowered;
}

}  // namespace gpu
