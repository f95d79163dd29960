// SPDX-License-Identifier: MIT-0
// Lab 03c: Stripe an array
//
// One array lies on GPU 0 alone. Make it lie on all GPUs, in one reservation, though they have unequal room for it:
// - stripes of one granule, on GPU 0, 1 and so on in turn; GPU g takes room[g] of them, and then is left out
// - one call grants every GPU access to the whole array
// - it is right for any number of GPUs, and where one has no room; look at each answer with CHECK
// Read 03_multi_gpu/README.md#1-lay-the-table-across-the-gpus and #3-let-the-reader-in.
#include "../lab.h"

int main() {
  const int gpus = check::require_gpus(2);
  lab::begin(gpus);
  for (int gpu = 1; gpu < gpus; ++gpu) {
    int there = 0, back = 0;
    CHECK(cudaDeviceCanAccessPeer(&there, 0, gpu));
    CHECK(cudaDeviceCanAccessPeer(&back, gpu, 0));
    REQUIRE(there && back, "GPU 0 and GPU %d do not reach each other; use GPUs that do", gpu);
  }
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  std::vector<size_t> room(gpus);  // in granules
  size_t stripes = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) stripes += room[gpu] = (3 + 5 * gpu) % 4;  // 3, 0, 1, 2, and so on
  const size_t size = stripes * granule, n = size / sizeof(int);
  CUdeviceptr array = 0;
  CHECK(cuMemAddressReserve(&array, size, 0, 0, 0));

  // >>> your part: memory of all GPUs
  CUmemGenericAllocationHandle memory;
  CHECK(cuMemCreate(&memory, size, &properties, 0));
  CHECK(cuMemMap(array, size, 0, memory, 0));
  CHECK(cuMemRelease(memory));  // the mapping holds the memory
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(array, size, everyone.data(), gpus));
  // <<<

  for (int gpu = 0; gpu < gpus; ++gpu) {  // each GPU writes a part of its own, wherever that lies
    CHECK(cudaSetDevice(gpu));
    const size_t begin = n * gpu / gpus, end = n * (gpu + 1) / gpus;
    lab::fill<int>(array + begin * sizeof(int), end - begin, 7);
  }
  CHECK(cudaSetDevice(0));
  const bool is_whole = lab::count<int>(array, n, 7) == n;
  std::printf("one kernel read the array from end to end: %s\n", is_whole ? "all are 7" : "not all are 7");

  CHECK(cuMemUnmap(array, size));  // all the mappings
  CHECK(cuMemAddressFree(array, size));
  return lab::end();
}
