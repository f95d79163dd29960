// SPDX-License-Identifier: MIT-0
// The ledger: what all processes of a simulated machine know of its physical memory. It is one file in memory, made by
// vmmsim, and one more for each GPU that holds its bytes. Who holds an allocation holds a lock on its line of the
// ledger through an open file: the kernel takes the lock away with the last copy of the file, in whatever process or
// message it was, so that memory is free again when its last holder is gone, however it went.
//
// What is here is whole again whenever a process dies that was changing it.
#pragma once
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include "../mutex.h"
#include "this_machine.h"

namespace memory {

constexpr unsigned max_gpus = 64 * 16, max_owners = max_gpus + 16, max_records = 1 << 17, max_present = 1024;
constexpr int32_t coming = -1;           // a process that has not locked its place yet
constexpr uint32_t invalid_index = ~0u;  // instead of the number of a record or frame

// A process, and no later one to which the system gives its number: when it started, in ticks since the system did, and
// in the low bits the number.
enum class ProcessIdentity : uint64_t {};
constexpr unsigned process_number_bits = 22;  // as many as Linux gives
ProcessIdentity this_process();
bool has_ended(ProcessIdentity);  // even if nobody has waited for it
constexpr int number_of(ProcessIdentity process) { return int(uint64_t(process) & ((1u << process_number_bits) - 1)); }

// A line of the ledger: physical memory, a multicast object, a binding of the one to the other, an event, or a pool
// that processes share.
struct Record {
  enum Kind : uint32_t { unused, physical, multicast, binding, event, pool } kind;
  uint32_t next;          // unused: the next unused one; multicast, binding: the (next) binding of the object
  uint64_t key;           // unlike that of any other record ever: fabric and IPC handles carry it
  uint64_t size;          // bytes
  uint32_t handle_types;  // it may be exported as
  int32_t gpu;            // of the machine, that physical memory or a binding is on; after the GPUs: hosts of the nodes
  int32_t node;           // that made it
  ProcessIdentity maker;  // the process
  uint16_t usage;         // CUmemAllocationProp::allocFlags
  uint8_t compression, rdma, location;
  bool on_fabric;           // multicast: exported there, so anybody may import it
  bool exported;            // as a descriptor: nobody's call need be the one with which it goes
  uint32_t first_frame;     // physical
  uint32_t bindings;        // physical: how many stand on it; they keep it
  uint32_t devices, added;  // multicast: the team's size, and how many of it are there
  uint64_t team[max_gpus / 64];
  uint32_t object, memory;         // binding: its records; physical: as `object` the pool that it is a unit of
  uint64_t offset, memory_offset;  // physical: of the unit in its pool
  uint64_t recorded, reached;      // event: how often, and up to which of these streams have got; changed atomically
  ProcessIdentity recorder;        // that was the last to record it
};

// A lock of all processes of a machine, in memory that they share.
class CAPABILITY("mutex") SharedMutex {
 public:
  void make();
  [[nodiscard]] bool lock() ACQUIRE();  // false: who held it has died with it
  void unlock() RELEASE();
  void mend();  // what it guards is whole again

 private:
  pthread_mutex_t mutex_;
};

// Up to the lock nothing changes but the counters. Who looks on from outside, as the labs' witness does, knows this
// layout: it sees whether all is as it was, and has a call fail by writing into the options.
struct Ledger {
  uint64_t token, bytes;                         // to know it again; of this file
  std::atomic<uint32_t> work_begun, work_ended;  // kernels, copies and the like, that may write to memory of GPUs
  Options options;
  Machine machine;
  int32_t trace_file, memory_file[max_owners];  // descriptors of vmmsim
  SharedMutex lock;                             // after the process's; of all that follows and is not atomic
  std::atomic<uint64_t> calls;                  // of those that --fail counts
  std::atomic<uint32_t> joined;                 // counts the devices that join multicast teams; who waits, waits here
  std::atomic<uint32_t> reached;                // counts the events that are reached; who waits, waits here
  std::atomic<uint64_t> bound;                  // counts changes of bindings
  std::atomic<int32_t> awaited;                 // the process for whose end an import waits (--slow-import)
  std::atomic<uint32_t> asked;                  // counts what asks in vain whether a child has ended (end_late)
  std::atomic<bool> has_exported;               // a descriptor, whoever it was
  std::atomic<int32_t> present[max_present];    // processes whose end the trace is to tell; 0: nobody; or `coming`
  uint64_t serial GUARDED_BY(lock);             // of keys
  int32_t processes GUARDED_BY(lock);           // that have made a call, with --fail or --slow-import
  uint32_t unused GUARDED_BY(lock);             // the first unused record
  uint32_t records GUARDED_BY(lock);            // those from here on were never used
  struct Gpu {
    uint32_t frames, free, first;
  } gpu[max_owners];  // `first` of the free frames
  Record record[max_records];
  uint32_t next[];  // frame -> the next of its allocation, or the next free one; GPU after GPU, then hosts

  int owners() const { return (machine.gpus + 1) * machine.nodes; }
  uint32_t* frames_of(int owner) { return next + uint64_t(owner) * gpu[0].frames; }
};
static_assert(offsetof(Ledger, options.fail_error) == 24 + 76 && offsetof(Ledger, options.fail_later) == 24 + 80 &&
              offsetof(Ledger, lock) >= 4096);

Ledger& ledger();            // joins the machine if this process has not yet
int ledger_file();           // a descriptor of it, close-on-exec
int open_ledger(int flags);  // the same, with an open file description of its own
int open_of_vmmsim(int descriptor, int flags);

// Holds the ledger's lock. Mends what a process left half done that died with it.
class SCOPED_CAPABILITY [[nodiscard]] LedgerLock {
 public:
  LedgerLock() ACQUIRE(ledger().lock);
  ~LedgerLock() RELEASE();
  LedgerLock(const LedgerLock&) = delete;
};

// Makes every chain of frames and records anew from the records themselves: what no record holds is free.
void rebuild(Ledger& ledger) REQUIRES(ledger.lock);

}  // namespace memory
