// SPDX-License-Identifier: MIT-0
// The memory that a context's kernels allocate for themselves, with malloc and new.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include "../mutex.h"

namespace gpu {

// All of it is taken from the GPU when a kernel first asks for some. What is allocated stays until a kernel frees it
// or the heap ends. Any thread.
class Heap {
 public:
  Heap(int device, size_t size) : device_(device), size_(size) {}
  ~Heap();
  Heap(const Heap&) = delete;
  void end();           // gives its memory back: a launch that has ended may still know the heap for a moment
  bool resize(size_t);  // false: kernels have allocated from it
  uint64_t allocate(uint64_t size, uint64_t alignment);  // 0: there is not enough
  bool free(uint64_t address);                           // false: nothing that is allocated begins there
  bool holds(uint64_t address);

 private:
  bool take_memory() REQUIRES(mutex_);  // false: the GPU has no more
  Mutex mutex_;
  const int device_;
  size_t size_ GUARDED_BY(mutex_);
  uint64_t base_ GUARDED_BY(mutex_) = 0;                                            // 0: not yet taken
  std::map<uint64_t, uint64_t> free_ GUARDED_BY(mutex_), used_ GUARDED_BY(mutex_);  // address -> size
};

}  // namespace gpu
