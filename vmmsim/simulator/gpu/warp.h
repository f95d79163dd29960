// SPDX-License-Identifier: MIT-0
// Blocks and warps while they run. A warp runs the lanes that stand at the same operation together, those furthest
// behind first, so that lanes that took different ways meet again; and gives the others a turn after a while, so that
// one lane may wait for another.
#pragma once
#include <chrono>
#include <memory>
#include <vector>
#include "alias_order.h"
#include "cache.h"
#include "places.h"

namespace gpu {

// The windows of the generic address space in which a block's shared memory and a thread's local memory appear: below
// all addresses at which Linux begins to place libraries and stacks (the highest TiB), above those of programs, with
// room for 2^45 bytes of reservations between.
constexpr uint64_t shared_window = 0x76f0'0000'0000, local_window = 0x76f1'0000'0000, window_size = 1u << 30;

// Where a cooperative kernel finds Launch::grid_workspace: %envreg1 and %envreg2 are the halves of this address.
constexpr uint64_t grid_window = 0x76f2'0000'0000;

// Where the addresses of functions begin. No memory lies there.
constexpr uint64_t function_window = 0x76f3'0000'0000;

// How often the stack that a program asked for the frames of called functions may take: those of PTX have other sizes
// than a GPU's.
constexpr size_t stack_allowance = 4;

// Of one thread of a kernel that calls functions.
struct CallStack {
  struct Call {
    const CallSite* site;
    const LoweredKernel::Frame* callee;
    int return_to;
  };
  std::vector<std::byte> bytes;  // the thread's local memory: the kernel's frame, and those of the calls
  std::vector<Call> calls;
  std::vector<uint64_t> saved;  // the callees' rows, as they were before the calls
};

struct ThreadBlock;
struct Cluster;

// What a warp that spins looks at (busy_wait.cc).
struct Watched {
  uint64_t address;
  const char* bytes;
  bool is_global;
  uint64_t entry;  // of the page table, if it is global
  unsigned size;
  uint64_t value;
};

struct Warp {
  ThreadBlock* block;
  VectorRegister* rows;   // LoweredKernel::rows of them
  unsigned first;         // index in the block of lane 0's thread
  Lanes alive = 0;        // lanes that have not exited
  Lanes waiting = 0;      // lanes that stand at a barrier or a warp-wide operation
  Lanes at_barrier = 0;   // those of them that wait for a barrier of the block, or for other grids
  Lanes at_grids = 0;     // those of them that wait for the grids that this one depends on
  Lanes in_cluster = 0;   // lanes that have arrived at the cluster's barrier in this phase ...
  Lanes for_cluster = 0;  // ... and those of them that wait for it
  Lanes polling = 0;      // lanes that did not find the phase of an mbarrier ended, in this round (Cluster::poll)
  Places places;          // of the lanes that do not run now
  int current = 0;        // the operation that runs, for the lanes in `running`
  Lanes running = 0;
  int next = 0;              // where the running lanes go: an operation that ends a run sets it ...
  bool diverged = false;     // ... or sets pc of all running lanes, and this
  Lanes meeting = 0;         // lanes that stand where the running ones may meet them ...
  int meeting_at = nowhere;  // ... the next operation at which lanes stand that are ready; nowhere: no others are
  bool meets_all = false;    // then no lanes are ready that stand elsewhere
  bool may_part = false;     // the running lanes need not be all that stand at this operation
  bool rests = false;        // set by an operation: the other warps' turn
  int favoured = -1;         // the lane whose turn it is although others are behind it; -1: none
  int group_budget = 0;      // operations until another lane is favoured
  int last_favoured = -1;
  unsigned turns = 0;            // that it has used up
  Lanes spinning = 0;            // lanes that need not run while the words watched do not change
  std::vector<Watched> watched;  // by these lanes
  std::chrono::steady_clock::time_point spins_since;
};

struct ThreadBlock {
  Cluster* cluster;
  const Launch* launch;
  const LoweredKernel* lowered;
  int device;                              // the GPU
  Dimensions index;                        // %ctaid
  std::unique_ptr<VectorRegister[]> rows;  // of all warps; what no operation has written yet means nothing
  size_t row_count;                        // at least as many as are used
  std::vector<std::byte> shared;  // static, then dynamic, then what is left of the last unit, which nobody asked for
  std::vector<std::byte> local;   // LoweredKernel::local_bytes for each thread, one thread after another
  std::vector<CallStack> stacks;  // in place of `local`, of each thread, if the kernel calls functions
  std::vector<Warp> warps;
  Cache cache;  // the first-level cache
  AliasOrder alias_order;
  struct Barrier {
    unsigned arrived = 0, expected = 0;  // threads; expected 0: all that have not exited
    unsigned threads = 0, ones = 0;      // for barrier.red: that have come, and whose predicate was true
    bool reduces = false;                // some wait for what barrier.red gives them
    Lanes waiting[32] = {};              // of each warp
  };
  Barrier barriers[16];
  size_t next_warp = 0;
  unsigned alive = 0;         // threads that have not exited
  bool awaits_grids = false;  // some threads of it do
  bool triggers = false;      // it lets the grids that depend on this one begin

  ThreadBlock(Cluster&, const Launch&, int device, Dimensions index);  // moves nowhere: its warps point to it
  ~ThreadBlock();
  ThreadBlock(const ThreadBlock&) = delete;
  ThreadBlock& operator=(const ThreadBlock&) = delete;
  size_t shared_bytes() const { return lowered->dynamic_shared_at + launch->dynamic_shared; }  // that were asked for
};

// Blocks that know of one another, by their ranks; one of them if the launch has no clusters. One thread of this
// machine runs them by turns.
struct Cluster {
  std::vector<std::unique_ptr<ThreadBlock>> blocks;
  unsigned alive = 0, arrived = 0;  // threads: that have not exited; of these, at the cluster's barrier in this phase
  // Of waits for mbarriers, where threads spin: the last one in vain, with the barrier's bits; and how often, and since
  // when, all threads have waited so or at other barriers, while none changed an mbarrier, passed a barrier or ended.
  struct Poll {
    const Warp* warp;
    const MicroOp* op;
    unsigned lane;
    uint64_t barrier;
  } poll = {};
  unsigned idle_rounds = 0;
  std::chrono::steady_clock::time_point idle_since;
  uint64_t events = 0, events_seen = 0;
  bool is_counted = false;  // among those whose blocks all let dependent grids begin, or have ended
  bool triggers() const;

  Cluster(const Launch&, int device, Dimensions first);  // whose first block has this index; moves nowhere
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
};

// In the window of shared memory each block of a cluster has a part, by its rank; a block its own one at the beginning
// as well.
constexpr unsigned cluster_shift = 24;
inline uint64_t in_shared_of(uint64_t address, unsigned rank) {
  constexpr uint64_t field = (uint64_t(window_size) >> cluster_shift) - 1;
  return (address & ~(field << cluster_shift)) | uint64_t(rank + 1) << cluster_shift;
}
Dimensions index_in_cluster(const ThreadBlock&);  // %cluster_ctaid
unsigned rank_in_cluster(const ThreadBlock&);

enum class Progress : uint8_t { ended, goes_on, waits };  // waits: for other blocks, the host or another process
// Runs the blocks for about `budget` operations of a warp, or until all threads wait. Throws Fault.
Progress run(Cluster&, long budget);
// One of them. waits: some of its warps spin, or all threads wait for others of the block or of the cluster.
Progress run(ThreadBlock&, long budget);

Lanes true_lanes(const VectorRegister& predicate);
// The running lanes that the operation's guard lets by.
Lanes active_lanes(const Warp&, const MicroOp&);
// Where a lane stands that does not run now.
const MicroOp& op_at(const Warp&, unsigned lane);
// The running lanes diverge: `some` go to (or stay at) one operation, the others to another.
void diverge(Warp&, Lanes some, int pc, int others);

// For a warp whose turn ends (busy_wait.cc): finds out whether it spins.
void look_for_spin(Warp&);
// True if it does, and what it looks at has not changed: it need not run now.
bool is_still_blocked(Warp&);

// For the end of a slice of time (mbarrier.cc): throws Fault if all threads wait for ever for mbarriers.
void notice_mbarrier_deadlock(Cluster&);

Dimensions thread_index(const Warp&, unsigned lane);  // %tid

// The kernel, block and thread, and the instruction with its line.
std::string where(const Warp&, const MicroOp&, unsigned lane);
// Ends the kernel: throws Fault with where() put before `what`.
[[noreturn]] void fault(const Warp&, const MicroOp&, unsigned lane, CUresult, const std::string& what,
                        std::optional<uint64_t> address = {});

}  // namespace gpu
