// SPDX-License-Identifier: MIT-0
// How many mappings a GPU has open, and the tables by which it finds their pages: both as on an H100. A table is for
// 512 MiB of addresses and takes 4 KiB of the GPU's memory, of which 2 MiB are taken at a time.
#include "process.h"

namespace memory {
namespace {

constexpr unsigned most_open = 1 << 19;
constexpr uint64_t of_table = 512 << 20, table_size = 4096;

template <class Work> void for_each_region(const Mapping& mapping, Work work) {
  for (uint64_t region = mapping.base / of_table; region * of_table < mapping.base + mapping.size; ++region)
    work(region);
}
uint64_t pages_for(const OpenMappings& open) { return open.regions.size() * table_size / page_size; }

}  // namespace

void require_mappings_left(CUdevice device) {
  if (process().open[device].count >= most_open)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "GPU " + std::to_string(device) + " has " + std::to_string(most_open) +
                                         " open mappings, as many as it can have: make fewer and larger ones");
}

// The peers of a GPU: each of the two may touch the other's memory, by cuCtxEnablePeerAccess or cuMemSetAccess.
static std::set<CUdevice> peers_of(CUdevice gpu) REQUIRES(process_lock) {
  std::set<CUdevice> found;
  const auto join = [&](CUdevice from, CUdevice to) {
    if (from == gpu) found.insert(to);
    if (to == gpu) found.insert(from);
  };
  for (const auto& [from, to] : process().peers) join(from, to);
  for (const auto& [base, mapping] : process().mappings) {
    if (mapping.kind != Range::vmm || mapping.record == invalid_index) continue;
    const CUdevice owner = device_of(ledger().record[mapping.record].gpu);
    for (CUdevice user = 0; user < device_count(); ++user)
      if (owner >= 0 && owner != user && mapping.access[size_t(user)]) join(owner, user);
  }
  return found;
}

void require_peers_left(CUdevice device, int owner) {
  const CUdevice peer = device_of(owner);
  const auto most = size_t(machine().most_peers);
  if (!most || peer < 0 || peer == device) return;
  for (const auto& [gpu, partner] : {std::pair(device, peer), {peer, device}}) {
    const std::set<CUdevice> peers = peers_of(gpu);
    if (!peers.contains(partner) && peers.size() >= most)
      refuse(CUDA_ERROR_TOO_MANY_PEERS,
             "GPU " + std::to_string(gpu) + " has " + std::to_string(most) +
                 " peers, as many as it can have without NVSwitch: open memory to fewer GPUs, or use them in groups");
  }
}

void count_open(const Mapping& mapping, CUdevice device) {
  require_mappings_left(device);
  OpenMappings& open = process().open[device];
  ++open.count;
  for_each_region(mapping, [&](uint64_t region) { ++open.regions[region]; });
  try {
    while (open.tables.size() < pages_for(open)) open.tables.push_back(take_memory(gpu_of(device), page_size));
  } catch (const Refused&) {
    count_closed(mapping, device);
    throw;
  }
}

void count_closed(const Mapping& mapping, CUdevice device) {
  OpenMappings& open = process().open[device];
  --open.count;
  for_each_region(mapping, [&](uint64_t region) {
    if (--open.regions[region] == 0) open.regions.erase(region);
  });
  for (; open.tables.size() > pages_for(open); open.tables.pop_back()) release_record(open.tables.back());
}

}  // namespace memory
