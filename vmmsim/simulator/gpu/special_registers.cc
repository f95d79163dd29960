// SPDX-License-Identifier: MIT-0
// Special registers: what a kernel reads of its thread, block and grid, and of clocks.
#include <algorithm>
#include <chrono>
#include <unordered_map>

#include "../memory/page_table.h"
#include "../memory/this_machine.h"
#include "warp.h"

namespace gpu {
namespace {

unsigned linear_index(const ThreadBlock& b) {
  return b.index.x + b.launch->grid.x * (b.index.y + b.launch->grid.y * b.index.z);
}

using Specials = std::unordered_map<std::string, LoweredKernel::SpecialValue>;

// What fills a row in with value(lane), or with a value of the whole warp.
template <class Value>
LoweredKernel::SpecialValue of_lanes(Value) {
  return [](const Warp&, VectorRegister& row) {
    for (unsigned lane = 0; lane < 32; ++lane) row.lane[lane] = Value()(lane);
  };
}
template <class Value>
LoweredKernel::SpecialValue of_warp(Value) {
  return [](const Warp& w, VectorRegister& row) { std::ranges::fill(row.lane, static_cast<uint64_t>(Value()(w))); };
}

template <unsigned Dimensions::* d> void fill_in_thread_index(const Warp& w, VectorRegister& row) {
  const Dimensions& size = w.block->launch->block;
  Dimensions at = thread_index(w, 0);
  for (uint64_t& value : row.lane) {
    value = at.*d;
    if (++at.x < size.x) continue;
    at.x = 0;
    if (++at.y < size.y) continue;
    at.y = 0;
    ++at.z;
  }
}

// Those of one dimension. A block without a cluster is a cluster of its own.
template <unsigned Dimensions::* d>
void add_dimension(Specials& all, const std::string& d_name) {
  static constexpr auto cluster = [](const Warp& w) { return w.block->launch->cluster.*d; };
  static constexpr auto index = [](const Warp& w) { return w.block->index.*d; };
  static constexpr auto grid_size = [](const Warp& w) { return w.block->launch->grid.*d; };
  all["%tid." + d_name] = fill_in_thread_index<d>;
  all["%ntid." + d_name] = of_warp([](const Warp& w) { return w.block->launch->block.*d; });
  all["%ctaid." + d_name] = of_warp(index);
  all["%nctaid." + d_name] = of_warp(grid_size);
  all["%clusterid." + d_name] = of_warp([](const Warp& w) { return index(w) / cluster(w); });
  all["%nclusterid." + d_name] = of_warp([](const Warp& w) { return grid_size(w) / cluster(w); });
  all["%cluster_ctaid." + d_name] = of_warp([](const Warp& w) { return index(w) % cluster(w); });
  all["%cluster_nctaid." + d_name] = of_warp(cluster);
}

const Specials specials = [] {
  Specials all = {
      {"%cluster_ctarank", of_warp([](const Warp& w) { return rank_in_cluster(*w.block); })},
      {"%cluster_nctarank", of_warp([](const Warp& w) { return volume(w.block->launch->cluster); })},
      {"%is_explicit_cluster", of_warp([](const Warp& w) { return w.block->launch->has_clusters; })},
      {"%laneid", of_lanes([](unsigned lane) { return lane; })},
      {"%warpid", of_warp([](const Warp& w) { return w.first / 32; })},
      {"%nwarpid", of_warp([](const Warp&) { return 64; })},
      {"%smid", of_warp([](const Warp& w) {
         return linear_index(*w.block) % static_cast<unsigned>(memory::machine().multiprocessors);
       })},
      {"%nsmid", of_warp([](const Warp&) { return static_cast<unsigned>(memory::machine().multiprocessors); })},
      {"%gridid", of_warp([](const Warp& w) { return w.block->launch->order; })},
      {"%lanemask_eq", of_lanes([](unsigned lane) { return bit(lane); })},
      {"%lanemask_lt", of_lanes([](unsigned lane) { return bit(lane) - 1; })},
      {"%lanemask_le", of_lanes([](unsigned lane) { return (bit(lane) - 1) | bit(lane); })},
      {"%lanemask_gt", of_lanes([](unsigned lane) { return ~((bit(lane) - 1) | bit(lane)); })},
      {"%lanemask_ge", of_lanes([](unsigned lane) { return ~(bit(lane) - 1); })},
      {"%dynamic_smem_size", of_warp([](const Warp& w) { return w.block->launch->dynamic_shared; })},
      {"%total_smem_size", of_warp([](const Warp& w) {
         return memory::round_up(w.block->lowered->static_shared + w.block->launch->dynamic_shared, shared_unit);
       })},
      {"%aggr_smem_size", of_warp([](const Warp& w) {
         return reserved_shared - w.block->lowered->reserved_shared + w.block->shared_bytes();
       })},
      {"%reserved_smem_offset_begin", of_warp([](const Warp&) { return 0; })},
      {"%reserved_smem_offset_end", of_warp([](const Warp&) { return 288; })},
      {"%reserved_smem_offset_cap", of_warp([](const Warp&) { return reserved_shared; })},
      {"%reserved_smem_offset_0", of_warp([](const Warp&) { return 0; })},
      {"%reserved_smem_offset_1", of_warp([](const Warp&) { return 0; })},
  };
  add_dimension<&Dimensions::x>(all, "x");
  add_dimension<&Dimensions::y>(all, "y");
  add_dimension<&Dimensions::z>(all, "z");
  return all;
}();

template <class Clock> uint64_t nanoseconds() {
  const auto now = Clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}
// The clock of the multiprocessors has the rate that the driver reports, 1980 MHz, and never goes back.
uint64_t cycles() { return nanoseconds<std::chrono::steady_clock>() * 99 / 50; }
uint64_t time_of_day() { return nanoseconds<std::chrono::system_clock>(); }  // the same on all GPUs

template <uint64_t (*clock)(), unsigned shift> void read_clock(Warp& w, const MicroOp& op, Lanes active) {
  const uint64_t value = clock() >> shift;
  for_each_lane(active, [&](unsigned lane) { w.rows[op.to].lane[lane] = value; });
}

const std::unordered_map<std::string, Handler> changing_specials = {
    {"%clock", read_clock<cycles, 0>},
    {"%clock64", read_clock<cycles, 0>},
    {"%clock_hi", read_clock<cycles, 32>},
    {"%globaltimer", read_clock<time_of_day, 0>},
    {"%globaltimer_lo", read_clock<time_of_day, 0>},
    {"%globaltimer_hi", read_clock<time_of_day, 32>},
};

}  // namespace

LoweredKernel::SpecialValue special_value(const std::string& name) {
  if (name == "%envreg1" || name == "%envreg2") {
    static constexpr auto address = [](const Warp& w) { return w.block->launch->is_cooperative ? grid_window : 0; };
    if (name == "%envreg1") return of_warp([](const Warp& w) { return address(w) >> 32; });
    return of_warp([](const Warp& w) { return address(w) & 0xffff'ffff; });
  }
  if (name.starts_with("%envreg")) return of_warp([](const Warp&) { return 0; });
  const auto found = specials.find(name);
  return found == specials.end() ? nullptr : found->second;
}

Handler special_reader(const std::string& name) {
  const auto found = changing_specials.find(name);
  return found == changing_specials.end() ? nullptr : found->second;
}

}  // namespace gpu
