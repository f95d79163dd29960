// SPDX-License-Identifier: MIT-0
// Pools of managed memory and of the host's: what is created, what their memory is, which of them a place has.
#include "places.h"

static const char* const types[] = {"type 0", "pinned", "managed", "type 3"};

static CUmemoryPool usual[4][std::size(places)];  // the defaults, once they are known

static CUmemPoolProps properties(int type, const CUmemLocation& where, unsigned handles = 0) {
  CUmemPoolProps made = {};
  made.allocType = CUmemAllocationType(type);
  made.location = where;
  made.handleTypes = CUmemAllocationHandleType(handles);
  return made;
}
static CUresult make(CUmemoryPool* pool, int type, const CUmemLocation& where, unsigned handles = 0) {
  const CUmemPoolProps given = properties(type, where, handles);
  return cuMemPoolCreate(pool, &given);
}

SECTION("created") {
  begin();
  for (int type = 0; type < 4; ++type) {
    for (const Place& each : places) {
      CUmemoryPool pool;
      say(std::string(types[type]) + ", " + each.name, make(&pool, type, each.location));
    }
  }
  for (const unsigned handles : {1u, 2u, 4u, 8u, 9u, 16u}) {
    CUmemoryPool pool;
    const std::string after = ", handle types " + std::to_string(handles);
    say("pinned, the GPU" + after, make(&pool, 1, places[0].location, handles));
    say("managed, the GPU" + after, make(&pool, 2, places[0].location, handles));
    say("pinned, the host" + after, make(&pool, 1, places[3].location, handles));
    say("pinned, node 0" + after, make(&pool, 1, places[5].location, handles));
  }
  struct {
    const char* what;
    size_t most;
    unsigned short usage;
    unsigned char reserved;
    void* windows;
  } const odd[] = {{"1 byte at most", 1, 0, 0, nullptr},
                   {"1 PiB at most", size_t(1) << 50, 0, 0, nullptr},
                   {"usage 1", 0, 1, 0, nullptr},
                   {"usage 2", 0, 2, 0, nullptr},
                   {"usage 4", 0, 4, 0, nullptr},
                   {"reserved bytes", 0, 0, 1, nullptr},
                   {"attributes of Windows", 0, 0, 0, usual}};
  for (const auto& each : odd) {
    for (const int type : {1, 2}) {
      CUmemPoolProps given = properties(type, places[0].location);
      given.maxSize = each.most, given.usage = each.usage, given.win32SecurityAttributes = each.windows;
      given.reserved[0] = each.reserved;
      CUmemoryPool pool;
      say(std::string(types[type]) + ", the GPU, " + each.what, cuMemPoolCreate(&pool, &given));
    }
  }
}

static std::string attribute(CUmemoryPool pool, CUmemPool_attribute what) {
  cuuint64_t value = 0;
  const CUresult result = cuMemPoolGetAttribute(pool, what, &value);
  return with(result, value);
}
static std::string of_pointer(CUpointer_attribute what, CUdeviceptr address) {
  cuuint64_t value = 0;
  const CUresult result = cuPointerGetAttribute(&value, what, address);
  return with(result, value);
}
static std::string access(CUmemoryPool pool, CUmemLocation where) {
  CUmemAccess_flags flags = {};
  const CUresult result = cuMemPoolGetAccess(&flags, pool, &where);
  return with(result, int(flags));
}

static void print_memory(CUmemoryPool pool, CUdeviceptr address) {
  const std::pair<const char*, CUpointer_attribute> asked[] = {
      {"memory type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
      {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
      {"device", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
      {"legacy IPC", CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE},
      {"size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
      {"mapped", CU_POINTER_ATTRIBUTE_MAPPED},
      {"handle types", CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES},
      {"RDMA", CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE},
      {"access", CU_POINTER_ATTRIBUTE_ACCESS_FLAGS},
      {"sync memops", CU_POINTER_ATTRIBUTE_SYNC_MEMOPS}};
  for (const auto& [name, what] : asked) say(std::string("its ") + name, of_pointer(what, address));
  CUdeviceptr found = 0;
  CUmemoryPool its = nullptr;
  CUcontext context = nullptr;
  CUresult result = cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_HOST_POINTER, address);
  say("its address for the host", with(result, found == address));
  result = cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address);
  say("its address for the device", with(result, found == address));
  result = cuPointerGetAttribute(&its, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address);
  say("its pool", with(result, its == pool));
  result = cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, address);
  say("its context", with(result, context != nullptr));
  unsigned flags = 0;
  result = cuMemHostGetFlags(&flags, reinterpret_cast<void*>(address));
  say("its flags as host memory", with(result, flags));
  result = cuMemHostGetDevicePointer(&found, reinterpret_cast<void*>(address), 0);
  say("its address by cuMemHostGetDevicePointer", with(result, found == address));
}

static void use(int type, const CUmemLocation& where) {
  CUmemoryPool pool = nullptr;
  CUdeviceptr address = 0;
  begin();
  if (say("create", make(&pool, type, where))) return;
  say("allocate 0 bytes", cuMemAllocFromPoolAsync(&address, 0, pool, a_stream));
  if (say("allocate 1000 bytes", cuMemAllocFromPoolAsync(&address, 1000, pool, a_stream))) return;
  CHECK(cuStreamSynchronize(a_stream));
  print_memory(pool, address);
  for (int what = 1; what <= 8; ++what) {
    say("attribute " + std::to_string(what), attribute(pool, CUmemPool_attribute(what)));
  }
  for (const Place& each : places) say(std::string("access of ") + each.name, access(pool, each.location));
  for (const Place& each : places) {
    for (const int flags : {0, 1, 3}) {
      CUmemAccessDesc given = {each.location, CUmemAccess_flags(flags)};
      say("give " + std::string(each.name) + " access " + std::to_string(flags), cuMemPoolSetAccess(pool, &given, 1));
    }
  }
  say("access of the GPU", access(pool, places[0].location));
  say("memset", cuMemsetD8Async(address, 7, 1000, a_stream));
  say("synchronize", cuStreamSynchronize(a_stream));
  int descriptor = -1;
  say("export", cuMemPoolExportToShareableHandle(&descriptor, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemPoolPtrExportData data;
  say("export the memory", cuMemPoolExportPointer(&data, address));
  say("make it the GPU's pool", cuDeviceSetMemPool(0, pool));
  CUdeviceptr large = 0;
  say("allocate 2^50 bytes", cuMemAllocFromPoolAsync(&large, size_t(1) << 50, pool, a_stream));
  if (say("allocate 3 MiB", cuMemAllocFromPoolAsync(&large, 3 * MiB, pool, a_stream))) return;
  if (type == 2 || where.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    CHECK(cuStreamSynchronize(a_stream));
    *reinterpret_cast<volatile int*>(large) = 5;
    say("the host writes and reads", std::to_string(*reinterpret_cast<volatile int*>(large)));
  }
  say("free it by cuMemFree", cuMemFree(large));
  say("free by cuMemFreeHost", cuMemFreeHost(reinterpret_cast<void*>(address)));
  say("free", cuMemFreeAsync(address, a_stream));
  say("free again", cuMemFreeAsync(address, a_stream));
  CHECK(cuStreamSynchronize(a_stream));
  say("trim", cuMemPoolTrimTo(pool, 0));
  say("reserved", attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  say("used", attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  say("destroy", cuMemPoolDestroy(pool));
}
SECTION("pinned, the GPU") { use(1, places[0].location); }
SECTION("pinned, the host") { use(1, places[3].location); }
SECTION("pinned, node 0") { use(1, places[5].location); }
SECTION("managed, the GPU") { use(2, places[0].location); }
SECTION("managed, the host") { use(2, places[3].location); }
SECTION("managed, node 0") { use(2, places[5].location); }
SECTION("managed, nowhere") { use(2, places[9].location); }

// Which pool a place has.
static std::string which(CUmemoryPool pool) {
  CUmemoryPool of_gpu = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&of_gpu, 0));
  if (pool == of_gpu) return "the GPU's default";
  for (int type = 0; type < 4; ++type) {
    for (size_t i = 0; i < std::size(places); ++i) {
      if (pool && usual[type][i] == pool) return std::string("the default, ") + types[type] + ", " + places[i].name;
    }
  }
  return pool ? "another" : "null";
}
static std::string in_use(int type, CUmemLocation where) {
  CUmemoryPool pool = nullptr;
  const CUresult result = cuMemGetMemPool(&pool, &where, CUmemAllocationType(type));
  return plain(result) + (result ? "" : ", " + which(pool));
}
SECTION("defaults") {
  begin();
  for (int type = 0; type < 4; ++type) {
    for (size_t i = 0; i < std::size(places); ++i) {
      CUmemLocation where = places[i].location;
      CUmemoryPool found = nullptr;
      const CUresult result = cuMemGetDefaultMemPool(&found, &where, CUmemAllocationType(type));
      const std::string before = plain(result) + (result ? "" : ", " + which(found));
      say(std::string("default, ") + types[type] + ", " + places[i].name, before);
      if (!result) usual[type][i] = found;
      say(std::string("in use, ") + types[type] + ", " + places[i].name, in_use(type, where));
    }
  }
  for (int type = 1; type < 3; ++type) {
    for (size_t i = 0; i < std::size(places); ++i) {
      if (!usual[type][i] || (type == 1 && i == 0)) continue;
      const std::string of = std::string("the default, ") + types[type] + ", " + places[i].name + ": ";
      CUdeviceptr address = 0;
      say(of + "allocate", cuMemAllocFromPoolAsync(&address, 1000, usual[type][i], a_stream));
      say(of + "free", cuMemFreeAsync(address, a_stream));
      say(of + "destroy", cuMemPoolDestroy(usual[type][i]));
      say(of + "threshold", attribute(usual[type][i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
    }
  }
}
SECTION("set") {
  begin();
  CUmemoryPool pools[5] = {};
  const char* names[] = {"pinned, the GPU", "pinned, the host", "pinned, node 0", "managed, the GPU",
                         "managed, nowhere"};
  const std::pair<int, int> made[] = {{1, 0}, {1, 3}, {1, 5}, {2, 0}, {2, 9}};
  for (size_t i = 0; i < 5; ++i) say(names[i], make(&pools[i], made[i].first, places[made[i].second].location));
  for (size_t i = 0; i < 5; ++i) {
    if (!pools[i]) continue;
    for (int type = 0; type < 3; ++type) {
      for (const Place& each : places) {
        CUmemLocation where = each.location;
        say("set, " + std::string(types[type]) + ", " + each.name + ": " + names[i],
            cuMemSetMemPool(&where, CUmemAllocationType(type), pools[i]));
      }
    }
    CUmemLocation where = places[made[i].second].location;
    CUmemoryPool found = nullptr;
    CUresult result = cuMemGetMemPool(&found, &where, CUmemAllocationType(made[i].first));
    say("in use then", with(result, found == pools[i]));
    result = cuDeviceGetMemPool(&found, 0);
    say("the GPU's then", with(result, found == pools[i]));
    say("destroy", cuMemPoolDestroy(pools[i]));
    say("in use then", in_use(made[i].first, where));
  }
  CUmemLocation where = places[0].location;
  say("set null", cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_PINNED, nullptr));
  CUmemoryPool usual_pool = nullptr;
  CHECK(cuDeviceGetDefaultMemPool(&usual_pool, 0));
  say("set the default", cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_PINNED, usual_pool));
  say("set the default for managed memory", cuMemSetMemPool(&where, CU_MEM_ALLOCATION_TYPE_MANAGED, usual_pool));
}

SECTION("nodes") {
  begin();
  for (int type = 0; type < 4; ++type) {
    for (const Place& each : places) {
      CUgraph graph;
      CUgraphNode node, freeing;
      CUgraphExec exec;
      CHECK(cuGraphCreate(&graph, 0));
      CUDA_MEM_ALLOC_NODE_PARAMS given = {};
      given.poolProps = properties(type, each.location);
      given.bytesize = 1000;
      if (say(std::string(types[type]) + ", " + each.name, cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &given))) {
        continue;
      }
      say("managed", of_pointer(CU_POINTER_ATTRIBUTE_IS_MANAGED, given.dptr));
      say("memory type", of_pointer(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, given.dptr));
      say("freed by a node", cuGraphAddMemFreeNode(&freeing, graph, &node, 1, given.dptr));
      say("instantiate", cuGraphInstantiate(&exec, graph, 0));
      say("launch", cuGraphLaunch(exec, a_stream));
      say("synchronize", cuStreamSynchronize(a_stream));
    }
  }
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
