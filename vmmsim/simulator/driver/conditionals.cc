// SPDX-License-Identifier: MIT-0
#include "conditionals.h"

#include <algorithm>

#include "contexts.h"
#include "driver.h"

namespace driver {
namespace {

std::shared_ptr<GraphCondition> find_condition(CUgraphConditionalHandle handle) REQUIRES(graphs().lock) {
  for (const CUgraph graph : graphs().all)
    for (const auto& condition : graph->conditions)
      if (condition->value->handle == handle) return condition;
  refuse("this is no handle: cuGraphConditionalHandleCreate makes one");
}

void require_body_count(const CUDA_CONDITIONAL_NODE_PARAMS& given) {
  require(given.type <= CU_GRAPH_COND_TYPE_SWITCH, "there is no such type");
  const unsigned most = given.type == CU_GRAPH_COND_TYPE_IF ? 2 : given.type == CU_GRAPH_COND_TYPE_WHILE ? 1 : UINT_MAX;
  require(given.size > 0 && given.size <= most, "size is 1 for a while, 1 or 2 for an if, and at least 1 for a switch");
}

// What a launch has of a conditional node.
struct Choice {
  CUgraphConditionalNodeType type;
  std::shared_ptr<gpu::GraphCondition> condition;
  std::vector<std::vector<Step>> bodies;

  const std::vector<Step>* body() const {
    const unsigned value = condition->value;
    const size_t which = type == CU_GRAPH_COND_TYPE_SWITCH ? value
                         : value                           ? 0
                         : type == CU_GRAPH_COND_TYPE_IF   ? 1
                                                           : SIZE_MAX;
    return which < bodies.size() ? &bodies[which] : nullptr;
  }
};

// Runs the body that is due, if any, and then ends the operation; a loop decides anew.
void decide(const std::shared_ptr<const Choice>& choice, const Operation& op) {
  gpu::run([choice, op] {
    const std::vector<Step>* const body = choice->body();
    if (!body || fault()) return ended(op);
    run_steps(*body, op, [choice, op](const Operation& end) {
      ended(end);
      if (choice->type == CU_GRAPH_COND_TYPE_WHILE) decide(choice, op);
      else ended(op);
    });
  });
}

}  // namespace

CUgraphConditionalHandle create_condition(CUgraph graph, CUcontext context, unsigned at_launch, unsigned flags) {
  require_flags(flags <= CU_GRAPH_COND_ASSIGN_DEFAULT);
  checked(context);
  const MutexLock held(graphs().lock);
  const auto made =
      std::make_shared<GraphCondition>(GraphCondition{gpu::make_condition(), context, at_launch, flags != 0});
  checked(graph)->conditions.push_back(made);
  return made->value->handle;
}

CUgraphNode add_conditional(CUgraph graph, CUDA_CONDITIONAL_NODE_PARAMS& given,
                            std::span<const CUgraphNode> dependencies) {
  require_body_count(given);
  checked(given.ctx);
  checked(graph);
  const auto condition = find_condition(given.handle);
  require(!condition->has_node, "another node has this handle");
  require(given.ctx == condition->context, "the handle was made for another context than the node's");
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  work->given.conditional = given;
  work->context = condition->context;
  work->payload = condition;
  const CUgraphNode node = add_node(graph, work, dependencies);
  for (unsigned i = 0; i < given.size; ++i) {
    node->bodies.push_back(make_graph());
    node->bodies.back()->parent = node;
    node->bodies.back()->is_owned = true;
    node->handles_of_bodies.push_back(node->bodies.back().get());
  }
  condition->has_node = true;
  given.phGraph_out = node->handles_of_bodies.data();
  return node;
}

// A copy of memory that the program has from the C library.
static bool is_of_pageable_memory(const CUDA_MEMCPY3D& copy) {
  const auto is_pageable = [](CUmemorytype type, const void* host, CUdeviceptr unified) {
    const CUdeviceptr address = type == CU_MEMORYTYPE_UNIFIED ? unified : reinterpret_cast<CUdeviceptr>(host);
    return type != CU_MEMORYTYPE_DEVICE && !memory::find(address);
  };
  return is_pageable(copy.srcMemoryType, copy.srcHost, copy.srcDevice) ||
         is_pageable(copy.dstMemoryType, copy.dstHost, copy.dstDevice);
}

static void require_body(const CUgraph_st& body) REQUIRES(graphs().lock) {
  for (const auto& node : body.nodes) {
    const CUgraphNodeType type = node->work->given.type;
    const bool may_be = type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
                        type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
                        type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
    require(may_be,
            "the body of a conditional node has kernels, copies, memsets, graphs, empty and conditional nodes only");
    require(type != CU_GRAPH_NODE_TYPE_MEMCPY || !is_of_pageable_memory(node->work->given.memcpy.copyParams),
            "the body of a conditional node copies pageable memory: take pinned memory");
    each_graph_in(*node, [](const CUgraph_st& inside) REQUIRES(graphs().lock) { require_body(inside); });
  }
}

void require_conditionals(const CUgraph_st& graph) {
  for (const auto& condition : graph.conditions)
    require(condition->has_node, "a handle of the graph has no conditional node");
  for (const auto& node : graph.nodes)
    for (const auto& body : node->bodies) require_body(*body);
}

SharedWork conditional_work(const Work& node, std::vector<std::vector<Step>> bodies) {
  const auto choice =
      std::make_shared<const Choice>(Choice{node.given.conditional.type, node.condition()->value, std::move(bodies)});
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  work->start = [choice](const Work&, const Operation& op) { decide(choice, op); };
  return work;
}

SharedWork set_at_launch(const std::vector<SharedWork>& nodes) {
  const auto work = std::make_shared<Work>();
  work->given.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  work->start = [nodes](const Work&, const Operation& op) {
    for (const SharedWork& node : nodes)
      if (const auto condition = node->condition(); condition->is_set_at_launch)
        condition->value->value = condition->at_launch;
    ended(op);
  };
  return work;
}

}  // namespace driver
