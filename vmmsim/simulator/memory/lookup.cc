// SPDX-License-Identifier: MIT-0
// What lies where, and what is left.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <initializer_list>
#include "process.h"

namespace memory {
namespace {

std::string gpu_name(CUdevice device) { return "GPU " + std::to_string(device); }
std::string in_words(const FreedRange& range) {
  return std::string(range.how) + (range.by.empty() ? "" : " by " + range.by);
}

int device_with(const Mapping& mapping) {
  if (mapping.opener >= 0) return mapping.opener;
  return mapping.record == invalid_index ? -1 : device_of(ledger().record[mapping.record].gpu);
}

std::optional<Range> find_ordinary(const Mapping& mapping, uint64_t address) REQUIRES(process_lock) {
  const auto found = allocation_with(address);
  if (found == process().allocations.end()) return std::nullopt;
  const auto& [base, allocation] = *found;
  Range range = {};
  range.kind = mapping.kind;
  range.range_base = base;
  range.range_size = allocation.size;
  const bool is_block = allocation.kind == Range::pool;  // and its mapping that, or of the host
  range.base = is_block ? mapping.base : base;
  range.size = is_block ? mapping.size : allocation.size;
  range.device = device_with(mapping);
  range.id = allocation.id;
  range.block_id = mapping.id;
  range.mapped = true;
  range.owner = owner_of(allocation);
  range.sync_memops = allocation.sync_memops;
  const Record* const record = mapping.kind == Range::pool ? &ledger().record[mapping.record] : nullptr;
  if (record && record->maker == this_process())  // of an import the driver tells none
    range.properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(record->handle_types);
  return range;
}

std::optional<Range> find_locked(uint64_t address) REQUIRES(process_lock) {
  const Process& p = process();
  const Mapping* const mapping = mapping_at(address);
  if (mapping && !mapping->referent) return find_ordinary(*mapping, address);
  if (!mapping)
    if (const auto registered = find_registered(address)) return registered;
  const auto reservation = find_holding(p.reservations, address);
  const bool is_reserved = reservation != p.reservations.end();
  if (!mapping && !is_reserved) return std::nullopt;
  Range range = {};
  range.kind = Range::vmm;
  range.device = -1;
  if (is_reserved) {
    range.base = range.range_base = reservation->first;
    range.size = range.range_size = reservation->second.size;
  }
  if (!mapping) return range;
  range.kind = mapping->kind;
  range.base = mapping->base;
  range.size = mapping->size;
  range.id = mapping->id;
  range.mapped = true;
  range.block_id = mapping->referent->handle;
  range.host_access = mapping->host_access;
  if (mapping->kind != Range::vmm) return range;
  range.properties = properties_of(*mapping->referent);
  range.device = device_with(*mapping);
  return range;
}

// Throws unless a GPU may touch this page of a range so. False: it is the host's.
bool require_page(CUdevice device, uint64_t address, uint64_t size, Entry entry, bool writing) {
  if (entry & multicast && options().strict)
    throw Refused{CUDA_ERROR_INVALID_VALUE,
                  "a multicast object is mapped at " + hexadecimal(address) + ": only multimem instructions go there",
                  address};
  if (entry & (writing ? writable : readable)) {
    const std::string unbound = entry & multicast ? what_is_unbound(address, replicas(entry)) : "";
    if (!unbound.empty()) throw Refused{CUDA_ERROR_INVALID_VALUE, unbound, address};
    return true;
  }
  {
    const auto guard = lock_process();
    if (!entry && address + size >= address && is_of_host(address, size)) return false;
  }
  throw Refused{CUDA_ERROR_INVALID_VALUE, what_lies_at(device, address, writing), address};
}

}  // namespace

std::optional<Range> find(uint64_t address) {
  const auto guard = lock_process();
  return find_locked(address);
}

void set_sync_memops(uint64_t address, bool value) {
  const auto guard = lock_process();
  const auto found = allocation_with(address);
  if (found != process().allocations.end()) found->second.sync_memops = value;
}

std::vector<Range> allocations_of(CUcontext context) {
  const auto guard = lock_process();
  std::vector<Range> all;
  for (const auto& [base, allocation] : process().allocations)
    if (owner_of(allocation).context == context) all.push_back(*find_locked(base));
  return all;
}

Range take_from_owner(uint64_t address, std::initializer_list<Range::Kind> kinds, bool opened) {
  const auto guard = lock_process();
  const auto found = process().allocations.find(address);
  const bool fits = found != process().allocations.end() && owner_of(found->second).context &&
                    std::find(kinds.begin(), kinds.end(), found->second.kind) != kinds.end() &&
                    (found->second.opened > 0) == opened;
  if (!fits)
    refuse(
        "no memory that this call frees begins at this address: was it freed before? What cuMemMap mapped is unmapped "
        "(cuMemUnmap), its handle released (cuMemRelease), and its addresses freed (cuMemAddressFree)");
  const Range taken = *find_locked(address);
  found->second.is_taken = true;
  return taken;
}

void for_each_piece(CUdevice device, uint64_t address, size_t size, CUmemAccess_flags access,
                    const std::function<void(const Piece&)>& work) {
  gpu_of(device);
  const PageTable& table = page_table(device);
  const bool writing = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const auto entry_at = [&](uint64_t at) {  // 0: of the host, to the end of the range
    const Entry entry = table.lookup(at);
    return entry & partly ? 0 : entry;
  };
  const auto left_in_page = [&](uint64_t done) {
    return std::min(size - done, page_size - (address + done) % page_size);
  };
  // All of it is checked before any of it is touched.
  for (uint64_t done = 0; done < size; done += left_in_page(done)) {
    const uint64_t at = address + done;
    if (!require_page(device, at, size - done, entry_at(at), writing)) break;
  }
  for (uint64_t done = 0; done < size; done += left_in_page(done)) {
    const uint64_t at = address + done, offset = at % page_size, piece = left_in_page(done);
    const Entry entry = entry_at(at);
    if (!entry) return work({reinterpret_cast<char*>(at), size - done, {}});
    char* const bytes = entry & multicast ? own_replica(entry, device) : frame(entry);
    if (!bytes) throw Refused{CUDA_ERROR_INVALID_VALUE, what_is_unbound(at, replicas(entry)), at};  // since the check
    work({bytes + offset, piece, entry & multicast ? replicas(entry) : Replicas()});
  }
}

std::string what_lies_at(CUdevice device, uint64_t address, bool writing) {
  const auto guard = lock_process();
  const std::string gpu = gpu_name(device), at = hexadecimal(address);
  const Mapping* const mapping = mapping_at(address);
  if (!mapping) {
    const auto& gone = process().gone;
    const auto last = std::find_if(gone.rbegin(), gone.rend(),
                                   [&](const FreedRange& freed) { return address - freed.base < freed.size; });
    const std::string was = last == gone.rend() ? "" : "; it was " + in_words(*last);
    const auto there = find_locked(address);
    if (there && there->kind == Range::registered)
      return at + " is host memory that is registered for reading only (cudaHostRegisterReadOnly)";
    if (there)
      return at + " is reserved, and nothing is mapped there" + was + ": map memory (cuMemMap) and open it to " + gpu +
             " (cuMemSetAccess)";
    if (!was.empty()) return at + " is neither mapped nor reserved" + was + ": use it before that, not after";
    const auto before = find_containing(process().mappings, address);
    if (before != process().mappings.end() && address - before->first < before->second.size + (page_size << 5))
      return at + " is neither mapped nor reserved; " + size_text(address - before->first - before->second.size) +
             " before it a mapping ends, from " + hexadecimal(before->first) + " on: does an index run past the end?";
    if (address < 1 << 16) return at + " is a null pointer, or an index from one: was the memory ever allocated?";
    if (!are_ours(address))
      return at +
             " is no address of CUDA: of the host's memory GPUs reach only what cuMemHostAlloc, cudaMallocHost "
             "and the like gave, and what is registered (cudaHostRegister)";
    return at +
           " is neither mapped nor reserved: reserve it (cuMemAddressReserve), map memory (cuMemMap) and open it "
           "to " +
           gpu + " (cuMemSetAccess)";
  }
  const std::string where =
      at + " lies in the mapping of " + size_text(mapping->size) + " from " + hexadecimal(mapping->base) + " on, ";
  const bool is_multicast = mapping->kind == Range::multicast_range;
  const std::string owner =
      mapping->record == invalid_index ? "the host" : owner_name(ledger().record[mapping->record].gpu);
  const std::string contents = is_multicast ? "of a multicast object" : "memory of " + owner;
  const std::string only = is_multicast ? "only multimem instructions go to a multicast address" : "";
  const unsigned has = device >= 0 && size_t(device) < mapping->access.size() ? mapping->access[size_t(device)] : 0;
  if (has == CU_MEM_ACCESS_FLAGS_PROT_READWRITE || (has && !writing))
    return where + contents + (is_multicast ? ": " + only + "; for an ordinary access map the memory itself, too" : "");
  if (mapping->opener >= 0)
    return at + " is another process's memory, and open to GPU " + std::to_string(mapping->opener) +
           " alone: open it again (cudaIpcOpenMemHandle) while " + gpu + " is the current device, for its own address";
  if (mapping->kind == Range::pool)
    return at + " is memory of a pool of " + owner + ", which is not open to " + gpu +
           ": call cuMemPoolSetAccess with a descriptor for " + gpu;
  if (mapping->kind == Range::ordinary)
    return at + " is ordinary memory of " + owner + ", and not open to " + gpu + ": call cudaDeviceEnablePeerAccess(" +
           std::to_string(device_of(ledger().record[mapping->record].gpu)) + ", 0) while " + gpu +
           " is the current device";
  std::string unopened;  // by what people expect to open it
  if (!is_multicast && owner == gpu) unopened = ", although it holds the memory";
  if (!is_multicast && owner != gpu) unopened = "; cudaDeviceEnablePeerAccess does not open it";
  return where + contents + ", which " + (has ? gpu + " may only read" : "is not open to " + gpu + unopened) +
         ": call cuMemSetAccess with a descriptor for " + gpu +
         (writing ? " and CU_MEM_ACCESS_FLAGS_PROT_READWRITE" : "") + (is_multicast ? "; and " + only : "");
}

std::string unmapped_too_early(const Submission& submission, uint64_t address, const char* done) {
  const auto guard = lock_process();
  const auto& gone = process().gone;
  const auto first = std::find_if(gone.begin(), gone.end(), [&](const FreedRange& freed) {
    return freed.number > submission.after_ranges && freed.how == "unmapped" && address - freed.base < freed.size;
  });
  if (first == gone.end() || mapping_at(address)) return "";
  return hexadecimal(address) + " is " +
         (is_reserved(address) ? "reserved, and nothing is mapped there" : "neither mapped nor reserved") +
         "; it was " + in_words(*first) + " after " + submission.call + " had " + done +
         ": wait for its stream (cudaStreamSynchronize) before the unmap";
}

// --- What is left at the end -----------------------------------------------------------------------------------------

namespace {

// The memory that a record stands for or, as a multicast object, has bound to it.
std::vector<uint32_t> memory_of_record(uint32_t number) REQUIRES(process_lock) {
  if (number == invalid_index) return {};
  const Record* const records = ledger().record;
  if (records[number].kind == Record::physical) return {number};
  std::vector<uint32_t> bound;
  if (records[number].kind == Record::multicast)
    for (uint32_t b = records[number].next; b != invalid_index; b = records[b].next) bound.push_back(records[b].memory);
  return bound;
}

std::string owner_of_record(uint32_t number) REQUIRES(process_lock) {
  if (number == invalid_index) return "the host";
  const Record& record = ledger().record[number];
  return record.kind == Record::physical ? owner_name(record.gpu) : "";
}

Leak leak_of(const AllocationHandle& handle) REQUIRES(process_lock) {
  const Record& record = record_of(handle);
  if (record.kind != Record::multicast)
    return {Leak::handle, record.size, owner_of_record(handle.record), handle.made_by, handle.references};
  return {Leak::multicast_object, record.size, "", handle.made_by, unsigned(memory_of_record(handle.record).size())};
}

Leak leak_of(uint64_t base, const Allocation& allocation) REQUIRES(process_lock) {
  if (allocation.kind == Range::registered)
    return {Leak::registration, allocation.size, "the host", allocation.made_by};
  const Mapping* const mapping = mapping_at(base);
  return {Leak::allocation,
          allocation.size,
          owner_of_record(mapping ? mapping->record : invalid_index),
          allocation.made_by,
          0,
          base};
}

// Descriptors that hold memory, also those that another process has sent.
std::vector<std::pair<Leak, uint32_t>> open_descriptors() REQUIRES(process_lock) {
  std::vector<std::pair<Leak, uint32_t>> found;
  const int most = int(std::min(sysconf(_SC_OPEN_MAX), 65536L));
  for (int fd = 0; fd < most; ++fd) {
    const uint64_t size = dma_buf_size(fd);
    const uint32_t record = exported_record(fd);
    if (record == invalid_index && !size) continue;
    const auto maker = process().exported.find(fd);
    Leak leak = {size ? Leak::dma_buf : Leak::descriptor, size, "", {}};
    if (!size) leak.size = ledger().record[record].size, leak.owner = owner_of_record(record);
    if (maker != process().exported.end()) leak.made_by = maker->second;
    found.emplace_back(leak, record);
  }
  return found;
}

}  // namespace

Leaks leaks() {
  const auto guard = lock_process();
  const Process& p = process();
  Leaks found;
  std::set<uint32_t> held;
  const auto add = [&](const Leak& leak, uint32_t record = invalid_index) REQUIRES(process_lock) {
    found.all.push_back(leak);
    for (const uint32_t memory : memory_of_record(record)) held.insert(memory);
  };
  for (const auto& [handle, referent] : p.handles)
    if (referent->references && !referent->made_by.call.empty()) add(leak_of(*referent), referent->record);
  for (const auto& [base, mapping] : p.mappings)
    if (mapping.referent && !mapping.made_by.call.empty())
      add({Leak::mapping, mapping.size, owner_of_record(mapping.record), mapping.made_by}, mapping.record);
  for (const auto& [base, reservation] : p.reservations)
    if (!reservation.made_by.call.empty()) add({Leak::reservation, reservation.size, "", reservation.made_by});
  for (const auto& [base, allocation] : p.allocations)
    if (allocation.kind == Range::registered || !allocation.made_by.call.empty()) add(leak_of(base, allocation));
  for (const auto& [descriptor, record] : open_descriptors()) add(descriptor, record);
  for (const uint32_t record : held) found.held[owner_of_record(record)] += ledger().record[record].size;
  return found;
}

}  // namespace memory
