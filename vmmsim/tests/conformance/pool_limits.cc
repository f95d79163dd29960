// SPDX-License-Identifier: MIT-0
// CUmemPoolProps::maxSize: from which sum of blocks on a pool that has one refuses, how it is rounded, and what comes
// back when blocks are freed.
#include "conformance.h"

static CUmemoryPool pool_of(size_t most, CUmemAllocationType type = CU_MEM_ALLOCATION_TYPE_PINNED) {
  CUmemPoolProps properties = {};
  properties.allocType = type;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = most;
  CUmemoryPool pool = nullptr;
  say("a pool of at most " + std::to_string(most), cuMemPoolCreate(&pool, &properties));
  return pool;
}
static unsigned long long bytes(CUmemoryPool pool, CUmemPool_attribute attribute) {
  unsigned long long value = 0;
  CHECK(cuMemPoolGetAttribute(pool, attribute, &value));
  return value;
}
static void tell(CUmemoryPool pool) {
  say("reserved, used", std::to_string(bytes(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)) + " " +
                            std::to_string(bytes(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)));
}
// Blocks of this size until one is refused, 70 at most.
static std::vector<CUdeviceptr> fill(CUmemoryPool pool, size_t size) {
  std::vector<CUdeviceptr> blocks;
  CUresult answer = CUDA_SUCCESS;
  while (blocks.size() < 70) {
    CUdeviceptr block;
    answer = cuMemAllocFromPoolAsync(&block, size, pool, nullptr);
    if (answer) break;
    blocks.push_back(block);
  }
  say("blocks of " + std::to_string(size) + ": " + std::to_string(blocks.size()) + ", then", answer);
  return blocks;
}
static void begin() {
  CHECK(cudaSetDevice(0));
  CHECK(cudaFree(nullptr));
}

SECTION("how far a pool goes") {
  begin();
  for (const size_t most : {size_t(1), size_t(1) << 20, 2 * MiB, 2 * MiB + 1, 31 * MiB, 32 * MiB, 33 * MiB, 64 * MiB}) {
    const CUmemoryPool pool = pool_of(most);
    if (!pool) continue;
    for (const size_t size : {MiB, 24 * MiB}) {
      for (const CUdeviceptr block : fill(pool, size)) CHECK(cuMemFreeAsync(block, nullptr));
      CHECK(cuCtxSynchronize());
      CHECK(cuMemPoolTrimTo(pool, 0));
      tell(pool);
    }
    CHECK(cuMemPoolDestroy(pool));
  }
}
SECTION("what is larger than the pool, and what comes back") {
  begin();
  const CUmemoryPool pool = pool_of(64 * MiB);
  CUdeviceptr block;
  say("65 MiB", cuMemAllocFromPoolAsync(&block, 65 * MiB, pool, nullptr));
  say("97 MiB", cuMemAllocFromPoolAsync(&block, 97 * MiB, pool, nullptr));
  const std::vector<CUdeviceptr> blocks = fill(pool, 16 * MiB);
  tell(pool);
  CHECK(cuMemFreeAsync(blocks.at(1), nullptr));
  say("after one is freed", cuMemAllocFromPoolAsync(&block, 16 * MiB, pool, nullptr));
  tell(pool);
  CUmemPoolProps properties = {};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  properties.maxSize = size_t(1) << 50;
  CUmemoryPool more;
  say("a pool of at most 1 PiB", cuMemPoolCreate(&more, &properties));
}
SECTION("a node that allocates, and other kinds of pools") {
  begin();
  CUgraph graph;
  CHECK(cuGraphCreate(&graph, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS node = {};
  node.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  node.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  node.poolProps.maxSize = MiB;
  node.bytesize = 2 * MiB;
  CUgraphNode added;
  say("a node with maxSize", cuGraphAddMemAllocNode(&added, graph, nullptr, 0, &node));
  fill(pool_of(2 * MiB, CU_MEM_ALLOCATION_TYPE_MANAGED), MiB);
}
int main(int argc, char** argv) { return run_sections(argc, argv); }
