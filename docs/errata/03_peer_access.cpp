// SPDX-License-Identifier: MIT-0
// Printed: does not compile: 'cudaEnablePeerAccess' was not declared in this scope
// Right: compiles
#include <cuda_runtime.h>

void enable_peer(int peer) {
#ifdef AS_PRINTED
  cudaEnablePeerAccess(peer, 0);
#else
  cudaDeviceEnablePeerAccess(peer, 0);
#endif
}
