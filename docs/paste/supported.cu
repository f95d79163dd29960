// SPDX-License-Identifier: MIT-0
#ifndef VMM_SUPPORTED_CU
#define VMM_SUPPORTED_CU

#include <cuda.h>

// What a GPU and its driver say they can do: 1 or 0. A 1 for fabric does not mean that this process may use it: see
// try_fabric.
struct Supported {
  int vmm, fd, fabric, multicast, compression, rdma;
};

// Asks for all of it. What an older driver has never heard of is 0. Error: the driver's, if there is no such GPU or no
// cuInit; *answer is then all 0. Threads: yes. Needs no context.
inline CUresult supported(CUdevice device, Supported* answer) {
  *answer = {};
  const struct {
    int* to;
    CUdevice_attribute attribute;
  } queries[] = {{&answer->vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
                 {&answer->fd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
                 {&answer->fabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
                 {&answer->multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
                 {&answer->compression, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED},
                 {&answer->rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED}};
  for (const auto& query : queries) {
    int value = 0;
    const CUresult result = cuDeviceGetAttribute(&value, query.attribute, device);
    if (result == CUDA_SUCCESS) {
      *query.to = value;
    } else if (result != CUDA_ERROR_INVALID_VALUE) {  // which says that the driver does not know the attribute
      *answer = {};
      return result;
    }
  }
  return CUDA_SUCCESS;
}

#endif
