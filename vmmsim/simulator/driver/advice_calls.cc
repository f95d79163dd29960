// SPDX-License-Identifier: MIT-0
// Calls about where managed memory is to lie: advice and prefetches, kept and told, without effect. It lies still here.
#include "advice.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "capture.h"
#include "contexts.h"
#include "pools.h"
#include "streams.h"

namespace driver {
namespace {

constexpr CUmemLocation nowhere = driver::location(CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID);

struct Advice {
  bool is_read_mostly = false;
  CUmemLocation preferred = nowhere, prefetched = nowhere;
  std::set<unsigned> accessed_by;  // GPUs, and last the host, CU_DEVICE_CPU
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
  for (auto entry = all.find(address); entry->first < address + size; ++entry) work(entry->second);
}

bool is_managed(uint64_t address, size_t size) {
  const auto range = memory::find(address);
  return size && range && range->kind == memory::Range::managed && size <= range->base + range->size - address;
}
void require_managed(uint64_t address, size_t size) {
  require(is_managed(address, size), "the range is not managed memory");
}

CUdevice device_of(const CUmemLocation& location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) return location.id;
  return location.type == CU_MEM_LOCATION_TYPE_INVALID ? CU_DEVICE_INVALID : CU_DEVICE_CPU;
}

void require_location(const CUmemLocation& location) {
  switch (location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE: return require(is_gpu(location), no_such_gpu);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: return;
    case CU_MEM_LOCATION_TYPE_HOST_NUMA: return require(location.id == 0, "the host has one NUMA node, 0");
    default: refuse("there is no such type of location");
  }
}

// Advice of what is mostly read, and none of a preferred location, looks at the type of the location alone.
void require_fitting_location(CUmem_advise advice, const CUmemLocation& location) {
  const int type = location.type;
  switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return require(type >= CU_MEM_LOCATION_TYPE_DEVICE && type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
                     "there is no such type of location");
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION: return require_location(location);
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return require(type == CU_MEM_LOCATION_TYPE_HOST || is_gpu(location),
                     "only a GPU or the host (CU_MEM_LOCATION_TYPE_HOST) accesses memory");
    default: refuse("there is no such advice");
  }
}

bool is_same(const CUmemLocation& a, const CUmemLocation& b) { return a.type == b.type && a.id == b.id; }

// What holds for all of a range; a location that is not the same everywhere is none.
Advice common(uint64_t address, size_t size) {
  const MutexLock held(state().lock);
  std::vector<Advice> all;
  for_each_in(address, size, [&](const Advice& part) { all.push_back(part); });
  Advice result = all.front();
  for (const Advice& part : all) {
    result.is_read_mostly &= part.is_read_mostly;
    if (!is_same(result.preferred, part.preferred)) result.preferred = nowhere;
    if (!is_same(result.prefetched, part.prefetched)) result.prefetched = nowhere;
    std::erase_if(result.accessed_by, [&](unsigned device) { return !part.accessed_by.contains(device); });
  }
  return result;
}

void give(const Advice& advice, CUmem_range_attribute attribute, int* to, size_t bytes) {
  require_non_null(to, "data");
  const bool is_list = attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  require(is_list ? bytes && bytes % sizeof *to == 0 : bytes == sizeof *to,
          "dataSize is 4 bytes, or for ACCESSED_BY a multiple of that");
  switch (attribute) {
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
    default: refuse(no_such_attribute);
  }
}

void advise(uint64_t address, size_t size, CUmem_advise advice, CUmemLocation location) {
  require_fitting_location(advice, location);
  const bool is_node =
      location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA || location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  if (is_node && !is_managed(address, size)) return;  // of a node the driver says nothing, as on an H100
  refuse_if_unsafe_in_capture();
  require_managed(address, size);
  const MutexLock held(state().lock);
  for_each_in(address, size, [&](Advice& part) {
    switch (advice) {
      case CU_MEM_ADVISE_SET_READ_MOSTLY: part.is_read_mostly = true; break;
      case CU_MEM_ADVISE_UNSET_READ_MOSTLY: part.is_read_mostly = false; break;
      case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        part.preferred = is_gpu(location) ? location : driver::location(CU_MEM_LOCATION_TYPE_HOST, CU_DEVICE_CPU);
        break;
      case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION: part.preferred = nowhere; break;
      case CU_MEM_ADVISE_SET_ACCESSED_BY: part.accessed_by.insert(unsigned(device_of(location))); break;
      case CU_MEM_ADVISE_UNSET_ACCESSED_BY: part.accessed_by.erase(unsigned(device_of(location))); break;
    }
  });
}

void note_prefetch(uint64_t address, size_t size, CUmemLocation location) {
  require_managed(address, size);
  if (location.type == CU_MEM_LOCATION_TYPE_HOST) location.id = CU_DEVICE_CPU;
  const MutexLock held(state().lock);
  for_each_in(address, size, [&](Advice& part) { part.prefetched = location; });
}

#if CUDA_VERSION >= 13000
// Ranges that are discarded, prefetched, or both: from each index on to the next place.
struct Batch {
  CUdeviceptr* addresses;
  size_t *sizes, count;
  CUmemLocation* places;
  size_t *indexes, place_count;
};

void require_batch(const Batch& batch, unsigned long long flags, CUstream stream) {
  require(stream && stream != CU_STREAM_LEGACY, "a batch does not go into the null stream");
  require_non_null(batch.addresses, "dptrs");
  require_non_null(batch.sizes, "sizes");
  require(batch.count && !flags, "count is 0, or flags are not");
  require_not_capturing(named_stream(stream));
  for (size_t i = 0; i < batch.count; ++i) require_managed(batch.addresses[i], batch.sizes[i]);
}

void prefetch(const Batch& batch) {
  require_non_null(batch.places, "prefetchLocs");
  require_non_null(batch.indexes, "prefetchLocIdxs");
  require(batch.place_count && batch.place_count <= batch.count && !batch.indexes[0],
          "there are as many places as ranges at most, and the first is for the first range");
  for (size_t i = 0; i < batch.place_count; ++i) {
    const size_t begin = batch.indexes[i], end = i + 1 < batch.place_count ? batch.indexes[i + 1] : batch.count;
    require(begin < end && end <= batch.count, "prefetchLocIdxs does not ascend to count");
    require_location(batch.places[i]);
    for (size_t range = begin; range < end; ++range)
      note_prefetch(batch.addresses[range], batch.sizes[range], batch.places[i]);
  }
}
#endif

}  // namespace

void forget_advice(uint64_t address, size_t size) {
  const MutexLock held(state().lock);
  for_each_in(address, size, [](Advice& part) { part = {}; });
}

}  // namespace driver

using namespace driver;

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
  return call(ARGUMENTS(devPtr, count, advice), [&] { advise(devPtr, count, advice, location); });
}
CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                            CUstream hStream) {
  return call(ARGUMENTS(devPtr, count, flags, hStream), [&] {
    require_no_flags(flags);
    if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) require_location(location);
    require_not_capturing(named_stream(hStream));
    require(devPtr && count, "devPtr is null, or count is 0");
    if (location.type == CU_MEM_LOCATION_TYPE_DEVICE) checked(location.id);
    note_prefetch(devPtr, count, location);
  });
}
CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute, CUdeviceptr devPtr,
                                size_t count) {
  return call(ARGUMENTS(data, dataSize, attribute, devPtr, count), [&] {
    require_managed(devPtr, count);
    give(common(devPtr, count), attribute, static_cast<int*>(data), dataSize);
  });
}
CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return call(ARGUMENTS(numAttributes, devPtr, count), [&] {
    require_non_null(data, "data");
    require_non_null(dataSizes, "dataSizes");
    require_non_null(attributes, "attributes");
    require(numAttributes, "numAttributes is 0");
    require_managed(devPtr, count);
    const Advice advice = common(devPtr, count);
    for (size_t i = 0; i < numAttributes; ++i) give(advice, attributes[i], static_cast<int*>(data[i]), dataSizes[i]);
  });
}
#if CUDA_VERSION >= 13000
CUresult cuMemPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                 size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                 CUstream hStream) {
  return call(ARGUMENTS(dptrs, sizes, count, numPrefetchLocs, flags, hStream), [&] {
    const Batch batch = {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs};
    require_batch(batch, flags, hStream);
    prefetch(batch);
  });
}
CUresult cuMemDiscardBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, unsigned long long flags,
                                CUstream hStream) {
  return call(ARGUMENTS(dptrs, sizes, count, flags, hStream),
              [&] { require_batch({dptrs, sizes, count, nullptr, nullptr, 0}, flags, hStream); });
}
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr* dptrs, size_t* sizes, size_t count, CUmemLocation* prefetchLocs,
                                           size_t* prefetchLocIdxs, size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream) {
  return call(ARGUMENTS(dptrs, sizes, count, numPrefetchLocs, flags, hStream), [&] {
    const Batch batch = {dptrs, sizes, count, prefetchLocs, prefetchLocIdxs, numPrefetchLocs};
    require_batch(batch, flags, hStream);
    prefetch(batch);
  });
}
#endif
