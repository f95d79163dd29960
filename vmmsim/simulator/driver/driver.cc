// SPDX-License-Identifier: MIT-0
#include "driver.h"

#include <unistd.h>

#include <cstdio>

#include "../gpu/gpu.h"
#include "../lasting.h"
#include "../memory/this_machine.h"
#include "../memory/thread_slot.h"

namespace driver {

State& state() { return lasting<State>(); }
Thread& thread() { return memory::thread_slot<Thread>(); }

void log_unsupported(const std::string& text) {
  log_once(text);
  if (!memory::options().unsupported_ends) return;
  std::fflush(stdout);
  _exit(125);
}

void log_crash(const std::string& text) {
  if (memory::options().explain)
    log_once(memory::caller().call + ": here an H200's driver (580.159.04) ended the process with SIGSEGV: " + text);
}

int not_simulated(const char* name) {
  log_once(std::string(name) + " is not simulated");
  explain(lacks_simulation);
  return CUDA_ERROR_NOT_SUPPORTED;
}

void refuse_not_simulated(const std::string& text) { refuse(CUresult(not_simulated(text.c_str())), lacks_simulation); }

void explain(const std::string& reason) {
  if (thread().call) thread().call->reason = reason;
}

void require_non_null(const void* pointer, const char* name) {
  if (!pointer) refuse(std::string(name) + " is null: give the address of a variable");
}

void set_fault(const gpu::Fault& fault, const std::string& launch) {
  const MutexLock held(state().lock);
  if (state().fault) return;
  state().fault_reason = fault.why;
  state().fault_where = fault.where;
  state().fault_launch = launch;
  state().fault_address = fault.address;
  state().fault = CUresult(fault.error);
}

void reset_fault() {
  const MutexLock held(state().lock);
  if (state().fault) state().fault = CUDA_ERROR_DEVICE_UNAVAILABLE;
}

CUresult fault() { return state().fault; }

}  // namespace driver
