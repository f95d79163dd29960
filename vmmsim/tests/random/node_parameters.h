// SPDX-License-Identifier: MIT-0
// What nodes of graphs are made of: parameters with a text that says what is in them.
#pragma once
#include "world.h"

struct KernelParameters {
  explicit KernelParameters(Random&);
  Argument<const CUDA_KERNEL_NODE_PARAMS*> argument() const { return {&value, text}; }
  CUDA_KERNEL_NODE_PARAMS value = {};
  std::string text;
};
struct CopyParameters {
  explicit CopyParameters(Random&);
  Argument<const CUDA_MEMCPY3D*> argument() const { return {&value, text}; }
  CUDA_MEMCPY3D value = {};
  std::string text;
};
struct MemsetParameters {
  explicit MemsetParameters(Random&);
  Argument<const CUDA_MEMSET_NODE_PARAMS*> argument() const { return {&value, text}; }
  CUDA_MEMSET_NODE_PARAMS value = {};
  std::string text;
};
struct HostParameters {
  explicit HostParameters(Random&);
  Argument<const CUDA_HOST_NODE_PARAMS*> argument() const { return {&value, text}; }
  CUDA_HOST_NODE_PARAMS value = {};
  std::string text;
};
struct AllocationParameters {
  explicit AllocationParameters(Random&);
  CUDA_MEM_ALLOC_NODE_PARAMS value = {};
  CUmemAccessDesc access = {};
  std::string text;
};
