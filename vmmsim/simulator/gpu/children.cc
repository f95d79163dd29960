// SPDX-License-Identifier: MIT-0
#include "children.h"

namespace gpu {

void Children::prepare(uint64_t parameters, Launch launch) {
  const std::lock_guard lock(mutex_);
  prepared_[parameters] = std::move(launch);
}

std::optional<Launch> Children::take(uint64_t parameters) {
  const std::lock_guard lock(mutex_);
  auto node = prepared_.extract(parameters);
  return node ? std::optional(std::move(node.mapped())) : std::nullopt;
}

void Children::add(uint64_t block, Launch launch) {
  const std::lock_guard lock(mutex_);
  chains_[block].push_back({std::move(launch), nullptr});
}

void Children::add(uint64_t block, Task task) {
  const std::lock_guard lock(mutex_);
  chains_[block].push_back({{}, std::move(task)});
}

void Children::add_to_tail(Launch launch) {
  const std::lock_guard lock(mutex_);
  tail_.push_back({std::move(launch), nullptr});
}

void Children::run(const Fault* fault, std::function<void(const Fault*)> done) {
  if (fault || (chains_.empty() && tail_.empty())) return done(fault);
  done_ = std::move(done);
  running_ = chains_.size() + 1;  // this call counts as one, so that they do not all end before the last has begun
  for (auto& [block, chain] : chains_) go_on(chain);
  end_chain();
}

void Children::go_on(Chain& chain) {
  while (!chain.empty()) {
    {
      const std::lock_guard lock(mutex_);
      if (fault_) break;
    }
    Item item = std::move(chain.front());
    chain.pop_front();
    if (item.task) {
      try {
        item.task();
      } catch (const Fault& fault) {
        end(&fault);
      }
      continue;
    }
    item.launch.done = [self = shared_from_this(), &chain](const Fault* fault) {
      self->end(fault);
      self->go_on(chain);
    };
    launch(std::move(item.launch));
    return;
  }
  end_chain();
}

void Children::end(const Fault* fault) {
  const std::lock_guard lock(mutex_);
  if (fault && !fault_) fault_ = *fault;
}

void Children::end_chain() {
  {
    const std::lock_guard lock(mutex_);
    --running_;
    if (running_) return;
    if (!fault_ && !tail_.empty()) running_ = 1;
  }
  if (running_) go_on(tail_);
  else done_(fault_ ? &*fault_ : nullptr);
}

}  // namespace gpu
