// SPDX-License-Identifier: MIT-0
// The spaces of addresses: where each lies among the generic ones, and what a lane has in those that are its block's.
#pragma once
#include <cstddef>
#include <span>
#include "access.h"

namespace gpu {

// Where a space begins among the generic addresses.
inline uint64_t window_of(ptx::Space space) {
  switch (space) {
    case ptx::Space::shared: return shared_window;
    case ptx::Space::local: return local_window;
    case ptx::Space::param: return parameter_window;
    default: return 0;
  }
}

// The space of a generic address.
inline ptx::Space space_of(uint64_t address) {
  for (const ptx::Space space : {ptx::Space::shared, ptx::Space::local, ptx::Space::param})
    if (address - window_of(space) < window_size) return space;
  return ptx::Space::global;
}

// The registers of an address in these spaces may have 32 bits only: those above mean nothing.
inline bool is_narrow(ptx::Space space) {
  return space == ptx::Space::shared || space == ptx::Space::local || space == ptx::Space::param;
}

// What one lane may access in shared or local memory or of the kernel's parameters.
inline std::span<const std::byte> bytes_of(ptx::Space space, const Warp& w, unsigned lane, bool writes) {
  const ThreadBlock& block = *w.block;
  if (space == ptx::Space::shared) return block.shared;
  if (space == ptx::Space::local) {
    if (!block.stacks.empty()) return block.stacks[w.first + lane].bytes;
    const size_t each = block.lowered->local_bytes;
    return {block.local.data() + (w.first + lane) * each, each};
  }
  if (writes) return {};
  return block.launch->parameters;
}

}  // namespace gpu
