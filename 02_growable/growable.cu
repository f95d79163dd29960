// SPDX-License-Identifier: MIT-0
// 02 Growable: a buffer on the GPU that grows, and every pointer into it stays valid.
// Build it alone:  nvcc -std=c++17 growable.cu -o growable -lcuda
#include "../common/check.h"

// The buffer. It needs <cuda.h>, and nothing else of this file: paste it, down to "The buffer ends".
// Not thread-safe. No destructor: it would have to stop the whole GPU first, and could not report an error.
struct GrowableBuffer {
  CUdeviceptr base = 0;             // its first address, which never changes
  size_t reserved = 0;              // bytes of addresses from there on
  size_t size = 0;                  // bytes that have memory; the next chunk comes after them
  size_t chunk = 0;                 // bytes of one allocation
  CUmemAllocationProp memory = {};  // where the memory is: on this GPU
  CUmemAccessDesc access = {};      // who may use it: this GPU, to read and write

  // All return CUDA_SUCCESS or an error. A growth that fails changes nothing.
  CUresult reserve(CUdevice gpu, size_t max_bytes, size_t chunk_bytes);
  CUresult grow(size_t wanted);    // to at least `wanted` bytes
  CUresult shrink(size_t wanted);  // to as few chunks as hold `wanted` bytes
  CUresult destroy();              // gives everything back
  CUresult add_chunk();            // what grow is made of

  static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }
  GrowableBuffer& operator=(GrowableBuffer&&) = delete;  // no copies: two would free the same memory
};

inline CUresult GrowableBuffer::reserve(CUdevice gpu, size_t max_bytes, size_t chunk_bytes) {
  if (reserved > 0) return CUDA_ERROR_INVALID_VALUE;  // it has its addresses already
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = gpu;
  access.location = memory.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  size_t granule = 0;
  CUresult result = cuMemGetAllocationGranularity(&granule, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (result != CUDA_SUCCESS) return result;
  chunk = round_up(chunk_bytes > 0 ? chunk_bytes : 1, granule);
  const size_t bytes = round_up(max_bytes, chunk);
  result = cuMemAddressReserve(&base, bytes, 0, 0, 0);
  if (result == CUDA_SUCCESS) reserved = bytes;
  return result;
}

inline CUresult GrowableBuffer::add_chunk() {
  CUmemGenericAllocationHandle handle;
  CUresult result = cuMemCreate(&handle, chunk, &memory, 0);  // memory, without an address
  if (result != CUDA_SUCCESS) return result;
  result = cuMemMap(base + size, chunk, 0, handle, 0);  // its address: after what is there
  cuMemRelease(handle);  // the mapping keeps the memory; if cuMemMap failed, this frees it
  if (result == CUDA_SUCCESS) size += chunk;
  return result;
}

inline CUresult GrowableBuffer::grow(size_t wanted) {
  if (wanted > reserved) return CUDA_ERROR_OUT_OF_MEMORY;  // more than you reserved
  const size_t old_size = size;
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS && size < wanted) result = add_chunk();
  if (result == CUDA_SUCCESS && size > old_size)  // the GPU may use all that is new
    result = cuMemSetAccess(base + old_size, size - old_size, &access, 1);
  if (result != CUDA_SUCCESS) shrink(old_size);  // as if nothing had happened
  return result;
}

inline CUresult GrowableBuffer::shrink(size_t wanted) {
  const size_t kept = wanted < size ? round_up(wanted, chunk) : size;
  if (kept == size) return CUDA_SUCCESS;
  const CUresult result = cuMemUnmap(base + kept, size - kept);
  if (result == CUDA_SUCCESS) size = kept;
  return result;
}

inline CUresult GrowableBuffer::destroy() {
  CUresult result = shrink(0);
  if (result == CUDA_SUCCESS && reserved > 0) result = cuMemAddressFree(base, reserved);
  if (result == CUDA_SUCCESS) base = reserved = 0;
  return result;
}
// The buffer ends.

struct Slot {
  int request;                     // whose slot it is
  char state[8192 - sizeof(int)];  // what you keep for a request
};
const int few = 1024, many = 4096;  // requests
__device__ Slot* slot_of[many];     // the table: for each request a pointer to its slot
__device__ int requests;            // how many there are

// Gives each request from `first` on the next slot, and saves a pointer to it in the table.
__global__ void admit(Slot* slots, int first) {
  const int i = first + blockIdx.x * blockDim.x + threadIdx.x;
  slot_of[i] = &slots[i];
  slots[i].request = i;
}

// Each request must find itself, by the table and by `slots`; if one doesn't, the kernel ends with an error.
__global__ void look_up(const Slot* slots) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < requests; i += gridDim.x * blockDim.x)
    if (slot_of[i]->request != i || slots[i].request != i) __trap();
}

static void look_up_all(cudaGraphExec_t graph, int count) {  // count: how many requests there are now
  CHECK(cudaMemcpyToSymbol(requests, &count, sizeof count));
  CHECK(cudaGraphLaunch(graph, 0));
  CHECK(cudaDeviceSynchronize());
  say("the graph finds all %d requests", count);
}

int main() {
  check::require_gpus(1);
  CHECK(cudaSetDevice(0));
  step("[1] Reserve far more than you need");
  GrowableBuffer buffer;
  CHECK(buffer.reserve(0, size_t(1) << 30, size_t(2) << 20));  // on GPU 0; 1 GiB; in chunks of 2 MiB
  say("%zu MiB of addresses, and no memory yet; a chunk is %zu MiB", buffer.reserved >> 20, buffer.chunk >> 20);
  step("[2] Grow");
  CHECK(buffer.grow(few * sizeof(Slot)));
  Slot* const slots = reinterpret_cast<Slot*>(buffer.base);
  admit<<<few / 256, 256>>>(slots, 0);
  CHECK(cudaGetLastError());
  say("%d requests: %zu MiB", few, buffer.size >> 20);
  cudaGraph_t captured;
  cudaGraphExec_t graph;
  CHECK(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal));
  look_up<<<few / 256, 256, 0, cudaStreamPerThread>>>(slots);
  CHECK(cudaStreamEndCapture(cudaStreamPerThread, &captured));
  CHECK(cudaGraphInstantiate(&graph, captured, 0));
  CHECK(buffer.grow(many * sizeof(Slot)));
  admit<<<(many - few) / 256, 256>>>(slots, few);
  CHECK(cudaGetLastError());
  say("%d requests: %zu MiB", many, buffer.size >> 20);
  look_up_all(graph, many);
  step("[3] Fail half-way");
  const CUdeviceptr fifth = buffer.base + buffer.size + 4 * buffer.chunk;
  CUmemGenericAllocationHandle obstacle;
  CHECK(cuMemCreate(&obstacle, buffer.chunk, &buffer.memory, 0));
  CHECK(cuMemMap(fifth, buffer.chunk, 0, obstacle, 0));  // in the way of the fifth new chunk
  REFUSED(CUDA_ERROR_INVALID_VALUE, buffer.grow(buffer.size + 8 * buffer.chunk));
  say("still %zu MiB", buffer.size >> 20);
  CHECK(cuMemUnmap(fifth, buffer.chunk));
  CHECK(cuMemRelease(obstacle));
  CHECK(buffer.grow(buffer.size + 8 * buffer.chunk));  // the same once more
  say("without the obstacle: %zu MiB", buffer.size >> 20);
  step("[4] Shrink");
  CHECK(buffer.shrink(few * sizeof(Slot)));  // look_up_all has waited: no kernel is running
  say("%d requests: %zu MiB", few, buffer.size >> 20);
  look_up_all(graph, few);
  CHECK(buffer.destroy());
  std::puts("OK");
}
