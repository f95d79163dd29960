// SPDX-License-Identifier: MIT-0
#include "linking.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "../gpu/gpu.h"
#include "driver.h"

namespace driver {

// --- Logs ---------------------------------------------------------------------------------------------------------

Logs::Logs(unsigned count, const CUjit_option* names, void** values) {
  require(!count || (names && values), "there are options without names or values");
  const auto size_of = [&](CUjit_option name) -> void** {
    for (unsigned i = 0; i < count; ++i)
      if (names[i] == name) return &values[i];
    return nullptr;
  };
  for (unsigned i = 0; i < count; ++i) {
    require(names[i] >= 0 && names[i] < CU_JIT_NUM_OPTIONS, "there is no such option");
    if (names[i] == CU_JIT_ERROR_LOG_BUFFER) {
      buffer_ = static_cast<char*>(values[i]);
      written_ = size_of(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
    } else if (names[i] == CU_JIT_INFO_LOG_BUFFER) {  // nothing is ever said there
      void** const size = size_of(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
      if (values[i] && size && *size) *static_cast<char*>(values[i]) = '\0';
      if (size) *size = nullptr;
    }
  }
  if (!buffer_ || !written_) return;
  size_ = static_cast<unsigned>(reinterpret_cast<uintptr_t>(*written_));
  write("");
}

void Logs::write(const std::string& text, bool counts_end) {
  if (!buffer_ || !size_) return;
  const size_t length = std::min<size_t>(text.size(), size_ - 1);
  std::memcpy(buffer_, text.data(), length);
  buffer_[length] = '\0';
  *written_ = reinterpret_cast<void*>(length + (counts_end && length));
}

// --- Images -------------------------------------------------------------------------------------------------------

static constexpr char magic[] = "VMMLINK";  // with its zero

std::vector<Part> parts_of(const void* image, size_t most) {
  LinkedHeader header;
  if (most >= sizeof header) std::memcpy(&header, image, sizeof header);
  if (most < sizeof header || header.size > most - sizeof header) throw ptx::Error("the linked image is cut off");
  std::string_view unread(static_cast<const char*>(image) + sizeof header, header.size);
  const auto next = [&] {
    const size_t end = unread.find('\0');
    if (end == unread.npos) throw ptx::Error("the linked image is damaged");
    const std::string word(unread.substr(0, end));
    unread.remove_prefix(end + 1);
    return word;
  };
  std::vector<Part> parts;
  while (!unread.empty()) {
    Part& part = parts.emplace_back();
    part.name = next();
    part.text = next();
  }
  return parts;
}

std::string linked_image(const std::vector<Part>& parts) {
  std::string content;
  for (const Part& part : parts) content += part.name + '\0' + part.text + '\0';
  LinkedHeader header = {{}, content.size()};
  std::memcpy(header.magic, magic, sizeof header.magic);
  return std::string(reinterpret_cast<const char*>(&header), sizeof header) + content;
}

bool is_linked_image(const void* image) { return std::strcmp(static_cast<const char*>(image), magic) == 0; }

ptx::Module read_linked_image(const void* image, size_t most) {
  ptx::Linker linker;
  for (const Part& part : parts_of(image, most)) linker.add(ptx::parse(part.text), part.name);
  return linker.finish();
}

std::string undefined(const ptx::Linker& linker, std::set<std::string> provided) {
  provided.insert({"vprintf", "__assertfail", "malloc", "free", "__nv_aligned_device_malloc"});
  return linker.undefined(provided);
}

// The same, without what kernels call to launch others: such a kernel is refused when it is launched.
std::string undefined_but_launches(const ptx::Linker& linker) {
  std::set<std::string> launches;
  for (;;) {
    const std::string missing = undefined(linker, launches);  // "Undefined reference to '...' in '...'"
    const size_t from = missing.find('\'') + 1;
    const std::string name = missing.substr(from, missing.find('\'', from) - from);
    if (missing.empty() || name.find(gpu::device_runtime) == name.npos) return missing;
    launches.insert(name);
  }
}

}  // namespace driver
