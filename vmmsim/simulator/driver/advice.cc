// SPDX-License-Identifier: MIT-0
#include "advice.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "contexts.h"

namespace driver {
namespace {

struct Advice {
  bool is_read_mostly = false;
  CUmemLocation preferred = {}, prefetched = {};  // CU_MEM_LOCATION_TYPE_INVALID
  std::set<CUdevice> accessed_by;
};

// From each address on, up to the next.
using Advices = std::map<uint64_t, Advice>;
Advices& advices() REQUIRES(state().lock) {
  static Advices& all = *new Advices{{0, {}}};
  return all;
}

// All in a range, which begins and ends there.
template <class Work>
void for_each_in(uint64_t address, size_t size, Work work) REQUIRES(state().lock) {
  Advices& all = advices();
  for (const uint64_t at : {address, address + size}) all.try_emplace(at, std::prev(all.upper_bound(at))->second);
  for (auto each = all.find(address); each->first < address + size; ++each) work(each->second);
}

void must_be_managed(uint64_t address, size_t size) {
  const auto range = memory::find(address);
  require(size && range && range->kind == memory::Range::managed && size <= range->base + range->size - address,
          CUDA_ERROR_INVALID_VALUE, "the range is not managed memory");
}

CUdevice device_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

bool is_same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && a.id == b.id; }

// What holds for all of a range; a location that is not the same everywhere is none.
Advice common(uint64_t address, size_t size) {
  const MutexLock held(state().lock);
  std::vector<Advice> all;
  for_each_in(address, size, [&](const Advice& each) { all.push_back(each); });
  Advice result = all.front();
  for (const Advice& each : all) {
    result.is_read_mostly &= each.is_read_mostly;
    if (!is_same(result.preferred, each.preferred)) result.preferred = {};
    if (!is_same(result.prefetched, each.prefetched)) result.prefetched = {};
    std::erase_if(result.accessed_by, [&](CUdevice device) { return !each.accessed_by.contains(device); });
  }
  return result;
}

void give(const Advice& advice, CUmem_range_attribute what, int* to, size_t bytes) {
  need(to, "data");
  const bool is_list = what == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  require(is_list ? bytes && bytes % sizeof *to == 0 : bytes == sizeof *to, CUDA_ERROR_INVALID_VALUE,
          "dataSize is 4 bytes, or for ACCESSED_BY a multiple of that");
  switch (what) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY: *to = advice.is_read_mostly; return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION: *to = device_of(advice.preferred); return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION: *to = device_of(advice.prefetched); return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE: *to = advice.preferred.type; return;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID: *to = advice.preferred.id; return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE: *to = advice.prefetched.type; return;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID: *to = advice.prefetched.id; return;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY: {
      const size_t room = bytes / sizeof *to;
      std::fill_n(to, room, CU_DEVICE_INVALID);
      std::copy_n(advice.accessed_by.begin(), std::min(room, advice.accessed_by.size()), to);
      return;
    }
    default: refuse(CUDA_ERROR_INVALID_VALUE, "there is no such attribute");
  }
}

}  // namespace

void advise(uint64_t address, size_t size, CUmem_advise advice, CUmemLocation location) {
  must_be_managed(address, size);
  const MutexLock held(state().lock);
  for_each_in(address, size, [&](Advice& each) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY: each.is_read_mostly = true; break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY: each.is_read_mostly = false; break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: each.preferred = location; break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: each.preferred = {}; break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY: each.accessed_by.insert(device_of(location)); break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY: each.accessed_by.erase(device_of(location)); break;
    }
  });
}

void note_prefetch(uint64_t address, size_t size, CUmemLocation location) {
  must_be_managed(address, size);
  const MutexLock held(state().lock);
  for_each_in(address, size, [&](Advice& each) { each.prefetched = location; });
}

void forget_advice(uint64_t address, size_t size) {
  const MutexLock held(state().lock);
  for_each_in(address, size, [](Advice& each) { each = {}; });
}

}  // namespace driver

using namespace driver;

CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                size_t count) {
  return call(ARGUMENTS(data, dataSize, attribute, devPtr, count), [&] {
    must_be_managed(devPtr, count);
    give(common(devPtr, count), attribute, static_cast<int*>(data), dataSize);
  });
}
CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return call(ARGUMENTS(numAttributes, devPtr, count), [&] {
    need(data, "data");
    need(dataSizes, "dataSizes");
    need(attributes, "attributes");
    must_be_managed(devPtr, count);
    const Advice advice = common(devPtr, count);
    for (size_t i = 0; i < numAttributes; ++i) give(advice, attributes[i], static_cast<int*>(data[i]), dataSizes[i]);
  });
}
