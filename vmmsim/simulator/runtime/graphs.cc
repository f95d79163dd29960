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

// To what is made for a call, and lasts until it has its answer.
template <class T> T* pointer_to(T&& made) { return &made; }

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
CUDA_MEMCPY3D to_symbol(const void* symbol, const void* from, size_t count, size_t offset, cudaMemcpyKind kind) {
  require_side(kind, cudaMemcpyHostToDevice);
  return row(part_of(symbol, count, offset), from, count, kind);
}
CUDA_MEMCPY3D from_symbol(void* to, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind) {
  require_side(kind, cudaMemcpyDeviceToHost);
  return row(to, part_of(symbol, count, offset), count, kind);
}

}  // namespace

#define AT_ARGUMENTS \
  cudaGraphNode_t *pGraphNode, cudaGraph_t graph, const cudaGraphNode_t *pDependencies, size_t numDependencies
#define AT pGraphNode, graph, pDependencies, numDependencies

// --- Graphs ----------------------------------------------------------------------------------------------------------
FORWARD(cudaGraphCreate, cuGraphCreate, (cudaGraph_t * pGraph, unsigned int flags), pGraph, flags)
FORWARD(cudaGraphDestroy, cuGraphDestroy, (cudaGraph_t graph), graph)
FORWARD(cudaGraphClone, cuGraphClone, (cudaGraph_t * pGraphClone, cudaGraph_t originalGraph), pGraphClone,
        originalGraph)
FORWARD(cudaGraphNodeFindInClone, cuGraphNodeFindInClone,
        (cudaGraphNode_t * pNode, cudaGraphNode_t originalNode, cudaGraph_t clonedGraph), pNode, originalNode,
        clonedGraph)
FORWARD(cudaGraphDestroyNode, cuGraphDestroyNode, (cudaGraphNode_t node), node)
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return call(ARGUMENTS(node, pType), [&] {
    must(cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)));
    const bool is_known = int(*pType) != CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    require(is_known, "the runtime has no name for the type of the node", cudaErrorUnknown);
  });
}
FORWARD(cudaGraphGetNodes, cuGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes), graph, nodes,
        numNodes)
FORWARD(cudaGraphGetRootNodes, cuGraphGetRootNodes,
        (cudaGraph_t graph, cudaGraphNode_t* pRootNodes, size_t* pNumRootNodes), graph, pRootNodes, pNumRootNodes)
FORWARD(cudaGraphDebugDotPrint, cuGraphDebugDotPrint, (cudaGraph_t graph, const char* path, unsigned int flags), graph,
        path, flags)

// --- Nodes: any, and empty ones --------------------------------------------------------------------------------------
FORWARD(cudaGraphAddEmptyNode, cuGraphAddEmptyNode, (AT_ARGUMENTS), AT)
cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, cudaGraphNodeParams* nodeParams) {
  return call(ARGUMENTS(node, nodeParams),
              [&] { return cuGraphNodeSetParams(node, pointer_to(as_driver(nodeParams))); });
}
cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       cudaGraphNodeParams* nodeParams) {
  return call(ARGUMENTS(graphExec, node, nodeParams),
              [&] { return cuGraphExecNodeSetParams(graphExec, node, pointer_to(as_driver(nodeParams))); });
}

// --- Kernels ---------------------------------------------------------------------------------------------------------
cudaError_t cudaGraphAddKernelNode(AT_ARGUMENTS, const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(pGraphNode, graph, pDependencies, numDependencies, pNodeParams),
              [&] { return cuGraphAddKernelNode(AT, pointer_to(as_driver(pNodeParams))); });
}
cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams), [&] {
    CUDA_KERNEL_NODE_PARAMS all = {};
    must(cuGraphKernelNodeGetParams(node, &all));
    give(pNodeParams, all);
  });
}
cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(node, pNodeParams),
              [&] { return cuGraphKernelNodeSetParams(node, pointer_to(as_driver(pNodeParams))); });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
  return call(ARGUMENTS(hGraphExec, node, pNodeParams),
              [&] { return cuGraphExecKernelNodeSetParams(hGraphExec, node, pointer_to(as_driver(pNodeParams))); });
}
#if CUDART_VERSION >= 13000
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc) {
#else
cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hSrc, cudaGraphNode_t hDst) {
#endif
  return call(ARGUMENTS(hDst, hSrc), [&] { return cuGraphKernelNodeCopyAttributes(hDst, hSrc); });
}
FORWARD(cudaGraphKernelNodeGetAttribute, cuGraphKernelNodeGetAttribute,
        (cudaGraphNode_t hNode, cudaLaunchAttributeID attr, cudaLaunchAttributeValue* value_out), hNode, attr,
        value_out)
FORWARD(cudaGraphKernelNodeSetAttribute, cuGraphKernelNodeSetAttribute,
        (cudaGraphNode_t hNode, cudaLaunchAttributeID attr, const cudaLaunchAttributeValue* value), hNode, attr, value)

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
    return call(ARGUMENTS(node, arguments), [&] { return cuGraphMemcpyNodeSetParams(node, pointer_to(copy)); });       \
  }                                                                                                                    \
  cudaError_t cudaGraphExecMemcpyNodeSetParams##suffix(cudaGraphExec_t hGraphExec, cudaGraphNode_t node, parameters) { \
    return call(ARGUMENTS(hGraphExec, node, arguments),                                                                \
                [&] { return cuGraphExecMemcpyNodeSetParams(hGraphExec, node, pointer_to(copy), nullptr); });          \
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
              [&] { return forward(cuGraphAddMemsetNode, AT, pMemsetParams, nullptr); });
}
FORWARD(cudaGraphMemsetNodeGetParams, cuGraphMemsetNodeGetParams, (cudaGraphNode_t node, cudaMemsetParams* pNodeParams),
        node, pNodeParams)
FORWARD(cudaGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams,
        (cudaGraphNode_t node, const cudaMemsetParams* pNodeParams), node, pNodeParams)
cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaMemsetParams* pNodeParams) {
  return call(ARGUMENTS(hGraphExec, node, pNodeParams),
              [&] { return forward(cuGraphExecMemsetNodeSetParams, hGraphExec, node, pNodeParams, nullptr); });
}
FORWARD(cudaGraphAddHostNode, cuGraphAddHostNode, (AT_ARGUMENTS, const cudaHostNodeParams* pNodeParams), AT,
        pNodeParams)
FORWARD(cudaGraphHostNodeGetParams, cuGraphHostNodeGetParams, (cudaGraphNode_t node, cudaHostNodeParams* pNodeParams),
        node, pNodeParams)
FORWARD(cudaGraphHostNodeSetParams, cuGraphHostNodeSetParams,
        (cudaGraphNode_t node, const cudaHostNodeParams* pNodeParams), node, pNodeParams)
FORWARD(cudaGraphExecHostNodeSetParams, cuGraphExecHostNodeSetParams,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, const cudaHostNodeParams* pNodeParams), hGraphExec, node,
        pNodeParams)
FORWARD(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode, (AT_ARGUMENTS, cudaGraph_t childGraph), AT, childGraph)
FORWARD(cudaGraphChildGraphNodeGetGraph, cuGraphChildGraphNodeGetGraph, (cudaGraphNode_t node, cudaGraph_t* pGraph),
        node, pGraph)
FORWARD(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t node, cudaGraph_t childGraph), hGraphExec, node, childGraph)
// --- Memory ---------------------------------------------------------------------------------------------------------
FORWARD(cudaGraphAddMemAllocNode, cuGraphAddMemAllocNode, (AT_ARGUMENTS, cudaMemAllocNodeParams* nodeParams), AT,
        nodeParams)
FORWARD(cudaGraphMemAllocNodeGetParams, cuGraphMemAllocNodeGetParams,
        (cudaGraphNode_t node, cudaMemAllocNodeParams* params_out), node, params_out)
FORWARD(cudaGraphAddMemFreeNode, cuGraphAddMemFreeNode, (AT_ARGUMENTS, void* dptr), AT, dptr)
FORWARD(cudaGraphMemFreeNodeGetParams, cuGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* dptr_out), node,
        dptr_out)
cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attr, void* value) {
  return call(ARGUMENTS(device, attr, value),
              [&] { return forward(cuDeviceGetGraphMemAttribute, checked(device), attr, value); });
}
cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attr, void* value) {
  return call(ARGUMENTS(device, attr, value),
              [&] { return forward(cuDeviceSetGraphMemAttribute, checked(device), attr, value); });
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
    must(forward(cuGraphAddNode_v2, pGraphNode, graph, pDependencies, dependencyData, numDependencies, &all));
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
              [&] { return forward(cuGraphGetEdges_v2, graph, from, to, edgeData, numEdges); });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphNodeGetDependencies)(cudaGraphNode_t node, cudaGraphNode_t* pDependencies,
                                                            cudaGraphEdgeData* edgeData, size_t* pNumDependencies) {
  return call(ARGUMENTS(node, pDependencies, pNumDependencies),
              [&] { return forward(cuGraphNodeGetDependencies_v2, node, pDependencies, edgeData, pNumDependencies); });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphNodeGetDependentNodes)(cudaGraphNode_t node, cudaGraphNode_t* pDependentNodes,
                                                              cudaGraphEdgeData* edgeData, size_t* pNumDependentNodes) {
  return call(ARGUMENTS(node, pDependentNodes, pNumDependentNodes), [&] {
    return forward(cuGraphNodeGetDependentNodes_v2, node, pDependentNodes, edgeData, pNumDependentNodes);
  });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphAddDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                        const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                                        size_t numDependencies) {
  return call(ARGUMENTS(graph, from, to, numDependencies),
              [&] { return forward(cuGraphAddDependencies_v2, graph, from, to, edgeData, numDependencies); });
}
EXPORT cudaError_t WITH_EDGES(cudaGraphRemoveDependencies)(cudaGraph_t graph, const cudaGraphNode_t* from,
                                                           const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                                           size_t numDependencies) {
  return call(ARGUMENTS(graph, from, to, numDependencies),
              [&] { return forward(cuGraphRemoveDependencies_v2, graph, from, to, edgeData, numDependencies); });
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
FORWARD(cudaUserObjectRetain, cuUserObjectRetain, (cudaUserObject_t object, unsigned int count), object, count)
FORWARD(cudaUserObjectRelease, cuUserObjectRelease, (cudaUserObject_t object, unsigned int count), object, count)
FORWARD(cudaGraphRetainUserObject, cuGraphRetainUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count, unsigned int flags), graph, object, count,
        flags)
FORWARD(cudaGraphReleaseUserObject, cuGraphReleaseUserObject,
        (cudaGraph_t graph, cudaUserObject_t object, unsigned int count), graph, object, count)

// --- Executable graphs -----------------------------------------------------------------------------------------------
FORWARD(cudaGraphInstantiate, cuGraphInstantiate,
        (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags), pGraphExec, graph, flags)
FORWARD(cudaGraphInstantiateWithFlags, cuGraphInstantiate,
        (cudaGraphExec_t * pGraphExec, cudaGraph_t graph, unsigned long long flags), pGraphExec, graph, flags)
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
FORWARD(cudaGraphExecGetFlags, cuGraphExecGetFlags, (cudaGraphExec_t graphExec, unsigned long long* flags), graphExec,
        flags)
cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo* resultInfo) {
  return call(ARGUMENTS(hGraphExec, hGraph, resultInfo), [&] {
    static_assert(sizeof *resultInfo == sizeof(CUgraphExecUpdateResultInfo));
    return cuGraphExecUpdate(hGraphExec, hGraph, reinterpret_cast<CUgraphExecUpdateResultInfo*>(resultInfo));
  });
}
FORWARD(cudaGraphNodeSetEnabled, cuGraphNodeSetEnabled,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int isEnabled), hGraphExec, hNode, isEnabled)
FORWARD(cudaGraphNodeGetEnabled, cuGraphNodeGetEnabled,
        (cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode, unsigned int* isEnabled), hGraphExec, hNode, isEnabled)
FORWARD(cudaGraphExecDestroy, cuGraphExecDestroy, (cudaGraphExec_t graphExec), graphExec)
STREAM_FORWARD(cudaGraphUpload, _ptsz, cuGraphUpload, (cudaGraphExec_t graphExec, cudaStream_t stream), graphExec,
               stream)
STREAM_CALL(cudaGraphLaunch, _ptsz, (cudaGraphExec_t graphExec, cudaStream_t stream), (graphExec, stream)) {
  const driver::KernelNames kernels = driver::kernels_of(graphExec);
  return call(ARGUMENTS(graphExec, stream, kernels), [&] { return cuGraphLaunch(graphExec, at(stream)); });
}

// --- Capture ---------------------------------------------------------------------------------------------------------
STREAM_FORWARD(cudaStreamBeginCapture, _ptsz, cuStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
               stream, mode)
STREAM_CALL(cudaStreamBeginCaptureToGraph, _ptsz,
            (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
             const cudaGraphEdgeData* dependencyData, size_t numDependencies, cudaStreamCaptureMode mode),
            (stream, graph, dependencies, dependencyData, numDependencies, mode)) {
  return call(ARGUMENTS(stream, graph, dependencies, numDependencies, mode), [&] {
    return forward(cuStreamBeginCaptureToGraph, at(stream), graph, dependencies, dependencyData, numDependencies, mode);
  });
}
STREAM_FORWARD(cudaStreamEndCapture, _ptsz, cuStreamEndCapture, (cudaStream_t stream, cudaGraph_t* pGraph), stream,
               pGraph)
STREAM_FORWARD(cudaStreamIsCapturing, _ptsz, cuStreamIsCapturing,
               (cudaStream_t stream, cudaStreamCaptureStatus* pCaptureStatus), stream, pCaptureStatus)
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call(ARGUMENTS(mode), driver_only,
              [&] { return cuThreadExchangeStreamCaptureMode(reinterpret_cast<CUstreamCaptureMode*>(mode)); });
}

#if CUDART_VERSION >= 13000
#define CAPTURE_INFO cudaStreamGetCaptureInfo
#else
#define CAPTURE_INFO cudaStreamGetCaptureInfo_v3
#endif
#define STREAM_CALL_OF(name, ...) STREAM_CALL(name, __VA_ARGS__)
STREAM_CALL_OF(CAPTURE_INFO, _ptsz,
               (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
                cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out,
                const cudaGraphEdgeData** edgeData_out, size_t* numDependencies_out),
               (stream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out, numDependencies_out)) {
  return call(ARGUMENTS(stream, captureStatus_out), [&] {
    return forward(cuStreamGetCaptureInfo_v3, at(stream), captureStatus_out, id_out, graph_out, dependencies_out,
                   edgeData_out, numDependencies_out);
  });
}
STREAM_CALL_OF(WITH_EDGES(cudaStreamUpdateCaptureDependencies), _ptsz,
               (cudaStream_t stream, cudaGraphNode_t* dependencies, const cudaGraphEdgeData* dependencyData,
                size_t numDependencies, unsigned int flags),
               (stream, dependencies, dependencyData, numDependencies, flags)) {
  return call(ARGUMENTS(stream, numDependencies, flags), [&] {
    return forward(cuStreamUpdateCaptureDependencies_v2, at(stream), dependencies, dependencyData, numDependencies,
                   flags);
  });
}
#if CUDART_VERSION < 13000
STREAM_CALL(cudaStreamGetCaptureInfo_v2, _ptsz,
            (cudaStream_t stream, cudaStreamCaptureStatus* captureStatus_out, unsigned long long* id_out,
             cudaGraph_t* graph_out, const cudaGraphNode_t** dependencies_out, size_t* numDependencies_out),
            (stream, captureStatus_out, id_out, graph_out, dependencies_out, numDependencies_out)) {
  return call(ARGUMENTS(stream, captureStatus_out), [&] {
    return forward(cuStreamGetCaptureInfo_v3, at(stream), captureStatus_out, id_out, graph_out, dependencies_out,
                   nullptr, numDependencies_out);
  });
}
STREAM_CALL(cudaStreamUpdateCaptureDependencies, _ptsz,
            (cudaStream_t stream, cudaGraphNode_t* dependencies, size_t numDependencies, unsigned int flags),
            (stream, dependencies, numDependencies, flags)) {
  return cudaStreamUpdateCaptureDependencies_v2(stream, dependencies, nullptr, numDependencies, flags);
}
#endif
