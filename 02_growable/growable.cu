// SPDX-License-Identifier: MIT-0
//
// 02 Growable: how does a buffer on the GPU grow without moving?
//
// The usual way allocates a larger block, copies the data and frees the old block. The address changes, and during the
// copy the data takes twice its size. This program reserves addresses once, and maps memory there when it is needed.
// Needs one GPU that supports VMM and that no other program uses: in step 5 the program takes nearly all its memory.
//
// Build it alone:  nvcc -std=c++17 growable.cu -o growable -lcuda
#include "../common/check.h"

#include <random>

static const char usage[] =
    "usage: growable [--full]\n"
    "  --full   also grow to nearly all free memory of the GPU; too much for a simulator\n";

// The buffer, ready to be copied into another program: down to "The buffer ends" it needs <cuda.h> and nothing else.
#include <cuda.h>

// A buffer that grows in place. It keeps no handles: each mapping holds a reference to its memory.
struct GrowableBuffer {
  CUdeviceptr base = 0;             // where the reservation starts; it never moves
  size_t reserved = 0;              // bytes of addresses
  size_t size = 0;                  // bytes of memory mapped from base on, always whole chunks
  size_t chunk = 0;                 // bytes of one allocation, a multiple of the granularity
  CUmemAllocationProp memory = {};  // the properties of every chunk
  CUmemAccessDesc access = {};      // the device that gets access, and the right

  static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

  // Reserves addresses for `most` bytes of this GPU's memory. A chunk will have `least` bytes, rounded up.
  CUresult reserve(CUdevice gpu, size_t most, size_t least) {
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = gpu;
    access.location = memory.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    size_t granularity = 0;
    CUresult result = cuMemGetAllocationGranularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result != CUDA_SUCCESS) return result;
    chunk = round_up(least, granularity);
    result = cuMemAddressReserve(&base, round_up(most, chunk), 0, 0, 0);
    if (result == CUDA_SUCCESS) reserved = round_up(most, chunk);
    return result;
  }

  // Grows to at least `wanted` bytes, or not at all: if a call fails, grow unmaps the chunks that it has mapped.
  CUresult grow(size_t wanted) {
    if (wanted <= size) return CUDA_SUCCESS;
    if (wanted > reserved) return CUDA_ERROR_INVALID_VALUE;
    const size_t target = round_up(wanted, chunk);
    size_t mapped = size;
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && mapped < target) {
      CUmemGenericAllocationHandle handle;
      result = cuMemCreate(&handle, chunk, &memory, 0);
      if (result != CUDA_SUCCESS) break;
      result = cuMemMap(base + mapped, chunk, 0, handle, 0);
      if (result == CUDA_SUCCESS) mapped += chunk;
      const CUresult released = cuMemRelease(handle);  // frees the chunk if cuMemMap has failed
      if (result == CUDA_SUCCESS) result = released;
    }
    if (result == CUDA_SUCCESS) result = cuMemSetAccess(base + size, target - size, &access, 1);  // all new chunks
    if (result != CUDA_SUCCESS) {
      if (mapped > size) cuMemUnmap(base + size, mapped - size);  // the first error is returned
      return result;
    }
    size = target;
    return CUDA_SUCCESS;
  }

  // Unmaps the whole chunks beyond `wanted` bytes, which frees them. No kernel may still use them.
  CUresult shrink(size_t wanted) {
    if (wanted >= size) return CUDA_SUCCESS;
    const size_t target = round_up(wanted, chunk);
    if (target == size) return CUDA_SUCCESS;
    const CUresult result = cuMemUnmap(base + target, size - target);
    if (result == CUDA_SUCCESS) size = target;
    return result;
  }

  // Frees all memory and the addresses. Afterwards the buffer can be reserved again.
  CUresult destroy() {
    CUresult result = shrink(0);
    if (result == CUDA_SUCCESS && reserved > 0) result = cuMemAddressFree(base, reserved);
    if (result == CUDA_SUCCESS) *this = GrowableBuffer();
    return result;
  }
};
// The buffer ends.

using Word = unsigned long long;
__device__ const Word* kept;  // not in the buffer; will hold the buffer's address
__device__ Word right;        // how many words the last check found right

// The value of word i. It depends on i and on the seed, so old data and moved data do not pass the check.
__device__ Word value(size_t i, Word seed) {
  const Word x = (i ^ seed) * 0x9e3779b97f4a7c15;
  return x ^ x >> 32;
}

__global__ void keep(const Word* data) { kept = data; }

__global__ void fill(Word* data, size_t first, size_t last, Word seed) {
  for (size_t i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += gridDim.x * blockDim.x)
    data[i] = value(i, seed);
}

// Counts how many of the first n words hold their value. It reads them through the address in `kept`.
__global__ void count(size_t n, Word seed) {
  Word mine = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    mine += kept[i] == value(i, seed);
  atomicAdd(&right, mine);
}

// All n words must hold their values. It counts right words, not wrong ones: a kernel that never ran must not pass.
static void expect_values(size_t n, Word seed) {
  Word found = 0;
  CHECK(cudaMemcpyToSymbol(right, &found, sizeof found));
  count<<<1024, 256>>>(n, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, right, sizeof found));
  EXPECT(found == n, "%llu of %zu words hold their value", found, n);
}

static size_t free_memory() {
  size_t bytes, total;
  CHECK(cuMemGetInfo(&bytes, &total));
  return bytes;
}

int main(int argc, char** argv) {
  // Set-up: arguments, the gate, a context. CUDA loads a kernel when it is first used, and that takes memory, so load
  // all kernels before counting free memory.
  long full = 0;
  check::arguments(argc, argv, usage, {{"--full", &full, 0, 0}});
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, keep));
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  CHECK(cudaFuncGetAttributes(&loaded, count));
  const size_t free_at_start = free_memory(), room = size_t(256) << 20;
  const Word seed = std::random_device()();

  // [1] Ask the device for support
  // A driver attribute, as in lesson 01. Step 5 also needs free memory.
  std::printf("[1] Ask the device for support\n");
  CUdevice gpu;
  CHECK(cuDeviceGet(&gpu, 0));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
  REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  REQUIRE(free_at_start >= 2 * room, "%zu MiB of GPU memory are free, the lesson needs %zu; free some",
          free_at_start >> 20, 2 * room >> 20);
  std::printf("    supported\n");

  // [2] Reserve far more than the data
  // A reservation takes no memory, and cannot be made larger later: reserve generously. A chunk is one granule here.
  std::printf("[2] Reserve far more than the data\n");
  GrowableBuffer buffer;
  CHECK(buffer.reserve(gpu, size_t(1) << 30, 1));
  const size_t granule = buffer.chunk;
  std::printf("    1 GiB from 0x%llx, for chunks of %zu KiB; memory taken: %zu KiB\n", buffer.base, granule >> 10,
              (free_at_start - free_memory()) >> 10);

  // [3] Grow in place
  // A variable elsewhere on the device holds the buffer's address. It stays right when the buffer grows.
  std::printf("[3] Grow in place\n");
  CHECK(buffer.grow(4 * granule));
  const CUdeviceptr base = buffer.base;
  Word* const data = reinterpret_cast<Word*>(base);
  const size_t few = buffer.size / sizeof(Word), many = 4 * few;
  fill<<<1024, 256>>>(data, 0, few, seed);
  keep<<<1, 1>>>(data);
  CHECK(cudaGetLastError());
  std::printf("    4 granules, filled; a variable on the device keeps their address\n");
  CHECK(buffer.grow(16 * granule));
  EXPECT(buffer.base == base && buffer.size == many * sizeof(Word), "the buffer is not what it should have become");
  expect_values(few, seed);
  fill<<<1024, 256>>>(data, few, many, seed);
  CHECK(cudaGetLastError());
  expect_values(many, seed);
  const size_t free_grown = free_memory();
  std::printf("    16 granules at the same address; through the kept one every word is right, old and new\n");
  std::printf("    %zu KiB of data, memory taken: %zu KiB\n", buffer.size >> 10, (free_at_start - free_grown) >> 10);

  // [4] Shrink
  // Unmap chunks at the end. The chunks before them do not move.
  std::printf("[4] Shrink\n");
  CHECK(buffer.shrink(4 * granule));
  const size_t given_back = free_memory() - free_grown;
  EXPECT(given_back == 12 * granule, "%zu bytes were given back", given_back);
  expect_values(few, seed);
  std::printf("    back to 4 granules: %zu KiB given back, the rest untouched\n", given_back >> 10);

  // [5] Fail to grow
  // The memory of the GPU really runs out. One allocation, never mapped, leaves little memory free. Then the buffer
  // asks for more: grow creates and maps some chunks, the driver refuses a later one, and grow unmaps the first ones.
  std::printf("[5] Fail to grow\n");
  std::printf("    beyond the reservation\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(buffer.reserved + 1));
  CUmemGenericAllocationHandle rest;
  CHECK(cuMemCreate(&rest, (free_memory() - room) / granule * granule, &buffer.memory, 0));
  const size_t left = free_memory();
  std::printf("    beyond the memory, with %zu MiB left\n", left >> 20);
  REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(buffer.size + left + granule));
  EXPECT(free_memory() == left, "%zu bytes are free, %zu were before the attempt", free_memory(), left);
  EXPECT(buffer.base == base && buffer.size == few * sizeof(Word), "the buffer is not as it was before the attempt");
  expect_values(few, seed);
  std::printf("    size, data and free memory are as before\n");
  CHECK(buffer.grow(buffer.size + left / 2));
  CHECK(buffer.shrink(4 * granule));
  CHECK(cuMemRelease(rest));
  std::printf("    half of that much can be had: the refusal came half-way\n");

  // [6] Grow to nearly all memory
  // To grow by copying, the old block and a larger one must both fit. Beyond half of the memory they do not.
  std::printf("[6] Grow to nearly all memory\n");
  if (full) {
    const size_t before = free_memory();
    CHECK(buffer.destroy());
    CHECK(buffer.reserve(gpu, before, room));
    while (buffer.size + 2 * room <= before) CHECK(buffer.grow(buffer.size + room));
    fill<<<1024, 256>>>(reinterpret_cast<Word*>(buffer.base), 0, buffer.size / sizeof(Word), seed);
    keep<<<1, 1>>>(reinterpret_cast<Word*>(buffer.base));
    expect_values(buffer.size / sizeof(Word), seed);
    std::printf("    %zu of %zu free MiB, every word written and checked\n", buffer.size >> 20, before >> 20);
    CHECK(buffer.shrink(before / 2));
    std::printf("    back to half, %zu MiB: to grow by copying from here\n", buffer.size >> 20);
    void* copy;
    REFUSED(cudaErrorMemoryAllocation, cudaMalloc(&copy, buffer.size + room));
    cudaGetLastError();  // clears the error, which the runtime keeps
    expect_values(buffer.size / sizeof(Word), seed);
  } else {
    std::printf("    not asked for: --full does it\n");
  }

  // [7] Tear down
  // Unmap all chunks, which frees their memory: no handle is left. Then free the addresses.
  std::printf("[7] Tear down\n");
  CHECK(buffer.destroy());
  EXPECT(free_memory() == free_at_start, "%zu bytes are free, %zu were at the start (does another program use it?)",
         free_memory(), free_at_start);
  std::printf("    free memory is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}
