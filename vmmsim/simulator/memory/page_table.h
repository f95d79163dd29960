// SPDX-License-Identifier: MIT-0
// One GPU's page table: from 2 MiB pages of virtual addresses to frames of physical memory. Every access of a kernel, a
// copy or a memset goes through one. This is the heart of the simulator: a mapping is an entry here, an access right is
// a bit in it, and two addresses of one allocation are two entries with one frame.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstdint>
#include "../processor.h"

namespace memory {

constexpr uint64_t page_size = 2u << 20;  // bytes: of a frame, and the least granularity
constexpr unsigned address_bits = 47;     // of what is reserved; the host may have higher addresses (processor.h)
inline uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// An entry is the address in this process of the frame's bytes, a multiple of 2 MiB, with flags in its low bits.
// 0: nothing is mapped.
using Entry = uint64_t;
enum : Entry {
  mapped = 1,     // something is mapped here, whether or not this GPU may touch it
  readable = 2,   // this GPU may read
  writable = 4,   // this GPU may write
  aliased = 8,    // the frame is mapped at another address of this process too: the first-level cache can be stale
  partly = 32,    // host memory, some of it registered: is_registered() (memory.h) tells what GPUs may touch
  multicast = 16  // not a frame: number `entry >> 21` of the multicast pages (memory.h); multimem goes there
};
inline char* frame(Entry entry) { return reinterpret_cast<char*>(entry & ~(page_size - 1)); }

class PageTable {
 public:
  PageTable();
  ~PageTable();
  PageTable(const PageTable&) = delete;
  PageTable& operator=(const PageTable&) = delete;

  // The entry of the page that holds `address`; 0 for an address past the address space. Any thread, at any time.
  Entry lookup(uint64_t address) const noexcept {
    if (address >> processor::address_bits) return 0;
    const std::atomic<Entry>* table = directory_[address >> 34].load(std::memory_order_acquire);
    return table ? table[address >> 21 & (entries - 1)].load(std::memory_order_acquire) : 0;
  }
  // Sets the entry of the page that holds `address`. One thread at a time. Who finds the entry finds what was written
  // before it, too: the replicas of a multicast page.
  void set(uint64_t address, Entry entry);

 private:
  static constexpr unsigned entries = 8192;  // of each table: 13 bits, and 21 within a page
  std::atomic<std::atomic<Entry>*> directory_[uint64_t(1) << (processor::address_bits - 34)];
};

PageTable& page_table(CUdevice);  // of a GPU of this process

}  // namespace memory
