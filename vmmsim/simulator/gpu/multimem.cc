// SPDX-License-Identifier: MIT-0
// The multimem instructions: what the switch between the GPUs does. A page of a multicast mapping stands for one
// frame on each GPU of the team. A load reads all of them and reduces what it finds to one value; a store writes each
// of them; a reduction is one atomic operation in each of them. The GPU that asks sends or receives one value only.
#include "access.h"
#include "half.h"

namespace gpu {

using ptx::Type;

namespace {

// The frames behind a multicast address, one for each GPU, and where in each of them the address lies.
struct Replicas {
  memory::Replicas frames;
  uint64_t offset;
};

// Finds them for one lane's access of `size` bytes at an address. Throws Fault if the address is not aligned, is no
// multicast address, may not be accessed in this way (`right`), or if a GPU has bound no memory there yet.
Replicas find_replicas(const Warp& w, const MicroOp& op, unsigned lane, uint64_t address, unsigned size,
                       memory::Entry right) {
  if (address % size != 0)
    fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
          hexadecimal(address) + " is not a multiple of the access's " + std::to_string(size) + " bytes", address);
  const memory::Entry entry = memory::page_table(w.block->device).lookup(address);
  if (!(entry & memory::multicast) || !(entry & right)) {
    const bool is_ordinary = (entry & right) && !(entry & memory::multicast);
    fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
          is_ordinary ? hexadecimal(address) +
                            " is an ordinary address, and a multimem instruction needs a multicast one: map the "
                            "handle of a multicast object (cuMulticastCreate, cuMemMap) and give that address"
                      : what_lies_at(*w.block, address, right == memory::writable),
          address);
  }
  const memory::Replicas frames = memory::replicas(entry);
  const std::string unbound = memory::what_is_unbound(address, frames);
  if (!unbound.empty()) fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS, unbound, address);
  return {frames, address % memory::page_size};
}
Replicas find_replicas(const Warp& w, const MicroOp& op, unsigned lane, unsigned size, memory::Entry right) {
  return find_replicas(w, op, lane, w.rows[op.a].lane[lane] + static_cast<uint64_t>(op.offset), size, right);
}

// The sum of 16-bit numbers with 32-bit steps between (.acc::f32): rounded once, at the end.
template <class F> uint64_t sum(std::span<const uint64_t> values, unsigned shift = 0) {
  float total = 0;
  for (const uint64_t value : values) total += F::value(value >> shift & 0xffff);
  return F::bits(total) << shift;
}
uint64_t sum_in_32_bits(std::span<const uint64_t> values, Type type) {
  switch (type) {
    case Type::f16: return sum<Half>(values);
    case Type::f16x2: return sum<Half>(values) | sum<Half>(values, 16);
    case Type::bf16: return sum<Bfloat>(values);
    default: return sum<Bfloat>(values) | sum<Bfloat>(values, 16);
  }
}

// multimem.ld_reduce: one value out of the replicas' values, in the order of the GPUs. Without op.combine it is a sum
// with 32-bit steps.
void load_reduce(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned size = ptx::bytes(op.type);
  std::vector<uint64_t> values;
  for (const unsigned lane : each(active)) {
    const Replicas replicas = find_replicas(w, op, lane, size * op.count, memory::readable);
    for (unsigned element = 0; element < op.count; ++element) {
      values.clear();
      memory::for_each_bound(replicas.frames, [&](char* frame) {
        values.push_back(load(frame + replicas.offset + element * size, size));
      });
      uint64_t result = values.empty() ? 0 : values[0];  // all unbound since they were found
      if (op.combine) {
        for (size_t gpu = 1; gpu < values.size(); ++gpu) result = op.combine(result, values[gpu], 0);
      } else {
        result = sum_in_32_bits(values, op.type);
      }
      w.rows[op.rows[element]].lane[lane] = result;
    }
  }
}

// multimem.st: the same value to each replica. multimem.red: each replica's value combined with it (op.combine),
// atomically in each of them, not in all of them at once.
void store_or_reduce(Warp& w, const MicroOp& op, Lanes active) {
  const unsigned size = ptx::bytes(op.type);
  for (const unsigned lane : each(active)) {
    const Replicas replicas = find_replicas(w, op, lane, size * op.count, memory::writable);
    for (unsigned element = 0; element < op.count; ++element) {
      const uint64_t value = w.rows[op.rows[element]].lane[lane];
      memory::for_each_bound(replicas.frames, [&](char* frame) {
        char* const at = frame + replicas.offset + element * size;
        if (op.combine) combine(at, size, op.combine, value);
        else store(at, size, value);
      });
    }
  }
}

// multimem.cp.async.bulk: `b` bytes of shared memory, from c on, to each replica behind a, or combined with what is
// there (op.combine), elements of op.type. From the manual of PTX 9.1: no GPU was asked.
void copy_to_replicas(Warp& w, const MicroOp& op, Lanes active) {
  constexpr unsigned unit = 16;  // bytes, that addresses and sizes are multiples of
  const unsigned element = op.combine ? ptx::bytes(op.type) : 8;
  for (const unsigned lane : each(active)) {
    const uint64_t to = w.rows[op.a].lane[lane], from = w.rows[op.c].lane[lane];
    const auto size = static_cast<uint32_t>(w.rows[op.b].lane[lane]);
    if (size % unit)
      fault(w, op, lane, CUDA_ERROR_MISALIGNED_ADDRESS,
            "the size, " + std::to_string(size) + " bytes, is not a multiple of 16: what a GPU does then is undefined");
    for (uint32_t at = 0; at < size; at += unit) {
      const Backing source = locate(w, op, lane, ptx::Space::shared, from + at, unit, memory::readable);
      const Replicas replicas = find_replicas(w, op, lane, to + at, unit, memory::writable);
      for (unsigned i = 0; i < unit; i += element) {
        const uint64_t value = load(source.bytes + i, element);
        for (char* const frame : replicas.frames) {
          if (op.combine) combine(frame + replicas.offset + i, element, op.combine, value);
          else store(frame + replicas.offset + i, element, value);
        }
      }
    }
  }
}

// multimem.cp{.reduce}.async.bulk
void lower_multimem_copy(Lowering& l, const ptx::Decoded& i) {
  const int to = whole_address_of(l, i, i["dstMem"], ptx::Space::global).row;
  const int from = whole_address_of(l, i, i["srcMem"], ptx::Space::shared).row;
  const int size = l.row(i["size"]);
  MicroOp& op = l.emit(copy_to_replicas, i, -1, to, size, from);
  op.type = i.type();
  if (i.has(ptx::Word::reduce)) op.combine = without_flush(combination_of(i.operation, i.type()));
}

}  // namespace

void lower_multimem(Lowering& l, const ptx::Decoded& i) {
  if (i.has(ptx::Word::cp)) return lower_multimem_copy(l, i);
  const bool loads = i.has(ptx::Word::ld_reduce), in_32_bits = i.has(ptx::Word::acc_f32);
  const AddressOperand at = address_of(l, i["a"], ptx::Space::global);
  const std::array<int, 8> rows = rows_of(l, i, i[loads ? "d" : "b"], i.type());
  MicroOp& op = l.emit(loads ? load_reduce : store_or_reduce, i, -1, at.row);
  op.type = i.type();
  op.count = i.count;
  op.offset = at.offset;
  op.rows = rows;
  if (!in_32_bits) op.combine = combination_of(i.operation, i.type());
  // Every access here is as strict as .relaxed and .release ask.
  if (i.order == ptx::Order::acquire) emit_fence(l, i, reaches_beyond_block(i));
}

}  // namespace gpu
