// SPDX-License-Identifier: MIT-0
// The instructions that touch memory: from a lane's address to bytes of this process, through the GPU's page table; and
// what they do there.
#include "access.h"
#include <atomic>
#include <cstring>
#include "../memory/this_machine.h"
#include "half.h"

namespace gpu {

using memory::Entry;
using memory::hexadecimal;
using ptx::Space;
using ptx::Type;

namespace {

// How a load uses the first-level cache (Op::immediate).
enum : uint64_t { through_cache, around_cache, last_use /* through it, and the line goes */ };

const char* name_of(Space space) {
  return space == Space::shared ? "__shared__" : space == Space::local ? "local" : "parameter";
}

// The space of a generic address, which becomes the offset in it.
Space resolve(uint64_t& address) {
  constexpr std::pair<uint64_t, Space> windows[] = {
      {shared_window, Space::shared}, {local_window, Space::local}, {parameter_window, Space::param}};
  for (const auto& [window, space] : windows)
    if (address - window < window_size) return address -= window, space;
  return Space::global;
}

// The registers of an address in these spaces may have 32 bits only: those above mean nothing.
bool is_narrow(Space space) { return space == Space::shared || space == Space::local || space == Space::param; }

// An ordinary access to a multicast address is undefined. Public programs were seen to store there, which reached each
// replica, and to read one replica's data back. So it is here, past the first-level cache. Nobody was seen to do it
// atomically: that is a fault, and under --strict each access is.
Place locate_replicas(const Warp& w, const Op& op, unsigned lane, uint64_t address, Entry entry, Entry right) {
  const Block& block = *w.block;
  const bool writes = right & memory::writable, is_atomic = writes && right & memory::readable;
  if (memory::options().strict || is_atomic)
    fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, memory::what_lies_at(block.device, address, writes));
  const std::span<char* const> frames = memory::replicas(entry);
  const std::string unbound = memory::what_is_unbound(address, frames);
  if (!unbound.empty()) fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, unbound);
  if (!std::atomic_ref(block.launch->told_of_multicast).exchange(true, std::memory_order_relaxed))
    memory::tell_of_ordinary_access(where(w, op, lane));
  char* const own = memory::own_replica(entry, block.device) + address % memory::page_size;
  return {own, false, true, writes ? frames : std::span<char* const>()};
}

}  // namespace

Place locate(const Warp& w, const Op& op, unsigned lane, Space space, uint64_t address, unsigned size, Entry right) {
  const bool writing = right & memory::writable;
  if (is_narrow(space)) address = static_cast<uint32_t>(address);
  if (address & (size - 1))
    fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
          hexadecimal(address) + " is not a multiple of the access's " + std::to_string(size) + " bytes");
  if (space == Space::generic) space = resolve(address);
  const Block& block = *w.block;
  const std::byte* bytes;
  size_t limit;
  if (space == Space::shared) {
    bytes = block.shared.data(), limit = block.shared.size();
  } else if (space == Space::local) {
    limit = block.program->local_bytes, bytes = block.local.data() + (w.first + lane) * limit;
  } else if (space == Space::param) {
    bytes = block.launch->parameters.data(), limit = writing ? 0 : block.launch->parameters.size();
  } else if (block.launch->is_cooperative && size <= 4 && address - grid_window < sizeof block.launch->grid_workspace) {
    return {reinterpret_cast<char*>(&block.launch->grid_workspace) + (address - grid_window), false, true};
  } else {
    const Entry entry = memory::page_table(block.device).lookup(address);
    if ((entry & right) != right || (entry & memory::partly && !memory::is_registered(address, writing)))
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, memory::what_lies_at(block.device, address, writing));
    if (entry & memory::multicast) return locate_replicas(w, op, lane, address, entry, right);
    return {memory::frame(entry) + address % memory::page_size, (entry & memory::aliased) != 0, true};
  }
  if (address > limit || size > limit - address)
    fault(
        w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
        std::string(writing ? "write" : "read") + " of " + std::to_string(size) + " bytes at " + hexadecimal(address) +
            " of " + name_of(space) + " memory, which has " + std::to_string(limit) + " bytes" +
            (space == Space::shared ? ": does an index run past the end, or does the launch give too few bytes?" : ""));
  return {const_cast<char*>(reinterpret_cast<const char*>(bytes)) + address, false, false};
}

namespace {

// Calls work(lane, address, bytes, aliased) for each lane. A warp's accesses mostly lie in one page, or in the block's
// shared memory: then one look is enough for all.
template <class Work>
inline void for_each_place(Warp& w, const Op& op, Lanes lanes, unsigned size, Entry right, Work work) {
  const uint64_t* const at = w.rows[op.a].lane;
  const uint64_t offset = static_cast<uint64_t>(op.offset), first = at[std::countr_zero(lanes)] + offset;
  uint64_t differ = 0, highest = 0;
  if (lanes == all_lanes) {
    for (unsigned lane = 0; lane < 32; ++lane) differ |= (at[lane] + offset) ^ first;
  } else {
    for (Lanes left = lanes; left; left &= left - 1) differ |= (at[std::countr_zero(left)] + offset) ^ first;
  }
  if (((first | differ) & (size - 1)) == 0) {
    if (op.space == Space::shared) {
      for (Lanes left = lanes; left; left &= left - 1) {
        const uint64_t address = static_cast<uint32_t>(at[std::countr_zero(left)] + offset);
        highest = std::max(highest, address);
      }
      const size_t limit = w.block->shared.size();
      if (highest < limit && size <= limit - highest) {
        char* const shared = reinterpret_cast<char*>(w.block->shared.data());
        for_each_lane(lanes,
                      [&](unsigned lane) { work(lane, 0, shared + static_cast<uint32_t>(at[lane] + offset), false); });
        return;
      }
    } else if (differ < memory::page_size && !is_narrow(op.space)) {
      const Entry entry = memory::page_table(w.block->device).lookup(first);
      if ((entry & (right | memory::aliased | memory::partly | memory::multicast)) == right) {
        char* const page = memory::frame(entry);
        for_each_lane(lanes, [&](unsigned lane) {
          work(lane, 0, page + ((at[lane] + offset) & (memory::page_size - 1)), false);
        });
        return;
      }
    }
  }
  for (; lanes; lanes &= lanes - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
    const uint64_t address = at[lane] + offset;
    const Place place = locate(w, op, lane, op.space, address, size, right);
    if (place.replicas.empty()) work(lane, address, place.bytes, place.aliased);
    for (char* const frame : place.replicas) work(lane, address, frame + address % memory::page_size, false);
  }
}

template <class T> uint64_t extended(T value) { return static_cast<uint64_t>(static_cast<int64_t>(value)); }
template <> uint64_t extended(uint64_t value) { return value; }

template <class T, bool many> void load_values(Warp& w, const Op& op, Lanes active) {
  uint64_t used[32];
  for_each_place(w, op, active, sizeof(T) * (many ? op.count : 1), memory::readable,
                 [&](unsigned lane, uint64_t address, const char* bytes, bool aliased) {
                   for (unsigned i = 0; i < (many ? op.count : 1u); ++i, address += sizeof(T), bytes += sizeof(T)) {
                     T value;
                     if (aliased && op.immediate != around_cache)
                       w.block->cache.load(address, bytes, &value, sizeof(T));
                     else value = static_cast<T>(load(bytes, sizeof(T)));
                     if (aliased && op.immediate == around_cache) w.block->cache.drop(address);
                     if (op.immediate == last_use) used[lane] = address;
                     w.rows[many ? op.rows[i] : op.to].lane[lane] = extended(value);
                   }
                 });
  if (op.immediate == last_use)
    for (; active; active &= active - 1) w.block->cache.drop(used[std::countr_zero(active)]);
}

template <class T, bool many> void store_values(Warp& w, const Op& op, Lanes active) {
  for_each_place(w, op, active, sizeof(T) * (many ? op.count : 1), memory::writable,
                 [&](unsigned lane, uint64_t address, char* bytes, bool aliased) {
                   for (unsigned i = 0; i < (many ? op.count : 1u); ++i, address += sizeof(T), bytes += sizeof(T)) {
                     const T value = static_cast<T>(w.rows[many ? op.rows[i] : op.b].lane[lane]);
                     store(bytes, sizeof(T), value);
                     if (aliased) w.block->cache.stored(address, &value, sizeof(T));
                   }
                 });
}

// fence, membar, and what comes with an acquire. Beyond the block (`immediate`) it makes this block forget what it has
// read before.
void fence(Warp& w, const Op& op, Lanes) {
  __sync_synchronize();
  if (op.immediate) w.block->cache.empty();
}

void add_immediate(Warp& w, const Op& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane] + op.immediate; });
}

// isspacep: is the generic address in this space?
void is_space(Warp& w, const Op& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    uint64_t address = w.rows[op.a].lane[lane];
    w.rows[op.to].lane[lane] = resolve(address) == op.space;
  });
}

// mapa: where a block of the cluster, by its rank, has its shared memory. Here a block is alone in its cluster.
void map_rank(Warp& w, const Op& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    if (static_cast<uint32_t>(w.rows[op.b].lane[lane]))
      fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, "clusters are not simulated: a block is alone, of rank 0");
    w.rows[op.to].lane[lane] = w.rows[op.a].lane[lane];
  });
}

// cp.async, done at once: `count` bytes of global memory at b + immediate to shared memory at a + offset; of these
// only as many as c says are read, the rest are zeros.
void copy_async(Warp& w, const Op& op, Lanes active) {
  for (; active; active &= active - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    const auto address = [&](int row, uint64_t offset) { return w.rows[row].lane[lane] + offset; };
    const unsigned wanted = op.c < 0 ? op.count : static_cast<uint32_t>(w.rows[op.c].lane[lane]);
    char bytes[16] = {};
    if (wanted > 0) {
      const Place from = locate(w, op, lane, Space::global, address(op.b, op.immediate), op.count, memory::readable);
      for (unsigned i = 0; i < op.count; i += 4) {
        const auto word = static_cast<uint32_t>(load(from.bytes + i, 4));
        std::memcpy(bytes + i, &word, std::min(4u, wanted > i ? wanted - i : 0));
      }
    }
    const auto offset = static_cast<uint64_t>(op.offset);
    const Place to = locate(w, op, lane, op.space, address(op.a, offset), op.count, memory::writable);
    std::memcpy(to.bytes, bytes, op.count);
  }
}

// --- What atom, red and multimem combine with ------------------------------------------------------------------------

template <class T> Combine integer(std::string_view operation) {
  if (operation == "min") return [](uint64_t a, uint64_t b, uint64_t) { return T(a) < T(b) ? a : b; };
  if (operation == "max") return [](uint64_t a, uint64_t b, uint64_t) { return T(a) < T(b) ? b : a; };
  if (operation == "add") return [](uint64_t a, uint64_t b, uint64_t) { return a + b; };
  if (operation == "and") return [](uint64_t a, uint64_t b, uint64_t) { return a & b; };
  if (operation == "or") return [](uint64_t a, uint64_t b, uint64_t) { return a | b; };
  if (operation == "xor") return [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; };
  if (operation == "exch") return [](uint64_t, uint64_t b, uint64_t) { return b; };
  if (operation == "cas") return [](uint64_t a, uint64_t b, uint64_t c) { return T(a) == T(b) ? c : a; };
  if (operation == "inc") return [](uint64_t a, uint64_t b, uint64_t) { return T(a) >= T(b) ? 0 : a + 1; };
  if (operation == "dec") return [](uint64_t a, uint64_t b, uint64_t) { return T(a) == 0 || T(a) > T(b) ? b : a - 1; };
  return nullptr;
}

struct Single {
  static float value(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
  static uint64_t bits(float value) { return std::isnan(value) ? 0x7fff'ffff : std::bit_cast<uint32_t>(value); }
};
struct FlushedSingle {  // subnormal numbers are zeros: so it is in the second-level cache, and not in shared memory
  static float flushed(float value) { return std::fabs(value) < 0x1p-126f ? std::copysign(0.f, value) : value; }
  static float value(uint64_t bits) { return flushed(Single::value(bits)); }
  static uint64_t bits(float value) { return Single::bits(flushed(value)); }
};
struct Double {
  static double value(uint64_t bits) { return std::bit_cast<double>(bits); }
  static uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }
};

template <class F> uint64_t add(uint64_t a, uint64_t b, uint64_t) { return F::bits(F::value(a) + F::value(b)); }
// Of a number and a NaN the number, of two the one NaN that there is; -0 is less than +0.
template <class F, bool greatest> uint64_t extreme(uint64_t a, uint64_t b, uint64_t) {
  const auto x = F::value(a), y = F::value(b);
  if (std::isnan(x) && std::isnan(y)) return F::bits(x);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) ? b : a;
  return (x == y ? !std::signbit(x) : x < y) == greatest ? b : a;
}
template <Combine one> uint64_t both(uint64_t a, uint64_t b, uint64_t) {
  return (one(a & 0xffff, b & 0xffff, 0) & 0xffff) | (one(a >> 16 & 0xffff, b >> 16 & 0xffff, 0) & 0xffff) << 16;
}
template <class F> Combine small_float(std::string_view operation, bool pair) {
  if (operation == "add") return pair ? both<add<F>> : add<F>;
  if (operation == "min") return pair ? both<extreme<F, false>> : extreme<F, false>;
  if (operation == "max") return pair ? both<extreme<F, true>> : extreme<F, true>;
  return nullptr;
}

Combine combination(std::string_view operation, Type type) {
  switch (type) {
    case Type::b16:
    case Type::u16: return integer<uint16_t>(operation);
    case Type::b32:
    case Type::u32: return integer<uint32_t>(operation);
    case Type::b64:
    case Type::u64: return integer<uint64_t>(operation);
    case Type::s32: return integer<int32_t>(operation);
    case Type::s64: return integer<int64_t>(operation);
    case Type::f16:
    case Type::f16x2: return small_float<Half>(operation, type == Type::f16x2);
    case Type::bf16:
    case Type::bf16x2: return small_float<Bfloat>(operation, type == Type::bf16x2);
    case Type::f32: return operation == "add" ? add<FlushedSingle> : nullptr;
    case Type::f64: return operation == "add" ? add<Double> : nullptr;
    default: return nullptr;
  }
}

template <class T> uint64_t combine_in(char* bytes, Combine combination, uint64_t b, uint64_t c) {
  T* const at = reinterpret_cast<T*>(bytes);
  T old = __atomic_load_n(at, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(at, &old, static_cast<T>(combination(old, b, c)), true, __ATOMIC_ACQ_REL,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}

}  // namespace

Combine without_flush(Combine combination) { return combination == add<FlushedSingle> ? add<Single> : combination; }

uint64_t combine(char* bytes, unsigned size, Combine combination, uint64_t b, uint64_t c) {
  return size == 2   ? combine_in<uint16_t>(bytes, combination, b, c)
         : size == 4 ? combine_in<uint32_t>(bytes, combination, b, c)
                     : combine_in<uint64_t>(bytes, combination, b, c);
}

namespace {

// atom and red. On global memory they are done in the second-level cache, which all addresses of a frame share. The
// combination is in `immediate`, the operands in b and c, the old value goes to `to`.
void combine_values(Warp& w, const Op& op, Lanes active) {
  const unsigned size = ptx::bytes(op.type);
  const auto in_global = reinterpret_cast<Combine>(op.immediate);
  const Combine in_shared = without_flush(in_global);
  const Row *const b = &w.rows[op.b], *const c = op.c < 0 ? b : &w.rows[op.c];
  for (; active; active &= active - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    const uint64_t address = w.rows[op.a].lane[lane] + static_cast<uint64_t>(op.offset);
    // The elements of a vector are combined one by one, and aligned all together.
    constexpr Entry right = memory::readable | memory::writable;
    if (op.count > 1) locate(w, op, lane, op.space, address, size * op.count, right);
    const Place place = locate(w, op, lane, op.space, address, size, right);
    const Combine combination = place.is_global ? in_global : in_shared;
    const uint64_t old = combine(place.bytes, size, combination, b->lane[lane], c->lane[lane]);
    if (place.aliased) w.block->cache.drop(address);
    if (op.to >= 0) w.rows[op.to].lane[lane] = old;
  }
}

}  // namespace

// --- Lowering --------------------------------------------------------------------------------------------------------

Address address_of(Lowering& l, const ptx::Operand& operand, Space space) {
  if (operand.kind != ptx::Operand::symbol) return {space, l.row(operand), operand.offset};
  const Lowering::Place place = l.place(operand.name);
  return {place.space, l.constant(place.address + operand.value + static_cast<uint64_t>(operand.offset)), 0};
}

Address whole_address_of(Lowering& l, const ptx::Instruction& i, const ptx::Operand& operand, Space space) {
  const Address at = address_of(l, operand, space);
  if (!at.offset) return at;
  const int sum = l.temporary();
  l.emit(add_immediate, i, sum, at.row).immediate = static_cast<uint64_t>(at.offset);
  return {at.space, sum, 0};
}

Space take_space(Modifiers& m) {
  if (m.take("shared") || m.take("shared::cta") || m.take("shared::cluster")) return Space::shared;
  if (m.take("local")) return Space::local;
  if (m.take("param") || m.take("param::entry") || m.take("param::func")) return Space::param;
  return m.take("global") || m.take("const") ? Space::global : Space::generic;
}

uint8_t take_vector(Modifiers& m) { return m.take("v2") ? 2 : m.take("v4") ? 4 : m.take("v8") ? 8 : 1; }

void take_hints(Modifiers& m) {
  while (m.front().substr(0, 4) == "L1::" || m.front().substr(0, 4) == "L2::") m.take(m.front());
}

Combine take_combination(Modifiers& m, Type type) {
  for (const char* name : {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})
    if (m.take(name)) return combination(name, type);
  return nullptr;
}

bool take_scope(Modifiers& m) {
  if (m.take("cta")) return false;
  m.take("cluster") || m.take("gpu") || m.take("sys");
  return true;
}

void emit_fence(Lowering& l, const ptx::Instruction& i, bool beyond_block) {
  l.emit(fence, i).immediate = beyond_block;
}

namespace {

constexpr int cost_of_waiting = 64;  // what one spins on: the others should have their turn soon

template <class T> Handler loader(bool many) { return many ? load_values<T, true> : load_values<T, false>; }
template <class T> Handler storer(bool many) { return many ? store_values<T, true> : store_values<T, false>; }

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

// ld, ldu, st
void lower_load_or_store(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  const bool loads = i.opcode != "st", acquires = m.take("acquire");
  const bool strong = acquires || m.take("volatile") || m.take("relaxed") || m.take("release");
  m.take("weak"), m.take("nc");
  const bool beyond_block = take_scope(m);
  const Space space = take_space(m);
  // The first-level cache serves the block: loads that look no further than it find the same there as weak ones.
  const bool around = m.take("cg") || m.take("cv") || (strong && beyond_block), last = m.take("lu");
  for (const char* name : {"ca", "cs", "wb", "wt"}) m.take(name);
  const uint8_t count = take_vector(m);
  const Type type = m.type();
  take_hints(m);
  const Handler handler = loader_or_storer(loads, type, count > 1);
  if (!m.empty() || !handler || ptx::bits(type) < 8 || i.operands.size() < 2) l.unknown(i);
  const Address at = address_of(l, i.operands[loads ? 1 : 0], space);
  const ptx::Operand& value = i.operands[loads ? 0 : 1];
  std::array<int, 8> rows = {};
  if (count > 1 && value.elements.size() != count) l.unknown(i);
  if (count == 1) rows[0] = l.row(value.elements.size() == 1 ? value.elements[0] : value, type);
  else
    for (unsigned k = 0; k < count; ++k) rows[k] = l.row(value.elements[k], type);
  Op& op = l.emit(handler, i, loads ? rows[0] : -1, at.row, loads ? -1 : rows[0]);
  op.type = type, op.space = at.space, op.offset = at.offset, op.count = count;
  op.rows = rows;
  op.immediate = around ? around_cache : last ? last_use : through_cache;
  if (strong && loads) op.cost = cost_of_waiting;
  if (acquires && beyond_block) emit_fence(l, i, true);
}

// atom, red
void lower_atomic(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  const bool returns = i.opcode == "atom", acquires = m.take("acquire") || m.take("acq_rel");
  m.take("release"), m.take("relaxed"), m.take("noftz");
  const bool beyond_block = take_scope(m);
  const Space space = take_space(m);
  const uint8_t count = take_vector(m);
  const Type type = m.type();
  const Combine combination = take_combination(m, type);
  take_hints(m);
  if (!m.empty() || !combination || i.operands.size() < (returns ? 3 : 2)) l.unknown(i);
  const ptx::Operand* operand = i.operands.data();
  const ptx::Operand* const result = returns ? operand++ : nullptr;
  const Address at = address_of(l, operand[0], space);
  const auto row = [&](const ptx::Operand& o, unsigned k) { return l.row(count > 1 ? o.elements.at(k) : o, type); };
  const int c = operand + 2 < &i.operands.back() + 1 ? l.row(operand[2], type) : -1;
  std::vector<int> old;  // of a vector: kept aside, because the result may be in an operand's registers
  for (unsigned k = 0; k < count; ++k) {
    const int b = row(operand[1], k);
    old.push_back(!returns ? -1 : count == 1 ? row(*result, 0) : l.temporary());
    Op& op = l.emit(combine_values, i, old.back(), at.row, b, c);
    op.type = type, op.space = at.space, op.offset = at.offset + k * ptx::bytes(type), op.cost = cost_of_waiting / 4;
    op.immediate = reinterpret_cast<uint64_t>(combination);
    if (k == 0) op.count = count;
  }
  for (unsigned k = 0; returns && count > 1 && k < count; ++k) l.emit(add_immediate, i, row(*result, k), old[k]);
  if (acquires && beyond_block) emit_fence(l, i, true);
}

void lower_fence(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  bool beyond_block;
  if (m.take("proxy")) {
    beyond_block = m.take("alias");  // of fence.proxy.async only the order counts: what is asynchronous is done at once
    if (!beyond_block && !m.take("async")) l.unknown(i);
    m.take("global"), m.take("shared::cta"), m.take("shared::cluster");
  } else if (m.take("mbarrier_init")) {
    m.take("release"), m.take("cluster");
    beyond_block = false;
  } else {
    m.take("acq_rel") || m.take("sc") || m.take("acquire") || m.take("release") || m.take("gl");
    beyond_block = take_scope(m);
  }
  if (!m.empty()) l.unknown(i);
  emit_fence(l, i, beyond_block);
}

void lower_cvta(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  const bool from_generic = m.take("to");
  const Space space = take_space(m);
  m.type();
  if (!m.empty() || i.operands.size() != 2) l.unknown(i);
  const uint64_t window = space == Space::shared  ? shared_window
                          : space == Space::local ? local_window
                          : space == Space::param ? parameter_window
                                                  : 0;
  const int to = l.row(i.operands[0]), from = l.row(i.operands[1]);
  l.emit(add_immediate, i, to, from).immediate = from_generic ? 0 - window : window;
}

void lower_copy_async(Lowering& l, const ptx::Instruction& i) {
  Modifiers m(i);
  if (!m.take("async")) l.unknown(i);
  if (m.take("bulk")) return lower_bulk(l, i, m);
  if (m.take("mbarrier")) return lower_arrival_of_copies(l, i, m);
  if (m.take("commit_group") || m.take("wait_group") || m.take("wait_all")) {
    if (!m.empty()) l.unknown(i);
    return;  // nothing is ever under way
  }
  m.take("ca") || m.take("cg");
  const bool shared = m.take("shared") || m.take("shared::cta"), global = m.take("global");
  take_hints(m);
  if (!m.empty() || !shared || !global || i.operands.size() < 3 || i.operands.size() > 4) l.unknown(i);
  const Address to = address_of(l, i.operands[0], Space::shared), from = address_of(l, i.operands[1], Space::global);
  const int size = i.operands.size() == 4 ? l.row(i.operands[3]) : -1;
  Op& op = l.emit(copy_async, i, -1, to.row, from.row, size);
  op.space = to.space, op.offset = to.offset, op.count = static_cast<uint8_t>(i.operands[2].value);
  op.immediate = static_cast<uint64_t>(from.offset);
}

}  // namespace

bool lower_access(Lowering& l, const ptx::Instruction& i) {
  const std::string_view opcode = i.opcode;
  if (opcode == "ld" || opcode == "ldu" || opcode == "st") lower_load_or_store(l, i);
  else if (opcode == "atom" || opcode == "red") lower_atomic(l, i);
  else if (opcode == "fence" || opcode == "membar") lower_fence(l, i);
  else if (opcode == "multimem") return lower_multimem(l, i);
  else if (opcode == "cvta") lower_cvta(l, i);
  else if (opcode == "cp") lower_copy_async(l, i);
  else if (opcode == "isspacep") {
    Modifiers m(i);
    const Space space = take_space(m);
    const int to = l.row(i.operands.at(0)), a = l.row(i.operands.at(1));
    l.emit(is_space, i, to, a).space = space;
  } else if (opcode == "mbarrier") {
    return lower_mbarrier(l, i);
  } else if (opcode == "mapa") {
    const int to = l.row(i.operands.at(0)), a = l.row(i.operands.at(1)), rank = l.row(i.operands.at(2));
    l.emit(map_rank, i, to, a, rank);
  } else if (opcode == "createpolicy" || opcode == "getctarank") {
    const int to = l.row(i.operands.at(0)), zero = l.constant(0);
    l.emit(add_immediate, i, to, zero);
  } else {
    return opcode == "prefetch" || opcode == "discard" || opcode == "applypriority";
  }
  return true;
}

}  // namespace gpu
