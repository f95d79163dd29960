// SPDX-License-Identifier: MIT-0
#include "model.h"

#include <string>
#include "../trace/text.h"
#include "identity.h"

namespace recorder {
namespace {

Known identity_of_handle(const void* shareable, CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) return int64_t(identity_of(shareable, sizeof(CUmemFabricHandle)));
  const auto identity = identity_of(int(reinterpret_cast<intptr_t>(shareable)));
  return identity ? Known(int64_t(*identity)) : Known();
}

}  // namespace

void Model::change(trace::Kind kind, const std::vector<trace::Member>& members) {
  changes.push_back(trace::change(kind, members, ++order_));
}

// --- Memory with a handle -------------------------------------------------------------------------------------------
void Model::create(uint64_t handle, size_t size, const CUmemAllocationProp* prop) {
  const int owner = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? prop->location.id : -1;
  handles_[handle] = {records_++, size, owner, false};
  change("create", {{"handle", hexadecimal(handle)},
                    {"size", size},
                    {"device", owner},
                    {"record", handles_[handle].record},
                    {"multicast", false}});
}

void Model::multicast_create(uint64_t handle, const CUmulticastObjectProp* prop) {
  handles_[handle] = {records_++, prop->size, {}, true};
  change("multicast_create", {{"handle", hexadecimal(handle)},
                              {"size", prop->size},
                              {"devices", int64_t(prop->numDevices)},
                              {"record", handles_[handle].record}});
}

void Model::release(uint64_t handle) { change("release", {{"handle", hexadecimal(handle)}}); }

void Model::retain(uint64_t handle) { change("retain", {{"handle", hexadecimal(handle)}}); }

void Model::trace_export(uint64_t handle, trace::Member how, Known identity) {
  std::vector<trace::Member> members = {{"handle", hexadecimal(handle)}, std::move(how)};
  const auto memory = handles_.find(handle);
  if (identity) {
    members.emplace_back("identity", hexadecimal(uint64_t(*identity)));
    const std::optional<Memory> own = memory != handles_.end() ? std::optional(memory->second) : std::nullopt;
    const auto [known, is_new] = exported_.try_emplace(*identity, own);
    if (!is_new && known->second && (!own || own->record != known->second->record)) known->second = {};
  }
  change("export", members);
}

void Model::export_handle(const void* shareable, uint64_t handle, CUmemAllocationHandleType type) {
  if (type == CU_MEM_HANDLE_TYPE_FABRIC) {
    trace_export(handle, {"fabric", true}, identity_of_handle(shareable, type));
    return;
  }
  const int fd = *static_cast<const int*>(shareable);
  mark(fd, exports_++);
  trace_export(handle, {"fd", fd}, identity_of_handle(reinterpret_cast<const void*>(intptr_t(fd)), type));
}

// Another process's memory says nothing of itself.
void Model::import_handle(uint64_t handle, const void* shareable, CUmemAllocationHandleType type) {
  handles_.erase(handle);
  const Known identity = identity_of_handle(shareable, type);
  const auto own = identity ? exported_.find(*identity) : exported_.end();
  std::vector<trace::Member> members = {{"handle", hexadecimal(handle)}};
  if (own != exported_.end() && own->second) {
    const Memory& memory = handles_[handle] = *own->second;
    members.insert(members.end(), {{"size", memory.size},
                                   {"device", memory.is_multicast ? Known(-1) : memory.device},
                                   {"record", memory.record},
                                   {"multicast", memory.is_multicast}});
  } else {
    members.insert(members.end(),
                   {{"size", nullptr}, {"device", nullptr}, {"record", nullptr}, {"multicast", nullptr}});
  }
  if (identity) members.emplace_back("identity", hexadecimal(uint64_t(*identity)));
  change("import", members);
}

Known Model::device_of(uint64_t handle) const {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? Known() : found->second.device;
}

// --- Addresses ------------------------------------------------------------------------------------------------------
void Model::reserve(uint64_t address, size_t size) {
  change("reserve", {{"address", hexadecimal(address)}, {"size", size}});
}

void Model::free_reservation(uint64_t address, size_t size) {
  change("free_reservation", {{"address", hexadecimal(address)}, {"size", size}});
}

void Model::map(uint64_t address, size_t size, uint64_t handle) {
  mappings_[address] = size;
  change("map", {{"address", hexadecimal(address)}, {"size", size}, {"handle", hexadecimal(handle)}});
}

void Model::unmap(uint64_t address, size_t size) {
  auto mapping = mappings_.lower_bound(address);
  while (mapping != mappings_.end() && mapping->first - address < size) {
    change("unmap", {{"address", hexadecimal(mapping->first)}, {"size", mapping->second}});
    unmapped_.push_back(*mapping);
    mapping = mappings_.erase(mapping);
  }
}

void Model::access(uint64_t address, size_t size, const CUmemAccessDesc* descriptors, size_t count) {
  uint64_t next = address;
  for (auto mapping = mappings_.lower_bound(address); mapping != mappings_.end() && mapping->first - address < size;
       ++mapping) {
    if (mapping->first != next) return;  // behind a hole nothing changes
    next += mapping->second;
    for (size_t i = 0; i < count; ++i) {
      const auto& [location, flags] = descriptors[i];
      change("access", {{"address", hexadecimal(mapping->first)},
                        {"size", mapping->second},
                        {"device", location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1},
                        {"flags", int(flags)}});
    }
  }
}

// --- Multicast objects ----------------------------------------------------------------------------------------------
void Model::add_device(uint64_t object, int device) {
  change("add_device", {{"handle", hexadecimal(object)}, {"device", device}});
}

void Model::bind(uint64_t object, size_t offset, uint64_t memory, size_t memory_offset, size_t size) {
  change("bind", {{"handle", hexadecimal(object)},
                  {"offset", offset},
                  {"size", size},
                  {"device", device_of(memory)},
                  {"memory", hexadecimal(memory)},
                  {"memory_offset", memory_offset}});
}

void Model::bind_address(uint64_t object, size_t offset, uint64_t address, size_t size) {
  change("bind", {{"handle", hexadecimal(object)},
                  {"offset", offset},
                  {"size", size},
                  {"device", nullptr},
                  {"address", hexadecimal(address)}});
}

void Model::unbind(uint64_t object, int device, size_t offset, size_t size) {
  change("unbind", {{"handle", hexadecimal(object)}, {"offset", offset}, {"size", size}, {"device", device}});
}

// --- Ordinary memory ------------------------------------------------------------------------------------------------
void Model::allocate(uint64_t address, Known size, Known device, bool shared) {
  if (!address) return;  // of nothing
  change("allocate", {{"address", hexadecimal(address)}, {"size", size}, {"device", device}, {"shared", shared}});
}

void Model::free(uint64_t address) {
  if (address) change("free", {{"address", hexadecimal(address)}});
}

Known Model::device_of_pool(const void* pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() ? Known() : Known(found->second);
}

// Where a pool has its addresses is not known.
void Model::open_pool(const CUmemAccessDesc* descriptors, size_t count) {
  for (size_t i = 0; i < count; ++i)
    change("open_pool",
           {{"address", nullptr}, {"device", descriptors[i].location.id}, {"flags", int(descriptors[i].flags)}});
}

void Model::peer(Known peer, bool enabled) {
  change("peer", {{"device", device}, {"peer", peer}, {"enabled", enabled}});
}

Known Model::device_of_context(const void* context) const {
  const auto found = contexts_.find(context);
  return found == contexts_.end() ? Known() : Known(found->second);
}

// --- What is taken away ---------------------------------------------------------------------------------------------
Model::Taken Model::take() { return {std::exchange(changes, {}), std::exchange(unmapped_, {})}; }

void Model::give_back(const Taken& taken) { mappings_.insert(taken.mappings.begin(), taken.mappings.end()); }

}  // namespace recorder
