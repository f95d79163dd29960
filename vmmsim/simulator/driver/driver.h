// SPDX-License-Identifier: MIT-0
// What the driver's files know of one another: contexts, streams and their operations, modules, and the usual checks.
#pragma once
#include "../gpu/gpu.h"
#include "../gpu/heap.h"
#include "../memory/memory.h"
#include "../memory/of_thread.h"
#include "../memory/page_table.h"
#include "../memory/this_machine.h"
#include "call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace driver {

struct OperationNode;  // of a stream: a kernel, a copy, or a mark that others wait for
using Operation = std::shared_ptr<OperationNode>;
struct Capture;  // of streams into a graph: capture.cc

struct StreamAttributes {  // what can be set and is kept, without effect
  CUaccessPolicyWindow window = {};
  CUsynchronizationPolicy policy = CUsynchronizationPolicy(-1);
  CUlaunchMemSyncDomainMap domains = {0, 1};
  CUlaunchMemSyncDomain domain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
};

}  // namespace driver

struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  CUcontext context;
  unsigned flags = 0;
  int priority = 0;
  driver::StreamAttributes attributes;
  unsigned long long id = 0;
  driver::Operation last;               // the operation that was put in last
  std::deque<driver::Operation> work;   // what enqueue_work() put in, from the first that has not ended, or earlier
  driver::Operation known_as_long;      // of that: nobody waits again for its end before putting in more
  std::atomic<bool> destroyed = false;  // it is kept until its operations have ended
  // Guarded by graphs().lock:
  std::shared_ptr<driver::Capture> capture;        // null: it does not capture
  std::vector<CUgraphNode> captured;               // what the next node will depend on
  std::vector<CUgraphEdgeData> edges_of_captured;  // as they are given to the program: zeros
};

namespace driver {

struct SharedEvent {  // with other processes
  const uint32_t number;
  const bool is_opened;  // another process made it
  SharedEvent(uint32_t number, bool is_opened) : number(number), is_opened(is_opened) {}
  ~SharedEvent();
};

}  // namespace driver

struct CUevent_st {
  CUcontext context;
  unsigned flags;
  driver::Operation recorded;
  std::shared_ptr<const driver::SharedEvent> shared;  // null: it is this process's alone
  // Guarded by graphs().lock, and of an event that was last recorded in a stream that captured:
  std::shared_ptr<driver::Capture> capture = nullptr;
  std::vector<CUgraphNode> captured = {};
};

struct CUctx_st {
  CUdevice device;
  bool is_primary = false;
  std::atomic<int> retained = 0;  // a context that is not primary has 1 until it is destroyed
  std::atomic<unsigned> flags = 0;
  unsigned long long id = 0;
  std::atomic<CUfunc_cache> cache = CU_FUNC_CACHE_PREFER_NONE;
  std::map<CUlimit, size_t> limits;
  std::shared_ptr<gpu::Heap> heap;  // of the size that the limits say
  CUstream_st legacy;               // the stream called 0
};

struct CUfunc_st {
  CUmodule module;
  std::string name;
  gpu::Kernel* kernel;
  std::atomic<int> dynamic_shared, carveout = -1;  // what attributes set: most bytes of a launch, per cent
};

namespace driver {
// Of a module, or of all modules of a library: each is one allocation, at the same address on the host and all GPUs.
struct ManagedVariables {
  std::map<std::string, gpu::Module::Global> all;
  ManagedVariables() = default;
  ManagedVariables(const ManagedVariables&) = delete;
  ~ManagedVariables();
};
}  // namespace driver

struct CUmod_st {
  CUcontext context;
  CUlibrary library = nullptr;
  std::shared_ptr<gpu::Module> module;
  uint64_t variables = 0;  // where the memory of its variables begins, 0: it has none
  std::shared_ptr<driver::ManagedVariables> managed = {};
  int constants = 0;  // bytes of those in constant memory
  std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};

namespace driver {

using memory::refuse;

const char* name_of(int error);

// For --explain, once for each call: where an H200's driver does not answer but crash.
void tell_of_crash(const std::string& what);

// Throws Refused{CUDA_ERROR_INVALID_VALUE} if a pointer that a call needs is null.
void need(const void* pointer, const char* name);
// Throws Refused with this error unless the condition holds.
inline void require(bool holds, CUresult error, const char* why) {
  if (!holds) refuse(error, why);
}

// Runs `work` as a call of the program, see call.h.
template <class Work> CUresult call(const Call& it, int flags, const Work& work) {
  return CUresult(run(it, flags, name_of, [&] { return result_of(work); }));
}
template <class Work> CUresult call(const Call& it, const Work& work) { return call(it, none, work); }
// The work of a call that has one result, which goes to where the program wants it.
template <class Result, class Work> auto result_to(Result* to, const char* name, const Work& work) {
  return [=] {
    need(to, name);
    *to = work();
  };
}

// cuInit has run in this process.
void set_initialized();
// A child that was forked after cuInit has no driver. Takes no lock: a thread that the child has not may hold it.
void refuse_if_forked();

// A kernel or copy that went wrong: all later calls of the process answer so. The first fault counts.
void set_fault(const gpu::Fault&);
CUresult fault();    // CUDA_SUCCESS: none so far
void reset_fault();  // after a fault the context is reset: it cannot be had again

// All that the threads of the process share. Never destroyed: destructors of the program may still make calls at exit.
// What a handle names is known to its file alone.
template <class T> using Owned = std::map<T*, std::shared_ptr<T>>;
struct State {
  std::atomic<pid_t> initialized_in = 0;  // the process in which cuInit ran: a forked child has no driver
  std::atomic<bool> is_over = false;      // the process exits, and all calls are refused
  std::atomic<int> exit_status = 0;       // with this
  std::atomic<CUresult> fault = CUDA_SUCCESS;

  std::mutex lock;  // of what follows; not held while one waits
  std::string fault_why, fault_where;
  std::vector<std::unique_ptr<CUctx_st>> contexts;  // also those that have ended: so that they can be refused
  std::set<std::pair<CUcontext, CUcontext>> peers;  // the first may touch ordinary memory of the second
  Owned<CUstream_st> streams;
  unsigned long long last_stream = 2;  // its id; 1 and 2 are the legacy and the per-thread stream
  Owned<CUevent_st> events;
  uint64_t last_operation = 0;     // its number
  std::set<uint64_t> under_way;    // the numbers of operations that have not ended
  std::condition_variable an_end;  // of an operation that somebody waits for, or a fault
  Owned<CUmod_st> modules;
  std::set<CUfunction> functions;
  Owned<CUlib_st> libraries;
  std::set<CUkernel> kernels;
  std::set<CUlinkState> linkers;
  Owned<CUmemPoolHandle_st> pools;
  std::map<CUdevice, CUmemoryPool> pools_in_use;
};
State& state();

// Throws Refused in a thread for which a capture prohibits calls that do not go into a stream, or wait for one. The
// capture is invalid then.
void forbid_in_capture();

// What is a thread's own.
struct Thread {
  bool is_in_call = false;          // of the program: what that calls is none
  bool runs_host_function = false;  // or a callback of a stream, in which nearly all calls are refused
  std::string why;                  // of the refusal in progress
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<CUcontext> contexts;                          // the last is current
  std::map<CUcontext, std::weak_ptr<CUstream_st>> streams;  // that it calls 2; they go with the context, or with it
  ~Thread() {
    for (const auto& [context, stream] : streams)
      if (const auto left = stream.lock()) left->destroyed = true;
  }
};
Thread& thread();

// --- Devices, contexts --------------------------------------------------------------------------------------------
CUdevice checked(CUdevice);    // throws Refused{CUDA_ERROR_INVALID_DEVICE}
bool has_current();            // a context, which may have ended
CUcontext current();           // of this thread; throws Refused{CUDA_ERROR_INVALID_CONTEXT or _CONTEXT_IS_DESTROYED}
CUcontext checked(CUcontext);  // throws likewise
int current_device();          // of this thread; -1: no context is current
std::vector<CUcontext> all_contexts();                             // the state is held
std::optional<gpu::Module::Global> variable_at(uint64_t address);  // of a module
void forget_modules(CUcontext);  // modules, streams, events and memory of a context that ends
void forget_streams(CUcontext);
void forget_memory(CUcontext);

// --- Kernels ------------------------------------------------------------------------------------------------------
constexpr int most_shared = 232448;  // bytes a block can have, static and dynamic
// A function, or a context's function of a kernel: the driver takes either. The context is the current one if null.
CUfunction checked(CUfunction, CUcontext = nullptr);

// --- Memory -------------------------------------------------------------------------------------------------------
inline uint64_t bits(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }
inline uint64_t bits(CUdeviceptr address) { return address; }
inline bool is_on_host(const memory::Range& range) {
  return range.kind == memory::Range::host || range.kind == memory::Range::registered;
}
inline bool is_host_vmm(const memory::Range& range) {  // of cuMemCreate, and on the host
  return range.kind == memory::Range::vmm && range.properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
}
void give_back(const memory::Range&);  // what was taken from its owner
void give_back_pools();                // what pools hold beyond their thresholds: at each synchronisation

// --- Streams ------------------------------------------------------------------------------------------------------
CUstream_st& stream(CUstream);  // 0, 1 and 2 too; throws Refused{CUDA_ERROR_INVALID_HANDLE}
// Puts an operation into a stream: it starts when those before it have ended, and `also` if given. `start` sees to it
// that ended() is called once; without one it is a mark. The state is not held.
using Start = std::function<void(const Operation&)>;
Operation enqueue(CUstream_st&, Start start, const Operation& also = nullptr);
// The same for what the GPU does. It waits first while the stream holds as much of that as it can.
Operation enqueue_work(CUstream_st&, Start start);
uint64_t number_of(const Operation&);  // in the order in which all were put in
void ended(const Operation&);
bool has_ended(const Operation&);  // true for none
CUresult query(const Operation&);  // CUDA_ERROR_NOT_READY: it has not
void wait(const Operation&);       // throws Refused if there has been a fault
std::chrono::steady_clock::time_point end_of(const Operation&);
void synchronize(CUcontext);  // waits for all its streams; throws likewise
void settle();                // lets all that was put in go on until nothing of it ends any more

}  // namespace driver
