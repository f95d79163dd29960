// SPDX-License-Identifier: MIT-0
// Host memory of the program's own that it has registered. GPUs reach it at its own addresses, in pages of the host.
#include <unistd.h>

#include <bitset>
#include <cstdio>
#include <shared_mutex>

#include "../lasting.h"
#include "process.h"

namespace memory {
namespace {

const uint64_t host_page = uint64_t(sysconf(_SC_PAGESIZE));
constexpr uint64_t least_host_page = 4096;

// What GPUs may read and write of the host's pages in one of a page table.
struct Parts {
  std::bitset<page_size / least_host_page> readable, writable;
};

// The pages that are registered in part. Kernels look here.
struct PartlyRegistered {
  std::shared_mutex lock;  // after the process's
  std::map<uint64_t, Parts> pages;
};
PartlyRegistered& in_parts() { return lasting<PartlyRegistered>(); }

void write_entry(uint64_t page) REQUIRES(process_lock) {
  const auto& allocations = process().allocations;
  Parts found;
  auto next = find_containing(allocations, page);
  if (next == allocations.end()) next = allocations.begin();
  for (; next != allocations.end() && next->first < page + page_size; ++next) {
    const auto& [base, allocation] = *next;
    if (allocation.kind != Range::registered) continue;
    const uint64_t begin = base / host_page * host_page, end = round_up(base + allocation.size, host_page);
    for (uint64_t at = std::max(page, begin); at < std::min(page + page_size, end); at += least_host_page) {
      found.readable.set((at - page) / least_host_page);
      if (!allocation.is_read_only) found.writable.set((at - page) / least_host_page);
    }
  }
  const bool in_part = !found.readable.all() || (found.writable.any() && !found.writable.all());
  const Entry entry =
      page | mapped | readable | (found.writable.any() ? writable : Entry(0)) | (in_part ? partly : Entry(0));
  {
    const std::lock_guard held(in_parts().lock);
    in_parts().pages[page] = found;
    if (!in_part || found.readable.none()) in_parts().pages.erase(page);
  }
  for (CUdevice gpu = 0; gpu < device_count(); ++gpu) page_table(gpu).set(page, found.readable.none() ? 0 : entry);
}

void write_entries(uint64_t base, uint64_t size) REQUIRES(process_lock) {
  for (uint64_t page = base / page_size * page_size; page < base + size; page += page_size) write_entry(page);
}

// Whether the process has memory at all of these addresses that it may read, or write.
bool host_has(uint64_t address, uint64_t end, bool writing) {
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (!maps) return false;
  unsigned long long from, to;
  char rights[8];
  while (address < end && std::fscanf(maps, "%llx-%llx %7s%*[^\n]", &from, &to, rights) == 3)
    if (from <= address && address < to && rights[0] == 'r' && (!writing || rights[1] == 'w')) address = to;
  std::fclose(maps);
  return address >= end;
}

}  // namespace

void require_registrable(uint64_t address, size_t size, bool is_read_only) {
  const auto guard = lock_process();
  const uint64_t end = address + size;
  auto& allocations = process().allocations;
  if (!address || !size || end < address) refuse("p is null, or bytesize is 0 or too large");
  if (end >> processor::address_bits)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "a process has 2^" + std::to_string(processor::address_bits) + " bytes of addresses");
  const auto last = find_containing(allocations, end - 1);
  if (last != allocations.end() && last->second.kind == Range::registered && last->first + last->second.size > address)
    refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
           size_text(last->second.size) + " from " + hexadecimal(last->first) + " on are registered already" +
               (last->second.made_by.call.empty() ? "" : ", by " + last->second.made_by.call));
  for (const auto& [area, area_end] : process().areas)
    if (area < end && address < area_end) refuse("this is memory of CUDA's own, which GPUs reach as it is");
  if (!host_has(address / host_page * host_page, end, !is_read_only))
    refuse(
        "the process has no memory at some of these addresses, or may not write it: for what it may only read there is "
        "CU_MEMHOSTREGISTER_READ_ONLY");
}

void register_host(uint64_t address, size_t size, bool is_read_only, Owner owner) {
  const auto guard = lock_process();
  auto& allocations = process().allocations;
  Allocation added = {size, Range::registered, owner, ++process().ids, maker()};
  added.is_read_only = is_read_only;
  allocations[address] = added;
  write_entries(address, size);
}

void erase_registration(uint64_t address) {
  const uint64_t size = process().allocations.at(address).size;
  process().allocations.erase(address);
  write_entries(address, size);
  record_freed(address, size, "unregistered");
}

bool is_registered(uint64_t address, bool writing) {
  const std::shared_lock held(in_parts().lock);
  const auto found = in_parts().pages.find(address / page_size * page_size);
  if (found == in_parts().pages.end()) return false;
  return (writing ? found->second.writable : found->second.readable)[address % page_size / least_host_page];
}

std::optional<Range> find_registered(uint64_t address) {
  const auto found = allocation_with(address);
  if (found == process().allocations.end() || found->second.kind != Range::registered) return std::nullopt;
  const auto& [base, allocation] = *found;
  const uint64_t first = base / host_page * host_page, end = round_up(base + allocation.size, host_page);
  Range range = {};
  range.kind = Range::registered;
  range.base = first;
  range.size = end - first;
  range.device = -1;
  range.id = range.block_id = allocation.id;
  range.mapped = true;
  range.range_base = base;
  range.range_size = allocation.size;
  range.owner = owner_of(allocation);
  range.sync_memops = allocation.sync_memops;
  return range;
}

}  // namespace memory
