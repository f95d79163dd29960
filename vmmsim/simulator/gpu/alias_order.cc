// SPDX-License-Identifier: MIT-0
#include "alias_order.h"

#include <bit>

namespace gpu {

void AliasOrder::stored(unsigned thread, const char* bytes, unsigned size, uint64_t address) {
  last_.resize(most_words);
  ++time_;
  const auto at = reinterpret_cast<uintptr_t>(bytes);
  for (uintptr_t number = at / word; number * word < at + size; ++number)
    last_[number % most_words] = {number, address - at, time_, thread};
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  Stores& its = threads_[thread];
  const Store now = {bytes, size, address};
  for (Store& store : its.all)
    if (store.bytes == bytes && store.size == size && store.address == address) return;
  if (its.all.size() < most) its.all.push_back(now);
  else its.all[its.next++ % most] = now;
}

unsigned AliasOrder::fenced(unsigned thread) {
  if (!time_) return 0;
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  threads_[thread].all.clear();
  return ++threads_[thread].fences;
}

void AliasOrder::note_wait(unsigned first, uint32_t threads, bool in_warp) {
  if (waits_.size() < first + 32) waits_.resize(first + 32);
  for (; threads; threads &= threads - 1) {
    Waits& waits = waits_[first + std::countr_zero(threads)];
    (in_warp ? waits.for_warp : waits.for_block) = time_;
  }
}

AliasOrder::Written AliasOrder::unordered(unsigned thread, const char* bytes, unsigned size, uint64_t address) const {
  if (!time_) return {};
  static const Stores none;
  const Stores& its = thread < threads_.size() ? threads_[thread] : none;
  for (const Store& store : its.all)
    if (bytes < store.bytes + store.size && store.bytes < bytes + size &&
        store.address - address != uint64_t(store.bytes - bytes))
      return {store.address, false, its.fences};
  const auto at = reinterpret_cast<uintptr_t>(bytes);
  const Waits waits = thread < waits_.size() ? waits_[thread] : Waits();
  for (uintptr_t number = at / word; number * word < at + size; ++number) {
    const Last& last = last_[number % most_words];
    const bool is_of_warp = last.thread / 32 == thread / 32;
    if (last.number == number && last.thread != thread && last.time > waits.for_block &&
        !(is_of_warp && last.time <= waits.for_warp))
      return {last.distance + number * word, true, its.fences};
  }
  return {};
}

}  // namespace gpu
