// SPDX-License-Identifier: MIT-0
// Lab 03c: Stripe an array
//
// Now each GPU's room is one large allocation, and every GPU may write everywhere. Cut it into stripes, of which each
// GPU may write only its own:
// - a stripe is one granule, and the next one goes to the next GPU after the last stripe's that still has room: with
//   room for 3, 0, 1 and 2 they lie on the GPUs 0, 2, 3, 0, 3, 0
// - every GPU may read every stripe; each may write only the stripes of its own memory
// - look at each answer with CHECK
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

  // >>> your part: stripes, and who may write them
  size_t at = 0;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const size_t bytes = room[gpu] * granule;
    if (bytes == 0) continue;
    CUmemGenericAllocationHandle memory;
    properties.location.id = gpu;
    CHECK(cuMemCreate(&memory, bytes, &properties, 0));
    CHECK(cuMemMap(array + at, bytes, 0, memory, 0));
    CHECK(cuMemRelease(memory));  // the mapping holds the memory
    at += bytes;
  }
  std::vector<CUmemAccessDesc> everyone(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    everyone[gpu].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    everyone[gpu].location.id = gpu;
    everyone[gpu].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  CHECK(cuMemSetAccess(array, size, everyone.data(), gpus));
  // <<<

  for (CUdeviceptr stripe = array; stripe < array + size; stripe += granule) {  // each is written where it lies
    int gpu;
    CHECK(cuPointerGetAttribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, stripe));
    CHECK(cudaSetDevice(gpu));
    lab::fill<int>(stripe, granule / sizeof(int), 7);
  }
  CHECK(cudaSetDevice(0));
  const bool is_whole = lab::count<int>(array, n, 7) == n;
  std::printf("one kernel read the array from end to end: %s\n", is_whole ? "all are 7" : "not all are 7");

  CHECK(cuMemUnmap(array, size));  // all the mappings
  CHECK(cuMemAddressFree(array, size));
  return lab::end();
}
