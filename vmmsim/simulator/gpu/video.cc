// SPDX-License-Identifier: MIT-0
// The instructions for video: on parts of registers, with a second operation on the result; on two or four parts at
// once; and cvt.pack. As the PTX manual has them.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

enum class Kind : uint8_t { add, sub, absdiff, min, max, avrg, shl, shr, mad, set };
enum class Second : uint8_t { none, add, min, max, merge };

// Which part of a word an operand is: of so many bits, this one of them.
struct Part {
  uint64_t size : 6, index : 2;
};

// An instruction, in MicroOp::offset. For several elements the parts are numbers in {b, a}, for each three bits.
struct Video {
  uint64_t kind : 4, comparison : 3, second : 3, a_signed : 1, b_signed : 1, to_signed : 1, saturates : 1, wraps : 1,
      negates_a : 1, negates_b : 1, negates_c : 1, plus_one : 1, scale : 4, count : 3, mask : 4, a : 12, b : 12, to : 8;
};
static_assert(sizeof(Video) == 8);

int64_t part_of(uint64_t word, unsigned size, unsigned index, bool is_signed) {
  const uint64_t bits = word >> size * index & mask<uint64_t>(size), sign = uint64_t(1) << (size - 1);
  return is_signed ? static_cast<int64_t>((bits ^ sign) - sign) : static_cast<int64_t>(bits);
}
__int128 clamped(__int128 value, unsigned size, bool is_signed) {
  const __int128 least = is_signed ? -(__int128(1) << (size - 1)) : 0;
  const __int128 most = (__int128(1) << (is_signed ? size - 1 : size)) - 1;
  return value < least ? least : value > most ? most : value;
}

bool compare(unsigned comparison, int64_t a, int64_t b) {
  switch (comparison) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}

__int128 computed(const Video& v, int64_t a, int64_t b) {
  switch (Kind(v.kind)) {
    case Kind::add: return a + b;
    case Kind::sub: return a - b;
    case Kind::absdiff: return a < b ? b - a : a - b;
    case Kind::min: return std::min(a, b);
    case Kind::max: return std::max(a, b);
    case Kind::avrg: return (a + b + (a + b >= 0)) >> 1;
    case Kind::set: return compare(v.comparison, a, b);
    default: break;
  }
  const int64_t by = v.wraps ? b & 31 : std::min<int64_t>(b, 32);
  return Kind(v.kind) == Kind::shl ? __int128(a) << by : __int128(a) >> by;
}

uint32_t multiplied(const Video& v, int64_t a, int64_t b, uint32_t c) {
  const bool negates = v.negates_a ^ v.negates_b;
  const bool is_signed = v.a_signed || v.b_signed || negates || v.negates_c;
  __int128 product = __int128(a) * b, sum = is_signed ? __int128(int32_t(c)) : __int128(c);
  if (v.plus_one) sum += 1;
  else if (negates) product = -product;
  else if (v.negates_c) sum = -sum;
  sum = (sum + product) >> v.scale;
  return static_cast<uint32_t>(v.saturates ? clamped(sum, 32, is_signed) : sum);
}

uint32_t with_second(const Video& v, uint32_t value, uint32_t c) {
  const auto choose = [&](bool least) -> uint32_t {
    const bool is_less = v.to_signed ? int32_t(value) < int32_t(c) : value < c;
    return is_less == least ? value : c;
  };
  switch (Second(v.second)) {
    case Second::add: return value + c;
    case Second::min: return choose(true);
    case Second::max: return choose(false);
    default: return value;
  }
}

uint32_t scalar(const Video& v, uint32_t a, uint32_t b, uint32_t c) {
  const auto part = [](uint64_t bits) { return Part{bits & 63, bits >> 6 & 3}; };
  const Part pa = part(v.a), pb = part(v.b), to = part(v.to);
  const int64_t x = part_of(a, pa.size, pa.index, v.a_signed), y = part_of(b, pb.size, pb.index, v.b_signed);
  if (Kind(v.kind) == Kind::mad) return multiplied(v, x, y, c);
  __int128 value = computed(v, x, y);
  if (v.saturates) value = clamped(value, to.size, v.to_signed);
  if (Second(v.second) != Second::merge) return with_second(v, static_cast<uint32_t>(value), c);
  const uint32_t field = mask<uint32_t>(to.size) << to.size * to.index;
  return (c & ~field) | (static_cast<uint32_t>(value) << to.size * to.index & field);
}

uint32_t elements(const Video& v, uint32_t a, uint32_t b, uint32_t c) {
  const unsigned size = 32 / v.count;
  const uint64_t both = uint64_t(b) << 32 | a;
  const bool adds = Second(v.second) == Second::add;
  uint32_t result = adds ? c : 0;
  for (unsigned k = 0; k < v.count; ++k) {
    const int64_t x = part_of(both, size, v.a >> 3 * k & 7, v.a_signed);
    const int64_t y = part_of(both, size, v.b >> 3 * k & 7, v.b_signed);
    __int128 value = computed(v, x, y);
    if (v.saturates) value = clamped(value, size, v.to_signed);
    const bool is_chosen = v.mask >> k & 1;
    if (adds) result += is_chosen ? static_cast<uint32_t>(value) : 0;
    else
      result |= (is_chosen ? static_cast<uint32_t>(value) & mask<uint32_t>(size)
                           : static_cast<uint32_t>(part_of(c, size, k, false)))
                << size * k;
  }
  return result;
}

void run_video(Warp& w, const MicroOp& op, Lanes active) {
  const auto v = std::bit_cast<Video>(op.offset);
  for (const unsigned lane : each(active)) {
    const auto at = [&](int row) { return row < 0 ? 0 : static_cast<uint32_t>(w.rows[row].lane[lane]); };
    const uint32_t a = at(op.a), b = at(op.b), c = at(op.c);
    w.rows[op.to].lane[lane] = v.count > 1 ? elements(v, a, b, c) : scalar(v, a, b, c);
  }
}

// cvt.pack: a above b, each saturated to op.count bits, above what is left of c.
template <bool is_signed>
void run_pack(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned size = op.count;
  for (const unsigned lane : each(active)) {
    const auto part = [&](int row) {
      const auto value = static_cast<int32_t>(w.rows[row].lane[lane]);
      return static_cast<uint32_t>(clamped(value, size, is_signed)) & mask<uint32_t>(size);
    };
    const uint32_t pair = part(op.a) << size | part(op.b);
    const uint32_t rest = op.c < 0 ? 0 : static_cast<uint32_t>(w.rows[op.c].lane[lane]) << 2 * size;
    w.rows[op.to].lane[lane] = rest | pair;
  }
}

// --- Lowering --------------------------------------------------------------------------------------------------------
// "", "b2", "h1" as Part, in a number.
uint64_t part_named(Lowering& l, const ptx::Instruction& i, const std::string& name) {
  if (name.empty()) return 32;
  const unsigned size = name[0] == 'b' ? 8 : 16, index = static_cast<unsigned>(name.back() - '0');
  if (name.size() != 2 || (name[0] != 'b' && name[0] != 'h') || index >= 32 / size) l.not_simulated(i);
  return size | index << 6;
}
// "h32", "b7654": the lowest last; of three bits each.
uint64_t parts_named(Lowering& l, const ptx::Instruction& i, std::string name, unsigned count, const char* otherwise) {
  if (name.empty()) name = otherwise;
  if (name.size() != count + 1) l.not_simulated(i);
  uint64_t all = 0;
  for (unsigned k = 0; k < count; ++k) {
    const auto index = static_cast<unsigned>(name[name.size() - 1 - k] - '0');
    if (index >= 2 * count) l.not_simulated(i);
    all |= uint64_t(index) << 3 * k;
  }
  return all;
}
// "h1", "b31": a bit for each that is named.
uint64_t mask_named(const std::string& name, unsigned count) {
  if (name.empty()) return mask<uint64_t>(count);
  uint64_t all = 0;
  for (const char digit : name.substr(1)) all |= uint64_t(1) << (digit - '0');
  return all;
}

Kind kind_of(std::string_view opcode) {
  constexpr std::string_view names[] = {"vadd",  "vsub", "vabsdiff", "vmin", "vmax",
                                        "vavrg", "vshl", "vshr",     "vmad", "vset"};
  return Kind(std::ranges::find(names, opcode) - std::begin(names));
}

void take_types(Modifiers& m, Video& v) {
  const bool is_set = Kind(v.kind) == Kind::set;
  v.to_signed = !is_set && m.type() == Type::s32;
  v.a_signed = m.type() == Type::s32;
  v.b_signed = m.type() == Type::s32;
  if (is_set) v.to_signed = v.a_signed || v.b_signed;
  constexpr std::string_view comparisons[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  for (unsigned k = 0; k < std::size(comparisons); ++k)
    if (is_set && m.take(comparisons[k])) v.comparison = k;
  v.saturates = m.take("sat");
  v.wraps = m.take("wrap");
  m.ignore({"clamp"});
  v.plus_one = m.take("po");
  v.scale = m.take("shr7") ? 7 : m.take("shr15") ? 15 : 0;
  const Second second = m.take("add")   ? Second::add
                        : m.take("min") ? Second::min
                        : m.take("max") ? Second::max
                                        : Second::none;
  v.second = uint64_t(second);
}

}  // namespace

void lower_video(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  Video v = {};
  const unsigned count = i.opcode.back() == '2' ? 2 : i.opcode.back() == '4' ? 4 : 1;
  v.count = count;
  v.kind = uint64_t(kind_of(i.opcode.substr(0, i.opcode.size() - (count > 1))));
  take_types(m, v);
  std::vector<ptx::Operand> operands = i.operands;
  if (operands.size() < 3 || operands.size() > 4) l.not_simulated(i);
  const auto negates = [&](size_t k) { return k < operands.size() && std::exchange(operands[k].negated, false); };
  v.negates_a = negates(1);
  v.negates_b = negates(2);
  v.negates_c = negates(3);
  if (count > 1) {
    v.a = parts_named(l, i, operands[1].name, count, count == 2 ? "h10" : "b3210");
    v.b = parts_named(l, i, operands[2].name, count, count == 2 ? "h32" : "b7654");
    v.mask = mask_named(operands[0].name, count);
  } else {
    v.a = part_named(l, i, operands[1].name);
    v.b = part_named(l, i, operands[2].name);
    v.to = part_named(l, i, operands[0].name);
    if (!operands[0].name.empty()) v.second = uint64_t(Second::merge);
  }
  const int a = l.row(operands[1]), b = l.row(operands[2]);
  const int c = operands.size() > 3 ? l.row(operands[3]) : -1;
  const int to = l.row(operands[0]);
  l.emit(run_video, i, to, a, b, c).offset = std::bit_cast<int64_t>(v);
}

void lower_pack(Lowering& l, const ptx::Instruction& i, Modifiers& m) {
  m.ignore({"sat"});
  constexpr std::string_view types[] = {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"};
  unsigned found = 0;
  while (found < std::size(types) && !m.take(types[found])) ++found;
  m.ignore({"s32", "b32"});
  if (found == std::size(types) || i.operands.size() < 3) l.not_simulated(i);
  const int a = l.row(i.operands[1]), b = l.row(i.operands[2]);
  const int c = i.operands.size() > 3 ? l.row(i.operands[3]) : -1;
  const int to = l.row(i.operands[0]);
  l.emit(found % 2 ? run_pack<true> : run_pack<false>, i, to, a, b, c).count = uint8_t(16 >> found / 2);
}

}  // namespace gpu::arithmetic
