// SPDX-License-Identifier: MIT-0
#include "ptx.h"

namespace ptx {

static constexpr uint8_t sizes[] = {0,  1, 8, 16, 32, 64, 128, 8,  16, 32, 64, 8,  16, 32, 64, 16, 32, 16,
                                    32, 8, 8, 16, 16, 32, 32,  32, 64, 32, 32, 64, 32, 4,  4,  2,  2};

Type type_named(std::string_view name) {
  std::string_view words = words_of(Type());
  for (int type = 1; !words.empty() && static_cast<Type>(type) <= Type::f64; ++type) {
    const std::string_view word = words.substr(0, words.find(','));
    if (word == name) return static_cast<Type>(type);
    words.remove_prefix(word.size() + 2);
  }
  return Type::none;
}

unsigned bits(Type type) { return sizes[static_cast<size_t>(type)]; }

}  // namespace ptx
