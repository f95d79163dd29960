// SPDX-License-Identifier: MIT-0
//
// 02 Growable: how does a buffer on the GPU grow without moving?
//
// The usual way allocates a larger block, copies the data and frees the old block. The address changes, and during the
// copy both blocks take memory. This program reserves addresses once, and maps memory there when it is needed.
// Needs one GPU that supports VMM.
//
// Build it alone:  nvcc -std=c++17 growable.cu -o growable -lcuda
#include "../common/check.h"

#include <random>

static const char usage[] =
    "usage: growable [--until-full]\n"
    "  --until-full   in step 5 fill the GPU's memory too; meanwhile other programs may get none\n";

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

  // Reserves addresses for `max_bytes` of this GPU's memory, once. A chunk will have `min_chunk` bytes, rounded up.
  CUresult reserve(CUdevice gpu, size_t max_bytes, size_t min_chunk) {
    if (reserved > 0) return CUDA_ERROR_INVALID_VALUE;  // destroy it first
    memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    memory.location.id = gpu;
    access.location = memory.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    size_t granularity = 0;
    CUresult result = cuMemGetAllocationGranularity(&granularity, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result != CUDA_SUCCESS) return result;
    chunk = round_up(min_chunk, granularity);
    if (chunk == 0) return CUDA_ERROR_INVALID_VALUE;  // min_chunk is 0
    result = cuMemAddressReserve(&base, round_up(max_bytes, chunk), 0, 0, 0);
    if (result == CUDA_SUCCESS) reserved = round_up(max_bytes, chunk);
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
__device__ Word num_correct;  // how many words held their value in the last check

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
  atomicAdd(&num_correct, mine);
}

// All n words must hold their values. It counts correct words, not wrong ones: a kernel that never ran must not pass.
static void expect_values(size_t n, Word seed) {
  Word found = 0;
  CHECK(cudaMemcpyToSymbol(num_correct, &found, sizeof found));
  count<<<1024, 256>>>(n, seed);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyFromSymbol(&found, num_correct, sizeof found));
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
  long until_full = 0;
  check::arguments(argc, argv, usage, {{"--until-full", &until_full, 0, 0}});
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  cudaFuncAttributes loaded;
  CHECK(cudaFuncGetAttributes(&loaded, keep));
  CHECK(cudaFuncGetAttributes(&loaded, fill));
  CHECK(cudaFuncGetAttributes(&loaded, count));
  const size_t free_at_start = free_memory(), needed = size_t(until_full ? 512 : 64) << 20;
  const Word seed = std::random_device()();

  // [1] Ask the device for support
  // A driver attribute, as in lesson 01; and enough free memory.
  std::printf("[1] Ask the device for support\n");
  CUdevice gpu;
  CHECK(cuDeviceGet(&gpu, 0));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, gpu));
  REQUIRE(supported, "no virtual memory management; use bare metal, or a virtual GPU that passes it on");
  REQUIRE(free_at_start >= needed, "%zu MiB of GPU memory are free, the lesson needs %zu; free some",
          free_at_start >> 20, needed >> 20);
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
  // A variable elsewhere on the device holds the buffer's address, which is still right when the buffer has grown.
  std::printf("[3] Grow in place\n");
  CHECK(buffer.grow(4 * granule));
  const CUdeviceptr base = buffer.base;
  Word* const data = reinterpret_cast<Word*>(base);
  const size_t old_words = buffer.size / sizeof(Word), all_words = 4 * old_words;
  fill<<<1024, 256>>>(data, 0, old_words, seed);
  keep<<<1, 1>>>(data);
  CHECK(cudaGetLastError());
  std::printf("    4 granules, filled; a variable on the device keeps their address\n");
  CHECK(buffer.grow(16 * granule));
  EXPECT(buffer.base == base, "the buffer is at 0x%llx now", buffer.base);
  expect_values(old_words, seed);
  fill<<<1024, 256>>>(data, old_words, all_words, seed);
  CHECK(cudaGetLastError());
  expect_values(all_words, seed);
  const size_t free_grown = free_memory();
  std::printf("    16 granules at the same address; read through that variable, every word is right, old and new\n");
  std::printf("    %zu KiB of data, memory taken: %zu KiB\n", buffer.size >> 10, (free_at_start - free_grown) >> 10);

  // [4] Shrink
  // Unmap chunks at the end. The chunks before them do not move.
  std::printf("[4] Shrink\n");
  CHECK(buffer.shrink(4 * granule));
  const size_t given_back = free_memory() - free_grown;
  EXPECT(given_back == 12 * granule, "%zu bytes were given back", given_back);
  expect_values(old_words, seed);
  std::printf("    back to 4 granules: %zu KiB given back, the rest untouched\n", given_back >> 10);

  // [5] Fail to grow
  // Beyond the reservation grow itself refuses. Beyond the memory the driver does: when a chunk cannot be created, grow
  // unmaps the new chunks before it. To get there, one allocation that is never mapped takes all memory but 256 MiB.
  std::printf("[5] Fail to grow\n");
  std::printf("    beyond the reservation\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(buffer.reserved + 1));
  if (until_full) {
    CUmemGenericAllocationHandle filler;
    CHECK(cuMemCreate(&filler, (free_memory() - (size_t(256) << 20)) / granule * granule, &buffer.memory, 0));
    const size_t bytes_left = free_memory();
    std::printf("    beyond the memory, with %zu MiB left\n", bytes_left >> 20);
    REFUSED(CUDA_ERROR_OUT_OF_MEMORY, buffer.grow(buffer.size + bytes_left + granule));
    EXPECT(free_memory() == bytes_left, "%zu bytes are free, %zu were before", free_memory(), bytes_left);
    EXPECT(buffer.base == base && buffer.size == old_words * sizeof(Word), "the buffer is not as it was before");
    expect_values(old_words, seed);
    std::printf("    size, data and free memory are as before\n");
    CHECK(buffer.grow(buffer.size + bytes_left / 2));
    CHECK(buffer.shrink(4 * granule));
    CHECK(cuMemRelease(filler));
    std::printf("    a growth by half of that succeeds: the refused one had mapped chunks before it failed\n");
  } else {
    std::printf("    beyond the memory: not asked for (--until-full)\n");
  }

  // [6] Tear down
  // Unmap all chunks, which frees their memory: no handle is left. Then free the addresses.
  std::printf("[6] Tear down\n");
  CHECK(buffer.destroy());
  EXPECT(free_memory() == free_at_start, "%zu bytes are free, %zu were at the start (does another program use it?)",
         free_memory(), free_at_start);
  std::printf("    free memory is what it was at the start\n");
  std::printf("OK\n");
  return 0;
}
