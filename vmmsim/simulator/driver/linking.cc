// SPDX-License-Identifier: MIT-0
// cuLink*: texts of PTX become one module. What comes out is no machine code but a container of the simulator's own,
// which only the simulator loads: a header, and for each part its name and its text, each ended by a zero.
#include "linking.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <set>

#include "../gpu/gpu.h"
#include "../memory/this_machine.h"
#include "contexts.h"
#include "driver.h"
#include "fat_binaries.h"
#include "images.h"

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
namespace {

struct Header {
  char magic[8];
  uint64_t size;  // of what follows
};
constexpr char magic[] = "VMMLINK";  // with its zero

// Throws ptx::Error if they do not lie whole within `most` bytes.
std::vector<Part> parts_of(const void* image, size_t most) {
  Header header;
  if (most >= sizeof header) std::memcpy(&header, image, sizeof header);
  if (most < sizeof header || header.size > most - sizeof header) throw ptx::Error("the linked image is cut off");
  std::string_view left(static_cast<const char*>(image) + sizeof header, header.size);
  const auto next = [&] {
    const size_t end = left.find('\0');
    if (end == left.npos) throw ptx::Error("the linked image is damaged");
    const std::string word(left.substr(0, end));
    left.remove_prefix(end + 1);
    return word;
  };
  std::vector<Part> parts;
  while (!left.empty()) {
    Part& part = parts.emplace_back();
    part.name = next();
    part.text = next();
  }
  return parts;
}

}  // namespace

std::string linked_image(const std::vector<Part>& parts) {
  std::string content;
  for (const Part& part : parts) content += part.name + '\0' + part.text + '\0';
  Header header = {{}, content.size()};
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

// --- The linker -----------------------------------------------------------------------------------------------------

using namespace driver;

struct CUlinkState_st {
  Logs logs;
  ptx::Linker linker;
  std::vector<Part> parts = {};
  bool has_failed = false, is_complete = false;
  std::string image = {};
};

namespace {

CUlinkState checked_link(CUlinkState link) {
  const MutexLock held(state().lock);
  require(state().linkers.contains(link), CUDA_ERROR_INVALID_HANDLE, "this is no linker, or it has been destroyed");
  return link;
}

CUlinkState create(unsigned count, const CUjit_option* names, void** values) {
  current();
  const CUlinkState link = new CUlinkState_st{Logs(count, names, values), {}};
  const MutexLock held(state().lock);
  state().linkers.insert(link);
  return link;
}

void destroy(CUlinkState link) {
  checked_link(link);
  {
    const MutexLock held(state().lock);
    state().linkers.erase(link);
  }
  delete link;
}

// A fault of what is linked, which the program finds in its log, too.
[[noreturn]] void refuse_link(CUlinkState link, CUresult error, const std::string& why) {
  link->logs.write("error   : " + why);
  memory::refuse(error, why);
}

void add(CUlinkState link, const Part& part) {
  ptx::Module module;
  try {
    module = compile(part.text);
  } catch (const ptx::Error& error) {
    refuse_link(link, error_of(error), error.what());
  }
  try {
    link->linker.add(std::move(module), part.name);
  } catch (const ptx::Error& error) {
    link->has_failed = true;
    refuse_link(link, CUDA_ERROR_INVALID_SOURCE, error.what());
  }
  link->parts.push_back(part);
}

// Of what may be in `data` only PTX can be linked here.
CUresult add(CUlinkState link, CUjitInputType type, const void* data, size_t size, const std::string& name) {
  checked_link(link);
  require_non_null(data, "data");
  require(size > 0, "the size of the data is 0");
  require(type < CU_JIT_NUM_INPUT_TYPES, "there is no such type of input");
  require(!link->is_complete, "the linker is complete: nothing can be added any more");
  const std::string_view bytes(static_cast<const char*>(data), size);
  const bool is_fat_binary = bytes.starts_with("\x50\xed\x55\xba");
  if (bytes.starts_with("\177ELF") || bytes.starts_with("!<arch>\n") || type == CU_JIT_INPUT_NVVM)
    return CUresult(not_simulated("cuLink* of anything but PTX (machine code, LTO code, objects, libraries)"));
  require(type != CU_JIT_INPUT_OBJECT && type != CU_JIT_INPUT_LIBRARY, CUDA_ERROR_UNKNOWN,
          "the data is no object and no library: PTX is of the type CU_JIT_INPUT_PTX");
  const bool is_linked = size >= sizeof(Header) && is_linked_image(data);
  require(type != CU_JIT_INPUT_CUBIN || is_linked, CUDA_ERROR_INVALID_IMAGE,
          "the data is no machine code: PTX is of the type CU_JIT_INPUT_PTX");
  if (!is_linked && !is_fat_binary && bytes.find(".version") == bytes.npos)
    refuse_link(link, CUDA_ERROR_INVALID_IMAGE, "the data in '" + name + "' is neither PTX nor a fat binary");
  try {
    if (is_linked)
      for (const Part& part : parts_of(data, size)) add(link, part);
    else add(link, {name, is_fat_binary ? choose_ptx(data, size) : std::string(bytes.substr(0, bytes.find('\0')))});
  } catch (const ptx::Error& error) {
    refuse_link(link, CUDA_ERROR_INVALID_IMAGE, error.what());
  }
  return CUDA_SUCCESS;
}

CUresult add_file(CUlinkState link, CUjitInputType type, const char* path) {
  checked_link(link);
  require_non_null(path, "path");
  std::ifstream file(path, std::ios::binary);
  require(bool(file), CUDA_ERROR_FILE_NOT_FOUND, "the file cannot be opened");
  const std::string content(std::istreambuf_iterator<char>(file), {});
  if (content.empty()) refuse_link(link, CUDA_ERROR_INVALID_IMAGE, std::string(path) + " is empty");
  return add(link, type, content.data(), content.size(), path);
}

void complete(CUlinkState link, void** image, size_t* size) {
  checked_link(link);
  require_non_null(image, "cubinOut");
  require(!link->has_failed, CUDA_ERROR_INVALID_SOURCE, "what was added does not go together, as the call has said");
  require(!link->is_complete, CUDA_ERROR_INVALID_HANDLE, "the linker has been completed before");
  link->is_complete = true;
  if (const std::string missing = undefined(link->linker); !missing.empty()) {
    link->has_failed = true;
    refuse_link(link, CUDA_ERROR_INVALID_SOURCE, missing);
  }
  link->image = linked_image(link->parts);
  *image = link->image.data();
  if (size) *size = link->image.size();
}

}  // namespace

CUresult cuLinkCreate(unsigned int numOptions, CUjit_option* options, void** optionValues, CUlinkState* stateOut) {
  return call(ARGUMENTS(numOptions, stateOut),
              result_to(stateOut, "stateOut", [&] { return create(numOptions, options, optionValues); }));
}
CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t size, const char* name, unsigned int,
                       CUjit_option*, void**) {
  return call(ARGUMENTS(state, type, data, size, name), [&] { return add(state, type, data, size, name ? name : ""); });
}
CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned int, CUjit_option*, void**) {
  return call(ARGUMENTS(state, type, path), [&] { return add_file(state, type, path); });
}
CUresult cuLinkComplete(CUlinkState state, void** cubinOut, size_t* sizeOut) {
  return call(ARGUMENTS(state, cubinOut, sizeOut), [&] { complete(state, cubinOut, sizeOut); });
}
CUresult cuLinkDestroy(CUlinkState state) {
  return call(ARGUMENTS(state), [&] { destroy(state); });
}
