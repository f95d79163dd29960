// SPDX-License-Identifier: MIT-0
// What memory is granted, and what the driver tells of it: properties asked for and read back, imports, memory of the
// host, and attributes of addresses. Calls that crashed the driver are not made: see docs/pitfalls.md.
#include "conformance.h"

#include <vector>

using Handle = CUmemGenericAllocationHandle;
static const unsigned fd_type = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

static CUmemAllocationProp at_place(CUmemLocationType type, int id, unsigned types = 0) {
  CUmemAllocationProp properties = on_gpu(id, types);
  properties.location.type = type;
  return properties;
}

static CUresult set(CUdeviceptr a, size_t size, CUmemLocationType type, int id, unsigned flags) {
  CUmemAccessDesc descriptor = access_of(id, flags);
  descriptor.location.type = type;
  return cuMemSetAccess(a, size, &descriptor, 1);
}

static void say_properties(Handle handle) {
  CUmemAllocationProp back;
  std::memset(&back, 0xff, sizeof back);
  CHECK(cuMemGetAllocationPropertiesFromHandle(&back, handle));
  std::printf("  read back: location %d of type %d, handle types %d, compression %d, RDMA %d, usage %d\n",
              back.location.id, back.location.type, back.requestedHandleTypes, back.allocFlags.compressionType,
              back.allocFlags.gpuDirectRDMACapable, back.allocFlags.usage);
  for (int i = 0; i < 4; ++i)
    if (back.allocFlags.reserved[i])
      std::printf("  read back: reserved byte %d is %d\n", i, back.allocFlags.reserved[i]);
}

static void say_attribute(const char* name, CUpointer_attribute what, CUdeviceptr address) {
  unsigned long long value = 0;  // some are 4 bytes, some 8
  const CUresult answer = cuPointerGetAttribute(&value, what, address);
  say(std::string("  attribute ") + name, answer ? check::name(answer) : std::to_string(value));
}

// Maps what a handle names, opens it to GPU 0, asks for what is known of the address, and gives all of it back.
static void use_and_release(Handle handle) {
  say_properties(handle);
  const CUdeviceptr a = reserve(page);
  if (say("  map", cuMemMap(a, page, 0, handle, 0)) == CUDA_SUCCESS) {
    say("  open to GPU 0", set(a, page, CU_MEM_LOCATION_TYPE_DEVICE, 0, 3));
    say_attribute("RDMA", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, a);
    say_attribute("hardware decompression", CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, a);
    say_attribute("handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, a);
    CHECK(cuMemUnmap(a, page));
  }
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(a, page));
}

static void try_create(const std::string& what, const CUmemAllocationProp& properties) {
  Handle handle;
  if (say(what, cuMemCreate(&handle, page, &properties, 0)) == CUDA_SUCCESS) use_and_release(handle);
}

// The requests of CUmemAllocationProp beside the place, alone and together.
struct Request {
  const char* name;
  unsigned types, compression, rdma, usage;
};
static CUmemAllocationProp with(CUmemAllocationProp properties, const Request& request) {
  properties.requestedHandleTypes = CUmemAllocationHandleType(request.types);
  properties.allocFlags.compressionType = (unsigned char)request.compression;
  properties.allocFlags.gpuDirectRDMACapable = (unsigned char)request.rdma;
  properties.allocFlags.usage = (unsigned short)request.usage;
  return properties;
}

SECTION("host") {
  section("memory of the host");
  for (int id : {0, 1, -1, 99}) try_create("HOST " + std::to_string(id), at_place(CU_MEM_LOCATION_TYPE_HOST, id));
  for (int id : {0, 1, -1}) try_create("HOST_NUMA " + std::to_string(id), at_place(CU_MEM_LOCATION_TYPE_HOST_NUMA, id));
  const Request requests[] = {{"fd", fd_type, 0, 0, 0},    {"type 16", 16, 0, 0, 0}, {"type 17", 17, 0, 0, 0},
                              {"compression", 0, 1, 0, 0}, {"RDMA", 0, 0, 1, 0},     {"usage 1", 0, 0, 0, 1},
                              {"usage 2", 0, 0, 0, 2},     {"usage 4", 0, 0, 0, 4}};
  for (const Request& request : requests) {
    try_create(std::string("HOST with ") + request.name, with(at_place(CU_MEM_LOCATION_TYPE_HOST, 0), request));
    try_create(std::string("HOST_NUMA with ") + request.name,
               with(at_place(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), request));
  }
}

SECTION("requests") {
  section("memory of a GPU");
  const CUmemAllocationProp good = on_gpu(0);
  CUmemAllocationProp p;
  for (int byte = 0; byte < 4; ++byte) {
    p = good;
    p.allocFlags.reserved[byte] = 1;
    try_create("reserved byte " + std::to_string(byte), p);
  }
  const Request requests[] = {{"compression", 0, 1, 0, 0},
                              {"RDMA", 0, 0, 1, 0},
                              {"RDMA 2", 0, 0, 2, 0},
                              {"compression and RDMA", 0, 1, 1, 0},
                              {"compression, RDMA and fd", fd_type, 1, 1, 0},
                              {"compression and fd", fd_type, 1, 0, 0},
                              {"RDMA and fd", fd_type, 0, 1, 0}};
  for (const Request& request : requests) try_create(request.name, with(good, request));
  for (unsigned types : {16u, 17u, 32u, 33u, 48u, 64u, 0x80000000u, 0x80000001u})
    try_create("handle types " + std::to_string(types), with(good, {"", types, 0, 0, 0}));
  for (unsigned usage : {1u, 2u, 3u, 4u, 5u, 6u, 8u, 256u, 0x8000u, 0xffffu})
    try_create("usage " + std::to_string(usage), with(good, {"", 0, 0, 0, usage}));
  for (unsigned usage : {1u, 2u, 3u, 4u}) {
    const std::string and_usage = " and usage " + std::to_string(usage);
    try_create("fd" + and_usage, with(good, {"", fd_type, 0, 0, usage}));
    try_create("type 16" + and_usage, with(good, {"", 16, 0, 0, usage}));
    try_create("compression" + and_usage, with(good, {"", 0, 1, 0, usage}));
    try_create("RDMA" + and_usage, with(good, {"", 0, 0, 1, usage}));
    try_create("compression, RDMA" + and_usage, with(good, {"", 0, 1, 1, usage}));
  }
  const CUmemAllocationProp tiles = with(good, {"", 0, 0, 0, 1});
  const CUdeviceptr a = reserve(2 * page);
  Handle handle;
  CHECK(cuMemCreate(&handle, 2 * page, &tiles, 0));
  say("map half of usage 1", cuMemMap(a, page, 0, handle, 0));
  say("map the other half of usage 1", cuMemMap(a, page, page, handle, 0));
  say("map all of usage 1", cuMemMap(a, 2 * page, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(a, 2 * page));
}

SECTION("imports") {
  section("imports");
  const Request requests[] = {{"plain", fd_type, 0, 0, 0},       {"RDMA", fd_type, 0, 1, 0},
                              {"compression", fd_type, 1, 0, 0}, {"compression and RDMA", fd_type, 1, 1, 0},
                              {"usage 2", fd_type, 0, 0, 2},     {"type 17", 17, 0, 0, 0}};
  for (const Request& request : requests) {
    const CUmemAllocationProp properties = with(on_gpu(0), request);
    Handle made, back;
    int fd = -1;
    CHECK(cuMemCreate(&made, page, &properties, 0));
    CHECK(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&back, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    std::printf("%s\n", request.name);
    use_and_release(back);
    say_properties(made);
    CHECK(cuMemRelease(made));
    close(fd);
  }
  Handle made, back;
  int fd = -1;
  const CUmemAllocationProp on_host = at_place(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, fd_type);
  if (say("memory of the host, with fd", cuMemCreate(&made, page, &on_host, 0)) == CUDA_SUCCESS) {
    CHECK(cuMemExportToShareableHandle(&fd, made, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    CHECK(cuMemImportFromShareableHandle(&back, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    use_and_release(back);
    CHECK(cuMemRelease(made));
    close(fd);
  }
}

// --- Attributes of addresses --------------------------------------------------------------------------------------

static unsigned long long id_of(CUpointer_attribute what, CUdeviceptr address) {
  unsigned long long id = 0;
  CHECK(cuPointerGetAttribute(&id, what, address));
  return id;
}
static unsigned long long buffer(CUdeviceptr a) { return id_of(CU_POINTER_ATTRIBUTE_BUFFER_ID, a); }
static unsigned long long block(CUdeviceptr a) { return id_of(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, a); }
static void compare(const std::string& what, unsigned long long one, unsigned long long other) {
  say(what, one == other ? "the same" : "different");
}

SECTION("identities") {
  section("identities");
  const CUdeviceptr a = reserve(16 * MiB);
  const Handle handle = create(4 * MiB, 0, fd_type), other = create(4 * MiB);
  for (size_t at : {size_t(0), 4 * MiB}) CHECK(cuMemMap(a + at, 4 * MiB, 0, handle, 0));
  CHECK(cuMemMap(a + 8 * MiB, 4 * MiB, 0, other, 0));
  CHECK(set(a, 12 * MiB, CU_MEM_LOCATION_TYPE_DEVICE, 0, 3));
  compare("buffer and memory block", buffer(a), block(a));
  compare("buffers of a mapping's start and inside", buffer(a), buffer(a + page + 1));
  compare("memory blocks of a mapping's start and inside", block(a), block(a + page + 1));
  compare("buffers of two aliases", buffer(a), buffer(a + 4 * MiB));
  compare("memory blocks of two aliases", block(a), block(a + 4 * MiB));
  compare("buffers of two allocations", buffer(a), buffer(a + 8 * MiB));
  compare("memory blocks of two allocations", block(a), block(a + 8 * MiB));
  const unsigned long long old_buffer = buffer(a + 4 * MiB), old_block = block(a + 4 * MiB);
  CHECK(cuMemUnmap(a + 4 * MiB, 4 * MiB));
  CHECK(cuMemMap(a + 4 * MiB, 4 * MiB, 0, handle, 0));
  compare("buffer before and after it was mapped anew", old_buffer, buffer(a + 4 * MiB));
  compare("memory block before and after it was mapped anew", old_block, block(a + 4 * MiB));
  int fd = -1;
  Handle back;
  CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CHECK(cuMemImportFromShareableHandle(&back, (void*)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CHECK(cuMemMap(a + 12 * MiB, 4 * MiB, 0, back, 0));
  compare("buffers of an allocation and its import", buffer(a), buffer(a + 12 * MiB));
  compare("memory blocks of an allocation and its import", block(a), block(a + 12 * MiB));
  CUdeviceptr plain, small, second;
  CHECK(cuMemAlloc(&plain, 4 * MiB));
  CHECK(cuMemAlloc(&small, 512));
  CHECK(cuMemAlloc(&second, 512));
  compare("buffer and memory block of cuMemAlloc's memory", buffer(plain), block(plain));
  compare("buffers of two small blocks of cuMemAlloc's memory", buffer(small), buffer(second));
  compare("memory blocks of two small blocks of cuMemAlloc's memory", block(small), block(second));
}

// Each attribute of one address, asked for alone and through the call for several, which gives 0 instead of an error.
static void say_attributes(const std::string& name, CUdeviceptr address) {
  for (int what = CU_POINTER_ATTRIBUTE_CONTEXT; what <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; ++what) {
    if (what == CU_POINTER_ATTRIBUTE_P2P_TOKENS || what == CU_POINTER_ATTRIBUTE_BUFFER_ID ||
        what == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID)
      continue;
    auto shown = [&](unsigned long long value) {
      if (value && (what == CU_POINTER_ATTRIBUTE_CONTEXT || what == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE))
        return std::string("something");
      if (value == address && address) return std::string("the address");
      if (value && value < address && address - value < 256 * MiB) return mib(address - value) + " before";
      return std::to_string(value);
    };
    unsigned long long alone = 0, among = 0;
    CUpointer_attribute attribute = CUpointer_attribute(what);
    void* values[] = {&among};
    const CUresult answer = cuPointerGetAttribute(&alone, attribute, address);
    const CUresult among_others = cuPointerGetAttributes(1, &attribute, values, address);
    std::printf("attribute %d of %s: %s; by the other call %s\n", what, name.c_str(),
                answer ? check::name(answer) : shown(alone).c_str(),
                among_others ? check::name(among_others) : shown(among).c_str());
  }
}

SECTION("places") {
  section("attributes of places");
  const CUdeviceptr a = reserve(32 * MiB);
  map_new(a, 4 * MiB);
  map_new(a + 4 * MiB, 4 * MiB, 0);
  const CUdeviceptr gone = reserve(32 * MiB);
  CHECK(cuMemAddressFree(gone, 32 * MiB));
  static int variable;
  say_attributes("a mapping", a + 2 * MiB);
  say_attributes("a mapping without access", a + 6 * MiB);
  say_attributes("a hole", a + 10 * MiB);
  say_attributes("a reservation that is gone", gone + 2 * MiB);
  say_attributes("address 0", 0);
  say_attributes("address 4096", 4096);
  say_attributes("a host variable", CUdeviceptr(&variable));
  cuMemUnmap(a, 8 * MiB);
}

SECTION("host_mapped") {
  section("memory of the host, mapped");
  const CUdeviceptr a = reserve(32 * MiB);
  Handle handle;
  const CUmemAllocationProp properties = at_place(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
  CHECK(cuMemCreate(&handle, 4 * MiB, &properties, 0));
  CHECK(cuMemMap(a + 4 * MiB, 4 * MiB, 0, handle, 0));
  auto say_range = [&](const std::string& when) {
    CUdeviceptr base = 77;
    size_t size = 77;
    const CUresult answer = cuMemGetAddressRange(&base, &size, a + 6 * MiB);
    say("address range, " + when, answer      ? check::name(answer)
                                  : base == 0 ? mib(size) + " from 0"
                                              : mib(size) + " from " + mib(a + 6 * MiB - base) + " before");
    cudaPointerAttributes runtime;
    const cudaError_t error = cudaPointerGetAttributes(&runtime, (void*)(a + 6 * MiB));
    say("cudaPointerGetAttributes, " + when,
        error ? check::name(error)
              : "type " + std::to_string(runtime.type) + ", device " + std::to_string(runtime.device) +
                    (runtime.devicePointer ? ", device pointer" : "") + (runtime.hostPointer ? ", host pointer" : ""));
    say_attributes("it, " + when, a + 6 * MiB);
  };
  say_range("open to nobody");
  say("open it to the GPU", set(a + 4 * MiB, 4 * MiB, CU_MEM_LOCATION_TYPE_DEVICE, 0, 3));
  say_range("open to the GPU");
  say("open it to the host", set(a + 4 * MiB, 4 * MiB, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 3));
  say_range("open to both");
  say("close it to the GPU", set(a + 4 * MiB, 4 * MiB, CU_MEM_LOCATION_TYPE_DEVICE, 0, 0));
  say_range("open to the host");
  say("close it to the host", set(a + 4 * MiB, 4 * MiB, CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 0));
  say_range("open to nobody again");
  say("unmap", cuMemUnmap(a + 4 * MiB, 4 * MiB));
}

// Each part in a process of its own: what goes wrong in one is not carried into the next.
int main(int argc, char** argv) {
  if (argc > 1) {
    std::setvbuf(stdout, nullptr, _IONBF, 0);
    CHECK(cuInit(0));
    CHECK(cudaSetDevice(0));
    for (const Section& part : sections())
      if (part.name == argv[1]) part.run();
    return 0;
  }
  check::require_gpus(1);
  for (const Section& part : sections()) say("end", run_again(part.name));
  std::printf("OK\n");
}
