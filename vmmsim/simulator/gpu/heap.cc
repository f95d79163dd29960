// SPDX-License-Identifier: MIT-0
#include "heap.h"
#include <algorithm>
#include <bit>
#include <iterator>
#include "../memory/memory.h"
#include "../memory/page_table.h"

namespace gpu {

using memory::round_up;

Heap::~Heap() { end(); }

void Heap::end() {
  const MutexLock lock(mutex_);
  if (base_) memory::free_heap(base_);
  base_ = 0;
  free_.clear();
  used_.clear();
}

bool Heap::resize(size_t size) {
  const MutexLock lock(mutex_);
  if (base_) return false;
  size_ = size;
  return true;
}

bool Heap::take_memory() {
  try {
    base_ = memory::allocate_heap(device_, size_);
  } catch (const memory::Refused&) {
    return false;
  }
  free_[base_] = size_;
  return true;
}

uint64_t Heap::allocate(uint64_t size, uint64_t alignment) {
  constexpr uint64_t unit = 16;  // bytes
  const MutexLock lock(mutex_);
  if (size > size_ || !std::has_single_bit(alignment)) return 0;
  if (!base_ && !take_memory()) return 0;
  size = round_up(std::max<uint64_t>(size, 1), unit);
  alignment = std::max(alignment, unit);
  for (auto piece = free_.begin(); piece != free_.end(); ++piece) {
    const uint64_t address = piece->first, end = address + piece->second, begin = round_up(address, alignment);
    if (begin > end || end - begin < size) continue;
    free_.erase(piece);
    if (begin > address) free_[address] = begin - address;
    if (end > begin + size) free_[begin + size] = end - begin - size;
    used_[begin] = size;
    return begin;
  }
  return 0;
}

bool Heap::free(uint64_t address) {
  const MutexLock lock(mutex_);
  const auto found = used_.find(address);
  if (found == used_.end()) return false;
  auto here = free_.insert(*found).first;
  used_.erase(found);
  if (const auto next = std::next(here); next != free_.end() && here->first + here->second == next->first) {
    here->second += next->second;
    free_.erase(next);
  }
  if (here == free_.begin()) return true;
  if (const auto before = std::prev(here); before->first + before->second == here->first) {
    before->second += here->second;
    free_.erase(here);
  }
  return true;
}

bool Heap::holds(uint64_t address) {
  const MutexLock lock(mutex_);
  return base_ && address - base_ < size_;
}

}  // namespace gpu
