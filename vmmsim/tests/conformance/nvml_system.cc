// SPDX-License-Identifier: MIT-0
// What NVML says that cuda.core.system asks for: of the driver's branch, of BAR1, of PCI, of what a GPU is. Left
// out: a null device, at which some of these calls end the process.
#include "nvml.h"

struct Branch {
  unsigned version;
  char text[80];
};
struct Bar {
  unsigned long long total, free, used;
};
struct VersionedPci {
  unsigned version, domain, bus, device, id, subsystem, base_class, sub_class;
  char text[32];
};

static Device device = nullptr;

// What a call of the GPU gives, as a number.
template <class T> static void show_number(const char* call) {
  T value = {};
  const int answer = ask(call, device, &value);
  show(call, answer);
  if (!answer) say("it is", std::to_string(value));
  show("to nowhere", ask(call, device, (T*)nullptr));
}

static void branch() {
  section("the driver's branch");
  Branch its = {};
  show("without its version", ask("nvmlSystemGetDriverBranch", &its, 80u));
  its.version = unsigned(sizeof its) | 1u << 24;
  show("with it", ask("nvmlSystemGetDriverBranch", &its, 80u));
  say("it is", its.text);
  show("in 2 characters", ask("nvmlSystemGetDriverBranch", &its, 2u));
  show("to nowhere", ask("nvmlSystemGetDriverBranch", (Branch*)nullptr, 80u));
  char name[4096] = "";
  show("this process's name", ask("nvmlSystemGetProcessName", unsigned(getpid()), name, unsigned(sizeof name)));
  const std::string end = "conformance_nvml_system";
  const std::string text = name;
  show("it ends with the program's", text.size() > end.size() && text.substr(text.size() - end.size()) == end);
  show("of no process", ask("nvmlSystemGetProcessName", 0x3fffffffu, name, unsigned(sizeof name)));
}

static void memory() {
  section("BAR1");
  Bar bar = {};
  show("BAR1", ask("nvmlDeviceGetBAR1MemoryInfo", device, &bar));
  say("GiB", std::to_string(bar.total >> 30));
  show("the sum is right", bar.free + bar.used == bar.total);
  show("to nowhere", ask("nvmlDeviceGetBAR1MemoryInfo", device, (Bar*)nullptr));
}

static void pci() {
  section("PCI");
  Pci old = {};
  VersionedPci its = {};
  show("PCI", ask("nvmlDeviceGetPciInfo_v3", device, &old));
  show("with more, without its version", ask("nvmlDeviceGetPciInfoExt", device, &its));
  its.version = unsigned(sizeof its) | 1u << 24;
  show("with it", ask("nvmlDeviceGetPciInfoExt", device, &its));
  show("the same bus and GPU", its.bus == old.bus && its.id == old.id && !std::strcmp(its.text, old.text));
  say("class", std::to_string(its.base_class) + ", " + std::to_string(its.sub_class));
  show("to nowhere", ask("nvmlDeviceGetPciInfoExt", device, (VersionedPci*)nullptr));
}

static void what_it_is() {
  section("what it is");
  for (const char* call :
       {"nvmlDeviceGetArchitecture", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceIsMigDeviceHandle"})
    show_number<unsigned>(call);
  for (const char* call : {"nvmlDeviceGetBrand", "nvmlDeviceGetDisplayMode", "nvmlDeviceGetDisplayActive"})
    show_number<int>(call);
  unsigned now = 7, later = 7;
  show("MIG mode", ask("nvmlDeviceGetMigMode", device, &now, &later));
  say("it is", std::to_string(now));
  unsigned value = 0;
  for (const char* call : {"nvmlDeviceGetNumFans", "nvmlDeviceGetNumaNodeId"}) show(call, ask(call, device, &value));
}

int main() {
  check::require_gpus(1);
  EXPECT(ask("nvmlInit_v2") == 0, "no nvmlInit");
  EXPECT(ask("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == 0, "no handle");
  branch();
  memory();
  pci();
  what_it_is();
  EXPECT(ask("nvmlShutdown") == 0, "no nvmlShutdown");
  std::puts("OK");
}
