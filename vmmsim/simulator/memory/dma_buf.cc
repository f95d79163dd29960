// SPDX-License-Identifier: MIT-0
// dma-bufs: descriptors that hold the memory of a range of addresses for a device that is no GPU. There is none on a
// simulated machine, so a dma-buf has a size, and nobody reads it.
#include <unistd.h>

#include "process.h"

namespace memory {
namespace {

constexpr char anew[] = ": ask for a range with memory of one kind and one GPU throughout";

// The mapping at an address if a dma-buf may have its memory; refuses.
const Mapping& shareable_at(uint64_t address, uint64_t end) REQUIRES(process_lock) {
  const Mapping* const mapping = mapping_at(address);
  if (!mapping)
    refuse(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at " + hexadecimal(address) + " in the range" + anew);
  const bool is_on_gpu = mapping->record != nothing && device_of(ledger().record[mapping->record].gpu) >= 0;
  if (!is_on_gpu || (mapping->kind != Range::vmm && mapping->kind != Range::ordinary))
    refuse(CUDA_ERROR_INVALID_VALUE, "the memory at " + hexadecimal(address) +
                                         " is neither of cuMemAlloc nor of cuMemCreate on a GPU: of it there is none");
  if (mapping->kind == Range::vmm) return *mapping;
  const auto allocation = allocation_with(address);
  const bool is_known = allocation != process().allocations.end() && owner_of(allocation->second).context;
  if (!is_known || end > allocation->first + allocation->second.size)
    refuse(CUDA_ERROR_INVALID_VALUE, "the range is not within one allocation of cuMemAlloc" + std::string(anew));
  return *mapping;
}

}  // namespace

int export_dma_buf(uint64_t address, size_t size) {
  const auto guard = enter();
  if (!machine().rdma)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "this GPU has no dma-bufs: ask for CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED first");
  const uint64_t host_page = uint64_t(sysconf(_SC_PAGESIZE)), end = address + size;
  if (!size || size % host_page || address % host_page || end < address)
    refuse(CUDA_ERROR_INVALID_VALUE, "dptr and size: make both multiples of the host's page, " +
                                         std::to_string(host_page) + " bytes, and size not 0");
  std::vector<uint32_t> records;
  for (uint64_t at = address; at < end;) {
    const Mapping& mapping = shareable_at(at, end);
    const Record &record = ledger().record[mapping.record],
                 &first = ledger().record[records.empty() ? mapping.record : records[0]];
    if (record.gpu != first.gpu)
      refuse(CUDA_ERROR_INVALID_VALUE, "the memory from " + hexadecimal(at) + " on is another GPU's" + anew);
    records.push_back(mapping.record);
    at = mapping.base + mapping.size;
  }
  const int fd = export_dma_buf(records, size);
  process().exported[fd] = current_call;
  return fd;
}

}  // namespace memory
