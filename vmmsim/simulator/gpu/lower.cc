// SPDX-License-Identifier: MIT-0
// From a kernel's PTX to the operations that warps run. The functions that a kernel calls are put into it: each has one
// set of rows however often it is called, as without recursion a thread is never in it twice. Functions that are called
// by their address, and one of each circle of calls, are lowered by themselves, with what they call put into them, and
// have frames (calls.cc).
#include "lower.h"

#include <algorithm>
#include <utility>
#include "lowering.h"
#include "warp.h"

namespace gpu {

using memory::round_up;

void lower_instruction(Lowering& l, const ptx::Decoded& i) {
  using ptx::Word;
  if (i.form && i.form->has_any_modifiers)
    l.not_simulated(i, i.has(Word::tensor) ? "tensor maps are not simulated" : "");
  for (const Word unknown : {Word::cp_mask, Word::mmio, Word::multicast_cluster, Word::oob, Word::satfinite,
                             Word::sync_restrict_shared_cluster, Word::sync_restrict_shared_cta, Word::xorsign})
    if (i.has(unknown)) l.not_simulated(i);
  for (const Opcodes* opcodes :
       {&arithmetic_opcodes, &video_opcodes, &memory_opcodes, &warp_opcodes, &exchange_opcodes}) {
    const auto found = opcodes->find(i.opcode);
    if (found == opcodes->end()) continue;
    const bool is_pure = opcodes == &arithmetic_opcodes || opcodes == &video_opcodes;
    l.state().effects = is_pure ? Effects::pure : Effects::side_effects;
    return found->second(l, i);
  }
  l.not_simulated(i);
}

namespace {

using Call = Lowering::State::Call;

// The end of a text without one.
const ptx::Decoded& final_return() {
  static const ptx::Instruction written = {.opcode = "ret", .modifiers = {}, .operands = {}, .text = "ret"};
  static const ptx::Decoded decoded = {.written = &written, .opcode = ptx::Opcode::ret};
  return decoded;
}

// What PTX that was loaded without a check has and ptxas does not take is not simulated either.
ptx::Decoded decode(Lowering& l, ptx::Decoder& decoder, const ptx::Instruction& i) {
  try {
    return decoder.decode(i);
  } catch (const ptx::Error&) {
    l.not_simulated(i);
  }
}

void lower_return(Lowering& l, const Call& call, const ptx::Decoded& i) {
  if (call.caller) {  // to what follows the function in its caller
    MicroOp& op = l.emit(branch, i);
    op.effects = Effects::pure;
    op.target = pending_target(static_cast<int>(call.function->code.size()));
    op.ends_run = true;
  } else if (l.state().frame > 0) {
    l.emit(return_from_function, i).ends_run = true;
  } else {
    lower_instruction(l, i);
  }
}

// Sets where the branches go that were lowered since there were so many operations and tables.
void resolve_targets(Lowering::State& state, size_t first_op, size_t first_table, const std::vector<int>& starts) {
  const auto resolve = [&](int& target) {
    if (is_pending(target)) target = starts.at(static_cast<size_t>(pending_target(target)));
  };
  for (size_t k = first_op; k < state.ops.size(); ++k) resolve(state.ops[k].target);
  for (size_t k = first_table; k < state.lowered.branch_tables.size(); ++k)
    for (int& target : state.lowered.branch_tables[k]) resolve(target);
}

}  // namespace

void lower_function(Lowering& l, const Call& call) {
  Lowering::State& state = l.state();
  const Call* const caller = std::exchange(state.call, &call);
  const ptx::Decoded* const call_site = state.instruction;
  ptx::Decoder decoder(*call.function);
  state.rows_of(*call.function);
  const size_t first_op = state.ops.size();
  const size_t first_table = state.lowered.branch_tables.size();
  std::vector<int> starts;  // the operation with which each instruction begins
  for (const ptx::Instruction& written : call.function->code) {
    starts.push_back(static_cast<int>(state.ops.size()));
    const ptx::Decoded i = decode(l, decoder, written);
    state.instruction = &i;
    state.effects = Effects::side_effects;
    if (i.opcode == ptx::Opcode::call) lower_call(l, i);
    else if (i.opcode == ptx::Opcode::ret) lower_return(l, call, i);
    else lower_instruction(l, i);
  }
  starts.push_back(static_cast<int>(state.ops.size()));
  if (!call.caller) lower_return(l, call, final_return());
  resolve_targets(state, first_op, first_table, starts);
  state.call = caller;
  state.instruction = call_site;
}

uint64_t function_address(const ptx::Module& module, const std::string& name) {
  const ptx::Function* const function = function_named(module, name);
  if (!function) return 0;
  return function_window + 16 * static_cast<uint64_t>(function - module.functions.data() + 1);
}

namespace {

// Shared memory: the system's part, the kernel's variables, and what the launch gives.
void lay_out_shared(Lowering::State& state, const Reached& reached) {
  LoweredKernel& lowered = state.lowered;
  for (auto& [variable, offset] : state.shared_offsets) offset += lowered.reserved_shared;
  lowered.dynamic_shared_at = lowered.reserved_shared + round_up(lowered.static_shared, reached.dynamic_alignment);
}

void lower_kernel(Lowering& l, const ptx::Function& kernel) {
  Call call{&kernel, nullptr, {}};
  uint64_t offset = 0;
  for (const ptx::Variable& parameter : kernel.parameters) {
    offset = round_up(offset, std::max<uint64_t>(parameter.alignment, 1));
    call.parameters[parameter.name] = {ptx::Space::param, offset};
    offset += parameter.size;
  }
  lower_function(l, call);
  LoweredKernel& lowered = l.state().lowered;
  lowered.local_bytes = lowered.frames[0].bytes = round_up(lowered.frames[0].bytes, 16);
}

// MicroOp::straight of each.
void measure_straight_runs(std::vector<MicroOp>& ops) {
  int16_t straight = 0;
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    const bool goes_on = op->guard < 0 && !op->ends_run && op->cost == 1;
    op->straight = straight = goes_on ? std::min<int16_t>(straight + 1, 256) : 0;
  }
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
  const Reached reached = reached_from(state, kernel);
  lay_out_shared(state, reached);
  state.frames.push_back({&kernel});
  for (const ptx::Function* const function : reached.with_frames) state.frames.push_back({function});
  lower_frames(lowering);
  lower_kernel(lowering, kernel);
  lowered->ops.assign(state.ops.begin(), state.ops.end());
  allocate_registers(*lowered);
  measure_straight_runs(lowered->ops);
  lowered->may_spin = std::ranges::any_of(lowered->ops, may_be_spun_on);
  return lowered;
}

}  // namespace gpu
