// SPDX-License-Identifier: MIT-0
// New: cuDeviceGetCliqueInfo
#include <cuda.h>
#include <cstring>
#include <vector>

// Can these two GPUs be in one multicast object? Without NVML, and before anything is created.
CUresult can_share_multicast(CUdevice a, CUdevice b, bool* can) {
  const CUdevice gpus[] = {a, b};
  CUuuid cluster[2];
  unsigned id[2] = {};
  bool has[2] = {};
  for (int i = 0; i < 2; ++i) {
    size_t count = 0;
    CUresult result = cuDeviceGetFabricClusterUuid(&cluster[i], gpus[i]);
    if (result == CUDA_SUCCESS) result = cuDeviceGetCliqueCount(&count, gpus[i]);
    std::vector<CUcliqueInfo> cliques(count);
    if (result == CUDA_SUCCESS && count) result = cuDeviceGetCliqueInfo(cliques.data(), &count, gpus[i]);
    if (result != CUDA_SUCCESS) return result;
    cliques.resize(count);
    for (const CUcliqueInfo& each : cliques)
      if (each.type == CU_CLIQUE_TYPE_MULTICAST_POINTER) {
        id[i] = each.id;
        has[i] = true;
      }
  }
  *can = has[0] && has[1] && id[0] == id[1] && std::memcmp(&cluster[0], &cluster[1], sizeof(CUuuid)) == 0;
  return CUDA_SUCCESS;
}
