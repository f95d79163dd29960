// SPDX-License-Identifier: MIT-0
#include "graph_memory.h"

#include <algorithm>
#include <map>

#include "../lasting.h"
#include "../memory/this_machine.h"
#include "contexts.h"
#include "driver.h"
#include "pools.h"
#include "work.h"

namespace driver {
namespace {

// The memory at a place, for instance of a GPU, that graphs use, in bytes, with its watermarks.
struct UseByGraphs {
  CUmemoryPool pool = nullptr;
  uint64_t used = 0, most_used = 0;  // that nodes have allocated, or cuGraphUpload has made ready for them
  uint64_t kept = 0, most_kept = 0;  // that the pool has held for nodes since the last cuDeviceGraphMemTrim
};

struct GraphMemories {
  std::map<PoolPlace, UseByGraphs> pools GUARDED_BY(state().lock);
  Mutex lock;                                                              // taken after that of the graphs
  std::map<uint64_t, std::weak_ptr<GraphMemory>> memory GUARDED_BY(lock);  // by its address
};
GraphMemories& all() { return lasting<GraphMemories>(); }

UseByGraphs& use_of(const PoolPlace& place) REQUIRES(state().lock) {
  UseByGraphs& use = all().pools[place];
  if (use.pool) return use;
  const auto made = make_pool(place);
  use.pool = made.get();
  use.pool->threshold = UINT64_MAX;  // it keeps its memory until cuDeviceGraphMemTrim
  state().pools[use.pool] = made;
  return use;
}

std::shared_ptr<GraphMemory> find_memory(uint64_t address) {
  const MutexLock held(all().lock);
  const auto found = all().memory.find(address);
  return found == all().memory.end() ? nullptr : found->second.lock();
}

uint64_t in_units(uint64_t bytes) { return memory::round_up(bytes, memory::Pool::unit); }

// Memory is used while it is allocated, and from an upload to its next launch.
void set_used(GraphMemory& memory, bool is_used) REQUIRES(graphs().lock) {
  if (is_used == memory.is_used) return;
  memory.is_used = is_used;
  const MutexLock held(state().lock);
  UseByGraphs& use = use_of(memory.pool->place);
  is_used ? use.used += memory.size : use.used -= memory.size;
  use.most_used = std::max(use.most_used, in_units(use.used));
  use.kept = std::max(use.kept, in_units(use.used));
  use.most_kept = std::max(use.most_kept, use.kept);
}

void set_allocated(GraphMemory& memory, bool is_allocated) REQUIRES(graphs().lock) {
  set_used(memory, is_allocated);
  memory.itself = is_allocated ? memory.shared_from_this() : nullptr;
}

// Who gets access to what a node allocates. The host is taken, too, and gets none.
void require_access_descriptor(const CUmemAccessDesc& access) {
  const CUmemLocationType type = access.location.type;
  const int id = access.location.id;  // in newer headers in a union, which cannot be decomposed
  require(type == CU_MEM_LOCATION_TYPE_DEVICE || type == CU_MEM_LOCATION_TYPE_HOST ||
              type == CU_MEM_LOCATION_TYPE_HOST_NUMA,
          "accessDescs: access is a GPU's, the host's or a NUMA node's");
  require(id >= 0 && id < (type == CU_MEM_LOCATION_TYPE_DEVICE ? memory::device_count() : 1), CUDA_ERROR_INVALID_DEVICE,
          "accessDescs: there is no such GPU or NUMA node");
  require(access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE, CUDA_ERROR_NOT_SUPPORTED,
          "accessDescs: access is given, not taken away");
  require(type != CU_MEM_LOCATION_TYPE_DEVICE || memory::machine().peer_access,
          "only GPUs that reach this one get access to its memory");
}

}  // namespace

GraphMemory::GraphMemory(const PoolPlace& place, size_t bytes, CUcontext context) : size(bytes) {
  {
    const MutexLock held(state().lock);
    pool = use_of(place).pool;
    address = pool->memory.allocate(size, nullptr, {context, 0, pool});
  }
}

GraphMemory::~GraphMemory() {
  const MutexLock all_held(all().lock);
  all().memory.erase(address);
  const MutexLock held(state().lock);
  if (is_used) use_of(pool->place).used -= size;
  const auto range = memory::find(address);  // its context may have ended
  if (range && range->owner.pool == pool && range->range_base == address) pool->memory.free(address, nullptr, nullptr);
}

SharedWork allocation_work(const PoolPlace& place, size_t size) {
  const auto [type, location, id] = place;
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
  CUDA_MEM_ALLOC_NODE_PARAMS_v2& alloc = work->given.alloc;
  alloc.poolProps.allocType = CUmemAllocationType(type);
  alloc.poolProps.location = driver::location(CUmemLocationType(location), id);
  alloc.bytesize = size;
  const auto memory = std::make_shared<GraphMemory>(place, size, current());
  work->payload = memory;
  alloc.dptr = memory->address;
  const MutexLock held(all().lock);
  all().memory[alloc.dptr] = memory;
  return work;
}

SharedWork allocation_work(CUDA_MEM_ALLOC_NODE_PARAMS_v2& given) {
  const CUmemPoolProps& properties = given.poolProps;
  const PoolPlace place = checked_place(properties.location, properties.allocType);
  require(place == on_gpu(properties.location.id) || !properties.handleTypes,
          "handleTypes: only pinned memory of a GPU may have some");
  require(properties.location.type == CU_MEM_LOCATION_TYPE_DEVICE, CUDA_ERROR_NOT_SUPPORTED,
          "a node allocates memory of a GPU");
  if (given.accessDescCount) require_non_null(given.accessDescs, "accessDescs");
  for (size_t i = 0; i < given.accessDescCount; ++i) require_access_descriptor(given.accessDescs[i]);
  require(!properties.handleTypes, CUDA_ERROR_NOT_SUPPORTED,
          "a node allocates memory that other processes cannot import: handleTypes must be 0");
  require(given.bytesize, "bytesize is 0");
  SharedWork work = allocation_work(place, given.bytesize);
  {
    const MutexLock held(state().lock);
    for (size_t i = 0; i < given.accessDescCount; ++i)
      if (const auto& [location, flags] = given.accessDescs[i]; location.type == CU_MEM_LOCATION_TYPE_DEVICE)
        work->memory()->pool->memory.open(location.id, flags);
  }
  given.dptr = work->memory()->address;
  return work;
}

SharedWork free_work(const CUDA_MEM_FREE_NODE_PARAMS& given) {
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_MEM_FREE;
  work->given.free = given;
  work->payload = find_memory(given.dptr);
  require(work->memory() != nullptr,
          "a graph frees only what a node of a graph has allocated, and dptr is no such address");
  return work;
}

bool awaits_launch(uint64_t address) {
  const auto range = memory::find(address);
  if (!range || !range->owner.pool) return false;
  const auto found = find_memory(range->range_base);
  const MutexLock held(graphs().lock);
  return found && !found->itself;
}

bool free_graph_memory(uint64_t address) {
  const auto found = find_memory(address);
  if (!found) return false;
  const MutexLock held(graphs().lock);
  require(found->itself != nullptr,
          "a node of a graph allocates this memory, and no launch has, or it was freed since");
  found->itself = nullptr;  // it counts as used until cuDeviceGraphMemTrim, as on the H200
  return true;
}

void allocate_and_free(const std::vector<SharedWork>& nodes, bool frees_first) {
  std::map<std::shared_ptr<GraphMemory>, bool> is_allocated;
  for (const SharedWork& work : nodes) {
    if (!work || !work->memory()) continue;
    const auto [found, is_new] = is_allocated.try_emplace(work->memory(), work->memory()->itself != nullptr);
    const bool allocates = work->given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    const bool may_be = !allocates || (frees_first && is_new);
    require(found->second != allocates || may_be,
            "memory that the graph allocates is still allocated since an earlier launch: free it before, or "
            "instantiate with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH");
    require(found->second || allocates,
            "the graph frees memory that is not allocated: launch the graph that allocates it first");
    found->second = allocates;
  }
  for (const auto& [memory, now] : is_allocated) set_used(*memory, true);
  for (const auto& [memory, now] : is_allocated) set_allocated(*memory, now);
}

void set_ready(const Work& work, bool is_ready) {
  if (work.given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !work.memory()->itself) set_used(*work.memory(), is_ready);
}

static cuuint64_t* number(void* value) { return static_cast<cuuint64_t*>(value); }

void use_attribute(CUdevice device, CUgraphMem_attribute attribute, void* value, bool sets) {
  checked(device);
  require_non_null(value, "value");
  const MutexLock held(state().lock);
  UseByGraphs& use = use_of(on_gpu(device));
  const bool is_highest =
      attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  require(!sets || is_highest, read_only_attribute);
  require(!sets || !*number(value), "a watermark can only be set to 0");
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT: *number(value) = in_units(use.used); return;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT: *number(value) = use.kept; return;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      if (sets) use.most_used = in_units(use.used);
      else *number(value) = use.most_used;
      return;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      if (sets) use.most_kept = use.kept;
      else *number(value) = use.most_kept;
      return;
    default: refuse(no_such_attribute);
  }
}

void trim_graph_memory(CUdevice device) {
  checked(device);
  const MutexLock held(graphs().lock);
  std::vector<std::shared_ptr<GraphMemory>> there;
  {
    const MutexLock all_held(all().lock);
    for (const auto& [address, memory] : all().memory) there.push_back(memory.lock());
  }
  for (const auto& memory : there)
    if (memory && !memory->itself) set_used(*memory, false);
  const MutexLock state_held(state().lock);
  for (auto& [place, use] : all().pools) {
    if (std::get<2>(place) != device) continue;
    use.pool->memory.trim(0);
    use.kept = in_units(use.used);
  }
}

}  // namespace driver
