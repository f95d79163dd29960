// SPDX-License-Identifier: MIT-0
// How many blocks and clusters of a kernel fit on a GPU.
#include "occupancy.h"

#include <algorithm>
#include <iterator>

#include "../memory/this_machine.h"
#include "driver.h"
#include "launches.h"
#include "modules.h"
#include "streams.h"

namespace driver {
namespace {

// The preferred carveout is rounded up to what the shared memory of a multiprocessor can be split into.
size_t shared_of_multiprocessor(const CUfunc_st& function) {
  constexpr int splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  const int carveout = function.carveout < 0 ? 100 : int(function.carveout);
  const int split = *std::find_if(splits, std::end(splits) - 1, [&](int kib) { return kib * 100 >= carveout * 228; });
  return size_t(split) << 10;
}

int fitting(const CUfunc_st& function, int block_size, size_t dynamic_shared) {
  const gpu::Kernel& kernel = *function.kernel;
  const int most = std::max(int(function.dynamic_shared), usual_shared - int(kernel.static_shared));
  if (dynamic_shared > size_t(std::max(most, 0))) return 0;
  const size_t threads = memory::round_up(uint64_t(block_size), 32);
  const size_t registers = std::max(threads * memory::round_up(kernel.registers, 8), size_t(1));
  const size_t shared = kernel.static_shared + dynamic_shared + 1024;
  if (kernel.static_shared + dynamic_shared > size_t(most_shared)) return 0;
  const size_t room = std::max(shared_of_multiprocessor(function), shared);  // one block fits in any case
  return int(std::min({size_t(32), 2048 / threads, 65536 / registers, room / shared}));
}

}  // namespace

int blocks_that_fit(CUfunction handle, int block_size, size_t dynamic_shared) {
  const CUfunction function = checked(handle);
  require(block_size > 0, "blockSize is not positive");
  if (block_size > 1024) return 0;
  return fitting(*function, block_size, dynamic_shared);
}
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
  const size_t whole = share - share % gpu::shared_unit;
  return whole > fixed ? std::min(whole - fixed, most) : 0;
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
  constexpr int whole = 18;
  std::vector<int> parts(multiprocessors / whole, whole);
  parts.push_back(multiprocessors % whole);
  return parts;
}

// How many of its blocks a multiprocessor has room for, as far as they are in clusters: 8 at most.
int blocks_in_clusters(const CUfunc_st& function, const CUlaunchConfig& config) {
  const uint64_t threads = uint64_t(config.blockDimX) * config.blockDimY * config.blockDimZ;
  require(threads, "a dimension of the block is 0");
  if (threads > 1024 || config.sharedMemBytes > unsigned(function.dynamic_shared)) return 0;
  return std::min(8, fitting(function, int(threads), config.sharedMemBytes));
}

// A configuration's own size of clusters; else the kernel's. What a launch with this configuration would be refused for
// is refused here.
std::optional<gpu::Dimensions> checked_cluster(const CUfunc_st& function, const CUlaunchConfig& config) {
  const Attributes attributes = attributes_of(config);
  const gpu::Dimensions grid = {config.gridDimX, config.gridDimY, config.gridDimZ};
  asked_stream(config.hStream);
  check_attributes(attributes);
  check_grid(grid);
  const std::optional<gpu::Dimensions> size = cluster_of(function, attributes);
  if (size) check_cluster(function, *size, grid);
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

Attributes attributes_of(const CUlaunchConfig& config) {
  require(config.attrs || !config.numAttrs, "config has attributes, and attrs is null");
  Attributes all;
  for (unsigned i = 0; i < config.numAttrs; ++i) all[config.attrs[i].id] = config.attrs[i].value;
  return all;
}

// --- Clusters --------------------------------------------------------------------------------------------------------

bool lacks_clusters(const CUfunc_st& function, const Attributes& attributes) {
  return function.kernel->needs_cluster && !attributes.contains(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
}

std::optional<gpu::Dimensions> cluster_of(const CUfunc_st& function, const Attributes& attributes) {
  const auto& required = function.cluster;
  const bool is_required = required[0] > 0 || required[1] > 0 || required[2] > 0;
  const auto at_least_1 = [](int size) { return unsigned(std::max(1, size)); };
  const gpu::Dimensions its = {at_least_1(required[0]), at_least_1(required[1]), at_least_1(required[2])};
  const auto found = attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  const auto given = found == attributes.end() ? decltype(found->second.clusterDim){} : found->second.clusterDim;
  if (!given.x && !given.y && !given.z) {
    require(
        is_required ||
            (!function.kernel->needs_cluster && !attributes.contains(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)),
        CUDA_ERROR_INVALID_CLUSTER_SIZE, "the launch must have a size of its clusters: attribute CLUSTER_DIMENSION");
    return is_required ? std::optional(its) : std::nullopt;
  }
  require(!is_required || (given.x == its.x && given.y == its.y && given.z == its.z), CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the kernel was compiled for clusters of another size");
  return gpu::Dimensions{given.x, given.y, given.z};
}

unsigned most_in_cluster(const CUfunc_st& function) {
  const unsigned most = function.non_portable_cluster ? 16 : 8, its = function.kernel->max_cluster;
  return its ? std::min(its, most) : most;
}

void check_cluster(const CUfunc_st& function, const gpu::Dimensions& size, const gpu::Dimensions& grid) {
  require(gpu::volume(size) <= most_in_cluster(function), CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the cluster has more blocks than the kernel may have in one: 8, or 16 with its attribute "
          "NON_PORTABLE_CLUSTER_SIZE_ALLOWED, or as many as it was compiled for");
  require(grid.x % size.x == 0 && grid.y % size.y == 0 && grid.z % size.z == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the grid is no multiple of the cluster");
}

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
