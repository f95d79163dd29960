// SPDX-License-Identifier: MIT-0
// Attributes of pointers to each kind of memory, set and read back, with a context and without one; and queries that
// fill a list, with room for none, for less, for all and for more, and without a list.
#include "conformance.h"

static std::string number(CUresult answer, long long value) {
  return answer == CUDA_SUCCESS ? brief(answer) + " " + std::to_string(value) : brief(answer);
}

// --- Pointers -------------------------------------------------------------------------------------------------------

struct Kind {
  const char* name;
  CUdeviceptr address;
};

static CUdeviceptr mapped(const CUmemAllocationProp& properties, bool is_open) {
  const CUdeviceptr address = reserve(page);
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, page, &properties, 0));
  CHECK(cuMemMap(address, page, 0, handle, 0));
  CHECK(cuMemRelease(handle));
  const CUmemAccessDesc descriptor = access_of(0);
  if (is_open) CHECK(cuMemSetAccess(address, page, &descriptor, 1));
  return address;
}

static std::vector<Kind> kinds() {
  static char variable[64], registered[2 << 20];
  CUdeviceptr ordinary, managed, of_pool, of_own_pool;
  void* host;
  CHECK(cuMemAlloc(&ordinary, 1 << 16));
  CHECK(cuMemAllocManaged(&managed, 1 << 16, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuMemAllocHost(&host, 1 << 16));
  CHECK(cuMemHostRegister(registered, sizeof registered, 0));
  CHECK(cuMemAllocAsync(&of_pool, 1 << 16, nullptr));
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemoryPool pool;
  CHECK(cuMemPoolCreate(&pool, &properties));
  CHECK(cuMemAllocFromPoolAsync(&of_own_pool, 1 << 16, pool, nullptr));
  CHECK(cuCtxSynchronize());
  CUmemAllocationProp rdma = on_gpu(0), of_host = on_gpu(0);
  rdma.allocFlags.gpuDirectRDMACapable = 1;
  of_host.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
  return {{"cuMemAlloc's", ordinary},
          {"cuMemAlloc's, 8 bytes in", ordinary + 8},
          {"cuMemAllocAsync's", of_pool},
          {"a shareable pool's", of_own_pool},
          {"cuMemAllocHost's", CUdeviceptr(host)},
          {"registered", CUdeviceptr(registered)},
          {"managed", managed},
          {"mapped", mapped(on_gpu(0), true)},
          {"mapped and closed", mapped(on_gpu(0), false)},
          {"mapped for RDMA", mapped(rdma, true)},
          {"mapped of the host", mapped(of_host, true)},
          {"reserved", reserve(page)},
          {"a host variable", CUdeviceptr(variable)},
          {"null", 0}};
}

// Whether the value of an attribute is the same in every run.
static bool is_number(int what) {
  return what == CU_POINTER_ATTRIBUTE_MEMORY_TYPE || what == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
         what == CU_POINTER_ATTRIBUTE_IS_MANAGED || what == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ||
         what == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE || what == CU_POINTER_ATTRIBUTE_MAPPED ||
         what == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE || what == CU_POINTER_ATTRIBUTE_ACCESS_FLAGS ||
         what == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES;
}
static std::string got(int what, CUdeviceptr address) {
  unsigned long long value[4] = {};
  const CUresult answer = cuPointerGetAttribute(value, CUpointer_attribute(what), address);
  return is_number(what) ? number(answer, int(value[0])) : brief(answer);
}

static void begin() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}

SECTION("attributes without a context") {
  begin();
  const std::vector<Kind> all = kinds();
  CHECK(cuCtxSetCurrent(nullptr));
  for (const auto& [name, address] : all)
    for (int what = 1; what <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE; ++what)
      say(std::string(name) + ", attribute " + std::to_string(what), got(what, address));
}
SECTION("attributes that are set") {
  begin();
  for (const auto& [name, address] : kinds()) {
    for (int what = 0; what <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE + 1; ++what) {
      if (what == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) continue;
      unsigned long long value[4] = {1};
      const CUresult answer = cuPointerSetAttribute(value, CUpointer_attribute(what), address);
      if (answer != CUDA_ERROR_INVALID_VALUE) say(std::string(name) + ", attribute " + std::to_string(what), answer);
    }
    std::string said;
    for (const unsigned value : {1u, 0u, 2u, 1u}) {
      const CUresult answer = cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
      said += std::to_string(value) + " " + brief(answer) + ", then " + got(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) +
              "; ";
    }
    say(std::string(name) + ", SYNC_MEMOPS", said);
    say(std::string(name) + ", of null", cuPointerSetAttribute(nullptr, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
    say(std::string(name) + ", P2P_TOKENS", got(CU_POINTER_ATTRIBUTE_P2P_TOKENS, address));
  }
}
SECTION("SYNC_MEMOPS without a context, and of memory that comes after") {
  begin();
  const std::vector<Kind> all = kinds();
  const unsigned one = 1;
  CHECK(cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, all[0].address));
  say("8 bytes in", got(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, all[1].address));
  CHECK(cuMemFree(all[0].address));
  CUdeviceptr next;
  CHECK(cuMemAlloc(&next, 1 << 16));
  say("memory that comes after", got(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, next));
  CHECK(cuCtxSetCurrent(nullptr));
  say("without a context", cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, next));
}
SECTION("SYNC_MEMOPS set, and asked for without a context") {
  begin();
  CUcontext context;
  CHECK(cuCtxGetCurrent(&context));
  for (const auto& [name, address] : kinds()) {
    std::string answers;
    for (const unsigned value : {0u, 1u, 0u}) {
      answers +=
          std::to_string(value) + " " + brief(cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address));
      CHECK(cuCtxSetCurrent(nullptr));
      answers += ", then " + got(CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address) + "; ";
      CHECK(cuCtxSetCurrent(context));
    }
    say(name, answers);
  }
}

// --- Lists ----------------------------------------------------------------------------------------------------------

// A query that fills a list of handles: its answer, how many it says there are, and how many were written.
template <class Query> static void ask(const std::string& what, Query query) {
  for (const size_t room : {size_t(0), size_t(1), size_t(2), size_t(3), size_t(5)})
    for (const bool has_list : {true, false}) {
      void* list[8];
      std::fill(std::begin(list), std::end(list), reinterpret_cast<void*>(-1));
      size_t count = room;
      const CUresult answer = query(has_list ? list : nullptr, &count);
      size_t written = 0, zeros = 0;
      for (void* each : list) written += each != reinterpret_cast<void*>(-1), zeros += each == nullptr;
      say(what + ", room for " + std::to_string(room) + (has_list ? "" : ", no list"),
          brief(answer) + ", count " + std::to_string(count) +
              (has_list ? ", " + std::to_string(written) + " written, " + std::to_string(zeros) + " of them null"
                        : ""));
    }
}

SECTION("lists of graphs") {
  begin();
  CUgraph graph;
  CUgraphNode nodes[3];
  CHECK(cuGraphCreate(&graph, 0));
  for (CUgraphNode& node : nodes) CHECK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  const CUgraphNode from[] = {nodes[0], nodes[1]}, to[] = {nodes[2], nodes[2]};
  CHECK(cuGraphAddDependencies(graph, from, to, nullptr, 2));
  const auto handles = [](void** list) { return reinterpret_cast<CUgraphNode*>(list); };
  ask("cuGraphGetNodes", [&](void** list, size_t* n) { return cuGraphGetNodes(graph, handles(list), n); });
  ask("cuGraphGetRootNodes", [&](void** list, size_t* n) { return cuGraphGetRootNodes(graph, handles(list), n); });
  ask("cuGraphNodeGetDependencies",
      [&](void** list, size_t* n) { return cuGraphNodeGetDependencies(nodes[2], handles(list), nullptr, n); });
  ask("cuGraphNodeGetDependentNodes",
      [&](void** list, size_t* n) { return cuGraphNodeGetDependentNodes(nodes[0], handles(list), nullptr, n); });
  ask("cuGraphGetEdges", [&](void** list, size_t* n) {
    CUgraphNode others[8];
    return cuGraphGetEdges(graph, handles(list), list ? others : nullptr, nullptr, n);
  });
  ask("cuGraphGetNodes of none", [&](void** list, size_t* n) {
    static CUgraph none = nullptr;
    if (!none) CHECK(cuGraphCreate(&none, 0));
    return cuGraphGetNodes(none, handles(list), n);
  });
  say("without a count", cuGraphGetNodes(graph, nodes, nullptr));
}
SECTION("lists of kernels") {
  begin();
  const char text[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry a() { ret; }\n.visible .entry b() { ret; }\n.visible .entry c() { ret; }\n";
  CUmodule module;
  CUlibrary library;
  CHECK(cuModuleLoadData(&module, text));
  CHECK(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  ask("cuModuleEnumerateFunctions", [&](void** list, size_t* n) {
    return cuModuleEnumerateFunctions(reinterpret_cast<CUfunction*>(list), unsigned(*n), module);
  });
  ask("cuLibraryEnumerateKernels", [&](void** list, size_t* n) {
    return cuLibraryEnumerateKernels(reinterpret_cast<CUkernel*>(list), unsigned(*n), library);
  });
  CUdeviceptr address;
  size_t size;
  say("cuModuleGetGlobal of an empty name", cuModuleGetGlobal(&address, &size, module, ""));
  say("cuLibraryGetGlobal of an empty name", cuLibraryGetGlobal(&address, &size, library, ""));
  CUkernel kernel;
  say("cuLibraryGetKernel of an empty name", cuLibraryGetKernel(&kernel, library, ""));
  say("cuLibraryGetManaged of an empty name", cuLibraryGetManaged(&address, &size, library, ""));
}
SECTION("attributes, several at once") {
  begin();
  CUdeviceptr managed;
  CHECK(cuMemAllocManaged(&managed, page, CU_MEM_ATTACH_GLOBAL));
  CUpointer_attribute two[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  CUmem_range_attribute of_range[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION};
  int values[2] = {7, 7};
  void *to[] = {values, values + 1}, *none[] = {values, nullptr};
  size_t sizes[] = {4, 4}, wrong[] = {4, 3};
  say("none of a pointer", cuPointerGetAttributes(0, two, to, managed));
  say("of a pointer, no list", cuPointerGetAttributes(2, nullptr, to, managed));
  say("of a pointer, no values", cuPointerGetAttributes(2, two, nullptr, managed));
  say("of a pointer, one value's address null", cuPointerGetAttributes(2, two, none, managed));
  say("none of a range", cuMemRangeGetAttributes(to, sizes, of_range, 0, managed, page));
  say("of a range, no list", cuMemRangeGetAttributes(to, sizes, nullptr, 2, managed, page));
  say("of a range, no sizes", cuMemRangeGetAttributes(to, nullptr, of_range, 2, managed, page));
  say("of a range, no values", cuMemRangeGetAttributes(nullptr, sizes, of_range, 2, managed, page));
  say("of a range, a wrong size", cuMemRangeGetAttributes(to, wrong, of_range, 2, managed, page));
  for (const size_t size : {size_t(0), size_t(3), size_t(4), size_t(8), size_t(12)}) {
    int accessed[4] = {7, 7, 7, 7};
    const CUresult answer = cuMemRangeGetAttribute(accessed, size, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, managed, page);
    say("accessed by, " + std::to_string(size) + " bytes",
        brief(answer) + ", " + std::to_string(accessed[0]) + " " + std::to_string(accessed[1]));
  }
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
