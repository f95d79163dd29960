// SPDX-License-Identifier: MIT-0
// The values that conditional nodes of graphs look at. Kernels set them by their handles.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace gpu {

struct GraphCondition {
  uint64_t handle;
  std::atomic<unsigned> value = 0;
  explicit GraphCondition(uint64_t handle) : handle(handle) {}
  GraphCondition(const GraphCondition&) = delete;
  ~GraphCondition();
};

std::shared_ptr<GraphCondition> make_condition();
std::shared_ptr<GraphCondition> condition(uint64_t handle);  // null: there is none, or it is gone

}  // namespace gpu
