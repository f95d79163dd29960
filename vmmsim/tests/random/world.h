// SPDX-License-Identifier: MIT-0
// The objects that random calls are made with. A call never gets an object that is gone: a driver may do anything then.
#pragma once
#include <array>
#include <chrono>

#include "random_call.h"

struct Node {
  CUgraphNode handle = nullptr;
  int graph = -1;  // which of `graphs` it is in; -1: in one that nobody names any more
};

struct Graph {
  CUgraph handle = nullptr;
  bool kept = false;  // a capture went into it, and may still
};

struct Block {
  CUdeviceptr address = 0;
  std::size_t size = 0;
};

struct World {
  CUdevice gpu = 0;
  CUcontext context = nullptr;
  std::array<CUstream, 6> streams{};
  std::array<CUevent, 8> events{};  // the first four are never destroyed, so nodes may have them
  std::array<Graph, 6> graphs{};
  std::array<Node, 24> nodes{};
  std::array<CUgraphExec, 5> execs{};
  std::array<CUmemoryPool, 6> pools{};
  std::array<Block, 10> allocations{};  // stream-ordered, or of a memory node
  std::array<void*, 6> host{};
  std::array<Block, 4> managed{};
  std::array<CUmodule, 4> modules{};
  std::array<CUlibrary, 4> libraries{};
  CUmodule base = nullptr;  // never unloaded
  std::array<CUfunction, 8> functions{};
  CUlibrary base_library = nullptr;
  std::array<CUkernel, 3> kernels{};
  // Memory that lives as long as the process.
  CUdeviceptr memory = 0, words = 0, hole = 0, steady_managed = 0;
  char* pinned = nullptr;
  char* pageable = nullptr;  // 1 MiB, at a page's beginning; `host memory` calls register parts of it
};
extern World world;

inline constexpr std::size_t KiB = 1024, MiB = 1024 * KiB;
inline constexpr std::size_t memory_size = 4 * MiB, pinned_size = 64 * KiB, pageable_size = MiB;

void set_up();

Argument<CUstream> any_stream(Random&);
Argument<CUevent> any_event(Random&);
Argument<CUevent> steady_event(Random&);
Argument<CUfunction> any_function(Random&);
Argument<CUmemLocation> any_location(Random&);
Argument<CUdeviceptr> any_memory(Random&, std::size_t alignment = 1);  // at least 4 KiB of it, or the hole
Argument<void*> steady_host(Random&);                                  // 4 KiB of it

// Dimensions of a launch, few blocks if it may run.
struct Shape {
  unsigned grid[3], block[3], shared;
  std::string text;
};
Shape any_shape(Random&);
void** kernel_arguments();  // good for each kernel

inline std::string place(const char* what, std::size_t index) {
  return std::string(what) + " " + std::to_string(index);
}

// A slot of an array, with its index.
template <class Array> std::size_t any_of(Random& random, const Array& array) { return random.below(array.size()); }

// So that no answer depends on how fast the GPU is: asks until the answer is not "not ready", for two seconds.
template <class Ask> CUresult settled(Ask ask) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  CUresult result = ask();
  while (result == CUDA_ERROR_NOT_READY && std::chrono::steady_clock::now() < end) result = ask();
  return result;
}
void settle();  // waits for all work, unless a stream captures

void host_function(void*);

Makers stream_makers(), event_makers(), capture_makers(), graph_makers(), node_makers(), exec_makers(),
    memory_node_makers(), pool_makers(), host_makers(), managed_makers(), batch_makers(), module_makers(),
    launch_makers(), occupancy_makers();
