// SPDX-License-Identifier: MIT-0
// Nodes of graphs: what a program gives them to do, reads back, and changes, in a graph and in an executable one.
#include "conditionals.h"
#include "driver.h"
#include "executable_graphs.h"
#include "graph_memory.h"
#include "graphs.h"
#include "modules.h"
#include "work.h"

namespace driver {
namespace {

// Heights are looked at also where they have no effect: in a copy of a single plane.
void require_heights(const CUDA_MEMCPY3D& copy) {
  for (const size_t height : {copy.srcHeight, copy.dstHeight})
    require(!height || height >= copy.Height, "srcHeight or dstHeight is less than the Height of the copy");
}

// A program's parameters as work; those of a node that allocates memory get the address. Nothing is locked.
SharedWork work_of(CUgraphNodeParams& given, const Attributes& attributes = {}) {
  const auto not_empty = [](SharedWork work) {
    require(work != nullptr, "a node does something: its size is not 0");
    return work;
  };
  switch (given.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      require(!given.kernel.kernelParams || !given.kernel.extra, "both kernelParams and extra are given");
      if (given.kernel.func) checked_function(given.kernel.func);  // a kernel has a member of its own
      return kernel_work(given.kernel, attributes);
    case CU_GRAPH_NODE_TYPE_MEMCPY: require_heights(given.memcpy.copyParams); return not_empty(copy_work(given.memcpy));
    case CU_GRAPH_NODE_TYPE_MEMSET: return not_empty(memset_work(given.memset));
    case CU_GRAPH_NODE_TYPE_HOST: return host_work(given.host);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      require_non_null(given.eventRecord.event, "event");
      return event_work(given.type, given.eventRecord.event);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      require_non_null(given.eventWait.event, "event");
      return event_work(given.type, given.eventWait.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: return allocation_work(given.alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE: return free_work(given.free);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: return words_work(given.memOp);
    case CU_GRAPH_NODE_TYPE_EMPTY: {
      const auto work = std::make_shared<Work>();
      work->given.type = CU_GRAPH_NODE_TYPE_EMPTY;
      return work;
    }
    default: break;
  }
  require(given.type > 0 && given.type <= CU_GRAPH_NODE_TYPE_CONDITIONAL, "there is no such type of node");
  const std::string text = "a node of a graph of type " + std::to_string(given.type) + " (for semaphores)";
  refuse_not_simulated(text);
}

CUgraphNodeParams type_alone(CUgraphNodeType type) {
  CUgraphNodeParams all = {};
  all.type = type;
  return all;
}
CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS* p) {
  require_non_null(p, "nodeParams");
  CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_KERNEL);
  all.kernel = {p->func,      p->gridDimX,       p->gridDimY,     p->gridDimZ, p->blockDimX, p->blockDimY,
                p->blockDimZ, p->sharedMemBytes, p->kernelParams, p->extra,    p->kern,      p->ctx};
  return all;
}
CUgraphNodeParams kernel_params(const CUDA_KERNEL_NODE_PARAMS_v1* p) {
  require_non_null(p, "nodeParams");
  const CUDA_KERNEL_NODE_PARAMS all = {p->func,         p->gridDimX,  p->gridDimY,  p->gridDimZ,
                                       p->blockDimX,    p->blockDimY, p->blockDimZ, p->sharedMemBytes,
                                       p->kernelParams, p->extra,     nullptr,      nullptr};
  return kernel_params(&all);
}
CUgraphNodeParams copy_params(const CUDA_MEMCPY3D* p, CUcontext context) {
  require_non_null(p, "copyParams");
  CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_MEMCPY);
  all.memcpy.copyCtx = context;
  all.memcpy.copyParams = *p;
  return all;
}
CUgraphNodeParams memset_params(const CUDA_MEMSET_NODE_PARAMS* p, CUcontext context) {
  require_non_null(p, "memsetParams");
  CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_MEMSET);
  all.memset = {p->dst, p->pitch, p->value, p->elementSize, p->width, p->height, context};
  return all;
}
CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS* p) {
  require_non_null(p, "nodeParams");
  CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_HOST);
  all.host.fn = p->fn;
  all.host.userData = p->userData;
  return all;
}
CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event) {
  CUgraphNodeParams all = type_alone(type);
  if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) all.eventRecord.event = event;
  else all.eventWait.event = event;
  return all;
}

struct Place {  // where a node is added
  CUgraphNode* to;
  CUgraph graph;
  const CUgraphNode* dependencies;
  size_t count;
  const CUgraphEdgeData* edges = nullptr;
};

// With data of edges, if a program gives some.
void require_place(const Place& at, const Work& work) REQUIRES(graphs().lock) {
  require_dependencies(checked(at.graph), list(at.dependencies, at.count));
  for (size_t i = 0; at.edges && i < at.count; ++i) require_edge(at.edges[i], *at.dependencies[i]->work, work);
}

// What is wrong with the child comes before what is wrong with the graph.
void add_graph(const Place& at, CUgraph child, CUgraphChildGraphNodeOwnership ownership) {
  const MutexLock held(graphs().lock);
  if (child == at.graph) log_crash("a graph is to be a node of itself");
  require(checked(child) != at.graph, "a graph cannot be a node of itself");
  const bool is_moved = ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (!is_moved) require_clonable(*child);
  require_place(at, Work());
  require(!is_moved || !child->parent, CUDA_ERROR_NOT_SUPPORTED, "the graph is a node's already");
  require(!is_moved || !has_conditional_nodes(*child), CUDA_ERROR_NOT_SUPPORTED,
          "a graph with conditional nodes is no node of another");
  *at.to = add_child(at.graph, is_moved ? std::unique_ptr<CUgraph_st>(child) : clone(*child),
                     list(at.dependencies, at.count));
  child->is_owned |= is_moved;
}

void add_condition(const Place& at, CUDA_CONDITIONAL_NODE_PARAMS& given) {
  const MutexLock held(graphs().lock);
  require_place(at, Work());
  *at.to = add_conditional(at.graph, given, list(at.dependencies, at.count));
}

void add(const Place& at, CUgraphNodeParams& given) {
  require_non_null(at.to, "phGraphNode");
  SharedWork work;  // of a kernel it is looked at before the graph
  if (given.type == CU_GRAPH_NODE_TYPE_KERNEL) work = work_of(given);
  if (given.type == CU_GRAPH_NODE_TYPE_GRAPH) return add_graph(at, given.graph.graph, given.graph.ownership);
  require_non_null(at.graph, "hGraph");
  if (given.type == CU_GRAPH_NODE_TYPE_CONDITIONAL) return add_condition(at, given.conditional);
  if (given.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || given.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    const MutexLock held(graphs().lock);
    require_place(at, Work());
    if (given.type == CU_GRAPH_NODE_TYPE_MEM_FREE) at.graph->has_memory_nodes = true;  // also if it is refused
  }
  if (!work) work = work_of(given);
  const MutexLock held(graphs().lock);
  require_place(at, *work);
  if (given.type == CU_GRAPH_NODE_TYPE_MEM_FREE) require_freeable(*at.graph, *work);
  *at.to = add_node(at.graph, std::move(work), list(at.dependencies, at.count), at.edges);
}
void add(const Place& at, CUgraphNodeParams&& given) { add(at, given); }

// What a node shall do from now on, as a program wants it. A copy or memset stays with its context if none is given.
SharedWork changed(const SharedWork& old, CUgraphNodeParams given) {
  require(given.type == old->given.type, "the node is of another type");
  require(!old->condition(), CUDA_ERROR_NOT_SUPPORTED, "a conditional node is not changed");
  require(!old->memory(), CUDA_ERROR_NOT_SUPPORTED, "a node that allocates or frees memory is not changed");
  if (given.type == CU_GRAPH_NODE_TYPE_MEMCPY && !given.memcpy.copyCtx) given.memcpy.copyCtx = old->context;
  if (given.type == CU_GRAPH_NODE_TYPE_MEMSET && !given.memset.ctx) given.memset.ctx = old->context;
  return work_of(given, old->kernel() ? old->kernel()->attributes : Attributes());
}

void set(CUgraphNode node, const CUgraphNodeParams& given) {
  SharedWork work = changed(work_at(node, given.type), given);
  const MutexLock held(graphs().lock);
  checked(node)->work = std::move(work);
}

void set(CUgraphExec exec, CUgraphNode node, const CUgraphNodeParams& given) {
  if (given.type == CU_GRAPH_NODE_TYPE_GRAPH) return set_child(exec, node, given.graph.graph);
  set_work(exec, node, [&](const SharedWork& old) { return changed(old, given); });
}

// --- Attributes of kernels -------------------------------------------------------------------------------------------

void require_kernel_attribute(CUlaunchAttributeID attribute) {
  switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      refuse_not_simulated("a node of a graph that kernels update");
    default: refuse("nodes have no such attribute");
  }
}

void get_attribute(CUgraphNode node, CUlaunchAttributeID attribute, CUlaunchAttributeValue* to) {
  require_non_null(to, "value_out");
  const SharedWork work = work_at(node, CU_GRAPH_NODE_TYPE_KERNEL);
  require_kernel_attribute(attribute);
  const Attributes& attributes = work->kernel()->attributes;
  const auto found = attributes.find(attribute);
  *to = found == attributes.end() ? CUlaunchAttributeValue{} : found->second;
}

void set_attributes(CUgraphNode node, const Attributes& attributes) {
  const SharedWork old = work_at(node, CU_GRAPH_NODE_TYPE_KERNEL);
  SharedWork work = kernel_work(old->given.kernel, attributes);
  const MutexLock held(graphs().lock);
  checked(node)->work = std::move(work);
}

void set_attribute(CUgraphNode node, CUlaunchAttributeID attribute, const CUlaunchAttributeValue* value) {
  require_non_null(value, "value");
  require_kernel_attribute(attribute);
  Attributes attributes = work_at(node, CU_GRAPH_NODE_TYPE_KERNEL)->kernel()->attributes;
  attributes[attribute] = *value;
  set_attributes(node, attributes);
}

void give_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS* to) {
  require_non_null(to, "nodeParams");
  const SharedWork work = work_at(node, CU_GRAPH_NODE_TYPE_KERNEL);
  const CUDA_KERNEL_NODE_PARAMS_v3& p = work->given.kernel;
  *to = {p.func,      p.gridDimX,       p.gridDimY,     p.gridDimZ, p.blockDimX, p.blockDimY,
         p.blockDimZ, p.sharedMemBytes, p.kernelParams, p.extra,    p.kern,      p.ctx};
}

}  // namespace
}  // namespace driver

using namespace driver;

// --- Any type --------------------------------------------------------------------------------------------------------
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  const CUgraphEdgeData* dependencyData, size_t numDependencies,
                                  CUgraphNodeParams* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    add({phGraphNode, hGraph, dependencies, numDependencies, dependencyData}, *nodeParams);
  });
}
CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    set(hNode, *nodeParams);
  });
}
CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams* nodeParams) {
  return call(ARGUMENTS(hGraphExec, hNode, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    set(hGraphExec, hNode, *nodeParams);
  });
}
CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                             size_t numDependencies) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, type_alone(CU_GRAPH_NODE_TYPE_EMPTY)); });
}

// --- Kernels ---------------------------------------------------------------------------------------------------------
CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, kernel_params(nodeParams)); });
}
CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { give_kernel(hNode, nodeParams); });
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { set(hNode, kernel_params(nodeParams)); });
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hGraphExec, hNode, nodeParams), [&] { set(hGraphExec, hNode, kernel_params(nodeParams)); });
}
CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  return call(ARGUMENTS(dst, src),
              [&] { set_attributes(dst, work_at(src, CU_GRAPH_NODE_TYPE_KERNEL)->kernel()->attributes); });
}
CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, CUkernelNodeAttrValue* value_out) {
  return call(ARGUMENTS(hNode, attr, value_out), [&] { get_attribute(hNode, attr, value_out); });
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr, const CUkernelNodeAttrValue* value) {
  return call(ARGUMENTS(hNode, attr, value), [&] { set_attribute(hNode, attr, value); });
}

// --- Copies and memsets ----------------------------------------------------------------------------------------------
CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, copyParams, ctx),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, copy_params(copyParams, ctx)); });
}
CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), result_to(nodeParams, "nodeParams", [&] {
                return work_at(hNode, CU_GRAPH_NODE_TYPE_MEMCPY)->given.memcpy.copyParams;
              }));
}
CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { set(hNode, copy_params(nodeParams, nullptr)); });
}
CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, const CUDA_MEMCPY3D* copyParams,
                                        CUcontext ctx) {
  return call(ARGUMENTS(hGraphExec, hNode, copyParams, ctx),
              [&] { set(hGraphExec, hNode, copy_params(copyParams, ctx)); });
}
CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                              size_t numDependencies, const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, memsetParams, ctx),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, memset_params(memsetParams, ctx)); });
}
CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    const CUDA_MEMSET_NODE_PARAMS_v2 p = work_at(hNode, CU_GRAPH_NODE_TYPE_MEMSET)->given.memset;
    *nodeParams = {p.dst, p.pitch, p.value, p.elementSize, p.width, p.height};
  });
}
CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { set(hNode, memset_params(nodeParams, nullptr)); });
}
CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return call(ARGUMENTS(hGraphExec, hNode, memsetParams, ctx),
              [&] { set(hGraphExec, hNode, memset_params(memsetParams, ctx)); });
}

// --- Host functions, graphs in graphs, events ------------------------------------------------------------------------
CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                            size_t numDependencies, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, host_params(nodeParams)); });
}
CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    const CUDA_HOST_NODE_PARAMS_v2 p = work_at(hNode, CU_GRAPH_NODE_TYPE_HOST)->given.host;
    *nodeParams = {p.fn, p.userData};
  });
}
CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { set(hNode, host_params(nodeParams)); });
}
CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(hGraphExec, hNode, nodeParams), [&] { set(hGraphExec, hNode, host_params(nodeParams)); });
}
CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                  size_t numDependencies, CUgraph childGraph) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, childGraph), [&] {
    CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_GRAPH);
    all.graph.graph = childGraph;
    add({phGraphNode, hGraph, dependencies, numDependencies}, all);
  });
}
CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph) {
  return call(ARGUMENTS(hGraphExec, hNode, childGraph), [&] { set_child(hGraphExec, hNode, childGraph); });
}

// --- Memory ----------------------------------------------------------------------------------------------------------
CUresult cuGraphAddMemAllocNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                size_t numDependencies, CUDA_MEM_ALLOC_NODE_PARAMS* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    all.alloc = {nodeParams->poolProps, nodeParams->accessDescs, nodeParams->accessDescCount, nodeParams->bytesize, 0};
    add({phGraphNode, hGraph, dependencies, numDependencies}, all);
    nodeParams->dptr = all.alloc.dptr;
  });
}
CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS* params_out) {
  return call(ARGUMENTS(hNode, params_out), [&] {
    require_non_null(params_out, "params_out");
    const CUDA_MEM_ALLOC_NODE_PARAMS_v2 p = work_at(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC)->given.alloc;
    *params_out = {p.poolProps, p.accessDescs, p.accessDescCount, p.bytesize, p.dptr};
  });
}
CUresult cuGraphAddMemFreeNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUdeviceptr dptr) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, dptr), [&] {
    CUgraphNodeParams all = type_alone(CU_GRAPH_NODE_TYPE_MEM_FREE);
    all.free.dptr = dptr;
    add({phGraphNode, hGraph, dependencies, numDependencies}, all);
  });
}
CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr* dptr_out) {
  return call(ARGUMENTS(hNode, dptr_out), result_to(dptr_out, "dptr_out", [&] {
                return work_at(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE)->given.free.dptr;
              }));
}

#define EVENT_NODES(Name, type, member)                                                                           \
  CUresult cuGraphAddEvent##Name##Node(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies, \
                                       size_t numDependencies, CUevent event) {                                   \
    return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, event),                             \
                [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, event_params(type, event)); });   \
  }                                                                                                               \
  CUresult cuGraphEvent##Name##NodeGetEvent(CUgraphNode hNode, CUevent* event_out) {                              \
    return call(ARGUMENTS(hNode, event_out),                                                                      \
                result_to(event_out, "event_out", [&] { return work_at(hNode, type)->given.member.event; }));     \
  }                                                                                                               \
  CUresult cuGraphEvent##Name##NodeSetEvent(CUgraphNode hNode, CUevent event) {                                   \
    return call(ARGUMENTS(hNode, event), [&] { set(hNode, event_params(type, event)); });                         \
  }                                                                                                               \
  CUresult cuGraphExecEvent##Name##NodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event) {       \
    return call(ARGUMENTS(hGraphExec, hNode, event), [&] { set(hGraphExec, hNode, event_params(type, event)); }); \
  }
EVENT_NODES(Record, CU_GRAPH_NODE_TYPE_EVENT_RECORD, eventRecord)
EVENT_NODES(Wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT, eventWait)

// --- As programs of earlier versions call them -----------------------------------------------------------------------
#undef cuGraphAddNode
#undef cuGraphAddKernelNode
#undef cuGraphKernelNodeGetParams
#undef cuGraphKernelNodeSetParams
#undef cuGraphExecKernelNodeSetParams
EXPORT CUresult cuGraphAddNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                               size_t numDependencies, CUgraphNodeParams* nodeParams) {
  return cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, nullptr, numDependencies, nodeParams);
}
EXPORT CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                                     size_t numDependencies, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return call(ARGUMENTS(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
              [&] { add({phGraphNode, hGraph, dependencies, numDependencies}, kernel_params(nodeParams)); });
}
EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] {
    require_non_null(nodeParams, "nodeParams");
    const SharedWork work = work_at(hNode, CU_GRAPH_NODE_TYPE_KERNEL);
    const CUDA_KERNEL_NODE_PARAMS_v3& p = work->given.kernel;
    *nodeParams = {
        work->kernel()->function, p.gridDimX,     p.gridDimY, p.gridDimZ, p.blockDimX, p.blockDimY, p.blockDimZ,
        p.sharedMemBytes,         p.kernelParams, p.extra};
  });
}
EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return call(ARGUMENTS(hNode, nodeParams), [&] { set(hNode, kernel_params(nodeParams)); });
}
EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS_v1* nodeParams) {
  return call(ARGUMENTS(hGraphExec, hNode, nodeParams), [&] { set(hGraphExec, hNode, kernel_params(nodeParams)); });
}
