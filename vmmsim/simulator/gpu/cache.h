// SPDX-License-Identifier: MIT-0
// The first-level cache of a block, by virtual address. It is looked into only for pages whose frame is mapped at two
// addresses: there, and only there, can a thread see that it exists, until a fence empties it.
#pragma once
#include <cstdint>
#include <memory>

namespace gpu {

class Cache {
 public:
  // Reads as an ordinary load does: from the line if all of these bytes are there; else the line is taken from memory
  // first.
  // `bytes` is where `address` lies in this process; an access does not cross a line.
  void load(uint64_t address, const char* bytes, void* to, unsigned size);
  // An ordinary store has gone to memory: the line of this address learns it, or begins with it; lines of other
  // addresses do not learn it.
  void stored(uint64_t address, const void* from, unsigned size);
  // An access has gone around the cache: the line of this address is of no use any more.
  void drop(uint64_t address);
  void empty() { ++generation_; }

 private:
  static constexpr unsigned line_size = 32, lines = 2048;  // bytes; a sector of the chip's lines
  struct Line {
    uint64_t number = 0, generation = 0;  // address / line_size; held if the generation is the cache's
    uint32_t valid = 0;                   // a bit for each byte
    char bytes[line_size];
  };
  std::unique_ptr<Line[]> lines_;  // from the first load on
  uint64_t generation_ = 1;
  Line& find(uint64_t address);  // empty if it was not held
};

}  // namespace gpu
