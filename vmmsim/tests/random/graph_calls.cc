// SPDX-License-Identifier: MIT-0
// Graphs: their nodes and dependencies, what nodes have, and executable graphs.
#include "node_parameters.h"

namespace {
using R = Random;

Argument<CUgraph> any_graph(R& random) {
  const std::size_t index = any_of(random, world.graphs);
  return {world.graphs[index].handle, place("graph", index)};
}
Argument<CUgraphNode> any_node(R& random) {
  const std::size_t index = any_of(random, world.nodes);
  return {world.nodes[index].handle, place("node", index)};
}
Argument<CUgraphExec> any_exec(R& random) {
  const std::size_t index = any_of(random, world.execs);
  return {world.execs[index], place("exec", index)};
}

// A graph comes into this slot; the one before stays for ever, and so do its nodes.
void put(std::size_t index, CUgraph made) {
  for (Node& node : world.nodes) {
    if (node.graph == int(index)) node.graph = -1;
  }
  world.graphs[index] = {made, false};
}

void create(R& random) {
  const std::size_t index = any_of(random, world.graphs);
  CUgraph made = nullptr;
  if (FINE(cuGraphCreate, shown(&made, place("graph", index)), choose<unsigned>(random, {0}, {1, ~0u}, 10))) {
    put(index, made);
  }
}
void destroy(R& random) {
  const std::size_t index = any_of(random, world.graphs);
  if (world.graphs[index].kept) return tell("not destroyed");
  if (!FINE(cuGraphDestroy, shown(world.graphs[index].handle, place("graph", index)))) return;
  for (Node& node : world.nodes) {
    if (node.graph == int(index)) node = {};
  }
  world.graphs[index] = {};
}
void clone(R& random) {
  const std::size_t index = any_of(random, world.graphs);
  CUgraph made = nullptr;
  if (FINE(cuGraphClone, shown(&made, place("graph", index)), any_graph(random))) put(index, made);
}
void find_in_clone(R& random) {
  const auto node = any_node(random);
  const std::size_t clone = any_of(random, world.graphs), index = any_of(random, world.nodes);
  CUgraphNode found = nullptr;
  if (FINE(cuGraphNodeFindInClone, shown(&found, place("node", index)), node,
           shown(world.graphs[clone].handle, place("graph", clone)))) {
    world.nodes[index] = {found, int(clone)};
  }
}
void get_nodes(R& random) {
  const std::size_t graph = any_of(random, world.graphs), index = any_of(random, world.nodes);
  const std::size_t which = random.next();
  std::array<CUgraphNode, 200> found;
  std::size_t count = found.size();
  const bool roots = random.percent(30);
  const auto from = shown(world.graphs[graph].handle, place("graph", graph));
  const auto room = shown(found.data(), place("node", index));
  const auto in_out = shown(&count, "200");
  if (!(roots ? FINE(cuGraphGetRootNodes, from, room, in_out) : FINE(cuGraphGetNodes, from, room, in_out))) return;
  tell(" %lld", (long long)count);
  if (count && count <= found.size() && found[0]) world.nodes[index] = {found[which % count], int(graph)};
}
void get_edges(R& random) {
  std::size_t count = 0;
  if (FINE(cuGraphGetEdges, any_graph(random), shown<CUgraphNode*>(nullptr, "null"),
           shown<CUgraphNode*>(nullptr, "null"), shown<CUgraphEdgeData*>(nullptr, "null"), out(count))) {
    tell(" %lld", (long long)count);
  }
}
void get_type(R& random) {
  CUgraphNodeType type = {};
  if (FINE(cuGraphNodeGetType, any_node(random), out(type))) tell(" %lld", type);
}
void get_dependencies(R& random) {
  std::size_t count = 0;
  const auto none = shown<CUgraphNode*>(nullptr, "null");
  const auto no_data = shown<CUgraphEdgeData*>(nullptr, "null");
  const auto node = any_node(random);
  const bool dependents = random.percent(50);
  if (dependents ? FINE(cuGraphNodeGetDependentNodes, node, none, no_data, out(count))
                 : FINE(cuGraphNodeGetDependencies, node, none, no_data, out(count))) {
    tell(" %lld", (long long)count);
  }
}

// Mostly two nodes of one graph.
void dependencies(R& random, bool adds) {
  const auto graph = any_graph(random);
  const std::size_t first = any_of(random, world.nodes);
  std::size_t second = any_of(random, world.nodes);
  if (random.percent(70)) {
    for (std::size_t i = 1; i < world.nodes.size(); ++i) {
      const std::size_t next = (first + i) % world.nodes.size();
      if (world.nodes[next].graph == world.nodes[first].graph) second = next;
    }
  }
  const int common = world.nodes[first].graph;
  const bool right = random.percent(80) && common >= 0;
  const auto given = right ? shown(world.graphs[common].handle, place("graph", std::size_t(common))) : graph;
  const auto from = shown<const CUgraphNode*>(&world.nodes[first].handle, place("node", first));
  const auto to = shown<const CUgraphNode*>(&world.nodes[second].handle, place("node", second));
  const auto no_data = shown<const CUgraphEdgeData*>(nullptr, "null");
  const auto count = choose<std::size_t>(random, {1}, {0}, 5);
  if (adds) {
    CALL(cuGraphAddDependencies, given, from, to, no_data, count);
  } else {
    CALL(cuGraphRemoveDependencies, given, from, to, no_data, count);
  }
}
void add_dependencies(R& random) { dependencies(random, true); }
void remove_dependencies(R& random) { dependencies(random, false); }

void destroy_node(R& random) {
  const std::size_t index = any_of(random, world.nodes);
  const Node node = world.nodes[index];
  if (node.graph >= 0 && world.graphs[node.graph].kept) return tell("not destroyed");
  if (!FINE(cuGraphDestroyNode, shown(node.handle, place("node", index)))) return;
  for (Node& other : world.nodes) {
    if (other.handle == node.handle) other = {};
  }
}

// What nodes have.
void kernel_get(R& random) {
  CUDA_KERNEL_NODE_PARAMS parameters = {};
  if (!FINE(cuGraphKernelNodeGetParams, any_node(random), out(parameters))) return;
  tell(" %lld", parameters.gridDimX), tell(" %lld", parameters.blockDimX), tell(" %lld", parameters.sharedMemBytes);
}
void kernel_set(R& random) {
  const auto node = any_node(random);
  const KernelParameters given(random);
  CALL(cuGraphKernelNodeSetParams, node, given.argument());
}
void copy_get(R& random) {
  CUDA_MEMCPY3D parameters = {};
  if (FINE(cuGraphMemcpyNodeGetParams, any_node(random), out(parameters))) {
    tell(" %lld", (long long)parameters.WidthInBytes);
  }
}
void copy_set(R& random) {
  const auto node = any_node(random);
  const CopyParameters given(random);
  CALL(cuGraphMemcpyNodeSetParams, node, given.argument());
}
void memset_get(R& random) {
  CUDA_MEMSET_NODE_PARAMS parameters = {};
  if (FINE(cuGraphMemsetNodeGetParams, any_node(random), out(parameters))) tell(" %lld", (long long)parameters.width);
}
void memset_set(R& random) {
  const auto node = any_node(random);
  const MemsetParameters given(random);
  CALL(cuGraphMemsetNodeSetParams, node, given.argument());
}
void host_get(R& random) {
  CUDA_HOST_NODE_PARAMS parameters = {};
  if (FINE(cuGraphHostNodeGetParams, any_node(random), out(parameters))) tell(" %lld", parameters.fn == host_function);
}
void host_set(R& random) {
  const auto node = any_node(random);
  const HostParameters given(random);
  CALL(cuGraphHostNodeSetParams, node, given.argument());
}
void child_get(R& random) {
  CUgraph graph = nullptr;
  std::size_t count = 0;
  if (FINE(cuGraphChildGraphNodeGetGraph, any_node(random), out(graph)) &&
      cuGraphGetNodes(graph, nullptr, &count) == CUDA_SUCCESS) {
    tell(" %lld", (long long)count);
  }
}
void event_get(R& random) {
  CUevent event = nullptr;
  const auto node = any_node(random);
  const bool waits = random.percent(50);
  if (!(waits ? FINE(cuGraphEventWaitNodeGetEvent, node, out(event))
              : FINE(cuGraphEventRecordNodeGetEvent, node, out(event)))) {
    return;
  }
  for (std::size_t i = 0; i < world.events.size(); ++i) {
    if (event && world.events[i] == event) tell(" %lld", (long long)i);
  }
}
void event_set(R& random) {
  const auto node = any_node(random);
  const auto event = steady_event(random);
  const bool waits = random.percent(50);
  waits ? CALL(cuGraphEventWaitNodeSetEvent, node, event) : CALL(cuGraphEventRecordNodeSetEvent, node, event);
}
Argument<CUkernelNodeAttrID> attribute(R& random) {
  const auto id = choose<int>(random, {1, 2, 4, 8, 10}, {0, 3, 5, 6, 9, 14, 99}, 30);
  return {CUkernelNodeAttrID(id.value), "attribute " + id.text};
}
void attribute_get(R& random) {
  CUkernelNodeAttrValue value = {};
  const auto id = attribute(random);
  if (!FINE(cuGraphKernelNodeGetAttribute, any_node(random), id, out(value))) return;
  if (id.value == 2 || id.value == 8) tell(" %lld", value.cooperative);
  if (id.value == 4) tell(" %lld", value.clusterDim.x);
}
void attribute_set(R& random) {
  CUkernelNodeAttrValue value = {};
  const auto id = attribute(random);
  const auto number = choose<int>(random, {0, 1, 2}, {-1, 3, 99}, 20);
  if (id.value == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
    value.clusterDim.x = unsigned(number.value), value.clusterDim.y = value.clusterDim.z = 1;
  } else if (id.value == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW || id.value == 5 || id.value == 14) {
    // All zero.
  } else {
    value.cooperative = number.value;
  }
  CALL(cuGraphKernelNodeSetAttribute, any_node(random), id, shown<const CUkernelNodeAttrValue*>(&value, number.text));
}
void attributes_copy(R& random) {
  const auto to = any_node(random);
  CALL(cuGraphKernelNodeCopyAttributes, to, any_node(random));
}

// Executable graphs.
void keep(std::size_t index, CUgraphExec made) { world.execs[index] = made; }
Argument<unsigned long long> flags(R& random) {
  return choose<unsigned long long>(random, {0, 0, 0, 1, 8}, {2, 4, 9, 12, 16, ~0ull}, 20);
}
void instantiate(R& random) {
  const std::size_t index = any_of(random, world.execs);
  CUgraphExec made = nullptr;
  const auto graph = any_graph(random);
  if (FINE(cuGraphInstantiate, shown(&made, place("exec", index)), graph, flags(random))) keep(index, made);
}
void instantiate_with(R& random) {
  const std::size_t index = any_of(random, world.execs);
  CUgraphExec made = nullptr;
  const auto graph = any_graph(random);
  const auto wanted = choose<unsigned long long>(random, {0, 1, 2, 3, 8}, {4, 16}, 20);
  const auto stream = any_stream(random);
  CUDA_GRAPH_INSTANTIATE_PARAMS parameters = {};
  parameters.flags = wanted.value;
  parameters.hUploadStream = stream.value;
  const bool fine = FINE(cuGraphInstantiateWithParams, shown(&made, place("exec", index)), graph,
                         shown(&parameters, wanted.text + " " + stream.text));
  tell(" %lld", parameters.result_out), tell(" %lld", parameters.hErrNode_out != nullptr);
  if (fine) keep(index, made);
}
void exec_destroy(R& random) {
  const std::size_t index = any_of(random, world.execs);
  if (FINE(cuGraphExecDestroy, shown(world.execs[index], place("exec", index)))) world.execs[index] = nullptr;
}
void get_flags(R& random) {
  cuuint64_t found = 0;
  if (FINE(cuGraphExecGetFlags, any_exec(random), out(found))) tell(" %lld", (long long)found);
}
void launch(R& random) {
  const auto exec = any_exec(random);
  CALL(cuGraphLaunch, exec, any_stream(random));
}
void upload(R& random) {
  const auto exec = any_exec(random);
  CALL(cuGraphUpload, exec, any_stream(random));
}
void update(R& random) {
  CUgraphExecUpdateResultInfo info = {};
  const auto exec = any_exec(random);
  CALL(cuGraphExecUpdate, exec, any_graph(random), out(info));
  tell(" %lld", info.result), tell(" %lld", info.errorNode != nullptr);
}
void enable(R& random) {
  const auto exec = any_exec(random);
  const auto node = any_node(random);
  CALL(cuGraphNodeSetEnabled, exec, node, choose<unsigned>(random, {0, 1}, {2}, 5));
}
void is_enabled(R& random) {
  unsigned enabled = 9;
  const auto exec = any_exec(random);
  if (FINE(cuGraphNodeGetEnabled, exec, any_node(random), out(enabled))) tell(" %lld", enabled);
}
void exec_set(R& random) {
  const auto exec = any_exec(random);
  const auto node = any_node(random);
  const auto context = shown(world.context, "context");
  switch (random.below(7)) {
    case 0: CALL(cuGraphExecKernelNodeSetParams, exec, node, KernelParameters(random).argument()); break;
    case 1: CALL(cuGraphExecMemcpyNodeSetParams, exec, node, CopyParameters(random).argument(), context); break;
    case 2: CALL(cuGraphExecMemsetNodeSetParams, exec, node, MemsetParameters(random).argument(), context); break;
    case 3: CALL(cuGraphExecHostNodeSetParams, exec, node, HostParameters(random).argument()); break;
    case 4: CALL(cuGraphExecChildGraphNodeSetParams, exec, node, any_graph(random)); break;
    case 5: CALL(cuGraphExecEventRecordNodeSetEvent, exec, node, steady_event(random)); break;
    default: CALL(cuGraphExecEventWaitNodeSetEvent, exec, node, steady_event(random));
  }
}
}  // namespace

Makers graph_makers() {
  return {{"graphs", 5, create},
          {"graphs", 3, destroy},
          {"graphs", 4, clone},
          {"graphs", 3, find_in_clone},
          {"graphs", 6, get_nodes},
          {"graphs", 3, get_edges},
          {"graphs", 3, get_type},
          {"graphs", 4, get_dependencies},
          {"graphs", 8, add_dependencies},
          {"graphs", 5, remove_dependencies},
          {"graphs", 4, destroy_node},
          {"graphs", 3, kernel_get},
          {"graphs", 4, kernel_set},
          {"graphs", 2, copy_get},
          {"graphs", 3, copy_set},
          {"graphs", 2, memset_get},
          {"graphs", 3, memset_set},
          {"graphs", 2, host_get},
          {"graphs", 2, host_set},
          {"graphs", 2, child_get},
          {"graphs", 2, event_get},
          {"graphs", 3, event_set},
          {"graphs", 3, attribute_get},
          {"graphs", 4, attribute_set},
          {"graphs", 3, attributes_copy}};
}

Makers exec_makers() {
  return {{"exec", 12, instantiate}, {"exec", 6, instantiate_with}, {"exec", 4, exec_destroy}, {"exec", 3, get_flags},
          {"exec", 14, launch},      {"exec", 3, upload},           {"exec", 8, update},       {"exec", 5, enable},
          {"exec", 4, is_enabled},   {"exec", 14, exec_set}};
}
