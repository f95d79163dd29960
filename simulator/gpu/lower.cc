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

struct Lowering::State {
  // A function while its code is put into the kernel's.
  struct Frame {
    const ptx::Function* function;
    const Frame* caller;
    std::map<std::string, Place> parameters;  // the formal ones, returns included: what the call site gave for them
  };
  const ptx::Module& module;
  const std::map<std::string, Module::Address>& variables;
  Program& program;
  std::deque<Op> ops = {};
  std::map<uint64_t, int> constants = {};
  std::map<std::string, int> specials = {};
  std::map<const ptx::Function*, int> registers = {};     // the row of a function's first register
  std::map<const ptx::Variable*, uint64_t> offsets = {};  // of what lies in shared or local memory
  int carry = -1;
  const Frame* frame = nullptr;
  const ptx::Instruction* instruction = nullptr;  // that is being lowered
};

namespace {

const ptx::Function* function_named(const ptx::Module& module, const std::string& name) {
  const ptx::Function* found = nullptr;
  for (const ptx::Function& function : module.functions)
    if (function.name == name && (!found || found->is_declared_only)) found = &function;
  return found;
}

const ptx::Variable* variable_named(const std::vector<ptx::Variable>& variables, const std::string& name) {
  const auto found = std::find_if(variables.begin(), variables.end(), [&](auto& v) { return v.name == name; });
  return found == variables.end() ? nullptr : &*found;
}

void not_predicate(Warp& w, const Op& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane] ^ 1; });
}

}  // namespace

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

void Lowering::unknown(const ptx::Instruction& i, const std::string& what) {
  const std::string source = source_of(i);
  std::istringstream words{std::string(i.text)};  // a call has several lines
  std::string text;
  for (std::string word; words >> word;) text += (text.empty() ? "" : " ") + word;
  throw Unknown{"line " + std::to_string(i.line) + " of the PTX of kernel " + state_.program.kernel +
                (source.empty() ? "" : " (" + source + ")") + ": " + text + (what.empty() ? "" : ": " + what)};
}

int Lowering::temporary() { return state_.program.rows++; }

int Lowering::carry() {
  if (state_.carry < 0) state_.carry = temporary();
  return state_.carry;
}

int Lowering::constant(uint64_t value) {
  const auto [at, is_new] = state_.constants.try_emplace(value, 0);
  if (is_new) state_.program.constants.push_back({at->second = temporary(), value});
  return at->second;
}

int Lowering::row(const ptx::Operand& operand, ptx::Type type) {
  int row = -1;
  switch (operand.kind) {
    case ptx::Operand::reg:
      row = operand.index < 0 ? temporary() : state_.registers.at(state_.frame->function) + operand.index;
      break;
    case ptx::Operand::integer: return constant(operand.value);
    case ptx::Operand::floating: {
      const auto value = std::bit_cast<double>(operand.value);
      return constant(ptx::bits(type) == 32 ? std::bit_cast<uint32_t>(static_cast<float>(value)) : operand.value);
    }
    case ptx::Operand::symbol: return constant(place(operand.name).address + operand.value);
    case ptx::Operand::special: {
      if (const auto known = state_.specials.find(operand.name); known != state_.specials.end()) return known->second;
      const Program::SpecialValue value = special_value(operand.name);
      if (value) {
        state_.program.specials.push_back({temporary(), value});
        return state_.specials[operand.name] = state_.program.specials.back().row;
      }
      const Handler reader = special_reader(operand.name);
      if (!reader) unknown(*state_.instruction, operand.name);
      const int to = temporary();
      emit(reader, *state_.instruction, to);
      return to;
    }
    default: unknown(*state_.instruction, "an operand of this kind");
  }
  if (!operand.negated) return row;
  const int to = temporary();
  emit(not_predicate, *state_.instruction, to, row);
  return to;
}

Op& Lowering::emit(Handler handler, const ptx::Instruction& i, int to, int a, int b, int c, int d) {
  Op op;
  op.run = handler, op.from = &i, op.to = to, op.a = a, op.b = b, op.c = c, op.d = d;
  if (i.guard >= 0) op.guard = state_.registers.at(state_.frame->function) + i.guard;
  op.guard_negated = i.guard_negated;
  return state_.ops.emplace_back(op);
}

// Where a branch goes is known when the whole function is there. Until then a target is -2 less the index of the
// instruction.
int Lowering::target(const ptx::Operand& label) {
  if (label.kind != ptx::Operand::label) unknown(*state_.instruction, "a branch to something that is no label");
  return -2 - label.index;
}

int Lowering::table(const ptx::Operand& operand) {
  const auto& tables = state_.frame->function->branch_targets;
  if (operand.kind != ptx::Operand::symbol || operand.value >= tables.size()) unknown(*state_.instruction);
  std::vector<int>& table = state_.program.branch_tables.emplace_back();
  for (const int index : tables[operand.value]) table.push_back(-2 - index);
  return static_cast<int>(state_.program.branch_tables.size()) - 1;
}

Lowering::Place Lowering::place(const std::string& symbol) {
  if (const auto formal = state_.frame->parameters.find(symbol); formal != state_.frame->parameters.end())
    return formal->second;
  const ptx::Variable* variable = variable_named(state_.frame->function->variables, symbol);
  if (!variable) variable = variable_named(state_.module.variables, symbol);
  if (!variable) unknown(*state_.instruction, "the address of " + symbol);
  if (variable->space == ptx::Space::shared && variable->linkage == ptx::Linkage::external)
    return {ptx::Space::shared, state_.program.dynamic_shared_at};
  if (variable->space == ptx::Space::shared) return {ptx::Space::shared, state_.offsets.at(variable)};
  if (variable->space == ptx::Space::local || variable->space == ptx::Space::param) {
    const auto [at, is_new] = state_.offsets.try_emplace(variable, 0);
    if (is_new) {
      at->second = round_up(state_.program.local_bytes, std::max<uint64_t>(variable->alignment, 1));
      state_.program.local_bytes = at->second + variable->size;
    }
    return {ptx::Space::local, at->second};
  }
  const auto found = state_.variables.find(symbol);
  if (found == state_.variables.end()) unknown(*state_.instruction, "the address of " + symbol);
  return {variable->space, found->second.address};
}

namespace {

using Frame = Lowering::State::Frame;

// Lays out the shared variables that a function and those it calls use.
void lay_out_shared(Lowering::State& state, const ptx::Function& function, std::set<const ptx::Function*>& seen,
                    uint64_t& dynamic_alignment) {
  if (!seen.insert(&function).second) return;
  const std::function<void(const ptx::Operand&)> visit = [&](const ptx::Operand& operand) {
    for (const ptx::Operand& element : operand.elements) visit(element);
    if (operand.kind == ptx::Operand::special && operand.name.starts_with("%reserved_smem_offset"))
      state.program.reserved_shared = reserved_shared;
    if (operand.kind != ptx::Operand::symbol) return;
    const ptx::Variable* variable = variable_named(function.variables, operand.name);
    if (!variable) variable = variable_named(state.module.variables, operand.name);
    if (variable && variable->space == ptx::Space::shared) {
      const uint64_t alignment = std::max<uint64_t>(variable->alignment, 1);
      if (variable->linkage == ptx::Linkage::external) dynamic_alignment = std::max(dynamic_alignment, alignment);
      else if (const auto [at, is_new] = state.offsets.try_emplace(variable, 0); is_new) {
        at->second = round_up(state.program.static_shared, alignment);
        state.program.static_shared = at->second + variable->size;
      }
    } else if (const ptx::Function* called = function_named(state.module, operand.name); !variable && called) {
      lay_out_shared(state, *called, seen, dynamic_alignment);
    }
  };
  for (const ptx::Instruction& i : function.code)
    for (const ptx::Operand& operand : i.operands) visit(operand);
}

void lower_function(Lowering&, Lowering::State&, const Frame&);

void lower_call_site(Lowering& l, Lowering::State& state, const ptx::Instruction& i) {
  const auto name = std::find_if(i.operands.begin(), i.operands.end(),
                                 [](auto& operand) { return operand.kind != ptx::Operand::list; });
  if (name == i.operands.end() || name->kind != ptx::Operand::symbol) l.unknown(i, "an indirect call");
  const ptx::Function* function = function_named(state.module, name->name);
  if (!function || function->is_declared_only || function->code.empty()) {
    if (!lower_call(l, i, name->name)) l.unknown(i, name->name + " has no body in this module");
    return;
  }
  for (const Frame* frame = state.frame; frame; frame = frame->caller)
    if (frame->function == function) l.unknown(i, "recursion");
  Frame frame{function, state.frame, {}};
  const auto pass = [&](const std::vector<ptx::Variable>& formal, const ptx::Operand* actual) {
    if (formal.size() != (actual ? actual->elements.size() : 0)) l.unknown(i, "a call with other parameters");
    for (size_t k = 0; k < formal.size(); ++k) {
      if (actual->elements[k].kind != ptx::Operand::symbol) l.unknown(i, "a parameter in a register");
      frame.parameters[formal[k].name] = l.place(actual->elements[k].name);
    }
  };
  pass(function->returns, name == i.operands.begin() ? nullptr : &i.operands.front());
  pass(function->parameters, name + 1 == i.operands.end() ? nullptr : &name[1]);
  Op* past = nullptr;  // lanes that the guard stops go around the function
  if (i.guard >= 0) {
    past = &l.emit(branch, i);
    past->guard_negated = !past->guard_negated;
    past->ends_run = true;
  }
  lower_function(l, state, frame);
  if (past) past->target = static_cast<int>(state.ops.size());
}

void lower_function(Lowering& l, Lowering::State& state, const Frame& frame) {
  const ptx::Function& function = *frame.function;
  const Frame* const caller = state.frame;
  const ptx::Instruction* const call = state.instruction;
  state.frame = &frame;
  if (state.registers.try_emplace(&function, state.program.rows).second)
    state.program.rows += static_cast<int>(function.registers.size());
  const size_t first_op = state.ops.size(), first_table = state.program.branch_tables.size();
  std::vector<int> starts;  // the operation with which each instruction begins
  for (const ptx::Instruction& i : function.code) {
    starts.push_back(static_cast<int>(state.ops.size()));
    state.instruction = &i;
    if (i.opcode == "call") {
      lower_call_site(l, state, i);
    } else if (i.opcode == "ret" && frame.caller) {
      Op& op = l.emit(branch, i);
      op.target = -2 - static_cast<int>(function.code.size());
      op.ends_run = true;
    } else if (!lower_arithmetic(l, i) && !lower_access(l, i) && !lower_warp(l, i)) {
      l.unknown(i);
    }
  }
  starts.push_back(static_cast<int>(state.ops.size()));
  const auto resolve = [&](int& target) {
    if (target <= -2) target = starts.at(static_cast<size_t>(-2 - target));
  };
  for (size_t k = first_op; k < state.ops.size(); ++k) resolve(state.ops[k].target);
  for (size_t k = first_table; k < state.program.branch_tables.size(); ++k)
    for (int& target : state.program.branch_tables[k]) resolve(target);
  state.frame = caller;
  state.instruction = call;
}

}  // namespace

std::shared_ptr<const Program> lower(const std::shared_ptr<const ptx::Module>& module, const ptx::Function& kernel,
                                     const std::map<std::string, Module::Address>& variables) {
  auto program = std::make_shared<Program>();
  program->kernel = kernel.name;
  program->text = module;
  Lowering::State state{*module, variables, *program};
  Lowering lowering(state);
  std::set<const ptx::Function*> seen;
  uint64_t dynamic_alignment = 16;
  lay_out_shared(state, kernel, seen, dynamic_alignment);
  for (auto& [variable, offset] : state.offsets) offset += program->reserved_shared;
  program->dynamic_shared_at = program->reserved_shared + round_up(program->static_shared, dynamic_alignment);
  Frame frame{&kernel, nullptr, {}};
  uint64_t offset = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    offset = round_up(offset, std::max<uint64_t>(parameter.alignment, 1));
    frame.parameters[parameter.name] = {ptx::Space::param, offset};
    offset += parameter.size;
  }
  lower_function(lowering, state, frame);
  static const ptx::Instruction end = [] {  // of a kernel whose text does not end in ret
    ptx::Instruction i;
    i.opcode = i.text = "exit";
    return i;
  }();
  state.frame = &frame;
  lower_warp(lowering, end);
  program->local_bytes = round_up(program->local_bytes, 16);
  program->ops.assign(state.ops.begin(), state.ops.end());
  return program;
}

}  // namespace gpu
