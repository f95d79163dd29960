// SPDX-License-Identifier: MIT-0
// Barriers in shared memory (mbarrier), and the bulk copies that complete them. A block runs on one thread of this
// machine at a time, so a barrier needs no atomic operations. Copies are done at once, and so are the arrivals and the
// bytes that they bring.
#include <chrono>
#include <utility>
#include "access.h"

namespace gpu {

using ptx::Space;
using ptx::Type;

namespace {

constexpr int cost_of_waiting = 64;  // as of a load on which one spins

// The 64 bits of a barrier, which an arrival also returns.
struct State {
  uint64_t phase : 1, expected : 20, pending : 20;  // arrivals: of each phase, and those that this one still lacks
  int64_t transfer : 23;                            // bytes expected in this phase, less those that came
};
static_assert(sizeof(State) == 8);

// A barrier as one lane finds it at an address.
class Barrier {
 public:
  Barrier(Warp& w, const Op& op, unsigned lane, Space space, uint64_t address) : block_(*w.block) {
    const Place place = locate(w, op, lane, space, address, sizeof(State), memory::readable | memory::writable);
    if (place.is_global)
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_INSTRUCTION,
            memory::hexadecimal(address) + " is an address of global memory, and barriers are in shared memory");
    bytes_ = place.bytes;
    state_ = std::bit_cast<State>(load(bytes_, sizeof(State)));
  }
  uint64_t bits() const { return std::bit_cast<uint64_t>(state_); }
  State state() const { return state_; }
  void init(unsigned count) { set({0, count & 0xfffff, count & 0xfffff, 0}); }
  // Expects so many bytes more, or less; then so many threads arrive, and some of them never again.
  void change(int64_t transfer, unsigned arriving, unsigned leaving) {
    State next = state_;
    next.transfer += transfer;
    next.expected -= leaving;
    next.pending -= arriving;
    if (!next.pending && !next.transfer) next.phase ^= 1, next.pending = next.expected;
    set(next);
  }

 private:
  void set(State state) {
    state_ = state;
    store(bytes_, sizeof state, bits());
    ++block_.events;
  }

  Block& block_;
  char* bytes_;
  State state_;
};

// --- Operations on a barrier -----------------------------------------------------------------------------------------

// The operand in row b, or 1 if there is none.
uint32_t count_in(const Warp& w, const Op& op, unsigned lane) {
  return op.b < 0 ? 1 : static_cast<uint32_t>(w.rows[op.b].lane[lane]);
}

template <class Work> void at_each_barrier(Warp& w, const Op& op, Lanes active, Work work) {
  for (; active; active &= active - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    Barrier barrier(w, op, lane, op.space, w.rows[op.a].lane[lane]);
    work(barrier, lane);
  }
}

void init(Warp& w, const Op& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Barrier& barrier, unsigned lane) { barrier.init(count_in(w, op, lane)); });
}

// expect_tx, complete_tx: the bytes times `immediate`, which is 1 or -1.
void transfer(Warp& w, const Op& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Barrier& barrier, unsigned lane) {
    barrier.change(static_cast<int64_t>(op.immediate) * count_in(w, op, lane), 0, 0);
  });
}

constexpr uint64_t leaves = 1, expects_bytes = 2;  // bits of `immediate`
void arrive(Warp& w, const Op& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Barrier& barrier, unsigned lane) {
    const uint32_t operand = count_in(w, op, lane);
    const unsigned arriving = op.immediate & expects_bytes ? 1 : operand;
    const uint64_t before = barrier.bits();
    barrier.change(op.immediate & expects_bytes ? operand : 0, arriving, op.immediate & leaves ? arriving : 0);
    if (op.to >= 0) w.rows[op.to].lane[lane] = before;
  });
}

// test_wait, try_wait: has the phase ended of which b is the state or, with `immediate`, the parity? If not, it is the
// turn of others.
void wait(Warp& w, const Op& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Barrier& barrier, unsigned lane) {
    const uint64_t awaited = w.rows[op.b].lane[lane];
    const bool phase = op.immediate ? awaited & 1 : std::bit_cast<State>(awaited).phase;
    const bool has_ended = barrier.state().phase != phase;
    w.rows[op.to].lane[lane] = has_ended;
    if (has_ended) return;
    w.rests = true;
    w.hoping |= Lanes(1) << lane;
    w.block->hope = {&w, &op, lane, barrier.bits()};
  });
}

void pending_count(Warp& w, const Op& op, Lanes active) {
  for_each_lane(
      active, [&](unsigned lane) { w.rows[op.to].lane[lane] = std::bit_cast<State>(w.rows[op.a].lane[lane]).pending; });
}

// --- Bulk copies -----------------------------------------------------------------------------------------------------

constexpr unsigned unit = 16;  // bytes, that addresses and sizes are multiples of

// `b` bytes from c to a, or to be combined (`immediate`) with what is there, elements of op.type. With d, a barrier's
// address in shared memory, they complete as many bytes of it. The space is that of a; the other one is of c.
void copy_bulk(Warp& w, const Op& op, Lanes active) {
  const Space other = op.space == Space::global ? Space::shared : Space::global;
  const auto combination = reinterpret_cast<Combine>(op.immediate);
  const unsigned element = combination ? ptx::bytes(op.type) : 8;
  const auto rights = combination ? memory::readable | memory::writable : memory::writable;
  for (; active; active &= active - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    const uint64_t to = w.rows[op.a].lane[lane], from = w.rows[op.c].lane[lane];
    const auto size = static_cast<uint32_t>(w.rows[op.b].lane[lane]);
    if (size % unit)
      fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
            "the size, " + std::to_string(size) + " bytes, is not a multiple of 16: what a GPU does then is undefined");
    for (uint32_t at = 0; at < size; at += unit) {
      const Place source = locate(w, op, lane, other, from + at, unit, memory::readable);
      const Place target = locate(w, op, lane, op.space, to + at, unit, rights);
      for (unsigned i = 0; i < unit; i += element) {
        const uint64_t value = load(source.bytes + i, element);
        if (combination) combine(target.bytes + i, element, combination, value);
        else store(target.bytes + i, element, value);
        for (char* const frame : target.replicas) store(frame + (to + at) % memory::page_size + i, element, value);
      }
      if (target.aliased) w.block->cache.drop(to + at);
    }
    if (op.d >= 0) Barrier(w, op, lane, Space::shared, w.rows[op.d].lane[lane]).change(-int64_t(size), 0, 0);
  }
}

void refuse_copy(Warp& w, const Op& op, Lanes active) {
  fault(w, op, static_cast<unsigned>(std::countr_zero(active)), CUDA_ERROR_ILLEGAL_INSTRUCTION,
        "a bulk copy from shared to shared memory is for the blocks of a cluster, and this block is in none");
}

// --- Lowering --------------------------------------------------------------------------------------------------------

// Takes .acquire .cta and the like, which change nothing, and the space.
Space take_order_and_space(Modifiers& m) {
  for (const char* word : {"acquire", "release", "relaxed", "cta", "cluster"}) m.take(word);
  return take_space(m);
}

// An operation on the barrier at an address.
Op& emit(Lowering& l, const ptx::Instruction& i, Handler handler, const ptx::Operand& where, Space space) {
  const Address at = whole_address_of(l, i, where, space);
  Op& op = l.emit(handler, i, -1, at.row);
  op.space = at.space;
  return op;
}

}  // namespace

void notice_vain_hope(Block& block) {
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::seconds(3);  // with programs that give up after a while by themselves
  constexpr unsigned least_rounds = 100;
  if (!block.hope.warp) return;
  const auto begin_round = [&](unsigned round) {
    for (Warp& w : block.warps) w.hoping = 0;
    block.rounds_of_hope = round;
    if (round == 0) block.hope_since = Clock::now();
  };
  if (std::exchange(block.events_seen, block.events) != block.events) return begin_round(0);
  for (const Warp& w : block.warps)
    if (w.alive & ~w.waiting & ~w.hoping) return;
  begin_round(block.rounds_of_hope + 1);
  if (block.rounds_of_hope < least_rounds || Clock::now() - block.hope_since < patience) return;
  const State state = std::bit_cast<State>(block.hope.barrier);
  fault(*block.hope.warp, *block.hope.op, block.hope.lane, CUDA_ERROR_LAUNCH_TIMEOUT,
        "the block waits for ever: all its threads wait, here and elsewhere. This barrier lacks " +
            std::to_string(state.pending) + " of " + std::to_string(state.expected) + " arrivals and " +
            std::to_string(state.transfer) + " bytes, and no thread is left to bring them; a GPU would hang");
}

bool lower_mbarrier(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  const auto& operands = i.operands;
  const bool drops = m.take("arrive_drop");
  if (drops || m.take("arrive")) {
    const bool expects = m.take("expect_tx");
    m.take("noComplete");
    const Space space = take_order_and_space(m);
    const int to = l.row(operands.at(0)), count = operands.size() > 2 ? l.row(operands[2]) : -1;
    Op& op = emit(l, i, arrive, operands.at(1), space);
    op.to = to, op.b = count, op.immediate = (drops ? leaves : 0u) | (expects ? expects_bytes : 0u);
  } else if (m.take("test_wait") || m.take("try_wait")) {  // with a limit of time or without: it does not wait here
    const bool by_parity = m.take("parity");
    const Space space = take_order_and_space(m);
    const int to = l.row(operands.at(0)), awaited = l.row(operands.at(2));
    Op& op = emit(l, i, wait, operands[1], space);
    op.to = to, op.b = awaited, op.immediate = by_parity, op.cost = cost_of_waiting;
  } else if (m.take("pending_count")) {
    const int to = l.row(operands.at(0)), state = l.row(operands.at(1));
    l.emit(pending_count, i, to, state);
  } else if (m.take("inval")) {
    take_space(m);  // the bytes stay what they are
  } else {
    const bool completes = m.take("complete_tx"), expects = m.take("expect_tx");
    if (!completes && !expects && !m.take("init")) l.unknown(i);
    const Space space = take_order_and_space(m);
    const int operand = l.row(operands.at(1));
    Op& op = emit(l, i, completes || expects ? transfer : init, operands[0], space);
    op.b = operand, op.immediate = completes ? ~uint64_t(0) : 1;
  }
  m.take("b64");
  if (!m.empty()) l.unknown(i);
  return true;
}

void lower_arrival_of_copies(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  const bool is_counted = m.take("noinc");
  const Space space = take_space(m);
  m.take("arrive"), m.take("b64");
  if (!m.empty()) l.unknown(i);
  if (is_counted) emit(l, i, arrive, i.operands.at(0), space);  // else the barrier first expects one arrival more
}

void lower_bulk(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  if (m.take("commit_group") || m.take("wait_group") || m.take("prefetch")) {  // nothing is ever under way
    m.take("read"), m.take("L2"), m.take("global"), take_hints(m);
    if (!m.empty()) l.unknown(i);
    return;
  }
  if (m.take("tensor")) l.unknown(i, "tensor maps are not simulated");
  const bool completes = m.take("mbarrier::complete_tx::bytes"), in_group = m.take("bulk_group");
  const bool is_global = m.take("global"), reduces = m.take("reduce");
  m.take("shared::cluster"), m.take("shared::cta"), m.take("noftz"), take_hints(m);
  const Type type = reduces ? m.type() : Type::none;
  const Combine combination = reduces ? without_flush(take_combination(m, type)) : nullptr;
  if (completes == in_group || !m.empty() || (reduces && !combination)) l.unknown(i);
  if (!is_global) {
    l.emit(refuse_copy, i);
    return;
  }
  const Space target = completes ? Space::shared : Space::global;
  const auto row = [&](size_t operand, Space space) {
    return whole_address_of(l, i, i.operands.at(operand), space).row;
  };
  const int to = row(0, target), from = row(1, completes ? Space::global : Space::shared);
  const int size = l.row(i.operands.at(2)), barrier = completes ? row(3, Space::shared) : -1;
  Op& op = l.emit(copy_bulk, i, -1, to, size, from, barrier);
  op.space = target, op.type = type;
  op.immediate = reinterpret_cast<uint64_t>(combination);
}

}  // namespace gpu
