// SPDX-License-Identifier: MIT-0
#include <cuda.h>

// What a GPU and its driver say they have. A 1 for fabric does not mean that this process may use it: see fabric.cu.
struct Supported {
  int vmm, fd, fabric, multicast, compression;
};

inline CUresult supported(CUdevice device, Supported* answer) {
  const struct {
    int* to;
    CUdevice_attribute attribute;
  } queries[] = {{&answer->vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
                 {&answer->fd, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
                 {&answer->fabric, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED},
                 {&answer->multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED},
                 {&answer->compression, CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED}};
  for (const auto& query : queries)
    if (const CUresult result = cuDeviceGetAttribute(query.to, query.attribute, device)) return result;
  return CUDA_SUCCESS;
}
