// SPDX-License-Identifier: MIT-0
// How long kernels take: whoever waits for a slow one is told which it is, how far it is, and what makes it shorter.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include "../mutex.h"

namespace gpu {

// gpu.cc: of the workers, and of what they and launches have in common.
extern Mutex workers_lock;

// All launches of a kernel in this process.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  static std::shared_ptr<Pace> kernel(const std::string& name) REQUIRES(workers_lock);
  explicit Pace(const std::string& name) : name_(name) {}
  void launched() REQUIRES(workers_lock) {
    ++launches_;
    before_ = taken_;
  }
  // A worker runs a block of it, until ended(). Time in which no worker does is not counted.
  void begun() REQUIRES(workers_lock);
  // "": nothing is to be said. Else a line for stderr; it comes rarely, whenever six times as long has passed.
  std::string ended(uint64_t blocks_done, uint64_t blocks) REQUIRES(workers_lock);

 private:
  std::string name_;
  uint64_t launches_ GUARDED_BY(workers_lock) = 0;
  unsigned running_ GUARDED_BY(workers_lock) = 0;  // workers
  Clock::time_point since_ GUARDED_BY(workers_lock);
  Clock::duration taken_ GUARDED_BY(workers_lock){}, next_line_ GUARDED_BY(workers_lock);
  Clock::duration before_ GUARDED_BY(workers_lock){};  // what was taken when the last launch began
  bool has_next_line_ GUARDED_BY(workers_lock) = false;
};

}  // namespace gpu
