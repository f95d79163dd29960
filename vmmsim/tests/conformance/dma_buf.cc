// SPDX-License-Identifier: MIT-0
// dma-bufs of memory, which a network card would be given: of which ranges there is one, and what it is. What depends
// on the kernel of the host is said on stderr. Not asked here: F_GETFL, which was O_RDWR; a simulated one is for
// reading, so that nobody maps it.
#include "conformance.h"

#include <cerrno>

#include <sys/mman.h>

constexpr CUmemRangeHandleType dma_buf = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
constexpr size_t KiB = 1024;

static CUresult try_get(int* fd, CUdeviceptr at, size_t size, int type = dma_buf, unsigned long long flags = 0) {
  return cuMemGetHandleForAddressRange(fd, at, size, CUmemRangeHandleType(type), flags);
}
static void ask(const std::string& what, CUdeviceptr at, size_t size, int type = dma_buf,
                unsigned long long flags = 0) {
  int fd = -1;
  if (say(what, try_get(&fd, at, size, type, flags)) == CUDA_SUCCESS) EXPECT(close(fd) == 0, "no descriptor");
}
static CUmemAllocationProp for_rdma() {
  CUmemAllocationProp properties = on_gpu(0);
  properties.allocFlags.gpuDirectRDMACapable = 1;
  return properties;
}
static void map_at(CUdeviceptr at, size_t size, const CUmemAllocationProp& properties, bool open = true) {
  CUmemGenericAllocationHandle handle;
  const CUmemAccessDesc to_gpu = access_of(0);
  CHECK(cuMemCreate(&handle, size, &properties, 0));
  CHECK(cuMemMap(at, size, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  if (open) CHECK(cuMemSetAccess(at, size, &to_gpu, 1));
}
static CUdeviceptr mapped(size_t size, const CUmemAllocationProp& properties, bool open = true) {
  const CUdeviceptr at = reserve(size);
  return map_at(at, size, properties, open), at;
}
static CUdeviceptr allocated(size_t size) {
  CUdeviceptr at;
  return CHECK(cuMemAlloc(&at, size)), at;
}
static void begin() {
  alarm(20);
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}

SECTION("attributes") {
  begin();
  for (const int attribute : {124, 146}) {  // ..._DMA_BUF_SUPPORTED, ..._HOST_ALLOC_DMA_BUF_SUPPORTED
    int value = -1;
    say("attribute " + std::to_string(attribute), cuDeviceGetAttribute(&value, CUdevice_attribute(attribute), 0));
    say("is", std::to_string(value));
  }
}

SECTION("parts") {
  begin();
  const CUdeviceptr memory = allocated(4 * MiB), own = mapped(4 * MiB, on_gpu(0));
  for (const auto& [at, name] : {std::pair(memory, "cuMemAlloc, "), std::pair(own, "VMM, ")}) {
    const std::string of = name;
    ask(of + "all", at, 4 * MiB);
    ask(of + "its second half", at + 2 * MiB, 2 * MiB);
    ask(of + "across two pages of 2 MiB", at + MiB, 2 * MiB);
    ask(of + "64 KiB from 64 KiB on", at + 64 * KiB, 64 * KiB);
    ask(of + "4 KiB from 4 KiB on", at + 4 * KiB, 4 * KiB);
    ask(of + "0 bytes", at, 0);
    ask(of + "1 byte", at, 1);
    ask(of + "512 bytes", at, 512);
    ask(of + "4 KiB and 1 byte", at, 4 * KiB + 1);
    ask(of + "4 KiB from 512 bytes on", at + 512, 4 * KiB);
    ask(of + "0 bytes from 512 bytes on", at + 512, 0);
    ask(of + "past its end", at, 4 * MiB + 4 * KiB);
    ask(of + "behind its end, 0 bytes", at + 4 * MiB, 0);
    ask(of + "more than there are addresses", at, size_t(1) << 63);
  }
  const CUdeviceptr small = allocated(1000);
  ask("1000 bytes of cuMemAlloc: 1000", small, 1000);
  ask("1000 bytes of cuMemAlloc: 4 KiB", small / (4 * KiB) * (4 * KiB), 4 * KiB);
}

SECTION("mappings") {
  begin();
  const CUmemAllocationProp plain = on_gpu(0), rdma = for_rdma();
  ask("without gpuDirectRDMACapable", mapped(4 * MiB, plain), 4 * MiB);
  ask("with it", mapped(4 * MiB, rdma), 4 * MiB);
  ask("with it, half", mapped(4 * MiB, rdma) + 2 * MiB, 2 * MiB);
  ask("without access", mapped(4 * MiB, plain, false), 4 * MiB);
  ask("with it, without access", mapped(4 * MiB, rdma, false), 4 * MiB);
  const CUdeviceptr room = reserve(16 * MiB);
  map_at(room, 2 * MiB, rdma), map_at(room + 2 * MiB, 2 * MiB, rdma), map_at(room + 6 * MiB, 2 * MiB, rdma);
  ask("two neighbours", room, 4 * MiB);
  ask("parts of two neighbours", room + MiB, 2 * MiB);
  ask("a range with a hole", room, 8 * MiB);
  ask("a range that ends in a hole", room, 6 * MiB);
  ask("a range that begins in a hole", room + 4 * MiB, 4 * MiB);
  ask("a hole", room + 4 * MiB, 2 * MiB);
  map_at(room + 4 * MiB, 2 * MiB, plain);
  ask("neighbours with gpuDirectRDMACapable and without", room, 8 * MiB);
  map_at(room + 8 * MiB, 2 * MiB, plain, false);
  ask("neighbours with access and without", room + 4 * MiB, 6 * MiB);
  const CUmemGenericAllocationHandle once = create(2 * MiB);
  CHECK(cuMemMap(room + 10 * MiB, 2 * MiB, 0, once, 0));
  CHECK(cuMemMap(room + 12 * MiB, 2 * MiB, 0, once, 0));
  ask("the same memory twice", room + 10 * MiB, 4 * MiB);
  CUmemAllocationProp compressed = plain, shared = on_gpu(0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  compressed.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
  ask("compressed", mapped(4 * MiB, compressed), 4 * MiB);
  ask("with a handle type", mapped(4 * MiB, shared), 4 * MiB);
  const CUdeviceptr gone = mapped(4 * MiB, plain);
  CHECK(cuMemUnmap(gone, 4 * MiB));
  ask("unmapped again", gone, 4 * MiB);
}

SECTION("an import") {
  begin();
  const CUmemAccessDesc to_gpu = access_of(0);
  CUmemGenericAllocationHandle made = create(4 * MiB, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), import;
  int fd;
  CHECK(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(cuMemImportFromShareableHandle(&import, reinterpret_cast<void*>(intptr_t(fd)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUdeviceptr at = reserve(4 * MiB);
  CHECK(cuMemMap(at, 4 * MiB, 0, import, 0));
  CHECK(cuMemSetAccess(at, 4 * MiB, &to_gpu, 1));
  ask("an import", at, 4 * MiB);
}

SECTION("kinds") {
  begin();
  void *pinned, *pageable = mmap(nullptr, 4 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CUdeviceptr managed, of_pool;
  CHECK(cudaMallocHost(&pinned, 4 * MiB));
  ask("cudaMallocHost", CUdeviceptr(pinned), 4 * MiB);
  ask("cudaMallocHost, with the flag", CUdeviceptr(pinned), 4 * MiB, dma_buf, 1);
  CHECK(cuMemAllocManaged(&managed, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
  ask("managed memory", managed, 4 * MiB);
  CHECK(cuMemAllocAsync(&of_pool, 32 * MiB, nullptr));
  CHECK(cudaDeviceSynchronize());
  ask("a pool's", of_pool, 32 * MiB);
  ask("a pool's, in part", of_pool, 2 * MiB);
  ask("the host's", CUdeviceptr(pageable), 4 * MiB);
  CHECK(cudaHostRegister(pageable, 4 * MiB, cudaHostRegisterDefault));
  ask("the host's, registered", CUdeviceptr(pageable), 4 * MiB);
  const CUdeviceptr freed = allocated(4 * MiB);
  CHECK(cuMemFree(freed));
  ask("freed", freed, 4 * MiB);
  ask("address 0", 0, 4 * MiB);
  ask("address 4 KiB", 4 * KiB, 4 * KiB);
  ask("a reservation", reserve(4 * MiB), 4 * MiB);
}

SECTION("arguments") {
  begin();
  const CUdeviceptr memory = allocated(4 * MiB), own = mapped(4 * MiB, on_gpu(0));
  for (const int type : {0, 2, 0x7fffffff}) ask("type " + std::to_string(type), memory, 4 * MiB, type);
  for (const unsigned flags : {1u, 2u, 3u}) {
    ask("flags " + std::to_string(flags), memory, 4 * MiB, dma_buf, flags);
    ask("flags " + std::to_string(flags) + ", VMM", own, 4 * MiB, dma_buf, flags);
  }
  say("no place for the handle", try_get(nullptr, memory, 4 * MiB));
  CUcontext context;
  CHECK(cuCtxPopCurrent(&context));
  ask("no current context", memory, 4 * MiB);
  ask("no current context, VMM", own, 4 * MiB);
  CHECK(cuCtxPushCurrent(context));
  cudaStream_t stream;
  cudaGraph_t graph;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  ask("while a stream captures", memory, 4 * MiB);
  say("the end of the capture", cudaStreamEndCapture(stream, &graph));
}
SECTION("before cuInit") {
  int fd;
  alarm(20);
  say("before cuInit", try_get(&fd, 2 * MiB, 2 * MiB));
}

SECTION("the descriptor") {
  begin();
  const CUdeviceptr memory = allocated(4 * MiB);
  int fd, other;
  CHECK(try_get(&fd, memory + 64 * KiB, MiB));
  CHECK(try_get(&other, memory + 64 * KiB, MiB));
  char name[64] = "", byte = 0;
  if (readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), name, sizeof name - 1) > 0)
    std::fprintf(stderr, "it is %s\n", name);
  say("a second time, another descriptor", yes(fd != other));
  say("closed by exec", yes(fcntl(fd, F_GETFD) & FD_CLOEXEC));
  say("its end", std::to_string(lseek(fd, 0, SEEK_END)));
  say("its position", std::to_string(lseek(fd, 0, SEEK_CUR)));
  say("its begin", std::to_string(lseek(fd, 0, SEEK_SET)));
  say("a byte before its end", std::to_string(lseek(fd, -1, SEEK_END)));
  say("a byte from its begin", std::to_string(lseek(fd, 1, SEEK_SET)));
  say("a read", yes(read(fd, &byte, 1) == 1));
  say("a write", yes(write(fd, &byte, 1) == 1));
  void* const shown = mmap(nullptr, MiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::fprintf(stderr, "mmap: %s\n", shown == MAP_FAILED ? strerror(errno) : "done");
  say("mapped on the host", yes(shown != MAP_FAILED));
  CUmemGenericAllocationHandle handle;
  say("imported as memory", cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t(fd)),
                                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  say("close", yes(close(fd) == 0));
  say("the other's end", std::to_string(lseek(other, 0, SEEK_END)));
}

// Whether a free gives memory back while a dma-buf is open.
SECTION("life") {
  begin();
  constexpr size_t size = 256 * MiB;
  const auto ask_after = [](const std::string& what, CUdeviceptr at, size_t part, void (*end)(CUdeviceptr)) {
    int fd;
    CHECK(try_get(&fd, at, part));
    const size_t before = free_bytes();
    end(at);
    const size_t ended = free_bytes();
    say(what + ", given back while it is open", yes(ended > before + size / 2));
    EXPECT(close(fd) == 0, "no descriptor");
    say(what + ", given back when it is closed", yes(free_bytes() > before + size / 2));
  };
  const auto unmap = [](CUdeviceptr at) { CHECK(cuMemUnmap(at, size)); };
  ask_after("cuMemAlloc", allocated(size), size, [](CUdeviceptr at) { CHECK(cuMemFree(at)); });
  ask_after("a part of cuMemAlloc", allocated(size), 4 * KiB, [](CUdeviceptr at) { CHECK(cuMemFree(at)); });
  ask_after("VMM", mapped(size, on_gpu(0)), size, unmap);
  ask_after("a part of VMM", mapped(size, on_gpu(0)), 4 * KiB, unmap);
  const CUdeviceptr at = mapped(size, on_gpu(0));
  int fd;
  CHECK(try_get(&fd, at, size));
  CHECK(cuMemUnmap(at, size));
  say("free the addresses of an open one", cuMemAddressFree(at, size));
  say("its end then", std::to_string(lseek(fd, 0, SEEK_END)));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
