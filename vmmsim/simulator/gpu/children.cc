// SPDX-License-Identifier: MIT-0
#include "children.h"
#include <cassert>
#include <vector>

namespace gpu {

void Children::prepare(uint64_t parameters, Launch launch) {
  const MutexLock lock(mutex_);
  prepared_[parameters] = std::move(launch);
}

std::optional<Launch> Children::take(uint64_t parameters) {
  const MutexLock lock(mutex_);
  auto node = prepared_.extract(parameters);
  return node ? std::optional(std::move(node.mapped())) : std::nullopt;
}

void Children::add(uint64_t block, Launch launch) {
  const MutexLock lock(mutex_);
  chains_[block].push_back({std::move(launch), nullptr});
}

void Children::add(uint64_t block, Task task) {
  const MutexLock lock(mutex_);
  chains_[block].push_back({{}, std::move(task)});
}

void Children::add_to_tail(Launch launch) {
  const MutexLock lock(mutex_);
  tail_.push_back({std::move(launch), nullptr});
}

void Children::run(const Fault* fault, std::function<void(const Fault*)> done) {
  if (fault) return done(fault);
  std::vector<Chain*> chains;  // which no more are added to: all blocks have ended
  {
    const MutexLock lock(mutex_);
    for (auto& [block, chain] : chains_) chains.push_back(&chain);
    done_ = std::move(done);
    running_ = chains.size() + 1;  // this call counts as one, so that they do not all end before the last has begun
  }
  for (Chain* const chain : chains) go_on(*chain);
  end_chain();
}

std::optional<Children::Item> Children::take_next(Chain& chain) {
  const MutexLock lock(mutex_);
  if (fault_ || chain.empty()) return std::nullopt;
  Item item = std::move(chain.front());
  chain.pop_front();
  return item;
}

void Children::go_on(Chain& chain) {
  while (std::optional<Item> item = take_next(chain)) {
    if (!item->task) {
      item->launch.done = [self = shared_from_this(), &chain](const Fault* fault) {
        self->end(fault);
        self->go_on(chain);
      };
      return launch(std::move(item->launch));
    }
    try {
      item->task();
    } catch (const Fault& fault) {
      end(&fault);
    }
  }
  end_chain();
}

void Children::end(const Fault* fault) {
  const MutexLock lock(mutex_);
  if (fault && !fault_) fault_ = *fault;
}

void Children::end_chain() {
  Chain* tail = nullptr;
  std::function<void(const Fault*)> done;
  std::optional<Fault> fault;
  {
    const MutexLock lock(mutex_);
    assert(running_ > 0);
    --running_;
    if (running_) return;
    if (!fault_ && !tail_.empty()) {
      running_ = 1;
      tail = &tail_;
    } else {
      done = std::move(done_);
      fault = fault_;
    }
  }
  if (tail) go_on(*tail);
  else done(fault ? &*fault : nullptr);
}

}  // namespace gpu
