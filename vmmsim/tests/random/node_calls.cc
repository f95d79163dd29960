// SPDX-License-Identifier: MIT-0
// Nodes that are added to graphs; nodes that allocate and free memory.
#include <cstring>

#include "node_parameters.h"

namespace {
using R = Random;

std::string copy_side(R& random, CUmemorytype& type, CUdeviceptr& device, const void*& host) {
  if (random.percent(70)) {
    const auto memory = any_memory(random);
    type = random.percent(90) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_UNIFIED;
    device = memory.value;
    return (type == CU_MEMORYTYPE_DEVICE ? "device " : "unified ") + memory.text;
  }
  const auto memory = steady_host(random);
  type = CU_MEMORYTYPE_HOST;
  host = memory.value;
  return "host " + memory.text;
}
}  // namespace

KernelParameters::KernelParameters(R& random) {
  const auto function = any_function(random);
  const Shape shape = any_shape(random);
  value.func = function.value;
  value.gridDimX = shape.grid[0], value.gridDimY = shape.grid[1], value.gridDimZ = shape.grid[2];
  value.blockDimX = shape.block[0], value.blockDimY = shape.block[1], value.blockDimZ = shape.block[2];
  value.sharedMemBytes = shape.shared;
  value.kernelParams = kernel_arguments();
  text = function.text + " " + shape.text;
}

CopyParameters::CopyParameters(R& random) {
  const void* to = nullptr;
  const std::string destination = copy_side(random, value.dstMemoryType, value.dstDevice, to);
  const std::string source = copy_side(random, value.srcMemoryType, value.srcDevice, value.srcHost);
  value.dstHost = const_cast<void*>(to);
  const auto width = choose<std::size_t>(random, {4, 64, 1000}, {0}, 8);
  const auto height = choose<std::size_t>(random, {1, 1, 2}, {0}, 8);
  const auto depth = choose<std::size_t>(random, {1, 1, 1}, {0, 2}, 10);
  value.WidthInBytes = width.value, value.Height = height.value, value.Depth = depth.value;
  if (height.value > 1 || depth.value > 1) {
    value.srcPitch = value.dstPitch = random.percent(90) ? 1024 : 2;
    value.srcHeight = value.dstHeight = random.percent(90) ? 2 : 1;
  }
  text = destination + " from " + source + " " + width.text + "." + height.text + "." + depth.text + " " +
         std::to_string(value.srcPitch) + "." + std::to_string(value.srcHeight);
}

MemsetParameters::MemsetParameters(R& random) {
  const auto size = choose<unsigned>(random, {1, 2, 4}, {0, 3, 8}, 10);
  const auto memory = any_memory(random, random.percent(85) ? 4 : 1);
  const auto width = choose<std::size_t>(random, {1, 16, 100}, {0}, 10);
  const auto height = choose<std::size_t>(random, {1, 1, 3}, {0}, 8);
  const auto pitch = choose<std::size_t>(random, {512}, {0, 3, 30}, 15);
  value = {memory.value, pitch.value, 77, size.value, width.value, height.value};
  text = memory.text + " " + size.text + " " + width.text + "." + height.text + " pitch " + pitch.text;
}

HostParameters::HostParameters(R& random) {
  const bool has = random.percent(93);
  value = {has ? host_function : nullptr, nullptr};
  text = has ? "function" : "null";
}

AllocationParameters::AllocationParameters(R& random) {
  const auto type = choose<int>(random, {1, 1, 1, 2}, {0, 5}, 8);
  const auto place_of_it =
      random.percent(75) ? shown<CUmemLocation>({CU_MEM_LOCATION_TYPE_DEVICE, 0}, "device:0") : any_location(random);
  const auto handle = choose<int>(random, {0}, {1, 8}, 8);
  const auto size = choose<std::size_t>(random, {1, 1000, 2 * MiB, 3 * MiB}, {0, std::size_t(1) << 50}, 10);
  value.poolProps.allocType = CUmemAllocationType(type.value);
  value.poolProps.location = place_of_it.value;
  value.poolProps.handleTypes = CUmemAllocationHandleType(handle.value);
  value.bytesize = size.value;
  text = "type " + type.text + " " + place_of_it.text + " handle " + handle.text + " " + size.text;
  if (random.percent(15)) {
    const auto where = any_location(random);
    access = {where.value, random.percent(80) ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE};
    value.accessDescs = &access;
    value.accessDescCount = 1;
    text += " access " + where.text + " " + std::to_string(access.flags);
  }
}

namespace {
// Where a node comes to be, and after which others: mostly of the same graph.
struct Place {
  explicit Place(R& random) : graph(any_of(random, world.graphs)), index(any_of(random, world.nodes)) {
    const bool right = random.percent(93);
    for (std::size_t wanted = random.below(3), tries = 0; wanted > 0 && tries < 12; ++tries) {
      const std::size_t node = any_of(random, world.nodes);
      if (!world.nodes[node].handle || (right && world.nodes[node].graph != int(graph))) continue;
      after.push_back(world.nodes[node].handle);
      text += (text.empty() ? "" : " ") + std::to_string(node);
      --wanted;
    }
  }
  Argument<CUgraphNode*> node() { return {&made, place("node", index)}; }
  Argument<CUgraph> where() const { return {world.graphs[graph].handle, place("graph", graph)}; }
  Argument<const CUgraphNode*> dependencies() const { return {after.data(), "{" + text + "}"}; }
  Argument<std::size_t> count() const { return {after.size(), std::to_string(after.size())}; }
  void keep(CUresult result) {
    if (result == CUDA_SUCCESS) world.nodes[index] = {made, int(graph)};
  }

  std::size_t graph, index;
  CUgraphNode made = nullptr;
  std::vector<CUgraphNode> after;
  std::string text;
};
#define AT(place) place.node(), place.where(), place.dependencies(), place.count()

Argument<CUcontext> context(R& random) {
  return random.percent(95) ? shown(world.context, "context") : shown<CUcontext>(nullptr, "no context");
}

void add_empty(R& random) {
  Place at(random);
  at.keep(CALL(cuGraphAddEmptyNode, AT(at)));
}
void add_kernel(R& random) {
  Place at(random);
  const KernelParameters given(random);
  at.keep(CALL(cuGraphAddKernelNode, AT(at), given.argument()));
}
void add_copy(R& random) {
  Place at(random);
  const CopyParameters given(random);
  at.keep(CALL(cuGraphAddMemcpyNode, AT(at), given.argument(), context(random)));
}
void add_memset(R& random) {
  Place at(random);
  const MemsetParameters given(random);
  at.keep(CALL(cuGraphAddMemsetNode, AT(at), given.argument(), context(random)));
}
void add_host(R& random) {
  Place at(random);
  const HostParameters given(random);
  at.keep(CALL(cuGraphAddHostNode, AT(at), given.argument()));
}
void add_child(R& random) {
  Place at(random);
  const std::size_t child = any_of(random, world.graphs);
  std::size_t nodes = 0;  // a graph in a graph in a graph would soon be too large
  if (world.graphs[child].handle) cuGraphGetNodes(world.graphs[child].handle, nullptr, &nodes);
  if (child == at.graph || nodes > 8) return tell("no child");
  at.keep(CALL(cuGraphAddChildGraphNode, AT(at), shown(world.graphs[child].handle, place("graph", child))));
}
void add_event(R& random) {
  Place at(random);
  const bool waits = random.percent(50);
  const auto event = steady_event(random);
  at.keep(waits ? CALL(cuGraphAddEventWaitNode, AT(at), event) : CALL(cuGraphAddEventRecordNode, AT(at), event));
}

// The generic call, with parameters of any type.
void add_node(R& random) {
  Place at(random);
  CUgraphNodeParams given = {};
  const auto type = choose<int>(random, {0, 1, 2, 3, 5, 6, 7}, {4, 8, 14, 99}, 10);
  const KernelParameters kernel(random);
  const CopyParameters copy(random);
  const MemsetParameters set(random);
  const auto event = steady_event(random);
  std::string text = "type " + type.text + " ";
  given.type = CUgraphNodeType(type.value);
  switch (type.value) {
    case 0:
      std::memcpy(&given.kernel, &kernel.value, sizeof kernel.value);
      text += kernel.text;
      break;
    case 1:
      given.memcpy.copyCtx = world.context, given.memcpy.copyParams = copy.value;
      text += copy.text;
      break;
    case 2:
      given.memset = {set.value.dst,   set.value.pitch,  set.value.value, set.value.elementSize,
                      set.value.width, set.value.height, world.context};
      text += set.text;
      break;
    case 3: given.host.fn = host_function; break;
    case 6: given.eventWait.event = event.value, text += event.text; break;
    case 7: given.eventRecord.event = event.value, text += event.text; break;
    default:;
  }
  at.keep(CALL(cuGraphAddNode, at.node(), at.where(), at.dependencies(), shown<const CUgraphEdgeData*>(nullptr, "null"),
               at.count(), shown(&given, text)));
}

// Memory.
Block& slot(R& random, std::string& text) {
  const std::size_t index = any_of(random, world.allocations);
  text = place("allocation", index);
  return world.allocations[index];
}
void add_allocation(R& random) {
  Place at(random);
  AllocationParameters given(random);
  std::string text;
  Block& block = slot(random, text);
  const CUresult result = CALL(cuGraphAddMemAllocNode, AT(at), shown(&given.value, text + " " + given.text));
  at.keep(result);
  if (result == CUDA_SUCCESS) block = {given.value.dptr, given.value.bytesize};
}
Argument<CUdeviceptr> freed(R& random) {
  std::string text;
  const Block& block = slot(random, text);
  if (random.percent(5)) return {world.memory, "memory"};
  if (random.percent(4)) return {block.address + 16, text + "+16"};
  return {block.address, text};
}
void add_free(R& random) {
  Place at(random);
  at.keep(CALL(cuGraphAddMemFreeNode, AT(at), freed(random)));
}
// A node that allocates and one that frees the same, as programs have them.
void add_pair(R& random) {
  Place at(random);
  AllocationParameters given(random);
  const CUresult result = CALL(cuGraphAddMemAllocNode, AT(at), shown(&given.value, given.text));
  at.keep(result);
  if (result != CUDA_SUCCESS) return;
  const std::size_t index = any_of(random, world.nodes);
  CUgraphNode made = nullptr;
  tell("; ");
  if (FINE(cuGraphAddMemFreeNode, shown(&made, place("node", index)), at.where(),
           shown<const CUgraphNode*>(&at.made, "it"), number<std::size_t>(1), shown(given.value.dptr, "its"))) {
    world.nodes[index] = {made, int(at.graph)};
  }
}
void get_allocation(R& random) {
  CUDA_MEM_ALLOC_NODE_PARAMS found = {};
  const std::size_t index = any_of(random, world.nodes);
  if (FINE(cuGraphMemAllocNodeGetParams, shown(world.nodes[index].handle, place("node", index)), out(found))) {
    tell(" %lld", (long long)found.bytesize), tell(" %lld", found.poolProps.location.type);
  }
}
void get_free(R& random) {
  CUdeviceptr found = 0;
  const std::size_t index = any_of(random, world.nodes);
  CALL(cuGraphMemFreeNodeGetParams, shown(world.nodes[index].handle, place("node", index)), out(found));
}
void free_in_stream(R& random) {
  std::string text;
  Block& block = slot(random, text);
  if (FINE(cuMemFreeAsync, shown(block.address, text), any_stream(random))) block = {};
}
void trim(R&) { CALL(cuDeviceGraphMemTrim, shown(world.gpu, "gpu")); }
Argument<CUgraphMem_attribute> attribute(R& random) {
  const auto id = choose<int>(random, {0, 1, 2, 3}, {4, 99}, 8);
  return {CUgraphMem_attribute(id.value), "attribute " + id.text};
}
void get_attribute(R& random) {
  cuuint64_t value = 0;
  settle();
  if (FINE(cuDeviceGetGraphMemAttribute, shown(world.gpu, "gpu"), attribute(random), out(value))) {
    tell(" %lld", (long long)value);
  }
}
void set_attribute(R& random) {
  auto value = choose<cuuint64_t>(random, {0}, {1, 4096}, 20);
  CALL(cuDeviceSetGraphMemAttribute, shown(world.gpu, "gpu"), attribute(random),
       shown<void*>(&value.value, value.text));
}
}  // namespace

Makers node_makers() {
  return {{"graphs", 6, add_empty}, {"graphs", 10, add_kernel}, {"graphs", 7, add_copy},  {"graphs", 7, add_memset},
          {"graphs", 4, add_host},  {"graphs", 4, add_child},   {"graphs", 6, add_event}, {"graphs", 8, add_node}};
}

Makers memory_node_makers() {
  return {{"memory_nodes", 12, add_allocation},
          {"memory_nodes", 10, add_free},
          {"memory_nodes", 8, add_pair},
          {"memory_nodes", 3, get_allocation},
          {"memory_nodes", 3, get_free},
          {"memory_nodes", 5, free_in_stream},
          {"memory_nodes", 2, trim},
          {"memory_nodes", 4, get_attribute},
          {"memory_nodes", 3, set_attribute}};
}
