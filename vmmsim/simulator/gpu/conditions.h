// SPDX-License-Identifier: MIT-0
// The values that conditional nodes of graphs look at. Kernels set them by their handles.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace gpu {

struct Condition {
  uint64_t handle;
  std::atomic<unsigned> value = 0;
  explicit Condition(uint64_t handle) : handle(handle) {}
  Condition(const Condition&) = delete;
  ~Condition();
};

std::shared_ptr<Condition> make_condition();
std::shared_ptr<Condition> condition(uint64_t handle);  // null: there is none, or it is gone

}  // namespace gpu
