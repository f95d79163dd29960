// SPDX-License-Identifier: MIT-0
// Who runs when: lanes, warps and blocks, and the instructions by which threads go ways of their own, wait for one
// another and exchange values.
#include "warp.h"

#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <unordered_map>
#include <utility>

#include "../memory/page_table.h"
#include "../memory/this_machine.h"
#include "access.h"

namespace gpu {
namespace {

constexpr int patience = 512;  // operations until another one of the groups that a warp has split into is favoured
constexpr long slice = 4096;   // operations until another warp of the block has its turn

Lanes bit(unsigned lane) { return Lanes(1) << lane; }
unsigned first_of(Lanes lanes) { return static_cast<unsigned>(std::countr_zero(lanes)); }
unsigned number_of(Lanes lanes) { return static_cast<unsigned>(std::popcount(lanes)); }

Lanes true_lanes(const Row& predicate) {
  Lanes lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) lanes |= static_cast<Lanes>(predicate.lane[lane] & 1) << lane;
  return lanes;
}

// Lets the lanes that are ready and stand at the lowest operation run, or those that stand with the favoured one.
// Returns the next higher operation at which other lanes stand: there they may go on together.
int choose(Warp& w, Lanes ready) {
  int lowest = INT_MAX, meet = INT_MAX;
  if (w.favoured >= 0 && ready & bit(static_cast<unsigned>(w.favoured))) {
    lowest = w.pc[w.favoured];
  } else {
    for (Lanes left = ready; left; left &= left - 1) lowest = std::min(lowest, w.pc[first_of(left)]);
  }
  w.current = lowest;
  w.running = 0;
  for (Lanes left = ready; left; left &= left - 1) {
    const int pc = w.pc[first_of(left)];
    if (pc == lowest) w.running |= left & -left;
    else if (pc > lowest) meet = std::min(meet, pc);
  }
  return meet;
}

void place(Warp& w, Lanes lanes, int pc) {
  for (; lanes; lanes &= lanes - 1) w.pc[first_of(lanes)] = pc;
}

// The running lanes part: `some` go to (or stay at) one operation, the others to another.
void part(Warp& w, Lanes some, int pc, int others) {
  place(w, some, pc);
  place(w, w.running & ~some, others);
  w.scattered = true;
}

// Runs a warp for about `budget` operations, until no lane is ready or it rests. Returns how many are left.
long run_warp(Warp& w, long budget) {
  const Op* const ops = w.block->program->ops.data();
  w.rests = false;
  while (budget > 0 && !w.rests) {
    const Lanes ready = w.alive & ~w.waiting;
    if (!ready) break;
    const int meet = choose(w, ready);
    const bool whole = w.running == ready;
    const long before = budget;
    w.scattered = false;
    while (budget > 0 && !w.rests) {
      const Op& op = ops[w.current];
      Lanes active = w.running;
      if (op.guard >= 0) active &= true_lanes(w.rows[op.guard]) ^ (op.guard_negated ? all_lanes : 0);
      budget -= op.cost;
      w.next = w.current + 1;
      if (active) op.run(w, op, active);
      if (w.scattered) break;
      w.current = w.next;
      if (!whole && (op.ends_run || w.current == meet)) break;
    }
    if (!w.scattered) place(w, w.running, w.current);
    if (whole) continue;
    w.patience -= static_cast<int>(before - budget);
    if (w.patience > 0) continue;
    w.patience = patience;
    if (w.favoured >= 0) {
      w.favoured = -1;
    } else if (const Lanes others = w.alive & ~w.waiting) {
      const Lanes later = w.last_favoured < 31 ? others & (all_lanes << (w.last_favoured + 1)) : 0;
      w.favoured = w.last_favoured = static_cast<int>(first_of(later ? later : others));
    }
  }
  return budget;
}

// --- Branches, exits -----------------------------------------------------------------------------------------------
void branch_by_table(Warp& w, const Op& op, Lanes active) {
  const std::vector<int>& table = w.block->program->branch_tables[op.immediate];
  place(w, w.running & ~active, w.next);
  for (; active; active &= active - 1) {
    const unsigned lane = first_of(active);
    const auto index = static_cast<uint32_t>(w.rows[op.a].lane[lane]);
    if (index >= table.size())
      fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "index " + std::to_string(index) + " is past the table of targets");
    w.pc[lane] = table[index];
  }
  w.scattered = true;
}

void trap(Warp& w, const Op& op, Lanes active) {
  fault(w, op, first_of(active), CUDA_ERROR_LAUNCH_FAILED,
        "the kernel stopped itself: __trap(), or a check of its own that failed");
}

void rest(Warp& w, const Op&, Lanes) { w.rests = true; }

// --- Barriers of a block -------------------------------------------------------------------------------------------
enum BarrierKind : uint64_t { sync, arrive, popc, all, any };  // Op::immediate

// Lets the waiting threads go if all that are awaited have come.
void try_barrier(Block& block, Block::Barrier& barrier) {
  if (!barrier.arrived || barrier.arrived < (barrier.expected ? barrier.expected : block.alive)) return;
  for (size_t k = 0; k < block.warps.size(); ++k) {
    Warp& w = block.warps[k];
    const Lanes lanes = std::exchange(barrier.waiting[k], 0);
    for (Lanes left = lanes; left; left &= left - 1) {
      const unsigned lane = first_of(left);
      const Op& op = block.program->ops[static_cast<size_t>(w.pc[lane]++)];
      if (op.to >= 0)
        w.rows[op.to].lane[lane] = op.immediate == popc  ? barrier.ones
                                   : op.immediate == all ? barrier.ones == barrier.threads
                                                         : barrier.ones > 0;
    }
    w.waiting &= ~lanes;
    w.at_barrier &= ~lanes;
  }
  barrier.arrived = barrier.expected = barrier.ones = barrier.threads = 0;
  ++block.events;
}

void barrier(Warp& w, const Op& op, Lanes active) {
  Block& block = *w.block;
  const unsigned first = first_of(active);
  const auto number = static_cast<uint32_t>(w.rows[op.a].lane[first]);
  const unsigned expected = op.b < 0 ? 0 : static_cast<uint32_t>(w.rows[op.b].lane[first]);
  if (number >= std::size(block.barriers)) fault(w, op, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "barriers are 0 to 15");
  if (op.b >= 0 && (expected == 0 || expected % 32))
    fault(w, op, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a barrier's threads are counted in whole warps, by 32");
  Block::Barrier& barrier = block.barriers[number];
  barrier.expected = expected;
  barrier.arrived += number_of(active);
  barrier.threads += number_of(active);
  if (expected && active == w.alive) barrier.arrived += 32 - number_of(active);  // a warp counts whole
  if (op.c >= 0) barrier.ones += number_of(active & true_lanes(w.rows[op.c]));
  if (op.immediate != arrive) {
    part(w, active, w.current, w.next);
    barrier.waiting[w.first / 32] |= active;
    w.waiting |= active;
    w.at_barrier |= active;
  }
  try_barrier(block, barrier);
}

void exit(Warp& w, const Op&, Lanes active) {
  part(w, active, w.current, w.next);
  w.alive &= ~active;
  w.block->alive -= number_of(active);
  ++w.block->events;
  w.waiting = w.at_barrier;  // who waits for lanes of its warp looks again whether they are all there
  for (Block::Barrier& barrier : w.block->barriers)
    if (!barrier.expected) try_barrier(*w.block, barrier);
}

// --- What the lanes of a warp do together --------------------------------------------------------------------------
// Calls `work` for each set of lanes that is complete: all lanes that the masks in row `d` name, those that have exited
// left out, have come to this operation (with `anywhere`: to one of its kind). The others wait.
template <class Work>
void together(Warp& w, const Op& op, Lanes active, bool anywhere, Work work) {
  const auto& ops = w.block->program->ops;
  Lanes come = active, go = 0;
  for (Lanes left = w.waiting & ~w.at_barrier; left; left &= left - 1) {
    const int pc = w.pc[first_of(left)];
    if (pc == w.current || (anywhere && ops[static_cast<size_t>(pc)].run == op.run)) come |= left & -left;
  }
  for (Lanes left = come; left;) {
    const unsigned lane = first_of(left);
    const Lanes set = (static_cast<Lanes>(w.rows[op.d].lane[lane]) | bit(lane)) & w.alive;
    left &= ~bit(lane);
    if (set & ~come) continue;
    work(set);
    go |= set;
    left &= ~set;
  }
  if (go == active && come == active) return;
  part(w, active, w.current, w.next);
  w.waiting = (w.waiting | come) & ~go;
  for (; go; go &= go - 1) ++w.pc[first_of(go)];
}

void sync_warp(Warp& w, const Op& op, Lanes active) {
  together(w, op, active, true, [](Lanes) {});
}

template <class Work>  // work(set of lanes, lane): the value for that lane
void exchange(Warp& w, const Op& op, Lanes active, Work work) {
  together(w, op, active, false, [&](Lanes set) {
    uint64_t values[32];
    for (Lanes left = set; left; left &= left - 1) values[first_of(left)] = work(set, first_of(left));
    for (Lanes left = set; left; left &= left - 1) w.rows[op.to].lane[first_of(left)] = values[first_of(left)];
  });
}

enum class Shuffle : uint64_t { up, down, bfly, idx };
void shuffle(Warp& w, const Op& op, Lanes active) {
  exchange(w, op, active, [&](Lanes, unsigned lane) {
    const int here = static_cast<int>(lane), by = w.rows[op.b].lane[lane] & 31;
    const int clamp = w.rows[op.c].lane[lane] & 31, segment = w.rows[op.c].lane[lane] >> 8 & 31;
    const int most = (here & segment) | (clamp & ~segment), least = here & segment;
    int from = 0;
    switch (static_cast<Shuffle>(op.immediate)) {
      case Shuffle::up: from = here - by; break;
      case Shuffle::down: from = here + by; break;
      case Shuffle::bfly: from = here ^ by; break;
      case Shuffle::idx: from = least | (by & ~segment); break;
    }
    const bool inside = static_cast<Shuffle>(op.immediate) == Shuffle::up ? from >= most : from <= most;
    if (op.to2 >= 0) w.rows[op.to2].lane[lane] = inside;
    return w.rows[op.a].lane[inside ? from : here];
  });
}

enum class Vote : uint64_t { all, any, uni, ballot };
void vote(Warp& w, const Op& op, Lanes active) {
  exchange(w, op, active, [&](Lanes set, unsigned) -> uint64_t {
    const Lanes yes = true_lanes(w.rows[op.a]) & set;
    switch (static_cast<Vote>(op.immediate)) {
      case Vote::all: return yes == set;
      case Vote::any: return yes != 0;
      case Vote::uni: return yes == set || yes == 0;
      case Vote::ballot: return yes;
    }
    return 0;
  });
}

void match(Warp& w, const Op& op, Lanes active) {  // immediate: all
  const uint64_t mask = ptx::bits(op.type) == 64 ? ~uint64_t(0) : UINT32_MAX;
  exchange(w, op, active, [&](Lanes set, unsigned lane) -> uint64_t {
    Lanes same = 0;
    for (Lanes left = set; left; left &= left - 1)
      if (((w.rows[op.a].lane[first_of(left)] ^ w.rows[op.a].lane[lane]) & mask) == 0) same |= left & -left;
    if (op.immediate && op.to2 >= 0) w.rows[op.to2].lane[lane] = same == set;
    return op.immediate && same != set ? 0 : same;
  });
}

void reduce(Warp& w, const Op& op, Lanes active) {  // immediate: what combines two
  exchange(w, op, active, [&](Lanes set, unsigned) {
    uint64_t result = w.rows[op.a].lane[first_of(set)];
    for (Lanes left = set & (set - 1); left; left &= left - 1)
      result = reinterpret_cast<Combine>(op.immediate)(result, w.rows[op.a].lane[first_of(left)], 0);
    return result;
  });
}

void elect(Warp& w, const Op& op, Lanes active) {
  exchange(w, op, active, [&](Lanes set, unsigned lane) -> uint64_t {
    if (op.to2 >= 0) w.rows[op.to2].lane[lane] = lane == first_of(set);
    return first_of(set);
  });
}

void active_mask(Warp& w, const Op& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = active; });
}

// --- Special registers ---------------------------------------------------------------------------------------------
unsigned linear_index(const Block& b) {
  return b.index.x + b.launch->grid.x * (b.index.y + b.launch->grid.y * b.index.z);
}

using Specials = std::unordered_map<std::string, Program::SpecialValue>;

// Those of one dimension. A block without a cluster is a cluster of its own.
template <unsigned Dimensions::* d>
void add_dimension(Specials& all, const std::string& d_name) {
  const Program::SpecialValue none = [](const Warp&, unsigned) -> uint64_t { return 0; },
                              one = [](const Warp&, unsigned) -> uint64_t { return 1; },
                              size = [](const Warp& w, unsigned) -> uint64_t { return w.block->launch->block.*d; },
                              index = [](const Warp& w, unsigned) -> uint64_t { return w.block->index.*d; },
                              grid_size = [](const Warp& w, unsigned) -> uint64_t { return w.block->launch->grid.*d; };
  all["%tid." + d_name] = [](const Warp& w, unsigned lane) -> uint64_t { return thread_index(w, lane).*d; };
  all["%ntid." + d_name] = size;
  all["%ctaid." + d_name] = all["%clusterid." + d_name] = index;
  all["%nctaid." + d_name] = all["%nclusterid." + d_name] = grid_size;
  all["%cluster_ctaid." + d_name] = none;
  all["%cluster_nctaid." + d_name] = one;
}

const Specials specials = [] {
  Specials all = {
      {"%cluster_ctarank", [](const Warp&, unsigned) -> uint64_t { return 0; }},
      {"%cluster_nctarank", [](const Warp&, unsigned) -> uint64_t { return 1; }},
      {"%is_explicit_cluster", [](const Warp&, unsigned) -> uint64_t { return 0; }},
      {"%laneid", [](const Warp&, unsigned lane) -> uint64_t { return lane; }},
      {"%warpid", [](const Warp& w, unsigned) -> uint64_t { return w.first / 32; }},
      {"%nwarpid", [](const Warp&, unsigned) -> uint64_t { return 64; }},
      {"%smid",
       [](const Warp& w, unsigned) -> uint64_t {
         return linear_index(*w.block) % static_cast<unsigned>(memory::machine().multiprocessors);
       }},
      {"%nsmid",
       [](const Warp&, unsigned) -> uint64_t { return static_cast<unsigned>(memory::machine().multiprocessors); }},
      {"%gridid", [](const Warp& w, unsigned) -> uint64_t { return reinterpret_cast<uintptr_t>(w.block->launch); }},
      {"%lanemask_eq", [](const Warp&, unsigned lane) -> uint64_t { return bit(lane); }},
      {"%lanemask_lt", [](const Warp&, unsigned lane) -> uint64_t { return bit(lane) - 1; }},
      {"%lanemask_le", [](const Warp&, unsigned lane) -> uint64_t { return (bit(lane) - 1) | bit(lane); }},
      {"%lanemask_gt", [](const Warp&, unsigned lane) -> uint64_t { return ~((bit(lane) - 1) | bit(lane)); }},
      {"%lanemask_ge", [](const Warp&, unsigned lane) -> uint64_t { return ~(bit(lane) - 1); }},
      {"%dynamic_smem_size", [](const Warp& w, unsigned) -> uint64_t { return w.block->launch->dynamic_shared; }},
      {"%total_smem_size",
       [](const Warp& w, unsigned) -> uint64_t {
         return memory::round_up(w.block->program->static_shared + w.block->launch->dynamic_shared, 128);
       }},
      {"%aggr_smem_size",
       [](const Warp& w, unsigned) -> uint64_t {
         return reserved_shared - w.block->program->reserved_shared + w.block->shared.size();
       }},
      {"%reserved_smem_offset_begin", [](const Warp&, unsigned) -> uint64_t { return 0; }},
      {"%reserved_smem_offset_end", [](const Warp&, unsigned) -> uint64_t { return 288; }},
      {"%reserved_smem_offset_cap", [](const Warp&, unsigned) -> uint64_t { return reserved_shared; }},
      {"%reserved_smem_offset_0", [](const Warp&, unsigned) -> uint64_t { return 0; }},
      {"%reserved_smem_offset_1", [](const Warp&, unsigned) -> uint64_t { return 0; }},
  };
  add_dimension<&Dimensions::x>(all, "x");
  add_dimension<&Dimensions::y>(all, "y");
  add_dimension<&Dimensions::z>(all, "z");
  return all;
}();

template <class Clock> uint64_t nanoseconds() {
  const auto now = Clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
// The clock of the multiprocessors has the rate that the driver reports, 1980 MHz, and never goes back.
uint64_t cycles() { return nanoseconds<std::chrono::steady_clock>() * 99 / 50; }
uint64_t time_of_day() { return nanoseconds<std::chrono::system_clock>(); }  // the same on all GPUs

template <uint64_t (*clock)(), unsigned shift> void read_clock(Warp& w, const Op& op, Lanes active) {
  const uint64_t value = clock() >> shift;
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = value; });
}

const std::unordered_map<std::string, Handler> changing_specials = {
    {"%clock", read_clock<cycles, 0>},
    {"%clock64", read_clock<cycles, 0>},
    {"%clock_hi", read_clock<cycles, 32>},
    {"%globaltimer", read_clock<time_of_day, 0>},
    {"%globaltimer_lo", read_clock<time_of_day, 0>},
    {"%globaltimer_hi", read_clock<time_of_day, 32>},
};

// --- Lowering ------------------------------------------------------------------------------------------------------
// One of `words` that an instruction has, by its place among them; -1: none.
int take_one(Modifiers& m, std::initializer_list<std::string_view> words) {
  int place = 0;
  for (const std::string_view word : words) {
    if (m.take(word)) return place;
    ++place;
  }
  return -1;
}

// The destinations d or d|p of an instruction, and whether it has the second.
void set_destinations(Lowering& l, Op& op, const ptx::Operand& operand) {
  const bool two = operand.kind == ptx::Operand::list;
  op.to = l.row(two ? operand.elements.at(0) : operand);
  if (two) op.to2 = l.row(operand.elements.at(1));
}

void lower_barrier(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  m.take("cta");
  m.take("aligned");
  if (m.take("warp")) {
    if (!m.take("sync")) l.unknown(i);
    const int mask = l.row(i.operands.at(0));
    l.emit(sync_warp, i, -1, -1, -1, -1, mask).ends_run = true;
    return;
  }
  int kind = take_one(m, {"sync", "arrive"});
  if (m.take("red")) kind = popc + std::max(0, take_one(m, {"popc", "and", "or"}));
  if (kind < 0) l.unknown(i);
  const bool reduces = kind >= int(popc);
  if (reduces && m.type() == ptx::Type::none) l.unknown(i);
  std::vector<int> rows;
  for (const ptx::Operand& operand : i.operands) rows.push_back(l.row(operand));
  if (rows.size() < (reduces ? 3u : 1u)) l.unknown(i);
  Op& op = l.emit(barrier, i);
  op.immediate = static_cast<uint64_t>(kind), op.ends_run = true;
  if (reduces) op.to = rows.front(), op.c = rows.back(), rows.erase(rows.begin()), rows.pop_back();
  op.a = rows.front();
  if (rows.size() > 1) op.b = rows[1];
}

}  // namespace

Program::SpecialValue special_value(const std::string& name) {
  if (name == "%envreg1" || name == "%envreg2") {
    static constexpr auto address = [](const Warp& w) { return w.block->launch->is_cooperative ? grid_window : 0; };
    if (name == "%envreg1") return [](const Warp& w, unsigned) -> uint64_t { return address(w) >> 32; };
    return [](const Warp& w, unsigned) -> uint64_t { return address(w) & 0xffff'ffff; };
  }
  if (name.starts_with("%envreg")) return [](const Warp&, unsigned) -> uint64_t { return 0; };
  const auto found = specials.find(name);
  return found == specials.end() ? nullptr : found->second;
}

Handler special_reader(const std::string& name) {
  const auto found = changing_specials.find(name);
  return found == changing_specials.end() ? nullptr : found->second;
}

void branch(Warp& w, const Op& op, Lanes active) {
  if (active == w.running) w.next = op.target;
  else part(w, active, op.target, w.next);
}

bool lower_warp(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  const auto ends = [&](Handler handler) -> Op& {
    Op& op = l.emit(handler, i);
    op.ends_run = true;
    return op;
  };
  // An operation of the lanes that a mask, the last operand, names: destinations, then `sources` operands.
  const auto warp_wide = [&](Handler handler, size_t sources, int64_t kind) {
    if (!m.take("sync") || kind < 0 || i.operands.size() != sources + 2) l.unknown(i);
    int rows[3] = {-1, -1, -1};
    for (size_t k = 0; k < sources; ++k) rows[k] = l.row(i.operands[k + 1]);
    const int mask = l.row(i.operands.back());
    Op& op = ends(handler);
    op.a = rows[0], op.b = rows[1], op.c = rows[2], op.d = mask;
    op.immediate = static_cast<uint64_t>(kind);
    op.type = m.type();
    set_destinations(l, op, i.operands[0]);
  };
  if (i.opcode == "bra") {
    m.take("uni");
    ends(branch).target = l.target(i.operands.at(0));
  } else if (i.opcode == "brx") {
    m.take("idx"), m.take("uni");
    const int index = l.row(i.operands.at(0)), table = l.table(i.operands.at(1));
    Op& op = ends(branch_by_table);
    op.a = index, op.immediate = static_cast<uint64_t>(table);
  } else if (i.opcode == "exit" || i.opcode == "ret") {
    m.take("uni");
    ends(exit);
  } else if (i.opcode == "trap") {
    ends(trap);
  } else if (i.opcode == "nanosleep") {
    m.take("u32");
    ends(rest).cost = 16;
  } else if (i.opcode == "griddepcontrol") {  // every grid begins when those it depends on have ended
    if (take_one(m, {"launch_dependents", "wait"}) < 0) l.unknown(i);
  } else if (i.opcode == "bar" || i.opcode == "barrier") {
    lower_barrier(l, i, m);
  } else if (i.opcode == "shfl") {
    warp_wide(shuffle, 3, take_one(m, {"up", "down", "bfly", "idx"}));
  } else if (i.opcode == "vote") {
    warp_wide(vote, 1, take_one(m, {"all", "any", "uni", "ballot"}));
  } else if (i.opcode == "match") {
    warp_wide(match, 1, take_one(m, {"any", "all"}));
  } else if (i.opcode == "redux") {
    const Combine combination = take_combination(m, m.type());
    if (!combination) l.unknown(i);
    warp_wide(reduce, 1, reinterpret_cast<int64_t>(combination));
  } else if (i.opcode == "elect") {
    warp_wide(elect, 0, 0);
  } else if (i.opcode == "activemask") {
    m.take("b32");
    l.emit(active_mask, i, l.row(i.operands.at(0)));
  } else {
    return false;
  }
  if (!m.empty()) l.unknown(i);
  return true;
}

Block::Block(const Launch& l, int gpu, Dimensions where)
    : launch(&l), program(l.kernel->program.get()), device(gpu), index(where) {
  alive = l.block.x * l.block.y * l.block.z;
  const size_t warp_count = (alive + 31) / 32, row_count = static_cast<size_t>(program->rows);
  rows = std::make_unique_for_overwrite<Row[]>(warp_count * row_count);
  shared.resize(program->dynamic_shared_at + l.dynamic_shared);
  local.resize(program->local_bytes * alive);
  warps.resize(warp_count);
  for (size_t k = 0; k < warp_count; ++k) {
    Warp& w = warps[k];
    w.block = this;
    w.rows = rows.get() + k * row_count;
    w.first = static_cast<unsigned>(32 * k);
    w.alive = alive - w.first >= 32 ? all_lanes : bit(alive - w.first) - 1;
    w.patience = patience;
    for (const auto& [row, value] : program->constants) std::fill_n(w.rows[row].lane, 32, value);
    for (const auto& [row, value] : program->specials)
      for (unsigned lane = 0; lane < 32; ++lane) w.rows[row].lane[lane] = value(w, lane);
  }
}

bool run(Block& block, long budget) {
  size_t idle = 0;  // warps in a row that could do nothing
  while (block.alive && budget > 0) {
    Warp& w = block.warps[block.next_warp];
    block.next_warp = (block.next_warp + 1) % block.warps.size();
    if (w.alive & ~w.waiting) {
      idle = 0;
      const long given = std::min(budget, slice);
      budget -= given - run_warp(w, given);
      if (w.rests) budget -= 16;  // who sleeps gives other blocks a turn as well
    } else if (++idle == block.warps.size()) {
      for (const Warp& stuck : block.warps)
        if (stuck.alive)
          fault(stuck, block.program->ops[static_cast<size_t>(stuck.pc[first_of(stuck.alive)])], first_of(stuck.alive),
                CUDA_ERROR_LAUNCH_TIMEOUT,
                "the block waits for ever: its threads wait here and elsewhere for threads "
                "that will not come; a GPU would hang");
    }
  }
  notice_vain_hope(block);
  return block.alive == 0;
}

Dimensions thread_index(const Warp& w, unsigned lane) {
  const Dimensions& size = w.block->launch->block;
  const unsigned t = w.first + lane;
  return {t % size.x, t / size.x % size.y, t / size.x / size.y};
}

std::string source_of(const ptx::Instruction& i) {
  constexpr int shown = 4;  // of a long chain of calls the first and the last ones
  int depth = 0, k = 0;
  for (const ptx::Location* at = i.source; at; at = at->inlined_at) ++depth;
  std::string all;
  for (const ptx::Location* at = i.source; at; at = at->inlined_at, ++k) {
    std::string_view file = *at->file;
    if (k == shown && depth > 2 * shown) all += ", ...";
    if (file.empty() || (k >= shown && k < depth - shown)) continue;
    size_t slash = file.rfind('/');
    if (slash != file.npos && slash > 0) slash = file.rfind('/', slash - 1);
    file.remove_prefix(slash + 1);  // what stands before the last directory differs from machine to machine
    all += (all.empty() ? "" : ", inlined at ") + std::string(file) + ":" + std::to_string(at->line);
  }
  return all;
}

std::string where(const Warp& w, const Op& op, unsigned lane) {
  const auto text = [](const Dimensions& d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
  };
  std::string instruction(op.from->text);
  for (size_t at; (at = instruction.find_first_of("\n\t")) != std::string::npos;) instruction.replace(at, 1, " ");
  const std::string source = source_of(*op.from);
  return "kernel " + demangled(w.block->program->kernel) + " on GPU " + std::to_string(w.block->device) + ", block " +
         text(w.block->index) + ", thread " + text(thread_index(w, lane)) + ", `" + instruction + "` (" +
         (source.empty() ? "" : source + ", ") + "line " + std::to_string(op.from->line) + " of its PTX)";
}

void fault(const Warp& w, const Op& op, unsigned lane, CUresult error, const std::string& what) {
  throw Fault{error, where(w, op, lane) + ": " + what};
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string found = status == 0 ? text : name;
  std::free(text);
  return found;
}

}  // namespace gpu
