// SPDX-License-Identifier: MIT-0
// Executable graphs: what cuGraphInstantiate makes of a graph, how it is changed, and its launches.

#include <algorithm>

#include "../memory/this_machine.h"
#include "capture.h"
#include "conditionals.h"
#include "contexts.h"
#include "driver.h"
#include "executable_graphs.h"
#include "graph_memory.h"
#include "graphs.h"
#include "streams.h"

namespace driver {
namespace {

// --- Plans: graphs().lock is held ------------------------------------------------------------------------------------

// An order in which each node comes after those that it depends on. Refuses.
std::vector<size_t> order_of(const Plan& plan, const CUgraph_st& graph, Problem& problem) {
  std::vector<size_t> order, unplaced;
  std::vector<std::vector<size_t>> after(plan.nodes.size());
  for (size_t i = 0; i < plan.nodes.size(); ++i) {
    unplaced.push_back(plan.nodes[i].before.size());
    for (const size_t before : plan.nodes[i].before) after[before].push_back(i);
    if (!unplaced[i]) order.push_back(i);
  }
  for (size_t next = 0; next < order.size(); ++next)
    for (const size_t i : after[order[next]])
      if (--unplaced[i] == 0) order.push_back(i);
  if (order.size() == plan.nodes.size()) return order;
  const auto waiting = std::find_if(unplaced.begin(), unplaced.end(), [](size_t count) { return count > 0; });
  problem = {CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, graph.nodes[size_t(waiting - unplaced.begin())].get()};
  refuse("nodes of the graph depend on one another in a circle");
}

// A node may lack the size of its clusters until it is instantiated.
void require_clusters(const Work& work) {
  require(!work.kernel() || !work.kernel()->lacks_clusters, CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the kernel needs a size of its clusters: set the node's attribute CLUSTER_DIMENSION before");
}

Plan plan_of(const CUgraph_st& graph, Problem& problem) {
  Plan plan;
  std::map<CUgraphNode, size_t> index;
  for (const auto& node : graph.nodes) index.emplace(node.get(), index.size());
  for (const auto& node : graph.nodes) {
    PlannedNode& planned = plan.nodes.emplace_back();
    planned.node = node->id;
    planned.work = node->work;
    require_clusters(*node->work);
    for (const CUgraphNode before : node->before) planned.before.push_back(index.at(before));
    for (const auto& [before, data] : node->edges) planned.early[index.at(before)] = data;
    if (node->child) planned.child = std::make_unique<Plan>(plan_of(*node->child, problem));
    for (const auto& body : node->bodies) planned.bodies.push_back(plan_of(*body, problem));
  }
  plan.order = order_of(plan, graph, problem);
  return plan;
}

PlannedNode* find(Plan& plan, uint64_t node) {
  for (PlannedNode& planned : plan.nodes) {
    if (planned.node == node) return &planned;
    PlannedNode* const inside = planned.child ? find(*planned.child, node) : nullptr;
    if (inside) return inside;
    for (Plan& body : planned.bodies)
      if (PlannedNode* const found = find(body, node)) return found;
  }
  return nullptr;
}

PlannedNode& planned(CUgraphExec exec, CUgraphNode node) REQUIRES(graphs().lock) {
  PlannedNode* const found = find(checked(exec)->plan, checked(node)->id);
  require(found, "the executable graph was not made of the node's graph");
  return *found;
}

// Calls `visit` with the work of each node, also of graphs in the graph.
template <class Visit> void each_work(const Plan& plan, Visit visit) REQUIRES(graphs().lock) {
  for (const PlannedNode& planned : plan.nodes) {
    visit(*planned.work);
    if (planned.child) each_work(*planned.child, visit);
    for (const Plan& body : planned.bodies) each_work(body, visit);
  }
}

// The latest executable graph of a graph, or null: a launch keeps one that was destroyed.
std::shared_ptr<CUgraphExec_st> instance_of(const CUgraph_st& graph) REQUIRES(graphs().lock) {
  auto found = graph.instance.lock();
  return graphs().executables.contains(found.get()) ? found : nullptr;
}

// --- Instantiation ---------------------------------------------------------------------------------------------------

// Refuses a graph that a kernel could not launch.
void require_device_launchable(const CUgraph_st& graph, CUcontext& context, bool& does_something, Problem& problem) {
  for (const auto& node : graph.nodes) {
    const auto type = node->work->given.type;
    const bool is_work =
        type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
    if (node->child) require_device_launchable(*node->child, context, does_something, problem);
    problem = {CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED, node.get()};
    require(is_work || node->child,
            "a graph for launches by kernels has kernels, copies, memsets and such graphs only");
    problem.result = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
    require(!is_work || !context || context == node->work->context,
            "the nodes of a graph for launches by kernels have one context");
    if (is_work) context = node->work->context;
    does_something |= is_work;
    problem = {};
  }
}

// A memset that a stream captured was not looked at when it was captured.
void require_mapped_memsets(const CUgraph_st& graph) REQUIRES(graphs().lock) {
  for (const auto& node : graph.nodes) {
    each_graph_in(*node, [](const CUgraph_st& inside) REQUIRES(graphs().lock) { require_mapped_memsets(inside); });
    require(node->work->given.type != CU_GRAPH_NODE_TYPE_MEMSET || is_mapped(node->work->given.memset),
            "nothing is mapped where a memset of the graph goes: map memory there first (cuMemMap)");
  }
}

void take_memory_for(const CUgraph_st& graph) {
  for (const auto& node : graph.nodes) {
    if (node->child) take_memory_for(*node->child);
    const CUgraphNodeType type = node->work->given.type;
    const bool is_of_gpu =
        type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMSET || type == CU_GRAPH_NODE_TYPE_MEMCPY;
    if (is_of_gpu && node->work->context) take_memory_of_graphs(*node->work->context);
  }
}

// Refuses a graph that may have one executable graph at a time, and has one.
void require_no_instance(const CUgraph_st& graph) REQUIRES(graphs().lock) {
  const auto instance = instance_of(graph);
  require(!instance || !instance->is_alone, CUDA_ERROR_NOT_SUPPORTED,
          "nodes of the graph allocate or free memory, or it was asked for such nodes, and it is instantiated already: "
          "destroy that executable graph first (cuGraphExecDestroy)");
  require(!instance || !has_conditional_nodes(graph), CUDA_ERROR_NOT_SUPPORTED,
          "the graph has conditional nodes, and is instantiated already: destroy that executable graph first "
          "(cuGraphExecDestroy)");
}

void set_ready(const Plan& plan, bool is_ready) REQUIRES(graphs().lock) {
  each_work(plan, [&](const Work& work) REQUIRES(graphs().lock) { set_ready(work, is_ready); });
}

// --- Changes ---------------------------------------------------------------------------------------------------------

// Where the memory of a copy or memset is: its GPU, or -1 for the host, and the context that it was allocated in, which
// VMM memory has not. Without an answer where nothing is mapped at present.
using MemoryPlace = std::pair<CUdevice, CUcontext>;
std::optional<MemoryPlace> place_of(CUdeviceptr address) {
  const auto range = memory::find(address);
  if (!range) return MemoryPlace(-1, nullptr);  // the program's own memory
  return range->mapped ? std::optional(MemoryPlace(range->device, range->owner.context)) : std::nullopt;
}
bool may_replace(CUdeviceptr old, CUdeviceptr now) {
  const auto was = place_of(old), is = place_of(now);
  return !was || !is || was == is;
}
CUdeviceptr target_of(const CUDA_MEMCPY3D& copy) {
  return copy.dstMemoryType == CU_MEMORYTYPE_HOST ? bits(copy.dstHost) : copy.dstDevice;
}
CUdeviceptr source_of(const CUDA_MEMCPY3D& copy) {
  return copy.srcMemoryType == CU_MEMORYTYPE_HOST ? bits(copy.srcHost) : copy.srcDevice;
}

// Why work of an executable graph cannot take the place of other, "" if it can.
std::string reason_against(const Work& old, const Work& now, bool by_update) {
  if (old.given.type == CU_GRAPH_NODE_TYPE_KERNEL) {
    if (old.context != now.context) return "the function is of another context than the one before";
    if (old.kernel()->launch.is_cooperative != now.kernel()->launch.is_cooperative)
      return "a kernel stays cooperative, or not so";
  } else if (old.given.type == CU_GRAPH_NODE_TYPE_MEMCPY) {
    const CUDA_MEMCPY3D &was = old.given.memcpy.copyParams, &is = now.given.memcpy.copyParams;
    const auto is_flat = [](const CUDA_MEMCPY3D& copy) { return copy.Height <= 1 && copy.Depth <= 1; };
    if (!by_update && (!is_flat(was) || !is_flat(is))) return "only a copy of one dimension is changed";
    if ((was.dstMemoryType != is.dstMemoryType || was.srcMemoryType != is.srcMemoryType))
      return "a side of the copy has another memory type";
    if (old.context != now.context || !may_replace(target_of(was), target_of(is)) ||
        !may_replace(source_of(was), source_of(is)))
      return "a side of the copy is memory of another GPU or context than before";
  } else if (old.given.type == CU_GRAPH_NODE_TYPE_MEMSET) {
    const CUDA_MEMSET_NODE_PARAMS_v2 &was = old.given.memset, &is = now.given.memset;
    if (was.height != is.height) return "the memset has another height than before";
    if (was.height > 1 && (was.width != is.width || was.elementSize != is.elementSize || was.pitch != is.pitch))
      return "of a memset in two dimensions only the address and the value are changed";
    const auto before = place_of(was.dst), place = place_of(is.dst);
    const bool is_elsewhere =
        before && place && before->first >= 0 && place->first >= 0 && place->first != before->first;
    if (old.context != now.context || is_elsewhere) return "the memory is of another GPU than before";
  } else if (old.given.type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    if (old.given.memOp.count != now.given.memOp.count) return "there are more or fewer operations than before";
  } else if (old.given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    if (old.memory()->size != now.memory()->size) return "it allocates memory of another size than before";
  } else if (old.memory() != now.memory()) {
    return "it frees other memory than before";
  }
  return "";
}

struct Difference {
  CUgraphExecUpdateResult result;
  CUgraphNode node, from;
  std::string reason;
};

// Throws Difference unless a graph's plan has the nodes and dependencies of another. Nodes are paired in the order in
// which they may begin. Returns the graph's node for each of the plan's.
std::vector<size_t> pair(const Plan& plan, const Plan& now, const CUgraph_st& graph) {
  constexpr auto topology = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  if (plan.nodes.size() != now.nodes.size())
    throw Difference{topology, nullptr, nullptr,
                     "the graph has " + std::to_string(now.nodes.size()) + " nodes, and the executable one " +
                         std::to_string(plan.nodes.size())};
  std::vector<size_t> partners(plan.nodes.size());
  for (size_t i = 0; i < partners.size(); ++i) partners[plan.order[i]] = now.order[i];
  for (const size_t i : plan.order) {
    const std::vector<size_t>&old = plan.nodes[i].before, &before = now.nodes[partners[i]].before;
    const CUgraphNode node = graph.nodes[partners[i]].get();
    const std::string name = "node " + std::to_string(partners[i]) + " of the graph ";
    if (old.size() != before.size())
      throw Difference{topology, node, nullptr, name + "depends on more or fewer nodes than before"};
    for (const size_t dependency : old)
      if (std::find(before.begin(), before.end(), partners[dependency]) == before.end())
        throw Difference{topology, node, graph.nodes[partners[dependency]].get(),
                         name + "depends on other nodes than before"};
  }
  return partners;
}

// Throws Difference unless the work of a graph's node can take the place of other.
void compare(const Work& old, const Work& now, CUgraphNode node, const std::string& name) {
  if (old.given.type != now.given.type)
    throw Difference{CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, node, nullptr, name + "has another type"};
  const std::string reason = reason_against(old, now, true);
  if (reason.empty()) return;
  const bool is_kernel = now.kernel() != nullptr;
  throw Difference{is_kernel && old.context != now.context ? CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE
                   : is_kernel                             ? CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED
                   : now.memory()                          ? CU_GRAPH_EXEC_UPDATE_ERROR
                                                           : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED,
                   node, nullptr, name + "cannot be changed so: " + reason};
}

// Throws Difference, or, where `also_changes`, lets the plan's nodes do what the graph's do.
void update(Plan& plan, const CUgraph_st& graph, bool also_changes) {
  Problem problem;
  const Plan now = plan_of(graph, problem);
  const std::vector<size_t> partners = pair(plan, now, graph);
  for (const size_t i : plan.order) {
    const CUgraphNode node = graph.nodes[partners[i]].get();
    if (!also_changes)
      compare(*plan.nodes[i].work, *node->work, node, "node " + std::to_string(partners[i]) + " of the graph ");
    if (node->child) update(*plan.nodes[i].child, *node->child, also_changes);
    for (size_t k = 0; k < node->bodies.size(); ++k) update(plan.nodes[i].bodies[k], *node->bodies[k], also_changes);
    if (also_changes) plan.nodes[i].work = node->work;
  }
}

// --- Launches --------------------------------------------------------------------------------------------------------

size_t flatten(const Plan&, const std::vector<size_t>& after, std::vector<Step>& steps);

SharedWork choice_of(const PlannedNode& planned) {
  std::vector<std::vector<Step>> bodies;
  for (const Plan& body : planned.bodies) flatten(body, {}, bodies.emplace_back());
  return conditional_work(*planned.work, std::move(bodies));
}

void append_conditional(const Plan& plan, std::vector<SharedWork>& nodes) {
  for (const PlannedNode& planned : plan.nodes) {
    if (planned.work->condition()) nodes.push_back(planned.work);
    if (planned.child) append_conditional(*planned.child, nodes);
    for (const Plan& body : planned.bodies) append_conditional(body, nodes);
  }
}

// All that a launch puts in: first what sets the values of conditional nodes, if there are any.
std::vector<Step> steps_of(const Plan& plan) {
  std::vector<Step> steps;
  std::vector<SharedWork> conditional;
  append_conditional(plan, conditional);
  if (conditional.empty()) return flatten(plan, {}, steps), steps;
  steps.push_back({set_at_launch(conditional), {}, {}});
  flatten(plan, {0}, steps);
  return steps;
}

// Adds a plan to the steps of a launch. All of it is after `after`; returns the last step, a mark.
size_t flatten(const Plan& plan, const std::vector<size_t>& after, std::vector<Step>& steps) {
  std::vector<size_t> step_of(plan.nodes.size()), all = after;
  for (const size_t i : plan.order) {
    const PlannedNode& planned = plan.nodes[i];
    std::vector<size_t> before = planned.before.empty() ? after : std::vector<size_t>();
    std::vector<std::pair<size_t, CUgraphEdgeData>> early;
    for (const size_t dependency : planned.before) {
      const auto found = planned.early.find(dependency);
      if (found == planned.early.end()) before.push_back(step_of[dependency]);
      else early.emplace_back(step_of[dependency], found->second);
    }
    if (planned.child) {
      step_of[i] = flatten(*planned.child, before, steps);
    } else if (planned.work->condition()) {
      steps.push_back({choice_of(planned), before, early});
      step_of[i] = steps.size() - 1;
    } else {
      if (planned.work->context) checked(planned.work->context);  // it may have ended
      steps.push_back({planned.is_enabled ? planned.work : nullptr, before, early});
      step_of[i] = steps.size() - 1;
    }
    all.push_back(step_of[i]);
  }
  steps.push_back({nullptr, all, {}});
  return steps.size() - 1;
}

void append_kernels(const Plan& plan, KernelNames& names) {
  for (const size_t i : plan.order) {
    const PlannedNode& planned = plan.nodes[i];
    for (const Plan& body : planned.bodies) append_kernels(body, names);
    if (planned.child) append_kernels(*planned.child, names);
    else if (const auto* const kernel = planned.work->kernel(); kernel && planned.is_enabled)
      names.mangled.push_back(kernel->launch.kernel->name);
  }
}

// Whether the graph's latest executable graph is there, and has a node that allocates this memory.
bool is_allocated_by_instance(const CUgraph_st& graph, const GraphMemory& memory) REQUIRES(graphs().lock) {
  const auto instance = instance_of(graph);
  bool found = false;
  if (instance)
    each_work(instance->plan, [&](const Work& work) {
      found |= work.memory().get() == &memory && work.given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
    });
  return found;
}

}  // namespace

std::shared_ptr<CUgraphExec_st> checked(CUgraphExec exec) {
  const auto found = graphs().executables.find(exec);
  require(found != graphs().executables.end(), "this is no executable graph, or it has been destroyed");
  return found->second;
}

CUgraphExec instantiate(CUgraph graph, unsigned long long flags, bool may_upload, Problem& problem) {
  constexpr unsigned long long for_device = CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH;
  const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | for_device |
                                   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY |
                                   (may_upload ? CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD : 0);
  require_flags(!(flags & ~known));
  require(!(flags & for_device) || !(flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
          "the flags for launches by kernels and for freeing at a launch do not go together");
  if (!(flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)) refuse_if_unsafe_in_capture();
  const auto executable = std::make_shared<CUgraphExec_st>();
  executable->flags = flags;
  const MutexLock held(graphs().lock);
  executable->plan = plan_of(*checked(graph), problem);
  if (flags & for_device) {
    CUcontext context = nullptr;
    bool does_something = false;
    require_device_launchable(*graph, context, does_something, problem);
    require(does_something, "a graph for launches by kernels must not be empty");
  }
  require_not_owned(*graph);
  require_no_instance(*graph);
  require_mapped_memsets(*graph);
  require_conditionals(*graph);
  executable->is_alone = has_memory_nodes(*graph);
  take_memory_for(*graph);
  for (const auto& [object, count] : graph->objects) retain(executable->objects, object, count);
  graphs().executables[executable.get()] = executable;
  graph->instance = executable;
  return executable.get();
}

void make_ready(CUgraphExec exec) {
  const MutexLock held(graphs().lock);
  set_ready(checked(exec)->plan, true);
}

void destroy(CUgraphExec exec) {
  refuse_if_unsafe_in_capture();
  std::shared_ptr<CUgraphExec_st> unwanted;  // a launch that has not ended keeps it
  const MutexLock held(graphs().lock);
  unwanted = checked(exec);
  set_ready(unwanted->plan, false);
  graphs().executables.erase(exec);
}

void update(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* info) {
  require_non_null(info, "resultInfo");
  const MutexLock held(graphs().lock);
  const auto executable = checked(exec);
  Plan& plan = executable->plan;
  checked(graph);
  const auto instance = instance_of(*graph);
  require(!instance || instance == executable || !instance->is_alone, CUDA_ERROR_NOT_SUPPORTED,
          "nodes of the graph allocate or free memory, and another executable graph was "
          "instantiated of it: destroy that first (cuGraphExecDestroy)");
  *info = {CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
  try {
    update(plan, *graph, false);
  } catch (const Difference& found) {
    *info = {found.result, found.node, found.from};
    refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, found.reason + ": instantiate the graph anew");
  }
  update(plan, *graph, true);
  for (const CUgraph known : graphs().all)
    if (known->instance.lock() == executable) known->instance.reset();
  graph->instance = executable;
  executable->is_alone = has_memory_nodes(*graph);
  info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

PlannedNode& can_be_disabled(CUgraphExec exec, CUgraphNode node) {
  PlannedNode& found = planned(exec, node);
  const auto type = found.work->given.type;
  require(type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET,
          "only kernels, copies and memsets are switched off");
  return found;
}

void launch(CUgraphExec exec, CUstream stream_handle) {
  require_not_capturing(named_stream(stream_handle));
  CUstream_st& stream = driver::stream(stream_handle);
  std::shared_ptr<CUgraphExec_st> executable;
  {
    const MutexLock held(graphs().lock);
    executable = checked(exec);
  }
  const MutexLock launching(executable->launching);
  std::vector<Step> steps;
  {
    const MutexLock held(graphs().lock);
    steps = steps_of(executable->plan);
    std::vector<SharedWork> nodes;
    for (const Step& step : steps) nodes.push_back(step.work);
    allocate_and_free(nodes, executable->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
  }
  executable->last = enqueue_all(stream, steps, executable->last, [executable](const Operation& op) mutable {
    executable.reset();  // who waits for the end finds nothing of it left
    ended(op);
  });
}

KernelNames kernels_of(CUgraphExec exec) {
  KernelNames names;
  if (!memory::options().trace) return names;
  const MutexLock held(graphs().lock);
  const auto found = graphs().executables.find(exec);
  if (found != graphs().executables.end()) append_kernels(found->second->plan, names);
  return names;
}

void set_work(CUgraphExec exec, CUgraphNode node, const std::function<SharedWork(const SharedWork&)>& changed) {
  SharedWork old;
  {
    const MutexLock held(graphs().lock);
    old = planned(exec, node).work;
  }
  SharedWork now = changed(old);
  require_clusters(*now);
  const std::string reason = reason_against(*old, *now, false);
  if (!reason.empty()) refuse(reason + ": instantiate the graph anew");
  const MutexLock held(graphs().lock);
  planned(exec, node).work = std::move(now);
}

void set_child(CUgraphExec exec, CUgraphNode node, CUgraph child) {
  const MutexLock held(graphs().lock);
  require(!has_memory_nodes(*checked(child)), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
          "a graph that allocates or frees memory, or was asked to, is no node of another");
  PlannedNode& parent = planned(exec, node);
  require(parent.child != nullptr, "the node is no graph");
  try {
    update(*parent.child, *child, false);
  } catch (const Difference& found) {
    refuse(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, found.reason);
  }
  update(*parent.child, *child, true);
}

void require_freeable(const CUgraph_st& graph, const Work& work) {
  bool allocates = false, is_freed_here = false, is_freed_elsewhere = false, its_own_frees = false;
  for (const CUgraph known : graphs().all) {
    bool frees = false, has_it = false;
    for (const auto& node : known->nodes) {
      if (node->work->memory() != work.memory()) continue;
      (node->work->given.type == CU_GRAPH_NODE_TYPE_MEM_FREE ? frees : has_it) = true;
    }
    if (known == &graph) allocates = has_it, is_freed_here = frees;
    else is_freed_elsewhere |= frees, its_own_frees |= has_it && frees;
  }
  require(!is_freed_here, "another node of the graph frees this memory");
  require(!its_own_frees, "the graph that allocates this memory frees it itself");
  require(!allocates || !is_freed_elsewhere,
          "another graph has a node that frees this memory, so the graph that allocates it cannot");
  require(!allocates || !is_allocated_by_instance(graph, *work.memory()),
          "the graph is instantiated without a node that frees this memory: another graph has to, or cuMemFreeAsync");
}

void require_freeable_in_capture(CUstream_st& stream, const Work& work) {
  const MutexLock held(graphs().lock);
  if (stream.capture) require_freeable(*stream.capture->graph, work);
}

}  // namespace driver
