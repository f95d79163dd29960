// SPDX-License-Identifier: MIT-0
// The container that nvcc puts the code of GPUs into: a header of 16 bytes (magic, version, size of the header, size of
// the rest), then for each image an entry with a header of its own and PTX text or machine code.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <set>
#include "ptx.h"

namespace ptx {
namespace {

constexpr uint16_t kind_ptx = 1, kind_lto = 8;
constexpr uint64_t flag_lz4 = 0x2000, flag_zstd = 0x8000;
constexpr uint64_t largest_file = uint64_t(1) << 32;  // bytes of a fat binary
constexpr uint64_t largest_ptx = uint64_t(64) << 20;  // bytes

template <class Integer>
Integer read(std::span<const std::byte> bytes, size_t at) {
  Integer value;
  if (bytes.size() < sizeof value || at > bytes.size() - sizeof value) throw Error("the fat binary is cut off");
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

// What unpacks is loaded when it is first needed, so that nobody needs it to build the simulator.
struct Library {
  const char *name, *file, *function, *packages;
};
constexpr Library libraries[] = {
    {},
    {"LZ4", "liblz4.so.1", "LZ4_decompress_safe", "liblz4-1 on Debian and Ubuntu, lz4-libs on Fedora, lz4 on Arch"},
    {"zstd", "libzstd.so.1", "ZSTD_decompress", "libzstd1 on Debian and Ubuntu, libzstd on Fedora, zstd on Arch"}};

void* function_of(const Library& library) {
  void* const loaded = dlopen(library.file, RTLD_NOW | RTLD_LOCAL);
  void* const function = loaded ? dlsym(loaded, library.function) : nullptr;
  if (function) return function;
  const char* const why = dlerror();
  throw MissingLibrary(std::string("the PTX is compressed with ") + library.name + ", and " + library.file +
                       " cannot be loaded: install it (" + library.packages +
                       "), or build the program with nvcc --no-compress" + (why ? std::string("; ") + why : ""));
}

// Bytes written, or some other number than `size`.
uint64_t unpack(const Image& from, void* to, size_t size) {
  void* const function = function_of(libraries[from.packing]);
  const std::span<const std::byte> stored = from.stored;
  if (from.packing == Image::zstd) {
    const auto decompress = reinterpret_cast<size_t (*)(void*, size_t, const void*, size_t)>(function);
    return decompress(to, size, stored.data(), stored.size());
  }
  const auto decompress = reinterpret_cast<int (*)(const void*, void*, int, int)>(function);
  return uint64_t(decompress(stored.data(), to, int(stored.size()), int(size)));
}

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
  while (!bytes.empty()) {
    const auto header = read<uint32_t>(bytes, 4);
    const auto stored = read<uint64_t>(bytes, 8);
    if (header < 64 || header > bytes.size() || stored > bytes.size() - header)
      throw Error("an entry of the fat binary is larger than the fat binary");
    const auto flags = read<uint64_t>(bytes, 40);
    Image image;
    image.is_ptx = read<uint16_t>(bytes, 0) == kind_ptx;
    image.is_lto = read<uint16_t>(bytes, 0) == kind_lto;
    image.architecture = read<uint32_t>(bytes, 28);
    image.stored = bytes.subspan(header, stored);
    image.size = stored;
    if (image.is_ptx && flags & (flag_lz4 | flag_zstd)) {
      image.packing = flags & flag_lz4 ? Image::lz4 : Image::zstd;
      const auto packed = read<uint32_t>(bytes, 16);
      if (packed > stored) throw Error("a compressed text of the fat binary is larger than its entry");
      image.stored = image.stored.first(packed);
      image.size = read<uint64_t>(bytes, 56);
    }
    if (image.is_ptx && std::max(stored, uint64_t(image.size)) > largest_ptx)
      throw Error("the PTX of the fat binary is too large");
    images.push_back(image);
    bytes = bytes.subspan(header + stored);
  }
  return images;
}

const Image* newest_ptx(std::span<const Image> images, unsigned capability) {
  const Image* newest = nullptr;
  for (const Image& image : images)
    if (image.is_ptx && image.architecture <= capability && (!newest || image.architecture > newest->architecture))
      newest = &image;
  return newest;
}

std::string why_none(std::span<const Image> images, unsigned capability) {
  std::set<std::string> kinds;
  for (const Image& image : images) {
    const char* kind = "machine code for sm_";
    if (image.is_ptx) kind = "PTX for compute_";
    if (image.is_lto) kind = "LTO code for lto_";
    kinds.insert(kind + std::to_string(image.architecture));
  }
  std::string found;
  for (const std::string& kind : kinds) found += (found.empty() ? "" : ", ") + kind;
  const std::string newest = "compute_" + std::to_string(capability);
  const bool has_lto = std::any_of(images.begin(), images.end(), [](const Image& image) { return image.is_lto; });
  return "it holds " + (found.empty() ? "no code of GPUs" : found) + ", and the GPUs of this machine are simulated " +
         "from PTX for " + newest + " or older: build it with nvcc -gencode arch=" + newest + ",code=" + newest +
         (has_lto ? " and without -dlto" : "");
}

void need_library(const Image& image) {
  if (image.packing != Image::plain) function_of(libraries[image.packing]);
}

std::string unpacked(const Image& image) {
  std::string text(image.size, '\0');
  if (image.packing == Image::plain) std::memcpy(text.data(), image.stored.data(), text.size());
  else if (unpack(image, text.data(), text.size()) != text.size())
    throw Error(std::string("the PTX, which is compressed with ") + libraries[image.packing].name + ", is damaged");
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

}  // namespace ptx
