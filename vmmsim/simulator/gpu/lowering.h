// SPDX-License-Identifier: MIT-0
// What the files that lower a kernel share: what is known of it so far, and their parts of the work. reached.cc finds
// what the kernel reaches, operands.cc makes rows of operands, lower_calls.cc lowers calls, and lower.cc all of it.
#pragma once
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>
#include "../memory/page_table.h"
#include "lower.h"

namespace gpu {

const ptx::Variable* variable_named(const std::vector<ptx::Variable>&, const std::string& name);
const ptx::Function* function_named(const ptx::Module&, const std::string& name);

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
  // What is loaded into a register when a call has come back.
  struct Result {
    const ptx::Operand* to;
    ptx::Type type;
    uint64_t address;
  };
  std::vector<Result> after_call = {};
  const Call* call = nullptr;                 // whose function is being lowered
  const ptx::Decoded* instruction = nullptr;  // that is being lowered
  Effects effects = Effects::side_effects;    // of its operations, unless they say otherwise

  // What a name means in a function, if it is a variable.
  const ptx::Variable* variable(const ptx::Function& function, const std::string& name) const {
    const ptx::Variable* const own = variable_named(function.variables, name);
    return own ? own : variable_named(module.variables, name);
  }
  // Gives a variable its place at the end of memory of which `size` bytes are taken, unless it has one.
  static void lay_out(std::map<const ptx::Variable*, uint64_t>& offsets, const ptx::Variable& variable, size_t& size) {
    const auto [known, is_new] = offsets.try_emplace(&variable, 0);
    if (!is_new) return;
    known->second = memory::round_up(size, variable.alignment);
    size = known->second + variable.size;
  }
  // The row of a function's first register, in the frame that is being lowered.
  int rows_of(const ptx::Function& function) {
    const auto [known, is_new] = frames[frame].registers.try_emplace(&function, lowered.rows);
    if (is_new) lowered.rows += static_cast<int>(function.registers.size());
    return known->second;
  }
  int register_row(int index) const { return frames[frame].registers.at(call->function) + index; }
};

// Where a branch goes is known when its whole function is lowered. Until then MicroOp::target tells the index of the
// instruction, as a number below -1. The same function makes one of the other.
inline int pending_target(int index) { return -2 - index; }
inline bool is_pending(int target) { return target <= -2; }

// The sizes of the results, how many they are, and the sizes of the parameters.
using Signature = std::vector<uint64_t>;
Signature signature_of(const ptx::Function&);

// The parts of a call: results, what is called, arguments. The lists may be missing.
struct CallParts {
  const ptx::Operand* returns = nullptr;
  const ptx::Operand* callee = nullptr;
  const ptx::Operand* arguments = nullptr;
};
CallParts parts_of(const ptx::Instruction& call);
inline bool is_by_address(const CallParts& parts) { return parts.callee && parts.callee->kind == ptx::Operand::reg; }
// Of a call in a function.
Signature signature_of(const Lowering::State&, const ptx::Function&, const CallParts&);

// All that a kernel reaches, itself included.
struct Reached {
  std::set<const ptx::Function*> with_frames;  // called by their address, or in a circle
  uint64_t dynamic_alignment = 16;             // of the shared memory whose size the launch gives
};
// Lays out the shared variables, too. Throws NotSimulated if something launches kernels.
Reached reached_from(Lowering::State&, const ptx::Function& kernel);

void lower_call(Lowering&, const ptx::Decoded&);
void lower_instruction(Lowering&, const ptx::Decoded&);
// A function in the place of a call, the kernel, or a function with a frame.
void lower_function(Lowering&, const Lowering::State::Call&);
// All functions that have frames, before the kernel: lanes that are called away come back before the others go on.
void lower_frames(Lowering&);

}  // namespace gpu
