// SPDX-License-Identifier: MIT-0
// Clusters: their blocks take turns, and know where the others' shared memory is. Their barrier is in warp.cc.
#include <algorithm>
#include "warp.h"

namespace gpu {
namespace {

// No thread of the block can go on.
void fault_deadlock(const ThreadBlock& block) {
  for (const Warp& w : block.warps) {
    if (!w.alive) continue;
    const unsigned lane = first_of(w.alive);
    fault(w, op_at(w, lane), lane, CUDA_ERROR_LAUNCH_TIMEOUT,
          "the block waits for ever: its threads wait here and elsewhere for threads that will not come; a GPU would "
          "hang");
  }
}

bool has_ready(const ThreadBlock& block) {
  return std::ranges::any_of(block.warps, [](const Warp& w) { return (w.alive & ~w.waiting) != 0; });
}

// mapa: where a block of the cluster, by its rank, has what this one has at an address of shared memory.
void map_rank(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    w.rows[op.to].lane[lane] =
        in_shared_of(w.rows[op.a].lane[lane], static_cast<uint32_t>(w.rows[op.b].lane[lane]) & 31);
  });
}

// getctarank: whose address this is.
void rank_of(Warp& w, const MicroOp& op, Lanes active) {
  for_each_lane(active, [&](unsigned lane) {
    const unsigned part = w.rows[op.a].lane[lane] >> cluster_shift & ((window_size >> cluster_shift) - 1);
    w.rows[op.to].lane[lane] = part ? part - 1 : rank_in_cluster(*w.block);
  });
}

}  // namespace

Progress run(Cluster& cluster, long budget) {
  constexpr long least = 512;
  const long each = std::max(budget / static_cast<long>(cluster.blocks.size()), least);
  bool goes_on = false;
  for (const auto& block : cluster.blocks)
    if (block->alive) goes_on |= run(*block, each) == Progress::goes_on;
  if (!cluster.alive) return Progress::ended;
  notice_mbarrier_deadlock(cluster);
  if (goes_on) return Progress::goes_on;
  // One block may have let another go after that had its turn. A spinning warp is ready, too.
  for (const auto& block : cluster.blocks)
    if (has_ready(*block) || block->awaits_grids) return Progress::waits;
  for (const auto& block : cluster.blocks)
    if (block->alive) fault_deadlock(*block);
  return Progress::ended;
}

bool Cluster::triggers() const {
  return std::ranges::all_of(blocks, [](const auto& block) { return block->triggers || !block->alive; });
}

Cluster::Cluster(const Launch& launch, int device, Dimensions first) {
  const Dimensions& size = launch.cluster;
  for (unsigned z = 0; z < size.z; ++z)
    for (unsigned y = 0; y < size.y; ++y)
      for (unsigned x = 0; x < size.x; ++x) {
        const Dimensions index = {first.x + x, first.y + y, first.z + z};
        blocks.push_back(std::make_unique<ThreadBlock>(*this, launch, device, index));
        alive += blocks.back()->alive;
      }
}

Dimensions index_in_cluster(const ThreadBlock& block) {
  const Dimensions &at = block.index, &size = block.launch->cluster;
  return {at.x % size.x, at.y % size.y, at.z % size.z};
}
unsigned rank_in_cluster(const ThreadBlock& block) {
  const Dimensions at = index_in_cluster(block), &size = block.launch->cluster;
  return at.x + size.x * (at.y + size.y * at.z);
}

void lower_rank(Lowering& l, const ptx::Decoded& i) {
  const int to = l.row(i["d"]), address = l.row(i["a"]), rank = l.row_of(i, "b");
  l.emit(rank < 0 ? rank_of : map_rank, i, to, address, rank);
}

}  // namespace gpu
