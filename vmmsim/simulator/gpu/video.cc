// SPDX-License-Identifier: MIT-0
// The instructions for video on two or four parts of registers at once, as compilers write them for __vadd2 and the
// like; and cvt.pack. As the PTX manual has them.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

enum class Kind : uint8_t { add, sub, absdiff, min, max, avrg, set };

// An instruction, in MicroOp::offset. The parts are numbers in {b, a}, for each of `count` elements three bits.
struct Video {
  uint64_t kind : 3, comparison : 3, a_signed : 1, b_signed : 1, to_signed : 1, saturates : 1, adds : 1, count : 3,
      mask : 4, a : 12, b : 12;
};
static_assert(sizeof(Video) == 8);

int64_t part_of(uint64_t word, unsigned size, unsigned index, bool is_signed) {
  const uint64_t bits = word >> size * index & mask<uint64_t>(size), sign = uint64_t(1) << (size - 1);
  return is_signed ? static_cast<int64_t>((bits ^ sign) - sign) : static_cast<int64_t>(bits);
}
int64_t clamped(int64_t value, unsigned size, bool is_signed) {
  const int64_t least = is_signed ? -(int64_t(1) << (size - 1)) : 0;
  return std::clamp(value, least, (int64_t(1) << (size - is_signed)) - 1);
}

bool compare(unsigned comparison, int64_t a, int64_t b) {
  const bool answers[] = {false, a == b, a != b, b > a, b >= a, a > b, a >= b};  // in the order of ptx::Comparison
  return answers[comparison];
}

int64_t computed(const Video& v, int64_t a, int64_t b) {
  switch (Kind(v.kind)) {
    case Kind::add: return a + b;
    case Kind::sub: return a - b;
    case Kind::absdiff: return a < b ? b - a : a - b;
    case Kind::min: return std::min(a, b);
    case Kind::max: return std::max(a, b);
    case Kind::avrg: return (a + b + (a + b >= 0)) >> 1;
    default: return compare(v.comparison, a, b);
  }
}

uint32_t elements(const Video& v, uint32_t a, uint32_t b, uint32_t c) {
  const unsigned size = 32 / v.count;
  const uint64_t both = uint64_t(b) << 32 | a;
  uint32_t result = v.adds ? c : 0;
  for (unsigned k = 0; k < v.count; ++k) {
    const int64_t x = part_of(both, size, v.a >> 3 * k & 7, v.a_signed);
    const int64_t y = part_of(both, size, v.b >> 3 * k & 7, v.b_signed);
    int64_t value = computed(v, x, y);
    if (v.saturates) value = clamped(value, size, v.to_signed);
    const bool is_chosen = v.mask >> k & 1;
    if (v.adds) result += is_chosen ? static_cast<uint32_t>(value) : 0;
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
    const auto at = [&](int row) { return static_cast<uint32_t>(w.rows[row].lane[lane]); };
    w.rows[op.to].lane[lane] = elements(v, at(op.a), at(op.b), at(op.c));
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

template <Kind kind, unsigned count>
void lower_video(Lowering& l, const ptx::Decoded& i) {
  Video v = {};
  v.count = count;
  v.kind = uint64_t(kind);
  const bool is_set = kind == Kind::set;
  v.a_signed = i.types[!is_set] == Type::s32;
  v.b_signed = i.types[is_set ? 1 : 2] == Type::s32;
  v.to_signed = is_set ? v.a_signed || v.b_signed : i.type() == Type::s32;
  v.comparison = is_set ? uint64_t(i.comparison) : 0;
  v.saturates = i.has(Word::sat);
  v.adds = i.operation == ptx::Operation::add;
  v.a = parts_named(l, i, i["a"].name, count, count == 2 ? "h10" : "b3210");
  v.b = parts_named(l, i, i["b"].name, count, count == 2 ? "h32" : "b7654");
  v.mask = mask_named(i["d"].name, count);
  const int a = l.row(i["a"]), b = l.row(i["b"]), c = l.row(i["c"]), to = l.row(i["d"]);
  l.emit(run_video, i, to, a, b, c).offset = std::bit_cast<int64_t>(v);
}

}  // namespace

void lower_pack(Lowering& l, const ptx::Decoded& i) {
  const int a = l.row(i["a"]), b = l.row(i["b"]), c = l.row_of(i, "c"), to = l.row(i["d"]);
  l.emit(is_signed(i.type()) ? run_pack<true> : run_pack<false>, i, to, a, b, c).count = uint8_t(ptx::bits(i.type()));
}

}  // namespace gpu::arithmetic

namespace gpu {

const Opcodes video_opcodes = [] {
  using enum ptx::Opcode;
  using arithmetic::Kind, arithmetic::lower_video;
  return Opcodes{{vadd2, lower_video<Kind::add, 2>},         {vadd4, lower_video<Kind::add, 4>},
                 {vsub2, lower_video<Kind::sub, 2>},         {vsub4, lower_video<Kind::sub, 4>},
                 {vabsdiff2, lower_video<Kind::absdiff, 2>}, {vabsdiff4, lower_video<Kind::absdiff, 4>},
                 {vmin2, lower_video<Kind::min, 2>},         {vmin4, lower_video<Kind::min, 4>},
                 {vmax2, lower_video<Kind::max, 2>},         {vmax4, lower_video<Kind::max, 4>},
                 {vavrg2, lower_video<Kind::avrg, 2>},       {vavrg4, lower_video<Kind::avrg, 4>},
                 {vset2, lower_video<Kind::set, 2>},         {vset4, lower_video<Kind::set, 4>}};
}();

}  // namespace gpu
