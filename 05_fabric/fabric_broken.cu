// SPDX-License-Identifier: MIT-0
//
// 05 Fabric, broken: what refuses fabric memory, and what makes 64 bytes worthless?
//
// Each step makes one mistake, shows the answer, and then does it right. Needs a GPU with fabric handles, and from the
// third step on a channel file of IMEX: without one it shows the refusal and skips the rest. One process does all, for
// none of these mistakes is better seen in two.
//
// Build it alone:  nvcc -std=c++17 -lineinfo fabric_broken.cu -o fabric_broken -lcuda
#include "../common/check.h"

#include <unistd.h>

static const char usage[] = "usage: fabric_broken\n";

static CUmemAllocationProp properties;  // these two are set by start()
static size_t size;                     // one granule

static void start() {
  int supported = 0, descriptors = 0;
  check::require_gpus(1);
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));
  REQUIRE(supported, "GPU 0 has no fabric handles; use GPUs on an NVSwitch, and a driver for them");
  CHECK(cuDeviceGetAttribute(&descriptors, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  REQUIRE(descriptors, "GPU 0 exports no memory as a file descriptor; use Linux on bare metal");
  CHECK(cudaSetDevice(0));
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CHECK(cuMemGetAllocationGranularity(&size, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

static const CUmemAllocationHandleType fabric = CU_MEM_HANDLE_TYPE_FABRIC;

int main(int argc, char** argv) {
  check::arguments(argc, argv, usage);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // in order with what others write about this program
  start();
  CUmemGenericAllocationHandle memory, imported;
  CUmemFabricHandle handle = {};

  step("[1] Decide on the handle type later");
  // The type is a property of the allocation. What was made for file descriptors never becomes 64 bytes.
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  close(fd);
  CHECK(cuMemRelease(memory));
  say("right: exported as what it was made for");

  step("[2] Take the attribute for a promise");
  // The attribute describes the GPU and the driver. The channel file depends on machine, user and container.
  properties.requestedHandleTypes = fabric;
  const CUresult answer = cuMemCreate(&memory, size, &properties, 0);
  say("the attribute says 1; cuMemCreate(&memory, size, &properties, 0)\n      -> %s", check::name(answer));
  EXPECT(answer == CUDA_SUCCESS || answer == CUDA_ERROR_NOT_PERMITTED || answer == CUDA_ERROR_NOT_SUPPORTED,
         "cuMemCreate answers %s", check::name(answer));
  REQUIRE(answer == CUDA_SUCCESS,
          "fabric memory is refused, and the steps from here on need it; fabric_doctor says what is missing");
  CHECK(cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  CHECK(cuMemImportFromShareableHandle(&imported, &handle, fabric));
  say("right: created, exported and imported, and only then believed");
  CHECK(cuMemRelease(imported));

  step("[3] Send a part of the handle");
  // All 64 bytes count. A handle is no text that ends at a zero, and the size of a pointer to it is not its size.
  CUmemFabricHandle arrived = {};
  const unsigned char* const from = handle.data;
  const size_t part = sizeof from;  // 8: of the pointer
  std::memcpy(arrived.data, from, part);
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, &arrived, fabric));
  std::memcpy(arrived.data, from, sizeof arrived.data);
  CHECK(cuMemImportFromShareableHandle(&imported, &arrived, fabric));
  say("right: all %zu bytes", sizeof arrived.data);
  CHECK(cuMemRelease(imported));

  step("[4] Let the memory go before it is imported");
  // An open file descriptor is a reference to memory. These 64 bytes are none: the exporter waits for the import.
  CHECK(cuMemRelease(memory));
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemImportFromShareableHandle(&imported, &handle, fabric));
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemExportToShareableHandle(&handle, memory, fabric, 0));
  CHECK(cuMemImportFromShareableHandle(&imported, &handle, fabric));
  CHECK(cuMemRelease(memory));
  say("right: imported, and only then released by the exporter");
  CHECK(cuMemRelease(imported));

  std::puts("OK");
  return 0;
}
