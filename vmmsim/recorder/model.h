// SPDX-License-Identifier: MIT-0
// What the calls of this process have changed, as a line's `changes` tell it: ../trace/README.md says what each kind
// has. What nobody can know who sees only this process's calls is null.
#pragma once
#include <cuda.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include "../trace/line.h"

namespace recorder {

using Changes = std::vector<std::string>;  // objects of JSON
using Known = std::optional<int64_t>;

class Model {
 public:
  // Each function adds to `changes`.
  Changes changes;
  int device = -1;   // whose context is current in the thread that called
  int captures = 0;  // of streams, that go on

  void create(uint64_t handle, size_t size, const CUmemAllocationProp* prop);
  void multicast_create(uint64_t handle, const CUmulticastObjectProp* prop);
  void release(uint64_t handle);
  void retain(uint64_t handle);
  void export_handle(const void* shareable, uint64_t handle, CUmemAllocationHandleType type);
  void import_handle(uint64_t handle, const void* shareable, CUmemAllocationHandleType type);
  void reserve(uint64_t address, size_t size);
  void free_reservation(uint64_t address, size_t size);
  void map(uint64_t address, size_t size, uint64_t handle);
  void unmap(uint64_t address, size_t size);
  void access(uint64_t address, size_t size, const CUmemAccessDesc* descriptors, size_t count);
  void add_device(uint64_t object, int device);
  void bind(uint64_t object, size_t offset, uint64_t memory, size_t memory_offset, size_t size);
  void bind_address(uint64_t object, size_t offset, uint64_t address, size_t size);
  void unbind(uint64_t object, int device, size_t offset, size_t size);

  void allocate(uint64_t address, Known size, Known device, bool shared = false);
  void free(uint64_t address);
  void made_pool(const void* pool, int device) { pools_[pool] = device; }
  Known device_of_pool(const void* pool) const;
  void open_pool(const CUmemAccessDesc* descriptors, size_t count);
  void peer(Known peer, bool enabled);

  void made_context(const void* context, int device) { contexts_[context] = device; }
  Known device_of_context(const void* context) const;

  // What the calls that take something away changed is told when they begin: before anybody gets the same address
  // anew. If they are refused, it was not so.
  struct Taken {
    Changes changes;
    std::vector<std::pair<uint64_t, uint64_t>> mappings;  // address, size
  };
  Taken take();
  void give_back(const Taken&);

 private:
  struct Memory {
    int64_t record;
    Known size, device;
    bool is_multicast;
  };
  void change(trace::Kind, const std::vector<trace::Member>&);
  void trace_export(uint64_t handle, trace::Member how, Known identity);
  Known device_of(uint64_t handle) const;

  int64_t records_ = int64_t(getpid()) << 24;  // so that no two processes have the same
  uint64_t order_ = 0;
  std::map<uint64_t, Memory> handles_;                 // that were made here; of a value that was given twice, the last
  std::map<uint64_t, uint64_t> mappings_;              // address -> size
  std::map<int64_t, std::optional<Memory>> exported_;  // by identity: none where that is of several
  uint64_t exports_ = 0;                               // as descriptors
  std::map<const void*, int> pools_, contexts_;        // -> device
  std::vector<std::pair<uint64_t, uint64_t>> unmapped_;
};

}  // namespace recorder
