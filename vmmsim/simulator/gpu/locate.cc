// SPDX-License-Identifier: MIT-0
// From a lane's address to bytes of this process, through the GPU's page table.
#include <atomic>
#include "../memory/this_machine.h"
#include "access.h"
#include "spaces.h"

namespace gpu {

using memory::Entry;
using ptx::Space;

namespace {

const char* name_of(Space space) {
  switch (space) {
    case Space::shared: return "__shared__";
    case Space::local: return "local";
    default: return "parameter";
  }
}

// An ordinary access to a multicast address is undefined. Public programs were seen to store there, which reached each
// replica, and to read one replica's data back. So it is here, past the first-level cache. Nobody was seen to do it
// atomically: that is a fault, and under --strict each access is.
Backing locate_replicas(const Warp& w, const MicroOp& op, unsigned lane, uint64_t address, Entry entry, Entry right) {
  const ThreadBlock& block = *w.block;
  const bool writes = right & memory::writable;
  const bool is_atomic = writes && right & memory::readable;
  if (memory::options().strict || is_atomic)
    fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, what_lies_at(block, address, writes), address);
  const memory::Replicas frames = memory::replicas(entry);
  const std::string unbound = memory::what_is_unbound(address, frames);
  char* const own = memory::own_replica(entry, block.device);
  if (!unbound.empty() || !own) fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, unbound, address);
  if (!std::atomic_ref(block.launch->told_of_multicast).exchange(true, std::memory_order_relaxed))
    memory::log_ordinary_access(where(w, op, lane));
  return {own + address % memory::page_size, false, true, writes ? frames : memory::Replicas()};
}

Backing locate_global(const Warp& w, const MicroOp& op, unsigned lane, uint64_t address, unsigned size, Entry right) {
  const ThreadBlock& block = *w.block;
  const bool writes = right & memory::writable;
  uint64_t& workspace = block.launch->grid_workspace;
  if (block.launch->is_cooperative && size <= 4 && address - grid_window < sizeof workspace)
    return {reinterpret_cast<char*>(&workspace) + (address - grid_window), false, true};
  const Entry entry = memory::page_table(block.device).lookup(address);
  if ((entry & right) != right || (entry & memory::partly && !memory::is_registered(address, writes)))
    fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, what_lies_at(block, address, writes), address);
  if (entry & memory::multicast) return locate_replicas(w, op, lane, address, entry, right);
  return {memory::frame(entry) + address % memory::page_size, (entry & memory::aliased) != 0, true};
}

// The block that has what lies at an address of shared memory, which is made one of that block's own. Past the end of
// the block's own part lies nothing where there are no clusters.
const ThreadBlock& owner_of(const Warp& w, const MicroOp& op, unsigned lane, uint64_t& address) {
  const auto& blocks = w.block->cluster->blocks;
  const uint64_t part = address >> cluster_shift;
  if (part == 0 || (part > 1 && blocks.size() == 1)) return *w.block;
  if (part > blocks.size())
    fault(w, op, lane, CUDA_ERROR_LAUNCH_FAILED,
          "the address is of the block of rank " + std::to_string(part - 1) + ", and the cluster has " +
              std::to_string(blocks.size()) + " blocks");
  address &= (uint64_t(1) << cluster_shift) - 1;
  return *blocks[part - 1];
}

}  // namespace

std::string what_lies_at(const ThreadBlock& block, uint64_t address, bool writes) {
  const std::string unmapped = memory::unmapped_too_early(block.launch->submission, address, "launched the kernel");
  return unmapped.empty() ? memory::what_lies_at(block.device, address, writes) : unmapped;
}

[[gnu::noinline]] Backing locate(const Warp& w, const MicroOp& op, unsigned lane, Space space, uint64_t address,
                                 unsigned size, Entry right) {
  const bool writes = right & memory::writable;
  if (is_narrow(space)) address = static_cast<uint32_t>(address);
  if (address & (size - 1))
    fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
          hexadecimal(address) + " is not a multiple of the access's " + std::to_string(size) + " bytes",
          is_narrow(space) ? std::nullopt : std::optional(address));
  if (space == Space::generic) {
    space = space_of(address);
    address -= window_of(space);
  }
  if (!is_narrow(space)) return locate_global(w, op, lane, address, size, right);
  const ThreadBlock& owner = space == Space::shared ? owner_of(w, op, lane, address) : *w.block;
  const std::span<const std::byte> bytes = space == Space::shared ? owner.shared : bytes_of(space, w, lane, writes);
  if (address > bytes.size() || size > bytes.size() - address) {
    const bool is_shared = space == Space::shared;
    const size_t asked_for = is_shared ? w.block->shared_bytes() : bytes.size();
    const char* const hint =
        is_shared ? ": does an index run past the end, or does the launch give too few bytes?" : "";
    fault(w, op, lane, &owner == w.block ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_ERROR_LAUNCH_FAILED,
          std::string(writes ? "write" : "read") + " of " + std::to_string(size) + " bytes at " + hexadecimal(address) +
              " of " + name_of(space) + " memory, which has " + std::to_string(asked_for) + " bytes" + hint);
  }
  return {const_cast<char*>(reinterpret_cast<const char*>(bytes.data())) + address, false, false};
}

}  // namespace gpu
