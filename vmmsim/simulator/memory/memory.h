// SPDX-License-Identifier: MIT-0
// Physical memory, address spaces and multicast objects, as the calls of the driver see them. Sizes and addresses are
// in bytes. Everything here may be called from any thread. What the driver refuses is thrown as Refused.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include "../../trace/text.h"
#include "../mutex.h"
#include "page_table.h"
#include "submission.h"

namespace memory {

// Held while a call changes what this process has of the machine's memory. The functions here take it themselves.
extern Mutex process_lock;

// A refusal: the driver's answer, and in words which argument broke which rule and what to do.
struct Refused {
  CUresult error;
  std::string reason;
  std::optional<uint64_t> address = {};  // that a GPU may not touch so, if this is the reason
};
[[noreturn]] inline void refuse(CUresult error, const std::string& reason) { throw Refused{error, reason}; }
[[noreturn]] inline void refuse(const std::string& reason) { refuse(CUDA_ERROR_INVALID_VALUE, reason); }
inline void require_no_flags(unsigned long long flags) {
  if (flags) refuse("flags must be 0");
}

// Errors that came with CUDA 13.4: older headers lack their names.
constexpr auto multicast_resource_full = CUresult(47), fabric_not_ready = CUresult(919);

// The call that a thread makes. The driver says which; the functions here tell it what they change, and note by it who
// made something.
using Place = std::shared_ptr<std::atomic<unsigned>>;
struct Caller {
  std::string call = {};  // "cuMemCreate #3"
  Place place = {};       // of that call in the program, once it has made something, for --leaks
  // Changes to allocations, reservations, mappings and access, for --trace: objects of JSON, of which
  // ../../trace/README.md tells. Null: nobody wants to know.
  std::vector<std::string>* changes = nullptr;
};
Caller& caller();  // of this thread
// Who made something. What no call made is the simulator's own, and no leak.
struct Maker {
  std::string call = {};
  Place place = {};  // its value is a number of the driver's, once it has found the place
};

// The machine's GPU (0 to gpus * nodes - 1) of each CUdevice of this process. Once, before all other calls. Without it
// these are the GPUs of this process's node. All devices here are CUdevices.
void set_visible(std::vector<int> gpus);
int device_count();
int gpu_of(CUdevice);  // refuses with CUDA_ERROR_INVALID_DEVICE

// --- Allocation handles -------------------------------------------------------------------------------------------
using Handle = CUmemGenericAllocationHandle;
size_t granularity(const CUmemAllocationProp&, CUmemAllocationGranularity_flags);
Handle create(size_t size, const CUmemAllocationProp&, unsigned long long flags);
void release(Handle);
CUmemAllocationProp properties(Handle);
Handle retain(uint64_t address);                  // cuMemRetainAllocationHandle
int export_fd(Handle, unsigned long long flags);  // a descriptor, close-on-exec
CUmemFabricHandle export_fabric(Handle, unsigned long long flags);
Handle import_fd(intptr_t number);
// A descriptor, close-on-exec, that holds all memory of the range.
int export_dma_buf(uint64_t address, size_t size, unsigned long long flags);
uint64_t dma_buf_size(int fd);  // 0: it is none
Handle import_fabric(const CUmemFabricHandle&);

// --- Reservations, mappings, access -------------------------------------------------------------------------------
uint64_t reserve(size_t size, size_t alignment, uint64_t hint, unsigned long long flags);
void free_reservation(uint64_t address, size_t size);
// Of a context that begins. The first of all brings a region for small reservations, as on the H200. The addresses by
// which this process reaches the GPU's memory are taken too: there may be none left later.
void take_addresses_of_context(CUdevice);
void map(uint64_t address, size_t size, size_t offset, Handle, unsigned long long flags);  // multicast handles too
void unmap(uint64_t address, size_t size);
void set_access(uint64_t address, size_t size, std::span<const CUmemAccessDesc>);
unsigned long long get_access(const CUmemLocation&, uint64_t address);

// --- Multicast objects --------------------------------------------------------------------------------------------
size_t multicast_granularity(const CUmulticastObjectProp&, CUmulticastGranularity_flags);
Handle multicast_create(const CUmulticastObjectProp&);
void multicast_add_device(Handle, CUdevice);
int clique_of(CUdevice);  // GPUs of one clique can be in one team
// For a GPU of the team; if none is named, for that whose memory it is. Memory of the host needs one that is.
using TeamGpu = std::optional<CUdevice>;
void multicast_bind(Handle, TeamGpu, size_t offset, Handle memory, size_t memory_offset, size_t size,
                    unsigned long long flags);
void multicast_bind_address(Handle, TeamGpu, size_t offset, uint64_t address, size_t size, unsigned long long flags);
void multicast_unbind(Handle, CUdevice, size_t offset, size_t size);

// Called once by each thread of the simulator's own: it will never add a device to a multicast object. Where all other
// threads wait for a team that nobody can complete any more, the process ends with a message and status 125.
void this_thread_makes_no_calls();

// The frames that one page of a multicast mapping stands for, one for each GPU of the team, in the order of the
// machine; nullptr where a GPU has bound nothing. They change while others bind and unbind.
using Replicas = std::span<const std::atomic<char*>>;
template <class Work> void for_each_bound(Replicas replicas, Work work) {
  for (const std::atomic<char*>& bound : replicas)
    if (char* const frame = bound.load(std::memory_order_relaxed)) work(frame);
}
// `entry` is a page-table entry with the flag multicast. Cheap enough for every multimem instruction; any thread.
Replicas replicas(uint64_t entry);
char* own_replica(uint64_t entry, CUdevice);  // that of a GPU of the team: what an ordinary access of it reads, or null
// Which GPU has bound nothing, in words; "": each has bound something.
inline std::string what_is_unbound(uint64_t address, Replicas frames) {
  for (size_t gpu = 0; gpu < frames.size(); ++gpu)
    if (!frames[gpu])
      return "at " + hexadecimal(address) + " GPU " + std::to_string(gpu) + " of the " + std::to_string(frames.size()) +
             " in the multicast object's team has bound no memory: call cuMulticastBindMem for each of them first";
  return "";
}
// Says on stderr that a call or a kernel goes to a multicast address without a multimem instruction: of each process
// once, under --explain each time.
void log_ordinary_access(const std::string& who);

// --- Ordinary memory: cuMemAlloc, host memory, legacy IPC -----------------------------------------------------------
// Of an allocation what the driver knows. Without a context it is the simulator's own, such as a module's variables, or
// about to be freed: calls of the program know nothing of it then.
struct Owner {
  CUcontext context = nullptr;
  unsigned flags = 0;           // of host memory, as the program gave them
  CUmemoryPool pool = nullptr;  // that it came from
};
uint64_t allocate(CUdevice, size_t size, Owner = {});        // open to the device and to the peers it is enabled for
void* allocate_host(size_t size, bool managed, Owner = {});  // the same address on host and GPUs
void require_registrable(uint64_t address, size_t size, bool is_read_only);  // refuses
void register_host(uint64_t address, size_t size, bool is_read_only, Owner);
void free_allocation(uint64_t address);              // all of these, and opened IPC memory
bool is_registered(uint64_t address, bool writing);  // in a page of a page table that is so in part: see `partly`
CUipcMemHandle export_ipc(uint64_t address);
uint64_t open_ipc(CUdevice, const CUipcMemHandle&, Owner = {});  // an address for each device
void close_ipc(uint64_t address);                                // once; with the last time it is freed
void enable_peer(CUdevice device, CUdevice peer);  // `device` may from now on touch ordinary memory of `peer`
void disable_peer(CUdevice device, CUdevice peer);

// The memory for malloc in kernels: calls of the host know nothing at its addresses.
uint64_t allocate_heap(CUdevice, size_t size);
void free_heap(uint64_t address);

struct Free {
  size_t free, total;
};
Free memory_info(CUdevice);
Free memory_of(int gpu);  // of the machine, whether the process sees it or not

// --- Events that processes share -----------------------------------------------------------------------------------
uint32_t make_event();  // held by this process until close_event()
CUipcEventHandle export_event(uint32_t event);
uint32_t open_event(const CUipcEventHandle&);  // held likewise
void close_event(uint32_t event);
uint64_t record_event(uint32_t event);  // the sequence number of this time
uint64_t times_recorded(uint32_t event);
void reach_event(uint32_t event, uint64_t number);
bool is_reached(uint32_t event, uint64_t number);
void await_event(uint32_t event, uint64_t number);  // until it may be reached

// --- Looking things up --------------------------------------------------------------------------------------------
struct Range {
  enum Kind { vmm, ordinary, pool, host, registered, managed, multicast_range } kind;
  uint64_t base;
  size_t size;
  CUdevice device;                 // -1: none (host memory); of another process's: the one that opened it
  CUmemAllocationProp properties;  // of VMM memory; of a pool's only the handle types
  uint64_t id, block_id;           // CU_POINTER_ATTRIBUTE_BUFFER_ID and _MEMORY_BLOCK_ID
  bool mapped;                     // false: reserved only
  uint64_t range_base;             // of VMM memory: the reservation, or 0; of a pool: the block; of registered: without
                                   // the rest of its pages; else as base and size
  size_t range_size;
  unsigned host_access;             // of VMM memory: CUmemAccess_flags
  Owner owner;                      // of an allocation
  std::optional<bool> sync_memops;  // likewise: as the program has set it
};
void set_sync_memops(uint64_t address, bool);  // of the allocation that holds it
std::optional<Range> find(uint64_t address);   // the mapping, allocation or reservation that holds it
std::vector<Range> allocations_of(CUcontext);
// Takes an allocation from its owner, who is told: it is to be freed once nothing uses it any more. Throws
// Refused{CUDA_ERROR_INVALID_VALUE} unless one of such a kind begins at the address, `opened` (open_ipc) or not.
Range take_from_owner(uint64_t address, std::initializer_list<Range::Kind>, bool opened = false);

// A piece of a range as it lies in this process, at most one page.
struct Piece {
  char* bytes;  // at a multicast address: those of the GPU's own replica
  size_t size;
  Replicas replicas;  // at a multicast address: the frames of all of them; else none
  // Does to each replica, or to the only bytes that there are, what `work` does.
  template <class Work>
  void write(Work work) const {
    if (replicas.empty()) work(bytes);
    for_each_bound(replicas, [&](char* frame) { work(frame + reinterpret_cast<uint64_t>(bytes) % page_size); });
  }
};

// The bytes of a range in this process, piece by piece. Checks that `device` may read or write
// (CU_MEM_ACCESS_FLAGS_PROT_READ or _READWRITE) all of it first: throws Refused{CUDA_ERROR_INVALID_VALUE} if not.
// Host memory that the simulator does not know is passed through as it is.
void for_each_piece(CUdevice, uint64_t address, size_t size, CUmemAccess_flags,
                    const std::function<void(const Piece&)>&);

// Zeros bytes of a piece. What was never written stays untouched: it takes no memory, and reads as zeros already.
void clear(char* bytes, size_t size);

// What lies at an address for a GPU, and the call that would mend an access of it, in words: for faults.
std::string what_lies_at(CUdevice, uint64_t address, bool writing);

uint64_t ranges_given_back();  // by this process, so far
// Of an address where memory was unmapped after a call had `done` ("launched the kernel") what then came too late for
// it: in words, with what mends that. "": of no such address.
std::string unmapped_too_early(const Submission&, uint64_t address, const char* done);

// --- What is left at the end ----------------------------------------------------------------------------------------
Maker maker();  // of what the calling thread makes now

struct Leak {
  enum Kind { handle, multicast_object, mapping, reservation, allocation, registration, descriptor, dma_buf } kind;
  uint64_t size;
  std::string owner;  // "GPU 0", "the host"; "": addresses and multicast objects are no memory
  Maker made_by;
  unsigned more = 0;     // bindings of a multicast object, references of a handle
  uint64_t address = 0;  // of an allocation
};
struct Leaks {
  std::vector<Leak> all;
  std::map<std::string, uint64_t> held;  // bytes of cuMemCreate's memory that these keep from being free, by owner
};
Leaks leaks();  // all that is alive in this process

}  // namespace memory
