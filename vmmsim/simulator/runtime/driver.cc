// SPDX-License-Identifier: MIT-0
// The way to the driver. It is loaded when the runtime first needs it, and its calls are found in it and nowhere else,
// as NVIDIA's runtime does both: a program may have a function or variable of its own that is called cuInit.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <iterator>
#include <string>

#include "../driver/runtime_table.h"
#include "../leads.h"
#include "../log.h"
#include "runtime.h"

namespace {

constexpr const char* calls[] = {
#define LEAD(name, number) #name,
#include "driver_leads.inc"
#undef LEAD
};

#define LEAD(name, number) ".globl " #name "\n.hidden " #name "\n.balign 32\n" #name ": lead " #number "\n"
asm(LEADS
#include "driver_leads.inc"
    ".text\n");
#undef LEAD

void* load_driver() {
  Dl_info here = {};
  dladdr(&calls, &here);
  const std::string ours = here.dli_fname ? here.dli_fname : "";
  void* const driver = dlopen((ours.substr(0, ours.rfind('/') + 1) + "libcuda.so.1").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver) return driver;
  log_line("the simulator's driver cannot be loaded: %s", dlerror());
  _exit(125);
}

const driver::RuntimeTable& table() {
  static const driver::RuntimeTable& driver = [&]() -> const driver::RuntimeTable& {
    const void* found = nullptr;
    cuGetExportTable(&found, &driver::id_of_runtime_table);
    return *static_cast<const driver::RuntimeTable*>(found);
  }();
  return driver;
}

}  // namespace

uintptr_t lead_targets[std::size(calls)];
uintptr_t target_of_lead(uint64_t number) {
  static void* const driver = load_driver();
  return lead_targets[number] = reinterpret_cast<uintptr_t>(dlsym(driver, calls[number]));
}

namespace driver {

int run(const Call& call, int flags, const char* (*error_name)(int), const std::function<int()>& work) {
  return table().run(call, flags, error_name, work);
}
void explain(const std::string& reason) { table().explain(reason); }
int not_simulated(const char* name) { return table().not_simulated(name); }
KernelNames kernels_of(CUgraphExec graph) { return table().kernels_of(graph); }
std::string linked_image(const std::vector<Part>& parts) { return table().linked_image(parts); }

}  // namespace driver
