// SPDX-License-Identifier: MIT-0
// Gives files to the readers, as the fuzzers do: NAME.ptx as PTX text, every other as a fat binary. A file of at most
// 4096 bytes also with its end cut off, at each byte.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#include "ptx_input.h"

int main(int count, char** arguments) {
  for (int k = 1; k < count; ++k) {
    const std::string path = arguments[k];
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    if (bytes.empty()) return std::printf("%s: cannot be read or is empty\n", path.c_str()), 1;
    for (size_t size = bytes.size() > 4096 ? bytes.size() : 0; size <= bytes.size(); ++size) {
      const std::vector<char> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      if (path.ends_with(".ptx")) try_ptx({exact.data(), exact.size()});
      else try_fat_binary(std::as_bytes(std::span(exact)));
    }
  }
  std::printf("%d files: OK\n", count - 1);
  return count > 1 ? 0 : 1;
}
