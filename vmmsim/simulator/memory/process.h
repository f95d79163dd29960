// SPDX-License-Identifier: MIT-0
// What this process has of the machine's memory: handles, reservations, mappings, and the page table of each GPU.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>
#include "../../trace/line.h"
#include "memory.h"
#include "page_table.h"
#include "records.h"

namespace memory {

// What a handle names: memory or a multicast object. It lives until the last reference and the last mapping made by it
// are gone.
struct AllocationHandle {
  Handle handle;
  uint32_t record;
  bool imported;
  Maker made_by;
  unsigned references = 1, mappings = 0;
  // Of RDMA memory: the mapping that was made first. While that is gone and others are left, the memory is opened to no
  // other GPU. A new mapping takes its place, but there can be none while the owner has a right that it was given anew.
  uint64_t first_mapping = 0;
  std::set<uint64_t> opened_anew = {};
};

// Pages of addresses with something behind them. Mappings do not overlap.
struct Mapping {
  uint64_t base, size;
  Range::Kind kind;
  uint32_t record;                             // invalid_index: host memory
  std::shared_ptr<AllocationHandle> referent;  // vmm and multicast_range
  std::vector<unsigned char> access;           // of each GPU of this process: CUmemAccess_flags
  unsigned char host_access = 0;
  uint64_t multicast_page = 0;  // the number of the first
  bool has_small_blocks = false;
  CUdevice opener = -1;  // of another process's ordinary memory, which is open to this GPU alone
  uint64_t id;
  Maker made_by;
};

// Ordinary memory: one or, in a mapping of one page, several allocations. Those of a pool lie across mappings, and
// registered memory of the host is no mapping.
struct Allocation {
  uint64_t size;
  Range::Kind kind;
  Owner owner;
  uint64_t id = 0;
  Maker made_by = {};
  unsigned opened = 0;                   // IPC memory: how often; 0: this process made it
  bool is_read_only = false;             // registered
  bool is_taken = false;                 // from its owner
  std::optional<bool> sync_memops = {};  // as the program has set it, without effect
};

struct Reservation {
  uint64_t size;
  Maker made_by;
};

// Addresses that were taken from the kernel for reservations. One that a context began with stays.
struct Region {
  uint64_t begin, end;
  bool is_of_context;
};

// Addresses where something was: for what is told of faults.
struct FreedRange {
  uint64_t base, size, number;  // the last: in the order in which they went
  std::string_view how;         // "unmapped"
  std::string by;               // "cuMemUnmap #1"; "": by no call
};

// What a GPU has open of VMM memory, and what its tables of pages take for that.
struct OpenMappings {
  unsigned count = 0;
  std::unordered_map<uint64_t, unsigned> regions = {};  // those with a table of their own -> how many mappings
  std::vector<uint32_t> tables = {};                    // records of memory
};

struct Process {
  std::unordered_map<Handle, std::shared_ptr<AllocationHandle>> handles;
  std::map<uint64_t, uint64_t> areas;            // addresses that the process keeps for CUDA: begin, end
  std::vector<Region> regions;                   // those areas that hold reservations, the newest last
  std::map<uint64_t, Reservation> reservations;  // by address
  std::map<uint64_t, Mapping> mappings;
  std::map<uint64_t, Allocation> allocations;           // they do not overlap
  std::unordered_map<uint32_t, unsigned> times_mapped;  // record -> how many mappings of it there are
  std::unordered_map<CUdevice, OpenMappings> open;      // of VMM memory, to each GPU
  std::set<std::pair<CUdevice, CUdevice>> peers;        // (device, peer) that are enabled
  std::map<int, Maker> exported;                        // descriptors -> who made them
  std::deque<FreedRange> gone;                          // the latest is the last
  uint64_t ids = 0;
};
Process& process() REQUIRES(process_lock);
std::span<const int> visible_gpus();  // the machine's GPU of each CUdevice

// Begins a call: nobody else changes this process's memory while it lasts. Refuses in a child made by fork.
MutexLock lock_process() ACQUIRE(process_lock);

// Tells a change for --trace: its kind, and what it was. Addresses and handles are texts.
using trace::Member;
void change(trace::Kind, const std::vector<Member>&);
void record_freed(uint64_t base, uint64_t size, std::string_view how)
    REQUIRES(process_lock);  // by the call in progress

// --- Who has memory: the machine's GPUs by their numbers, and after them the host of each node
int host_of_node();
std::string owner_name(int owner);
int device_of(int gpu);  // -1: this process does not see it
// Whether all its own threads are in calls of the system that end by no time, but by what others do; unknown where the
// system does not tell. It may be asked in a handler of a signal.
enum class Waits { no, yes, unknown };
Waits is_blocked_on_peer(pid_t process);
Waits all_others_wait();  // of all other processes that are traced; unknown where it is not known of one
bool is_awaited();        // whether an import waits for the end of this process
void note_ask();          // in vain, whether a child has ended
uint32_t asked();         // how often anybody has

// --- Handles
std::shared_ptr<AllocationHandle> named(Handle) REQUIRES(process_lock);  // refuses with CUDA_ERROR_INVALID_VALUE
const Record& record_of(const AllocationHandle&);
// Of a record that is held.
std::shared_ptr<AllocationHandle> add_handle(uint32_t record, bool imported) REQUIRES(process_lock);
void forget_if_unused(const std::shared_ptr<AllocationHandle>&) REQUIRES(process_lock);
void require_fabric_ready();                                    // refuses while it is not ready
void require_handle_types(unsigned requested);                  // refuses what this machine does not have
CUmemAllocationProp properties_of(const AllocationHandle&);     // as granted, and its usage
[[noreturn]] void refuse_for_lack(int owner, uint64_t wanted);  // CUDA_ERROR_OUT_OF_MEMORY, with what is left
// A new record, held. Refuses with CUDA_ERROR_OUT_OF_MEMORY.
uint32_t take_memory(int owner, uint64_t size) REQUIRES(process_lock);

// --- Addresses
uint64_t take_addresses(uint64_t size, bool with_host_memory) REQUIRES(process_lock);  // anywhere, on a page; refuses
void give_back_addresses(uint64_t address) REQUIRES(process_lock);
void take_from_host(uint64_t address, uint64_t size) REQUIRES(process_lock);  // it faults there again
bool are_ours(uint64_t address) REQUIRES(process_lock);
// Whether it has memory there, other than what it has of CUDA.
bool is_of_host(uint64_t address, uint64_t size) REQUIRES(process_lock);
template <class Map> auto find_containing(Map& map, uint64_t address) {  // the entry at or before an address, or end()
  auto next = map.upper_bound(address);
  return next == map.begin() ? map.end() : --next;
}
template <class Map> auto find_holding(Map& map, uint64_t address) {  // the entry whose range holds it, or end()
  const auto found = find_containing(map, address);
  return found != map.end() && address - found->first < found->second.size ? found : map.end();
}
bool is_reserved(uint64_t address) REQUIRES(process_lock);
inline std::string nothing_reserved_at(uint64_t address) {  // a reason
  return "ptr: nothing is reserved at " + hexadecimal(address);
}
Mapping* mapping_at(uint64_t address) REQUIRES(process_lock);  // null: nothing is mapped there
void add_mapping(Mapping) REQUIRES(process_lock);              // and its entries in the page tables
void remove_mapping(uint64_t base) REQUIRES(process_lock);
void write_entries(const Mapping&) REQUIRES(process_lock);
void count_open(const Mapping&, CUdevice) REQUIRES(process_lock);  // one more; refuses
void count_closed(const Mapping&, CUdevice) REQUIRES(process_lock);
void require_mappings_left(CUdevice) REQUIRES(process_lock);  // refuses
// Whether a GPU may be let into another's memory, by whatever call; refuses. A machine may have few places for that.
void require_peers_left(CUdevice, int owner) REQUIRES(process_lock);

// --- Ordinary memory
// Of new memory, or of another process's that is held: the mapping holds it from then on. Refuses.
void map_pool_unit(CUdevice, uint64_t address, uint64_t size, const std::vector<unsigned char>& access, uint32_t record)
    REQUIRES(process_lock);
using Allocations = std::map<uint64_t, Allocation>;
void add_allocation(uint64_t address, Allocation, CUdevice) REQUIRES(process_lock);
void erase_allocation(uint64_t address) REQUIRES(process_lock);
Allocations::iterator allocation_with(uint64_t address) REQUIRES(process_lock);  // end(): none holds it
Owner owner_of(const Allocation&);

// --- Host memory that is registered
std::optional<Range> find_registered(uint64_t address) REQUIRES(process_lock);
void erase_registration(uint64_t address) REQUIRES(process_lock);

// --- Multicast
// The number of the first; refuses.
uint64_t take_multicast_pages(uint32_t object, uint64_t pages) REQUIRES(process_lock);
void give_back_multicast_pages(uint64_t first) REQUIRES(process_lock);
void wait_for_team(uint32_t object) REQUIRES(process_lock);  // lets go of it while it waits

}  // namespace memory
