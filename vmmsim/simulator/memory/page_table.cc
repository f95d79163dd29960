// SPDX-License-Identifier: MIT-0
#include "page_table.h"

namespace memory {

// The directory has a pointer for each 16 GiB of addresses; a table is made when its first page is mapped.
PageTable::PageTable() {
  for (auto& table : directory_) table.store(nullptr, std::memory_order_relaxed);
}
PageTable::~PageTable() {
  for (auto& table : directory_) delete[] table.load(std::memory_order_relaxed);
}

void PageTable::set(uint64_t address, Entry entry) {
  auto& slot = directory_[address >> 34];
  std::atomic<Entry>* table = slot.load(std::memory_order_relaxed);
  if (!table) {
    if (!entry) return;
    table = new std::atomic<Entry>[entries]();
    slot.store(table, std::memory_order_release);  // not before its entries are 0
  }
  table[address >> 21 & (entries - 1)].store(entry, std::memory_order_release);
}

}  // namespace memory
