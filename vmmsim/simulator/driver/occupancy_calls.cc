// SPDX-License-Identifier: MIT-0
// Calls that ask how many blocks and clusters of a kernel fit on a GPU.
#include <algorithm>

#include "../memory/this_machine.h"
#include "driver.h"
#include "launches.h"
#include "occupancy.h"
#include "streams.h"

namespace driver {
namespace {

// The most dynamic shared memory with which so many blocks fit on a multiprocessor. The system's part of each block is
// not taken off, as on an H100: with all of this fewer blocks fit. A single block has no need of a carveout.
size_t dynamic_shared_for(CUfunction handle, int blocks, int block_size) {
  require(blocks > 0 && block_size > 0, "numBlocks and blockSize must be positive");
  const CUfunction function = checked(handle);
  require(blocks <= blocks_that_fit(handle, block_size, 0),
          "so many blocks do not fit on a multiprocessor, even without dynamic shared memory");
  const size_t fixed = function->kernel->static_shared, most = size_t(int(function->dynamic_shared));
  if (blocks == 1) return most;
  const size_t share = shared_of_multiprocessor(*function) / size_t(blocks);
  const size_t rounded = share - share % gpu::shared_unit;
  return rounded > fixed ? std::min(rounded - fixed, most) : 0;
}

// The block size with which most threads fit on a multiprocessor; of several the largest.
void best_block(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of, size_t shared, int limit) {
  require_non_null(grid, "minGridSize");
  require_non_null(block, "blockSize");
  const int most = int(checked(function)->kernel->max_threads);
  require(limit >= 0, "blockSizeLimit is negative");
  int best = 0;
  for (int size = limit > 0 ? std::min(limit, most) : most; size > 0; size -= size % 32 ? size % 32 : 32) {
    const int blocks = blocks_that_fit(function, size, shared_of ? shared_of(size) : shared);
    if (blocks * size <= best) continue;
    best = blocks * size;
    *block = size;
    *grid = blocks * memory::machine().multiprocessors;
  }
  if (!best) *grid = *block = 0;
}

// The multiprocessors of each part of a GPU: a cluster lies within one. One H100 was cut like this; others may differ.
std::vector<int> parts_of_gpu() {
  const int multiprocessors = memory::machine().multiprocessors;
  if (multiprocessors == 132) return {8, 16, 16, 16, 16, 16, 18, 18, 2, 2, 2, 2};
  constexpr int full_part = 18;
  std::vector<int> parts(multiprocessors / full_part, full_part);
  parts.push_back(multiprocessors % full_part);
  return parts;
}

// How many of its blocks a multiprocessor has room for, as far as they are in clusters: 8 at most.
int blocks_in_clusters(const CUfunc_st& function, const CUlaunchConfig& config) {
  const uint64_t threads = uint64_t(config.blockDimX) * config.blockDimY * config.blockDimZ;
  require(threads, "a dimension of the block is 0");
  if (threads > 1024 || config.sharedMemBytes > unsigned(function.dynamic_shared)) return 0;
  return std::min(8, blocks_that_fit(function, int(threads), config.sharedMemBytes));
}

// The size of clusters of a launch with this configuration, which is refused as that launch would be.
std::optional<gpu::Dimensions> checked_cluster(const CUfunc_st& function, const CUlaunchConfig& config) {
  const Attributes attributes = attributes_of(config);
  const gpu::Dimensions grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  asked_stream(config.hStream);
  require_attributes(attributes);
  require_grid_size(grid);
  const std::optional<gpu::Dimensions> size = cluster_of(function, attributes);
  if (size) require_cluster(function, *size, grid);
  return size;
}

int largest_cluster(CUfunction handle, const CUlaunchConfig* config) {
  require(handle, "the function is null");
  require_non_null(config, "config");
  const CUfunction function = checked(handle);
  checked_cluster(*function, *config);
  return blocks_in_clusters(*function, *config) == 0 ? 0 : function->non_portable_cluster ? 16 : 8;
}

// Without clusters there are none. A larger one lies in one part of the GPU, where some multiprocessors are left over.
int active_clusters(CUfunction handle, const CUlaunchConfig* config) {
  require(handle, "the function is null");
  require_non_null(config, "config");
  const CUfunction function = checked(handle);
  const std::optional<gpu::Dimensions> size = checked_cluster(*function, *config);
  const int blocks = blocks_in_clusters(*function, *config);
  if (!size) return 0;
  const int count = int(gpu::volume(*size));
  if (count <= 2) return memory::machine().multiprocessors * blocks / count;
  int all = 0;
  for (const int multiprocessors : parts_of_gpu())
    if (multiprocessors >= count) all += multiprocessors * blocks / count;
  return all;
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize),
              result_to(numBlocks, "numBlocks", [&] { return blocks_that_fit(func, blockSize, dynamicSMemSize); }));
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* numBlocks, CUfunction func, int blockSize,
                                                              size_t dynamicSMemSize, unsigned int flags) {
  return call(ARGUMENTS(numBlocks, func, blockSize, dynamicSMemSize, flags), [&] {
    require_non_null(numBlocks, "numBlocks");
    require_flags(flags <= 1);
    *numBlocks = blocks_that_fit(func, blockSize, dynamicSMemSize);
  });
}
CUresult cuOccupancyMaxPotentialBlockSize(int* minGridSize, int* blockSize, CUfunction func,
                                          CUoccupancyB2DSize sharedOf, size_t dynamicSMemSize, int blockSizeLimit) {
  return call(ARGUMENTS(minGridSize, blockSize, func, dynamicSMemSize, blockSizeLimit),
              [&] { best_block(minGridSize, blockSize, func, sharedOf, dynamicSMemSize, blockSizeLimit); });
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* minGridSize, int* blockSize, CUfunction func,
                                                   CUoccupancyB2DSize sharedOf, size_t dynamicSMemSize,
                                                   int blockSizeLimit, unsigned int flags) {
  return call(ARGUMENTS(minGridSize, blockSize, func, dynamicSMemSize, blockSizeLimit, flags), [&] {
    require_flags(flags <= 1);
    best_block(minGridSize, blockSize, func, sharedOf, dynamicSMemSize, blockSizeLimit);
  });
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* dynamicSmemSize, CUfunction func, int numBlocks,
                                                 int blockSize) {
  return call(
      ARGUMENTS(dynamicSmemSize, func, numBlocks, blockSize),
      result_to(dynamicSmemSize, "dynamicSmemSize", [&] { return dynamic_shared_for(func, numBlocks, blockSize); }));
}
CUresult cuOccupancyMaxPotentialClusterSize(int* clusterSize, CUfunction func, const CUlaunchConfig* config) {
  return call(ARGUMENTS(clusterSize, func, config),
              result_to(clusterSize, "clusterSize", [&] { return largest_cluster(func, config); }));
}
CUresult cuOccupancyMaxActiveClusters(int* numClusters, CUfunction func, const CUlaunchConfig* config) {
  return call(ARGUMENTS(numClusters, func, config),
              result_to(numClusters, "numClusters", [&] { return active_clusters(func, config); }));
}
