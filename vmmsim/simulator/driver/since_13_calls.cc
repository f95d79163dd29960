// SPDX-License-Identifier: MIT-0
// The calls that drivers after 13.0 brought: a bind of multicast that names the GPU, and who reaches whom on a fabric.
// From the headers of 13.1 and 13.4, which need not be those that this is compiled with: no hardware was asked.

#include <algorithm>
#include <cstring>

#include "../memory/this_machine.h"
#include "driver.h"

using namespace driver;

namespace {

// A program that is linked with a call which the driver lacks does not start. Here it gets this.
void came_with(int version) {
  if (memory::machine().driver < version)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "the call came with CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10) +
               ", and this machine's driver is older: a program that is linked with it would not start");
}

// CUcliqueInfo. A GPU is in a clique for memory of others, and in one for multicast, if it has such.
struct Clique {
  enum Type { unicast_pointer, multicast_pointer } type;
  unsigned id;
};
std::vector<Clique> cliques_of(CUdevice device) {
  const auto clique = unsigned(memory::clique_of(device));
  std::vector<Clique> all;
  if (memory::machine().peer_access) all.push_back({Clique::unicast_pointer, 0});
  if (memory::machine().multicast) all.push_back({Clique::multicast_pointer, clique});
  return all;
}

void require_fabric() {
  came_with(13040);
  require(memory::machine().fabric_handles, CUDA_ERROR_NOT_SUPPORTED, "these GPUs are on no fabric");
}

}  // namespace

EXPORT CUresult cuDeviceGetFabricClusterUuid(CUuuid* uuid, CUdevice dev) {
  return call(ARGUMENTS(uuid, dev), after_fault, result_to(uuid, "uuid", [&] {
                memory::clique_of(dev);
                require_fabric();
                return CUuuid{{'v', 'm', 'm', 's', 'i', 'm'}};  // as NVML says it
              }));
}
EXPORT CUresult cuDeviceGetCliqueCount(size_t* count, CUdevice dev) {
  return call(ARGUMENTS(count, dev), after_fault, result_to(count, "count", [&] {
                require_fabric();
                return cliques_of(dev).size();
              }));
}
#if CUDA_VERSION >= 13040
using CliqueInfo = CUcliqueInfo;
#else
using CliqueInfo = Clique;
#endif
EXPORT CUresult cuDeviceGetCliqueInfo(CliqueInfo* cliqueInfo, size_t* count, CUdevice dev) {
  return call(ARGUMENTS(cliqueInfo, count, dev), after_fault, [&] {
    require_non_null(count, "count");
    require_fabric();
    const std::vector<Clique> all = cliques_of(dev);
    *count = std::min(*count, all.size());
    if (*count) require_non_null(cliqueInfo, "cliqueInfo");
    static_assert(sizeof *cliqueInfo == sizeof all[0]);
    if (*count) std::memcpy(cliqueInfo, all.data(), *count * sizeof all[0]);
  });
}

EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                      CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                      unsigned long long flags) {
  return call(ARGUMENTS(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags), after_fault, [&] {
    came_with(13010);
    memory::multicast_bind(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
  });
}
EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                       CUdeviceptr memptr, size_t size, unsigned long long flags) {
  return call(ARGUMENTS(mcHandle, dev, mcOffset, memptr, size, flags), after_fault, [&] {
    came_with(13010);
    memory::multicast_bind_address(mcHandle, dev, mcOffset, memptr, size, flags);
  });
}
