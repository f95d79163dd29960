// SPDX-License-Identifier: MIT-0
// Ordinary memory: that of cuMemAlloc and of the host, and its legacy IPC. Under it are the same frames and page
// tables, but a program sees no handles, and rights come with cuCtxEnablePeerAccess. Small blocks share a 2 MiB page.
#include <sys/mman.h>
#include <unistd.h>

#include "process.h"

namespace memory {
namespace {

constexpr uint64_t smallest = 512;  // bytes: a block's alignment, and what its size is rounded up to

constexpr uint64_t small_block = page_size / 2;     // bytes: larger ones have pages of their own
constexpr uint64_t ipc_magic = 0x63706972616d6d76;  // "vmmaripc"
struct IpcHandle {
  uint64_t magic, token, key, offset, size;
  uint32_t record;
  ProcessIdentity maker;
};
static_assert(sizeof(IpcHandle) <= sizeof(CUipcMemHandle));

bool is_enabled(CUdevice device, CUdevice peer) REQUIRES(process_lock) {
  return device == peer || process().peers.count({device, peer});
}

void set_rights(Mapping& mapping) REQUIRES(process_lock) {
  const CUdevice owner = mapping.record == invalid_index ? -1 : device_of(ledger().record[mapping.record].gpu);
  mapping.access.resize(visible_gpus().size());
  for (size_t gpu = 0; gpu < mapping.access.size(); ++gpu) {
    const bool is_open = mapping.opener >= 0 ? CUdevice(gpu) == mapping.opener
                                             : mapping.record == invalid_index || is_enabled(CUdevice(gpu), owner);
    mapping.access[gpu] = is_open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : 0;
  }
}

// Calls map(record) for a record that is held, and gives it back if that fails.
template <class Map>
void map_record(uint32_t record, Map map) REQUIRES(process_lock) {
  try {
    gpu_memory(ledger().record[record].gpu);
    map(record);
  } catch (...) {
    release_record(record);
    throw;
  }
}

// Maps what a record of ordinary memory has, or host memory if there is no record. Returns the address.
uint64_t map_ordinary(uint32_t record, uint64_t size, Range::Kind kind, CUdevice opener = -1) REQUIRES(process_lock) {
  Mapping mapping = {};
  mapping.base = take_addresses(size, record == invalid_index);
  mapping.size = size;
  mapping.kind = kind;
  mapping.record = record;
  mapping.opener = opener;
  set_rights(mapping);
  add_mapping(mapping);
  return mapping.base;
}

// Where a small block has room in a page of such; 0: nowhere.
uint64_t room_for(CUdevice device, uint64_t size) REQUIRES(process_lock) {
  const Process& p = process();
  for (const auto& [base, mapping] : p.mappings) {
    if (!mapping.has_small_blocks || ledger().record[mapping.record].gpu != gpu_of(device)) continue;
    uint64_t address = base;
    for (auto next = p.allocations.lower_bound(base); next != p.allocations.end() && next->first < base + mapping.size;
         ++next) {
      if (next->first - address >= size) return address;
      address = next->first + round_up(next->second.size, smallest);
    }
    if (base + mapping.size - address >= size) return address;
  }
  return 0;
}

Allocations::iterator allocation_at(uint64_t address) REQUIRES(process_lock) {
  const auto found = process().allocations.find(address);
  if (found == process().allocations.end())
    refuse(hexadecimal(address) + (mapping_at(address) && mapping_at(address)->referent
                                       ? " was mapped by cuMemMap: unmap it and release its handle"
                                       : " is not where ordinary memory begins, or it was freed"));
  return found;
}

bool is_empty(const Mapping& mapping) REQUIRES(process_lock) {
  const auto next = process().allocations.lower_bound(mapping.base);
  return next == process().allocations.end() || next->first >= mapping.base + mapping.size;
}

void remove_allocation(Allocations::iterator found) REQUIRES(process_lock) {
  if (found->second.kind == Range::registered) return erase_registration(found->first);
  const Mapping& mapping = *mapping_at(found->first);
  erase_allocation(found->first);
  if (!is_empty(mapping)) return;
  const uint64_t base = mapping.base;
  remove_mapping(base);
  give_back_addresses(base);
}

void set_peer(CUdevice device, CUdevice peer, bool enabled) {
  const auto guard = lock_process();
  gpu_of(device);
  gpu_of(peer);
  if (enabled) {
    require_peers_left(device, gpu_of(peer));
    if (machine().bar1 && machine().bar1 < machine().memory)
      refuse(CUDA_ERROR_MAP_FAILED,
             "peer access needs all of the peer's memory in its BAR1, which has " + size_text(machine().bar1) +
                 ": open what is needed by cuMemSetAccess, or make the BAR1 large in the firmware");
  }
  if (enabled) process().peers.insert({device, peer});
  else process().peers.erase({device, peer});
  for (auto& [base, mapping] : process().mappings)
    if (mapping.kind == Range::ordinary && device_of(ledger().record[mapping.record].gpu) == peer) {
      set_rights(mapping);
      write_entries(mapping);
    }
  change("peer", {{"device", device}, {"peer", peer}, {"enabled", enabled}});
}

}  // namespace

void map_pool_unit(CUdevice device, uint64_t address, uint64_t size, const std::vector<unsigned char>& access,
                   uint32_t of_another) REQUIRES(process_lock) {
  const uint32_t unit = of_another == invalid_index ? take_memory(gpu_of(device), size) : of_another;
  map_record(unit, [&](uint32_t record) REQUIRES(process_lock) {
    Mapping mapping = {};
    mapping.base = address;
    mapping.size = size;
    mapping.kind = Range::pool;
    mapping.access = access;
    mapping.record = record;
    add_mapping(mapping);
  });
}

Allocations::iterator allocation_with(uint64_t address) {
  const auto found = find_containing(process().allocations, address);
  if (found == process().allocations.end()) return found;
  const Allocation& allocation = found->second;  // of the host's own the driver knows whole pages
  const uint64_t size = allocation.kind == Range::host ? round_up(allocation.size, 4096) : allocation.size;
  const bool is_within = address - found->first < size;
  return is_within ? found : process().allocations.end();
}

// The owner, as long as the allocation is not about to be freed.
Owner owner_of(const Allocation& allocation) { return allocation.is_taken ? Owner() : allocation.owner; }

void add_allocation(uint64_t address, Allocation added, CUdevice device) {
  added.id = ++process().ids;
  added.made_by = maker();
  process().allocations[address] = added;
  change("allocate",
         {{"address", hexadecimal(address)}, {"size", added.size}, {"device", device}, {"shared", added.opened > 0}});
}

void erase_allocation(uint64_t address) {
  const auto found = process().allocations.find(address);
  record_freed(address, found->second.size, "freed");
  process().allocations.erase(found);
  change("free", {{"address", hexadecimal(address)}});
}

uint64_t allocate(CUdevice device, size_t size, Owner owner) {
  const auto guard = lock_process();
  gpu_of(device);
  if (size == 0) refuse("the size is 0");
  if (size >> address_bits) refuse(CUDA_ERROR_OUT_OF_MEMORY, "no GPU has " + size_text(size));
  const uint64_t small = round_up(size, smallest);
  uint64_t address = small <= small_block ? room_for(device, small) : 0;
  if (!address) {
    require_mappings_left(device);
    map_record(take_memory(gpu_of(device), round_up(size, page_size)), [&](uint32_t record) REQUIRES(process_lock) {
      address = map_ordinary(record, round_up(size, page_size), Range::ordinary);
    });
    mapping_at(address)->has_small_blocks = small <= small_block;
  }
  add_allocation(address, {size, Range::ordinary, owner}, device);
  return address;
}

void free_allocation(uint64_t address) {
  const auto guard = lock_process();
  remove_allocation(allocation_at(address));
}

uint64_t allocate_heap(CUdevice device, size_t size) {
  const auto guard = lock_process();
  uint64_t address = 0;
  map_record(take_memory(gpu_of(device), round_up(size, page_size)), [&](uint32_t record) REQUIRES(process_lock) {
    address = map_ordinary(record, round_up(size, page_size), Range::ordinary);
  });
  return address;  // no allocation is known there
}

void free_heap(uint64_t address) {
  const auto guard = lock_process();
  record_freed(address, mapping_at(address)->size, "the heap of malloc in kernels, freed");
  remove_mapping(address);
  give_back_addresses(address);
}

void* allocate_host(size_t size, bool managed, Owner owner) {
  const auto guard = lock_process();
  if (size == 0) refuse("the size is 0");
  if (size >> address_bits) refuse(CUDA_ERROR_OUT_OF_MEMORY, "no host has " + size_text(size));
  const auto kind = managed ? Range::managed : Range::host;
  const uint64_t address = map_ordinary(invalid_index, round_up(size, page_size), kind);
  if (managed) madvise(reinterpret_cast<void*>(address), round_up(size, page_size), MADV_DONTFORK);  // as on an H100
  add_allocation(address, {size, kind, owner}, -1);
  return reinterpret_cast<void*>(address);
}

CUipcMemHandle export_ipc(uint64_t address) {
  const auto guard = lock_process();
  auto found = allocation_with(address);
  if (found == process().allocations.end()) found = allocation_at(address);
  if (found->second.kind != Range::ordinary || found->second.opened)
    refuse("only memory that this process made with cuMemAlloc can be shared so");
  const Mapping& mapping = *mapping_at(found->first);
  const IpcHandle contents = {ipc_magic,
                              ledger().token,
                              ledger().record[mapping.record].key,
                              found->first - mapping.base,
                              found->second.size,
                              mapping.record,
                              this_process()};
  return bytes_as<CUipcMemHandle>(contents);
}

uint64_t open_ipc(CUdevice device, const CUipcMemHandle& handle, Owner owner) {
  const auto guard = lock_process();
  gpu_of(device);
  const auto contents = bytes_as<IpcHandle>(handle);
  if (contents.magic != ipc_magic || contents.token != ledger().token || contents.record >= max_records)
    refuse("these 64 bytes are not a memory handle of cuIpcGetMemHandle");
  {
    const LedgerLock locked;
    const Record& record = ledger().record[contents.record];
    const bool is_there = record.kind == Record::physical && record.key == contents.key && is_held(contents.record);
    if (!is_there && has_ended(contents.maker))
      refuse(CUDA_ERROR_INVALID_HANDLE, "the process that made the memory has ended, and nobody else has it open");
    if (!is_there || record.node != node()) refuse("the memory of this handle was freed, or is on another node");
    if (record.maker == this_process())
      refuse(CUDA_ERROR_INVALID_CONTEXT, "this process made the memory: use its own pointer");
    acquire_record(contents.record);
  }
  uint64_t base = 0;
  for (const auto& [address, mapping] : process().mappings)
    if (mapping.record == contents.record && mapping.opener == device) base = address;
  if (base) release_record(contents.record);  // its mapping holds it
  else
    map_record(contents.record, [&](uint32_t record) REQUIRES(process_lock) {
      base = map_ordinary(record, ledger().record[record].size, Range::ordinary, device);
    });
  const uint64_t address = base + contents.offset;
  const auto found = process().allocations.find(address);
  if (found != process().allocations.end()) {
    ++found->second.opened;
    return address;
  }
  Allocation added = {contents.size, Range::ordinary, owner};
  added.opened = 1;
  add_allocation(address, added, device_of(ledger().record[contents.record].gpu));
  return address;
}

void close_ipc(uint64_t address) {
  const auto guard = lock_process();
  const auto found = allocation_at(address);
  if (!found->second.opened) refuse("the memory was not opened with cuIpcOpenMemHandle");
  found->second.is_taken = false;
  if (--found->second.opened == 0) remove_allocation(found);
}

void enable_peer(CUdevice device, CUdevice peer) { set_peer(device, peer, true); }
void disable_peer(CUdevice device, CUdevice peer) { set_peer(device, peer, false); }

Free memory_info(CUdevice device) { return memory_of(gpu_of(device)); }

Free memory_of(int gpu) {
  const auto guard = lock_process();
  const LedgerLock locked;
  sweep();
  return {ledger().gpu[gpu].free * page_size, machine().memory};
}

}  // namespace memory
