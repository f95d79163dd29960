// SPDX-License-Identifier: MIT-0
#include "occupancy.h"

#include <algorithm>
#include <iterator>

#include "../memory/this_machine.h"
#include "driver.h"

namespace driver {

// The preferred carveout is rounded up to what the shared memory of a multiprocessor can be split into.
size_t shared_of_multiprocessor(const CUfunc_st& function) {
  constexpr int splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  const int carveout = function.carveout < 0 ? 100 : int(function.carveout);
  const int split = *std::find_if(splits, std::end(splits) - 1, [&](int kib) { return kib * 100 >= carveout * 228; });
  return size_t(split) << 10;
}

int blocks_that_fit(const CUfunc_st& function, int block_size, size_t dynamic_shared) {
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

int blocks_that_fit(CUfunction handle, int block_size, size_t dynamic_shared) {
  const CUfunction function = checked(handle);
  require(block_size > 0, "blockSize is not positive");
  if (block_size > 1024) return 0;
  return blocks_that_fit(*function, block_size, dynamic_shared);
}

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
  const gpu::Dimensions size = {at_least_1(required[0]), at_least_1(required[1]), at_least_1(required[2])};
  const auto found = attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  const auto given = found == attributes.end() ? decltype(found->second.clusterDim){} : found->second.clusterDim;
  if (!given.x && !given.y && !given.z) {
    require(
        is_required ||
            (!function.kernel->needs_cluster && !attributes.contains(CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION)),
        CUDA_ERROR_INVALID_CLUSTER_SIZE, "the launch must have a size of its clusters: attribute CLUSTER_DIMENSION");
    return is_required ? std::optional(size) : std::nullopt;
  }
  require(!is_required || (given.x == size.x && given.y == size.y && given.z == size.z),
          CUDA_ERROR_INVALID_CLUSTER_SIZE, "the kernel was compiled for clusters of another size");
  return gpu::Dimensions{given.x, given.y, given.z};
}

unsigned most_in_cluster(const CUfunc_st& function) {
  const unsigned most = function.non_portable_cluster ? 16 : 8, compiled = function.kernel->max_cluster;
  return compiled ? std::min(compiled, most) : most;
}

void require_cluster(const CUfunc_st& function, const gpu::Dimensions& size, const gpu::Dimensions& grid) {
  require(gpu::volume(size) <= most_in_cluster(function), CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the cluster has more blocks than the kernel may have in one: 8, or 16 with its attribute "
          "NON_PORTABLE_CLUSTER_SIZE_ALLOWED, or as many as it was compiled for");
  require(grid.x % size.x == 0 && grid.y % size.y == 0 && grid.z % size.z == 0, CUDA_ERROR_INVALID_CLUSTER_SIZE,
          "the grid is no multiple of the cluster");
}

}  // namespace driver
