// SPDX-License-Identifier: MIT-0
// 05 Fabric, broken: what refuses fabric memory, and what makes its 64 bytes worthless?
//
// Without an IMEX channel it shows mistakes 1 and 2, and skips the rest. One process does it all: none of these
// mistakes shows better in two.
//
// Build it alone:  nvcc -std=c++17 -lineinfo fabric_broken.cu -o fabric_broken -lcuda
#include "../common/check.h"

#include <unistd.h>

static const CUmemAllocationHandleType fabric = CU_MEM_HANDLE_TYPE_FABRIC;
static const CUmemAllocationHandleType file_descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

int main() {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // in order with what others write about this program
  check::require_gpus(1, {{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
                           "GPU 0 has no fabric handles; use a Hopper GPU or a later one, on an NVSwitch"},
                          {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
                           "GPU 0 exports no memory as a file descriptor; use Linux on bare metal"}});
  CHECK(cudaSetDevice(0));
  CUmemAllocationProp memory_on_gpu = {};
  memory_on_gpu.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory_on_gpu.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory_on_gpu.location.id = 0;
  size_t size;  // one granule
  CHECK(cuMemGetAllocationGranularity(&size, &memory_on_gpu, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle memory, imported;
  CUmemFabricHandle handle;

  step("[1] Decide on the handle type later");
  memory_on_gpu.requestedHandleTypes = file_descriptor;
  CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, memory, file_descriptor, 0));
  close(fd);
  CHECK(cuMemRelease(memory));
  say("right: exported as what it was made for");

  step("[2] Take the attribute for a promise");
  int supported;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
  memory_on_gpu.requestedHandleTypes = fabric;
  const CUresult created = cuMemCreate(&memory, size, &memory_on_gpu, 0);
  say("the attribute is %d; cuMemCreate with fabric\n      -> %s", supported, check::name(created));
  CUmemGenericAllocationHandle either;
  // Each type is a bit: NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  memory_on_gpu.requestedHandleTypes = CUmemAllocationHandleType(fabric | file_descriptor);
  const CUresult with_both = cuMemCreate(&either, size, &memory_on_gpu, 0);
  say("with both handle types\n      -> %s", check::name(with_both));
  const bool refused = created == CUDA_ERROR_NOT_PERMITTED || created == CUDA_ERROR_NOT_SUPPORTED;
  REQUIRE(!refused, "fabric memory is refused, and the rest needs it; fabric_doctor says what is missing");
  CHECK(created);
  CHECK(with_both);
  CHECK(cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  CHECK(cuMemImportFromShareableHandle(&imported, &handle, fabric));
  say("right: created, exported and imported, and only then believed");
  CHECK(cuMemRelease(imported));
  CHECK(cuMemRelease(either));

  step("[3] Let the memory go before it is imported");
  CHECK(cuMemRelease(memory));
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, &handle, fabric));
  CHECK(cuMemCreate(&memory, size, &memory_on_gpu, 0));
  CHECK(cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  CHECK(cuMemImportFromShareableHandle(&imported, &handle, fabric));
  CHECK(cuMemRelease(imported));  // the importer is done, and says so
  CHECK(cuMemRelease(memory));    // only now the exporter lets go
  say("right: released by the exporter when the importer was done");

  std::puts("OK");
}
