// SPDX-License-Identifier: MIT-0
#include "places.h"
#include <algorithm>

namespace gpu {

namespace {

// No branches: the loops become vectors.
inline Group group_of(const int (&places)[32], Lanes ready, int favoured) {
  int at[32];
  for (unsigned lane = 0; lane < 32; ++lane) at[lane] = ready >> lane & 1 ? places[lane] : nowhere;
  int lowest = nowhere, next = nowhere;
  for (const int each : at) lowest = each < lowest ? each : lowest;
  if (favoured >= 0) lowest = places[favoured];
  Lanes lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) lanes |= static_cast<Lanes>(at[lane] == lowest) << lane;
  for (int& each : at) each = each > lowest ? each : nowhere;
  for (const int each : at) next = each < next ? each : next;
  return {lowest, next, lanes};
}

inline void write_op(int (&places)[32], Lanes lanes, int op) {
  for (unsigned lane = 0; lane < 32; ++lane) places[lane] = lanes >> lane & 1 ? op : places[lane];
}

inline void add_one(int (&places)[32], Lanes lanes) {
  for (unsigned lane = 0; lane < 32; ++lane) places[lane] += static_cast<int>(lanes >> lane & 1);
}

const auto find_group = fastest<group_of>();
const auto write_some = fastest<write_op>();
const auto add_to_some = fastest<add_one>();

}  // namespace

void Places::spread() {
  if (together_ == nowhere) return;
  std::ranges::fill(each_, together_);
  together_ = nowhere;
}

void Places::set(Lanes lanes, Lanes alive, int op) {
  if (!(alive & ~lanes)) {
    together_ = op;
  } else {
    spread();
    write_some(each_, lanes, op);
  }
}

void Places::advance(Lanes lanes, Lanes alive) {
  if (together_ != nowhere && !(alive & ~lanes)) {
    ++together_;
  } else {
    spread();
    add_to_some(each_, lanes);
  }
}

Group Places::furthest_behind(Lanes ready, int favoured) const {
  if (together_ != nowhere) return {together_, nowhere, ready};
  return find_group(each_, ready, favoured);
}

}  // namespace gpu
