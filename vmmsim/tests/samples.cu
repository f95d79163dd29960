// SPDX-License-Identifier: MIT-0
// What sample programs lean on: attributes that say what a GPU can do, 3D copies, copies between two GPUs in order with
// the work of both, and the occupancy of a kernel with many variables.
#include "check.h"

#include <vector>

// --- Attributes ---------------------------------------------------------------------------------------------------

// A program that asks first must not be told that it cannot have what it would get.
static void test_attributes() {
  constexpr cudaDeviceAttr asked[] = {cudaDevAttrHostRegisterSupported, cudaDevAttrHostRegisterReadOnlySupported,
                                      cudaDevAttrIpcEventSupport,
                                      cudaDeviceAttr(141),   // VMM at a NUMA node of the host
                                      cudaDeviceAttr(145)};  // VMM at the host
  for (const cudaDeviceAttr attribute : asked) {
    int has = 0;
    CHECK(cudaDeviceGetAttribute(&has, attribute, 0));
    EXPECT(has == 1, "it is %d", has);
  }
}

// Whatever its size, memory begins where any type may lie.
static void test_alignment() {
  char* blocks[3];
  for (char*& each : blocks) CHECK(cudaMalloc(&each, 100));
  for (char* const each : blocks) EXPECT(reinterpret_cast<uintptr_t>(each) % 256 == 0, "it is at %p", (void*)each);
  for (char* const each : blocks) CHECK(cudaFree(each));
}

// --- 3D copies ----------------------------------------------------------------------------------------------------

// Adds 1000 times its layer to each element.
__global__ void add_layers(cudaPitchedPtr box, int width, int height) {
  char* const layer = static_cast<char*>(box.ptr) + blockIdx.x * box.pitch * box.ysize;
  for (int y = 0; y < height; ++y) {
    int* const row = reinterpret_cast<int*>(layer + y * box.pitch);
    if (threadIdx.x < width) row[threadIdx.x] += 1000 * blockIdx.x;
  }
}

static void test_boxes() {
  constexpr int width = 25, height = 6, depth = 5;
  const auto at = [](int x, int y, int z) { return (z * height + y) * width + x; };
  std::vector<int> there(width * height * depth), back(there.size(), -1);
  for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<int>(i);

  cudaPitchedPtr box;
  const cudaExtent all = make_cudaExtent(width * sizeof(int), height, depth);
  CHECK(cudaMalloc3D(&box, all));
  EXPECT(box.pitch > all.width && box.xsize == all.width && box.ysize == all.height, "a pitch of %zu", box.pitch);
  cudaMemcpy3DParms whole = {};
  whole.srcPtr = make_cudaPitchedPtr(there.data(), all.width, width, height);
  whole.dstPtr = box;
  whole.extent = all;
  whole.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&whole));
  add_layers<<<depth, 32>>>(box, width, height);
  CHECK(cudaGetLastError());
  whole.srcPtr = box;
  whole.dstPtr = make_cudaPitchedPtr(back.data(), all.width, width, height);
  whole.kind = cudaMemcpyDeviceToHost;
  CHECK(cudaMemcpy3DAsync(&whole, nullptr));
  CHECK(cudaStreamSynchronize(nullptr));
  for (int i = 0; i < width * height * depth; ++i)
    EXPECT(back[i] == i + 1000 * (i / (width * height)), "element %d is %d", i, back[i]);

  // A box of 4 x 3 x 2 to another place; then zeros in the first two columns and rows of the first two layers.
  cudaMemcpy3DParms part = {};
  part.srcPtr = whole.dstPtr;
  part.srcPos = make_cudaPos(3 * sizeof(int), 1, 2);
  part.dstPtr = box;
  part.dstPos = make_cudaPos(20 * sizeof(int), 3, 3);
  part.extent = make_cudaExtent(4 * sizeof(int), 3, 2);
  part.kind = cudaMemcpyDefault;
  CHECK(cudaMemcpy3D(&part));
  CHECK(cudaMemset3D(box, 0, make_cudaExtent(2 * sizeof(int), 2, 2)));
  const std::vector<int> before = back;
  CHECK(cudaMemcpy3D(&whole));
  for (int z = 0; z < depth; ++z)
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x) {
        const bool is_moved = x >= 20 && x < 24 && y >= 3 && y < 6 && z >= 3;
        const bool is_zero = x < 2 && y < 2 && z < 2;
        EXPECT(back[at(x, y, z)] == (is_zero ? 0 : before[is_moved ? at(x - 17, y - 2, z - 1) : at(x, y, z)]),
               "at %d, %d, %d", int(x), int(y), int(z));
      }

  // The whole box to the other GPU, and a part of it back to another place.
  CHECK(cudaSetDevice(1));
  cudaPitchedPtr other;
  CHECK(cudaMalloc3D(&other, all));
  cudaMemcpy3DPeerParms peer = {};
  peer.srcPtr = box;
  peer.dstPtr = other;
  peer.dstDevice = 1;
  peer.extent = all;
  CHECK(cudaMemcpy3DPeer(&peer));
  std::swap(peer.srcPtr, peer.dstPtr);
  std::swap(peer.srcDevice, peer.dstDevice);
  peer.srcPos = make_cudaPos(0, 0, 4);
  peer.extent = make_cudaExtent(all.width, height, 1);
  CHECK(cudaMemcpy3DPeerAsync(&peer, nullptr));
  peer.dstDevice = 2;
  REFUSED(cudaErrorInvalidDevice, cudaMemcpy3DPeer(&peer));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(other.ptr));
  CHECK(cudaSetDevice(0));
  std::fill(back.begin(), back.end(), -1);
  CHECK(cudaMemcpy3D(&whole));
  for (int i = 0; i < width * height; ++i) EXPECT(back[i] == back[at(0, 0, 4) + i], "element %d is %d", i, back[i]);

  part.extent.height = height;  // beyond the layer's rows
  EXPECT(cudaMemcpy3D(&part) == cudaErrorInvalidValue, "another answer");
  part.extent.width = box.pitch + 1;
  EXPECT(cudaMemcpy3D(&part) == cudaErrorInvalidPitchValue, "another answer");
  REFUSED(cudaErrorInvalidPitchValue, cudaMemcpy2D(box.ptr, 64, there.data(), 32, 64, 1, cudaMemcpyDefault));
  CUDA_MEMCPY2D shifted = {};
  shifted.srcMemoryType = shifted.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  shifted.srcDevice = shifted.dstDevice = reinterpret_cast<CUdeviceptr>(box.ptr);
  shifted.srcPitch = shifted.dstPitch = shifted.WidthInBytes = 64;
  shifted.Height = 1;
  shifted.dstXInBytes = 4;  // and so 4 bytes past the end of a row
  EXPECT(cuMemcpy2D(&shifted) == CUDA_ERROR_INVALID_VALUE, "another answer");
  cudaGetLastError();
  CHECK(cudaFree(box.ptr));
}

// Layers of the two sides that have different heights.
static void test_heights() {
  constexpr int width = 16, layers = 2, low = 2, high = 5;
  std::vector<char> from(width * low * layers, 'x'), to(width * high * layers, '.');
  cudaMemcpy3DParms all = {};
  all.srcPtr = make_cudaPitchedPtr(from.data(), width, width, low);
  all.dstPtr = make_cudaPitchedPtr(to.data(), width, width, high);
  all.extent = make_cudaExtent(width, low, layers);
  all.kind = cudaMemcpyDefault;
  CHECK(cudaMemcpy3D(&all));
  for (int row = 0; row < high * layers; ++row)
    EXPECT(to[row * width] == (row % high < low ? 'x' : '.'), "row %d has %c", row, to[row * width]);
}

// --- Waits for words ----------------------------------------------------------------------------------------------

// A counter that has wrapped round is past what it had before.
static void test_words() {
  unsigned* word;
  CHECK(cudaMallocHost(&word, sizeof *word));
  *word = 5;
  const auto address = reinterpret_cast<CUdeviceptr>(word);
  EXPECT(cuStreamWaitValue32(nullptr, address, 0xfffffff0, CU_STREAM_WAIT_VALUE_GEQ) == CUDA_SUCCESS, "refused");
  EXPECT(cuStreamWriteValue32(nullptr, address, 6, 0) == CUDA_SUCCESS, "refused");
  CHECK(cudaDeviceSynchronize());
  EXPECT(*word == 6, "it is %u", *word);
  CHECK(cudaFreeHost(word));
}

// --- What is said of managed memory -------------------------------------------------------------------------------

static void test_advice() {
  constexpr size_t page = 64 << 10;
  char* memory;
  CHECK(cudaMallocManaged(&memory, 4 * page));
  const cudaMemLocation gpu = {cudaMemLocationTypeDevice, 1}, host = {cudaMemLocationTypeHost, 0};
  CHECK(cudaMemAdvise(memory, 2 * page, cudaMemAdviseSetReadMostly, gpu));
  CHECK(cudaMemAdvise(memory, 4 * page, cudaMemAdviseSetPreferredLocation, gpu));
  CHECK(cudaMemAdvise(memory, 4 * page, cudaMemAdviseSetAccessedBy, gpu));
  CHECK(cudaMemAdvise(memory, page, cudaMemAdviseSetAccessedBy, host));
  CHECK(cudaMemPrefetchAsync(memory + page, page, host, 0, nullptr));
  const auto is = [&](cudaMemRangeAttribute attribute, char* from, size_t size, int expected) {
    int found = -9;
    CHECK(cudaMemRangeGetAttribute(&found, sizeof found, attribute, from, size));
    EXPECT(found == expected, "attribute %d is %d, not %d", int(attribute), found, expected);
  };
  is(cudaMemRangeAttributeReadMostly, memory, 2 * page, 1);
  is(cudaMemRangeAttributeReadMostly, memory, 3 * page, 0);
  is(cudaMemRangeAttributePreferredLocation, memory, 4 * page, 1);
  is(cudaMemRangeAttributeLastPrefetchLocation, memory + page, page, cudaCpuDeviceId);
  is(cudaMemRangeAttributeLastPrefetchLocation, memory, 2 * page, cudaInvalidDeviceId);
  int users[3] = {};
  CHECK(cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, memory, page));
  EXPECT(users[0] == 1 && users[1] == cudaCpuDeviceId && users[2] == cudaInvalidDeviceId, "%d, %d", users[0], users[1]);
  CHECK(cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, memory, 2 * page));
  EXPECT(users[0] == 1 && users[1] == cudaInvalidDeviceId, "%d, %d", users[0],
         users[1]);  // the host has the first only
  REFUSED(cudaErrorInvalidValue, cudaMemRangeGetAttribute(users, 3, cudaMemRangeAttributeAccessedBy, memory, page));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamAttachMemAsync(stream, memory, 4 * page, cudaMemAttachHost));
  REFUSED(cudaErrorInvalidValue, cudaStreamAttachMemAsync(stream, memory, page, cudaMemAttachHost));  // only all of it
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(memory));
  REFUSED(cudaErrorInvalidValue, cudaMemRangeGetAttribute(users, 4, cudaMemRangeAttributeReadMostly, memory, page));
  cudaGetLastError();
}

// --- Copies between GPUs ------------------------------------------------------------------------------------------

__global__ void write_when_told(volatile int* told, int* to, int value) {
  while (!*told) {
  }
  *to = value;
}
__global__ void write(int* to, int value) { *to = value; }

static void test_peers() {
  int *told, *here, *there, found = 0;
  CHECK(cudaMallocHost(&told, sizeof *told));
  *told = 0;
  CHECK(cudaMalloc(&here, sizeof *here));
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&there, sizeof *there));
  CHECK(cudaMemset(there, 0, sizeof *there));
  write_when_told<<<1, 1>>>(told, there, 42);
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpyPeer(here, 0, there, 1, sizeof *here));  // after the kernel of GPU 1
  CHECK(cudaSetDevice(1));
  write<<<1, 1>>>(there, 7);  // after the copy
  CHECK(cudaGetLastError());
  *told = 1;
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(&found, here, sizeof found, cudaMemcpyDeviceToHost));
  EXPECT(found == 42, "found %d", int(found));

  // What GPU 0 still copies there is freed on GPU 1 when it has been copied.
  constexpr size_t size = 16 << 20;
  char *from, *to;
  for (int round = 0; round < 10; ++round) {
    CHECK(cudaMalloc(&from, size));
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&to, size));
    CHECK(cudaSetDevice(0));
    CHECK(cudaMemcpy(to, from, size, cudaMemcpyDefault));
    CHECK(cudaSetDevice(1));
    CHECK(cudaFree(to));
    CHECK(cudaSetDevice(0));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaFree(from));
  }
  CHECK(cudaFree(there));
  CHECK(cudaFree(here));
  CHECK(cudaFreeHost(told));
}

// Memory is freed when copies of it in streams of another GPU have ended, which may take a while.
static void test_free_after_copies() {
  constexpr size_t size = 64 << 20;
  char *host, *memory;
  cudaStream_t elsewhere;
  CHECK(cudaMallocHost(&host, size));
  CHECK(cudaMalloc(&memory, size));
  CHECK(cudaSetDevice(1));
  CHECK(cudaStreamCreate(&elsewhere));
  CHECK(cudaMemcpyAsync(memory, host, size, cudaMemcpyDefault, elsewhere));
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(memory));
  CHECK(cudaStreamQuery(elsewhere));
  CHECK(cudaStreamDestroy(elsewhere));
  CHECK(cudaFreeHost(host));
}

// Two contexts of a GPU may both use another GPU's memory; the one that no longer does takes no right from the other.
static void test_peers_of_contexts() {
  CUcontext first, second, theirs;
  int *there, found = 0;
  CHECK(cudaSetDevice(1));
  CHECK(cudaMalloc(&there, sizeof *there));
  CHECK(cuCtxGetCurrent(&theirs));
  CHECK(cudaSetDevice(0));
  CHECK(cuCtxGetCurrent(&first));
  CHECK(cuCtxEnablePeerAccess(theirs, 0));
#if CUDA_VERSION >= 13000
  CHECK(cuCtxCreate(&second, nullptr, 0, 0));
#else
  CHECK(cuCtxCreate(&second, 0, 0));
#endif
  CHECK(cuCtxEnablePeerAccess(theirs, 0));
  CHECK(cuCtxSetCurrent(first));
  CHECK(cuCtxDisablePeerAccess(theirs));
  CHECK(cuCtxSetCurrent(second));
  write<<<1, 1>>>(there, 7);
  CHECK(cudaDeviceSynchronize());
  CHECK(cuCtxDestroy(second));
  CHECK(cudaSetDevice(0));
  CHECK(cudaMemcpy(&found, there, sizeof found, cudaMemcpyDefault));
  EXPECT(found == 7, "it is %d", found);
  CHECK(cudaFree(there));
}

// --- Occupancy ----------------------------------------------------------------------------------------------------

__global__ void many_variables(float* data) {
  float values[48];
#pragma unroll
  for (int i = 0; i < 48; ++i) values[i] = data[i * blockDim.x + threadIdx.x];
#pragma unroll
  for (int i = 0; i < 48; ++i) data[i * blockDim.x + threadIdx.x] = values[47 - i] * values[(i * 7) % 48];
}

// A GPU's compiler has registers left for blocks of 384 threads, and programs divide by the number of them.
static void test_occupancy() {
  int blocks = 0;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, many_variables, 384, 0));
  EXPECT(blocks > 0, "%d blocks", blocks);
}

int main() {
  test_attributes();
  test_alignment();
  test_boxes();
  test_heights();
  test_words();
  test_advice();
  test_peers();
  test_free_after_copies();
  test_peers_of_contexts();
  test_occupancy();
  std::puts("OK");
}
