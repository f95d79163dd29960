// SPDX-License-Identifier: MIT-0
// From a kernel's PTX to the operations that warps run. The functions that a kernel calls are put into it: each has one
// set of rows however often it is called, for without recursion a thread is never in it twice.
#include <algorithm>
#include <deque>
#include <set>
#include <sstream>
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

void not_predicate(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane] ^ 1; });
}

}  // namespace

struct Lowering::State {
  // A function while its code is put into the kernel's.
  struct Call {
    const ptx::Function* function;
    const Call* caller;
    std::map<std::string, Symbol> parameters;  // the formal ones, returns included: what the call site gave for them
  };
  const ptx::Module& module;
  const std::map<std::string, Module::Global>& variables;
  LoweredKernel& lowered;
  std::deque<MicroOp> ops = {};
  std::map<uint64_t, int> constants = {};
  std::map<std::string, int> specials = {};
  std::map<const ptx::Function*, int> registers = {};     // the row of a function's first register
  std::map<const ptx::Variable*, uint64_t> offsets = {};  // of what lies in shared or local memory
  int carry = -1;
  const Call* call = nullptr;                     // whose function is being lowered
  const ptx::Instruction* instruction = nullptr;  // that is being lowered
  Again again = Again::differs;                   // of its operations, unless they say otherwise

  // What a name means in a function, if it is a variable.
  const ptx::Variable* variable(const ptx::Function& function, const std::string& name) const {
    const ptx::Variable* const own = variable_named(function.variables, name);
    return own ? own : variable_named(module.variables, name);
  }
  // Gives a variable its place at the end of memory of which `size` bytes are taken, unless it has one.
  void lay_out(const ptx::Variable& variable, size_t& size) {
    const auto [known, is_new] = offsets.try_emplace(&variable, 0);
    if (!is_new) return;
    known->second = round_up(size, variable.alignment);
    size = known->second + variable.size;
  }
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
    emit(reader, *state_.instruction, row).again = Again::differs;
  } else {
    not_simulated(*state_.instruction, name);
  }
  return row;
}

int Lowering::row(const ptx::Operand& operand, ptx::Type type) {
  int row = -1;
  switch (operand.kind) {
    case ptx::Operand::reg:
      row = operand.index < 0 ? temporary() : state_.registers.at(state_.call->function) + operand.index;
      break;
    case ptx::Operand::integer: return constant(operand.value);
    case ptx::Operand::floating: {
      const auto value = std::bit_cast<double>(operand.value);
      return constant(ptx::bits(type) == 32 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : operand.value);
    }
    case ptx::Operand::symbol: return constant(symbol(operand.name).address + operand.value);
    case ptx::Operand::special: return special_register(operand.name);
    default: not_simulated(*state_.instruction, "an operand of this kind");
  }
  if (!operand.negated) return row;
  const int to = temporary();
  emit(not_predicate, *state_.instruction, to, row);
  return to;
}

MicroOp& Lowering::emit(Handler handler, const ptx::Instruction& i, int to, int a, int b, int c, int d) {
  MicroOp& op = state_.ops.emplace_back();
  op.run = handler;
  op.from = &i;
  op.to = to;
  op.a = a;
  op.b = b;
  op.c = c;
  op.d = d;
  if (i.guard >= 0) op.guard = state_.registers.at(state_.call->function) + i.guard;
  op.guard_negated = i.guard_negated;
  op.again = state_.again;
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
  if (!variable) not_simulated(*state_.instruction, "the address of " + name);
  if (variable->space == ptx::Space::shared && variable->linkage == ptx::Linkage::external)
    return {ptx::Space::shared, state_.lowered.dynamic_shared_at};
  if (variable->space == ptx::Space::shared) return {ptx::Space::shared, state_.offsets.at(variable)};
  if (variable->space == ptx::Space::local || variable->space == ptx::Space::param) {
    state_.lay_out(*variable, state_.lowered.local_bytes);
    return {ptx::Space::local, state_.offsets.at(variable)};
  }
  const auto found = state_.variables.find(name);
  if (found == state_.variables.end()) not_simulated(*state_.instruction, "the address of " + name);
  return {variable->space, found->second.address};
}

namespace {

using Call = Lowering::State::Call;

// Lays out the shared variables that a function and those it calls use. Throws NotSimulated if one launches kernels.
void lay_out_shared(Lowering::State& state, const ptx::Function& function, std::set<const ptx::Function*>& seen,
                    uint64_t& dynamic_alignment) {
  if (!seen.insert(&function).second) return;
  const std::function<void(const ptx::Operand&)> visit = [&](const ptx::Operand& operand) {
    for (const ptx::Operand& element : operand.elements) visit(element);
    if (operand.kind == ptx::Operand::special && operand.name.starts_with("%reserved_smem_offset"))
      state.lowered.reserved_shared = reserved_shared;
    if (operand.kind != ptx::Operand::symbol) return;
    if (operand.name.find(device_runtime) != operand.name.npos)
      throw NotSimulated{"kernel " + state.lowered.name + " calls " + operand.name + ", to launch another"};
    const ptx::Variable* const variable = state.variable(function, operand.name);
    const ptx::Function* const called = variable ? nullptr : function_named(state.module, operand.name);
    if (called) lay_out_shared(state, *called, seen, dynamic_alignment);
    if (!variable || variable->space != ptx::Space::shared) return;
    if (variable->linkage == ptx::Linkage::external)
      dynamic_alignment = std::max(dynamic_alignment, variable->alignment);
    else state.lay_out(*variable, state.lowered.static_shared);
  };
  for (const ptx::Instruction& i : function.code)
    for (const ptx::Operand& operand : i.operands) visit(operand);
}

void lower_function(Lowering&, Lowering::State&, const Call&);

void lower_call(Lowering& l, Lowering::State& state, const ptx::Instruction& i) {
  const auto& operands = i.operands;  // call (returns), name, (arguments): either list may be missing
  const size_t name = !operands.empty() && operands[0].kind == ptx::Operand::list ? 1 : 0;
  if (name >= operands.size() || operands[name].kind != ptx::Operand::symbol) l.not_simulated(i, "an indirect call");
  const ptx::Operand* const returns = name > 0 ? &operands[0] : nullptr;
  const ptx::Operand* const arguments = name + 1 < operands.size() ? &operands[name + 1] : nullptr;
  const std::string& callee = operands[name].name;
  const ptx::Function* const function = function_named(state.module, callee);
  if (!function || function->is_declared_only || function->code.empty()) {
    if (!lower_system_call(l, i, callee, returns, arguments))
      l.not_simulated(i, callee + " has no body in this module");
    return;
  }
  for (const Call* outer = state.call; outer; outer = outer->caller)
    if (outer->function == function) l.not_simulated(i, "recursion");
  Call call{function, state.call, {}};
  const auto pass = [&](const std::vector<ptx::Variable>& formal, const ptx::Operand* actual) {
    if (formal.size() != (actual ? actual->elements.size() : 0)) l.not_simulated(i, "a call with other parameters");
    for (size_t k = 0; k < formal.size(); ++k) {
      if (actual->elements[k].kind != ptx::Operand::symbol) l.not_simulated(i, "a parameter in a register");
      call.parameters[formal[k].name] = l.symbol(actual->elements[k].name);
    }
  };
  pass(function->returns, returns);
  pass(function->parameters, arguments);
  MicroOp* past = nullptr;  // lanes that the guard stops go around the function
  if (i.guard >= 0) {
    past = &l.emit(branch, i);
    past->guard_negated = !past->guard_negated;
    past->ends_run = true;
    past->again = Again::same;
  }
  lower_function(l, state, call);
  if (past) past->target = static_cast<int>(state.ops.size());
}

void lower_instruction(Lowering& l, Lowering::State& state, const ptx::Instruction& i) {
  for (const Opcodes* opcodes : {&arithmetic_opcodes, &memory_opcodes, &warp_opcodes}) {
    const auto found = opcodes->find(i.opcode);
    if (found == opcodes->end()) continue;
    Modifiers modifiers(i);
    state.again = opcodes == &arithmetic_opcodes ? Again::same : Again::differs;
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
  if (state.registers.try_emplace(&function, state.lowered.rows).second)
    state.lowered.rows += static_cast<int>(function.registers.size());
  const size_t first_op = state.ops.size();
  const size_t first_table = state.lowered.branch_tables.size();
  std::vector<int> starts;  // the operation with which each instruction begins
  for (const ptx::Instruction& i : function.code) {
    starts.push_back(static_cast<int>(state.ops.size()));
    state.instruction = &i;
    if (i.opcode == "call") {
      lower_call(l, state, i);
    } else if (i.opcode == "ret" && call.caller) {
      MicroOp& op = l.emit(branch, i);
      op.again = Again::same;
      op.target = pending_target(static_cast<int>(function.code.size()));
      op.ends_run = true;
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

}  // namespace

std::shared_ptr<const LoweredKernel> lower(const std::shared_ptr<const ptx::Module>& module,
                                           const ptx::Function& kernel,
                                           const std::map<std::string, Module::Global>& variables) {
  auto lowered = std::make_shared<LoweredKernel>();
  lowered->name = kernel.name;
  lowered->module = module;
  Lowering::State state{*module, variables, *lowered};
  Lowering lowering(state);
  std::set<const ptx::Function*> seen;
  uint64_t dynamic_alignment = 16;
  lay_out_shared(state, kernel, seen, dynamic_alignment);
  for (auto& [variable, offset] : state.offsets) offset += lowered->reserved_shared;
  lowered->dynamic_shared_at = lowered->reserved_shared + round_up(lowered->static_shared, dynamic_alignment);
  Call call{&kernel, nullptr, {}};
  uint64_t offset = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    offset = round_up(offset, std::max<uint64_t>(parameter.alignment, 1));
    call.parameters[parameter.name] = {ptx::Space::param, offset};
    offset += parameter.size;
  }
  lower_function(lowering, state, call);
  static const ptx::Instruction end = [] {  // of a kernel whose text does not end in ret
    ptx::Instruction i;
    i.opcode = i.text = "exit";
    return i;
  }();
  state.call = &call;
  lower_instruction(lowering, state, end);
  lowered->local_bytes = round_up(lowered->local_bytes, 16);
  lowered->ops.assign(state.ops.begin(), state.ops.end());
  lowered->may_spin = std::ranges::any_of(lowered->ops, may_be_spun_on);
  return lowered;
}

}  // namespace gpu
