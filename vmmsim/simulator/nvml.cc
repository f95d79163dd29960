// SPDX-License-Identifier: MIT-0
// NVML: the few calls with which programs that place memory and threads find their GPUs. What NVML has beside these, a
// program does not find; NVML sees the GPUs that CUDA_VISIBLE_DEVICES hides, too. It is a library of its own, which
// knows the machine and not the driver. Its header comes with no package of the toolkit: what it declares stands here.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "driver/device_names.h"
#include "log.h"
#include "memory/memory.h"
#include "memory/this_machine.h"

#define NVML extern "C" __attribute__((visibility("default"))) int

namespace {

using driver::bus_of, driver::bus_in, driver::bus_text, driver::uuid_text;

enum Answer {  // nvmlReturn_t
  success,
  uninitialized,
  invalid_argument,
  not_supported,
  not_found = 6,
  insufficient_size,
  driver_not_loaded = 9,
  function_not_found = 13,
  version_mismatch = 25
};

using Device = struct nvmlDevice_st*;  // the GPU's number on its node, plus 1
struct Pci {                           // nvmlPciInfo_t
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char text[32];
};
struct Memory {  // nvmlMemory_t
  unsigned long long total, free, used;
};
struct VersionedMemory {  // nvmlMemory_v2_t
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Bar {  // nvmlBAR1Memory_t
  unsigned long long total, free, used;
};
struct VersionedPci {  // nvmlPciInfoExt_v1_t
  unsigned version, domain, bus, device, id, subsystem, base_class, sub_class;
  char text[32];
};
struct Branch {  // nvmlSystemDriverBranchInfo_v1_t
  unsigned version;
  char text[80];
};
struct Fabric {  // nvmlGpuFabricInfo_t
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
struct VersionedFabric {  // nvmlGpuFabricInfo_v2_t; v3 has one byte more
  unsigned version;
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
  unsigned health;
};
struct VersionedFabric3 : VersionedFabric {
  unsigned char summary;
};

std::atomic<int> initialized = 0;  // how many times more than ended

constexpr unsigned version(size_t size, unsigned number) { return unsigned(size) | number << 24; }

bool is(Device device) {
  const auto number = reinterpret_cast<uint64_t>(device);
  return number >= 1 && number <= uint64_t(memory::machine().gpus);
}
int gpu_of(Device device) {
  return memory::node() * memory::machine().gpus + int(reinterpret_cast<uint64_t>(device)) - 1;
}

// What a call answers, once NVML is initialized and the device is one.
template <class Work> int ask(Work work) { return initialized ? work() : uninitialized; }
template <class Work> int ask(Device device, Work work) {
  return ask([&] { return is(device) ? work(gpu_of(device)) : invalid_argument; });
}
template <class T> int give(T* to, const T& value) {
  if (!to) return invalid_argument;
  *to = value;
  return success;
}
int give(char* to, unsigned room, const std::string& text) {
  if (!to) return invalid_argument;
  if (room <= text.size()) return insufficient_size;
  std::strcpy(to, text.c_str());
  return success;
}

// The first of the node's GPUs for which `holds`.
template <class Condition> int give_first(Device* to, Condition holds) {
  if (!to) return invalid_argument;
  for (uint64_t number = 1; number <= uint64_t(memory::machine().gpus); ++number) {
    const auto device = reinterpret_cast<Device>(number);
    if (holds(gpu_of(device))) return give(to, device);
  }
  return not_found;
}

Pci pci_of(int gpu) {
  Pci pci = {{}, 0, unsigned(bus_of(gpu)), 0, 0x233510de, 0, {}};  // an H200 of NVIDIA
  std::snprintf(pci.legacy, sizeof pci.legacy, "%s", bus_text(gpu).c_str());
  std::snprintf(pci.text, sizeof pci.text, "0000%s", bus_text(gpu).c_str());
  return pci;
}

// The state is 0, not supported, or 3, completed. That of GPUs on a fabric was never seen.
Fabric fabric() {
  const bool is_there = memory::machine().fabric_handles && memory::machine().fabric_channel;
  if (!is_there) return {};
  return {{'v', 'm', 'm', 's', 'i', 'm'}, success, 1, 3};
}

}  // namespace

// --- Its life, and the machine ---------------------------------------------------------------------------------------

NVML nvmlInit_v2() {
  if (memory::reason_without_machine().empty()) return ++initialized, success;
  static std::atomic<bool> is_told = false;
  if (!is_told.exchange(true)) log_line("%s", memory::reason_without_machine().c_str());
  return driver_not_loaded;
}
NVML nvmlInit() { return nvmlInit_v2(); }
NVML nvmlInitWithFlags(unsigned) { return nvmlInit_v2(); }
NVML nvmlShutdown() {
  return ask([] { return --initialized, success; });
}
extern "C" __attribute__((visibility("default"))) const char* nvmlErrorString(int error) {
  static constexpr const char* words[] = {"Success",
                                          "Uninitialized",
                                          "Invalid Argument",
                                          "Not Supported",
                                          "Insufficient Permissions",
                                          "Already Initialized",
                                          "Not Found",
                                          "Insufficient Size",
                                          "Insufficient External Power",
                                          "Driver Not Loaded",
                                          "Timeout",
                                          "Interrupt Request Issue",
                                          "NVML Shared Library Not Found",
                                          "Function Not Found",
                                          "Corrupted infoROM",
                                          "GPU is lost",
                                          "GPU requires reset",
                                          "GPU access blocked by the operating system",
                                          "Driver/library version mismatch",
                                          "In use by another client",
                                          "Insufficient Memory",
                                          "No data",
                                          "vGPU ECC not supported",
                                          "Insufficient Resources",
                                          "Invalid Frequency",
                                          "Argument version mismatch",
                                          "Requested functionality has been deprecated",
                                          "System is not in ready state",
                                          "No supported GPUs were found",
                                          "Resource not in correct state to perform requested operation",
                                          "Reset type is not supported for given device"};
  return error >= 0 && size_t(error) < std::size(words) ? words[error] : "Unknown Error";
}
NVML nvmlSystemGetDriverVersion(char* to, unsigned room) {  // of the driver whose answers were recorded
  return ask([&] { return give(to, room, "580.159.04"); });
}
NVML nvmlSystemGetDriverBranch(Branch* to, unsigned room) {
  if (!to) return invalid_argument;
  if (to->version != version(sizeof *to, 1)) return version_mismatch;
  return ask([&] { return give(to->text, std::min<unsigned>(room, sizeof to->text), "r582_49"); });
}
NVML nvmlSystemGetProcessName(unsigned process, char* to, unsigned room) {
  return ask([&] {
    char path[4096] = "";
    const std::string link = "/proc/" + std::to_string(process) + "/exe";
    return readlink(link.c_str(), path, sizeof path - 1) < 0 ? not_found : give(to, room, path);
  });
}
NVML nvmlSystemGetNVMLVersion(char* to, unsigned room) {
  return ask([&] { return give(to, room, "13.580.159.04"); });
}
NVML nvmlSystemGetCudaDriverVersion(int* to) { return give(to, memory::machine().driver); }
NVML nvmlSystemGetCudaDriverVersion_v2(int* to) { return nvmlSystemGetCudaDriverVersion(to); }

// --- GPUs ------------------------------------------------------------------------------------------------------------

NVML nvmlDeviceGetCount_v2(unsigned* to) {
  return ask([&] { return give(to, unsigned(memory::machine().gpus)); });
}
NVML nvmlDeviceGetCount(unsigned* to) { return nvmlDeviceGetCount_v2(to); }
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* to) {
  const auto device = reinterpret_cast<Device>(uint64_t(index) + 1);
  return ask(device, [&](int) { return give(to, device); });
}
NVML nvmlDeviceGetHandleByIndex(unsigned index, Device* to) { return nvmlDeviceGetHandleByIndex_v2(index, to); }
NVML nvmlDeviceGetHandleByUUID(const char* uuid, Device* to) {
  if (!uuid) return invalid_argument;
  return ask([&] { return give_first(to, [&](int gpu) { return uuid_text(gpu) == uuid; }); });
}
NVML nvmlDeviceGetHandleByPciBusId_v2(const char* text, Device* to) {
  const int bus = text ? bus_in(text) : -1;
  if (bus < 0) return invalid_argument;
  return ask([&] { return give_first(to, [&](int gpu) { return bus_of(gpu) == bus; }); });
}
NVML nvmlDeviceGetHandleByPciBusId(const char* text, Device* to) { return nvmlDeviceGetHandleByPciBusId_v2(text, to); }

NVML nvmlDeviceGetIndex(Device device, unsigned* to) {
  return ask(device, [&](int) { return give(to, unsigned(reinterpret_cast<uint64_t>(device)) - 1); });
}
NVML nvmlDeviceGetName(Device device, char* to, unsigned room) {
  return ask(device, [&](int) { return give(to, room, memory::machine().name); });
}
NVML nvmlDeviceGetUUID(Device device, char* to, unsigned room) {
  return ask(device, [&](int gpu) { return give(to, room, uuid_text(gpu)); });
}
NVML nvmlDeviceGetPciInfo_v3(Device device, Pci* to) {
  return ask(device, [&](int gpu) { return give(to, pci_of(gpu)); });
}
NVML nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  return ask(device, [&](int) {
    if (!major || !minor) return invalid_argument;
    *major = memory::machine().capability / 10;
    *minor = memory::machine().capability % 10;
    return success;
  });
}
NVML nvmlDeviceGetMemoryInfo(Device device, Memory* to) {
  return ask(device, [&](int gpu) {
    const memory::Free now = memory::memory_of(gpu);
    return give(to, {now.total, now.free, now.total - now.free});
  });
}
NVML nvmlDeviceGetMemoryInfo_v2(Device device, VersionedMemory* to) {
  if (to && to->version != version(sizeof *to, 2)) return function_not_found;
  return ask(device, [&](int gpu) {
    const memory::Free now = memory::memory_of(gpu);
    return give(to, {version(sizeof *to, 2), now.total, 0, now.free, now.total - now.free});
  });
}
// All of a GPU's memory is in reach of the host. How much of that is in use, nobody can know here.
NVML nvmlDeviceGetBAR1MemoryInfo(Device device, Bar* to) {
  return ask(device, [&](int) {
    const uint64_t total = std::bit_ceil(memory::machine().memory);
    return give(to, {total, total, 0});
  });
}
NVML nvmlDeviceGetPciInfoExt(Device device, VersionedPci* to) {
  return ask(device, [&](int gpu) {
    if (!to) return invalid_argument;
    if (to->version != version(sizeof *to, 1)) return version_mismatch;
    const Pci pci = pci_of(gpu);
    *to = {to->version, pci.domain, pci.bus, pci.device, pci.id, pci.subsystem, 3, 2, {}};  // a 3D controller
    std::memcpy(to->text, pci.text, sizeof pci.text);
    return success;
  });
}
NVML nvmlDeviceGetArchitecture(Device device, unsigned* to) {
  return ask(device, [&](int) {
    const int capability = memory::machine().capability;
    // Turing, Ampere, Ada, Hopper, Blackwell
    return give(to, capability < 80 ? 6U : capability < 89 ? 7U : capability == 89 ? 8U : capability < 100 ? 9U : 10U);
  });
}
NVML nvmlDeviceGetBrand(Device device, int* to) {
  return ask(device, [&](int) { return give(to, 14); });  // NVIDIA
}
NVML nvmlDeviceGetMinorNumber(Device device, unsigned* to) { return nvmlDeviceGetIndex(device, to); }
NVML nvmlDeviceGetMigMode(Device device, unsigned* now, unsigned* later) {
  return ask(device, [&](int) { return now && later ? (*now = *later = 0, success) : invalid_argument; });
}
NVML nvmlDeviceIsMigDeviceHandle(Device device, unsigned* to) {
  return ask(device, [&](int) { return give(to, 0U); });
}
NVML nvmlDeviceGetMaxMigDeviceCount(Device device, unsigned* to) { return nvmlDeviceIsMigDeviceHandle(device, to); }
NVML nvmlDeviceGetPersistenceMode(Device device, int* to) {
  return ask(device, [&](int) { return give(to, 0); });
}
NVML nvmlDeviceGetDisplayMode(Device device, int* to) {
  return ask(device, [&](int) { return give(to, 1); });  // as an H100 says, without a display
}
NVML nvmlDeviceGetNumFans(Device device, unsigned* to) { return nvmlDeviceIsMigDeviceHandle(device, to); }
NVML nvmlDeviceGetDisplayActive(Device device, int* to) { return nvmlDeviceGetPersistenceMode(device, to); }

// No processor is nearer to a GPU than another.
NVML nvmlDeviceGetCpuAffinity(Device device, unsigned words, unsigned long* set) {
  return ask(device, [&](int) {
    if (!words || !set) return invalid_argument;
    constexpr long bits = 8 * sizeof *set;
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    std::fill_n(set, words, 0);
    for (long i = 0; i < processors && i < bits * words; ++i) set[i / bits] |= 1UL << i % bits;
    return success;
  });
}
NVML nvmlDeviceGetCpuAffinityWithinScope(Device device, unsigned words, unsigned long* set, unsigned) {
  return nvmlDeviceGetCpuAffinity(device, words, set);
}
NVML nvmlDeviceGetMemoryAffinity(Device device, unsigned words, unsigned long* set, unsigned) {
  return ask(device, [&](int) {
    if (!words || !set) return invalid_argument;
    std::fill_n(set, words, 0);
    return *set = 1, success;
  });
}

// What is measured at a GPU, or set there: heat, load, power, clocks, fans, links, events, errors.
#define NOT_SUPPORTED(name)                                \
  NVML name(Device device) {                               \
    return ask(device, [](int) { return not_supported; }); \
  }
NOT_SUPPORTED(nvmlDeviceSetCpuAffinity)
NOT_SUPPORTED(nvmlDeviceClearCpuAffinity)
NOT_SUPPORTED(nvmlDeviceGetAddressingMode)
NOT_SUPPORTED(nvmlDeviceGetAttributes_v2)
NOT_SUPPORTED(nvmlDeviceGetAutoBoostedClocksEnabled)
NOT_SUPPORTED(nvmlDeviceGetBoardPartNumber)
NOT_SUPPORTED(nvmlDeviceGetC2cModeInfoV)
NOT_SUPPORTED(nvmlDeviceGetClock)
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetClockOffsets)
NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses)
NOT_SUPPORTED(nvmlDeviceGetComputeRunningProcesses_v3)
NOT_SUPPORTED(nvmlDeviceGetCoolerInfo)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetCurrentClocksEventReasons)
NOT_SUPPORTED(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)
NOT_SUPPORTED(nvmlDeviceGetDynamicPstatesInfo)
NOT_SUPPORTED(nvmlDeviceGetFieldValues)
NOT_SUPPORTED(nvmlDeviceGetInforomConfigurationChecksum)
NOT_SUPPORTED(nvmlDeviceGetInforomImageVersion)
NOT_SUPPORTED(nvmlDeviceGetInforomVersion)
NOT_SUPPORTED(nvmlDeviceGetLastBBXFlushTime)
NOT_SUPPORTED(nvmlDeviceGetMarginTemperature)
NOT_SUPPORTED(nvmlDeviceGetMaxClockInfo)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetModuleId)
NOT_SUPPORTED(nvmlDeviceGetNumaNodeId)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetNvLinkVersion)
NOT_SUPPORTED(nvmlDeviceGetPcieReplayCounter)
NOT_SUPPORTED(nvmlDeviceGetPcieThroughput)
NOT_SUPPORTED(nvmlDeviceGetPerformanceState)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetRepairStatus)
NOT_SUPPORTED(nvmlDeviceGetSerial)
NOT_SUPPORTED(nvmlDeviceGetSupportedClocksEventReasons)
NOT_SUPPORTED(nvmlDeviceGetSupportedEventTypes)
NOT_SUPPORTED(nvmlDeviceGetSupportedPerformanceStates)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetTemperatureV)
NOT_SUPPORTED(nvmlDeviceGetThermalSettings)
NOT_SUPPORTED(nvmlDeviceGetTopologyNearestGpus)
NOT_SUPPORTED(nvmlDeviceGetUtilizationRates)
#undef NOT_SUPPORTED

NVML nvmlDeviceGetGpuFabricInfo(Device device, Fabric* to) {
  return ask(device, [&](int) { return give(to, fabric()); });
}
NVML nvmlDeviceGetGpuFabricInfoV(Device device, VersionedFabric* to) {
  return ask(device, [&](int) {
    if (!to) return invalid_argument;
    const bool is_third = to->version == version(sizeof(VersionedFabric3), 3);
    if (!is_third && to->version != version(sizeof *to, 2)) return version_mismatch;
    const Fabric known = fabric();
    std::memcpy(to->cluster, known.cluster, sizeof known.cluster);
    to->status = known.status, to->clique = known.clique, to->state = known.state, to->health = 0;
    if (is_third) static_cast<VersionedFabric3*>(to)->summary = 0;
    return success;
  });
}
