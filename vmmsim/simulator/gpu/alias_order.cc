// SPDX-License-Identifier: MIT-0
#include "alias_order.h"

namespace gpu {

void AliasOrder::stored(unsigned thread, const char* bytes, unsigned size, uint64_t address) {
  if (threads_.size() <= thread) threads_.resize(thread + 1);
  Stores& its = threads_[thread];
  const Store now = {bytes, size, address};
  for (Store& store : its.all)
    if (store.bytes == bytes && store.size == size && store.address == address) return;
  if (its.all.size() < most) its.all.push_back(now);
  else its.all[its.next++ % most] = now;
}

void AliasOrder::fenced(unsigned thread) {
  if (thread < threads_.size()) threads_[thread].all.clear();
}

uint64_t AliasOrder::unordered(unsigned thread, const char* bytes, unsigned size, uint64_t address) const {
  if (thread >= threads_.size()) return 0;
  for (const Store& store : threads_[thread].all)
    if (bytes < store.bytes + store.size && store.bytes < bytes + size &&
        store.address - address != uint64_t(store.bytes - bytes))
      return store.address;
  return 0;
}

}  // namespace gpu
