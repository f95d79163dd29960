// SPDX-License-Identifier: MIT-0
// A stream-ordered pool: one range of addresses, units of memory under parts of it, and blocks side by side in them.
// What is freed in a stream is at once that stream's again, and another's once the stream has got there.
//
// A pool that processes share has a line in the ledger, and so have its units, which name that. A process that imports
// it has a pool of its own with as many addresses, and maps at the same offsets the units that hold the blocks which it
// imports.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>
#include "memory.h"

namespace memory {

class Pool {
 public:
  using Reached = std::shared_ptr<const std::atomic<bool>>;  // whether a stream has got to where something was freed
  static constexpr uint64_t unit = 32 << 20;  // bytes: it takes and gives back memory in these, as on the H200

  // `most`: how many bytes it may take, rounded up to units; 0: without a limit.
  explicit Pool(CUdevice, unsigned handle_types = 0, uint64_t most = 0);
  enum class OnHost { pinned, managed };
  explicit Pool(OnHost, uint64_t most = 0);  // without memory of a GPU: the same address on host and GPUs
  struct Shared {                            // a pool that some process shares: its line of the ledger
    uint32_t record;
  };
  static Shared shared_by(intptr_t fd);
  explicit Pool(Shared);  // an import of it
  ~Pool();
  // Whether something that was freed in a stream, at a time that only grows, may be had elsewhere.
  using MayHave = std::function<bool(const void* stream, uint64_t time, bool is_reached)>;
  static bool when_reached(const void*, uint64_t, bool is_reached) { return is_reached; }
  // Takes what the stream has freed, or else what is everybody's: also what becomes so (`settled`), or what this stream
  // alone may have (`followed`).
  uint64_t allocate(uint64_t size, const void* stream, Owner = {}, const MayHave& settled = when_reached,
                    const MayHave& followed = nullptr);
  void free(uint64_t block, const void* stream, Reached, uint64_t time = 0);  // without `stream` it is everybody's
  int export_fd(CUmemAllocationHandleType);
  unsigned handle_types() const;
  CUmemPoolPtrExportData export_block(uint64_t block) const;
  uint64_t import_block(const CUmemPoolPtrExportData&, Owner);
  // Gives back units without a block, the last ones first, while at least so many bytes are left.
  void trim(uint64_t bytes, const MayHave& settled = when_reached);
  void open(CUdevice, CUmemAccess_flags);
  CUmemAccess_flags access(CUdevice) const;
  uint64_t reserved() const { return units_.size() * unit; }
  bool has_blocks() const { return blocks_ > 0; }
  bool is_unused() const { return !has_blocks() && reserved() == 0; }
  bool is_pinned_on_host() const { return on_host_ == OnHost::pinned; }
  CUdevice device() const { return device_; }
  bool is_import_of(Shared shared) const { return is_imported_ && record_ == shared.record; }

 private:
  struct Gap {  // between blocks
    uint64_t size;
    const void* stream;  // null: everybody's
    Reached reached;
    uint64_t number;  // in the order in which they came to be
    uint64_t time = 0;
  };
  using Gaps = std::map<uint64_t, Gap>;

  void take_room(uint64_t most = 0) REQUIRES(process_lock);
  std::vector<unsigned char> rights() const;
  Gaps::iterator find(uint64_t size, const std::function<bool(const Gap&)>& fits);
  void take_from_gap(Gaps::iterator, uint64_t address, uint64_t size);
  bool is_backed(uint64_t address, uint64_t size) const;
  void add_gap(uint64_t address, Gap);
  bool is_mapped_elsewhere(uint64_t unit) const REQUIRES(process_lock);
  void settle(const MayHave& = when_reached);
  void back(uint64_t address, uint64_t size) REQUIRES(process_lock);
  void map_unit(uint64_t address) REQUIRES(process_lock);
  void unmap_unit(uint64_t address) REQUIRES(process_lock);
  void give_back(uint64_t bytes) REQUIRES(process_lock);

  bool was_exported_ = false;
  CUdevice device_ = -1;  // none
  std::optional<OnHost> on_host_;
  bool is_imported_ = false;
  uint32_t record_;  // invalid_index: it is this process's alone
  uint64_t addresses_, first_ = 0, numbers_ = 0, blocks_ = 0;
  Gaps gaps_;                          // by address
  std::set<uint64_t> units_;           // that have memory
  std::vector<unsigned char> access_;  // of each GPU
};

}  // namespace memory
