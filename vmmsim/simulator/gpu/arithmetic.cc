// SPDX-License-Identifier: MIT-0
// Which operation an instruction is that a thread computes by itself; and mov.
#include "arithmetic.h"

namespace gpu::arithmetic {
namespace {

// Puts the `count` elements in `rows` together to a value of `type`, or takes it apart.
unsigned element_bits(const MicroOp& op) { return ptx::bits(op.type) / op.count; }
void pack(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned bits = element_bits(op);
  const auto element = mask<uint64_t>(bits);
  for_each_lane(active, [&](unsigned lane) {
    uint64_t value = 0;
    for (unsigned k = 0; k < op.count; ++k) value |= (w.rows[op.rows[k]].lane[lane] & element) << (bits * k & 63);
    w.rows[op.to].lane[lane] = value;
  });
}
void unpack(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned bits = element_bits(op);
  for_each_lane(active, [&](unsigned lane) {
    const uint64_t value = w.rows[op.a].lane[lane];
    for (unsigned k = 0; k < op.count; ++k) w.rows[op.rows[k]].lane[lane] = value >> bits * k;
  });
}

// All elements are read before one is written.
void move_vector(Lowering& l, const ptx::Decoded& i, Type type) {
  const auto &to = i.operands()[0].elements, &from = i.operands()[1].elements;
  if (to.size() != from.size()) l.not_simulated(i);
  std::vector<int> values;
  for (const ptx::Operand& element : from) {
    const int row = l.row(element, type);
    values.push_back(l.temporary());
    l.emit(copy, i, values.back(), row);
  }
  for (size_t k = 0; k < to.size(); ++k) l.emit(copy, i, l.row(to[k]), values[k]);
}

void lower_move(Lowering& l, const ptx::Decoded& i) {
  const Type type = i.type();
  if (type == Type::b128) l.not_simulated(i);
  const ptx::Operand &d = i.operands().at(0), &a = i.operands().at(1);
  if (i.count > 1) return move_vector(l, i, type);
  const bool packs = a.kind == ptx::Operand::list, unpacks = d.kind == ptx::Operand::list;
  if (!packs && !unpacks) {
    const int from = l.row(a, type), to = l.row(d);
    l.emit(copy, i, to, from);
    return;
  }
  const auto& elements = (packs ? a : d).elements;
  if (elements.empty() || elements.size() > 8) l.not_simulated(i);
  std::array<int, 8> rows = {};
  for (size_t k = 0; k < elements.size(); ++k) rows[k] = l.row(elements[k]);
  const int whole = l.row(packs ? d : a);
  MicroOp& op = packs ? l.emit(pack, i, whole) : l.emit(unpack, i, -1, whole);
  op.rows = rows;
  op.count = static_cast<uint8_t>(elements.size());
  op.type = type;
}

// What computes one result from one to four operands, lane by lane.
void lower_elementwise(Lowering& l, const ptx::Decoded& i) {
  const Type type = i.type();
  const bool is_real = is_floating(type);
  const Operations& operations = is_real ? floating_operations() : integer_operations();
  const auto found = operations.find(i.opcode);
  const Handler handler = found == operations.end() ? nullptr : found->second(i, type);
  if (!handler || i.operands().size() > 5) l.not_simulated(i);
  int rows[5] = {-1, -1, -1, -1, -1};
  for (size_t k = 0; k < i.operands().size(); ++k) rows[k] = l.row(i.operands()[k], type);
  MicroOp& op = l.emit(handler, i, rows[0], rows[1], rows[2], rows[3], rows[4]);
  if (is_real) op.mode = float_mode_of(i);
}

// add, sub, mad
void lower_sum(Lowering& l, const ptx::Decoded& i) { (i.has(Word::cc) ? lower_with_carry : lower_elementwise)(l, i); }

}  // namespace

const Handler copy = exactly<uint64_t, uint64_t>([](uint64_t x) { return x; });

}  // namespace gpu::arithmetic

namespace gpu {

const Opcodes arithmetic_opcodes = [] {
  using namespace arithmetic;
  using enum ptx::Opcode;
  Opcodes all = {
      {mov, lower_move},       {cvt, lower_conversion},  {setp, lower_comparison}, {set, lower_comparison},
      {selp, lower_selection}, {slct, lower_selection},  {add, lower_sum},         {addc, lower_with_carry},
      {sub, lower_sum},        {subc, lower_with_carry}, {mad, lower_sum},         {madc, lower_with_carry},
  };
  for (const Operations* const operations : {&integer_operations(), &floating_operations()})
    for (const auto& [opcode, choose] : *operations) all.try_emplace(opcode, lower_elementwise);
  return all;
}();

}  // namespace gpu
