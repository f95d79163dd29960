// SPDX-License-Identifier: MIT-0
// How long kernels take: whoever waits for a slow one is told which it is, how far it is, and what makes it shorter.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace gpu {

// All launches of a kernel in this process. Who calls holds the workers' lock.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  static std::shared_ptr<Pace> kernel(const std::string& name);
  explicit Pace(const std::string& name) : name_(name) {}
  void launched() { ++launches_; }
  // A worker runs a block of it, until ended(). Time in which no worker does is not counted.
  void begun();
  // "": nothing is to be said. Else a line for stderr; it comes rarely, whenever six times as long has passed.
  std::string ended(uint64_t blocks_done, uint64_t blocks);

 private:
  std::string name_;
  uint64_t launches_ = 0;
  unsigned running_ = 0;  // workers
  Clock::time_point since_;
  Clock::duration taken_{}, next_line_;
  bool has_next_line_ = false;
};

}  // namespace gpu
