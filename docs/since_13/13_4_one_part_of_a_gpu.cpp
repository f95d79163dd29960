// SPDX-License-Identifier: MIT-0
// New: CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN
#include <cuda.h>

// Memory in one part of a GPU that has several. A GPU with one domain gives ordinary memory for domain 0.
CUresult create_in(CUdevice gpu, int domain, size_t size, CUmemGenericAllocationHandle* memory) {
  int domains = 0;
  const CUresult result = cuDeviceGetAttribute(&domains, CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_COUNT, gpu);
  if (result != CUDA_SUCCESS) return result;
  if (domain < 0 || domain >= domains) return CUDA_ERROR_INVALID_VALUE;
  CUmemAllocationProp here = {};
  here.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  here.location.type = CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN;
  here.location.localized.deviceId = static_cast<unsigned char>(gpu);
  here.location.localized.localityDomainId = static_cast<unsigned char>(domain);
  return cuMemCreate(memory, size, &here, 0);
}

// In which part does mapped memory lie? -1: in no single one.
CUresult domain_of(CUdeviceptr address, int* domain) {
  return cuPointerGetAttribute(domain, CU_POINTER_ATTRIBUTE_LOCALITY_DOMAIN_ORDINAL, address);
}

// Whose memory is it? `id` alone would say 256 for domain 1 of GPU 0.
int gpu_of(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return location.id;
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN: return location.localized.deviceId;
    default: return -1;
  }
}
