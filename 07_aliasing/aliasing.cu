// SPDX-License-Identifier: MIT-0
//
// 07 Aliasing: when one allocation is mapped twice, what does a read at one address see of a write at the other?
//
// A kernel sees all that earlier kernels wrote, through either address. Within one kernel that is not promised: a
// thread writes a value through one address and may read the old value through the other, unless a fence stands
// between. Then a use: a ring buffer mapped twice in a row, in which no record is cut in two. Needs one GPU that
// supports VMM, and that no other program uses meanwhile: the lesson compares the amounts of free memory.
//
// Build it alone:  nvcc -std=c++17 aliasing.cu -o aliasing -lcuda
#include "../common/check.h"

#include <cuda/ptx>
#include <random>
#include <vector>

static const char usage[] =
    "usage: aliasing [--granules N]\n"
    "  --granules N   memory to map, in units of the granularity, 2 to 256 (default 2)\n";

// The i-th value of the sequence that `seed` starts: two seeds differ at every i.
__host__ __device__ unsigned value(unsigned seed, size_t i) { return (seed + unsigned(i)) * 2654435761u; }

__global__ void fill(unsigned* data, size_t n, unsigned seed) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) data[i] = value(seed, i);
}

__global__ void copy(const unsigned* from, unsigned* to, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) to[i] = from[i];
}

__global__ void add_one(unsigned* data, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) ++data[i];
}

// Each thread has one element: it reads it through b, writes it through a, and reads it through b again. The compiler
// keeps the second load, because as far as it knows a and b may overlap. The hardware decides what that load returns.
__global__ void without_fence(unsigned* a, const unsigned* b, unsigned seed, unsigned* first, unsigned* second) {
  const unsigned i = threadIdx.x;
  first[i] = b[i];
  a[i] = value(seed, i);
  second[i] = b[i];
}

__global__ void with_fence(unsigned* a, const unsigned* b, unsigned seed, unsigned* first, unsigned* second) {
  const unsigned i = threadIdx.x;
  first[i] = b[i];
  a[i] = value(seed, i);
  cuda::ptx::fence_proxy_alias();
  second[i] = b[i];
}

// Copies n elements to the host and overwrites them on the device: no later check can pass on what this one found.
static std::vector<unsigned> take(unsigned* device, size_t n) {
  std::vector<unsigned> host(n, 0xdeadbeef);
  CHECK(cudaGetLastError());  // were the kernels before this launched?
  CHECK(cudaMemcpy(host.data(), device, n * sizeof(unsigned), cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(device, 0xa5, n * sizeof(unsigned)));
  return host;
}

// Each of the n elements must be that of the sequence, plus `plus`.
static void expect_sequence(unsigned* device, size_t n, unsigned seed, unsigned plus = 0) {
  const std::vector<unsigned> got = take(device, n);
  for (size_t i = 0; i < n; ++i)
    EXPECT(got[i] == value(seed, i) + plus, "element %zu is %u, not %u", i, got[i], value(seed, i) + plus);
}

// Runs one of the two kernels on old values in the memory at a and b, and returns how many of its threads read the new
// value at the end. The first read and the next kernel are defined: they must be right.
using Kernel = void(unsigned* a, const unsigned* b, unsigned seed, unsigned* first, unsigned* second);
static const unsigned threads = 1024;
static unsigned count_new(Kernel* kernel, unsigned* a, unsigned* b, unsigned old_seed, unsigned* first,
                          unsigned* second) {
  const unsigned new_seed = ~old_seed;
  fill<<<1, threads>>>(a, threads, old_seed);
  kernel<<<1, threads>>>(a, b, new_seed, first, second);
  expect_sequence(first, threads, old_seed);
  const std::vector<unsigned> got = take(second, threads);
  unsigned new_values = 0;
  for (unsigned i = 0; i < threads; ++i) {
    const bool is_new = got[i] == value(new_seed, i);
    EXPECT(is_new || got[i] == value(old_seed, i), "element %u is %u, neither the old value nor the new", i, got[i]);
    if (is_new) ++new_values;
  }
  copy<<<1, threads>>>(b, first, threads);
  expect_sequence(first, threads, new_seed);
  return new_values;
}

// Set-up: CUDA loads a kernel at its first use, and that takes memory. Load all of them before counting what is free.
static void load_kernels() {
  cudaFuncAttributes loaded;
  const void* kernels[] = {(void*)fill, (void*)copy, (void*)add_one, (void*)without_fence, (void*)with_fence};
  for (const void* kernel : kernels) CHECK(cudaFuncGetAttributes(&loaded, kernel));
}

// Memory of cudaMalloc to read into. No value in it is one of a sequence.
static unsigned* output(size_t size) {
  unsigned* address;
  CHECK(cudaMalloc(&address, size));
  CHECK(cudaMemset(address, 0xa5, size));
  return address;
}

static size_t free_memory() {
  size_t free_now, total;
  CHECK(cuMemGetInfo(&free_now, &total));
  return free_now;
}

int main(int argc, char** argv) {
  long granules = 2;
  check::arguments(argc, argv, usage, {{"--granules", &granules, 2, 256}});
  check::require_gpus(1);

  // [1] Ask the device for support
  // Aliasing has no attribute of its own: the lesson asks whether memory can be mapped at all.
  std::printf("[1] Ask the device for support\n");
  CUdevice device;
  CHECK(cuDeviceGet(&device, 0));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  char name[256];
  CHECK(cuDeviceGetName(name, sizeof name, device));
  REQUIRE(supported, "%s has no virtual memory management; use bare metal, or a virtual GPU that passes it on", name);
  std::printf("    %s: virtual memory management is supported\n", name);
  CHECK(cudaSetDevice(device));

  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  size_t granularity;
  CHECK(cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const size_t size = granules * granularity, n = size / sizeof(unsigned);

  // Set-up: what takes memory comes before counting what is free.
  unsigned *first = output(size), *second = output(size);
  cudaStream_t writer = nullptr, reader = nullptr;
  for (cudaStream_t* stream : {&writer, &reader}) CHECK(cudaStreamCreate(stream));
  cudaEvent_t written;
  CHECK(cudaEventCreate(&written));
  load_kernels();
  std::random_device random;  // each step writes a sequence of its own: none can pass on another's data
  const size_t free_at_start = free_memory();

  // [2] Map one allocation at two addresses
  // Two mappings of one allocation, each with its own access rights.
  std::printf("[2] Map one allocation at two addresses\n");
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CUmemAccessDesc descriptor = {};
  descriptor.location = properties.location;
  descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr address_a = 0, address_b = 0;
  for (CUdeviceptr* address : {&address_a, &address_b}) {
    CHECK(cuMemAddressReserve(address, size, 0, 0, 0));
    CHECK(cuMemMap(*address, size, 0, handle, 0));
    CHECK(cuMemSetAccess(*address, size, &descriptor, 1));
  }
  unsigned *a = reinterpret_cast<unsigned*>(address_a), *b = reinterpret_cast<unsigned*>(address_b);
  std::printf("    A is 0x%llx, B is 0x%llx: %zu KiB each; %zu KiB of memory taken\n", address_a, address_b, size >> 10,
              (free_at_start - free_memory()) >> 10);

  // [3] Order them in one stream
  // A kernel that starts after another kernel has ended sees all that the other wrote, through any alias.
  std::printf("[3] Order them in one stream\n");
  unsigned seed = random();
  fill<<<256, 256>>>(a, n, seed);
  copy<<<256, 256>>>(b, first, n);
  expect_sequence(first, n, seed);
  std::printf("    written through A in one kernel, read through B in the next: all values are new\n");

  // [4] Order them by an event
  // One operation must have ended before the next begins, in whatever streams. A copy is an operation, as a kernel is.
  std::printf("[4] Order them by an event\n");
  seed = random();
  fill<<<256, 256, 0, writer>>>(first, n, seed);
  CHECK(cudaMemcpyAsync(b, first, size, cudaMemcpyDeviceToDevice, writer));
  add_one<<<256, 256, 0, writer>>>(a, n);  // through A, to what the copy wrote through B
  CHECK(cudaEventRecord(written, writer));
  CHECK(cudaStreamWaitEvent(reader, written, 0));
  copy<<<256, 256, 0, reader>>>(b, second, n);
  CHECK(cudaMemcpyAsync(first, b, size, cudaMemcpyDeviceToDevice, reader));
  expect_sequence(second, n, seed, 1);  // its copy is in the default stream, which waits for the other two
  expect_sequence(first, n, seed, 1);
  std::printf("    copied in through B, changed through A; read and copied out through B: all values are new\n");

  // [5] Use both in one kernel
  // The wrong model: "it is the same memory, so my thread reads what it wrote". Without a fence the result is
  // unspecified: the old value and the new one are both allowed, and a program that needs either is wrong.
  std::printf("[5] Use both in one kernel\n");
  unsigned new_values = count_new(without_fence, a, b, random(), first, second);
  std::printf("    read B, write A, read B again: old %u, new %u\n", threads - new_values, new_values);

  // [6] Put a fence between
  // fence.proxy.alias orders this thread's accesses through one alias with those through another.
  std::printf("[6] Put a fence between\n");
  new_values = count_new(with_fence, a, b, random(), first, second);
  EXPECT(new_values == threads, "%u of %u threads read the old value after the fence", threads - new_values, threads);
  std::printf("    read B, write A, fence, read B again: old 0, new %u\n", new_values);

  // [7] Map a ring buffer twice in a row
  // The element after the last one of the first half is the first element of the ring, at its second address. So a
  // record that passes the end is contiguous, and a kernel needs no modulo. No fence is needed either: the reader is
  // launched after the writer, and no kernel reaches one element through both halves, as a record is shorter than the
  // ring.
  std::printf("[7] Map a ring buffer twice in a row\n");
  CUdeviceptr ring;
  CHECK(cuMemAddressReserve(&ring, 2 * size, 0, 0, 0));
  CHECK(cuMemMap(ring, size, 0, handle, 0));
  CHECK(cuMemMap(ring + size, size, 0, handle, 0));
  CHECK(cuMemSetAccess(ring, 2 * size, &descriptor, 1));  // one call over whole neighbouring mappings
  std::vector<unsigned> model(n, 0);                      // what the ring must hold, element by element
  CHECK(cuMemsetD32(address_a, 0, n));
  const size_t records = 16, length = n / 4 * 3 - 1;
  size_t at = 0, wrapped = 0;
  for (size_t record = 0; record < records; ++record) {
    unsigned* window = reinterpret_cast<unsigned*>(ring) + at;
    seed = random();
    fill<<<256, 256>>>(window, length, seed);
    copy<<<256, 256>>>(window, first, length);
    copy<<<256, 256>>>(a, second, n);
    expect_sequence(first, length, seed);
    for (size_t i = 0; i < length; ++i) model[(at + i) % n] = value(seed, i);
    EXPECT(take(second, n) == model, "record %zu, at %zu of %zu, is not where it belongs", record, at, n);
    if (at + length > n) ++wrapped;
    at = (at + length) % n;
  }
  std::printf("    %zu records of three quarters of the ring: %zu go over its end in one piece\n", records, wrapped);

  // [8] Tear down
  // A mapping is unmapped whole; neighbours may be unmapped in one call. The memory is freed when the last mapping and
  // the handle are gone.
  std::printf("[8] Tear down\n");
  REFUSED(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(ring, granularity));
  CHECK(cuMemUnmap(ring, 2 * size));
  CHECK(cuMemAddressFree(ring, 2 * size));
  for (CUdeviceptr address : {address_b, address_a}) {
    CHECK(cuMemUnmap(address, size));
    CHECK(cuMemAddressFree(address, size));
  }
  CHECK(cuMemRelease(handle));
  EXPECT(free_memory() == free_at_start, "free memory is not what it was (does another program use this GPU?)");
  std::printf("    free memory is what it was at the start\n");
  CHECK(cudaEventDestroy(written));
  for (cudaStream_t stream : {reader, writer}) CHECK(cudaStreamDestroy(stream));
  for (unsigned* address : {second, first}) CHECK(cudaFree(address));
  std::printf("OK\n");
  return 0;
}
