// SPDX-License-Identifier: MIT-0
// What all files of the driver share: the state of the process and of a thread, faults, and the usual checks. Beside it
// each kind of object has a header: contexts.h, streams.h, modules.h and others. The calls that a program makes stand
// in NAME_calls.cc, and what several files use of an object in NAME.cc.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../memory/memory.h"
#include "../mutex.h"
#include "call.h"

namespace gpu {
struct Fault;
}

namespace driver {

using memory::refuse;
using memory::require_no_flags;

// --- Calls ----------------------------------------------------------------------------------------------------------
// Here and in memory/ what is called require... or refuse... throws Refused, and what is called checked... returns what
// it was asked for or throws. What is called is_, has_ or may_ asks, and changes nothing.

const char* name_of(int error);

void log(const std::string& text);  // on stderr, in one piece

// Says, for --explain and once for each call, that an H200's driver would have crashed.
void log_crash(const std::string& text);

// Throws Refused{CUDA_ERROR_INVALID_VALUE} if a pointer that a call needs is null.
void require_non_null(const void* pointer, const char* name);
// Throws Refused with this error, CUDA_ERROR_INVALID_VALUE if none is named, unless the condition holds.
inline void require(bool holds, CUresult error, const char* reason) {
  if (!holds) refuse(error, reason);
}
inline void require(bool holds, const char* reason) { require(holds, CUDA_ERROR_INVALID_VALUE, reason); }
inline void require_flags(bool are_known) { require(are_known, "there are no such flags"); }
[[noreturn]] void refuse_not_simulated(const std::string& text);  // and says so on stderr
// Reasons of several calls.
inline constexpr char no_such_attribute[] = "there is no such attribute",
                      read_only_attribute[] = "this attribute can only be read", no_such_gpu[] = "there is no such GPU",
                      lacks_simulation[] = "it is not simulated";

// Runs `work` as a call of the program, see call.h.
template <class Work> CUresult call(const Call& description, int flags, const Work& work) {
  return CUresult(run(description, flags, name_of, [&] { return result_of(work); }));
}
template <class Work> CUresult call(const Call& description, const Work& work) { return call(description, none, work); }
// The work of a call that has one result, which goes to where the program wants it.
template <class Result, class Work> auto result_to(Result* to, const char* name, const Work& work) {
  return [=] {
    require_non_null(to, name);
    *to = work();
  };
}

template <class T> const T& given(const T* pointer,
                                  const char* name) {  // what a pointer leads to that must not be null
  require_non_null(pointer, name);
  return *pointer;
}

inline uint64_t bits(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
inline uint64_t bits(CUdeviceptr address) { return address; }
inline bool is_on_host(const memory::Range& range) {
  return range.kind == memory::Range::host || range.kind == memory::Range::registered;
}
inline bool is_host_vmm(const memory::Range& range) {  // of cuMemCreate, and on the host
  return range.kind == memory::Range::vmm && range.properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}

// --- The process ----------------------------------------------------------------------------------------------------

// All that the threads of the process share. Never destroyed: destructors of the program may still make calls at exit.
// What a handle names is known to its files alone.
template <class T> using Owned = std::map<T*, std::shared_ptr<T>>;
// What a pool's memory is, and where: an allocation type, a location's type and id. Each place has a default pool.
using PoolPlace = std::tuple<int, int, int>;
struct State {
  std::atomic<pid_t> initialized_in = 0;   // the process in which cuInit ran: a forked child has no driver
  std::atomic<bool> is_shut_down = false;  // the process exits, and all calls are refused
  std::atomic<int> exit_status = 0;        // with this
  std::atomic<CUresult> fault = CUDA_SUCCESS;

  Mutex lock;  // of what follows; not held while one waits
  std::string fault_reason GUARDED_BY(lock);
  std::string fault_where GUARDED_BY(lock);
  std::string fault_launch GUARDED_BY(lock);
  std::optional<uint64_t> fault_address GUARDED_BY(lock);
  std::vector<std::shared_ptr<CUctx_st>> contexts
      GUARDED_BY(lock);  // also those that have ended: so that they can be refused
  std::set<std::pair<CUcontext, CUcontext>> peers
      GUARDED_BY(lock);  // the first may touch ordinary memory of the second
  Owned<CUstream_st> streams GUARDED_BY(lock);
  unsigned long long last_stream GUARDED_BY(lock) = 2;  // its id; 1 and 2 are the legacy and the per-thread stream
  Owned<CUevent_st> events GUARDED_BY(lock);
  uint64_t last_operation GUARDED_BY(lock) = 0;   // its number
  std::set<uint64_t> under_way GUARDED_BY(lock);  // the numbers of operations that have not ended
  std::set<uint64_t> long_ones GUARDED_BY(lock);  // of these
  Condition an_end;                               // of an operation that somebody waits for, or a fault
  Owned<CUmod_st> modules GUARDED_BY(lock);
  std::set<CUfunction> functions GUARDED_BY(lock);
  Owned<CUlib_st> libraries GUARDED_BY(lock);
  std::set<CUkernel> kernels GUARDED_BY(lock);
  std::set<CUlinkState> linkers GUARDED_BY(lock);
  Owned<CUmemPoolHandle_st> pools GUARDED_BY(lock);
  std::map<PoolPlace, CUmemoryPool> default_pools GUARDED_BY(lock);
  std::map<PoolPlace, CUmemoryPool> pools_in_use GUARDED_BY(lock);  // where another than the default is
};
State& state();

// cuInit has run in this process.
void set_initialized();
// A child that was forked after cuInit has no driver. Takes no lock: a thread that the child has not may hold it.
void refuse_if_forked();
void require_initialized();  // throws Refused: for a call that looks at its arguments before that

// A kernel or copy that went wrong: all later calls of the process answer so. The first fault counts.
// `launch`: the call that the kernel comes from, if one goes wrong and its name is known.
void set_fault(const gpu::Fault&, const std::string& launch = "") EXCLUDES(state().lock);
CUresult fault();                           // CUDA_SUCCESS: none so far
void reset_fault() EXCLUDES(state().lock);  // after a fault the context is reset: it cannot be had again

// --- Threads --------------------------------------------------------------------------------------------------------

// A call of the program, until it has its answer.
struct CallContext {
  const Call& call;
  const int flags;                        // CallFlags
  const std::string name;                 // "cuMemAlloc"
  uint64_t nth = 0;                       // of this name in this process
  std::vector<std::string> changes = {};  // that it has made, for --trace
  int result = CUDA_SUCCESS;
  std::string reason = {};  // it is refused
  bool waits = false;       // so long that the trace has told of it
};

// Why calls are refused in a host function, and in a callback of a stream. The driver answers those that need no
// current context there: of streams and events, which have a context of their own.
inline constexpr char within_host_functions[] =
    "host functions and callbacks of streams must not call CUDA: they would wait for themselves";

// What is a thread's own.
struct Thread {
  CallContext* call = nullptr;      // that it makes: what is called within is the program's no more
  bool runs_host_function = false;  // or a callback of a stream
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<CUcontext> contexts;  // the last is current
};
Thread& thread();

}  // namespace driver
