// SPDX-License-Identifier: MIT-0
// What NVML says of the machine and its GPUs, beside what the driver says: what programs ask of it that place their
// memory and threads by GPU.
#include "nvml.h"

struct Memory {
  unsigned long long total, free, used;
};
struct Memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Fabric {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
struct Fabric2 {
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};

static std::string uuid_of(CUdevice device) {
  CUuuid uuid;
  CHECK(cuDeviceGetUuid(&uuid, device));
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char two[4];
    std::snprintf(two, sizeof two, "%02x", (unsigned char)uuid.bytes[i]);
    text += (i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(two);
  }
  return text;
}

static void lifetime() {
  section("before and after");
  unsigned count = 0;
  char text[96];
  show("count before nvmlInit", ask("nvmlDeviceGetCount_v2", &count));
  show("driver's version before nvmlInit", ask("nvmlSystemGetDriverVersion", text, 96u));
  show("nvmlShutdown before nvmlInit", ask("nvmlShutdown"));
  show("nvmlInit_v2", ask("nvmlInit_v2"));
  show("again", ask("nvmlInit_v2"));
  show("nvmlInitWithFlags 0", ask("nvmlInitWithFlags", 0u));
  show("nvmlShutdown", ask("nvmlShutdown"));
  show("nvmlShutdown", ask("nvmlShutdown"));
  show("count", ask("nvmlDeviceGetCount_v2", &count));
  show("nvmlShutdown", ask("nvmlShutdown"));
  show("count after the last", ask("nvmlDeviceGetCount_v2", &count));
  for (int error = 0; error <= 31; ++error) show("error", error);
  show("error", 999);
}

static void machine() {
  section("the machine");
  char text[96];
  int version = 0;
  show("driver's version", ask("nvmlSystemGetDriverVersion", text, 80u));
  show("in 4 characters", ask("nvmlSystemGetDriverVersion", text, 4u));
  for (const size_t spare : {0, 1}) {
    EXPECT(ask("nvmlSystemGetDriverVersion", text, 80u) == 0, "no version");
    show("in its length and " + std::to_string(spare),
         ask("nvmlSystemGetDriverVersion", text, unsigned(std::strlen(text) + spare)));
  }
  show("to nowhere", ask("nvmlSystemGetDriverVersion", (char*)nullptr, 80u));
  show("NVML's version", ask("nvmlSystemGetNVMLVersion", text, 80u));
  show("CUDA's version", ask("nvmlSystemGetCudaDriverVersion", &version));
  say("it is", std::to_string(version));
  show("CUDA's version, v2", ask("nvmlSystemGetCudaDriverVersion_v2", &version));
  say("it is", std::to_string(version));
}

static void handles() {
  section("handles");
  unsigned count = 0, index = 7;
  int gpus = 0;
  Device device = nullptr, other = nullptr;
  show("count", ask("nvmlDeviceGetCount_v2", &count));
  CHECK(cuDeviceGetCount(&gpus));
  show("as many as CUDA's", int(count) == gpus);
  show("count to nowhere", ask("nvmlDeviceGetCount_v2", (unsigned*)nullptr));
  show("by index", ask("nvmlDeviceGetHandleByIndex_v2", 0u, &device));
  show("by index, older", ask("nvmlDeviceGetHandleByIndex", 0u, &other));
  show("the same", device == other);
  show("one too many", ask("nvmlDeviceGetHandleByIndex_v2", count, &other));
  show("to nowhere", ask("nvmlDeviceGetHandleByIndex_v2", 0u, (Device*)nullptr));
  const std::string uuid = uuid_of(0);
  show("by UUID", ask("nvmlDeviceGetHandleByUUID", uuid.c_str(), &other));
  show("the same", device == other);
  show("of no GPU", ask("nvmlDeviceGetHandleByUUID", "GPU-00000000-0000-0000-0000-000000000000", &other));
  show("by no UUID", ask("nvmlDeviceGetHandleByUUID", "H200", &other));
  show("by null", ask("nvmlDeviceGetHandleByUUID", (const char*)nullptr, &other));
  char bus[32];
  CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  show("by PCI bus id", ask("nvmlDeviceGetHandleByPciBusId_v2", bus, &other));
  show("the same", device == other);
  show("with 8 digits", ask("nvmlDeviceGetHandleByPciBusId_v2", ("0000" + std::string(bus)).c_str(), &other));
  show("of no GPU", ask("nvmlDeviceGetHandleByPciBusId_v2", "0000:FE:1F.0", &other));
  show("by no bus id", ask("nvmlDeviceGetHandleByPciBusId_v2", "H200", &other));
  show("index", ask("nvmlDeviceGetIndex", device, &index));
  say("it is", std::to_string(index));
  show("index of no device", ask("nvmlDeviceGetIndex", (Device) nullptr, &index));
}

static void gpu() {
  section("a GPU");
  Device device = nullptr;
  char text[96], name[96], bus[32];
  int major = 0, minor = 0;
  EXPECT(ask("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == 0, "no handle");
  CHECK(cuDeviceGetName(name, sizeof name, 0));
  CHECK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  show("name", ask("nvmlDeviceGetName", device, text, 96u));
  show("as CUDA has it", text == std::string(name));
  show("in 4 characters", ask("nvmlDeviceGetName", device, text, 4u));
  show("of no device", ask("nvmlDeviceGetName", (Device) nullptr, text, 96u));
  show("UUID", ask("nvmlDeviceGetUUID", device, text, 96u));
  show("as CUDA has it", text == uuid_of(0));
  show("in 4 characters", ask("nvmlDeviceGetUUID", device, text, 4u));
  show("compute capability", ask("nvmlDeviceGetCudaComputeCapability", device, &major, &minor));
  say("it is", std::to_string(major) + "." + std::to_string(minor));
  Pci pci = {};
  show("PCI", ask("nvmlDeviceGetPciInfo_v3", device, &pci));
  show("bus id as CUDA has it", pci.text == "0000" + std::string(bus));
  show("and the older", pci.legacy == std::string(bus));
  show("to nowhere", ask("nvmlDeviceGetPciInfo_v3", device, (Pci*)nullptr));
}

static void memory() {
  section("memory");
  Device device = nullptr;
  EXPECT(ask("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == 0, "no handle");
  Memory before = {}, with = {};
  Memory2 both = {};
  size_t total = 0;
  CHECK(cudaFree(nullptr));
  CHECK(cuDeviceTotalMem(&total, 0));
  show("memory", ask("nvmlDeviceGetMemoryInfo", device, &before));
  show("at least what CUDA has", before.total >= total);
  show("free and used are all", before.free + before.used == before.total);
  const CUmemGenericAllocationHandle handle = create(64 * MiB);
  show("with 64 MiB more", ask("nvmlDeviceGetMemoryInfo", device, &with));
  show("that are used", with.used >= before.used + 64 * MiB);
  CHECK(cuMemRelease(handle));
  show("to nowhere", ask("nvmlDeviceGetMemoryInfo", device, (Memory*)nullptr));
  show("v2 without its version", ask("nvmlDeviceGetMemoryInfo_v2", device, &both));
  both.version = unsigned(sizeof both) | 2u << 24;
  show("v2", ask("nvmlDeviceGetMemoryInfo_v2", device, &both));
  show("of the same total", both.total == before.total);
  show("free, used and reserved are all", both.free + both.used + both.reserved == both.total);
}

static void fabric() {
  section("fabric");
  Device device = nullptr;
  EXPECT(ask("nvmlDeviceGetHandleByIndex_v2", 0u, &device) == 0, "no handle");
  Fabric old = {};
  Fabric2 now = {};
  unsigned char none[16] = {};
  show("fabric", ask("nvmlDeviceGetGpuFabricInfo", device, &old));
  say("state", std::to_string(old.state));
  show("status", old.status);
  say("clique", std::to_string(old.clique));
  show("a cluster", std::memcmp(old.cluster, none, sizeof none) != 0);
  show("v2 without its version", ask("nvmlDeviceGetGpuFabricInfoV", device, &now));
  now.version = unsigned(sizeof now) | 2u << 24;
  show("v2", ask("nvmlDeviceGetGpuFabricInfoV", device, &now));
  say("state", std::to_string(now.state));
  say("health", std::to_string(now.health));
  show("to nowhere", ask("nvmlDeviceGetGpuFabricInfoV", device, (Fabric2*)nullptr));
}

int main() {
  check::require_gpus(1);
  lifetime();
  EXPECT(ask("nvmlInit_v2") == 0, "no nvmlInit");
  machine();
  handles();
  gpu();
  memory();
  fabric();
  EXPECT(ask("nvmlShutdown") == 0, "no nvmlShutdown");
  std::puts("OK");
}
