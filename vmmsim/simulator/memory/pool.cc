// SPDX-License-Identifier: MIT-0
#include "pool.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <tuple>
#include "process.h"

namespace memory {
namespace {

// What a block takes: a multiple of 512 bytes. No pool has 2^47.
uint64_t taken_by(uint64_t size) { return round_up(std::min(size, uint64_t(1) << address_bits), 512); }

constexpr uint64_t block_magic = 0x636f6c626d6d76;  // "vmmbloc"
struct SharedBlock {
  uint64_t magic, token, key, offset, size;
};
static_assert(sizeof(SharedBlock) <= sizeof(CUmemPoolPtrExportData));

uint32_t new_shared_pool(int gpu, unsigned handle_types) REQUIRES(process_lock) {
  const LedgerLock locked;
  const uint32_t record = new_record(Record::pool, "a pool");
  ledger().record[record].gpu = gpu;
  ledger().record[record].handle_types = handle_types;
  acquire_record(record);
  return record;
}

// Another process's unit, held; invalid_index: it was given back.
uint32_t find_unit(uint32_t pool, uint64_t offset) REQUIRES(process_lock) {
  const LedgerLock locked;
  for (uint32_t number = 0; number < ledger().records; ++number) {
    const Record& record = ledger().record[number];
    if (record.kind != Record::physical || record.object != pool || record.offset != offset || !is_held(number))
      continue;
    acquire_record(number);
    return number;
  }
  return invalid_index;
}

}  // namespace

// Addresses for twice the GPU's memory, as on the H200: blocks need neighbouring ones, and memory only where they are.
// Or for no more than the pool may take.
void Pool::take_room(uint64_t most) {
  const uint64_t size = round_up(std::min(most ? most : UINT64_MAX, 2 * machine().memory), unit);
  try {
    addresses_ = take_addresses(size + unit, on_host_.has_value());
  } catch (...) {
    if (record_ != invalid_index) release_record(record_);
    throw;
  }
  first_ = round_up(addresses_, unit);
  access_.resize(visible_gpus().size());
  for (size_t gpu = 0; gpu < access_.size(); ++gpu)
    if (CUdevice(gpu) == device_) access_[gpu] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  add_gap(first_, {size, nullptr, nullptr, 0});
}

Pool::Pool(CUdevice device, unsigned handle_types, uint64_t most) : device_(device), record_(invalid_index) {
  const auto guard = lock_process();
  const int gpu = gpu_of(device);
  constexpr unsigned known = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_FABRIC;
  if (handle_types & ~known) refuse("handleTypes has bits of other types than fd and fabric");
  require_handle_types(handle_types & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);  // fabric needs no channel yet
  if (handle_types) record_ = new_shared_pool(gpu, handle_types);
  take_room(most);
}

Pool::Pool(OnHost kind, uint64_t most) : on_host_(kind), record_(invalid_index) {
  const auto guard = lock_process();
  take_room(most);
}

Pool::Shared Pool::shared_by(intptr_t number) {
  const auto guard = lock_process();
  const int fd = static_cast<int>(number);
  const uint32_t record = exported_record(fd);
  if (record == invalid_index || ledger().record[record].node != node())
    refuse(CUDA_ERROR_UNKNOWN, "descriptor " + std::to_string(fd) +
                                   " is not one that cuMemPoolExportToShareableHandle gave on this node: was it "
                                   "closed, or is it the number of another process's?");
  if (ledger().record[record].kind != Record::pool)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "descriptor " + std::to_string(fd) +
                                         " is of memory, not of a pool: import it with "
                                         "cuMemImportFromShareableHandle");
  if (device_of(ledger().record[record].gpu) < 0)
    refuse(CUDA_ERROR_INVALID_DEVICE, "the pool is of a GPU that this process does not see");
  return {record};
}

Pool::Pool(Shared shared) : is_imported_(true), record_(shared.record) {
  const auto guard = lock_process();
  device_ = device_of(ledger().record[record_].gpu);
  acquire_record(record_);  // the descriptor holds it, so it is still there
  take_room();
}

Pool::~Pool() {
  const auto guard = lock_process();
  give_back_addresses(addresses_);
  if (record_ != invalid_index) release_record(record_);
}

// The gap behind all blocks comes last, one without memory after those that have it; then the smallest that is large
// enough, and of equal ones that which came to be first.
Pool::Gaps::iterator Pool::find(uint64_t size, const std::function<bool(const Gap&)>& fits) {
  const auto rank = [&](Gaps::iterator gap) {
    const bool is_last = std::next(gap) == gaps_.end();
    return std::tuple(is_last, !is_backed(gap->first, size), gap->second.size, gap->second.number);
  };
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second.size >= size && fits(gap->second) && (best == gaps_.end() || rank(gap) < rank(best))) best = gap;
  return best;
}

bool Pool::is_backed(uint64_t address, uint64_t size) const {
  for (uint64_t at = address / unit * unit; at < address + size; at += unit)
    if (!units_.contains(at)) return false;
  return true;
}

// Joins it with neighbours of the same stream.
void Pool::add_gap(uint64_t address, Gap gap) {
  auto next = gaps_.lower_bound(address);
  if (next != gaps_.end() && next->first == address + gap.size && next->second.stream == gap.stream) {
    gap.size += next->second.size;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second.size == address && before->second.stream == gap.stream) {
      gap.size += before->second.size;
      address = before->first;
      gaps_.erase(before);
    }
  }
  gaps_[address] = std::move(gap);
}

// What was freed last comes first, as on the H200.
void Pool::settle(const MayHave& settled) {
  std::vector<Gaps::iterator> reached;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (const Gap& at = gap->second; at.stream && settled(at.stream, at.time, *at.reached)) reached.push_back(gap);
  std::sort(reached.begin(), reached.end(), [](auto a, auto b) { return a->second.number > b->second.number; });
  for (const auto& gap : reached) {
    const auto [address, size] = std::pair(gap->first, gap->second.size);
    gaps_.erase(gap);
    add_gap(address, {size, nullptr, nullptr, ++numbers_});
  }
}

// Sees to it that there is memory at these addresses, or changes nothing and refuses.
void Pool::back(uint64_t address, uint64_t size) {
  std::vector<uint64_t> added;
  for (uint64_t at = address / unit * unit; at < address + size; at += unit) {
    if (units_.contains(at)) continue;
    try {
      map_unit(at);
    } catch (...) {
      for (const uint64_t unit_address : added) unmap_unit(unit_address);
      throw;
    }
    added.push_back(at);
  }
}

// Managed memory is everybody's, whatever is said of its pool.
std::vector<unsigned char> Pool::rights() const {
  if (on_host_ != OnHost::managed) return access_;
  return std::vector<unsigned char>(access_.size(), CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

void Pool::map_unit(uint64_t address) {
  if (on_host_) {
    Mapping mapping = {};
    mapping.base = address;
    mapping.size = unit;
    mapping.kind = on_host_ == OnHost::managed ? Range::managed : Range::host;
    mapping.access = rights();
    mapping.record = invalid_index;
    add_mapping(mapping);
    units_.insert(address);
    return;
  }
  uint32_t other_unit = invalid_index;
  if (is_imported_) {
    other_unit = find_unit(record_, address - first_);
    if (other_unit == invalid_index) refuse("the process that made the block has freed it");
  }
  map_pool_unit(device_, address, unit, access_, other_unit);
  units_.insert(address);
  if (is_imported_ || record_ == invalid_index) return;
  const LedgerLock locked;
  Record& record = ledger().record[mapping_at(address)->record];
  record.object = record_;
  record.handle_types = ledger().record[record_].handle_types;
  record.offset = address - first_;
}

void Pool::unmap_unit(uint64_t address) {
  if (!is_imported_ && record_ != invalid_index) {  // others may have it still, but nobody finds it any more
    const LedgerLock locked;
    ledger().record[mapping_at(address)->record].object = invalid_index;
  }
  remove_mapping(address);
  units_.erase(address);
  if (on_host_) madvise(reinterpret_cast<void*>(address), unit, MADV_REMOVE);
}

// Of the gap what is before the block and behind it is left.
void Pool::take_from_gap(Gaps::iterator gap, uint64_t address, uint64_t size) {
  const auto [begin, was] = std::pair(gap->first, std::move(gap->second));
  gaps_.erase(gap);
  if (begin < address) {
    gaps_[begin] = was;
    gaps_[begin].size = address - begin;
  }
  const uint64_t end = begin + was.size;
  if (address + size == end) return;
  gaps_[address + size] = was;
  gaps_[address + size].size = end - address - size;
}

uint64_t Pool::allocate(uint64_t size, const void* stream, Owner owner, const MayHave& settled,
                        const MayHave& followed) {
  const auto guard = lock_process();
  const uint64_t room = taken_by(size);
  auto found = find(room, [&](const Gap& gap) { return gap.stream == stream; });
  if (found == gaps_.end()) {
    settle(settled);
    found = find(room, [&](const Gap& gap) {
      return !gap.stream || (followed && followed(gap.stream, gap.time, *gap.reached));
    });
  }
  if (found == gaps_.end())
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the pool has no " + size_text(size) + " of neighbouring addresses");
  try {
    back(found->first, room);
  } catch (const Refused&) {  // what it keeps elsewhere may make room
    give_back(0);
    try {
      back(found->first, room);
    } catch (const Refused& refused) {  // for the last unit: of the block it tells more
      if (refused.error != CUDA_ERROR_OUT_OF_MEMORY || on_host_) throw;
      const LedgerLock locked;
      refuse_for_lack(gpu_of(device_), room);
    }
  }
  const uint64_t address = found->first;
  take_from_gap(found, address, room);
  add_allocation(address, {size, Range::pool, owner}, device_);
  ++blocks_;
  return address;
}

void Pool::free(uint64_t block, const void* stream, Reached reached, uint64_t time) {
  const auto guard = lock_process();
  const uint64_t size = process().allocations.at(block).size;
  erase_allocation(block);
  --blocks_;
  add_gap(block, {taken_by(size), stream, std::move(reached), ++numbers_, time});
}

// By another process, which may import blocks of it again: the unit stays the same to both.
bool Pool::is_mapped_elsewhere(uint64_t address) const {
  return record_ != invalid_index && !is_imported_ && is_held(mapping_at(address)->record, true);
}

void Pool::give_back(uint64_t bytes) {
  auto at = units_.end();
  while (at != units_.begin() && reserved() - unit >= bytes) {
    --at;
    const auto gap = find_containing(gaps_, *at);
    const bool is_free = gap != gaps_.end() && !gap->second.stream && *at + unit <= gap->first + gap->second.size;
    if (!is_free || is_mapped_elsewhere(*at)) continue;
    const uint64_t given_back = *at;
    ++at;
    unmap_unit(given_back);
  }
}

unsigned Pool::handle_types() const {
  const auto guard = lock_process();
  return record_ == invalid_index ? 0 : ledger().record[record_].handle_types;
}

int Pool::export_fd(CUmemAllocationHandleType type) {
  const auto guard = lock_process();
  const bool is_known = type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || type == CU_MEM_HANDLE_TYPE_FABRIC;
  if (!is_known || record_ == invalid_index || !(ledger().record[record_].handle_types & type))
    refuse("the pool was made without this type of handle: cuMemPoolCreate needs it in handleTypes");
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    require_handle_types(type);
    refuse(CUDA_ERROR_NOT_SUPPORTED, "fabric handles of memory pools are not simulated");
  }
  const int fd = export_record(record_);
  was_exported_ = true;
  fcntl(fd, F_SETFD, 0);  // a program that this one executes gets it, as on the H200
  process().exported[fd] = maker();
  return fd;
}

CUmemPoolPtrExportData Pool::export_block(uint64_t block) const {
  const auto guard = lock_process();
  if (record_ == invalid_index)
    refuse("the block's pool was made for this process alone: cuMemPoolCreate needs handleTypes");
  if (!was_exported_) refuse("the block's pool was not exported yet: cuMemPoolExportToShareableHandle comes first");
  const SharedBlock contents = {block_magic, ledger().token, ledger().record[record_].key, block - first_,
                                process().allocations.at(block).size};
  return bytes_as<CUmemPoolPtrExportData>(contents);
}

uint64_t Pool::import_block(const CUmemPoolPtrExportData& data, Owner owner) {
  const auto guard = lock_process();
  const auto contents = bytes_as<SharedBlock>(data);
  if (contents.magic != block_magic || contents.token != ledger().token)
    refuse("these 64 bytes are not what cuMemPoolExportPointer gave");
  if (!is_imported_) refuse("the pool is this process's own: import blocks into an imported one");
  if (contents.key != ledger().record[record_].key) refuse("the block is of another pool");
  const uint64_t address = first_ + contents.offset, room = taken_by(contents.size);
  if (process().allocations.contains(address)) return address;  // once more, and freed once all the same
  settle();
  const auto gap = find_containing(gaps_, address);
  const bool is_free = gap != gaps_.end() && !gap->second.stream && address + room <= gap->first + gap->second.size;
  if (!is_free) refuse("a block that had the place of this one is imported here, and not yet freed");
  back(address, room);
  take_from_gap(gap, address, room);
  add_allocation(address, {contents.size, Range::pool, owner}, device_);
  ++blocks_;
  return address;
}

void Pool::trim(uint64_t bytes, const MayHave& settled) {
  const auto guard = lock_process();
  settle(settled);
  give_back(bytes);
}

void Pool::open(CUdevice device, CUmemAccess_flags flags) {
  const auto guard = lock_process();
  access_[size_t(device)] = static_cast<unsigned char>(flags);
  for (const uint64_t unit_address : units_) {
    mapping_at(unit_address)->access = rights();
    write_entries(*mapping_at(unit_address));
  }
  change("open_pool", {{"address", hexadecimal(addresses_)}, {"device", device}, {"flags", int(flags)}});
}

CUmemAccess_flags Pool::access(CUdevice device) const {
  const auto guard = lock_process();
  return CUmemAccess_flags(access_[size_t(device)]);
}

}  // namespace memory
