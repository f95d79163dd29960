// SPDX-License-Identifier: MIT-0
// PTX has a register for each value, a loop that is unrolled hundreds of them. Those that live only within a stretch of
// operations to whose middle no branch goes take turns in a few rows: what a warp works with then stays in the
// processor's caches, and a block begins and ends with less memory.
#include <algorithm>
#include <utility>
#include "lower.h"

namespace gpu {

namespace {

constexpr int MicroOp::* written[] = {&MicroOp::to, &MicroOp::to2};
constexpr int MicroOp::* read[] = {&MicroOp::guard, &MicroOp::a, &MicroOp::b, &MicroOp::c, &MicroOp::d};

// Where a row is first and last named.
struct Life {
  int first = -1, last = -1;
  bool is_short = true;  // it may share a row
  void named_at(int op) {
    if (first < 0) first = op;
    last = op;
  }
};

std::vector<Life> lives_in(const LoweredKernel& kernel) {
  std::vector<Life> lives(static_cast<size_t>(kernel.rows));
  const auto life = [&](int row) -> Life& { return lives[static_cast<size_t>(row)]; };
  for (const LoweredKernel::Constant& constant : kernel.constants) life(constant.row).is_short = false;
  for (const LoweredKernel::Special& special : kernel.specials) life(special.row).is_short = false;
  for (int at = 0; at < static_cast<int>(kernel.ops.size()); ++at) {
    const MicroOp& op = kernel.ops[static_cast<size_t>(at)];
    for (const auto operand : read) {
      if (op.*operand < 0) continue;
      if (life(op.*operand).first < 0) life(op.*operand).is_short = false;  // its value comes from elsewhere
      life(op.*operand).named_at(at);
    }
    for (const auto operand : written) {
      if (op.*operand < 0) continue;
      if (life(op.*operand).first < 0 && op.guard >= 0) life(op.*operand).is_short = false;
      life(op.*operand).named_at(at);
    }
    for (const int row : op.rows) {
      life(row).is_short = false;
      life(row).named_at(at);
    }
  }
  return lives;
}

// For each operation how many before it, itself included, a branch goes to.
std::vector<int> targets_before(const LoweredKernel& kernel) {
  std::vector<int> count(kernel.ops.size() + 1);
  const auto note = [&](int target) {
    if (target >= 0) count[static_cast<size_t>(target)] = 1;
  };
  for (const MicroOp& op : kernel.ops) note(op.target);
  for (const std::vector<int>& table : kernel.branch_tables) std::ranges::for_each(table, note);
  for (size_t at = 1; at < count.size(); ++at) count[at] += count[at - 1];
  return count;
}

// The new number of each row.
std::vector<int> share(std::vector<Life> lives, const std::vector<int>& targets, int& rows) {
  const int past_all = static_cast<int>(targets.size());
  for (Life& life : lives) {
    if (life.first >= 0 && targets[static_cast<size_t>(life.first)] != targets[static_cast<size_t>(life.last)])
      life.is_short = false;
    if (!life.is_short || life.first < 0) life.last = past_all;
  }
  std::vector<size_t> by_first(lives.size());
  for (size_t row = 0; row < lives.size(); ++row) by_first[row] = row;
  std::ranges::sort(by_first, {}, [&](size_t row) { return std::pair(lives[row].first, row); });
  std::vector<int> number(lives.size()), busy_until;  // of each new row
  for (const size_t row : by_first) {
    const auto free = std::ranges::find_if(busy_until, [&](int until) { return until < lives[row].first; });
    number[row] = static_cast<int>(free - busy_until.begin());
    if (free == busy_until.end() || !lives[row].is_short) number[row] = static_cast<int>(busy_until.size());
    if (number[row] == static_cast<int>(busy_until.size())) busy_until.push_back(0);
    busy_until[static_cast<size_t>(number[row])] = lives[row].last;
  }
  rows = static_cast<int>(busy_until.size());
  return number;
}

}  // namespace

void allocate_registers(LoweredKernel& kernel) {
  if (kernel.rows == 0 || !kernel.call_sites.empty()) return;  // a call keeps the rows of its function
  const std::vector<int> number = share(lives_in(kernel), targets_before(kernel), kernel.rows);
  const auto renumber = [&](int& row) {
    if (row >= 0) row = number[static_cast<size_t>(row)];
  };
  for (MicroOp& op : kernel.ops) {
    for (const auto operand : written) renumber(op.*operand);
    for (const auto operand : read) renumber(op.*operand);
    std::ranges::for_each(op.rows, renumber);
  }
  for (LoweredKernel::Constant& constant : kernel.constants) renumber(constant.row);
  for (LoweredKernel::Special& special : kernel.specials) renumber(special.row);
}

}  // namespace gpu
