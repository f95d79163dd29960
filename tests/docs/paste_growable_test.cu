// SPDX-License-Identifier: MIT-0
// docs/paste/growable.cu at work, on one GPU or two; and undoings that the driver refuses. `once` is one life of a
// buffer, for each of whose calls to fail.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>
// The calls of the snippet that fail from now on, or as often as here, without being made.
static int unmaps_fail, opens_fail, opens_partly, no_rdma, no_path;
static CUresult unmap_or_fail(CUdeviceptr address, size_t size) {
  return unmaps_fail ? --unmaps_fail, CUDA_ERROR_UNKNOWN : cuMemUnmap(address, size);
}
static CUresult open_or_fail(CUdeviceptr address, size_t size, const CUmemAccessDesc* access, size_t count) {
  if (!opens_fail) return cuMemSetAccess(address, size, access, count);
  if (opens_partly && access->flags) cuMemSetAccess(address, 2 << 20, access, count);  // the first chunk below
  return --opens_fail, CUDA_ERROR_UNKNOWN;
}
static CUresult granted_or_not(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  const CUresult result = cuMemGetAllocationPropertiesFromHandle(prop, handle);
  if (no_rdma) prop->allocFlags.gpuDirectRDMACapable = 0;
  return result;
}
static CUresult attribute_or_0(int* value, CUdevice_attribute which, CUdevice device) {
  const CUresult result = cuDeviceGetAttribute(value, which, device);
  if (no_rdma == 2) *value = 0;
  return result;
}
static CUresult can_access(int* reaches, CUdevice peer, CUdevice owner) {
  const CUresult result = cuDeviceCanAccessPeer(reaches, peer, owner);
  if (no_path) *reaches = 0;
  return result;
}
// A stand-in for the dma-buf of a driver that has none: a file of as many bytes, open to children as well.
static bool stands_in;
static CUresult handle_for(int* fd, CUdeviceptr address, size_t size, CUmemRangeHandleType type,
                           unsigned long long flags) {
  if (!stands_in) return cuMemGetHandleForAddressRange(fd, address, size, type, flags);
  *fd = memfd_create("dma-buf", 0);
  return ftruncate(*fd, off_t(size)) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}
#define cuMemGetHandleForAddressRange handle_for
#define cuMemUnmap unmap_or_fail
#define cuMemSetAccess open_or_fail
#define cuMemGetAllocationPropertiesFromHandle granted_or_not
#define cuDeviceGetAttribute attribute_or_0
#define cuDeviceCanAccessPeer can_access
#include "../../docs/paste/growable.cu"
#undef cuMemGetHandleForAddressRange
#undef cuMemUnmap
#undef cuMemSetAccess
#undef cuMemGetAllocationPropertiesFromHandle
#undef cuDeviceGetAttribute
#undef cuDeviceCanAccessPeer

#include "../../common/check.h"

#include <cstring>
#include <thread>
#include <type_traits>

constexpr size_t MiB = 1 << 20;

__global__ void fill(unsigned* words, size_t count, unsigned value) {
  for (size_t i = threadIdx.x; i < count; i += blockDim.x) words[i * 1024] = value + unsigned(i);  // one in 4 KiB
}

// The current GPU writes into every page, and the owner reads the last of them.
static void use(const Growable& buffer, int gpu, unsigned value) {
  CHECK(cudaSetDevice(gpu));
  const size_t count = buffer.size / 4096;
  fill<<<1, 256>>>(reinterpret_cast<unsigned*>(buffer.base), count, value);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaSetDevice(buffer.memory.location.id));
  unsigned found[2];
  CHECK(cuMemcpyDtoH(&found[0], buffer.base, 4));
  CHECK(cuMemcpyDtoH(&found[1], buffer.base + (count - 1) * 4096, 4));
  EXPECT(found[0] == value && found[1] == value + unsigned(count - 1), "%u and %u", found[0], found[1]);
}
static unsigned long long right_of(int gpu, CUdeviceptr address) {
  CUmemLocation place = {};
  place.type = CU_MEM_LOCATION_TYPE_DEVICE;
  place.id = gpu;
  unsigned long long flags;
  CHECK(cuMemGetAccess(&flags, &place, address));
  return flags;
}

static void expect_growth() {
  static_assert(!std::is_copy_constructible_v<Growable> && !std::is_move_assignable_v<Growable>);
  Growable buffer;
  CHECK(buffer.destroy());  // of nothing
  for (const auto& [bytes, chunk] :
       {std::pair<size_t, size_t>{20 * MiB, SIZE_MAX}, {SIZE_MAX, MiB}, {SIZE_MAX, SIZE_MAX}, {0, MiB}})
    EXPECT(buffer.reserve(0, bytes, chunk) == CUDA_ERROR_INVALID_VALUE && buffer.reserved == 0 && buffer.chunk == 0,
           "%zu bytes by %zu are reserved", bytes, chunk);
  CHECK(buffer.reserve(0, 20 * MiB, 3 * MiB));
  EXPECT(buffer.chunk == 4 * MiB && buffer.reserved == 20 * MiB && buffer.size == 0, "chunk %zu", buffer.chunk);
  EXPECT(buffer.reserve(0, MiB, 0) == CUDA_ERROR_INVALID_VALUE && buffer.reserved == 20 * MiB, "reserved twice");
  CHECK(buffer.grow(0));
  CHECK(buffer.grow(1));
  const CUdeviceptr base = buffer.base;
  use(buffer, 0, 100);
  CHECK(buffer.grow(9 * MiB));
  EXPECT(buffer.size == 12 * MiB && buffer.base == base, "%zu", buffer.size);
  unsigned kept;
  CHECK(cuMemcpyDtoH(&kept, base, 4));
  EXPECT(kept == 100, "growth lost %u", kept);
  use(buffer, 0, 200);
  EXPECT(buffer.grow(21 * MiB) == CUDA_ERROR_OUT_OF_MEMORY && buffer.size == 12 * MiB, "%zu", buffer.size);
  CHECK(buffer.shrink(5 * MiB));
  EXPECT(buffer.size == 8 * MiB, "%zu", buffer.size);
  CHECK(buffer.shrink(7 * MiB));
  use(buffer, 0, 300);
  CHECK(buffer.destroy());
  CHECK(buffer.destroy());
  CHECK(buffer.reserve(0, 1, 0));  // anew
  EXPECT(buffer.chunk == 2 * MiB && buffer.reserved == 2 * MiB, "chunk %zu", buffer.chunk);
  CHECK(buffer.grow(2 * MiB));
  use(buffer, 0, 400);
  CHECK(buffer.destroy());
}

// What the driver refuses to undo stays, is not counted as usable, and the next call goes on from there.
static void expect_refused_undoing() {
  Growable buffer;
  CHECK(buffer.reserve(0, 16 * MiB, 2 * MiB));
  CHECK(buffer.grow(4 * MiB));
  opens_fail = unmaps_fail = 1;
  EXPECT(buffer.grow(8 * MiB) == CUDA_ERROR_UNKNOWN, "grown");
  EXPECT(buffer.size == 4 * MiB && buffer.mapped == 8 * MiB, "%zu, %zu", buffer.size, buffer.mapped);
  use(buffer, 0, 1);
  CHECK(buffer.grow(6 * MiB));  // has memory already, and no right
  EXPECT(buffer.size == 8 * MiB, "%zu", buffer.size);
  use(buffer, 0, 2);
  opens_fail = unmaps_fail = 1;
  EXPECT(buffer.grow(10 * MiB) == CUDA_ERROR_UNKNOWN, "grown");
  CHECK(buffer.shrink(3 * MiB));
  EXPECT(buffer.size == 4 * MiB && buffer.mapped == 4 * MiB, "%zu, %zu", buffer.size, buffer.mapped);
  opens_fail = unmaps_fail = 1;
  EXPECT(buffer.grow(10 * MiB) == CUDA_ERROR_UNKNOWN, "grown");
  unmaps_fail = 1;
  EXPECT(buffer.destroy() == CUDA_ERROR_UNKNOWN && buffer.size == 4 * MiB, "%zu", buffer.size);
  CHECK(buffer.destroy());
}

static void expect_peers() {
  Growable buffer;
  CHECK(buffer.reserve(0, 16 * MiB, 2 * MiB));
  CHECK(buffer.grow(4 * MiB));
  no_path = 1;
  EXPECT(buffer.let_in(1) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED && buffer.access.size() == 1, "let in without a path");
  no_path = 0;
  CHECK(buffer.let_in(0));
  CHECK(buffer.let_in(1));
  CHECK(buffer.let_in(1));
  EXPECT(buffer.access.size() == 2, "%zu GPUs", buffer.access.size());
  use(buffer, 1, 10);
  CHECK(buffer.grow(8 * MiB));
  use(buffer, 1, 20);  // new chunks too
  EXPECT(buffer.keep_out(0) == CUDA_ERROR_INVALID_VALUE, "its own GPU");
  opens_fail = 1;
  EXPECT(buffer.keep_out(1) == CUDA_ERROR_UNKNOWN && buffer.access.size() == 2, "%zu", buffer.access.size());
  CHECK(buffer.keep_out(1));
  CHECK(buffer.grow(10 * MiB));
  for (size_t at : {size_t(0), 8 * MiB})
    EXPECT(right_of(1, buffer.base + at) == 0 && right_of(0, buffer.base + at) == 3, "at %zu: %llu", at,
           right_of(1, buffer.base + at));
  opens_fail = opens_partly = 1;
  EXPECT(buffer.let_in(1) == CUDA_ERROR_UNKNOWN && buffer.access.size() == 1, "%zu GPUs", buffer.access.size());
  EXPECT(right_of(1, buffer.base) == 0, "a right is left");
  opens_fail = 2;  // to take the first right back fails too
  EXPECT(buffer.let_in(1) == CUDA_ERROR_UNKNOWN && buffer.access.size() == 1, "%zu GPUs", buffer.access.size());
  EXPECT(right_of(1, buffer.base) == 3, "no right is left: this tests nothing");
  opens_partly = 0;
  CHECK(buffer.keep_out(1));
  EXPECT(right_of(1, buffer.base) == 0, "a right is left");
  CHECK(buffer.grow(12 * MiB));
  EXPECT(right_of(1, buffer.base) == 0 && right_of(1, buffer.base + 10 * MiB) == 0, "a right is left");
  CHECK(buffer.let_in(1));
  use(buffer, 1, 30);
  CHECK(buffer.destroy());
  CHECK(buffer.reserve(0, 2 * MiB, 0));
  CHECK(buffer.let_in(1));  // before there is memory
  CHECK(buffer.grow(1));
  use(buffer, 1, 40);
  CHECK(buffer.destroy());
}

static void expect_rdma() {
  Growable buffer;
  int able = 0, has_dma_buf = 0, fd = 77;
  CHECK(cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0));
  CHECK(cuDeviceGetAttribute(&has_dma_buf, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
  if (!able) {
    EXPECT(buffer.reserve(0, 8 * MiB, 0, true) == CUDA_ERROR_NOT_SUPPORTED, "reserved without RDMA");
    puts("not run: RDMA, which this GPU or driver does not have");
    return;
  }
  no_rdma = 2;
  EXPECT(buffer.reserve(0, 8 * MiB, 0, true) == CUDA_ERROR_NOT_SUPPORTED && buffer.reserved == 0, "reserved");
  no_rdma = 0;
  CHECK(buffer.reserve(0, 8 * MiB, 0, true));
  EXPECT(buffer.dma_buf(&fd) == CUDA_ERROR_INVALID_VALUE && fd == 77, "a dma-buf of nothing");
  CHECK(buffer.grow(4 * MiB));
  for (size_t at : {size_t(0), 2 * MiB}) {
    int capable = 0;
    CHECK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, buffer.base + at));
    EXPECT(capable, "the chunk at %zu is not for RDMA", at);
  }
  use(buffer, 0, 50);
  no_rdma = 1;
  EXPECT(buffer.grow(8 * MiB) == CUDA_ERROR_NOT_SUPPORTED && buffer.size == 4 * MiB && buffer.mapped == 4 * MiB,
         "%zu: grown without what was asked for", buffer.mapped);
  no_rdma = 0;
  CUcontext current;
  CHECK(cuCtxPopCurrent(&current));
  if (has_dma_buf) EXPECT(buffer.dma_buf(&fd) == CUDA_ERROR_INVALID_CONTEXT && fd == 77, "a dma-buf without a context");
  CHECK(cuCtxPushCurrent(current));
  CUresult result = buffer.dma_buf(&fd);
  if (result == CUDA_ERROR_NOT_SUPPORTED && !has_dma_buf) {
    EXPECT(fd == 77, "%d", fd);
    puts("not run: the dma-buf, which this driver does not have; a file stands in for it");
    stands_in = true;
    result = buffer.dma_buf(&fd);
  }
  CHECK(result);
  EXPECT(fcntl(fd, F_GETFD) & FD_CLOEXEC, "a child would have it");
  const off_t end = lseek(fd, 0, SEEK_END);
  std::printf("a dma-buf of %lld bytes for a buffer of %zu\n", (long long)end, buffer.size);
  EXPECT(end < 0 || size_t(end) == buffer.size, "not all of it");
  close(fd);
  stands_in = false;
  CHECK(buffer.destroy());
}

// Several threads, each with a buffer of its own.
static void expect_threads() {
  std::thread threads[4];
  for (auto& thread : threads)
    thread = std::thread([] {
      for (int i = 0; i < 10; ++i) {
        Growable buffer;
        CHECK(buffer.reserve(0, 16 * MiB, 2 * MiB));
        for (size_t size = 2 * MiB; size <= 16 * MiB; size += 4 * MiB) CHECK(buffer.grow(size));
        CHECK(buffer.shrink(4 * MiB));
        CHECK(buffer.destroy());
      }
    });
  for (auto& thread : threads) thread.join();
}

// One life. Each thing that fails changes nothing, and is done again.
static CUresult once(int gpus) {
  Growable buffer;
  CUresult first = CUDA_SUCCESS;
  const auto step = [&](auto&& call) {
    const size_t size = buffer.size, reserved = buffer.reserved, users = buffer.access.size();
    const CUresult result = call();
    if (result == CUDA_SUCCESS) return;
    EXPECT(first == CUDA_SUCCESS, "twice: %s", check::name(result));
    first = result;
    EXPECT(buffer.size == size || buffer.size == 0, "%zu bytes, and %zu before", buffer.size, size);
    EXPECT(buffer.reserved == reserved && buffer.access.size() == users, "something has changed");
    CHECK(call());
  };
  step([&] { return buffer.reserve(0, 16 * MiB, 2 * MiB, true); });
  step([&] { return buffer.grow(4 * MiB); });
  if (gpus > 1) step([&] { return buffer.let_in(1); });
  step([&] { return buffer.grow(6 * MiB); });
  EXPECT(right_of(0, buffer.base + 4 * MiB) == 3, "not open");
  int fd = -1;
  CHECK(cudaSetDevice(0));
  step([&] { return buffer.dma_buf(&fd); });
  close(fd);
  step([&] { return buffer.shrink(4 * MiB); });
  if (gpus > 1) step([&] { return buffer.keep_out(1); });
  step([&] { return buffer.destroy(); });
  return first;
}

int main(int argc, char** argv) {
  const int gpus = check::require_gpus(1) > 1 ? 2 : 1;
  if (argc == 2 && strcmp(argv[1], "once") == 0) {
    const CUresult result = once(gpus);
    puts(result == CUDA_SUCCESS ? "OK" : check::name(result));
    return result != CUDA_SUCCESS;
  }
  CHECK(cudaSetDevice(0));
  int reaches = 0;
  if (gpus > 1) CHECK(cuDeviceCanAccessPeer(&reaches, 1, 0));
  expect_growth();
  expect_refused_undoing();
  if (reaches) expect_peers();
  else puts("not run: a second GPU, which is not there, or does not reach the first");
  expect_rdma();
  expect_threads();
  puts("OK");
}
