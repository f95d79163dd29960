// SPDX-License-Identifier: MIT-0
// Calls about executable graphs: they are made, changed and launched.
#include "capture.h"
#include "driver.h"
#include "executable_graphs.h"
#include "streams.h"

namespace driver {
namespace {

void instantiate(CUgraphExec* to, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* all) {
  require_non_null(to, "phGraphExec");
  require_non_null(all, "instantiateParams");
  Problem problem;
  try {
    const bool uploads = all->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
    if (uploads) require_not_capturing(named_stream(all->hUploadStream));
    *to = instantiate(graph, all->flags, true, problem);
    if (uploads) make_ready(*to);
    problem = {CUDA_GRAPH_INSTANTIATE_SUCCESS, nullptr};
  } catch (const memory::Refused&) {
    all->result_out = problem.result;
    all->hErrNode_out = problem.node;
    throw;
  }
  all->result_out = problem.result;
  all->hErrNode_out = problem.node;
}

void upload(CUgraphExec exec, CUstream stream_handle) {
  require_not_capturing(named_stream(stream_handle));
  make_ready(exec);
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, unsigned long long flags) {
  return call(ARGUMENTS(phGraphExec, hGraph, flags), result_to(phGraphExec, "phGraphExec", [&] {
                Problem problem;
                return instantiate(hGraph, flags, false, problem);
              }));
}
CUresult cuGraphInstantiateWithParams(CUgraphExec* phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams) {
  return call(ARGUMENTS(phGraphExec, hGraph, instantiateParams),
              [&] { instantiate(phGraphExec, hGraph, instantiateParams); });
}
CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t* flags) {
  return call(ARGUMENTS(hGraphExec, flags), [&] {
    require_non_null(flags, "flags");
    const MutexLock held(graphs().lock);
    constexpr uint64_t not_told = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
    *flags = checked(hGraphExec)->flags & ~not_told;
  });
}
CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  return call(ARGUMENTS(hGraphExec), [&] { destroy(hGraphExec); });
}
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo) {
  return call(ARGUMENTS(hGraphExec, hGraph, resultInfo), [&] { update(hGraphExec, hGraph, resultInfo); });
}
CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled) {
  return call(ARGUMENTS(hGraphExec, hNode, isEnabled), [&] {
    const MutexLock held(graphs().lock);
    can_be_disabled(hGraphExec, hNode).is_enabled = isEnabled;
  });
}
CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int* isEnabled) {
  return call(ARGUMENTS(hGraphExec, hNode, isEnabled), [&] {
    require_non_null(isEnabled, "isEnabled");
    const MutexLock held(graphs().lock);
    *isEnabled = can_be_disabled(hGraphExec, hNode).is_enabled;
  });
}
CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return call(ARGUMENTS(hGraphExec, hStream), [&] { upload(hGraphExec, hStream); });
}
// The kernels are for --trace, whose readers see no launch of their own of them.
CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  const KernelNames kernels = kernels_of(hGraphExec);
  return call(ARGUMENTS(hGraphExec, hStream, kernels), in_host_function, [&] { launch(hGraphExec, hStream); });
}

// As programs of earlier versions call them.
#undef cuGraphInstantiate
#undef cuGraphExecUpdate
EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                                      char* logBuffer, size_t bufferSize) {
  return call(ARGUMENTS(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), [&] {
    CUDA_GRAPH_INSTANTIATE_PARAMS all = {};
    if (logBuffer && bufferSize) *logBuffer = '\0';
    try {
      instantiate(phGraphExec, hGraph, &all);
    } catch (const memory::Refused&) {
      if (phErrorNode) *phErrorNode = all.hErrNode_out;
      throw;
    }
  });
}
EXPORT CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                                   size_t bufferSize) {
  return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}
EXPORT CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                                  CUgraphExecUpdateResult* updateResult_out) {
  return call(ARGUMENTS(hGraphExec, hGraph, hErrorNode_out, updateResult_out), [&] {
    CUgraphExecUpdateResultInfo info = {};
    const auto tell = [&] {
      if (hErrorNode_out) *hErrorNode_out = info.errorNode;
      if (updateResult_out) *updateResult_out = info.result;
    };
    try {
      update(hGraphExec, hGraph, &info);
    } catch (const memory::Refused&) {
      tell();
      throw;
    }
    tell();
  });
}
