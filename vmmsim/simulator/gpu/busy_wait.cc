// SPDX-License-Identifier: MIT-0
// Warps that spin: they load the same values again and again until another thread, the host or another process stores
// there. When a pass of the loop has left every register as it was and has changed nothing in memory, the next passes
// will do the same for as long as the loop finds the same values. So the warp need not run until one of them differs.
#include <algorithm>
#include <map>
#include "../memory/page_table.h"
#include "access.h"

namespace gpu {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int longest_loop = 256;                              // operations
constexpr size_t most_watched = 64;                            // words that a loop may look at
constexpr auto longest_rest = std::chrono::milliseconds(100);  // then the loop runs again, whatever it looks at

memory::Entry entry_of(const Warp& w, const Watched& word) {
  return word.is_global ? memory::page_table(w.block->device).lookup(word.address) : 0;
}

bool is_unchanged(const Warp& w, const Watched& word) {
  return entry_of(w, word) == word.entry && load(word.bytes, word.size) == word.value;
}

bool has_not_changed(const Warp& w) {
  return std::ranges::all_of(w.watched, [&](const Watched& word) { return is_unchanged(w, word); });
}

// Notes what the lanes have loaded, or found before they combined it with something, each at its address.
void watch(Warp& w, const MicroOp& op, Lanes active, const uint64_t* addresses) {
  const unsigned size = ptx::bytes(op.type);
  const uint64_t bits = size == 8 ? ~uint64_t(0) : (uint64_t(1) << 8 * size) - 1;
  for (const unsigned lane : each(active)) {
    for (unsigned k = 0; k < op.count; ++k) {
      const uint64_t address = addresses[lane] + k * size;
      const uint64_t value = w.rows[op.count > 1 ? op.rows[k] : op.to].lane[lane] & bits;
      if (!w.watched.empty() && w.watched.back().address == address && w.watched.back().value == value) continue;
      const Backing backing = locate(w, op, lane, op.space, address, size, memory::readable);
      Watched& word = w.watched.emplace_back(Watched{address, backing.bytes, backing.is_global, 0, size, value});
      word.entry = entry_of(w, word);
    }
  }
}

// The rows that a pass of a loop writes, as they were before.
class Before {
 public:
  void note(const Warp& w, const MicroOp& op) {
    for (const int row : {op.to, op.to2}) note(w, row);
    for (unsigned k = 0; op.count > 1 && k < op.count; ++k) note(w, op.rows[k]);
  }
  bool is_same(const Warp& w) const {
    return std::ranges::all_of(rows_, [&](const auto& known) { return is_same(w, known.second, w.rows[known.first]); });
  }

 private:
  std::map<int, VectorRegister> rows_;
  void note(const Warp& w, int row) {
    if (row >= 0) rows_.try_emplace(row, w.rows[row]);
  }
  static bool is_same(const Warp& w, const VectorRegister& a, const VectorRegister& b) {
    for (const unsigned lane : each(w.running))
      if (a.lane[lane] != b.lane[lane]) return false;
    return true;
  }
};

// Runs one operation of the running lanes. False: they parted, or it was one that is not the same when done again.
bool step(Warp& w, Before& before) {
  const MicroOp& op = w.block->lowered->ops[static_cast<size_t>(w.current)];
  const Lanes active = active_lanes(w, op);
  if (active && op.effects == Effects::side_effects) return false;
  uint64_t addresses[32];
  if (op.effects == Effects::reads)
    for (const unsigned lane : each(active))
      addresses[lane] = w.rows[op.a].lane[lane] + static_cast<uint64_t>(op.offset);
  before.note(w, op);
  w.next = w.current + 1;
  w.diverged = false;
  w.may_part = false;
  if (active) op.run(w, op, active);
  if (w.diverged) return false;
  w.current = w.next;
  w.places.set(w.running, w.alive, w.current);
  if (op.effects == Effects::reads) watch(w, op, active, addresses);
  return w.watched.size() <= most_watched;
}

// Runs the lanes that are ready once around the loop that they are in. True if it can only go on as it did.
bool goes_around(Warp& w) {
  const LoweredKernel& kernel = *w.block->lowered;
  w.running = w.alive & ~w.waiting;
  if (!w.running) return false;
  const Group group = w.places.furthest_behind(w.running, -1);
  if (group.lanes != w.running) return false;
  w.current = group.at;
  int left = longest_loop;
  const auto step_on = [&](Before& before) { return left-- > 0 && step(w, before); };
  Before way_there, loop;
  while (!may_be_spun_on(kernel.ops[static_cast<size_t>(w.current)]))
    if (!step_on(way_there)) return false;
  const int begin = w.current;
  w.watched.clear();
  do {
    if (!step_on(loop)) return false;
  } while (w.current != begin);
  return loop.is_same(w) && has_not_changed(w);
}

}  // namespace

void look_for_spin(Warp& w) {
  w.spinning = 0;
  if (!w.block->lowered->may_spin || !goes_around(w)) return;
  w.spinning = w.running;
  w.spins_since = Clock::now();
}

bool is_still_blocked(Warp& w) {
  if (!w.spinning) return false;
  if (w.spinning == (w.alive & ~w.waiting) && Clock::now() - w.spins_since < longest_rest) {
    if (has_not_changed(w)) return true;
    for (int pass = 0; pass < 2; ++pass)  // the first one may find a new value, and the second one it again
      if (goes_around(w)) return true;
  }
  w.spinning = 0;
  return false;
}

}  // namespace gpu
