// SPDX-License-Identifier: MIT-0
// nvJitLink links code while a program runs, for instance that of Numba. The program asks it for machine code, and gets
// the PTX of which that would be made, as an image like cuLinkComplete's. The library itself still does its work: it
// looks at all that is given to it, and makes PTX of LTO code.
#include "jit_link.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>
#include "../driver/linking.h"
#include "../lasting.h"
#include "../mutex.h"
#include "runtime.h"

// The library's own functions: the hook writes them.
extern "C" __attribute__((visibility("default"))) uintptr_t vmmsim_jit_link[jit_link::call_count];
uintptr_t vmmsim_jit_link[jit_link::call_count];

namespace {

enum Input { machine_code = 1, ptx = 2, lto_code = 3 };  // as nvJitLink.h has them
constexpr int success = 0, invalid_input = 3;

struct Link {
  bool makes_ptx = false;  // of LTO code
  std::vector<driver::Part> parts;
  std::string image;
};
struct Links {
  Mutex lock;
  std::map<void*, Link> all GUARDED_BY(lock);  // by handle
};
Links& links() { return lasting<Links>(); }

template <class... Parameters> int real(int call, Parameters... parameters) {
  return reinterpret_cast<int (*)(Parameters...)>(vmmsim_jit_link[call])(parameters...);
}

int add(void* handle, int type, const void* data, size_t size, const char* name) {
  const MutexLock held(links().lock);
  const auto link = links().all.find(handle);
  if (link == links().all.end()) return real(jit_link::add_data, handle, type, data, size, name);
  if (type == machine_code && data && !std::string_view(static_cast<const char*>(data), size).starts_with("\177ELF"))
    type = ptx;  // by NVRTC, see hook.cc
  if (type != ptx && type != lto_code) driver::not_simulated("nvJitLink of anything but PTX and LTO code");
  if (type == ptx && data) {
    const std::string text(static_cast<const char*>(data), strnlen(static_cast<const char*>(data), size));
    link->second.parts.push_back({name ? name : "", text});
    if (link->second.makes_ptx) return success;  // where it makes PTX it takes nothing but LTO code
  }
  return real(jit_link::add_data, handle, type, data, size, name);
}

// The image, made when its size is asked for.
int make(void* handle, Link& link) {
  std::vector<driver::Part> parts = link.parts;
  if (link.makes_ptx) {
    size_t size = 0;
    if (const int error = real(jit_link::get_ptx_size, handle, &size)) return error;
    std::string text(size, '\0');
    if (const int error = real(jit_link::get_ptx, handle, text.data())) return error;
    parts.push_back({"LTO code", text.c_str()});
  }
  link.image = driver::linked_image(parts);
  return success;
}

}  // namespace

EXPORT int vmmsim_nvJitLinkCreate(void** handle, uint32_t count, const char* const* options) {
  std::vector<const char*> all(options, options + (options ? count : 0));
  const auto has = [&all](const char* option) {
    for (const char* given : all)
      if (given && !std::strcmp(given, option)) return true;
    return false;
  };
  Link link;
  link.makes_ptx = has("-lto");
  if (link.makes_ptx && !has("-ptx")) all.push_back("-ptx");
  const int error = real(jit_link::create, handle, uint32_t(all.size()), all.data());
  const MutexLock held(links().lock);
  if (!error) links().all[*handle] = std::move(link);
  return error;
}
EXPORT int vmmsim_nvJitLinkDestroy(void** handle) {
  if (handle) {
    const MutexLock held(links().lock);
    links().all.erase(*handle);
  }
  return real(jit_link::destroy, handle);
}
EXPORT int vmmsim_nvJitLinkAddData(void* handle, int type, const void* data, size_t size, const char* name) {
  return add(handle, type, data, size, name);
}
EXPORT int vmmsim_nvJitLinkAddFile(void* handle, int type, const char* path) {
  std::ifstream file(path ? path : "", std::ios::binary);
  if (!file) return real(jit_link::add_file, handle, type, path);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  return add(handle, type, content.data(), content.size(), path);
}
EXPORT int vmmsim_nvJitLinkGetLinkedCubinSize(void* handle, size_t* size) {
  const MutexLock held(links().lock);
  const auto link = links().all.find(handle);
  if (link == links().all.end()) return real(jit_link::get_size, handle, size);
  if (!size) return invalid_input;
  const int error = make(handle, link->second);
  if (!error) *size = link->second.image.size();
  return error;
}
EXPORT int vmmsim_nvJitLinkGetLinkedCubin(void* handle, void* image) {
  const MutexLock held(links().lock);
  const auto link = links().all.find(handle);
  if (link == links().all.end()) return real(jit_link::get, handle, image);
  if (!image) return invalid_input;
  if (const int error = make(handle, link->second)) return error;
  std::memcpy(image, link->second.image.data(), link->second.image.size());
  return success;
}
