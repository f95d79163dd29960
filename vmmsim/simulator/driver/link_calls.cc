// SPDX-License-Identifier: MIT-0
// Calls that link texts of PTX to one module.
#include <string_view>

#include "contexts.h"
#include "driver.h"
#include "fat_binaries.h"
#include "images.h"
#include "linking.h"

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
[[noreturn]] void refuse_link(CUlinkState link, CUresult error, const std::string& reason) {
  link->logs.write("error   : " + reason);
  memory::refuse(error, reason);
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
  const bool is_linked = size >= sizeof(LinkedHeader) && is_linked_image(data);
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
  const std::string content = content_of(path);
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
