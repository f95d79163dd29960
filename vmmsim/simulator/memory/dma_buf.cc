// SPDX-License-Identifier: MIT-0
// dma-bufs: descriptors that hold the memory of a range of addresses for a device that is no GPU. There is none on a
// simulated machine, so a dma-buf has a size, and nobody reads it.
#include <unistd.h>

#include "process.h"

namespace memory {
namespace {

// The mapping at an address if a dma-buf may have its memory; refuses.
const Mapping& shareable_at(uint64_t address) REQUIRES(process_lock) {
  const Mapping* const mapping = mapping_at(address);
  if (!mapping)
    refuse("nothing is mapped at " + hexadecimal(address) + ": map memory there first, or leave it out of the range");
  const bool is_on_gpu = mapping->record != invalid_index && device_of(ledger().record[mapping->record].gpu) >= 0;
  if (!is_on_gpu || mapping->kind == Range::multicast_range)
    refuse("what lies at " + hexadecimal(address) + " is not memory of a GPU");
  if (ledger().record[mapping->record].compression)
    refuse(CUDA_ERROR_UNKNOWN, "the memory at " + hexadecimal(address) + " is compressed: create it without");
  if (mapping->kind != Range::vmm && allocation_with(address) == process().allocations.end())
    refuse("no memory was allocated at " + hexadecimal(address) + ", or it was freed");
  return *mapping;
}

// The memory of a range. Of cuMemAlloc and of pools the driver looks only where it begins, as on an H100.
std::vector<uint32_t> records_of(uint64_t address, uint64_t end) REQUIRES(process_lock) {
  std::vector<uint32_t> all;
  for (uint64_t at = address; at < end;) {
    if (!all.empty() && mapping_at(address)->kind != Range::vmm && !mapping_at(at)) break;
    const Mapping& mapping = shareable_at(at);
    if (!all.empty() && ledger().record[mapping.record].gpu != ledger().record[all[0]].gpu)
      refuse("the memory from " + hexadecimal(at) + " on is another GPU's");
    all.push_back(mapping.record);
    at = mapping.base + mapping.size;
  }
  return all;
}

}  // namespace

int export_dma_buf(uint64_t address, size_t size, unsigned long long flags) {
  const auto guard = lock_process();
  if (!machine().rdma)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "this GPU has no dma-bufs: ask for CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED first");
  const uint64_t host_page = uint64_t(sysconf(_SC_PAGESIZE)), end = address + size;
  if (!size || size % host_page || address % host_page || end < address || end > uint64_t(1) << address_bits)
    refuse("dptr and size: make both multiples of the host's page, " + size_text(host_page) + ", and size not 0");
  const std::vector<uint32_t> records = records_of(address, end);
  if (flags & 1)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE is for GPUs that their host reaches "
           "by more than PCIe: make flags 0");
  require_no_flags(flags);
  const int fd = export_dma_buf(records, size);
  process().exported[fd] = maker();
  return fd;
}

}  // namespace memory
