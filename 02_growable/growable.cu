// SPDX-License-Identifier: MIT-0
// 02 Growable: a buffer on the GPU that grows, and every pointer into it stays valid.
// Build it alone:  nvcc -std=c++17 growable.cu -o growable -lcuda
#include "../common/check.h"

// The buffer. It needs only <cuda.h>. Sizes are in bytes. Not thread-safe. Its calls may return while kernels run.
struct GrowableBuffer {
  CUdeviceptr address = 0;              // of the first byte, which never changes
  size_t reserved = 0;                  // how far the addresses reach
  size_t mapped = 0;                    // how far there is memory
  size_t size = 0;                      // how far the GPU may use it
  size_t chunk = 0;                     // size of one allocation
  CUmemAllocationProp properties = {};  // what kind of memory, and on which GPU
  static size_t round_up(size_t bytes, size_t unit) { return unit > 0 ? (bytes + unit - 1) / unit * unit : 0; }
  GrowableBuffer() = default;
  GrowableBuffer(const GrowableBuffer&) = delete;  // two would free the same memory
  GrowableBuffer& operator=(const GrowableBuffer&) = delete;

  CUresult reserve(const CUmemAllocationProp& kind, size_t max_size, size_t chunk_size) {  // takes no memory yet
    if (reserved > 0) return CUDA_ERROR_INVALID_VALUE;                                     // only once
    size_t granule;
    CUresult result = cuMemGetAllocationGranularity(&granule, &kind, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    if (result != CUDA_SUCCESS) return result;
    const size_t unit = round_up(chunk_size, granule), bytes = round_up(max_size, unit);
    result = cuMemAddressReserve(&address, bytes, 0, 0, 0);  // refuses 0 bytes, so neither size may be 0
    if (result == CUDA_SUCCESS) properties = kind, chunk = unit, reserved = bytes;
    return result;
  }

  CUresult add_chunk() {  // which the GPU may not use yet
    CUmemGenericAllocationHandle memory;
    CUresult result = cuMemCreate(&memory, chunk, &properties, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cuMemMap(address + mapped, chunk, 0, memory, 0);
    const CUresult released = cuMemRelease(memory);  // in either case: if it isn't mapped, this frees it
    if (result == CUDA_SUCCESS) mapped += chunk;
    return result == CUDA_SUCCESS ? released : result;
  }

  CUresult grow(size_t wanted) {  // to `wanted` bytes or more; after an error `size` is as before
    if (wanted > reserved) return CUDA_ERROR_INVALID_VALUE;
    if (wanted <= size) return CUDA_SUCCESS;
    const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = CUDA_SUCCESS;
    while (result == CUDA_SUCCESS && mapped < wanted) result = add_chunk();
    if (result == CUDA_SUCCESS) result = cuMemSetAccess(address + size, mapped - size, &access, 1);
    if (result == CUDA_SUCCESS) size = mapped;
    else shrink(size);  // undoes it all; an error of its own would hide the first
    return result;
  }

  CUresult shrink(size_t wanted) {  // to as few chunks as hold `wanted` bytes; first wait for all that uses the rest!
    const size_t kept = wanted < mapped ? round_up(wanted, chunk) : mapped;
    const CUresult result = kept < mapped ? cuMemUnmap(address + kept, mapped - kept) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) mapped = kept;
    if (size > mapped) size = mapped;
    return result;
  }

  CUresult destroy() {  // gives all back; no destructor, which couldn't return an error; after one, call it again
    CUresult result = shrink(0);
    if (result == CUDA_SUCCESS && reserved > 0) result = cuMemAddressFree(address, reserved);
    if (result == CUDA_SUCCESS) address = reserved = 0;
    return result;
  }
};  // The buffer ends.

const size_t MiB = 1 << 20;
const int few = 1000, many = 4000, most = 6000;  // requests
struct Slot {
  int request, state[2047];  // whose slot it is, and what we keep for that request: 8 KiB
};
__device__ Slot* table[most];       // for each request a pointer to its slot
__device__ int first, count, lost;  // requests first to count - 1 are new; how many don't find their slot

// Gives each new request a slot, and looks all of them up through the table.
__global__ void serve(Slot* slots) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    if (i >= first) {
      slots[i].request = i;
      table[i] = &slots[i];
    }
    if (table[i]->request != i) atomicAdd(&lost, 1);
  }
}

static void serve_all(CUdeviceptr address, size_t size, int first_new, int requests) {
  CHECK(cudaMemcpyToSymbol(first, &first_new, sizeof first_new));
  CHECK(cudaMemcpyToSymbol(count, &requests, sizeof requests));
  serve<<<4, 256>>>(reinterpret_cast<Slot*>(address));
  CHECK(cudaGetLastError());
  int found;
  CHECK(cudaMemcpyFromSymbol(&found, lost, sizeof found));  // waits for the kernel; if it faulted, this fails
  EXPECT(found == 0, "%d of %d requests can't find their slot", found, requests);
  say("%d requests in %zu MiB, and all find their slots", requests, size / MiB);
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  step("[1] Grow in a loop");
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;  // GPU 0
  const CUmemAccessDesc access = {properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t granule;
  CHECK(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t reserved = 1024 * MiB;  // all that we could ever need
  CUdeviceptr address;
  CHECK(cuMemAddressReserve(&address, reserved, 0, 0, 0));
  size_t size = 0;
  for (int requests = few; requests <= many; requests += few) {
    const size_t old_size = size;
    for (; size < requests * sizeof(Slot); size += granule) {
      CUmemGenericAllocationHandle memory;
      CHECK(cuMemCreate(&memory, granule, &properties, 0));
      CHECK(cuMemMap(address + size, granule, 0, memory, 0));  // right behind what is there
      CHECK(cuMemRelease(memory));                             // the mapping keeps the memory
    }
    CHECK(cuMemSetAccess(address + old_size, size - old_size, &access, 1));
    serve_all(address, size, requests - few, requests);
  }
  CHECK(cuMemUnmap(address, size));
  CHECK(cuMemAddressFree(address, reserved));

  step("[2] Make it a class");
  GrowableBuffer buffer;
  CHECK(buffer.reserve(properties, reserved, granule));  // small chunks, for a small example: see What it costs
  CHECK(buffer.grow(few * sizeof(Slot)));
  serve_all(buffer.address, buffer.size, 0, few);
  CHECK(buffer.grow(many * sizeof(Slot)));
  serve_all(buffer.address, buffer.size, few, many);

  step("[3] Fail half-way");
  const CUdeviceptr fifth = buffer.address + buffer.size + 4 * buffer.chunk;  // where the fifth new chunk would go
  CUmemGenericAllocationHandle obstacle;
  CHECK(cuMemCreate(&obstacle, buffer.chunk, &properties, 0));
  CHECK(cuMemMap(fifth, buffer.chunk, 0, obstacle, 0));
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(most * sizeof(Slot)));
  say("still %zu MiB, and %zu are mapped", buffer.size / MiB, buffer.mapped / MiB);
  CHECK(cuMemUnmap(fifth, buffer.chunk));
  CHECK(cuMemRelease(obstacle));
  CHECK(buffer.grow(most * sizeof(Slot)));  // the same call again
  serve_all(buffer.address, buffer.size, many, most);

  step("[4] Shrink");
  CHECK(buffer.shrink(few * sizeof(Slot)));  // serve_all has waited: nothing uses the other slots
  serve_all(buffer.address, buffer.size, few, few);
  CHECK(buffer.destroy());
  std::puts("OK");
}
