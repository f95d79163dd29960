// SPDX-License-Identifier: MIT-0
// Graphs and stream capture, each call made of the driver's. A kernel is named by its host function here.
#include "runtime.h"

using namespace runtime;

namespace {

CUDA_KERNEL_NODE_PARAMS as_driver(const cudaKernelNodeParams* p) {
  require_non_null(p, "pNodeParams");
  CUDA_KERNEL_NODE_PARAMS all = {};
  all.gridDimX = p->gridDim.x;
  all.gridDimY = p->gridDim.y;
  all.gridDimZ = p->gridDim.z;
  all.blockDimX = p->blockDim.x;
  all.blockDimY = p->blockDim.y;
  all.blockDimZ = p->blockDim.z;
  all.sharedMemBytes = p->sharedMemBytes;
  all.kernelParams = p->kernelParams;
  all.extra = p->extra;
  all.kern = kernel_of(p->func);
  return all;
}

void give(cudaKernelNodeParams* to, const CUDA_KERNEL_NODE_PARAMS& p) {
  require_non_null(to, "pNodeParams");
  *to = {};
  to->func = p.kern ? const_cast<void*>(function_of(p.kern)) : static_cast<void*>(p.func);
  to->gridDim = dim3(p.gridDimX, p.gridDimY, p.gridDimZ);
  to->blockDim = dim3(p.blockDimX, p.blockDimY, p.blockDimZ);
  to->sharedMemBytes = p.sharedMemBytes;
  to->kernelParams = p.kernelParams;
  to->extra = p.extra;
}

CUDA_MEMCPY3D as_driver(const cudaMemcpy3DParms* p) {
  require_non_null(p, "pCopyParams");
  return runtime::as_driver(*p);
}

// A copy of one row.
CUDA_MEMCPY3D row(void* to, const void* from, size_t count, cudaMemcpyKind kind) {
  cudaMemcpy3DParms p = {};
  p.srcPtr = {const_cast<void*>(from), count, count, 1};
  p.dstPtr = {to, count, count, 1};
  p.extent = {count, 1, 1};
  p.kind = kind;
  return runtime::as_driver(p);
}

cudaMemcpyKind kind_of(const CUDA_MEMCPY3D& p) {
  if (p.srcMemoryType == CU_MEMORYTYPE_UNIFIED || p.dstMemoryType == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
  const bool from_host = p.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p.dstMemoryType == CU_MEMORYTYPE_HOST;
  return from_host ? to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice
         : to_host ? cudaMemcpyDeviceToHost
                   : cudaMemcpyDeviceToDevice;
}

void give(cudaMemcpy3DParms* to, const CUDA_MEMCPY3D& p) {
  require_non_null(to, "pNodeParams");
  *to = {};
  const bool from_host = p.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = p.dstMemoryType == CU_MEMORYTYPE_HOST;
  void* const source = from_host ? const_cast<void*>(p.srcHost) : reinterpret_cast<void*>(p.srcDevice);
  void* const target = to_host ? p.dstHost : reinterpret_cast<void*>(p.dstDevice);
  to->srcPtr = {source, p.srcPitch, p.WidthInBytes, p.srcHeight};
  to->dstPtr = {target, p.dstPitch, p.WidthInBytes, p.dstHeight};
  to->srcPos = {p.srcXInBytes, p.srcY, p.srcZ};
  to->dstPos = {p.dstXInBytes, p.dstY, p.dstZ};
  to->extent = {p.WidthInBytes, p.Height, p.Depth};
  to->kind = kind_of(p);
}

// The same members.
const CUDA_MEMSET_NODE_PARAMS* as_driver(const cudaMemsetParams* p) {
  static_assert(sizeof *p == sizeof(CUDA_MEMSET_NODE_PARAMS));
  return reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(p);
}
const CUDA_HOST_NODE_PARAMS* as_driver(const cudaHostNodeParams* p) {
  static_assert(sizeof *p == sizeof(CUDA_HOST_NODE_PARAMS));
  return reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(p);
}
const CUgraphEdgeData* as_driver(const cudaGraphEdgeData* p) {
  static_assert(sizeof *p == sizeof(CUgraphEdgeData));
  return reinterpret_cast<const CUgraphEdgeData*>(p);
}
CUgraphEdgeData* as_driver(cudaGraphEdgeData* p) { return reinterpret_cast<CUgraphEdgeData*>(p); }

// Of any type. Other than kernels and copies they have the same members here as there.
CUgraphNodeParams as_driver(const cudaGraphNodeParams* p) {
  require_non_null(p, "nodeParams");
  CUgraphNodeParams all = {};
  all.type = CUgraphNodeType(p->type);
  if (p->type == cudaGraphNodeTypeKernel) {
    const auto& k = p->kernel;
    const cudaKernelNodeParams old = {k.func, k.gridDim, k.blockDim, k.sharedMemBytes, k.kernelParams, k.extra};
    const CUDA_KERNEL_NODE_PARAMS kernel = as_driver(&old);
    all.kernel = {kernel.func,         kernel.gridDimX,  kernel.gridDimY,  kernel.gridDimZ,
                  kernel.blockDimX,    kernel.blockDimY, kernel.blockDimZ, kernel.sharedMemBytes,
                  kernel.kernelParams, kernel.extra,     kernel.kern,      nullptr};
  } else if (p->type == cudaGraphNodeTypeMemcpy) {
    all.memcpy.copyParams = as_driver(&p->memcpy.copyParams);
  } else if (p->type == cudaGraphNodeTypeMemset) {
    const auto& m = p->memset;
    all.memset = {address(m.dst), m.pitch, m.value, m.elementSize, m.width, m.height, nullptr};
  } else {
    static_assert(sizeof all.reserved1 == sizeof p->reserved1);
    __builtin_memcpy(all.reserved1, p->reserved1, sizeof all.reserved1);
  }
  return all;
}

// Where calls add a node.
struct Place {
  cudaGraphNode_t* to;
  cudaGraph_t graph;
  const cudaGraphNode_t* dependencies;
  size_t count;
};
void add(const Place& at, const CUDA_MEMCPY3D& copy) {
  must(cuGraphAddMemcpyNode(at.to, at.graph, at.dependencies, at.count, &copy, nullptr));
}
void check_side(cudaMemcpyKind kind, cudaMemcpyKind host_side) {
  require(kind == host_side || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault,
          "kind does not fit: the symbol is on the GPU", cudaErrorInvalidMemcpyDirection);
}
CUDA_MEMCPY3D to_symbol(const void* symbol, const void* from, size_t count, size_t offset, cudaMemcpyKind kind) {
  check_side(kind, cudaMemcpyHostToDevice);
  return row(part_of(symbol, count, offset), from, count, kind);
}
CUDA_MEMCPY3D from_symbol(void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
  check_side(kind, cudaMemcpyDeviceToHost);
  return row(to, part_of(symbol, count, offset), count, kind);
}

}  // namespace

#define AT_ARGUMENTS \
  cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies
#define AT pGraphNode, graph, pDependencies, numDependencies

// --- Graphs ----------------------------------------------------------------------------------------------------------
cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return call(ARGUMENTS(pGraph, flags), [&] { return cuGraphCreate(pGraph, flags); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call(ARGUMENTS(graph), [&] { return cuGraphDestroy(graph); });
}
cudaError_t cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  return call(ARGUMENTS(pGraphClone, originalGraph), [&] { return cuGraphClone(pGraphClone, originalGraph); });
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph) {
  return call(ARGUMENTS(pNode, originalNode, clonedGraph),
              [&] { return cuGraphNodeFindInClone(pNode, originalNode, clonedGraph); });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return call(ARGUMENTS(node), [&] { return cuGraphDestroyNode(node); });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return call(ARGUMENTS(node, pType), [&] {
    must(cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)));
    const bool is_known = int(*pType) != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    require(is_known, "the runtime has no name for the type of the node", cudaErrorUnknown);
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return call(ARGUMENTS(graph, nodes, numNodes), [&] { return cuGraphGetNodes(graph, nodes, numNodes); });
}
cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes) {
  return call(ARGUMENTS(graph, pRootNodes, pNumRootNodes),
              [&] { return cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes); });
}
cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int flags) {
  return call(ARGUMENTS(graph, path, flags), [&] { return cuGraphDebugDotPrint(graph, path, flags); });
}

// --- Nodes: any, and empty ones --------------------------------------------------------------------------------------
cudaError_t cudaGraphAddEmptyNode(AT_ARGUMENTS) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies), [&] { return cuGraphAddEmptyNode(AT); });
}
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
  return call(ARGUMENTS(node, nodeParams), [&] {
    CUgraphNodeParams all = as_driver(nodeParams);
    must(cuGraphNodeSetParams(node, &all));
  });
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* nodeParams) {
  return call(ARGUMENTS(graphExec, node, nodeParams), [&] {
    CUgraphNodeParams all = as_driver(nodeParams);
    must(cuGraphExecNodeSetParams(graphExec, node, &all));
  });
}

// --- Kernels ---------------------------------------------------------------------------------------------------------
cudaError_t cudaGraphAddKernelNode(AT_ARGUMENTS, const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, pNodeParams), [&] {
    const CUDA_KERNEL_NODE_PARAMS all = as_driver(pNodeParams);
    must(cuGraphAddKernelNode(AT, &all));
  });
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] {
    CUDA_KERNEL_NODE_PARAMS all = {};
    must(cuGraphKernelNodeGetParams(node, &all));
    give(pNodeParams, all);
  });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] {
    const CUDA_KERNEL_NODE_PARAMS all = as_driver(pNodeParams);
    must(cuGraphKernelNodeSetParams(node, &all));
  });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(hGraphExec, node, pNodeParams), [&] {
    const CUDA_KERNEL_NODE_PARAMS all = as_driver(pNodeParams);
    must(cuGraphExecKernelNodeSetParams(hGraphExec, node, &all));
  });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc) {
#else
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hSrc, cudaGraphNode_t hDst) {
#endif
  return call(ARGUMENTS(hDst, hSrc), [&] { return cuGraphKernelNodeCopyAttributes(hDst, hSrc); });
}
cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                            cudaLaunchAttributeValue* value_out) {
  return call(ARGUMENTS(hNode, attr, value_out), [&] {
    return cuGraphKernelNodeGetAttribute(hNode, CUlaunchAttributeID(attr),
                                         reinterpret_cast<CUlaunchAttributeValue*>(value_out));
  });
}
cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaLaunchAttributeID attr,
                                            const cudaLaunchAttributeValue* value) {
  return call(ARGUMENTS(hNode, attr, value), [&] {
    return cuGraphKernelNodeSetAttribute(hNode, CUlaunchAttributeID(attr),
                                         reinterpret_cast<const CUlaunchAttributeValue*>(value));
  });
}

// --- Copies ----------------------------------------------------------------------------------------------------------
cudaError_t cudaGraphAddMemcpyNode(AT_ARGUMENTS, const cudaMemcpy3DParms* pCopyParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, pCopyParams),
              [&] { add({AT}, as_driver(pCopyParams)); });
}
cudaError_t cudaGraphAddMemcpyNode1D(AT_ARGUMENTS, void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, dst, src, count, kind),
              [&] { add({AT}, row(dst, src, count, kind)); });
}
cudaError_t cudaGraphAddMemcpyNodeToSymbol(AT_ARGUMENTS, const void* symbol, const void* src, size_t count,
                                           size_t offset, cudaMemcpyKind kind) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, symbol, src, count, offset, kind),
              [&] { add({AT}, to_symbol(symbol, src, count, offset, kind)); });
}
cudaError_t cudaGraphAddMemcpyNodeFromSymbol(AT_ARGUMENTS, void* dst, const void* symbol, size_t count, size_t offset,
                                             cudaMemcpyKind kind) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, dst, symbol, count, offset, kind),
              [&] { add({AT}, from_symbol(dst, symbol, count, offset, kind)); });
}
cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node, cudaMemcpy3DParms* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] {
    CUDA_MEMCPY3D all = {};
    must(cuGraphMemcpyNodeGetParams(node, &all));
    give(pNodeParams, all);
  });
}

// To set the parameters of a copy, in a graph and in an executable one: as above.
#define SET_COPY(suffix, parameters, arguments, copy)                                                                  \
  cudaError_t cudaGraphMemcpyNodeSetParams##suffix(cudaGraphNode_t node, parameters) {                                 \
    return call(ARGUMENTS(node, arguments), [&] {                                                                      \
      const CUDA_MEMCPY3D all = copy;                                                                                  \
      must(cuGraphMemcpyNodeSetParams(node, &all));                                                                    \
    });                                                                                                                \
  }                                                                                                                    \
  cudaError_t cudaGraphExecMemcpyNodeSetParams##suffix(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, parameters) { \
    return call(ARGUMENTS(hGraphExec, node, arguments), [&] {                                                          \
      const CUDA_MEMCPY3D all = copy;                                                                                  \
      must(cuGraphExecMemcpyNodeSetParams(hGraphExec, node, &all, nullptr));                                           \
    });                                                                                                                \
  }
#define LIST(...) __VA_ARGS__
SET_COPY(, const cudaMemcpy3DParms* pNodeParams, pNodeParams, as_driver(pNodeParams))
SET_COPY(1D, LIST(void* dst, const void* src, size_t count, cudaMemcpyKind kind), LIST(dst, src, count, kind),
         row(dst, src, count, kind))
SET_COPY(ToSymbol, LIST(const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind),
         LIST(symbol, src, count, offset, kind), to_symbol(symbol, src, count, offset, kind))
SET_COPY(FromSymbol, LIST(void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind),
         LIST(dst, symbol, count, offset, kind), from_symbol(dst, symbol, count, offset, kind))

// --- Memsets, host functions, graphs in graphs, events ---------------------------------------------------------------
cudaError_t cudaGraphAddMemsetNode(AT_ARGUMENTS, const cudaMemsetParams* pMemsetParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, pMemsetParams),
              [&] { return cuGraphAddMemsetNode(AT, as_driver(pMemsetParams), nullptr); });
}
cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, cudaMemsetParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] {
    return cuGraphMemsetNodeGetParams(node, reinterpret_cast<CUDA_MEMSET_NODE_PARAMS*>(pNodeParams));
  });
}
cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node, const cudaMemsetParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] { return cuGraphMemsetNodeSetParams(node, as_driver(pNodeParams)); });
}
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemsetParams* pNodeParams) {
  return call(ARGUMENTS(hGraphExec, node, pNodeParams),
              [&] { return cuGraphExecMemsetNodeSetParams(hGraphExec, node, as_driver(pNodeParams), nullptr); });
}
cudaError_t cudaGraphAddHostNode(AT_ARGUMENTS, const cudaHostNodeParams* pNodeParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, pNodeParams),
              [&] { return cuGraphAddHostNode(AT, as_driver(pNodeParams)); });
}
cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, cudaHostNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams),
              [&] { return cuGraphHostNodeGetParams(node, reinterpret_cast<CUDA_HOST_NODE_PARAMS*>(pNodeParams)); });
}
cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node, const cudaHostNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] { return cuGraphHostNodeSetParams(node, as_driver(pNodeParams)); });
}
cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const cudaHostNodeParams* pNodeParams) {
  return call(ARGUMENTS(hGraphExec, node, pNodeParams),
              [&] { return cuGraphExecHostNodeSetParams(hGraphExec, node, as_driver(pNodeParams)); });
}
cudaError_t cudaGraphAddChildGraphNode(AT_ARGUMENTS, cudaGraph_t childGraph) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, childGraph),
              [&] { return cuGraphAddChildGraphNode(AT, childGraph); });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* pGraph) {
  return call(ARGUMENTS(node, pGraph), [&] { return cuGraphChildGraphNodeGetGraph(node, pGraph); });
}
cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 cudaGraph_t childGraph) {
  return call(ARGUMENTS(hGraphExec, node, childGraph),
              [&] { return cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph); });
}
// --- Memory: the same members ----------------------------------------------------------------------------------------
static CUDA_MEM_ALLOC_NODE_PARAMS* as_driver(cudaMemAllocNodeParams* p) {
  static_assert(sizeof *p == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS));
  return reinterpret_cast<CUDA_MEM_ALLOC_NODE_PARAMS*>(p);
}
cudaError_t cudaGraphAddMemAllocNode(AT_ARGUMENTS, cudaMemAllocNodeParams* nodeParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, nodeParams),
              [&] { return cuGraphAddMemAllocNode(AT, as_driver(nodeParams)); });
}
cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node, cudaMemAllocNodeParams* params_out) {
  return call(ARGUMENTS(node, params_out), [&] { return cuGraphMemAllocNodeGetParams(node, as_driver(params_out)); });
}
cudaError_t cudaGraphAddMemFreeNode(AT_ARGUMENTS, void* dptr) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, dptr),
              [&] { return cuGraphAddMemFreeNode(AT, address(dptr)); });
}
cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* dptr_out) {
  return call(ARGUMENTS(node, dptr_out),
              [&] { return cuGraphMemFreeNodeGetParams(node, static_cast<CUdeviceptr*>(dptr_out)); });
}
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr, void* value) {
  return call(ARGUMENTS(device, attr, value),
              [&] { return cuDeviceGetGraphMemAttribute(checked(device), CUgraphMem_attribute(attr), value); });
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attr, void* value) {
  return call(ARGUMENTS(device, attr, value),
              [&] { return cuDeviceSetGraphMemAttribute(checked(device), CUgraphMem_attribute(attr), value); });
}
cudaError_t cudaDeviceGraphMemTrim(int device) {
  return call(ARGUMENTS(device), [&] { return cuDeviceGraphMemTrim(checked(device)); });
}

#define EVENT_NODES(Name)                                                                                       \
  cudaError_t cudaGraphAddEvent##Name##Node(AT_ARGUMENTS, cudaEvent_t event) {                                  \
    return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, event),                            \
                [&] { return cuGraphAddEvent##Name##Node(AT, event); });                                        \
  }                                                                                                             \
  cudaError_t cudaGraphEvent##Name##NodeGetEvent(cudaGraphNode_t node, cudaEvent_t* event_out) {                \
    return call(ARGUMENTS(node, event_out), [&] { return cuGraphEvent##Name##NodeGetEvent(node, event_out); }); \
  }                                                                                                             \
  cudaError_t cudaGraphEvent##Name##NodeSetEvent(cudaGraphNode_t node, cudaEvent_t event) {                     \
    return call(ARGUMENTS(node, event), [&] { return cuGraphEvent##Name##NodeSetEvent(node, event); });         \
  }                                                                                                             \
  cudaError_t cudaGraphExecEvent##Name##NodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,         \
                                                     cudaEvent_t event) {                                       \
    return call(ARGUMENTS(hGraphExec, hNode, event),                                                            \
                [&] { return cuGraphExecEvent##Name##NodeSetEvent(hGraphExec, hNode, event); });                \
  }
EVENT_NODES(Record)
EVENT_NODES(Wait)

// --- Edges: since CUDA 13 with data ----------------------------------------------------------------------------------
#if CUDART_VERSION >= 13000
#define WITH_EDGES(name) name
#else
#define WITH_EDGES(name) name##_v2
#endif
EXPORT cudaError_t WITH_EDGES(cudaGraphAddNode)(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                                const cudaGraphNode_t* pDependencies,
                                                const cudaGraphEdgeData* dependencyData, size_t numDependencies,
                                                cudaGraphNodeParams* nodeParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, nodeParams), [&] {
    CUgraphNodeParams all = as_driver(nodeParams);
    if (nodeParams->type == cudaGraphNodeTypeConditional) must(cuCtxGetCurrent(&all.conditional.ctx));
    must(cuGraphAddNode_v2(pGraphNode, graph, pDependencies, as_driver(dependencyData), numDependencies, &all));
    if (nodeParams->type == cudaGraphNodeTypeConditional)
      nodeParams->conditional.phGraph_out = all.conditional.phGraph_out;
    if (nodeParams->type == cudaGraphNodeTypeMemAlloc) nodeParams->alloc.dptr = reinterpret_cast<void*>(all.alloc.dptr);
  });
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* pHandle_out, cudaGraph_t graph,
                                             unsigned int defaultLaunchValue, unsigned int flags) {
  return call(ARGUMENTS(pHandle_out, graph, defaultLaunchValue, flags), [&] {
    CUcontext context = nullptr;
    must(cuCtxGetCurrent(&context));
    must(cuGraphConditionalHandleCreate(reinterpret_cast<CUgraphConditionalHandle*>(pHandle_out), graph, context,
                                        defaultLaunchValue, flags));
  });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphGetEdges)(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                                                 cudaGraphEdgeData* edgeData, size_t* numEdges) {
  return call(ARGUMENTS(graph, from, to, numEdges),
              [&] { return cuGraphGetEdges_v2(graph, from, to, as_driver(edgeData), numEdges); });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                                            cudaGraphEdgeData* edgeData, size_t* pNumDependencies) {
  return call(ARGUMENTS(node, pDependencies, pNumDependencies), [&] {
    return cuGraphNodeGetDependencies_v2(node, pDependencies, as_driver(edgeData), pNumDependencies);
  });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                                              cudaGraphEdgeData* edgeData, size_t* pNumDependentNodes) {
  return call(ARGUMENTS(node, pDependentNodes, pNumDependentNodes), [&] {
    return cuGraphNodeGetDependentNodes_v2(node, pDependentNodes, as_driver(edgeData), pNumDependentNodes);
  });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                                        size_t numDependencies) {
  return call(ARGUMENTS(graph, from, to, numDependencies),
              [&] { return cuGraphAddDependencies_v2(graph, from, to, as_driver(edgeData), numDependencies); });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphRemoveDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                           const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                                           size_t numDependencies) {
  return call(ARGUMENTS(graph, from, to, numDependencies),
              [&] { return cuGraphRemoveDependencies_v2(graph, from, to, as_driver(edgeData), numDependencies); });
}
#if CUDART_VERSION < 13000
cudaError_t cudaGraphAddNode(AT_ARGUMENTS, cudaGraphNodeParams* nodeParams) {
  return cudaGraphAddNode_v2(pGraphNode, graph, pDependencies, nullptr, numDependencies, nodeParams);
}
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to, size_t* numEdges) {
  return cudaGraphGetEdges_v2(graph, from, to, nullptr, numEdges);
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                         size_t* pNumDependencies) {
  return cudaGraphNodeGetDependencies_v2(node, pDependencies, nullptr, pNumDependencies);
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                           size_t* pNumDependentNodes) {
  return cudaGraphNodeGetDependentNodes_v2(node, pDependentNodes, nullptr, pNumDependentNodes);
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     size_t numDependencies) {
  return cudaGraphAddDependencies_v2(graph, from, to, nullptr, numDependencies);
}
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                        size_t numDependencies) {
  return cudaGraphRemoveDependencies_v2(graph, from, to, nullptr, numDependencies);
}
#endif

// --- User objects ----------------------------------------------------------------------------------------------------
cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags) {
  return call(ARGUMENTS(object_out, ptr, initialRefcount, flags),
              [&] { return cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags); });
}
cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return call(ARGUMENTS(object, count), [&] { return cuUserObjectRetain(object, count); });
}
cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return call(ARGUMENTS(object, count), [&] { return cuUserObjectRelease(object, count); });
}
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags) {
  return call(ARGUMENTS(graph, object, count, flags),
              [&] { return cuGraphRetainUserObject(graph, object, count, flags); });
}
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return call(ARGUMENTS(graph, object, count), [&] { return cuGraphReleaseUserObject(graph, object, count); });
}

// --- Executable graphs -----------------------------------------------------------------------------------------------
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  return call(ARGUMENTS(pGraphExec, graph, flags), [&] { return cuGraphInstantiate(pGraphExec, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph, unsigned long long flags) {
  return call(ARGUMENTS(pGraphExec, graph, flags), [&] { return cuGraphInstantiate(pGraphExec, graph, flags); });
}
STREAM_CALL(cudaGraphInstantiateWithParams, _ptsz,
            (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, cudaGraphInstantiateParams* instantiateParams),
            (pGraphExec, graph, instantiateParams)) {
  return call(ARGUMENTS(pGraphExec, graph, instantiateParams), [&] {
    require_non_null(instantiateParams, "instantiateParams");
    CUDA_GRAPH_INSTANTIATE_PARAMS all = {instantiateParams->flags, at(instantiateParams->uploadStream), nullptr, {}};
    const int result = cuGraphInstantiateWithParams(pGraphExec, graph, &all);
    instantiateParams->errNode_out = all.hErrNode_out;
    instantiateParams->result_out = cudaGraphInstantiateResult(all.result_out);
    must(result);
  });
}
cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long* flags) {
  return call(ARGUMENTS(graphExec, flags),
              [&] { return cuGraphExecGetFlags(graphExec, reinterpret_cast<cuuint64_t*>(flags)); });
}
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo* resultInfo) {
  return call(ARGUMENTS(hGraphExec, hGraph, resultInfo), [&] {
    static_assert(sizeof *resultInfo == sizeof(CUgraphExecUpdateResultInfo));
    return cuGraphExecUpdate(hGraphExec, hGraph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(resultInfo));
  });
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled) {
  return call(ARGUMENTS(hGraphExec, hNode, isEnabled),
              [&] { return cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled); });
}
cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int* isEnabled) {
  return call(ARGUMENTS(hGraphExec, hNode, isEnabled),
              [&] { return cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled); });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return call(ARGUMENTS(graphExec), [&] { return cuGraphExecDestroy(graphExec); });
}
STREAM_CALL(cudaGraphUpload, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream)) {
  return call(ARGUMENTS(graphExec, stream), [&] { return cuGraphUpload(graphExec, at(stream)); });
}
STREAM_CALL(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream)) {
  const driver::KernelNames kernels = driver::kernels_of(graphExec);
  return call(ARGUMENTS(graphExec, stream, kernels), [&] { return cuGraphLaunch(graphExec, at(stream)); });
}

// --- Capture ---------------------------------------------------------------------------------------------------------
STREAM_CALL(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, cudaStreamCaptureMode mode), (stream, mode)) {
  return call(ARGUMENTS(stream, mode), [&] { return cuStreamBeginCapture(at(stream), CUstreamCaptureMode(mode)); });
}
STREAM_CALL(cudaStreamBeginCaptureToGraph, _ptsz,
            (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
             const cudaGraphEdgeData* dependencyData, size_t numDependencies, cudaStreamCaptureMode mode),
            (stream, graph, dependencies, dependencyData, numDependencies, mode)) {
  return call(ARGUMENTS(stream, graph, dependencies, numDependencies, mode), [&] {
    return cuStreamBeginCaptureToGraph(at(stream), graph, dependencies, as_driver(dependencyData), numDependencies,
                                       CUstreamCaptureMode(mode));
  });
}
STREAM_CALL(cudaStreamEndCapture, _ptsz, (cudaStream_t stream, cudaGraph_t* pGraph), (stream, pGraph)) {
  return call(ARGUMENTS(stream, pGraph), [&] { return cuStreamEndCapture(at(stream), pGraph); });
}
STREAM_CALL(cudaStreamIsCapturing, _ptsz, (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus),
            (stream, pCaptureStatus)) {
  return call(ARGUMENTS(stream, pCaptureStatus), [&] {
    return cuStreamIsCapturing(at(stream), reinterpret_cast<CUstreamCaptureStatus*>(pCaptureStatus));
  });
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(ARGUMENTS(mode), driver_only,
              [&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

namespace {
cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** dependencies, const cudaGraphEdgeData** edges,
                         size_t* count) {
  return cudaError_t(cuStreamGetCaptureInfo_v3(at(stream), reinterpret_cast<CUstreamCaptureStatus*>(status),
                                               reinterpret_cast<cuuint64_t*>(id), graph, dependencies,
                                               reinterpret_cast<const CUgraphEdgeData**>(edges), count));
}
}  // namespace

#if CUDART_VERSION >= 13000
STREAM_CALL(cudaStreamGetCaptureInfo, _ptsz,
            (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
             cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
             size_t* numDependencies_out),
            (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return call(ARGUMENTS(stream, captureStatus_out), [&] {
    return capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                        numDependencies_out);
  });
}
STREAM_CALL(cudaStreamUpdateCaptureDependencies, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
             size_t numDependencies, unsigned int flags),
            (stream, dependencies, dependencyData, numDependencies, flags)) {
  return call(ARGUMENTS(stream, numDependencies, flags), [&] {
    return cuStreamUpdateCaptureDependencies_v2(at(stream), dependencies, as_driver(dependencyData), numDependencies,
                                                flags);
  });
}
#else
STREAM_CALL(cudaStreamGetCaptureInfo_v2, _ptsz,
            (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
             cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, size_t* numDependencies_out),
            (stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)) {
  return call(ARGUMENTS(stream, captureStatus_out), [&] {
    return capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out, nullptr, numDependencies_out);
  });
}
STREAM_CALL(cudaStreamGetCaptureInfo_v3, _ptsz,
            (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
             cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, const cudaGraphEdgeData** edgeData_out,
             size_t* numDependencies_out),
            (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return call(ARGUMENTS(stream, captureStatus_out), [&] {
    return capture_info(stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
                        numDependencies_out);
  });
}
STREAM_CALL(cudaStreamUpdateCaptureDependencies_v2, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
             size_t numDependencies, unsigned int flags),
            (stream, dependencies, dependencyData, numDependencies, flags)) {
  return call(ARGUMENTS(stream, numDependencies, flags), [&] {
    return cuStreamUpdateCaptureDependencies_v2(at(stream), dependencies, as_driver(dependencyData), numDependencies,
                                                flags);
  });
}
STREAM_CALL(cudaStreamUpdateCaptureDependencies, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t* dependencies, size_t numDependencies, unsigned int flags),
            (stream, dependencies, numDependencies, flags)) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, numDependencies, flags);
}
#endif
