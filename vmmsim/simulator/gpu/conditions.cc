// SPDX-License-Identifier: MIT-0
#include "conditions.h"

#include <map>

#include "../mutex.h"

namespace gpu {

namespace {

struct All {
  Mutex lock;
  std::map<uint64_t, std::weak_ptr<GraphCondition>> by_handle GUARDED_BY(lock);
  uint64_t last GUARDED_BY(lock) = 0;
};
All& all() {
  static All& all = *new All;  // kernels may run until the process ends
  return all;
}

}  // namespace

GraphCondition::~GraphCondition() {
  const MutexLock held(all().lock);
  all().by_handle.erase(handle);
}

std::shared_ptr<GraphCondition> make_condition() {
  const MutexLock held(all().lock);
  const auto made = std::make_shared<GraphCondition>(++all().last);
  all().by_handle[made->handle] = made;
  return made;
}

std::shared_ptr<GraphCondition> condition(uint64_t handle) {
  const MutexLock held(all().lock);
  const auto found = all().by_handle.find(handle);
  return found == all().by_handle.end() ? nullptr : found->second.lock();
}

}  // namespace gpu
