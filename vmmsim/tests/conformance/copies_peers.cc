// SPDX-License-Identifier: MIT-0
// cuMemcpyPeer between two GPUs, for all rights that the two may have to either side, and contexts named either way.
#include "conformance.h"

static const char* const names[] = {"nobody", "its owner", "the other", "both"};

// Memory of a GPU, open as the two bits of `rights` say: for the owner, for the other.
static CUdeviceptr memory_of(int gpu, unsigned rights) {
  const CUdeviceptr address = reserve(page);
  map_new(address, page, 0, gpu);
  for (int other = 0; other < 2; ++other) {
    if (!(rights >> other & 1)) continue;
    const CUmemAccessDesc descriptor = access_of(other ? 1 - gpu : gpu);
    CHECK(cuMemSetAccess(address, page, &descriptor, 1));
  }
  return address;
}

int main() {
  check::require_gpus(2);
  CUcontext contexts[2];
  for (int gpu = 0; gpu < 2; ++gpu) CHECK(cuDevicePrimaryCtxRetain(&contexts[gpu], gpu));
  for (int current = 0; current < 2; ++current) {
    CHECK(cuCtxSetCurrent(contexts[current]));
    for (int to_gpu = 0; to_gpu < 2; ++to_gpu)
      for (unsigned to_rights = 0; to_rights < 4; ++to_rights)
        for (unsigned from_rights = 0; from_rights < 4; ++from_rights) {
          const int from_gpu = 1 - to_gpu;
          const CUdeviceptr to = memory_of(to_gpu, to_rights), from = memory_of(from_gpu, from_rights);
          const std::string what = "GPU " + std::to_string(current) + " current, from GPU " + std::to_string(from_gpu) +
                                   ", open to " + names[from_rights] + ", to GPU " + std::to_string(to_gpu) +
                                   ", open to " + names[to_rights];
          say(what, cuMemcpyPeer(to, contexts[to_gpu], from, contexts[from_gpu], 8));
          say("  contexts exchanged", cuMemcpyPeer(to, contexts[from_gpu], from, contexts[to_gpu], 8));
          say("  within one context", cuMemcpyPeer(to, contexts[current], from, contexts[current], 8));
          say("  synchronise", cuCtxSynchronize());
          unmap_and_free(to, page, page), unmap_and_free(from, page, page);
        }
  }
}
