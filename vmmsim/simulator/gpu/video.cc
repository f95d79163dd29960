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
uint64_t part_named(Lowering& l, const ptx::Decoded& i, const std::string& name) {
  if (name.empty()) return 32;
  const unsigned size = name[0] == 'b' ? 8 : 16, index = static_cast<unsigned>(name.back() - '0');
  if (name.size() != 2 || (name[0] != 'b' && name[0] != 'h') || index >= 32 / size) l.not_simulated(i);
  return size | index << 6;
}
// "h32", "b7654": the lowest last; of three bits each.
uint64_t parts_named(Lowering& l, const ptx::Decoded& i, std::string name, unsigned count, const char* otherwise) {
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

Second second_of(ptx::Operation operation) {
  switch (operation) {
    case ptx::Operation::add: return Second::add;
    case ptx::Operation::min: return Second::min;
    case ptx::Operation::max: return Second::max;
    default: return Second::none;
  }
}

template <Kind kind, unsigned count = 1>
void lower_video(Lowering& l, const ptx::Decoded& i) {
  Video v = {};
  v.count = count;
  v.kind = uint64_t(kind);
  const bool is_set = kind == Kind::set;
  v.a_signed = i.types[!is_set] == Type::s32;
  v.b_signed = i.types[is_set ? 1 : 2] == Type::s32;
  v.to_signed = is_set ? v.a_signed || v.b_signed : i.types[0] == Type::s32;
  if (is_set) v.comparison = static_cast<unsigned>(i.comparison) - 1;
  v.saturates = i.has(Word::sat);
  v.wraps = i.has(Word::wrap);
  v.plus_one = i.has(Word::po);
  v.scale = i.has(Word::shr7) ? 7 : i.has(Word::shr15) ? 15 : 0;
  v.second = uint64_t(second_of(i.operation));
  const auto row_of = [&](const char* name, auto&& set_sign) {
    const ptx::Operand* const operand = i.find(name);
    if (!operand) return -1;
    ptx::Operand whole = *operand;
    set_sign(std::exchange(whole.negated, false));
    return l.row(whole);
  };
  if (count > 1) {
    v.a = parts_named(l, i, i["a"].name, count, count == 2 ? "h10" : "b3210");
    v.b = parts_named(l, i, i["b"].name, count, count == 2 ? "h32" : "b7654");
    v.mask = mask_named(i["d"].name, count);
  } else {
    v.a = part_named(l, i, i["a"].name);
    v.b = part_named(l, i, i["b"].name);
    v.to = part_named(l, i, i["d"].name);
    if (!i["d"].name.empty()) v.second = uint64_t(Second::merge);
  }
  const int a = row_of("a", [&](bool is_negated) { v.negates_a = is_negated; });
  const int b = row_of("b", [&](bool is_negated) { v.negates_b = is_negated; });
  const int c = row_of("c", [&](bool is_negated) { v.negates_c = is_negated; });
  const int to = l.row(i["d"]);
  l.emit(run_video, i, to, a, b, c).offset = std::bit_cast<int64_t>(v);
}

}  // namespace

void lower_pack(Lowering& l, const ptx::Decoded& i) {
  const int a = l.row(i["a"]), b = l.row(i["b"]);
  const int c = i.find("c") ? l.row(i["c"]) : -1;
  const int to = l.row(i["d"]);
  l.emit(is_signed(i.type()) ? run_pack<true> : run_pack<false>, i, to, a, b, c).count = uint8_t(ptx::bits(i.type()));
}

}  // namespace gpu::arithmetic

namespace gpu {

const Opcodes video_opcodes = [] {
  using enum ptx::Opcode;
  using arithmetic::Kind, arithmetic::lower_video;
  return Opcodes{{vadd, lower_video<Kind::add>},
                 {vadd2, lower_video<Kind::add, 2>},
                 {vadd4, lower_video<Kind::add, 4>},
                 {vsub, lower_video<Kind::sub>},
                 {vsub2, lower_video<Kind::sub, 2>},
                 {vsub4, lower_video<Kind::sub, 4>},
                 {vabsdiff, lower_video<Kind::absdiff>},
                 {vabsdiff2, lower_video<Kind::absdiff, 2>},
                 {vabsdiff4, lower_video<Kind::absdiff, 4>},
                 {vmin, lower_video<Kind::min>},
                 {vmin2, lower_video<Kind::min, 2>},
                 {vmin4, lower_video<Kind::min, 4>},
                 {vmax, lower_video<Kind::max>},
                 {vmax2, lower_video<Kind::max, 2>},
                 {vmax4, lower_video<Kind::max, 4>},
                 {vavrg2, lower_video<Kind::avrg, 2>},
                 {vavrg4, lower_video<Kind::avrg, 4>},
                 {vset, lower_video<Kind::set>},
                 {vset2, lower_video<Kind::set, 2>},
                 {vset4, lower_video<Kind::set, 4>},
                 {vshl, lower_video<Kind::shl>},
                 {vshr, lower_video<Kind::shr>},
                 {vmad, lower_video<Kind::mad>}};
}();

}  // namespace gpu
