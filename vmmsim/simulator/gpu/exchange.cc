// SPDX-License-Identifier: MIT-0
// What the lanes of a warp do together: they wait for one another and exchange values.
#include "access.h"

namespace gpu {

using ptx::Word;

namespace {

// Calls `work` for each set of lanes that is complete: all lanes that the masks in row `d` name, those that have exited
// left out, have come to this operation (with `anywhere`: to one of its kind). The others wait. Lanes that name others
// are a set of their own.
template <class Work>
void converge(Warp& w, const MicroOp& op, Lanes active, bool anywhere, Work work) {
  assert(!(active & w.waiting));
  const auto go_on = [&](Lanes lanes) {
    work(lanes);
    w.block->alias_order.waited(w.first, lanes, true);
  };
  if (active == w.alive) {  // nobody else can come
    const auto named = static_cast<Lanes>(w.rows[op.d].lane[first_of(active)]);
    if (!(active & ~named)) return go_on(active);
  }
  const auto named_by = [&](unsigned lane) { return static_cast<Lanes>(w.rows[op.d].lane[lane]); };
  for (const unsigned lane : each(active))
    if (!(named_by(lane) & bit(lane)))
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_INSTRUCTION, "the mask of the lanes that take part lacks the lane itself");
  Lanes come = active, go = 0;
  for (const unsigned lane : each(w.waiting & ~w.at_barrier)) {
    if (w.places.of(lane) == w.current || (anywhere && op_at(w, lane).run == op.run)) come |= bit(lane);
  }
  for (Lanes left = come; left;) {
    const unsigned lane = first_of(left);
    left &= ~bit(lane);
    if (named_by(lane) & w.alive & ~come) continue;
    Lanes set = 0;
    for (const unsigned other : each(named_by(lane) & w.alive))
      if (named_by(other) == named_by(lane)) set |= bit(other);
    go_on(set);
    go |= set;
    left &= ~set;
  }
  if (go == active && come == active) return;
  diverge(w, active, w.current, w.next);
  w.waiting = (w.waiting | come) & ~go;
  w.places.advance(go, w.alive);
}

template <class Work>  // work(set of lanes, lane): the value for that lane
void exchange(Warp& w, const MicroOp& op, Lanes active, Work work) {
  converge(w, op, active, false, [&](Lanes set) {
    uint64_t values[32];
    for (const unsigned lane : each(set)) values[lane] = work(set, lane);
    for (const unsigned lane : each(set)) w.rows[op.to].lane[lane] = values[lane];
  });
}

enum class Shuffle : uint8_t { up, down, bfly, idx };
// What the lanes of a set get of the values of those that take part: of the others 0, for programs sum up what they get
// so.
template <Shuffle kind> void shuffle_lanes(Warp& w, const MicroOp& op, Lanes set, Lanes take_part) {
  const uint64_t *const values = w.rows[op.a].lane, *const b = w.rows[op.b].lane, *const c = w.rows[op.c].lane;
  uint32_t from[32], inside[32];
  uint64_t got[32];
  for (int lane = 0; lane < 32; ++lane) {
    const int by = static_cast<int>(b[lane]) & 31;
    const int clamp = static_cast<int>(c[lane]) & 31, segment = static_cast<int>(c[lane]) >> 8 & 31;
    const int least = lane & segment;
    const int most = least | (clamp & ~segment);
    int at = 0;
    switch (kind) {
      case Shuffle::up: at = lane - by; break;
      case Shuffle::down: at = lane + by; break;
      case Shuffle::bfly: at = lane ^ by; break;
      case Shuffle::idx: at = least | (by & ~segment); break;
    }
    inside[lane] = kind == Shuffle::up ? at >= most : at <= most;
    from[lane] = static_cast<uint32_t>(inside[lane] ? at : lane) & 31;
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    const uint64_t counts = (take_part >> from[lane] & 1) | (inside[lane] ^ 1);
    got[lane] = values[from[lane]] & (0 - counts);
  }
  set_lanes(w.rows[op.to].lane, set, [&](unsigned lane) { return got[lane]; });
  if (op.to2 >= 0) set_lanes(w.rows[op.to2].lane, set, [&](unsigned lane) { return uint64_t(inside[lane]); });
}

template <auto function> const auto fastest_function = fastest<function>();

template <Shuffle kind> void shuffle(Warp& w, const MicroOp& op, Lanes active) {
  converge(w, op, active, false, [&](Lanes set) { fastest_function<shuffle_lanes<kind>>(w, op, set, set | active); });
}

template <class Work>  // work(set of lanes): the value for all of them
void share(Warp& w, const MicroOp& op, Lanes active, Work work) {
  converge(w, op, active, false, [&](Lanes set) {
    const uint64_t value = work(set);
    for_each_lane(set, [&](unsigned lane) { w.rows[op.to].lane[lane] = value; });
  });
}

enum class Vote : uint8_t { all, any, uni, ballot };
template <Vote kind> void vote(Warp& w, const MicroOp& op, Lanes active) {
  share(w, op, active, [&](Lanes set) -> uint64_t {
    const Lanes yes = true_lanes(w.rows[op.a]) & set;
    switch (kind) {
      case Vote::all: return yes == set;
      case Vote::any: return yes != 0;
      case Vote::uni: return yes == set || yes == 0;
      case Vote::ballot: return yes;
    }
    return 0;
  });
}

template <bool all> void match(Warp& w, const MicroOp& op, Lanes active) {
  const uint64_t mask = ptx::bits(op.type) == 64 ? ~uint64_t(0) : UINT32_MAX;
  exchange(w, op, active, [&](Lanes set, unsigned lane) -> uint64_t {
    const uint64_t* const value = w.rows[op.a].lane;
    Lanes same = 0;
    for (const unsigned other : each(set))
      if (((value[other] ^ value[lane]) & mask) == 0) same |= bit(other);
    if (all && op.to2 >= 0) w.rows[op.to2].lane[lane] = same == set;
    return all && same != set ? 0 : same;
  });
}

void reduce(Warp& w, const MicroOp& op, Lanes active) {
  share(w, op, active, [&](Lanes set) {
    const uint64_t* const value = w.rows[op.a].lane;
    uint64_t result = value[first_of(set)];
    for (const unsigned lane : each(set & (set - 1))) result = op.combine(result, value[lane], 0);
    return result;
  });
}

void elect(Warp& w, const MicroOp& op, Lanes active) {
  exchange(w, op, active, [&](Lanes set, unsigned lane) -> uint64_t {
    if (op.to2 >= 0) w.rows[op.to2].lane[lane] = lane == first_of(set);
    return first_of(set);
  });
}

void active_mask(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = active; });
}

// An operation of the lanes that a mask names, on a, b and c.
MicroOp& lower_warp_wide(Lowering& l, const ptx::Decoded& i, Handler handler) {
  if (!i.has(Word::sync)) l.not_simulated(i);
  const int a = l.row_of(i, "a"), b = l.row_of(i, "b"), c = l.row_of(i, "c"), mask = l.row(i["membermask"]);
  MicroOp& op = l.emit(handler, i);
  op.ends_run = true;
  op.to = l.row(i["d"]);
  op.to2 = l.row_of(i, "p");
  op.a = a;
  op.b = b;
  op.c = c;
  op.d = mask;
  op.type = i.type();
  op.effects = Effects::pure;
  return op;
}

void lower_shuffle(Lowering& l, const ptx::Decoded& i) {
  constexpr Handler kinds[] = {shuffle<Shuffle::up>, shuffle<Shuffle::down>, shuffle<Shuffle::bfly>,
                               shuffle<Shuffle::idx>};
  lower_warp_wide(l, i, kinds[i.which({Word::up, Word::down, Word::bfly, Word::idx})]);
}

void lower_vote(Lowering& l, const ptx::Decoded& i) {
  constexpr Handler kinds[] = {vote<Vote::all>, vote<Vote::any>, vote<Vote::uni>, vote<Vote::ballot>};
  lower_warp_wide(l, i, kinds[i.which({Word::all, Word::any, Word::uni, Word::ballot})]);
}

void lower_match(Lowering& l, const ptx::Decoded& i) {
  lower_warp_wide(l, i, i.has(Word::any) ? match<false> : match<true>);
}

void lower_redux(Lowering& l, const ptx::Decoded& i) {
  const Combine combine = combination_of(i.operation, i.type());
  if (!combine) l.not_simulated(i);
  lower_warp_wide(l, i, reduce).combine = combine;
}

}  // namespace

void sync_warp(Warp& w, const MicroOp& op, Lanes active) {
  converge(w, op, active, true, [](Lanes) {});
}

const Opcodes exchange_opcodes = {
    {ptx::Opcode::shfl, lower_shuffle},
    {ptx::Opcode::vote, lower_vote},
    {ptx::Opcode::match, lower_match},
    {ptx::Opcode::redux, lower_redux},
    {ptx::Opcode::elect, [](Lowering& l, const ptx::Decoded& i) { lower_warp_wide(l, i, elect); }},
    {ptx::Opcode::activemask, [](Lowering& l, const ptx::Decoded& i) { l.emit(active_mask, i, l.row(i["d"])); }},
};

}  // namespace gpu
