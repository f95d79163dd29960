// SPDX-License-Identifier: MIT-0
// Who runs when: lanes, warps and blocks, and the instructions by which threads go ways of their own and wait for one
// another.
#include "warp.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <climits>
#include <utility>

#include "../../trace/text.h"
#include "../memory/thread_slot.h"
#include "access.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace gpu {

using ptx::Word;
namespace {

constexpr int group_slice = 512;  // operations until another one of the groups that a warp has split into is favoured
constexpr long warp_slice = 256;  // operations until another warp has its turn: it works on what lies beside
constexpr long overdraft = 2048;  // operations that a warp may run longer, until it comes to the end of a loop
constexpr int spin_slice = 16;    // turns until one looks whether a warp spins

inline Lanes true_lanes_of(const VectorRegister& predicate) {
  Lanes lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) lanes |= static_cast<Lanes>(predicate.lane[lane] & 1) << lane;
  return lanes;
}
#ifdef __x86_64__  // what no compiler makes of the loop
[[gnu::target("avx512f")]] Lanes true_lanes_avx512(const VectorRegister& predicate) {
  const __m512i one = _mm512_set1_epi64(1);
  Lanes lanes = 0;
  for (unsigned k = 0; k < 4; ++k)
    lanes |= Lanes(_mm512_test_epi64_mask(_mm512_loadu_si512(predicate.lane + 8 * k), one)) << 8 * k;
  return lanes;
}
Lanes (*const find_true_lanes)(const VectorRegister&) = __builtin_cpu_supports("avx512f") ? true_lanes_avx512
                                                                                          : fastest<true_lanes_of>();
#else
Lanes (*const find_true_lanes)(const VectorRegister&) = fastest<true_lanes_of>();
#endif

}  // namespace

Lanes true_lanes(const VectorRegister& predicate) { return find_true_lanes(predicate); }

Lanes active_lanes(const Warp& w, const MicroOp& op) {
  if (op.guard < 0) return w.running;
  return w.running & (find_true_lanes(w.rows[op.guard]) ^ (op.guard_negated ? all_lanes : 0));
}

const MicroOp& op_at(const Warp& w, unsigned lane) {
  return w.block->lowered->ops[static_cast<size_t>(w.places.of(lane))];
}

void diverge(Warp& w, Lanes some, int pc, int others) {
  if (w.running & ~some) w.places.set(w.running & ~some, w.alive, others);
  w.places.set(some, w.alive, pc);
  w.diverged = true;
}

namespace {

// Favours the lanes that are furthest behind and one lane after another by turns.
void favour_another(Warp& w) {
  if (w.favoured >= 0) {
    w.favoured = -1;
    return;
  }
  const Lanes ready = w.alive & ~w.waiting;
  if (!ready) return;
  const Lanes later = w.last_favoured < 31 ? ready & (all_lanes << (w.last_favoured + 1)) : 0;
  w.favoured = static_cast<int>(first_of(later ? later : ready));
  w.last_favoured = w.favoured;
}

// The lanes that run next, of those that are ready.
void choose_group(Warp& w, Lanes ready) {
  const bool favours = w.favoured >= 0 && ready & bit(static_cast<unsigned>(w.favoured));
  const Group group = w.places.furthest_behind(ready, favours ? w.favoured : -1);
  w.current = group.at;
  w.running = group.lanes;
  w.meeting_at = group.next;
  w.meeting = 0;
  w.meets_all = false;
  w.may_part = !favours;
  w.diverged = false;
}

// The running lanes stand where others do. True if they go on with them: no lanes stand elsewhere.
bool meet(Warp& w) {
  if (!w.meets_all) return false;
  w.running |= w.meeting;
  w.meeting = 0;
  w.meeting_at = nowhere;
  w.meets_all = false;
  w.group_budget = group_slice;
  return true;
}

// The running lanes part in two, and those that are behind go on: who stands where is known still.
void part(Warp& w, Lanes some, int pc, int others) {
  const Lanes stay = pc < others ? some : w.running & ~some;
  const Lanes leave = w.running & ~stay;
  const int behind = std::min(pc, others), ahead = std::max(pc, others);
  if (!w.may_part || behind >= w.meeting_at) return diverge(w, some, pc, others);
  w.places.set(leave, w.alive, ahead);
  w.running = stay;
  w.next = behind;
  if (ahead == w.meeting_at) {
    w.meeting |= leave;
  } else if (w.meeting_at == nowhere) {
    w.meeting = leave;
    w.meets_all = true;
  } else {
    w.meets_all = false;
  }
  w.meeting_at = std::min(w.meeting_at, ahead);
}

// By itself, so that all it needs is in registers.
[[gnu::noinline]] void run_straight(Warp& w, const MicroOp* op, const MicroOp* const end) {
  const Lanes running = w.running;
  for (; op != end; ++op) op->run(w, *op, running);
}

// Runs the lanes of a group until others are to be chosen. Returns what is left of the budget. It ends where the lanes
// go back, if that can be: there a loop begins anew, and a lane that has taken a lock seldom holds it still.
long run_group(Warp& w, long budget) {
  const MicroOp* const ops = w.block->lowered->ops.data();
  while (!w.rests && budget > -overdraft) {
    const MicroOp& op = ops[w.current];
    if (op.straight) {
      const int count = std::min<int>(op.straight, w.meeting_at - w.current);
      run_straight(w, &op, &op + count);
      budget -= count;
      w.current += count;
      if (w.current == w.meeting_at && !meet(w)) break;
      continue;
    }
    const Lanes active = active_lanes(w, op);
    budget -= op.cost;
    w.next = w.current + 1;
    if (active) op.run(w, op, active);
    if (w.diverged) return budget;
    const bool goes_back = w.next <= w.current;
    w.current = w.next;
    if (w.current == w.meeting_at && !meet(w)) break;
    if (op.ends_run && (!w.may_part || w.current > w.meeting_at)) break;
    if (goes_back && budget <= 0) break;
  }
  w.places.set(w.running, w.alive, w.current);
  return budget;
}

// Runs a warp for about `budget` operations, until no lane is ready or it rests. Returns how many are left.
long run_warp(Warp& w, long budget) {
  w.rests = false;
  while (budget > 0 && !w.rests) {
    const Lanes ready = w.alive & ~w.waiting;
    if (!ready) break;
    choose_group(w, ready);
    if (w.running == ready) w.group_budget = group_slice;
    const long before = budget;
    budget = run_group(w, budget);
    if (w.running == (w.alive & ~w.waiting)) continue;
    w.group_budget -= static_cast<int>(before - budget);
    if (w.group_budget > 0) continue;
    w.group_budget = group_slice;
    favour_another(w);
  }
  return budget;
}

// --- Branches, exits -----------------------------------------------------------------------------------------------
void branch_by_table(Warp& w, const MicroOp& op, Lanes active) {
  const std::vector<int>& table = w.block->lowered->branch_tables[static_cast<size_t>(op.branch_table)];
  w.places.set(w.running & ~active, w.alive, w.next);
  for (const unsigned lane : each(active)) {
    const auto index = static_cast<uint32_t>(w.rows[op.a].lane[lane]);
    if (index >= table.size())
      fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED, "index " + std::to_string(index) + " is past the table of targets");
    w.places.set(bit(lane), w.alive, table[index]);
  }
  w.diverged = true;
}

void trap(Warp& w, const MicroOp& op, Lanes active) {
  fault(w, op, first_of(active), CUDA_ERROR_LAUNCH_FAILED,
        "the kernel stopped itself: __trap(), or a check of its own that failed");
}

void stop(Warp& w, const MicroOp& op, Lanes active) {
  fault(w, op, first_of(active), CUDA_ERROR_LAUNCH_FAILED, "a breakpoint, and there is no debugger");
}

void rest(Warp& w, const MicroOp&, Lanes) { w.rests = true; }

// --- Grids that depend on others -----------------------------------------------------------------------------------
void let_dependents_begin(Warp& w, const MicroOp&, Lanes) { w.block->triggers = true; }

void await_grids(Warp& w, const MicroOp&, Lanes active) {
  const Launch& launch = *w.block->launch;
  if (!launch.may_go_on) return;
  diverge(w, active, w.current, w.next);
  w.waiting |= active;
  w.at_barrier |= active;
  w.at_grids |= active;
  w.block->awaits_grids = true;
}

// Lets those go on that wait for other grids, if these have ended. What they stored is seen from then on.
void try_grids(ThreadBlock& block) {
  if (!block.awaits_grids || !block.launch->may_go_on()) return;
  block.awaits_grids = false;
  block.cache.empty();
  for (Warp& w : block.warps) {
    const Lanes lanes = std::exchange(w.at_grids, 0);
    w.places.advance(lanes, w.alive);
    w.waiting &= ~lanes;
    w.at_barrier &= ~lanes;
  }
  ++block.cluster->events;
}

// --- Barriers of a block -------------------------------------------------------------------------------------------
// What barrier.red gives each thread.
uint64_t reduced(const ThreadBlock::Barrier& barrier, BarrierKind kind) {
  switch (kind) {
    case BarrierKind::popc: return barrier.ones;
    case BarrierKind::all: return barrier.ones == barrier.threads;
    default: return barrier.ones > 0;
  }
}

// Lets the waiting threads go if all that are awaited have come.
void try_barrier(ThreadBlock& block, ThreadBlock::Barrier& barrier) {
  const unsigned awaited = barrier.expected ? barrier.expected : block.alive;
  if (!barrier.arrived || barrier.arrived < awaited) return;
  for (size_t k = 0; k < block.warps.size(); ++k) {
    Warp& w = block.warps[k];
    const Lanes lanes = std::exchange(barrier.waiting[k], 0);
    block.alias_order.waited(w.first, lanes);
    for (const unsigned lane : each(barrier.reduces ? lanes : 0)) {
      const MicroOp& op = op_at(w, lane);
      if (op.to >= 0) w.rows[op.to].lane[lane] = reduced(barrier, op.barrier);
    }
    w.places.advance(lanes, w.alive);
    assert((w.waiting & w.at_barrier & lanes) == lanes);
    w.waiting &= ~lanes;
    w.at_barrier &= ~lanes;
  }
  barrier.arrived = 0;
  barrier.expected = 0;
  barrier.ones = 0;
  barrier.threads = 0;
  barrier.reduces = false;
  ++block.cluster->events;
}

void barrier(Warp& w, const MicroOp& op, Lanes active) {
  ThreadBlock& block = *w.block;
  const unsigned first = first_of(active);
  const auto number = static_cast<uint32_t>(w.rows[op.a].lane[first]);
  const unsigned expected = op.b < 0 ? 0 : static_cast<uint32_t>(w.rows[op.b].lane[first]);
  if (number >= std::size(block.barriers)) fault(w, op, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "barriers are 0 to 15");
  if (op.b >= 0 && (expected == 0 || expected % 32))
    fault(w, op, first, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a barrier's threads are counted in whole warps, by 32");
  ThreadBlock::Barrier& barrier = block.barriers[number];
  barrier.expected = expected;
  barrier.arrived += number_of(active);
  barrier.threads += number_of(active);
  if (expected && active == w.alive) barrier.arrived += 32 - number_of(active);  // a warp counts whole
  if (op.c >= 0) barrier.ones += number_of(active & true_lanes(w.rows[op.c]));
  barrier.reduces |= op.to >= 0;
  assert(!(active & w.waiting));
  if (op.barrier != BarrierKind::arrive) {
    diverge(w, active, w.current, w.next);
    barrier.waiting[w.first / 32] |= active;
    w.waiting |= active;
    w.at_barrier |= active;
  }
  try_barrier(block, barrier);
}

// --- Barriers of a cluster -----------------------------------------------------------------------------------------
// Lets the waiting threads go if all that have not exited have arrived.
void try_cluster_barrier(Cluster& cluster) {
  if (!cluster.arrived || cluster.arrived < cluster.alive) return;
  for (const auto& block : cluster.blocks)
    for (Warp& w : block->warps) {
      const Lanes lanes = std::exchange(w.for_cluster, 0);
      block->alias_order.waited(w.first, lanes);
      w.places.advance(lanes, w.alive);
      w.waiting &= ~lanes;
      w.at_barrier &= ~lanes;
      w.in_cluster = 0;
    }
  cluster.arrived = 0;
  ++cluster.events;
}

void arrive_in_cluster(Warp& w, const MicroOp&, Lanes active) {
  Cluster& cluster = *w.block->cluster;
  cluster.arrived += number_of(active & ~w.in_cluster);
  w.in_cluster |= active;
  try_cluster_barrier(cluster);
}

void wait_for_cluster(Warp& w, const MicroOp&, Lanes active) {
  w.block->cache.empty();
  const Lanes lanes = active & w.in_cluster;
  if (!lanes) return;
  diverge(w, lanes, w.current, w.next);
  w.for_cluster |= lanes;
  w.waiting |= lanes;
  w.at_barrier |= lanes;
}

void exit_lanes(Warp& w, const MicroOp&, Lanes active) {
  assert((active & w.alive & ~w.waiting) == active && w.block->alive >= number_of(active));
  diverge(w, active, w.current, w.next);
  w.alive &= ~active;
  w.block->alive -= number_of(active);
  Cluster& cluster = *w.block->cluster;
  ++cluster.events;
  cluster.alive -= number_of(active);
  cluster.arrived -= number_of(active & w.in_cluster);
  w.in_cluster &= ~active;
  w.waiting = w.at_barrier;  // who waits for lanes of its warp looks again whether they are all there
  for (ThreadBlock::Barrier& barrier : w.block->barriers)
    if (!barrier.expected) try_barrier(*w.block, barrier);
  try_cluster_barrier(cluster);
}

// --- Lowering ------------------------------------------------------------------------------------------------------
// An operation after which other lanes may run.
MicroOp& emit_last(Lowering& l, const ptx::Decoded& i, Handler handler) {
  MicroOp& op = l.emit(handler, i);
  op.ends_run = true;
  return op;
}

void lower_branch(Lowering& l, const ptx::Decoded& i) {
  MicroOp& op = emit_last(l, i, branch);
  op.target = l.target(i.operands().at(0));
  op.effects = Effects::pure;
}

void lower_branch_by_table(Lowering& l, const ptx::Decoded& i) {
  const int index = l.row(i["index"]);
  const int table = l.table(i["tlist"]);
  MicroOp& op = emit_last(l, i, branch_by_table);
  op.a = index;
  op.branch_table = table;
  op.effects = Effects::pure;
}

void lower_exit(Lowering& l, const ptx::Decoded& i) { emit_last(l, i, exit_lanes); }

// bar.warp.sync, barrier.cluster and, of the threads of a block, bar, barrier.
void lower_barrier(Lowering& l, const ptx::Decoded& i) {
  if (i.has(Word::warp)) {
    const int mask = l.row(i["membermask"]);
    MicroOp& op = emit_last(l, i, sync_warp);
    op.d = mask;
    op.effects = Effects::pure;
    return;
  }
  if (i.has(Word::cluster)) {
    emit_last(l, i, i.has(Word::wait) ? wait_for_cluster : arrive_in_cluster);
    return;
  }
  const int to = l.row_of(i, "d"), number = l.row(i["a"]), threads = l.row_of(i, "b"), predicate = l.row_of(i, "p");
  MicroOp& op = emit_last(l, i, barrier);
  op.barrier = i.has(Word::arrive)                   ? BarrierKind::arrive
               : i.operation == ptx::Operation::popc ? BarrierKind::popc
               : i.operation == ptx::Operation::and_ ? BarrierKind::all
               : i.operation == ptx::Operation::or_  ? BarrierKind::any
                                                     : BarrierKind::sync;
  op.to = to;
  op.a = number;
  op.b = threads;
  op.c = predicate;
}

}  // namespace

void branch(Warp& w, const MicroOp& op, Lanes active) {
  if (active == w.running) w.next = op.target;
  else if (op.target != w.next) part(w, active, op.target, w.next);
}

const Opcodes warp_opcodes = {
    {ptx::Opcode::bra, lower_branch},
    {ptx::Opcode::brx, lower_branch_by_table},
    {ptx::Opcode::exit, lower_exit},
    {ptx::Opcode::ret, lower_exit},  // of a kernel
    {ptx::Opcode::bar, lower_barrier},
    {ptx::Opcode::barrier, lower_barrier},
    {ptx::Opcode::trap, [](Lowering& l, const ptx::Decoded& i) { emit_last(l, i, trap); }},
    {ptx::Opcode::brkpt, [](Lowering& l, const ptx::Decoded& i) { emit_last(l, i, stop); }},
    {ptx::Opcode::nanosleep,
     [](Lowering& l, const ptx::Decoded& i) {
       MicroOp& op = emit_last(l, i, rest);
       op.cost = 16;
       op.effects = Effects::pure;
     }},
    {ptx::Opcode::griddepcontrol,
     [](Lowering& l, const ptx::Decoded& i) {
       emit_last(l, i, i.has(Word::wait) ? await_grids : let_dependents_begin);
     }},
};

// Rows for the next block that this thread begins, of one that has ended: the C library would give the memory back to
// the system each time, and touching it anew takes longer than many a block.
struct SpareRows {
  std::unique_ptr<VectorRegister[]> rows;
  size_t count = 0;
};
static SpareRows& spare_rows() { return memory::thread_slot<SpareRows>(); }

static void take_rows(ThreadBlock& block, size_t count) {
  SpareRows& spare = spare_rows();
  const bool is_enough = spare.count >= count;
  block.row_count = is_enough ? std::exchange(spare.count, 0) : count;
  block.rows = is_enough ? std::move(spare.rows) : std::make_unique_for_overwrite<VectorRegister[]>(count);
}

ThreadBlock::~ThreadBlock() {
  SpareRows& spare = spare_rows();
  if (row_count > spare.count) spare = {std::move(rows), row_count};
}

ThreadBlock::ThreadBlock(Cluster& its, const Launch& l, int gpu, Dimensions where)
    : cluster(&its), launch(&l), lowered(l.kernel->lowered.get()), device(gpu), index(where) {
  alive = l.block.x * l.block.y * l.block.z;
  const size_t warp_count = (alive + 31) / 32, row_count = static_cast<size_t>(lowered->rows);
  take_rows(*this, warp_count * row_count);
  shared.resize(memory::round_up(shared_bytes(), shared_unit));
  if (lowered->call_sites.empty()) {
    local.resize(lowered->local_bytes * alive);
  } else {
    stacks.resize(alive);
    for (CallStack& stack : stacks) stack.bytes.resize(lowered->local_bytes);
  }
  warps.resize(warp_count);
  for (size_t k = 0; k < warp_count; ++k) {
    Warp& w = warps[k];
    w.block = this;
    w.rows = rows.get() + k * row_count;
    w.first = static_cast<unsigned>(32 * k);
    w.alive = alive - w.first >= 32 ? all_lanes : bit(alive - w.first) - 1;
    w.group_budget = group_slice;
    for (const auto& [row, value] : lowered->constants) std::fill_n(w.rows[row].lane, 32, value);
    for (const auto& [row, fill_in] : lowered->specials) fill_in(w, w.rows[row]);
  }
}

Progress run(ThreadBlock& block, long budget) {
  size_t idle = 0;  // warps in a row that could do nothing
  try_grids(block);
  while (block.alive && budget > 0) {
    Warp& w = block.warps[block.next_warp];
    if (++block.next_warp == block.warps.size()) block.next_warp = 0;
    if (w.alive & ~w.waiting && !is_still_blocked(w)) {
      idle = 0;
      const long given = std::min(budget, warp_slice);
      const long left = run_warp(w, given);
      budget -= given - left;
      if (w.rests) budget -= 16;  // who sleeps gives other blocks a turn as well
      if (w.rests || (left <= 0 && ++w.turns % spin_slice == 0)) look_for_spin(w);
    } else if (++idle >= block.warps.size()) {
      return Progress::waits;
    }
  }
  return block.alive == 0 ? Progress::ended : Progress::goes_on;
}

Dimensions thread_index(const Warp& w, unsigned lane) {
  const Dimensions& size = w.block->launch->block;
  const unsigned t = w.first + lane;
  return {t % size.x, t / size.x % size.y, t / size.x / size.y};
}

std::string source_of(const ptx::Instruction& i) {
  constexpr size_t shown = 4;  // of a long chain of calls the first and the last ones
  std::vector<const ptx::Location*> chain;
  for (const ptx::Location* at = i.source; at; at = at->inlined_at) chain.push_back(at);
  std::string all;
  for (size_t k = 0; k < chain.size(); ++k) {
    const std::string_view file = *chain[k]->file;
    if (k == shown && chain.size() > 2 * shown) all += ", ...";
    if (file.empty() || (k >= shown && k + shown < chain.size())) continue;
    all += (all.empty() ? "" : ", inlined at ") + std::string(short_path(file)) + ":" + std::to_string(chain[k]->line);
  }
  return all;
}

std::string where(const Warp& w, const MicroOp& op, unsigned lane) {
  const auto text = [](const Dimensions& d) {
    return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
  };
  std::string instruction(op.from->text);
  std::replace(instruction.begin(), instruction.end(), '\n', ' ');
  std::replace(instruction.begin(), instruction.end(), '\t', ' ');
  const std::string source = source_of(*op.from);
  return "kernel " + demangled(w.block->lowered->name) + " on GPU " + std::to_string(w.block->device) + ", block " +
         text(w.block->index) + ", thread " + text(thread_index(w, lane)) + ", `" + instruction + "` (" +
         (source.empty() ? "" : source + ", ") + "line " + std::to_string(op.from->line) + " of its PTX)";
}

void fault(const Warp& w, const MicroOp& op, unsigned lane, CUresult error, const std::string& what,
           std::optional<uint64_t> address) {
  const std::string place = where(w, op, lane);
  throw Fault{error, place + ": " + what, place, address};
}

}  // namespace gpu
