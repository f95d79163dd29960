// SPDX-License-Identifier: MIT-0
// New: CUDA_ERROR_FABRIC_NOT_READY
#include <cuda.h>

// What to do about the two new answers: again in a while, or another offset.
enum class Then { give_up, retry, align };
Then after(CUresult result) {
  switch (result) {
    case CUDA_ERROR_FABRIC_NOT_READY: return Then::retry;         // 919: Fabric Manager is still at work
    case CUDA_ERROR_MULTICAST_RESOURCE_FULL: return Then::align;  // 47: no entry left for an odd memOffset
    default: return Then::give_up;
  }
}
