// SPDX-License-Identifier: MIT-0
// Barriers in shared memory (mbarrier), and the bulk copies that complete them. The blocks of a cluster run on one
// thread of this machine, so a barrier needs no atomic operations. Copies are done at once, and so are the arrivals and
// the bytes that they bring.
#include <chrono>
#include "access.h"

namespace gpu {

using ptx::Space;
using ptx::Type;
using ptx::Word;

namespace {

constexpr int cost_of_trying = 64;  // as of a load on which one spins

// The 64 bits of a barrier, which an arrival also returns.
struct MbarrierState {
  uint64_t phase : 1, expected : 20, pending : 20;  // arrivals: of each phase, and those that this one still lacks
  int64_t transfer : 23;                            // bytes expected in this phase, less those that came
};
static_assert(sizeof(MbarrierState) == 8);

// A barrier as one lane finds it at an address.
class Mbarrier {
 public:
  Mbarrier(Warp& w, const MicroOp& op, unsigned lane, Space space, uint64_t address) : cluster_(*w.block->cluster) {
    const Backing backing =
        locate(w, op, lane, space, address, sizeof(MbarrierState), memory::readable | memory::writable);
    if (backing.is_global)
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_INSTRUCTION,
            hexadecimal(address) + " is an address of global memory, and barriers are in shared memory");
    bytes_ = backing.bytes;
    state_ = std::bit_cast<MbarrierState>(load(bytes_, sizeof(MbarrierState)));
  }
  uint64_t bits() const { return std::bit_cast<uint64_t>(state_); }
  MbarrierState state() const { return state_; }
  void init(unsigned count) { set({0, count & 0xfffff, count & 0xfffff, 0}); }
  // Expects so many bytes more, or less; then so many threads arrive, and some of them never again.
  void change(int64_t transfer, unsigned arriving, unsigned leaving) {
    MbarrierState next = state_;
    next.transfer += transfer;
    next.expected -= leaving;
    next.pending -= arriving;
    if (!next.pending && !next.transfer) {
      next.phase ^= 1;
      next.pending = next.expected;
    }
    set(next);
  }

 private:
  void set(MbarrierState state) {
    state_ = state;
    store(bytes_, sizeof state, bits());
    ++cluster_.events;
  }

  Cluster& cluster_;
  char* bytes_;
  MbarrierState state_;
};

// --- Operations on a barrier -----------------------------------------------------------------------------------------

// The operand in row b, or 1 if there is none.
uint32_t count_in(const Warp& w, const MicroOp& op, unsigned lane) {
  return op.b < 0 ? 1 : static_cast<uint32_t>(w.rows[op.b].lane[lane]);
}

template <class Work> void at_each_barrier(Warp& w, const MicroOp& op, Lanes active, Work work) {
  for (const unsigned lane : each(active)) {
    Mbarrier barrier(w, op, lane, op.space, w.rows[op.a].lane[lane]);
    work(barrier, lane);
  }
}

void init(Warp& w, const MicroOp& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Mbarrier& barrier, unsigned lane) { barrier.init(count_in(w, op, lane)); });
}

// expect_tx: more bytes, complete_tx: fewer.
template <int sign> void transfer(Warp& w, const MicroOp& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Mbarrier& barrier, unsigned lane) {
    barrier.change(sign * static_cast<int64_t>(count_in(w, op, lane)), 0, 0);
  });
}

template <bool leaves, bool expects_bytes> void arrive(Warp& w, const MicroOp& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Mbarrier& barrier, unsigned lane) {
    const uint32_t operand = count_in(w, op, lane);
    const unsigned arriving = expects_bytes ? 1 : operand;
    const uint64_t before = barrier.bits();
    barrier.change(expects_bytes ? operand : 0, arriving, leaves ? arriving : 0);
    if (op.to >= 0) w.rows[op.to].lane[lane] = before;
  });
}

// test_wait, try_wait: has the phase ended of which b is the state or the parity? If not, it is the turn of others.
template <bool by_parity> void test_phase(Warp& w, const MicroOp& op, Lanes active) {
  at_each_barrier(w, op, active, [&](Mbarrier& barrier, unsigned lane) {
    const uint64_t awaited = w.rows[op.b].lane[lane];
    const bool phase = by_parity ? awaited & 1 : std::bit_cast<MbarrierState>(awaited).phase;
    const bool has_ended = barrier.state().phase != phase;
    w.rows[op.to].lane[lane] = has_ended;
    if (has_ended) return w.block->alias_order.waited(w.first, Lanes(1) << lane);
    w.rests = true;
    w.polling |= Lanes(1) << lane;
    w.block->cluster->poll = {&w, &op, lane, barrier.bits()};
  });
}

void pending_count(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    w.rows[op.to].lane[lane] = std::bit_cast<MbarrierState>(w.rows[op.a].lane[lane]).pending;
  });
}

// --- Bulk copies -----------------------------------------------------------------------------------------------------

constexpr unsigned unit = 16;  // bytes, that addresses and sizes are multiples of

// `b` bytes from c to a, or to be combined (op.combine) with what is there, elements of op.type. With d, a barrier's
// address in shared memory, they complete as many bytes of it. The space is that of a; that of c is the other one, or
// shared, too, if the copy is within a cluster.
template <bool in_cluster> void copy_bulk(Warp& w, const MicroOp& op, Lanes active) {
  const Space other = op.space == Space::global || in_cluster ? Space::shared : Space::global;
  if (in_cluster && !w.block->launch->has_clusters)
    fault(w, op, first_of(active), CUDA_ERROR_ILLEGAL_INSTRUCTION,
          "a bulk copy from shared to shared memory is for the blocks of a cluster, and this block is in none");
  const unsigned element = op.combine ? ptx::bytes(op.type) : 8;
  const auto rights = op.combine ? memory::readable | memory::writable : memory::writable;
  for (const unsigned lane : each(active)) {
    const uint64_t to = w.rows[op.a].lane[lane], from = w.rows[op.c].lane[lane];
    const auto size = static_cast<uint32_t>(w.rows[op.b].lane[lane]);
    if (size % unit)
      fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
            "the size, " + std::to_string(size) + " bytes, is not a multiple of 16: what a GPU does then is undefined");
    for (uint32_t at = 0; at < size; at += unit) {
      const Backing source = locate(w, op, lane, other, from + at, unit, memory::readable);
      const Backing target = locate(w, op, lane, op.space, to + at, unit, rights);
      for (unsigned i = 0; i < unit; i += element) {
        const uint64_t value = load(source.bytes + i, element);
        if (op.combine) combine(target.bytes + i, element, op.combine, value);
        else store(target.bytes + i, element, value);
        memory::for_each_bound(target.replicas,
                               [&](char* frame) { store(frame + (to + at) % memory::page_size + i, element, value); });
      }
      if (target.aliased) w.block->cache.drop(to + at);
    }
    if (op.d >= 0) Mbarrier(w, op, lane, Space::shared, w.rows[op.d].lane[lane]).change(-int64_t(size), 0, 0);
  }
}

// st.async and red.async: the `count` values in op.rows to a, or combined with what is there; d as above.
void store_async(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned size = ptx::bytes(op.type);
  const auto rights = op.combine ? memory::readable | memory::writable : memory::writable;
  for (const unsigned lane : each(active)) {
    const uint64_t to = w.rows[op.a].lane[lane];
    locate(w, op, lane, Space::shared, to, size * op.count, rights);
    for (unsigned k = 0; k < op.count; ++k) {
      char* const bytes = locate(w, op, lane, Space::shared, to + k * size, size, rights).bytes;
      const uint64_t value = w.rows[op.rows[k]].lane[lane];
      if (op.combine) combine(bytes, size, op.combine, value);
      else store(bytes, size, value);
    }
    Mbarrier(w, op, lane, Space::shared, w.rows[op.d].lane[lane]).change(-int64_t(size * op.count), 0, 0);
  }
}

// --- Lowering --------------------------------------------------------------------------------------------------------

// An operation on a barrier.
MicroOp& emit(Lowering& l, const ptx::Decoded& i, Handler handler) {
  const AddressOperand at = whole_address_of(l, i, i["addr"], i.space);
  MicroOp& op = l.emit(handler, i, -1, at.row);
  op.space = at.space;
  return op;
}

}  // namespace

void notice_mbarrier_deadlock(Cluster& cluster) {
  using Clock = std::chrono::steady_clock;
  constexpr auto patience = std::chrono::seconds(3);  // with programs that give up after a while by themselves
  constexpr unsigned least_rounds = 100;
  if (!cluster.poll.warp) return;
  const auto begin_round = [&](unsigned round) {
    for (const auto& block : cluster.blocks)
      for (Warp& w : block->warps) w.polling = 0;
    cluster.idle_rounds = round;
    if (round == 0) cluster.idle_since = Clock::now();
  };
  if (cluster.events != cluster.events_seen) {
    cluster.events_seen = cluster.events;
    begin_round(0);
    return;
  }
  for (const auto& block : cluster.blocks)
    for (const Warp& w : block->warps)
      if (w.alive & ~w.waiting & ~w.polling) return;
  begin_round(cluster.idle_rounds + 1);
  if (cluster.idle_rounds < least_rounds || Clock::now() - cluster.idle_since < patience) return;
  const MbarrierState state = std::bit_cast<MbarrierState>(cluster.poll.barrier);
  fault(*cluster.poll.warp, *cluster.poll.op, cluster.poll.lane, CUDA_ERROR_LAUNCH_TIMEOUT,
        "the block waits for ever: all its threads wait, here and elsewhere. This barrier lacks " +
            std::to_string(state.pending) + " of " + std::to_string(state.expected) + " arrivals and " +
            std::to_string(state.transfer) + " bytes, and no thread is left to bring them; a GPU would hang");
}

namespace {

// mbarrier.arrive, .arrive_drop
void lower_arrive(Lowering& l, const ptx::Decoded& i) {
  constexpr Handler handlers[2][2] = {{arrive<false, false>, arrive<false, true>},
                                      {arrive<true, false>, arrive<true, true>}};
  const Handler handler = handlers[i.has(Word::arrive_drop)][i.has(Word::expect_tx)];
  const int to = l.row(i.operands()[0]);
  const int count = l.row_of(i, "count");
  MicroOp& op = emit(l, i, handler);
  op.to = to;
  op.b = count;
}

// mbarrier.test_wait, and try_wait with a limit of time or without, which does not wait here either.
void lower_test(Lowering& l, const ptx::Decoded& i) {
  const bool by_parity = i.has(Word::parity);
  const int to = l.row(i["p"]), awaited = l.row(i[by_parity ? "parity" : "phase"]);
  MicroOp& op = emit(l, i, by_parity ? test_phase<true> : test_phase<false>);
  op.to = to;
  op.b = awaited;
  op.cost = cost_of_trying;
}

void lower_counting(Lowering& l, const ptx::Decoded& i, Handler handler) {
  const int count = l.row(i["count"]);
  emit(l, i, handler).b = count;
}

}  // namespace

void lower_mbarrier(Lowering& l, const ptx::Decoded& i) {
  if (i.has(Word::arrive) || i.has(Word::arrive_drop)) return lower_arrive(l, i);
  if (i.has(Word::test_wait) || i.has(Word::try_wait)) return lower_test(l, i);
  if (i.has(Word::init)) return lower_counting(l, i, init);
  if (i.has(Word::expect_tx)) return lower_counting(l, i, transfer<1>);
  if (i.has(Word::complete_tx)) return lower_counting(l, i, transfer<-1>);
  if (i.has(Word::inval)) return;  // the bytes stay what they are
  const int to = l.row(i["d"]), state = l.row(i["phase"]);
  l.emit(pending_count, i, to, state);
}

void lower_arrival_of_copies(Lowering& l, const ptx::Decoded& i) {
  if (i.has(Word::noinc)) emit(l, i, arrive<false, false>);  // else the barrier first expects one arrival more
}

void lower_bulk_copy(Lowering& l, const ptx::Decoded& i) {
  const ptx::Operand* const to_memory = i.find("dstMem");
  if (!to_memory) return;  // commit_group, wait_group, prefetch: nothing is ever under way
  const int to = whole_address_of(l, i, *to_memory, i.space).row;
  const int from = whole_address_of(l, i, i["srcMem"], i.other_space).row;
  const int size = l.row(i["size"]);
  const ptx::Operand* const mbar = i.find("mbar");
  const int barrier = mbar ? whole_address_of(l, i, *mbar, Space::shared).row : -1;
  MicroOp& op = l.emit(i.space == i.other_space ? copy_bulk<true> : copy_bulk<false>, i, -1, to, size, from, barrier);
  op.space = i.space;
  op.type = i.type();
  if (i.has(Word::reduce)) op.combine = without_flush(combination_of(i.operation, i.type()));
}

void lower_store_async(Lowering& l, const ptx::Decoded& i) {
  const std::array<int, 8> rows = rows_of(l, i, i["b"], i.type());
  const int to = whole_address_of(l, i, i["a"], Space::shared).row;
  const int barrier = whole_address_of(l, i, i["mbar"], Space::shared).row;
  MicroOp& op = l.emit(store_async, i, -1, to, -1, -1, barrier);
  op.space = Space::shared;
  op.type = i.type();
  op.count = i.count;
  op.rows = rows;
  op.combine = combination_of(i.operation, i.type());
}

}  // namespace gpu
