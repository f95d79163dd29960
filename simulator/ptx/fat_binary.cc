// SPDX-License-Identifier: MIT-0
// The container that nvcc puts the code of GPUs into: a header of 16 bytes (magic, version, size of the header, size of
// the rest), then for each image an entry with a header of its own and PTX text or machine code.
#include <algorithm>
#include <cstring>
#include "ptx.h"
#ifdef VMM_HAVE_ZSTD
#include <zstd.h>
#endif

namespace ptx {
namespace {

constexpr uint16_t kind_ptx = 1;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
constexpr uint64_t largest_file = uint64_t(1) << 32;  // bytes of a fat binary
constexpr uint64_t largest_text = uint64_t(64) << 20, largest_texts = 4 * largest_text;  // bytes: one, all together

template <class Integer>
Integer read(std::span<const std::byte> bytes, size_t at) {
  Integer value;
  if (bytes.size() < sizeof value || at > bytes.size() - sizeof value) throw Error("the fat binary is cut off");
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

#ifdef VMM_HAVE_ZSTD
std::string decompress(std::span<const std::byte> compressed, size_t size) {
  std::string text(size, '\0');
  const size_t written = ZSTD_decompress(text.data(), text.size(), compressed.data(), compressed.size());
  if (ZSTD_isError(written)) throw Error(std::string("the compressed PTX is damaged: ") + ZSTD_getErrorName(written));
  text.resize(written);
  return text;
}
#else
std::string decompress(std::span<const std::byte>, size_t) {
  throw Error("the PTX is compressed and the simulator was built without libzstd: build with --no-compress");
}
#endif

}  // namespace

size_t fat_binary_size(const void* header) {
  const std::span bytes(static_cast<const std::byte*>(header), 16);
  if (read<uint32_t>(bytes, 0) != 0xba55ed50) throw Error("no fat binary: it does not begin with 0xba55ed50");
  const auto header_size = read<uint16_t>(bytes, 6);
  const auto rest = read<uint64_t>(bytes, 8);
  if (read<uint16_t>(bytes, 4) != 1 || header_size < 16 || rest > largest_file)
    throw Error("the header of the fat binary is damaged or of an unknown version");
  return header_size + rest;
}

std::vector<Image> read_fat_binary(std::span<const std::byte> bytes) {
  const auto header_size = read<uint16_t>(bytes.first(std::min<size_t>(bytes.size(), 16)), 6);
  read<uint64_t>(bytes, 8);  // so that the header is whole
  const size_t size = fat_binary_size(bytes.data());
  if (size > bytes.size()) throw Error("the fat binary is cut off");
  bytes = bytes.subspan(header_size, size - header_size);
  std::vector<Image> images;
  uint64_t texts = 0;
  while (!bytes.empty()) {
    const auto header = read<uint32_t>(bytes, 4);
    const auto stored = read<uint64_t>(bytes, 8);
    if (header < 64 || header > bytes.size() || stored > bytes.size() - header)
      throw Error("an entry of the fat binary is larger than the fat binary");
    const auto payload = bytes.subspan(header, stored);
    const auto flags = read<uint64_t>(bytes, 40);
    Image image;
    image.is_ptx = read<uint16_t>(bytes, 0) == kind_ptx;
    image.architecture = read<uint32_t>(bytes, 28);
    if (image.is_ptx) {
      const bool is_compressed = flags & (flag_lz4 | flag_zstd);
      const auto compressed = read<uint32_t>(bytes, 16);
      const uint64_t length = is_compressed ? read<uint64_t>(bytes, 56) : stored;
      if (length > largest_text || length > largest_texts - texts)
        throw Error("the PTX of the fat binary is too large");
      texts += length;
      if (flags & flag_lz4)
        throw Error("the PTX is compressed with LZ4 (as --compress-mode=speed does): build with --no-compress");
      if (compressed > stored) throw Error("a compressed text of the fat binary is larger than its entry");
      if (is_compressed) image.ptx = decompress(payload.first(compressed), length);
      else image.ptx.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
      image.ptx.erase(image.ptx.find_last_not_of('\0') + 1);
    }
    images.push_back(std::move(image));
    bytes = bytes.subspan(header + stored);
  }
  return images;
}

}  // namespace ptx
