// SPDX-License-Identifier: MIT-0
#include "world.h"

#include <sys/mman.h>

#include <atomic>
#include <cstring>

#include "ptx_texts.h"

World world;

namespace {
void must(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) std::printf("to set up, %s: %s\n", what, name_of(result));
}
#define MUST(...) must((__VA_ARGS__), #__VA_ARGS__)

void set_up_memory() {
  MUST(cuMemAlloc(&world.memory, memory_size));
  MUST(cuMemAlloc(&world.words, 4 * KiB));
  MUST(cuMemsetD8(world.words, 0, 4 * KiB));
  MUST(cuMemsetD8(world.words + 2 * KiB, 0xff, 2 * KiB));
  MUST(cuMemAddressReserve(&world.hole, 2 * MiB, 0, 0, 0));
  MUST(cuMemAllocManaged(&world.steady_managed, 64 * KiB, CU_MEM_ATTACH_GLOBAL));
  MUST(cuMemAllocHost(reinterpret_cast<void**>(&world.pinned), pinned_size));
  std::memset(world.pinned, 0, pinned_size);
  world.pageable = static_cast<char*>(
      mmap(nullptr, pageable_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
  MUST(cuMemHostAlloc(&world.host[0], 64 * KiB, CU_MEMHOSTALLOC_DEVICEMAP));
  MUST(cuMemAllocHost(&world.host[1], 4 * KiB));
  world.managed[0].size = 4 * MiB;
  MUST(cuMemAllocManaged(&world.managed[0].address, 4 * MiB, CU_MEM_ATTACH_GLOBAL));
  world.managed[1].size = 64 * KiB;
  MUST(cuMemAllocManaged(&world.managed[1].address, 64 * KiB, CU_MEM_ATTACH_HOST));
}

void set_up_pools() {
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  MUST(cuMemPoolCreate(&world.pools[0], &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  MUST(cuMemPoolCreate(&world.pools[1], &properties));
  properties.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  properties.location = {CU_MEM_LOCATION_TYPE_HOST, 0};
  MUST(cuMemPoolCreate(&world.pools[2], &properties));
  properties.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  MUST(cuMemPoolCreate(&world.pools[3], &properties));
  for (std::size_t i = 0; i < 5; ++i) {
    Block& block = world.allocations[i];
    block.size = i % 2 ? MiB : 512;
    MUST(i < 3 ? cuMemAllocAsync(&block.address, block.size, world.streams[0])
               : cuMemAllocFromPoolAsync(&block.address, block.size, world.pools[i - 3], world.streams[0]));
  }
}

void set_up_code() {
  MUST(cuModuleLoadData(&world.base, base_ptx));
  for (std::size_t i = 0; i < base_names.size(); ++i) {
    MUST(cuModuleGetFunction(&world.functions[i], world.base, base_names[i]));
  }
  CUmodule clusters;
  if (cuModuleLoadData(&clusters, cluster_ptx) == CUDA_SUCCESS) {
    MUST(cuModuleGetFunction(&world.functions[6], clusters, "two_wide"));
    MUST(cuModuleGetFunction(&world.functions[7], clusters, "some_cluster"));
  }
  MUST(cuLibraryLoadData(&world.base_library, base_ptx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  for (std::size_t i = 0; i < 2; ++i) {
    MUST(cuModuleLoadData(&world.modules[i], codes[2 + i].text));
    MUST(cuLibraryLoadData(&world.libraries[i], codes[2 + i].text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  }
  for (std::size_t i = 0; i < world.kernels.size(); ++i) {
    MUST(cuLibraryGetKernel(&world.kernels[i], world.base_library, base_names[i]));
  }
}

// A graph of one node of each usual kind in a row, one with memory nodes, and empty ones.
void set_up_graphs() {
  for (std::size_t i = 0; i < 5; ++i) MUST(cuGraphCreate(&world.graphs[i].handle, 0));
  const CUgraph graph = world.graphs[0].handle;
  auto& nodes = world.nodes;
  CUDA_KERNEL_NODE_PARAMS kernel = {world.functions[0], 1,       1,       1,      32, 1, 1, 0,
                                    kernel_arguments(), nullptr, nullptr, nullptr};
  CUDA_MEMCPY3D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = world.memory, copy.dstDevice = world.memory + MiB;
  copy.WidthInBytes = 64, copy.Height = copy.Depth = 1;
  const CUDA_MEMSET_NODE_PARAMS set = {world.memory, 0, 7, 4, 16, 1};
  const CUDA_HOST_NODE_PARAMS host = {host_function, nullptr};
  CUDA_MEM_ALLOC_NODE_PARAMS allocation = {};
  allocation.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  allocation.bytesize = MiB;
  MUST(cuGraphAddEmptyNode(&nodes[0].handle, graph, nullptr, 0));
  MUST(cuGraphAddKernelNode(&nodes[1].handle, graph, &nodes[0].handle, 1, &kernel));
  MUST(cuGraphAddMemcpyNode(&nodes[2].handle, graph, &nodes[1].handle, 1, &copy, world.context));
  MUST(cuGraphAddMemsetNode(&nodes[3].handle, graph, &nodes[2].handle, 1, &set, world.context));
  MUST(cuGraphAddHostNode(&nodes[4].handle, graph, &nodes[3].handle, 1, &host));
  MUST(cuGraphAddEventRecordNode(&nodes[5].handle, graph, &nodes[4].handle, 1, world.events[0]));
  for (std::size_t i = 0; i < 6; ++i) nodes[i].graph = 0;
  MUST(cuGraphAddMemAllocNode(&nodes[6].handle, world.graphs[1].handle, nullptr, 0, &allocation));
  MUST(cuGraphAddMemFreeNode(&nodes[7].handle, world.graphs[1].handle, &nodes[6].handle, 1, allocation.dptr));
  MUST(cuGraphAddKernelNode(&nodes[8].handle, world.graphs[2].handle, nullptr, 0, &kernel));
  MUST(cuGraphAddMemAllocNode(&nodes[9].handle, world.graphs[3].handle, nullptr, 0, &allocation));
  world.allocations[9] = {allocation.dptr, MiB};
  nodes[6].graph = nodes[7].graph = 1, nodes[8].graph = 2, nodes[9].graph = 3;
  for (std::size_t i = 0; i < 3; ++i) MUST(cuGraphInstantiate(&world.execs[i], world.graphs[i].handle, 0));
}
}  // namespace

void set_up() {
  MUST(cuInit(0));
  MUST(cuDeviceGet(&world.gpu, 0));
  MUST(cuDevicePrimaryCtxRetain(&world.context, world.gpu));
  MUST(cuCtxSetCurrent(world.context));
  set_up_memory();
  MUST(cuStreamCreate(&world.streams[0], CU_STREAM_DEFAULT));
  MUST(cuStreamCreate(&world.streams[1], CU_STREAM_NON_BLOCKING));
  MUST(cuStreamCreateWithPriority(&world.streams[2], CU_STREAM_DEFAULT, -1));
  MUST(cuStreamCreate(&world.streams[3], CU_STREAM_NON_BLOCKING));
  const unsigned flags[] = {CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING, CU_EVENT_BLOCKING_SYNC,
                            CU_EVENT_DEFAULT, CU_EVENT_DEFAULT,        CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS};
  for (std::size_t i = 0; i < std::size(flags); ++i) MUST(cuEventCreate(&world.events[i], flags[i]));
  set_up_pools();
  set_up_code();
  set_up_graphs();
  MUST(cuCtxSynchronize());
}

Argument<CUstream> any_stream(Random& random) {
  const std::size_t which = random.below(100);
  const std::size_t index = any_of(random, world.streams);
  if (which < 6) return {nullptr, "stream null"};
  if (which < 10) return {CU_STREAM_LEGACY, "stream legacy"};
  if (which < 14) return {CU_STREAM_PER_THREAD, "stream per thread"};
  return {world.streams[index], place("stream", index)};
}

Argument<CUevent> any_event(Random& random) {
  const std::size_t index = any_of(random, world.events);
  return {world.events[index], place("event", index)};
}

Argument<CUevent> steady_event(Random& random) {
  const std::size_t index = random.below(4);
  if (random.percent(3)) return {nullptr, "event null"};
  return {world.events[index], place("event", index)};
}

Argument<CUfunction> any_function(Random& random) {
  const std::size_t index = random.below(world.functions.size() + world.kernels.size());
  if (random.percent(2)) return {nullptr, "function null"};
  if (index < world.functions.size()) return {world.functions[index], std::string("function ") + function_names[index]};
  const std::size_t kernel = index - world.functions.size();
  return {reinterpret_cast<CUfunction>(world.kernels[kernel]), std::string("kernel ") + base_names[kernel]};
}

Argument<CUmemLocation> any_location(Random& random) {
  static constexpr CUmemLocation good[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
  static constexpr CUmemLocation other[] = {{CU_MEM_LOCATION_TYPE_DEVICE, 99},
                                            {CU_MEM_LOCATION_TYPE_DEVICE, -1},
                                            {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0},
                                            {CU_MEM_LOCATION_TYPE_HOST_NUMA, 99},
                                            {CU_MEM_LOCATION_TYPE_HOST_NUMA, -1},
                                            {CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0},
                                            {CU_MEM_LOCATION_TYPE_HOST, 7},
                                            {CU_MEM_LOCATION_TYPE_NONE, 0},
                                            {CUmemLocationType(9), 0}};
  static constexpr const char* names[] = {"none", "device", "host", "numa", "numa current"};
  const bool usual = random.percent(60);
  const CUmemLocation found = usual ? good[random.below(std::size(good))] : other[random.below(std::size(other))];
  const std::string type = found.type < 5 ? names[found.type] : "type 9";
  return {found, type + ":" + std::to_string(found.id)};
}

Argument<CUdeviceptr> any_memory(Random& random, std::size_t alignment) {
  const std::size_t which = random.below(100);
  const std::size_t offset = random.below(16) * alignment;
  const std::string after = "+" + std::to_string(offset);
  if (which < 60) return {world.memory + offset, "memory" + after};
  if (which < 75) return {reinterpret_cast<CUdeviceptr>(world.pinned) + offset, "pinned" + after};
  if (which < 90) return {world.steady_managed + offset, "managed" + after};
  return {world.hole + offset, "hole" + after};
}

Argument<void*> steady_host(Random& random) {
  const std::size_t offset = random.below(16);
  const bool is_pinned = random.percent(60);
  // The end of it, which nobody registers.
  char* from = is_pinned ? world.pinned : world.pageable + pageable_size - 64 * KiB;
  return {from + offset, (is_pinned ? "pinned+" : "pageable+") + std::to_string(offset)};
}

Shape any_shape(Random& random) {
  Shape made = {{1, 1, 1}, {32, 1, 1}, 0, ""};
  made.grid[0] = choose<unsigned>(random, {1, 2, 4, 100}, {0, 3, 300, 0x80000000u, ~0u}, 15).value;
  if (random.percent(15)) made.grid[1] = choose<unsigned>(random, {1, 2, 6}, {0, 65535, 65536}, 40).value;
  if (random.percent(10)) made.grid[2] = choose<unsigned>(random, {1, 2}, {0, 65536}, 40).value;
  made.block[0] = choose<unsigned>(random, {1, 32, 64, 128}, {0, 33, 256, 512, 1024, 1025, 2048}, 30).value;
  if (random.percent(20)) made.block[1] = choose<unsigned>(random, {1, 2, 4}, {0, 16, 1025}, 30).value;
  if (random.percent(10)) made.block[2] = choose<unsigned>(random, {1, 2}, {0, 64, 65}, 40).value;
  if (made.grid[1] == 65535) made.grid[0] = made.grid[2] = 1, made.block[0] = 32, made.block[1] = made.block[2] = 1;
  made.shared =
      choose<unsigned>(random, {0, 0, 0, 1024}, {1, 9152, 9153, 48 * 1024, 49153, 100000, 232448, 232449, 1u << 30}, 25)
          .value;
  for (unsigned size : made.grid) made.text += std::to_string(size) + ".";
  made.text.back() = ' ';
  for (unsigned size : made.block) made.text += std::to_string(size) + ".";
  made.text.back() = ' ';
  made.text += std::to_string(made.shared);
  return made;
}

void** kernel_arguments() {
  static unsigned value = 5;
  static void* arguments[] = {&world.memory, &value};
  return arguments;
}

namespace {
std::atomic<unsigned> host_calls;
}

void settle() {
  std::vector<CUstream> streams(world.streams.begin(), world.streams.end());
  streams.push_back(CU_STREAM_PER_THREAD);
  for (CUstream stream : streams) {
    CUstreamCaptureStatus status = {};
    if (stream && (cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != CU_STREAM_CAPTURE_STATUS_NONE)) {
      return;
    }
  }
  cuCtxSynchronize();
}

void host_function(void*) { ++host_calls; }
