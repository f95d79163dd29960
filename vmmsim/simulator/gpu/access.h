// SPDX-License-Identifier: MIT-0
// What the instructions that touch memory have in common: where an address lies, and what atom, red and multimem
// combine values with.
#pragma once
#include <cstring>
#include "../memory/memory.h"
#include "../memory/page_table.h"
#include "warp.h"

namespace gpu {

// A third window of the generic address space: the kernel's parameters.
constexpr uint64_t parameter_window = local_window + window_size;

// The bytes of this process that back an address.
struct Backing {
  char* bytes;                     // of a multicast address: in the GPU's own replica
  bool aliased;                    // the first-level cache can be stale
  bool is_global;                  // neither shared nor local memory
  memory::Replicas replicas = {};  // what is written goes to all these frames: of a multicast address
};

// For faults: what lies at an address, or was unmapped there after the launch.
std::string what_lies_at(const ThreadBlock&, uint64_t address, bool writes);

// Finds `size` bytes, a power of two, at an address of a space as one lane sees it. Throws Fault if they are not
// aligned or the GPU has no such right (memory::readable or ::writable) there.
Backing locate(const Warp&, const MicroOp&, unsigned lane, ptx::Space, uint64_t address, unsigned size,
               memory::Entry right);

// The address of an access: a row and an offset added to it. A symbol tells its space, whatever the instruction says.
struct AddressOperand {
  ptx::Space space;
  int row;
  int64_t offset;
};
AddressOperand address_of(Lowering&, const ptx::Operand&, ptx::Space);

// The same with the offset added to the row.
AddressOperand whole_address_of(Lowering&, const ptx::Decoded&, const ptx::Operand&, ptx::Space);

// The space of an access; constants lie in global memory.
inline ptx::Space space_of(const ptx::Decoded& i) {
  return i.space == ptx::Space::constant ? ptx::Space::global : i.space;
}
// As it does, too, if it names no scope.
inline bool reaches_beyond_block(const ptx::Decoded& i) { return i.scope != ptx::Scope::cta; }
// The rows of a value: one, or those of as many elements as the instruction has.
std::array<int, 8> rows_of(Lowering&, const ptx::Decoded&, const ptx::Operand& value, ptx::Type);

// A load into these rows, or a store of them.
MicroOp& emit_access(Lowering&, const ptx::Decoded&, bool loads, const AddressOperand&, ptx::Type,
                     const std::array<int, 8>& rows, uint8_t count = 1);

// null: of this type there is none.
Combine combination_of(ptx::Operation, ptx::Type);
// The same, but subnormal numbers of 32 bits are no zeros: in shared memory, and of bulk copies.
Combine without_flush(Combine);
// Combines atomically with all other threads, on whatever GPU and in whatever process. Returns the old value.
uint64_t combine(char* bytes, unsigned size, Combine, uint64_t b, uint64_t c = 0);
// The same in memory that one thread of this process has to itself: that of a block.
uint64_t combine_alone(char* bytes, unsigned size, Combine, uint64_t b, uint64_t c);

// One element of an access. Each is whole: other threads, on other GPUs or in other processes, see all of it or
// nothing, and what was stored before it. There is no looser order: this one costs x86 nothing, and Arm has
// instructions for it.
inline uint64_t load(const char* bytes, unsigned size) {
  switch (size) {
    case 1: return __atomic_load_n(reinterpret_cast<const uint8_t*>(bytes), __ATOMIC_ACQUIRE);
    case 2: return __atomic_load_n(reinterpret_cast<const uint16_t*>(bytes), __ATOMIC_ACQUIRE);
    case 4: return __atomic_load_n(reinterpret_cast<const uint32_t*>(bytes), __ATOMIC_ACQUIRE);
    default: return __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes), __ATOMIC_ACQUIRE);
  }
}
inline void store(char* bytes, unsigned size, uint64_t value) {
  switch (size) {
    case 1: return __atomic_store_n(reinterpret_cast<uint8_t*>(bytes), static_cast<uint8_t>(value), __ATOMIC_RELEASE);
    case 2: return __atomic_store_n(reinterpret_cast<uint16_t*>(bytes), static_cast<uint16_t>(value), __ATOMIC_RELEASE);
    case 4: return __atomic_store_n(reinterpret_cast<uint32_t*>(bytes), static_cast<uint32_t>(value), __ATOMIC_RELEASE);
    default: return __atomic_store_n(reinterpret_cast<uint64_t*>(bytes), value, __ATOMIC_RELEASE);
  }
}

// What a lane loads or stores at once. A GPU does so whole up to 16 bytes, vectors too, of which PTX promises the
// elements only (tests/conformance/whole_vectors.cu): libraries send data beside its flag so.
struct Whole {
  using Piece __attribute__((vector_size(16), may_alias)) = char;
  static constexpr size_t most = 32;
  alignas(16) char bytes[most];
};
inline Whole load_whole(const char* from, size_t size) {
  Whole all = {};
  if (size <= 8) {
    const uint64_t value = load(from, static_cast<unsigned>(size));
    std::memcpy(all.bytes, &value, sizeof value);
    return all;
  }
  for (size_t i = 0; i < size; i += 16)
    *reinterpret_cast<Whole::Piece*>(all.bytes + i) = *reinterpret_cast<const volatile Whole::Piece*>(from + i);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return all;
}
inline void store_whole(char* to, const Whole& all, size_t size) {
  if (size <= 8) {
    uint64_t value;
    std::memcpy(&value, all.bytes, sizeof value);
    return store(to, static_cast<unsigned>(size), value);
  }
  __atomic_thread_fence(__ATOMIC_RELEASE);
  for (size_t i = 0; i < size; i += 16)
    *reinterpret_cast<volatile Whole::Piece*>(to + i) = *reinterpret_cast<const Whole::Piece*>(all.bytes + i);
}

// An operation that orders this thread's accesses, and what follows an acquire: beyond the block, the block forgets
// what its first-level cache holds.
void emit_fence(Lowering&, const ptx::Decoded&, bool beyond_block);

}  // namespace gpu
