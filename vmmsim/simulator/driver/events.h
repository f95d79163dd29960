// SPDX-License-Identifier: MIT-0
// Events: marks in streams, which other streams, the host and other processes wait for.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "driver.h"
#include "operations.h"

namespace driver {

struct SharedEvent {  // with other processes
  const uint32_t number;
  const bool is_opened;  // another process made it
  SharedEvent(uint32_t number, bool is_opened) : number(number), is_opened(is_opened) {}
  SharedEvent(const SharedEvent&) = delete;
  ~SharedEvent();
};

}  // namespace driver

struct CUevent_st {
  CUcontext context;
  unsigned flags;
  driver::Operation recorded GUARDED_BY(driver::state().lock);
  std::shared_ptr<const driver::SharedEvent> shared;  // null: it is this process's alone
  // Guarded by graphs().lock, and of an event that was last recorded in a stream that captured:
  std::shared_ptr<driver::Capture> capture = nullptr;
  std::vector<CUgraphNode> captured = {};
};

namespace driver {

std::shared_ptr<CUevent_st> checked(CUevent) EXCLUDES(state().lock);  // throws Refused{CUDA_ERROR_INVALID_HANDLE}

// What is started to record an event of several processes, or to wait for one; none for the others, which stand for
// an operation.
Start start_to_record(const CUevent_st&);
Start start_to_wait(const CUevent_st&);

}  // namespace driver
