// SPDX-License-Identifier: MIT-0
// The instructions that touch memory: what they do at the bytes that locate() finds.
#include "access.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include "../memory/this_machine.h"
#include "spaces.h"

namespace gpu {

using memory::Entry;
using ptx::Space;
using ptx::Type;

namespace {

// Where the accesses of a warp all lie: each is at bytes + (address & mask).
struct OnePlace {
  char* bytes = nullptr;  // null: they lie apart, or need a closer look
  uint64_t mask = 0;
};

// In memory that all threads of the block have in common.
inline OnePlace in_block(const Warp& w, const AddressOperand& where, Lanes lanes, unsigned size,
                         std::span<const std::byte> bytes) {
  const uint64_t* const at = w.rows[where.row].lane;
  uint64_t highest = 0;
  for (const unsigned lane : each(lanes)) {
    const uint64_t address = at[lane] + static_cast<uint64_t>(where.offset);
    highest = std::max<uint64_t>(highest, static_cast<uint32_t>(address));
  }
  if (highest >= bytes.size() || size > bytes.size() - highest) return {};
  return {const_cast<char*>(reinterpret_cast<const char*>(bytes.data())), UINT32_MAX};
}

inline OnePlace in_page(const Warp& w, uint64_t address, Entry right) {
  const Entry entry = memory::page_table(w.block->device).lookup(address);
  if ((entry & (right | memory::aliased | memory::partly | memory::multicast)) != right) return {};
  return {memory::frame(entry), memory::page_size - 1};
}

inline OnePlace one_place(const Warp& w, const AddressOperand& where, Lanes lanes, unsigned size, Entry right) {
  const uint64_t* const at = w.rows[where.row].lane;
  const auto offset = static_cast<uint64_t>(where.offset);
  const uint64_t first = at[first_of(lanes)] + offset;
  uint64_t differ = 0;  // the bits in which the addresses differ
  if (lanes == all_lanes) {
    for (unsigned lane = 0; lane < 32; ++lane) differ |= (at[lane] + offset) ^ first;
  } else {
    for (const unsigned lane : each(lanes)) differ |= (at[lane] + offset) ^ first;
  }
  if ((first | differ) & (size - 1)) return {};
  if (where.space == Space::shared || where.space == Space::param)
    return in_block(w, where, lanes, size, bytes_of(where.space, w, 0, right & memory::writable));
  if (differ >= memory::page_size || where.space == Space::local) return {};
  return in_page(w, first, right);
}

// Calls work(lane, address, bytes, aliased) for each lane. A warp's accesses mostly lie in one page, in the block's
// shared memory or in the parameters: then one look is enough for all, and work does not learn the address.
template <class Work>
inline void for_each_access(Warp& w, const MicroOp& op, Lanes lanes, unsigned size, Entry right, Work work) {
  const uint64_t* const at = w.rows[op.a].lane;
  const auto offset = static_cast<uint64_t>(op.offset);
  if (const OnePlace one = one_place(w, {op.space, op.a, op.offset}, lanes, size, right); one.bytes) {
    for_each_lane(lanes, [&](unsigned lane) { work(lane, 0, one.bytes + ((at[lane] + offset) & one.mask), false); });
    return;
  }
  for (const unsigned lane : each(lanes)) {
    const uint64_t address = at[lane] + offset;
    const Backing backing = locate(w, op, lane, op.space, address, size, right);
    if (backing.replicas.empty()) work(lane, address, backing.bytes, backing.aliased);
    memory::for_each_bound(backing.replicas,
                           [&](char* frame) { work(lane, address, frame + address % memory::page_size, false); });
  }
}

template <class T> uint64_t extended(T value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }
template <> uint64_t extended(uint64_t value) { return value; }

// An element of what a lane accesses: its address, the bytes there, and the row of its register.
template <class T, bool many, class Char, class Work>
inline void for_each_element(const MicroOp& op, int row, uint64_t address, Char* bytes, Work work) {
  if constexpr (many) {
    if (op.count > Whole::most / sizeof(T)) __builtin_unreachable();
    for (unsigned k = 0; k < op.count; ++k) work(address + k * sizeof(T), bytes + k * sizeof(T), op.rows[k]);
  } else {
    work(address, bytes, row);
  }
}

// Memory that the block has to itself, in one piece.
bool is_of_block(const Warp& w, Space space) {
  return is_narrow(space) && (space != Space::local || w.block->stacks.empty());
}

// Where the lanes of a warp access it.
struct InBlock {
  char* bytes = nullptr;  // null: an access is misaligned or past the end
  uint32_t at[32];        // of each lane, from there: those that take no part go where the first one goes
};

inline InBlock in_block(const Warp& w, const MicroOp& op, Lanes lanes, uint32_t size, bool writes) {
  const uint64_t* const address = w.rows[op.a].lane;
  const auto offset = static_cast<uint32_t>(op.offset);
  const unsigned first_lane = first_of(lanes);
  const std::span<const std::byte> bytes = bytes_of(op.space, w, 0, writes);
  InBlock where;
  const uint32_t first = static_cast<uint32_t>(address[first_lane]) + offset;
  uint32_t highest = first, bits = first;
  const auto place = [&](auto at) { for_each_lane(all_lanes, [&](unsigned lane) { where.at[lane] = at(lane); }); };
  if (lanes == all_lanes) place([&](unsigned lane) { return static_cast<uint32_t>(address[lane]) + offset; });
  else place([&](unsigned l) { return lanes >> l & 1 ? static_cast<uint32_t>(address[l]) + offset : first; });
  for (const uint32_t at : where.at) {
    highest = std::max(highest, at);
    bits |= at;
  }
  if (op.space == Space::local) {  // each lane has its own, one behind the other
    const auto each = static_cast<uint32_t>(bytes.size());
    place([&](unsigned lane) { return where.at[lane] + (lanes >> lane & 1 ? lane : first_lane) * each; });
  }
  if (bits & (size - 1) || highest >= bytes.size() || size > bytes.size() - highest) return where;
  where.bytes = const_cast<char*>(reinterpret_cast<const char*>(bytes.data()));
  return where;
}

template <class T, bool many> bool load_from_block(Warp& w, const MicroOp& op, Lanes active) {
  const size_t count = many ? op.count : 1;
  const InBlock where = in_block(w, op, active, uint32_t(count * sizeof(T)), false);
  if (!where.bytes) return false;
  for (size_t k = 0; k < count; ++k) {
    const char* const from = where.bytes + k * sizeof(T);
    set_lanes(w.rows[many ? op.rows[k] : op.to].lane, active, [&](unsigned lane) {
      T value;
      return std::memcpy(&value, from + where.at[lane], sizeof value), extended(value);
    });
  }
  return true;
}

template <class T, bool many> bool store_in_block(Warp& w, const MicroOp& op, Lanes active) {
  const size_t count = many ? op.count : 1;
  const InBlock where = in_block(w, op, active, uint32_t(count * sizeof(T)), true);
  if (!where.bytes) return false;
  for (size_t k = 0; k < count; ++k) {
    const uint64_t* const values = w.rows[many ? op.rows[k] : op.b].lane;
    for (const unsigned lane : each(active)) {
      const auto value = static_cast<T>(values[lane]);
      std::memcpy(where.bytes + k * sizeof(T) + where.at[lane], &value, sizeof value);
    }
  }
  return true;
}

void look_for_unordered(Warp& w, const MicroOp& op, unsigned lane, uint64_t address, const char* bytes, unsigned size) {
  const Launch& launch = *w.block->launch;
  if (!launch.unordered_read) return;
  const AliasOrder::Written written = w.block->alias_order.unordered(w.first + lane, bytes, size, address);
  if (written.address && !std::atomic_ref(launch.told_of_unordered_read).exchange(true, std::memory_order_relaxed))
    launch.unordered_read({where(w, op, lane), written.address, address, written.by_another, written.fences});
}

template <class T, bool many> void load_anywhere(Warp& w, const MicroOp& op, Lanes active) {
  if (is_of_block(w, op.space) && load_from_block<T, many>(w, op, active)) return;
  uint64_t used[32];
  VectorRegister* const rows = w.rows;
  const CacheUse cache_use = op.cache_use;
  const unsigned size = sizeof(T) * (many ? op.count : 1);
  const auto load_lane = [&, to = op.to](unsigned lane, uint64_t address, const char* bytes, bool aliased) {
    if (cache_use == CacheUse::last_use) used[lane] = address;
    if (aliased) look_for_unordered(w, op, lane, address, bytes, size);
    const bool cached = aliased && cache_use != CacheUse::around;
    Whole all;
    if (many && !cached) {
      all = load_whole(bytes, size);
      bytes = all.bytes;
    }
    for_each_element<T, many>(op, to, address, bytes, [&](uint64_t at, const char* from, int row) {
      T value;
      if (cached) w.block->cache.load(at, from, &value, sizeof(T));
      else if (many) std::memcpy(&value, from, sizeof value);
      else value = static_cast<T>(load(from, sizeof(T)));
      if (aliased && cache_use == CacheUse::around) w.block->cache.drop(at);
      rows[row].lane[lane] = extended(value);
    });
  };
  for_each_access(w, op, active, size, memory::readable, load_lane);
  if (cache_use != CacheUse::last_use) return;
  for (const unsigned lane : each(active)) w.block->cache.drop(used[lane]);
}

template <class T, bool many> void store_anywhere(Warp& w, const MicroOp& op, Lanes active) {
  if (is_of_block(w, op.space) && store_in_block<T, many>(w, op, active)) return;
  const VectorRegister* const rows = w.rows;
  const unsigned size = sizeof(T) * (many ? op.count : 1);
  const auto store_lane = [&, of = op.b](unsigned lane, uint64_t address, char* bytes, bool aliased) {
    if (aliased) w.block->alias_order.stored(w.first + lane, bytes, size, address);
    Whole all = {};
    for_each_element<T, many>(op, of, address, many ? all.bytes : bytes, [&](uint64_t at, char* to, int row) {
      const T value = static_cast<T>(rows[row].lane[lane]);
      if (many) std::memcpy(to, &value, sizeof value);
      else store(to, sizeof(T), value);
      if (aliased) w.block->cache.stored(at, &value, sizeof(T));
    });
    if (many) store_whole(bytes, all, size);
  };
  for_each_access(w, op, active, size, memory::writable, store_lane);
}

// Whole warps mostly load and store one element behind another, or load the same one for all lanes.
struct InOrder {
  char* first = nullptr;  // what lane 0 accesses; null: the lanes go elsewhere, or it needs a closer look
  bool in_a_row = false;  // or all of them access that
};

inline InOrder in_order(const Warp& w, const MicroOp& op, uint64_t size, Entry right) {
  const uint64_t* const at = w.rows[op.a].lane;
  const uint64_t known = is_narrow(op.space) ? UINT32_MAX : ~uint64_t(0);
  const uint64_t step = (at[1] - at[0]) & known;
  if (step && step != size) return {};
  uint64_t gaps = 0;
  if (step) {
    for (unsigned lane = 0; lane < 32; ++lane) gaps |= at[lane] - at[0] - lane * size;
  } else {
    for (unsigned lane = 0; lane < 32; ++lane) gaps |= at[lane] - at[0];
  }
  const uint64_t first = (at[0] + static_cast<uint64_t>(op.offset)) & known, last = first + 31 * step;
  if (gaps & known || first & (size - 1) || op.space == Space::local) return {};
  if (is_narrow(op.space)) {
    const std::span<const std::byte> bytes = bytes_of(op.space, w, 0, right & memory::writable);
    if (last + size > bytes.size()) return {};
    return {const_cast<char*>(reinterpret_cast<const char*>(bytes.data())) + first, step != 0};
  }
  if ((first ^ last) >= memory::page_size) return {};
  const OnePlace page = in_page(w, first, right);
  if (!page.bytes) return {};
  return {page.bytes + (first & page.mask), step != 0};
}

template <auto handler> const Handler fastest_handler = fastest<handler>();

// In vectors. What a lane loads or stores is whole there as well, for none of it lies across two lines of a processor's
// cache: seen so on x86, whose manuals promise it for 16 bytes. Vectors of a kernel are taken apart aside.
struct Aside {
  alignas(64) char bytes[32 * Whole::most];
};
inline void copy_lanes(char* to, const char* from, size_t size) {
  for (size_t i = 0; i < 32 * size; i += 64) std::memcpy(to + i, from + i, 64);
}

template <class T, bool many> void load_values(Warp& w, const MicroOp& op, Lanes active) {
  const size_t count = many ? op.count : 1, size = count * sizeof(T);
  const InOrder all = active == all_lanes ? in_order(w, op, size, memory::readable) : InOrder();
  if (!all.first) return fastest_handler<load_anywhere<T, many>>(w, op, active);
  const bool others_see_it = !is_narrow(op.space);
  for (const size_t line : {0, 64})
    if (others_see_it) __builtin_prefetch(all.first + 32 * size + line);  // the next warp's
  Aside aside;
  const char* first = all.first;
  if (many && others_see_it) {
    if (all.in_a_row) copy_lanes(aside.bytes, first, size);
    else reinterpret_cast<Whole&>(aside) = load_whole(first, size);
    first = aside.bytes;
  }
  for (size_t k = 0; k < count; ++k) {
    uint64_t* const to = w.rows[many ? op.rows[k] : op.to].lane;
    const char* const from = first + k * sizeof(T);
    if (all.in_a_row) {
      for_each_lane(all_lanes, [&](unsigned lane) {
        T value;
        std::memcpy(&value, from + lane * size, sizeof value);
        to[lane] = extended(value);
      });
    } else {
      const uint64_t value = extended(static_cast<T>(load(from, sizeof(T))));
      for_each_lane(all_lanes, [&](unsigned lane) { to[lane] = value; });
    }
  }
  if (others_see_it) __atomic_thread_fence(__ATOMIC_ACQUIRE);
}

template <class T, bool many> void store_values(Warp& w, const MicroOp& op, Lanes active) {
  const size_t count = many ? op.count : 1, size = count * sizeof(T);
  const InOrder all = active == all_lanes ? in_order(w, op, size, memory::writable) : InOrder();
  if (!all.in_a_row) return fastest_handler<store_anywhere<T, many>>(w, op, active);
  const bool others_see_it = !is_narrow(op.space);
  if (others_see_it) __atomic_thread_fence(__ATOMIC_RELEASE);
  Aside aside;
  char* const first = many && others_see_it ? aside.bytes : all.first;
  for (size_t k = 0; k < count; ++k) {
    const uint64_t* const values = w.rows[many ? op.rows[k] : op.b].lane;
    char* const to = first + k * sizeof(T);
    for_each_lane(all_lanes, [&](unsigned lane) {
      const auto value = static_cast<T>(values[lane]);
      std::memcpy(to + lane * size, &value, sizeof value);
    });
  }
  if (first != all.first) copy_lanes(all.first, first, size);
}

// fence, membar, and what comes with an acquire. Beyond the block it makes this block forget what it has read before.
template <bool beyond_block> void fence(Warp& w, const MicroOp&, Lanes) {
  __sync_synchronize();
  if (beyond_block) w.block->cache.empty();
}

void alias_fence(Warp& w, const MicroOp& op, Lanes active) {
  fence<true>(w, op, active);
  const Launch& launch = *w.block->launch;
  for (const unsigned lane : each(active)) {
    const unsigned count = w.block->alias_order.fenced(w.first + lane);
    unsigned before = count - 1;
    if (launch.alias_fence && count && count <= most_told_fences &&
        std::atomic_ref(launch.told_fences).compare_exchange_strong(before, count, std::memory_order_relaxed))
      launch.alias_fence({where(w, op, lane), count});
  }
}

// Behind what may tell a thread how far others are: an atomic operation, or a load of what they store for that.
void note_wait(Warp& w, const MicroOp&, Lanes active) { w.block->alias_order.waited(w.first, active); }

// isspacep: is the generic address in this space? A cluster's shared memory is all of it, .shared the block's own.
template <bool own_only> void is_space(Warp& w, const MicroOp& op, Lanes active) {
  const uint64_t own = in_shared_of(shared_window, rank_in_cluster(*w.block)) - shared_window;
  for_each_lane(active, [&](unsigned lane) {
    const uint64_t address = w.rows[op.a].lane[lane],
                   part = (address - shared_window) >> cluster_shift << cluster_shift;
    const bool is_near = !own_only || part == 0 || part == own;
    w.rows[op.to].lane[lane] = space_of(address) == op.space && is_near;
  });
}

// cp.async, done at once: `count` bytes of global memory at b to shared memory at a + offset; of these only as many as
// c says are read, or none if it is a predicate and true (op.type); the rest are zeros.
void copy_async(Warp& w, const MicroOp& op, Lanes active) {
  const AddressOperand source = {Space::global, op.b, 0}, target = {op.space, op.a, op.offset};
  const auto place_of = [&](const AddressOperand& at, const OnePlace& one, unsigned lane, Entry right) {
    const uint64_t address = w.rows[at.row].lane[lane] + static_cast<uint64_t>(at.offset);
    if (one.bytes) return one.bytes + (address & one.mask);
    return locate(w, op, lane, at.space, address, op.count, right).bytes;
  };
  const OnePlace sources = one_place(w, source, active, op.count, memory::readable);
  const OnePlace targets = one_place(w, target, active, op.count, memory::writable);
  for (const unsigned lane : each(active)) {
    const auto last = op.c < 0 ? op.count : static_cast<uint32_t>(w.rows[op.c].lane[lane]);
    const unsigned wanted = op.type == Type::pred ? op.count * (1 - (last & 1)) : last;
    char bytes[16] = {};
    const char* const from = wanted > 0 ? place_of(source, sources, lane, memory::readable) : nullptr;
    for (unsigned i = 0; i < std::min<unsigned>(wanted, op.count); i += 4) {
      const auto word = static_cast<uint32_t>(load(from + i, 4));
      std::memcpy(bytes + i, &word, std::min(4u, wanted - i));
    }
    std::memcpy(place_of(target, targets, lane, memory::writable), bytes, op.count);
  }
}

// atom and red. On global memory they are done in the second-level cache, which all addresses of a frame share. The
// operands are in b and c, the old value goes to `to`.
void combine_values(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned size = ptx::bytes(op.type);
  const VectorRegister& b = w.rows[op.b];
  const VectorRegister& c = op.c < 0 ? b : w.rows[op.c];
  constexpr Entry right = memory::readable | memory::writable;
  const auto finish = [&](unsigned lane, uint64_t old) {
    if (op.to >= 0) w.rows[op.to].lane[lane] = old;
  };
  const AddressOperand where = {op.space, op.a, op.offset};
  // The elements of a vector are combined one by one, and aligned all together.
  const OnePlace one = op.count > 1 ? OnePlace() : one_place(w, where, active, size, right);
  const Combine in_shared = without_flush(op.combine);
  for (const unsigned lane : each(active)) {
    const uint64_t address = w.rows[op.a].lane[lane] + static_cast<uint64_t>(op.offset);
    if (one.bytes) {
      char* const bytes = one.bytes + (address & one.mask);
      if (op.space == Space::shared) finish(lane, combine_alone(bytes, size, in_shared, b.lane[lane], c.lane[lane]));
      else finish(lane, combine(bytes, size, op.combine, b.lane[lane], c.lane[lane]));
      continue;
    }
    if (op.count > 1) locate(w, op, lane, op.space, address, size * op.count, right);
    const Backing backing = locate(w, op, lane, op.space, address, size, right);
    const Combine combination = backing.is_global ? op.combine : in_shared;
    finish(lane, combine(backing.bytes, size, combination, b.lane[lane], c.lane[lane]));
    if (backing.aliased) w.block->cache.drop(address);
  }
}

}  // namespace

void add_offset(Warp& w, const MicroOp& op, Lanes active) {
  const uint64_t* const from = w.rows[op.a].lane;
  const auto offset = static_cast<uint64_t>(op.offset);
  set_lanes(w.rows[op.to].lane, active, [&](unsigned lane) { return from[lane] + offset; });
}

// --- Lowering --------------------------------------------------------------------------------------------------------

AddressOperand address_of(Lowering& l, const ptx::Operand& operand, Space space) {
  if (operand.kind != ptx::Operand::symbol) return {space, l.row(operand), operand.offset};
  const Lowering::Symbol symbol = l.symbol(operand.name);
  const uint64_t address = symbol.address + operand.value + static_cast<uint64_t>(operand.offset);
  if (symbol.in_frame) return {symbol.space, l.frame_row(), static_cast<int64_t>(address)};
  return {symbol.space, l.constant(address), 0};
}

AddressOperand whole_address_of(Lowering& l, const ptx::Decoded& i, const ptx::Operand& operand, Space space) {
  const AddressOperand at = address_of(l, operand, space);
  if (!at.offset) return at;
  const int sum = l.temporary();
  l.emit(add_offset, i, sum, at.row).offset = at.offset;
  return {at.space, sum, 0};
}

void emit_fence(Lowering& l, const ptx::Decoded& i, bool beyond_block) {
  l.emit(beyond_block ? fence<true> : fence<false>, i).effects = Effects::pure;
}

std::array<int, 8> rows_of(Lowering& l, const ptx::Decoded& i, const ptx::Operand& value, Type type) {
  if (i.count == 1) return {l.row(value, type)};
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < i.count; ++k) rows[k] = l.row(value.elements.empty() ? value : value.elements[k], type);
  return rows;
}

namespace {

constexpr int cost_of_waiting = 64;  // what one spins on: the others should have their turn soon

template <class T> Handler loader(bool many) {
  return many ? fastest<load_values<T, true>>() : fastest<load_values<T, false>>();
}
template <class T> Handler storer(bool many) {
  return many ? fastest<store_values<T, true>>() : fastest<store_values<T, false>>();
}

Handler loader_or_storer(bool loads, Type type, bool many) {
  if (loads && type == Type::s8) return loader<int8_t>(many);
  if (loads && type == Type::s16) return loader<int16_t>(many);
  if (loads && type == Type::s32) return loader<int32_t>(many);
  switch (ptx::bytes(type)) {
    case 1: return loads ? loader<uint8_t>(many) : storer<uint8_t>(many);
    case 2: return loads ? loader<uint16_t>(many) : storer<uint16_t>(many);
    case 4: return loads ? loader<uint32_t>(many) : storer<uint32_t>(many);
    case 8: return loads ? loader<uint64_t>(many) : storer<uint64_t>(many);
    default: return nullptr;
  }
}

}  // namespace

MicroOp& emit_access(Lowering& l, const ptx::Decoded& i, bool loads, const AddressOperand& at, Type type,
                     const std::array<int, 8>& rows, uint8_t count) {
  const Handler handler = loader_or_storer(loads, type, count > 1);
  if (!handler || count * ptx::bytes(type) > Whole::most) l.not_simulated(i);
  MicroOp& op = l.emit(handler, i, loads ? rows[0] : -1, at.row, loads ? -1 : rows[0]);
  op.type = type;
  op.space = at.space;
  op.offset = at.offset;
  op.count = count;
  op.rows = rows;
  op.effects = loads ? Effects::reads : Effects::side_effects;
  return op;
}

namespace {

// ld, ldu, st
void lower_load_or_store(Lowering& l, const ptx::Decoded& i) {
  using ptx::Order, ptx::CacheOperator;
  if (i.has(ptx::Word::async)) return lower_store_async(l, i);
  const bool loads = i.opcode != ptx::Opcode::st, acquires = i.order == Order::acquire;
  const bool strong = i.order != Order::none && i.order != Order::weak;
  // The first-level cache serves the block: loads that look no further than it find the same there as weak ones.
  const bool is_around = i.cache == CacheOperator::cg || i.cache == CacheOperator::cv;
  const AddressOperand at = address_of(l, i["a"], space_of(i));
  const std::array<int, 8> rows = rows_of(l, i, i[loads ? "d" : "b"], i.type());
  MicroOp& op = emit_access(l, i, loads, at, i.type(), rows, i.count);
  if (i.cache == CacheOperator::lu) op.cache_use = CacheUse::last_use;
  if (is_around || (strong && reaches_beyond_block(i))) op.cache_use = CacheUse::around;
  if (strong && loads) {
    op.cost = cost_of_waiting;
    l.emit(note_wait, i).effects = Effects::pure;
  }
  if (acquires && reaches_beyond_block(i)) emit_fence(l, i, true);
}

void lower_atomic(Lowering& l, const ptx::Decoded& i) {
  if (i.has(ptx::Word::async)) return lower_store_async(l, i);
  const bool returns = i.opcode == ptx::Opcode::atom;
  const Type type = i.type();
  const Combine combination = combination_of(i.operation, type);
  if (!combination) l.not_simulated(i);
  const AddressOperand at = address_of(l, i["a"], space_of(i));
  const std::array<int, 8> b = rows_of(l, i, i["b"], type);
  const int c = l.row_of(i, "c", type);
  std::array<int, 8> results;
  results.fill(-1);
  if (returns) results = rows_of(l, i, i["d"], type);
  const bool keeps_aside = returns && i.count > 1;  // for a result may be in an operand's register
  std::array<int, 8> old = results;
  for (size_t k = 0; keeps_aside && k < i.count; ++k) old[k] = l.temporary();
  for (unsigned k = 0; k < i.count; ++k) {
    MicroOp& op = l.emit(combine_values, i, old[k], at.row, b[k], c);
    op.type = type;
    op.space = at.space;
    op.offset = at.offset + k * ptx::bytes(type);
    op.cost = cost_of_waiting / 4;
    op.combine = combination;
    if (returns && i.count == 1) op.effects = Effects::reads;  // one that spins for a lock stores what was there
    if (k == 0) op.count = i.count;
  }
  for (size_t k = 0; keeps_aside && k < i.count; ++k) l.emit(add_offset, i, results[k], old[k]);
  l.emit(note_wait, i).effects = Effects::pure;
  const bool acquires = i.order == ptx::Order::acquire || i.order == ptx::Order::acq_rel;
  if (acquires && reaches_beyond_block(i)) emit_fence(l, i, true);
}

void lower_fence(Lowering& l, const ptx::Decoded& i) {
  const bool is_of_proxy = i.has(ptx::Word::proxy);
  if (is_of_proxy && i.has(ptx::Word::alias)) {
    l.emit(alias_fence, i).effects = Effects::pure;
    return;
  }
  if (is_of_proxy && !i.has(ptx::Word::async)) l.not_simulated(i);
  // Of what is asynchronous only the order counts: it is done at once.
  emit_fence(l, i, !is_of_proxy && !i.has(ptx::Word::mbarrier_init) && reaches_beyond_block(i));
}

void lower_cvta(Lowering& l, const ptx::Decoded& i) {
  const auto window = static_cast<int64_t>(window_of(space_of(i)));
  const int to = l.row(i["d"]), from = l.row(i["a"]);
  l.emit(add_offset, i, to, from).offset = i.has(ptx::Word::to) ? -window : window;
}

// cp.async and cp.reduce.async
void lower_copy_async(Lowering& l, const ptx::Decoded& i) {
  if (i.has(ptx::Word::bulk)) return lower_bulk_copy(l, i);
  if (i.has(ptx::Word::mbarrier)) return lower_arrival_of_copies(l, i);
  if (!i.find("dst")) return;  // commit_group, wait_group, wait_all: nothing is ever under way
  const AddressOperand to = address_of(l, i["dst"], Space::shared);
  const AddressOperand from = whole_address_of(l, i, i["src"], Space::global);
  const ptx::Operand* const ignores = i.find("ignore-src");
  const int limit = ignores ? l.row(*ignores) : l.row_of(i, "src-size");
  MicroOp& op = l.emit(copy_async, i, -1, to.row, from.row, limit);
  if (ignores) op.type = Type::pred;
  op.space = to.space;
  op.offset = to.offset;
  op.count = static_cast<uint8_t>(i["cp-size"].value);
}

void lower_isspacep(Lowering& l, const ptx::Decoded& i) {
  const int to = l.row(i["p"]), address = l.row(i["a"]);
  MicroOp& op = l.emit(i.has(ptx::Word::shared_cluster) ? is_space<false> : is_space<true>, i, to, address);
  op.space = space_of(i);
}

// createpolicy, whose result changes nothing, and istypep: no address is one of a texture.
void lower_zero(Lowering& l, const ptx::Decoded& i) { l.emit(add_offset, i, l.row(i.operands()[0]), l.constant(0)); }

void lower_hint(Lowering&, const ptx::Decoded&) {}

}  // namespace

const Opcodes memory_opcodes = [] {
  using enum ptx::Opcode;
  return Opcodes{
      {ld, lower_load_or_store},  {ldu, lower_load_or_store}, {st, lower_load_or_store},  {atom, lower_atomic},
      {red, lower_atomic},        {fence, lower_fence},       {membar, lower_fence},      {cvta, lower_cvta},
      {isspacep, lower_isspacep}, {cp, lower_copy_async},     {multimem, lower_multimem}, {mbarrier, lower_mbarrier},
      {mapa, lower_rank},         {getctarank, lower_rank},   {createpolicy, lower_zero}, {istypep, lower_zero},
      {pmevent, lower_hint},      {prefetch, lower_hint},     {discard, lower_hint},      {applypriority, lower_hint},
  };
}();

}  // namespace gpu
