// SPDX-License-Identifier: MIT-0
#include "callers.h"

#include <limits.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <cstdio>
#include <tuple>
#include <utility>
#include "../trace/json.h"
#include "../trace/text.h"

namespace recorder {

namespace {

constexpr size_t of_cuda = 12;  // frames, of the driver and the like, about

bool is_of_cuda(const std::string& name) {
  for (const char* const prefix : {"libcuda.so", "libcudart.so", "libcupti.so", "libvmm_recorder.so"})
    if (name.starts_with(prefix)) return true;
  return name.starts_with("libcudart-");  // as some packages name it
}

std::string path_of_program() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, size_t(size)) : "program";
}

}  // namespace

std::vector<uintptr_t> frames(size_t most) {
  struct Found {
    std::vector<uintptr_t> all;
    size_t most;
  } found = {{}, most + of_cuda};
  found.all.reserve(found.most);
  _Unwind_Backtrace(
      [](_Unwind_Context* frame, void* result) -> _Unwind_Reason_Code {
        auto& [all, most] = *static_cast<Found*>(result);
        if (const uintptr_t address = _Unwind_GetIP(frame)) all.push_back(address);
        return all.size() < most ? _URC_NO_REASON : _URC_END_OF_STACK;
      },
      &found);
  return found.all;
}

// dladdr would look through all symbols of a file each time.
void Modules::load() {
  const auto compare = [](dl_phdr_info* first, size_t, void* modules) {
    auto& [loaded, unloaded] = *static_cast<std::pair<unsigned long long, unsigned long long>*>(modules);
    loaded = first->dlpi_adds;
    unloaded = first->dlpi_subs;
    return 1;
  };
  std::pair<unsigned long long, unsigned long long> now;
  dl_iterate_phdr(compare, &now);
  if (now == std::pair(loaded_, unloaded_)) return;
  std::tie(loaded_, unloaded_) = now;
  modules_.clear();
  const auto add = [](dl_phdr_info* file, size_t, void* modules) {
    const std::string path = file->dlpi_name && *file->dlpi_name ? file->dlpi_name : path_of_program();
    const std::string name = path.substr(path.rfind('/') + 1);
    const uintptr_t page = 4096;
    uintptr_t base = 0;  // where its first segment lies
    for (int i = 0; i < file->dlpi_phnum; ++i) {
      const auto& part = file->dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      const uintptr_t begin = file->dlpi_addr + part.p_vaddr;
      if (!base) base = begin / page * page;
      if (part.p_flags & PF_X)
        static_cast<std::vector<Module>*>(modules)->push_back(
            {begin, begin + part.p_memsz, base, path, name, is_of_cuda(name)});
    }
    return 0;
  };
  dl_iterate_phdr(add, &modules_);
  std::sort(modules_.begin(), modules_.end(), [](const Module& a, const Module& b) { return a.begin < b.begin; });
}

const Modules::Module* Modules::with(uintptr_t address) const {
  const auto after = std::upper_bound(modules_.begin(), modules_.end(), address,
                                      [](uintptr_t value, const Module& module) { return value < module.begin; });
  return after != modules_.begin() && address < after[-1].end ? &after[-1] : nullptr;
}

std::string Modules::callers(const std::vector<uintptr_t>& frames, const std::vector<std::string>& of_python,
                             std::string& lines) {
  load();
  std::vector<std::string> all;
  for (const uintptr_t address : frames) {
    const Module* const module = with(address - 1);  // what returns there is a call just before
    if (!module || module->is_of_cuda) continue;
    if (named_.insert(module->path).second)
      lines += trace::object({{"module", module->name}, {"path", module->path}}) + "\n";
    all.push_back(module->name + "+" + hexadecimal(address - module->base));
  }
  if (all.empty()) all.emplace_back("unknown");
  all.insert(all.end(), of_python.begin(), of_python.end());
  return trace::list_of_texts(all);
}

}  // namespace recorder
