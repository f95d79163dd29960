// SPDX-License-Identifier: MIT-0
// What a kernel launches and copies itself. It begins when the kernel's own blocks have ended, which a program cannot
// tell from a busy GPU: kernels cannot wait for what they have launched.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include "../mutex.h"
#include "gpu.h"

namespace gpu {

// The children of one launch. What one block has begun runs in order, whatever stream it named: streams promise no
// more than that they may run at once. Tail launches come when all else has ended.
class Children : public std::enable_shared_from_this<Children> {
 public:
  using Task = std::function<void()>;  // may throw Fault
  void prepare(uint64_t parameters, Launch);
  std::optional<Launch> take(uint64_t parameters);  // what was prepared there
  void add(uint64_t block, Launch);
  void add(uint64_t block, Task);
  void add_to_tail(Launch);
  uint64_t new_stream() { return next_stream_++; }
  std::atomic<uint32_t> last_error = 0;  // a cudaError_t

  // For Launch::done of the parent: calls `done` when all has ended.
  void run(const Fault*, std::function<void(const Fault*)> done);

 private:
  struct Item {
    Launch launch;
    Task task;  // in place of the launch
  };
  using Chain = std::deque<Item>;
  std::optional<Item> take_next(Chain&);  // none: a chain is at its end, or a fault has ended all
  void go_on(Chain&);                     // begins a chain's next item
  void end(const Fault*);
  void end_chain();
  Mutex mutex_;
  std::map<uint64_t, Launch> prepared_ GUARDED_BY(mutex_);
  std::map<uint64_t, Chain> chains_ GUARDED_BY(mutex_);  // of each block that has begun something
  Chain tail_ GUARDED_BY(mutex_);
  size_t running_ GUARDED_BY(mutex_) = 0;  // chains
  std::optional<Fault> fault_ GUARDED_BY(mutex_);
  std::function<void(const Fault*)> done_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> next_stream_ = 0x100;
};

}  // namespace gpu
