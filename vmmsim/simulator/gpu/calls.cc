// SPDX-License-Identifier: MIT-0
// Calls of functions that are not put in the caller's place: those of a function by its address, and of one that may
// call itself.
#include <algorithm>
#include <cassert>
#include <cstring>
#include "../../trace/text.h"
#include "warp.h"

namespace gpu {

namespace {

CallStack& stack_of(const Warp& w, unsigned lane) { return w.block->stacks[w.first + lane]; }

void copy_parameters(const std::vector<CallSite::Copy>& copies, std::byte* to, const std::byte* from) {
  for (const CallSite::Copy& copy : copies) std::memcpy(to + copy.to, from + copy.from, copy.size);
}

// The frame of the function that a lane calls.
size_t callee_of(const Warp& w, const MicroOp& op, const CallSite& site, unsigned lane) {
  if (op.a < 0) return site.callee;
  const uint64_t address = w.rows[op.a].lane[lane];
  const auto& entries = w.block->lowered->functions_by_address;
  const auto found = entries.find(address);
  if (found == entries.end())
    fault(w, op, lane, CUDA_ERROR_INVALID_PC,
          hexadecimal(address) + " is no function of the kernel's module" + (address ? "" : ": the pointer is null"));
  return found->second;
}

// A lane's frame of the called function, with its parameters.
void push(Warp& w, const MicroOp& op, unsigned lane, const CallSite& site, const LoweredKernel::Frame& callee) {
  const LoweredKernel& lowered = *w.block->lowered;
  CallStack& stack = stack_of(w, lane);
  uint64_t& base = w.rows[lowered.frame_row].lane[lane];
  const uint64_t caller_base = base;
  const uint64_t callee_base = caller_base + lowered.frames[site.caller].bytes;
  const size_t most = lowered.local_bytes + stack_allowance * w.block->launch->stack_size;
  if (callee_base + callee.bytes > most)
    fault(w, op, lane, CUDA_ERROR_ILLEGAL_ADDRESS,
          "the thread's stack is full, at " + std::to_string(stack.calls.size()) +
              " calls: raise cudaLimitStackSize, now " + std::to_string(w.block->launch->stack_size) +
              " bytes, or let the function not call itself so often");
  if (stack.bytes.size() < callee_base + callee.bytes) stack.bytes.resize(callee_base + callee.bytes);
  copy_parameters(site.arguments, stack.bytes.data() + callee_base, stack.bytes.data() + caller_base);
  stack.calls.push_back({&site, &callee, w.current + 1});
  for (int row = callee.first_row; row < callee.end_row; ++row) stack.saved.push_back(w.rows[row].lane[lane]);
  base = callee_base;
}

}  // namespace

// Of all lanes, those that run the same function go on together.
void call_function(Warp& w, const MicroOp& op, Lanes active) {
  const LoweredKernel& lowered = *w.block->lowered;
  const CallSite& site = lowered.call_sites[static_cast<size_t>(op.call_site)];
  w.places.set(w.running & ~active, w.alive, w.next);
  for (const unsigned lane : each(active)) {
    const LoweredKernel::Frame& callee = lowered.frames[callee_of(w, op, site, lane)];
    push(w, op, lane, site, callee);
    w.places.set(bit(lane), w.alive, callee.entry);
  }
  w.diverged = true;
}

void return_from_function(Warp& w, const MicroOp&, Lanes active) {
  const LoweredKernel& lowered = *w.block->lowered;
  w.places.set(w.running & ~active, w.alive, w.next);
  for (const unsigned lane : each(active)) {
    CallStack& stack = stack_of(w, lane);
    assert(!stack.calls.empty());
    const auto [site, callee, return_to] = stack.calls.back();
    stack.calls.pop_back();
    uint64_t& base = w.rows[lowered.frame_row].lane[lane];
    const uint64_t caller_base = base - lowered.frames[site->caller].bytes;
    copy_parameters(site->returns, stack.bytes.data() + caller_base, stack.bytes.data() + base);
    base = caller_base;
    const auto rows = static_cast<size_t>(callee->end_row - callee->first_row);
    assert(rows <= stack.saved.size());
    const auto saved = stack.saved.end() - static_cast<ptrdiff_t>(rows);
    for (size_t k = 0; k < rows; ++k)
      w.rows[static_cast<size_t>(callee->first_row) + k].lane[lane] = saved[static_cast<ptrdiff_t>(k)];
    stack.saved.erase(saved, stack.saved.end());
    w.places.set(bit(lane), w.alive, return_to);
  }
  w.diverged = true;
}

}  // namespace gpu
