// SPDX-License-Identifier: MIT-0
// Cooperative groups, in a program that is built with -G, too: a grid that waits for all its blocks, and groups of
// several warps, which keep what they exchange in shared memory that the system reserves for that.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

#include "check.h"

namespace groups = cooperative_groups;

constexpr unsigned blocks = 4, threads = 128;

__global__ void sums(unsigned* of_group, unsigned* of_grid) {
  __shared__ unsigned of_block;
  extern __shared__ unsigned of_thread[];
  const auto grid = groups::this_grid();
  const auto block = groups::this_thread_block();
  const auto group = groups::tiled_partition<64>(block);
  if (block.thread_rank() == 0) of_block = 0;
  of_thread[block.thread_rank()] = unsigned(grid.thread_rank());
  block.sync();
  const unsigned sum = groups::reduce(group, of_thread[block.thread_rank()], groups::plus<unsigned>());
  if (group.thread_rank() == 63) of_group[grid.block_rank() * 2 + group.meta_group_rank()] = sum;
  if (group.thread_rank() == 0) atomicAdd(&of_block, sum);
  block.sync();
  if (block.thread_rank() == 0) of_grid[1 + grid.block_rank()] = of_block;
  grid.sync();
  if (grid.thread_rank() != 0) return;
  of_grid[0] = 0;
  for (unsigned i = 0; i < blocks; ++i) of_grid[0] += of_grid[1 + i];
}

int main() {
  unsigned *of_group, *of_grid, group[2 * blocks], grid[1 + blocks];
  CHECK(cudaMalloc(&of_group, sizeof group));
  CHECK(cudaMalloc(&of_grid, sizeof grid));
  void* arguments[] = {&of_group, &of_grid};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(sums), blocks, threads, arguments, threads * 4, nullptr));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(group, of_group, sizeof group, cudaMemcpyDefault));
  CHECK(cudaMemcpy(grid, of_grid, sizeof grid, cudaMemcpyDefault));
  for (unsigned g = 0; g < 2 * blocks; ++g) {
    const unsigned expected = 64 * (64 * g) + 64 * 63 / 2;
    EXPECT(group[g] == expected, "the sum of group %u is %u, not %u", g, group[g], expected);
  }
  const unsigned all = blocks * threads;
  EXPECT(grid[0] == all * (all - 1) / 2, "the sum of the grid is %u", grid[0]);
  CHECK(cudaFree(of_group));
  CHECK(cudaFree(of_grid));
  std::puts("OK");
}
