// SPDX-License-Identifier: MIT-0
// A kernel as the warps run it: a list of operations whose operands are rows of the register file. A row holds one
// register of all 32 lanes. Constants and special registers are rows too, filled in when the warp begins, so that every
// operand is read in the same way. Calls are gone: what a kernel calls has been put in its place.
#pragma once
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>
#include "gpu.h"

namespace gpu {

using Lanes = uint32_t;  // a set of a warp's lanes, lane 0 in the lowest bit
constexpr Lanes all_lanes = ~Lanes(0);
constexpr size_t reserved_shared = 1024;  // bytes of a block's shared memory that the system has for itself

struct Row {
  uint64_t lane[32];  // a predicate is 0 or 1; a smaller type lies in the low bits, and the bits above it mean nothing
};

// Calls `work` with the number of each lane of a set. The rows that `work` reads and writes at one lane are the same
// row or do not overlap, so the whole warp may be done in vectors.
template <class Work>
inline void for_each_lane(Lanes lanes, Work work) {
  if (lanes == all_lanes) {
#ifdef __clang__
#pragma clang loop vectorize(assume_safety)
#else
#pragma GCC ivdep
#endif
    for (unsigned lane = 0; lane < 32; ++lane) work(lane);
  } else {
    for (; lanes; lanes &= lanes - 1) work(static_cast<unsigned>(std::countr_zero(lanes)));
  }
}

struct Warp;
struct Op;
using Handler = void (*)(Warp&, const Op&, Lanes active);  // `active`: at this operation and let through by the guard

struct Op {
  Handler run = nullptr;
  int guard = -1;  // row, or -1
  bool guard_negated = false;
  ptx::Type type = ptx::Type::none, from_type = ptx::Type::none;
  ptx::Space space = ptx::Space::generic;
  uint8_t count = 1;                       // elements of a vector access
  int to = -1, to2 = -1;                   // rows written; -1: none
  int a = -1, b = -1, c = -1, d = -1;      // rows read
  std::array<int, 8> rows = {};            // of a vector access, `count` of them
  int64_t offset = 0;                      // of an address
  uint64_t immediate = 0;                  // meaning is the handler's
  int target = -1;                         // operation that a branch goes to
  bool ends_run = false;                   // may change who is where: sets Warp::next or scatters the lanes
  int cost = 1;                            // of its time slice; more for what one spins on
  const ptx::Instruction* from = nullptr;  // for messages
};

struct Program {
  std::string kernel;
  std::shared_ptr<const ptx::Module> text;  // keeps what Op::from points to
  std::vector<Op> ops;
  int rows = 0;  // of the register file
  struct Constant {
    int row;
    uint64_t value;
  };
  std::vector<Constant> constants;
  using SpecialValue = uint64_t (*)(const Warp&, unsigned lane);
  struct Special {
    int row;
    SpecialValue value;
  };  // "%tid.x" and others that do not change while the warp lives
  std::vector<Special> specials;
  std::vector<std::vector<int>> branch_tables;  // brx.idx
  size_t static_shared = 0, local_bytes = 0;    // local: of one thread, call parameters included
  size_t dynamic_shared_at = 0;                 // where in a block's shared memory the launch's own part begins
  size_t reserved_shared = 0;                   // the system's, before static_shared, if the kernel asks for it
};

// While a kernel is lowered: what the rooms of the instruction set need from one another.
class Lowering {
 public:
  // The row of a register, literal, special register or symbol's address; of the sink "_" a row that nobody reads. A
  // floating literal becomes bits of `type`; a negated predicate is negated by an operation. So rows first, emit then.
  int row(const ptx::Operand&, ptx::Type type = ptx::Type::none);
  int constant(uint64_t value);
  int temporary();  // a row of its own
  int carry();      // the row of the carry flag
  // With the guard of the instruction and these rows. The reference stays good.
  Op& emit(Handler, const ptx::Instruction&, int to = -1, int a = -1, int b = -1, int c = -1, int d = -1);
  int target(const ptx::Operand& label);  // what to set Op::target to
  int table(const ptx::Operand&);         // the index in Program::branch_tables of brx.idx's operand
  // Where a symbol is: the space and the address (offset within shared memory, local memory or the parameters).
  struct Place {
    ptx::Space space;
    uint64_t address;
  };
  Place place(const std::string& symbol);
  [[noreturn]] void unknown(const ptx::Instruction&, const std::string& what = "");  // throws Unknown
  struct State;
  explicit Lowering(State& state) : state_(state) {}

 private:
  State& state_;
};

// The modifiers of an instruction, each taken by the one that understands it. What nobody takes is not simulated.
class Modifiers {
 public:
  explicit Modifiers(const ptx::Instruction& i) : left_(i.modifiers) {}
  bool take(std::string_view name);  // true if it is there
  ptx::Type type();                  // takes the first type that is left; none: there is none
  bool empty() const { return left_.empty(); }
  std::string_view front() const { return left_.empty() ? std::string_view() : left_.front(); }

 private:
  std::vector<std::string_view> left_;
};

// The line of the source, "02_growable/growable.cu:12", of what was inlined also where; "" if the PTX does not tell it.
std::string source_of(const ptx::Instruction&);

// An instruction that is not simulated: its text, line and kernel.
struct Unknown {
  std::string text;
};

// Each adds the operations of an instruction, or returns false if the opcode is not its own.
bool lower_arithmetic(Lowering&, const ptx::Instruction&);  // arithmetic.cc: add ... cvt, mov, selp, setp
bool lower_warp(Lowering&, const ptx::Instruction&);        // warp.cc: bar, shfl, vote, match, redux, bra, exit, ...
bool lower_access(Lowering&, const ptx::Instruction&);      // access.cc: ld, st, atom, red, fence, multimem, cvta, ...
// functions.cc: a call of a function without a body (vprintf, malloc, __assertfail ...). Its arguments and its result
// are the .param variables in the lists of the instruction: their place() is in local memory.
bool lower_call(Lowering&, const ptx::Instruction&, const std::string& function);
// warp.cc: what fills in the row of a special register, or null; the operation that reads one that changes while the
// warp lives, or null; and branches: the active lanes go to Op::target.
Program::SpecialValue special_value(const std::string& name);
Handler special_reader(const std::string& name);
void branch(Warp&, const Op&, Lanes active);

// Lowers a kernel. Throws Unknown.
std::shared_ptr<const Program> lower(const std::shared_ptr<const ptx::Module>&, const ptx::Function& kernel,
                                     const std::map<std::string, Module::Address>& variables);

}  // namespace gpu
