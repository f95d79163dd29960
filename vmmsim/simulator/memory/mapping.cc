// SPDX-License-Identifier: MIT-0
// Mappings and access rights: what is written into the page tables.
#include <sys/mman.h>

#include "process.h"

namespace memory {
namespace {

std::string range(uint64_t address, uint64_t size) {
  return hexadecimal(address) + " to " + hexadecimal(address + size);
}

bool is_host(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

bool is_on_host(const Mapping& mapping) {
  return mapping.kind == Range::vmm && ledger().record[mapping.record].location != CU_MEM_LOCATION_TYPE_DEVICE;
}

Entry rights(unsigned access) {
  switch (access) {
    case CU_MEM_ACCESS_FLAGS_PROT_READ: return readable;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE: return readable | writable;
    default: return 0;
  }
}

// Writes the entries of all mappings of a record: whether it has several is a flag in each of them (`aliased`).
void write_entries_of(uint32_t record) REQUIRES(process_lock) {
  for (const auto& [base, mapping] : process().mappings)
    if (mapping.record == record) write_entries(mapping);
}

// The mappings within a range, which may not cut any. Refuses.
std::vector<Mapping*> mappings_within(uint64_t address, uint64_t size) REQUIRES(process_lock) {
  if (size == 0) refuse("size is 0: make it that of one or more whole mappings");
  std::vector<Mapping*> within;
  auto& mappings = process().mappings;
  auto next = find_containing(mappings, address);
  if (next == mappings.end() || next->first + next->second.size <= address) next = mappings.upper_bound(address);
  for (; next != mappings.end() && (next->first < address || next->first - address < size); ++next) {
    Mapping& mapping = next->second;
    if (mapping.kind != Range::vmm && mapping.kind != Range::multicast_range)
      refuse("the memory at " + hexadecimal(next->first) + " was not mapped by cuMemMap");
    if (next->first < address || mapping.size > size - (next->first - address))
      refuse("the range cuts the mapping from " + range(next->first, mapping.size) +
             ": only whole mappings can be named, so let it begin and end where they do");
    within.push_back(&mapping);
  }
  return within;
}

constexpr char still[] = ". What this call had opened or closed before it came to this stays so";
constexpr char opened_anew[] =
    "the memory was created with gpuDirectRDMACapable and mapped more than once, its first mapping was unmapped, and "
    "another was opened to its GPU since: unmap all of its mappings first";

void trace_access(const Mapping& mapping, int device, unsigned flags) {
  change("access",
         {{"address", hexadecimal(mapping.base)}, {"size", mapping.size}, {"device", device}, {"flags", flags}});
}

void open_to_host(Mapping& mapping, unsigned flags) REQUIRES(process_lock) {
  if (!is_on_host(mapping)) {
    if (!flags) return;
    write_entries(mapping);
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the memory at " + hexadecimal(mapping.base) +
                                         " is not on the host, which cannot be let in: make it with a location of "
                                         "type CU_MEM_LOCATION_TYPE_HOST_NUMA" +
                                         still);
  }
  mapping.host_access = static_cast<unsigned char>(flags);
  const int protection =
      (flags ? PROT_READ : PROT_NONE) | (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_WRITE : PROT_NONE);
  if (!show_to_host(ledger().record[mapping.record], mapping.base, protection)) {
    write_entries(mapping);
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host cannot be let into all of the memory at " + hexadecimal(mapping.base) +
                                         ": the process has as many mappings as vm.max_map_count allows" + still);
  }
  trace_access(mapping, -1, flags);
}

// RDMA memory whose first mapping is gone is opened to its own GPU alone, and at one place, as on the H200.
void open_to_gpu(Mapping& mapping, CUdevice device, unsigned flags) REQUIRES(process_lock) {
  const Record& record = ledger().record[mapping.record];
  std::set<uint64_t>& anew = mapping.referent->opened_anew;
  unsigned char& access = mapping.access[size_t(device)];
  const bool is_owner = record.gpu == visible_gpus()[size_t(device)];
  const bool lacks_first = record.rdma && !mapping.referent->imported && !mapping.referent->first_mapping;
  const bool adds = lacks_first && access != flags && flags;
  const bool is_second = adds && is_owner && !anew.empty() && !anew.contains(mapping.base);
  const bool fails = is_second || (adds && !is_owner);
  const bool is_open = access, opens = !fails && flags;
  if (opens && !is_open) {
    try {
      require_peers_left(device, record.gpu);
      count_open(mapping, device);
    } catch (const Refused& refused) {
      write_entries(mapping);
      refuse(refused.error, refused.reason + still);
    }
  }
  if (is_open && !opens) count_closed(mapping, device);
  if (adds && is_owner && !fails) anew.insert(mapping.base);
  if (is_owner && !flags) anew.erase(mapping.base);
  access = fails ? 0 : static_cast<unsigned char>(flags);
  trace_access(mapping, device, access);
  if (!fails) return;
  write_entries(mapping);
  if (is_second) refuse(CUDA_ERROR_UNKNOWN, std::string(opened_anew) + still);
  refuse("the memory at " + hexadecimal(mapping.base) +
         " was created with gpuDirectRDMACapable and mapped more than once, and its first mapping was unmapped: the "
         "driver opens it to no other GPU any more. Unmap all of its mappings, then map it anew" +
         still);
}

// Does to one mapping what descriptors say that have been looked at. Where it refuses, what stands before is done.
void open_mapping(Mapping& mapping, std::span<const CUmemAccessDesc> descriptors) REQUIRES(process_lock) {
  for (const auto& [location, flags] : descriptors)
    if (is_host(location)) open_to_host(mapping, flags);
    else open_to_gpu(mapping, location.id, flags);
  write_entries(mapping);
}

// Memory is mapped whole. Of a multicast object a part of whole granules may be, from its start on: so does
// microsoft/mscclpp (src/core/gpu_ipc_mem.cc), whose comment says that the offset must be 0.
void require_part(uint64_t offset, uint64_t size, uint64_t full_size, uint64_t multicast_granule) {
  const std::string all = size_text(full_size);
  if (!multicast_granule && (offset || size != full_size))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the allocation has " + all +
                                         ", and is mapped whole only: make offset 0, and size " + all +
                                         "; what shall be mapped in pieces is created in pieces (cuMemCreate)");
  if (multicast_granule && (offset || size > full_size))
    refuse(CUDA_ERROR_NOT_SUPPORTED, "the multicast object has " + all +
                                         ", and is mapped from its start only: make offset 0, and size at most " + all);
  if (multicast_granule && size % multicast_granule)
    refuse("size is " + size_text(size) + ": make it a multiple of " + size_text(multicast_granule));
}

}  // namespace

bool is_reserved(uint64_t address) {
  return find_holding(process().reservations, address) != process().reservations.end();
}

void write_entries(const Mapping& mapping) {
  uint64_t address = mapping.base;
  auto write = [&](Entry frame_bits) {
    for (size_t gpu = 0; gpu < mapping.access.size(); ++gpu)
      page_table(CUdevice(gpu)).set(address, frame_bits | mapped | rights(mapping.access[gpu]));
    address += page_size;
  };
  if (mapping.kind == Range::multicast_range) {
    for (uint64_t i = 0; i < mapping.size / page_size; ++i) write((mapping.multicast_page + i) << 21 | multicast);
  } else if (mapping.record == invalid_index) {  // host memory: the frame is where the host has it
    while (address < mapping.base + mapping.size) write(address);
  } else {
    const Entry alias = process().times_mapped[mapping.record] > 1 ? aliased : Entry(0);
    for_each_frame(ledger().record[mapping.record],
                   [&](char* bytes) { write(reinterpret_cast<Entry>(bytes) | alias); });
  }
}

Mapping* mapping_at(uint64_t address) {
  const auto found = find_holding(process().mappings, address);
  return found != process().mappings.end() ? &found->second : nullptr;
}

void add_mapping(Mapping mapping) {
  Process& p = process();
  mapping.id = ++p.ids;
  mapping.made_by = maker();
  mapping.access.resize(visible_gpus().size());
  const uint32_t record = mapping.record;
  if (mapping.referent && !mapping.referent->first_mapping) mapping.referent->first_mapping = mapping.base;
  Mapping& added = p.mappings[mapping.base];
  added = std::move(mapping);
  if (record != invalid_index && ++p.times_mapped[record] == 2) write_entries_of(record);
  else write_entries(added);
}

void remove_mapping(uint64_t base) {
  Process& p = process();
  const auto found = p.mappings.find(base);
  const Mapping gone = std::move(found->second);
  p.mappings.erase(found);
  for (CUdevice gpu = 0; gpu < device_count(); ++gpu)
    for (uint64_t offset = 0; offset < gone.size; offset += page_size) page_table(gpu).set(base + offset, 0);
  if (gone.host_access) take_from_host(base, gone.size);
  if (gone.kind == Range::multicast_range) give_back_multicast_pages(gone.multicast_page);
  if (gone.record != invalid_index) {
    const unsigned count = --p.times_mapped[gone.record];
    if (count == 1) write_entries_of(gone.record);
    if (count == 0) p.times_mapped.erase(gone.record);
  }
  if (gone.referent) {
    for (CUdevice gpu = 0; gpu < device_count(); ++gpu)
      if (gone.access[size_t(gpu)]) count_closed(gone, gpu);
    if (gone.referent->first_mapping == base) gone.referent->first_mapping = 0;
    gone.referent->opened_anew.erase(base);
    --gone.referent->mappings;
    forget_if_unused(gone.referent);
  } else if (gone.record != invalid_index) {
    release_record(gone.record);
  }
}

void map(uint64_t address, size_t size, size_t offset, Handle handle, unsigned long long flags) {
  const auto guard = lock_process();
  auto checked_referent = [&]() REQUIRES(process_lock) {
    require_no_flags(flags);
    if (size == 0) refuse("size is 0: make it that of the allocation");
    const auto referent = named(handle);
    if (!address) refuse("ptr is null: reserve addresses first (cuMemAddressReserve)");
    if (record_of(*referent).usage & CU_MEM_CREATE_USAGE_TILE_POOL)
      refuse(
          "the memory was created as a tile pool (allocFlags.usage), for sparse arrays alone: create it without, to "
          "map it at an address");
    const uint64_t full_size = record_of(*referent).size;
    const bool is_memory = record_of(*referent).kind != Record::multicast;
    const uint64_t unit = is_memory ? machine().granularity : machine().multicast_granularity;
    require_part(offset, size, full_size, is_memory ? 0 : unit);
    if (address % unit) refuse("ptr is " + hexadecimal(address) + ": make it a multiple of " + size_text(unit));
    // The driver does not look where the reservation ends: a range may go on in the next one.
    if (!is_reserved(address) || address + size > uint64_t(1) << address_bits)
      refuse(nothing_reserved_at(address) + ": reserve it first (cuMemAddressReserve)");
    const auto last = find_containing(process().mappings, address + size - 1);
    if (last != process().mappings.end() && last->first + last->second.size > address)
      refuse("memory is mapped already from " + range(last->first, last->second.size) +
             ": unmap it first, or take other addresses");
    if (!referent->opened_anew.empty()) refuse(CUDA_ERROR_UNKNOWN, opened_anew);
    return referent;
  };
  auto referent = checked_referent();
  const bool is_multicast = record_of(*referent).kind == Record::multicast;
  if (is_multicast && !machine().fabric_in_sync)
    refuse(CUDA_ERROR_ILLEGAL_STATE,
           "what the driver knows of the fabric is out of date: start Fabric Manager anew, and reset the GPUs");
  if (is_multicast) {
    wait_for_team(referent->record);
    referent = checked_referent();
  } else {
    gpu_memory(record_of(*referent).gpu);  // or no mapping is made
  }
  Mapping mapping = {};
  mapping.base = address;
  mapping.size = size;
  mapping.record = referent->record;
  mapping.referent = referent;
  mapping.kind = is_multicast ? Range::multicast_range : Range::vmm;
  if (is_multicast) mapping.multicast_page = take_multicast_pages(referent->record, size / page_size);
  ++referent->mappings;
  add_mapping(std::move(mapping));
  change("map", {{"address", hexadecimal(address)}, {"size", size}, {"handle", hexadecimal(handle)}});
}

void unmap(uint64_t address, size_t size) {
  const auto guard = lock_process();
  const auto within = mappings_within(address, size);
  if (!is_reserved(address)) refuse(nothing_reserved_at(address) + ": give an address where cuMemMap mapped something");
  for (const Mapping* mapping : within) {
    const uint64_t base = mapping->base, bytes = mapping->size;
    remove_mapping(base);
    record_freed(base, bytes, "unmapped");
    change("unmap", {{"address", hexadecimal(base)}, {"size", bytes}});
  }
}

void set_access(uint64_t address, size_t size, std::span<const CUmemAccessDesc> descriptors) {
  const auto guard = lock_process();
  if (descriptors.empty()) refuse("count is 0: give one access descriptor at least");
  const auto within = mappings_within(address, size);
  // It may have holes: then the call succeeds, and what is behind the first hole keeps its rights, as on the H200.
  if (within.empty() || within.front()->base != address || within.back()->base + within.back()->size != address + size)
    refuse("the range from " + range(address, size) +
           " does not begin and end with a mapping: map memory there first (cuMemMap), or leave the rest out");
  // All descriptors are looked at before anything is changed. Whether memory can be opened so shows only mapping by
  // mapping: what stands before the one that cannot be has been changed then, as on the H200.
  for (size_t i = 0; i < descriptors.size(); ++i) {
    const CUmemAccessDesc& descriptor = descriptors[i];
    const std::string named = "desc: descriptor " + std::to_string(i);
    const CUmemLocation& location = descriptor.location;
    const bool to_host = is_host(location);
    if (!to_host && (location.type != CU_MEM_LOCATION_TYPE_DEVICE || location.id < 0 ||
                     size_t(location.id) >= visible_gpus().size()))
      refuse(named +
             "'s location is no GPU of this process: set location.type to CU_MEM_LOCATION_TYPE_DEVICE and location.id "
             "to a CUdevice, of which there are " +
             std::to_string(visible_gpus().size()) + ", from 0 on; its location.id is " + std::to_string(location.id));
    if (descriptor.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && descriptor.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        descriptor.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      refuse(named + "'s flags must be CU_MEM_ACCESS_FLAGS_PROT_NONE, _READ or _READWRITE (0, 1 or 3)");
    const int gpu = to_host ? -1 : visible_gpus()[size_t(location.id)];
    for (const Mapping* mapping : within) {
      const Record& record = ledger().record[mapping->record];
      if (to_host || is_on_host(*mapping)) continue;
      if (mapping->kind == Range::multicast_range) {
        if (!(record.team[gpu / 64] >> gpu % 64 & 1))
          refuse("GPU " + std::to_string(location.id) + " is not of the multicast object's team");
      } else if (record.gpu != gpu && !machine().reaches(gpu, record.gpu)) {
        refuse(CUDA_ERROR_INVALID_DEVICE, "GPU " + std::to_string(location.id) + " cannot reach the memory of " +
                                              owner_name(record.gpu) + ": ask cuDeviceCanAccessPeer first");
      }
    }
  }
  uint64_t end = address;
  for (Mapping* mapping : within) {
    if (mapping->base != end) break;
    end += mapping->size;
    open_mapping(*mapping, descriptors);
  }
}

unsigned long long get_access(const CUmemLocation& location, uint64_t address) {
  const auto guard = lock_process();
  if (!address) refuse("ptr is null");
  if (!is_host(location) && location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    refuse(CUDA_ERROR_INVALID_DEVICE, "location.type is neither CU_MEM_LOCATION_TYPE_DEVICE nor one of the host");
  if (!is_host(location)) gpu_of(location.id);
  const Mapping* const mapping = mapping_at(address);
  if (mapping && !mapping->referent && allocation_with(address) != process().allocations.end())
    return CU_MEM_ACCESS_FLAGS_PROT_NONE;  // of ordinary memory, whoever may touch it: as on the H200
  if (!mapping || !mapping->referent) refuse("ptr: cuMemMap has mapped nothing at " + hexadecimal(address));
  // Where the host has no right, the driver tells of CU_MEM_LOCATION_TYPE_HOST the right of GPU 0.
  if (location.type == CU_MEM_LOCATION_TYPE_HOST && !mapping->host_access && !mapping->access.empty())
    return mapping->access[0];
  return is_host(location) ? mapping->host_access : mapping->access[size_t(location.id)];
}

}  // namespace memory
