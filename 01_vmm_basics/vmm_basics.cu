// SPDX-License-Identifier: MIT-0
//
// 01 VMM basics: what does cudaMalloc do in one step that CUDA's virtual memory management does in four?
//
// cudaMalloc reserves addresses, creates memory, maps the memory to the addresses and grants the GPU access, in one
// call. Here each of the four is one call of the driver. Needs one GPU that supports VMM, and that no other program
// uses meanwhile: the lesson compares the amounts of free memory.
//
// Build it alone:  nvcc -std=c++17 vmm_basics.cu -o vmm_basics -lcuda
#include "../common/check.h"

#include <vector>

static const char usage[] =
    "usage: vmm_basics [--granules N]\n"
    "  --granules N   memory to create, in units of the granularity, 1 to 512 (default 1)\n";

__global__ void fill(int* data, size_t n, int value) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) data[i] = value;
}

__global__ void sum(const int* data, size_t n, unsigned long long* total) {
  size_t stride = size_t(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) mine += data[i];
  atomicAdd(total, mine);
}

// Sums the n integers at `data` in a kernel, then reads every one of them back: each must be `value`.
static unsigned long long sum_and_check(CUdeviceptr data, size_t n, int value) {
  unsigned long long *device_total, total = 0;
  CHECK(cudaMalloc(&device_total, sizeof total));
  CHECK(cudaMemset(device_total, 0, sizeof total));
  sum<<<256, 256>>>(reinterpret_cast<int*>(data), n, device_total);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(&total, device_total, sizeof total, cudaMemcpyDeviceToHost));
  CHECK(cudaFree(device_total));
  EXPECT(total == n * value, "the kernel summed %llu over %zu integers of %d", total, n, value);

  std::vector<int> host(n, ~value);  // poisoned: a copy that writes nothing must not pass
  CHECK(cudaMemcpy(host.data(), reinterpret_cast<void*>(data), n * sizeof(int), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < n; ++i) EXPECT(host[i] == value, "element %zu is %d, not %d", i, host[i], value);
  return total;
}

// Set-up: CUDA loads a kernel at its first use, and that takes memory. Load both before counting what is free.
static void load_kernels() {
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  CHECK(cudaFuncGetAttributes(&loaded, sum));
}

static size_t free_memory() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

int main(int argc, char** argv) {
  long granules = 1;
  check::arguments(argc, argv, usage, {{"--granules", &granules, 1, 512}});
  check::require_gpus(1);

  // [1] Ask the device for support
  // An attribute of the device, not its compute capability, tells: for some virtual GPUs it is 0.
  std::printf("[1] Ask the device for support\n");
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  char name[256];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  REQUIRE(supported, "%s has no virtual memory management; use bare metal, or a virtual GPU that passes it on", name);
  std::printf("    %s: virtual memory management is supported\n", name);
  CHECK(cudaSetDevice(device));  // makes the primary context current: kernels, copies and cuMemGetInfo need one
  load_kernels();
  const size_t free_at_start = free_memory();

  // [2] Ask for the granularity
  // Memory comes in whole granules. Sizes and addresses below are multiples of the minimum. The recommended one may be
  // larger: by the header, it is for the best performance.
  std::printf("[2] Ask for the granularity\n");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;  // the type that cuMemCreate takes; not page-locked host memory
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  size_t granularity, recommended;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CHECK(cuMemGetAllocationGranularity(&recommended, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  std::printf("    minimum %zu KiB, recommended %zu KiB\n", granularity >> 10, recommended >> 10);

  // [3] Reserve addresses
  // A reservation is a range of addresses and nothing else: it takes no memory of the GPU.
  std::printf("[3] Reserve addresses\n");
  const size_t reserved = size_t(1) << 30;
  CUdeviceptr a;
  CHECK(cuMemAddressReserve(&a, reserved, 0, 0, 0));  // default alignment, no address asked for, no flags
  std::printf("    1 GiB of addresses from 0x%llx, %zu KiB of memory taken\n", a,
              (free_at_start - free_memory()) >> 10);

  // [4] Create memory
  // The handle names memory that has no address yet: no kernel and no copy can reach it. A handle is not a pointer.
  std::printf("[4] Create memory\n");
  const size_t size = granules * granularity;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CUmemAllocationProp read_back;
  CHECK(cuMemGetAllocationPropertiesFromHandle(&read_back, handle));
  EXPECT(read_back.type == properties.type && read_back.location.id == device, "not the properties asked for");
  std::printf("    %zu KiB created, pinned on GPU %d; %zu KiB of memory taken\n", size >> 10, read_back.location.id,
              (free_at_start - free_memory()) >> 10);

  // [5] Map the memory into the reservation
  // The address now leads to the memory, and still no GPU may use it: mapping and access are two things.
  std::printf("[5] Map the memory into the reservation\n");
  CHECK(cuMemMap(a, size, 0, handle, 0));  // the offset into the allocation must be 0
  unsigned long long access = ~0ull;
  CHECK(cuMemGetAccess(&access, &properties.location, a));
  EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_NONE, "access is %llu right after mapping", access);
  std::printf("    mapped at the start of the reservation; access of GPU %d: none\n", device);

  // [6] Grant access
  // One descriptor for each device that is to use the mapping, the device that holds the memory included.
  std::printf("[6] Grant access\n");
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK(cuMemSetAccess(a, size, &descriptor, 1));
  CHECK(cuMemGetAccess(&access, &properties.location, a));
  EXPECT(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "access is %llu after read and write were granted", access);
  std::printf("    access of GPU %d: read and write\n", device);

  // [7] Use it
  // To a kernel this is a pointer like any other.
  std::printf("[7] Use it\n");
  const size_t n = size / sizeof(int);
  fill<<<256, 256>>>(reinterpret_cast<int*>(a), n, 1);
  CHECK(cudaGetLastError());
  unsigned long long total = sum_and_check(a, n, 1);
  std::printf("    filled with ones in one kernel, summed in another: %llu of %zu\n", total, n);

  // [8] Move it
  // The data is in the memory, not at the address: map the memory at b as well, unmap it at a, and read the data at b.
  std::printf("[8] Move it\n");
  CUdeviceptr b;
  CHECK(cuMemAddressReserve(&b, reserved, 0, 0, 0));
  CHECK(cuMemMap(b, size, 0, handle, 0));
  CHECK(cuMemSetAccess(b, size, &descriptor, 1));  // access belongs to a mapping: the new one starts with none
  CHECK(cuMemUnmap(a, size));
  total = sum_and_check(b, n, 1);
  std::printf("    from 0x%llx to 0x%llx, nothing copied: the sum is still %llu\n", a, b, total);

  // [9] Release the handle, and retain it again
  // Each handle and each mapping holds a reference to the memory. Releasing the handle does not free memory that is
  // mapped. As long as it is mapped, the driver returns a handle for its address.
  std::printf("[9] Release the handle, and retain it again\n");
  CHECK(cuMemRelease(handle));
  total = sum_and_check(b, n, 1);
  std::printf("    released; through the mapping the sum is still %llu\n", total);
  CHECK(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(b)));
  CHECK(cuMemGetAllocationPropertiesFromHandle(&read_back, handle));
  EXPECT(read_back.location.id == device, "the retained handle is of memory on GPU %d", read_back.location.id);
  std::printf("    a handle again, from the address\n");

  // [10] See what is refused
  // The driver refuses a wrong call with an error. A wrong access by a kernel is not refused: it faults (see the page).
  std::printf("[10] See what is refused\n");
  CUmemGenericAllocationHandle none;
  std::printf("    a size that is not a multiple of the granularity\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, granularity / 2, &properties, 0));
  std::printf("    a mapping over a mapping\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemMap(b, size, 0, handle, 0));
  std::printf("    freeing addresses while something is mapped there\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(b, reserved));

  // [11] Tear down
  // In reverse order. The memory is free again when its last mapping and its last handle are gone.
  std::printf("[11] Tear down\n");
  CHECK(cuMemUnmap(b, size));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(b, reserved));
  CHECK(cuMemAddressFree(a, reserved));
  EXPECT(free_memory() == free_at_start, "free memory is not what it was (does another program use this GPU?)");
  std::printf("    free memory is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}
