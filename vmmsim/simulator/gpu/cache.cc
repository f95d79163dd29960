// SPDX-License-Identifier: MIT-0
#include "cache.h"
#include <cstring>

namespace gpu {

namespace {
uint32_t mask(uint64_t address, unsigned size) { return ((uint32_t(1) << size) - 1) << address % 32; }
}  // namespace

// Each address has one place. Within a page they lie in a row, and the rows of pages begin far from one another.
Cache::Line& Cache::find(uint64_t address) {
  if (!lines_) lines_ = std::make_unique<Line[]>(lines);
  const uint64_t number = address / line_size;
  Line& line = lines_[(number + (address >> 21) * 1265) % lines];
  if (line.number != number || line.generation != generation_) line.valid = 0;
  line.number = number;
  line.generation = generation_;
  return line;
}

void Cache::load(uint64_t address, const char* bytes, void* to, unsigned size) {
  Line& line = find(address);
  if ((line.valid & mask(address, size)) != mask(address, size)) {
    for (unsigned i = 0; i < line_size; i += 8) {
      const auto* from = reinterpret_cast<const uint64_t*>(bytes - address % line_size + i);
      const uint64_t word = __atomic_load_n(from, __ATOMIC_ACQUIRE);
      std::memcpy(line.bytes + i, &word, sizeof word);
    }
    line.valid = ~uint32_t(0);
  }
  std::memcpy(to, line.bytes + address % line_size, size);
}

void Cache::stored(uint64_t address, const void* from, unsigned size) {
  Line& line = find(address);
  std::memcpy(line.bytes + address % line_size, from, size);
  line.valid |= mask(address, size);
}

void Cache::drop(uint64_t address) {
  if (lines_) find(address).valid = 0;
}

}  // namespace gpu
