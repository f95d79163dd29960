// SPDX-License-Identifier: MIT-0
// What the driver says of itself and of the GPUs: versions, names, attributes, peers.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sstream>

#include "../memory/this_machine.h"
#include "contexts.h"
#include "device_names.h"
#include "driver.h"
#include "graph_memory.h"

namespace driver {

namespace {

// The machine's GPU of each CUdevice: those of this node, as CUDA_VISIBLE_DEVICES picks and orders them.
// The list is read up to its first entry that names no GPU. A GPU that is named twice makes it worthless.
std::vector<int> visible() {
  std::vector<int> all, chosen;
  for (int i = 0; i < memory::machine().gpus; ++i) all.push_back(memory::node() * memory::machine().gpus + i);
  const char* const list = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!list) return all;
  std::istringstream entries(list);
  for (std::string entry; std::getline(entries, entry, ',');) {
    entry.erase(0, entry.find_first_not_of(' '));
    char* end = nullptr;
    const long number = std::strtol(entry.c_str(), &end, 10);
    auto found = std::find_if(all.begin(), all.end(),
                              [&](int gpu) { return entry.starts_with("GPU-") && uuid_text(gpu).starts_with(entry); });
    if (end != entry.c_str() && number >= 0 && number < long(all.size())) found = all.begin() + number;
    if (found == all.end()) break;
    if (std::find(chosen.begin(), chosen.end(), *found) != chosen.end()) return {};
    chosen.push_back(*found);
  }
  return chosen;
}

// The last attribute that drivers know, from the headers. Those in between that a header does not name have answers.
int last_attribute() {
  struct {
    int driver, last;
  } constexpr known[] = {{13050, 161}, {13040, 161}, {13030, 156}, {13010, 148}, {13000, 147}, {12090, 143}};
  for (const auto& [driver, last] : known)
    if (memory::machine().driver >= driver) return last;
  return 143;  // 12.8's, and not asked of older ones
}

// What came after 13.0, from the headers.
int later_attribute(int attribute) {
  constexpr int locality_domains = 149, largest_tensor = 160;
  switch (attribute) {
    case locality_domains: return 1;
    case largest_tensor: return std::numeric_limits<int>::max();  // there is no other class
    default: return 0;                                            // none of it is simulated
  }
}

// The attributes of an H200 by their numbers, as its driver gives them (0 for what differs from one to the next).
constexpr int h200[] = {
    0,        1024,      1024,     1024,  64,    2147483647, 65535, 65535, 49152,  65536,     32,     2147483647,
    65536,    1980000,   512,      1,     132,   0,          0,     1,     0,      131072,    131072, 65536,
    16384,    16384,     16384,    32768, 32768, 2048,       512,   1,     1,      0,         0,      0,
    3201000,  6016,      62914560, 2048,  3,     1,          32768, 2048,  1,      32768,     32768,  8192,
    8192,     32768,     0,        32,    32768, 32768,      2046,  32768, 131072, 65536,     16384,  16384,
    16384,    32768,     2048,     32768, 32768, 2048,       32768, 32768, 2046,   268435456, 131072, 65000,
    2097120,  32768,     32768,    9,     0,     32768,      1,     1,     1,      233472,    65536,  1,
    0,        0,         0,        2,     0,     1,          1,     1,     0,      0,         0,      1,
    1,        232448,    0,        1,     0,     0,          1,     1,     0,      0,         32,     1,
    39321600, 134217728, 1,        1024,  1,     1,          1,     1,     1,      1,         100,    9,
    1,        1,         1,        1,     1,     1,          4,     1,     1,      1,         0,      0,
    0,        0,         0,        0,     0,     0,          0,     0,     0,      1,         1,      0,
    1,        1,         0,        0,
};

// An attribute of a GPU: an H200's where the machine does not say otherwise, and 0 for what is not simulated.
int attribute(CUdevice_attribute attribute, CUdevice device) {
  const memory::Machine& machine = memory::machine();
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return machine.capability / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return machine.capability % 10;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return machine.multiprocessors;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: return bus_of(memory::gpu_of(device));
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return machine.vmm;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return machine.vmm && machine.fd_handles;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED: return machine.vmm && machine.fabric_handles;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: return machine.vmm && machine.multicast;
    case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED: return machine.compression;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED: return machine.rdma;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: return machine.vmm && machine.rdma;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID: return -1;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH: return 0;
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED: return 0;
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED: return 0;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
      return machine.vmm && machine.fd_handles ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH: return 0;
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED: return 0;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS: return machine.rdma ? h200[attribute] : 0;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING: return machine.rdma ? h200[attribute] : 0;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED: return machine.rdma;
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: return 0;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return machine.vmm;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED: return machine.vmm;
#if CUDA_VERSION >= 13000
    case CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED: return machine.vmm;
    case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: return machine.vmm;
#endif
    default: break;
  }
  const bool is_known = attribute > 0 && attribute <= last_attribute() && attribute != 139;
  require(is_known, "there is no such attribute, or it came with a later driver");
  return size_t(attribute) < std::size(h200) ? h200[attribute] : later_attribute(attribute);
}

bool are_peers(CUdevice a, CUdevice b) { return a != b && memory::machine().reaches(a, b); }

int peer_attribute(CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to) {
  const memory::Machine& machine = memory::machine();
  const bool reaches = machine.reaches(from, to);
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK: return 0;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED: return reaches;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED: return reaches && machine.peer_atomics;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED: return 0;  // there are no arrays
    default: refuse(no_such_attribute);
  }
}

void initialize(unsigned flags) {
  require_no_flags(flags);
  if (!memory::reason_without_machine().empty()) {
    log_once(memory::reason_without_machine());
    refuse(memory::lacks_memory_for_machine() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_SYSTEM_NOT_READY,
           memory::reason_without_machine().c_str());
  }
  refuse_if_forked();
  const MutexLock held(state().lock);
  static bool done = false;
  if (!done) memory::set_visible(visible());
  require(memory::device_count(), CUDA_ERROR_NO_DEVICE, "the machine has no GPU that CUDA_VISIBLE_DEVICES shows");
  set_initialized();
  done = true;
}

// The driver takes the size for unsigned: below 0 there is room for all.
void copy_text(char* to, int size, const std::string& text) {
  require_non_null(to, "the text's address");
  require(size, "the text has no room");
  to[text.copy(to, unsigned(size) - 1)] = 0;
}

CUdevice device_with_bus(const char* text) {
  require_non_null(text, "pciBusId");
  const int bus = bus_in(text);
  require(bus >= 0,
          "pciBusId is none of domain:bus:device.function, domain:bus:device and bus:device.function, in hexadecimal");
  for (CUdevice device = 0; device < memory::device_count(); ++device)
    if (bus == bus_of(memory::gpu_of(device))) return device;
  refuse(CUDA_ERROR_INVALID_DEVICE, "no GPU has this PCI bus id");
}

}  // namespace

}  // namespace driver

using namespace driver;
constexpr int always = before_init | after_fault | in_host_function;

CUresult cuInit(unsigned int Flags) {
  return call(ARGUMENTS(Flags), always, [&] { initialize(Flags); });
}
CUresult cuDriverGetVersion(int* driverVersion) {
  return call(ARGUMENTS(driverVersion), always,
              result_to(driverVersion, "driverVersion", [&] { return memory::machine().driver; }));
}
CUresult cuDeviceGetCount(int* count) {
  return call(ARGUMENTS(count), after_fault, result_to(count, "count", [&] { return memory::device_count(); }));
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return call(ARGUMENTS(device, ordinal), after_fault, result_to(device, "device", [&] { return checked(ordinal); }));
}
CUresult cuDeviceGetName(char* name, int len, CUdevice dev) {
  return call(ARGUMENTS(len, dev), after_fault, [&] {
    checked(dev);
    copy_text(name, len, memory::machine().name);
  });
}
CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return call(ARGUMENTS(uuid, dev), after_fault, result_to(uuid, "uuid", [&] { return uuid_of(memory::gpu_of(dev)); }));
}
CUresult cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  return call(ARGUMENTS(bytes, dev), after_fault,
              result_to(bytes, "bytes", [&] { return memory::memory_info(dev).total; }));
}
CUresult cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  return call(ARGUMENTS(pi, attrib, dev), after_fault,
              result_to(pi, "pi", [&] { return attribute(attrib, checked(dev)); }));
}
CUresult cuDeviceGetPCIBusId(char* pciBusId, int len, CUdevice dev) {
  return call(ARGUMENTS(len, dev), after_fault, [&] {
    checked(dev);
    require_non_null(pciBusId, "pciBusId");
    if (len) copy_text(pciBusId, len < 0 ? 12 : len, bus_text(memory::gpu_of(dev)));  // what fits, also if refused
    require(len >= 13, "the text needs room for 13 characters");
  });
}
CUresult cuDeviceGetByPCIBusId(CUdevice* dev, const char* pciBusId) {
  return call(ARGUMENTS(dev, pciBusId), after_fault, result_to(dev, "dev", [&] { return device_with_bus(pciBusId); }));
}
CUresult cuDeviceGetExecAffinitySupport(int* pi, CUexecAffinityType type, CUdevice dev) {
  return call(ARGUMENTS(pi, type, dev), after_fault, [&] {
    require_non_null(pi, "pi");
    checked(dev);
    *pi = 0;
  });
}
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice dev) {
  return call(ARGUMENTS(major, minor, dev), after_fault, [&] {
    require_non_null(major, "major");
    require_non_null(minor, "minor");
    checked(dev);
    *major = memory::machine().capability / 10;
    *minor = memory::machine().capability % 10;
  });
}
CUresult cuDeviceCanAccessPeer(int* canAccessPeer, CUdevice dev, CUdevice peerDev) {
  return call(ARGUMENTS(canAccessPeer, dev, peerDev), after_fault,
              result_to(canAccessPeer, "canAccessPeer", [&] { return are_peers(checked(dev), checked(peerDev)); }));
}
CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attrib, CUdevice srcDevice, CUdevice dstDevice) {
  return call(ARGUMENTS(value, attrib, srcDevice, dstDevice), after_fault, [&] {
    require_non_null(value, "value");
    checked(srcDevice);
    checked(dstDevice);
    require(srcDevice != dstDevice, CUDA_ERROR_INVALID_DEVICE, "the devices are the same");
    *value = peer_attribute(attrib, srcDevice, dstDevice);
  });
}
CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  return call(ARGUMENTS(device, attr, value), [&] { use_attribute(device, attr, value, false); });
}
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void* value) {
  return call(ARGUMENTS(device, attr, value), [&] { use_attribute(device, attr, value, true); });
}
CUresult cuDeviceGraphMemTrim(CUdevice device) {
  return call(ARGUMENTS(device), [&] { trim_graph_memory(device); });
}

#ifdef cuDeviceGetUuid  // since CUDA 13 that is the other's name
#undef cuDeviceGetUuid  // as NCCL calls it
EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid_v2(uuid, dev); }
#else
CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) { return cuDeviceGetUuid(uuid, dev); }
#endif
