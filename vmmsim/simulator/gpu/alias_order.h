// SPDX-License-Identifier: MIT-0
// Whether a thread reads at one address what it has written at another of the same memory, with no fence.proxy.alias of
// its own between: such a read may return the old value, whatever it returns here.
#pragma once
#include <cstdint>
#include <vector>

namespace gpu {

// The stores of a block's threads to memory that is mapped at two addresses, since the last alias fence of each.
class AliasOrder {
 public:
  // `thread` is its index in the block; `bytes` is where `address` lies in this process.
  void stored(unsigned thread, const char* bytes, unsigned size, uint64_t address);
  void fenced(unsigned thread);
  // Where the thread has written a part of these bytes under another address, without a fence since; 0: nowhere.
  uint64_t unordered(unsigned thread, const char* bytes, unsigned size, uint64_t address) const;

 private:
  static constexpr unsigned most = 64;  // of a thread; then the oldest is forgotten
  struct Store {
    const char* bytes;
    unsigned size;
    uint64_t address;
  };
  struct Stores {
    std::vector<Store> all;
    unsigned next = 0;
  };
  std::vector<Stores> threads_;
};

}  // namespace gpu
