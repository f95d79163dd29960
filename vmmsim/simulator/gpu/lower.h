// SPDX-License-Identifier: MIT-0
// A kernel as the warps run it: a list of micro-operations, one or more for an instruction of PTX, whose operands are
// rows of the register file. A row holds one register of all 32 lanes. Constants and special registers
// are rows too, filled in when the warp begins, so that every operand is read in the same way. What a kernel
// calls has been put in its place, but for functions that are called by their address or that call themselves.
#pragma once
#include <array>
#include <bit>
#include <cassert>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>
#include "../ptx/decode.h"
#include "gpu.h"

namespace gpu {

using Lanes = uint32_t;  // a set of a warp's lanes, lane 0 in the lowest bit
constexpr Lanes all_lanes = ~Lanes(0);
inline Lanes bit(unsigned lane) { return Lanes(1) << lane; }
inline unsigned first_of(Lanes lanes) {
  assert(lanes);
  return static_cast<unsigned>(std::countr_zero(lanes));
}
inline unsigned number_of(Lanes lanes) { return static_cast<unsigned>(std::popcount(lanes)); }

// The numbers of the lanes of a set: for (const unsigned lane : each(lanes)).
struct EachLane {
  Lanes left;
  EachLane begin() const { return *this; }
  EachLane end() const { return {0}; }
  unsigned operator*() const { return first_of(left); }
  void operator++() { left &= left - 1; }
  bool operator==(const EachLane&) const = default;
};
inline EachLane each(Lanes lanes) { return {lanes}; }

constexpr size_t reserved_shared = 1024;  // bytes of a block's shared memory that the system has for itself

struct VectorRegister {
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
    for (const unsigned lane : each(lanes)) work(lane);
  }
}

// Gives each lane of a set value(lane). The value of any lane may be asked for: when many take part, the whole warp is
// done in vectors, and those that do not take part keep what they have.
template <class Value>
inline void set_lanes(uint64_t* to, Lanes lanes, Value value) {
  constexpr unsigned few = 8;
  if (lanes == all_lanes) {
    for_each_lane(lanes, [&](unsigned lane) { to[lane] = value(lane); });
  } else if (number_of(lanes) <= few) {
    for (const unsigned lane : each(lanes)) to[lane] = value(lane);
  } else {
    for_each_lane(all_lanes, [&](unsigned lane) {
      const uint64_t kept = uint64_t(lanes >> lane & 1) - 1;
      to[lane] = (to[lane] & kept) | (value(lane) & ~kept);
    });
  }
}

struct Warp;
struct MicroOp;
using Handler = void (*)(Warp&, const MicroOp&,
                         Lanes active);  // `active`: lanes that are here and that the guard lets by

// A handler, or another function, compiled with all that it calls for several kinds of processors: the one for this. A
// build that is to be made soon, or to find mistakes, has one for all.
#if defined __x86_64__ && defined __OPTIMIZE__ && !defined __SANITIZE_ADDRESS__
template <auto function, class Result, class... Arguments>
[[gnu::target("arch=x86-64-v3"), gnu::flatten]] Result with_avx2(Arguments... arguments) {
  return function(arguments...);
}
template <auto function, class Result, class... Arguments>
[[gnu::target("arch=x86-64-v4"), gnu::flatten]] Result with_avx512(Arguments... arguments) {
  return function(arguments...);
}
template <auto function, class Result, class... Arguments>
auto fastest_of(Result (*)(Arguments...)) {
  const auto has = [](auto... features) { return (... && features); };
  if (has(__builtin_cpu_supports("avx512f"), __builtin_cpu_supports("avx512bw"), __builtin_cpu_supports("avx512cd"),
          __builtin_cpu_supports("avx512dq"), __builtin_cpu_supports("avx512vl")))
    return with_avx512<function, Result, Arguments...>;
  if (has(__builtin_cpu_supports("avx2"), __builtin_cpu_supports("fma"), __builtin_cpu_supports("bmi2")))
    return with_avx2<function, Result, Arguments...>;
  return function;
}
template <auto function> auto fastest() { return fastest_of<function>(function); }
#else
template <auto function> auto fastest() { return function; }
#endif

// What atom, red, redux and multimem combine with: the new value in the low bits, from the old one, b and c.
using Combine = uint64_t (*)(uint64_t old, uint64_t b, uint64_t c);

// What an operation does when it is done again with the same operands: the same to registers and nothing else; the same
// if it finds the same in memory; or something else.
enum class Effects : uint8_t { pure, reads, side_effects };

// How a floating-point operation rounds, and what it does to what is small, large or below 0.
struct FloatMode {
  enum Rounding : uint8_t { nearest, to_zero, down, up } rounding = nearest;
  bool flushes = false;      // .ftz: subnormal operands and results become zeros of the same sign
  bool saturates = false;    // .sat: to 0 ... 1, a NaN to 0
  bool rectifies = false;    // .relu: what is below 0 becomes 0
  bool to_integral = false;  // .rni and the like: rounds to an integral value
  bool operator==(const FloatMode&) const = default;
};

// How a load uses the first-level cache; last_use: through it, and the line goes.
enum class CacheUse : uint8_t { through, around, last_use };

// bar.sync, bar.arrive and what bar.red reduces with.
enum class BarrierKind : uint8_t { sync, arrive, popc, all, any };

struct MicroOp {
  Handler run = nullptr;
  int guard = -1;        // row, or -1
  int16_t cost = 1;      // of its time slice; more for what one spins on
  int16_t straight = 0;  // operations from this one on, 256 at most, that the running lanes all do in turn
  bool guard_negated = false;
  bool ends_run = false;  // may change who is where: sets Warp::next, or the lanes diverge
  Effects effects = Effects::side_effects;
  uint8_t count = 1;                      // elements of a vector access
  int to = -1, to2 = -1;                  // rows written; -1: none
  int a = -1, b = -1, c = -1, d = -1;     // rows read
  int target = -1;                        // operation that a branch goes to
  int branch_table = -1, call_site = -1;  // in LoweredKernel
  int64_t offset = 0;                     // added to row a, mostly an address
  ptx::Type type = ptx::Type::none, from_type = ptx::Type::none;
  ptx::Space space = ptx::Space::generic;
  FloatMode mode = {};
  CacheUse cache_use = CacheUse::through;
  BarrierKind barrier = BarrierKind::sync;
  std::array<int, 8> rows = {};  // of a vector access, `count` of them
  Combine combine = nullptr;
  const ptx::Instruction* from = nullptr;  // for messages
};

static_assert(sizeof(MicroOp) <= 128);  // two lines of a cache

inline bool may_be_spun_on(const MicroOp& op) { return op.effects == Effects::reads && op.cost > 1; }

// A call of a function that has not been put in the place of the call.
struct CallSite {
  struct Copy {
    size_t from, to, size;  // in the frames of caller and callee
  };
  std::vector<Copy> arguments, returns;
  size_t caller = 0, callee = 0;  // indices in LoweredKernel::frames; the callee of a call by address is not known here
};

struct LoweredKernel {
  std::string name;
  std::shared_ptr<const ptx::Module> module;  // keeps what MicroOp::from points to
  std::vector<MicroOp> ops;
  int rows = 0;           // of the register file
  bool may_spin = false;  // it has an operation that may be spun on
  struct Constant {
    int row;
    uint64_t value;
  };
  std::vector<Constant> constants;
  using SpecialValue = void (*)(const Warp&, VectorRegister&);  // fills the row in
  struct Special {
    int row;
    SpecialValue value;
  };  // "%tid.x" and others that do not change while the warp lives
  std::vector<Special> specials;
  std::vector<std::vector<int>> branch_tables;  // brx.idx
  size_t static_shared = 0, local_bytes = 0;    // local: of one thread, call parameters included
  size_t dynamic_shared_at = 0;                 // where in a block's shared memory the launch's own part begins
  size_t reserved_shared = 0;                   // the system's, before static_shared, if the kernel asks for it
  // The kernel, whose frame lies at the beginning of a thread's local memory, and the functions that it calls. A frame
  // has what PTX declares in local memory. A call keeps the callee's rows, so that the callee may be running already.
  struct Frame {
    int entry = 0, first_row = 0, end_row = 0;
    size_t bytes = 0;
  };
  std::vector<Frame> frames = {{}};
  std::vector<CallSite> call_sites;
  std::map<uint64_t, size_t> functions_by_address;  // their frames
  bool launches_others = false;                     // or asks the runtime for something else
  int frame_row = -1;                               // where each lane's frame begins in its local memory
};

// While a kernel is lowered: what the rooms of the instruction set need from one another.
class Lowering {
 public:
  // The row of a register, literal, special register or symbol's address; of the sink "_" a row that nobody reads. A
  // floating literal becomes bits of `type`; a negated predicate is negated by an operation. So rows first, emit then.
  int row(const ptx::Operand&, ptx::Type type = ptx::Type::none);
  int row_of(const ptx::Decoded&, std::string_view operand, ptx::Type type = ptx::Type::none);  // -1: it is left out
  int constant(uint64_t value);
  int special_register(const std::string& name);  // "%tid.x"
  int temporary();                                // a row of its own
  int carry();                                    // the row of the carry flag
  // With the guard of the instruction and these rows. The reference stays good.
  MicroOp& emit(Handler, const ptx::Decoded&, int to = -1, int a = -1, int b = -1, int c = -1, int d = -1);
  int target(const ptx::Operand& label);  // what to set MicroOp::target to
  int table(const ptx::Operand&);         // the index in LoweredKernel::branch_tables of brx.idx's operand
  // Where a symbol is: the space and the address (offset within shared memory, local memory or the parameters).
  struct Symbol {
    ptx::Space space;
    uint64_t address;
    bool in_frame = false;  // of a called function: the address counts from where the frame begins
  };
  Symbol symbol(const std::string& name);
  int address_row(const Symbol&, uint64_t offset = 0);
  int frame_row() const;
  [[noreturn]] void not_simulated(const ptx::Instruction&, const std::string& what = "");  // throws NotSimulated
  [[noreturn]] void not_simulated(const ptx::Decoded& i, const std::string& what = "") {
    not_simulated(*i.written, what);
  }
  struct State;  // lowering.h
  explicit Lowering(State& state) : state_(state) {}
  State& state() { return state_; }

 private:
  State& state_;
};

// The line of the source, "02_growable/growable.cu:12", of what was inlined also where; "" if the PTX does not tell it.
std::string source_of(const ptx::Instruction&);

// An instruction that is not simulated: its text, line and kernel.
struct NotSimulated {
  std::string what;
};

// Adds the operations of an instruction.
using Lower = void (*)(Lowering&, const ptx::Decoded&);
// The instructions that a file simulates. Whoever adds one gives it its form in ptx/instructions.h, too.
using Opcodes = std::unordered_map<ptx::Opcode, Lower>;
extern const Opcodes arithmetic_opcodes;                       // arithmetic.cc: add ... cvt, mov, selp, setp
extern const Opcodes video_opcodes;                            // video.cc: vadd2, vset4, ...
extern const Opcodes memory_opcodes;                           // access.cc: ld, st, atom, red, fence, cvta, ...
extern const Opcodes warp_opcodes;                             // warp.cc: bra, exit, bar, ...
extern const Opcodes exchange_opcodes;                         // exchange.cc: shfl, vote, match, redux, ...
void lower_multimem(Lowering&, const ptx::Decoded&);           // multimem.cc
void add_offset(Warp&, const MicroOp&, Lanes active);          // access.cc: MicroOp::offset to row a
void lower_rank(Lowering&, const ptx::Decoded&);               // cluster.cc: mapa, getctarank
void lower_mbarrier(Lowering&, const ptx::Decoded&);           // mbarrier.cc
void lower_bulk_copy(Lowering&, const ptx::Decoded&);          // cp[.reduce].async.bulk
void lower_arrival_of_copies(Lowering&, const ptx::Decoded&);  // cp.async.mbarrier
void lower_store_async(Lowering&, const ptx::Decoded&);        // st.async, red.async
// system_calls.cc: a call of a function without a body (vprintf, malloc, __assertfail ...). Its arguments and its
// result are the .param variables in the lists of the instruction: their symbol() is in local memory.
bool is_system_call(const std::string& function);
bool lower_system_call(Lowering&, const ptx::Decoded&, const std::string& function, const ptx::Operand* returns,
                       const ptx::Operand* arguments);
// warp.cc: what fills in the row of a special register, or null; the operation that reads one that changes while the
// warp lives, or null; and branches: the active lanes go to MicroOp::target.
LoweredKernel::SpecialValue special_value(const std::string& name);
Handler special_reader(const std::string& name);
void branch(Warp&, const MicroOp&, Lanes active);
void sync_warp(Warp&, const MicroOp&, Lanes active);  // exchange.cc: row `d` names the lanes
// calls.cc. Row `a` has the address, if it is a call by address.
void call_function(Warp&, const MicroOp&, Lanes active);
void return_from_function(Warp&, const MicroOp&, Lanes active);
// What a pointer to a function of a module holds; 0: the module has no such function.
uint64_t function_address(const ptx::Module&, const std::string& name);

void allocate_registers(LoweredKernel&);  // register_allocation.cc

// Lowers a kernel. Throws NotSimulated.
std::shared_ptr<const LoweredKernel> lower(const std::shared_ptr<const ptx::Module>&, const ptx::Function& kernel,
                                           const std::map<std::string, Module::Global>& variables);

}  // namespace gpu
