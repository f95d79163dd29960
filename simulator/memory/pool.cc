// SPDX-License-Identifier: MIT-0
#include "pool.h"

#include <algorithm>
#include <tuple>
#include "process.h"

namespace memory {
namespace {

// What a block takes: a multiple of 512 bytes. No pool has 2^47.
uint64_t taken_by(uint64_t size) { return round_up(std::min(size, uint64_t(1) << address_bits), 512); }

}  // namespace

// Addresses for twice the GPU's memory, as on the H200: blocks need neighbouring ones, and memory only where they are.
Pool::Pool(CUdevice device) : device_(device) {
  const auto guard = enter();
  gpu_of(device);
  const uint64_t size = round_up(2 * machine().memory, unit);
  addresses_ = take_addresses(size + unit, false);
  access_.resize(process().visible.size());
  access_[size_t(device)] = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  add_gap(round_up(addresses_, unit), {size, nullptr, nullptr, 0});
}

Pool::~Pool() {
  const auto guard = enter();
  give_back_addresses(addresses_);
}

// The gap behind all blocks comes last, one without memory after those that have it; then the smallest that is large
// enough, and of equal ones that which came to be first.
Pool::Gaps::iterator Pool::find(uint64_t size, const void* stream) {
  const auto rank = [&](Gaps::iterator gap) {
    const bool is_last = std::next(gap) == gaps_.end();
    return std::tuple(is_last, !is_backed(gap->first, size), gap->second.size, gap->second.number);
  };
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second.stream == stream && gap->second.size >= size && (best == gaps_.end() || rank(gap) < rank(best)))
      best = gap;
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
void Pool::settle() {
  std::vector<Gaps::iterator> reached;
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap)
    if (gap->second.stream && *gap->second.reached) reached.push_back(gap);
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
      map_pool_unit(device_, at, unit, access_);
    } catch (...) {
      for (const uint64_t each : added) {
        remove_mapping(each);
        units_.erase(each);
      }
      throw;
    }
    units_.insert(at);
    added.push_back(at);
  }
}

uint64_t Pool::allocate(uint64_t size, const void* stream, Owner owner) {
  const auto guard = enter();
  const uint64_t room = taken_by(size);
  auto found = find(room, stream);
  if (found == gaps_.end()) {
    settle();
    found = find(room, nullptr);
  }
  if (found == gaps_.end())
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the pool has no " + std::to_string(size) + " neighbouring bytes of addresses");
  try {
    back(found->first, room);
  } catch (const Refused&) {  // what it keeps elsewhere may make room
    give_back(0);
    back(found->first, room);
  }
  const uint64_t address = found->first;
  Gap rest = std::move(found->second);
  gaps_.erase(found);
  rest.size -= room;
  if (rest.size) gaps_[address + room] = std::move(rest);
  add_allocation(address, {size, Range::pool, owner}, device_);
  ++blocks_;
  return address;
}

void Pool::free(uint64_t block, const void* stream, Reached reached) {
  const auto guard = enter();
  const uint64_t size = process().allocations.at(block).size;
  erase_allocation(block);
  --blocks_;
  add_gap(block, {taken_by(size), stream, std::move(reached), ++numbers_});
}

void Pool::give_back(uint64_t bytes) {
  auto at = units_.end();
  while (at != units_.begin() && reserved() - unit >= bytes) {
    --at;
    const auto gap = holding(gaps_, *at);
    const bool is_free = gap != gaps_.end() && !gap->second.stream && *at + unit <= gap->first + gap->second.size;
    if (!is_free) continue;
    remove_mapping(*at);
    at = units_.erase(at);
  }
}

void Pool::trim(uint64_t bytes) {
  const auto guard = enter();
  settle();
  give_back(bytes);
}

void Pool::open(CUdevice device, CUmemAccess_flags flags) {
  const auto guard = enter();
  access_[size_t(device)] = static_cast<unsigned char>(flags);
  for (const uint64_t each : units_) {
    mapping_at(each)->access = access_;
    write_entries(*mapping_at(each));
  }
  change("open_pool", {{"address", hexadecimal(addresses_)}, {"device", device}, {"flags", int(flags)}});
}

CUmemAccess_flags Pool::access(CUdevice device) const {
  const auto guard = enter();
  return CUmemAccess_flags(access_[size_t(device)]);
}

}  // namespace memory
