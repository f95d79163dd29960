// SPDX-License-Identifier: MIT-0
#include "identity.h"

#include <fcntl.h>
#include <unistd.h>

namespace recorder {

constexpr uint64_t signals = 64;

void mark(int descriptor, uint64_t nth) {
  if (fcntl(descriptor, F_GETOWN) || fcntl(descriptor, F_GETSIG)) return;
  if (!fcntl(descriptor, F_SETOWN, getpid())) fcntl(descriptor, F_SETSIG, int(nth % signals) + 1);
}

std::optional<uint64_t> identity_of(int descriptor) {
  const int owner = fcntl(descriptor, F_GETOWN), signal = fcntl(descriptor, F_GETSIG);
  if (owner <= 0 || signal <= 0) return {};
  return uint64_t(owner) << 8 | uint64_t(signal);
}

uint64_t identity_of(const void* bytes, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (size_t i = 0; i < size; ++i) hash = (hash ^ static_cast<const unsigned char*>(bytes)[i]) * 0x100000001b3;
  return hash;
}

}  // namespace recorder
