// SPDX-License-Identifier: MIT-0
// Lab 05a: Say what is missing
//
// This program believes an attribute, and takes a file descriptor where that is 0. Make it skip, with status 77:
// - where the attribute is 0, with "no fabric handles" in the line that it prints
// - where cuMemCreate answers CUDA_ERROR_NOT_PERMITTED, with "no channel"; REQUIRE(condition, "words") does that
// - any other refusal of cuMemCreate stays a failure, as CHECK tells it
// Read 05_fabric/README.md#1-create-memory-that-may-leave-the-machine.
#include <unistd.h>
#include "../lab.h"

int main() {
  const size_t size = 2 << 20;  // one granule
  lab::begin();
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  CUmemGenericAllocationHandle memory;
  CUmemFabricHandle handle = {};
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0));

  // >>> your part: make fabric memory, or say what is missing
  properties.requestedHandleTypes = supported ? CU_MEM_HANDLE_TYPE_FABRIC : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  int fd = -1;
  void* const to = supported ? static_cast<void*>(&handle) : &fd;
  CHECK(cuMemExportToShareableHandle(to, memory, properties.requestedHandleTypes, 0));
  if (!supported) close(fd);
  // <<<

  // Not run on hardware: the H200s of lesson 05 have no channel, and end above with status 77.
  size_t bytes = 0;
  for (const unsigned char byte : handle.data) bytes += byte != 0;
  std::printf("the memory %s\n", bytes ? "can go to another machine" : "stays on this machine");
  CHECK(cuMemRelease(memory));
  return lab::end();
}
