// SPDX-License-Identifier: MIT-0
// Whether a thread reads, in memory that is mapped at two addresses, what it wrote itself at the other address, with no
// fence.proxy.alias of its own between; or what another thread of its block wrote, at whichever address, and for which
// it has not waited. Such a read may return the old value, whatever it returns here.
#pragma once
#include <cstdint>
#include <vector>

namespace gpu {

// The stores of a block's threads to memory that is mapped at two addresses, since the last alias fence of each.
class AliasOrder {
 public:
  // `thread` is its index in the block; `bytes` is where `address` lies in this process.
  void stored(unsigned thread, const char* bytes, unsigned size, uint64_t address);
  // How many alias fences this thread has run since something was stored.
  unsigned fenced(unsigned thread);
  // These threads, each a bit and the lowest `first`, have waited, or may have, by whatever lets them know of others of
  // the block, or only of their warp.
  void waited(unsigned first, uint32_t threads, bool in_warp = false) {
    if (time_) note_wait(first, threads, in_warp);
  }
  struct Written {
    uint64_t address = 0;  // 0: nowhere
    bool by_another = false;
    unsigned fences = 0;  // that the reading thread has run
  };
  // Where a part of these bytes was written, and nothing orders this read behind that.
  Written unordered(unsigned thread, const char* bytes, unsigned size, uint64_t address) const;

 private:
  void note_wait(unsigned first, uint32_t threads, bool in_warp);

  static constexpr unsigned most = 64;  // of a thread; then the oldest is forgotten
  struct Store {
    const char* bytes;
    unsigned size;
    uint64_t address;
  };
  struct Stores {
    std::vector<Store> all;
    unsigned next = 0, fences = 0;
  };
  std::vector<Stores> threads_;

  static constexpr uintptr_t word = 4, most_words = 4096;  // a word has its place in `last_`, and others have it, too
  struct Last {
    uintptr_t number = 0;             // of the word
    uint64_t distance = 0, time = 0;  // from `bytes` to `address`; of the store
    unsigned thread = 0;
  };
  struct Waits {
    uint64_t for_block = 0, for_warp = 0;
  };
  std::vector<Last> last_;    // the last store to each
  std::vector<Waits> waits_;  // of each thread the time of its last
  uint64_t time_ = 0;         // counts stores
};

}  // namespace gpu
