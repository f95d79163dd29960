// SPDX-License-Identifier: MIT-0
// Where the lanes of a warp stand. Mostly all of them stand at one operation.
#pragma once
#include <climits>
#include "lower.h"

namespace gpu {

constexpr int nowhere = INT_MAX;  // no operation

// Lanes that stand at one operation.
struct Group {
  int at;
  int next;  // the next operation ahead at which other lanes stand: there they may reconverge
  Lanes lanes;
};

class Places {
 public:
  int of(unsigned lane) const { return together_ == nowhere ? each_[lane] : together_; }
  // `alive`: all lanes that count.
  void set(Lanes, Lanes alive, int op);
  void advance(Lanes, Lanes alive);  // to the next operation
  // Of the lanes that are ready those furthest behind, or those that stand with the favoured one; -1: none is.
  Group furthest_behind(Lanes ready, int favoured) const;

 private:
  int together_ = 0;  // where all stand; nowhere: each at its own
  int each_[32] = {};
  void spread();
};

}  // namespace gpu
