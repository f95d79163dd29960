// SPDX-License-Identifier: MIT-0
#include "events.h"

#include "../gpu/gpu.h"
#include "driver.h"

namespace driver {

std::shared_ptr<CUevent_st> checked(CUevent handle) {
  const MutexLock held(state().lock);
  const auto found = state().events.find(handle);
  require(found != state().events.end(), CUDA_ERROR_INVALID_HANDLE, "this is no event, or it has been destroyed");
  return found->second;
}

Start start_to_record(const CUevent_st& event) {
  if (!event.shared) return nullptr;
  const uint64_t number = memory::record_event(event.shared->number);
  return [shared = event.shared, number](const Operation& op) {
    gpu::run([=] {
      memory::reach_event(shared->number, number);
      ended(op);
    });
  };
}

Start start_to_wait(const CUevent_st& event) {
  if (!event.shared) return nullptr;
  const uint64_t number = memory::times_recorded(event.shared->number);
  return [shared = event.shared, number](const Operation& op) {
    gpu::poll([=] {  // some process's stream gets there
      const bool is_over = fault() || memory::is_reached(shared->number, number);
      if (is_over) ended(op);
      return is_over;
    });
  };
}

SharedEvent::~SharedEvent() { memory::close_event(number); }

}  // namespace driver
