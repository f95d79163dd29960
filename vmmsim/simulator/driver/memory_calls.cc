// SPDX-License-Identifier: MIT-0
// Ordinary memory: allocating and freeing it, and what is known of a pointer.

#include <algorithm>
#include <atomic>
#include <cstring>

#include "../memory/this_machine.h"
#include "advice.h"
#include "capture.h"
#include "contexts.h"
#include "driver.h"
#include "graph_memory.h"
#include "modules.h"
#include "pools.h"
#include "streams.h"

namespace driver {
namespace {

using memory::Range;

uint64_t allocate(size_t size) {
  const CUcontext context = current();
  refuse_if_unsafe_in_capture();
  require(size, "bytesize is 0");
  return memory::allocate(context->device, size, {context});
}

void* allocate_host(size_t size, unsigned flags, bool managed) {
  const CUcontext context = current();
  if (!managed) refuse_if_unsafe_in_capture();
  constexpr unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  const bool flags_fit = managed ? flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST : !(flags & ~known);
  require_flags(flags_fit);
  if (!size && !managed) return nullptr;
  require(size, "bytesize is 0");
  refuse_if_unsafe_in_capture();
  const MutexLock held(state().lock);
  if (managed || size >= memory::page_size) return memory::allocate_host(size, managed, {context, flags});
  auto& [count, portable] = small_pieces_like(*context, flags);
  if (!count) portable = flags & CU_MEMHOSTALLOC_PORTABLE;
  void* const made = memory::allocate_host(size, false, {context, (flags & ~CU_MEMHOSTALLOC_PORTABLE) | portable});
  ++count;
  return made;
}

void free_now(uint64_t address, std::initializer_list<Range::Kind> kinds) {
  if (has_current()) current();  // it may not have ended
  refuse_if_unsafe_in_capture();
  if (!address || free_graph_memory(address)) return;
  const Range taken = memory::take_from_owner(address, kinds);
  if (!taken.owner.pool) {
    synchronize(taken.owner.context);  // as the driver does: nothing may be using it any more
    settle(true);                      // nor the copies of another GPU
  }
  {
    const MutexLock held(state().lock);
    give_back(taken);  // its pool goes on counting it as used, as on the H200
  }
  give_back_pools();
}

void register_host(void* pointer, size_t size, unsigned flags) {
  const CUcontext context = current();
  refuse_if_unsafe_in_capture();
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY |
                             CU_MEMHOSTREGISTER_READ_ONLY;
  require_flags(!(flags & ~known));
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  memory::require_registrable(address, size, flags & CU_MEMHOSTREGISTER_READ_ONLY);
  require(!(flags & CU_MEMHOSTREGISTER_IOMEMORY),
          "this is memory of the host, and CU_MEMHOSTREGISTER_IOMEMORY for that of a device");
  memory::register_host(address, size, flags & CU_MEMHOSTREGISTER_READ_ONLY,
                        {context, flags & CU_MEMHOSTREGISTER_PORTABLE});
}

void unregister_host(void* pointer) {
  current();
  refuse_if_unsafe_in_capture();
  require_non_null(pointer, "p");
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  const auto range = memory::find(address);
  require(range.has_value(), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "nothing is registered at p");
  require(range->kind == Range::registered && range->range_base == address, "p is not where registered memory begins");
  free_now(address, {Range::registered});
}

// --- Pointers -----------------------------------------------------------------------------------------------------

Range host_allocation_at(const void* pointer) {
  const auto found = memory::find(bits(pointer));
  require(found && is_on_host(*found) && found->owner.context && !found->owner.pool,
          "p is neither of cuMemHostAlloc nor registered (cuMemHostRegister)");
  return *found;
}

// What the current GPU may do with memory at an address: without any right the driver shows less of it.
unsigned access_at(const Range& range, uint64_t address) {
  if ((range.kind == Range::ordinary || range.kind == Range::pool || range.owner.pool) && has_current()) {
    try {
      memory::for_each_piece(current()->device, address, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
                             [](const memory::Piece&) {});
    } catch (const memory::Refused&) {
      return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
  }
  if (range.kind != Range::vmm) return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  if (!has_current()) return CU_MEM_ACCESS_FLAGS_PROT_NONE;
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = current()->device;
  return unsigned(memory::get_access(location, address));
}

// The variables of a module share an allocation, and each has a range of its own all the same.
std::optional<Range> find_with_variables(uint64_t address) {
  auto range = memory::find(address);
  if (!range || range->kind != Range::ordinary || range->owner.context) return range;
  if (const auto variable = variable_at(address)) {
    range->base = range->range_base = variable->address;
    range->size = range->range_size = variable->size;
  }
  return range;
}

std::atomic<bool> sync_memops_was_set;  // by this process, of any memory

// Fills in an attribute of a pointer, or throws Refused{CUDA_ERROR_INVALID_VALUE}.
void pointer_attribute(void* to, CUpointer_attribute attribute, uint64_t address) {
  const auto range = find_with_variables(address);
  require(range && range->mapped, "no memory of CUDA's lies at this address");
  require(!awaits_launch(address), "a node of a graph allocates this memory, and no launch has, or it was freed since");
  const memory::Owner& owner = range->owner;
  const bool is_vmm = range->kind == Range::vmm, is_managed = range->kind == Range::managed;
  const bool on_host = is_on_host(*range), is_of_host = on_host || is_host_vmm(*range);
  const bool is_malloc = range->kind == Range::ordinary && owner.context;
  auto give = [&](auto value) { std::memcpy(to, &value, sizeof value); };
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: return give(owner.pool ? nullptr : owner.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(unsigned(is_of_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      require(has_current(), CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
      require(access_at(*range, address), "the current GPU has no access to this memory");
      return give(address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      require(on_host || is_managed || range->host_access, "the host cannot reach this memory");
      return give(address);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS: {
      require(!is_of_host && memory::machine().rdma, "only memory of a GPU with GPUDirect RDMA has tokens");
      return give(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS{0, 1});  // which nobody can use here
    }
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: {
      // Without a context, and before it is first set: 1 of what lies on a GPU, or may. As on the H200.
      const bool is_unset = !has_current() && !sync_memops_was_set;
      return give(int(range->sync_memops.value_or(is_unset ? !is_of_host : is_managed)));
    }
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: return give(range->id);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID: return give(range->block_id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: return give(int(is_managed));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(range->device >= 0 ? range->device : owner.context ? owner.context->device : 0);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: return give(int(is_malloc));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: return give(range->range_base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: return give(range->range_size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR: return give(range->base);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return give(range->kind == Range::host ? memory::round_up(range->size, memory::page_size) : range->size);
    case CU_POINTER_ATTRIBUTE_MAPPED: return give(1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES: return give(uint64_t(range->properties.requestedHandleTypes));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return give(
          int(is_vmm ? range->properties.allocFlags.gpuDirectRDMACapable : is_malloc && memory::machine().rdma));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:  // of ordinary memory without a look at peers, as on the H200
      return give(is_vmm ? access_at(*range, address) : unsigned(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return give(owner.pool);
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return give(int(is_malloc || (range->properties.allocFlags.usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS) != 0));
    default: refuse("there is no such attribute, or it is not simulated");
  }
}

// Asked for several at once the driver gives 0 for what a pointer has not, and no error. Where nothing is mapped it
// still tells of the reservation, and takes the address for one of the host.
void pointer_attributes(unsigned count, const CUpointer_attribute* attributes, void** to, uint64_t address) {
  require_non_null(attributes, "attributes");
  require_non_null(to, "data");
  require(count, "numAttributes is 0");
  const auto range = memory::find(address);
  for (unsigned i = 0; i < count; ++i) {
    constexpr CUpointer_attribute words[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                             CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                             CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                             CU_POINTER_ATTRIBUTE_MAPPED,
                                             CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                             CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,
                                             CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                                             CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};
    const bool is_word = std::find(std::begin(words), std::end(words), attributes[i]) != std::end(words);
    require_non_null(to[i], "data");
    std::memset(to[i], 0, is_word ? 4 : 8);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *static_cast<int*>(to[i]) = -2;  // none
    const bool is_mapped = range && range->mapped;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER && !is_mapped) std::memcpy(to[i], &address, 8);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR && range) std::memcpy(to[i], &range->range_base, 8);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_RANGE_SIZE && range) std::memcpy(to[i], &range->range_size, 8);
    try {
      pointer_attribute(to[i], attributes[i], address);
    } catch (const memory::Refused&) {
      require(attributes[i] > 0 && attributes[i] <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, no_such_attribute);
    }
  }
}

void address_range(CUdeviceptr* base, size_t* size, uint64_t address) {
  const auto range = find_with_variables(address);
  require(range && range->mapped && access_at(*range, address), CUDA_ERROR_NOT_FOUND,
          "no memory lies at this address to which the current GPU has access");
  const bool is_block = range->kind == Range::pool || range->kind == Range::registered;
  if (base) *base = is_host_vmm(*range) ? 0 : is_block ? range->range_base : range->base;  // 0: as on the H200
  if (size) *size = is_block ? range->range_size : range->size;
}

void set_pointer_attribute(const void* value, CUpointer_attribute attribute, uint64_t address) {
  require_non_null(value, "value");
  const auto range = memory::find(address);
  require(range && range->mapped, "no memory of CUDA's lies at this address");
  require(range->kind != Range::vmm && range->kind != Range::multicast_range, CUDA_ERROR_NOT_SUPPORTED,
          "memory of cuMemMap has no attribute that is set; for SYNC_MEMOPS of a whole context call "
          "cuCtxSetFlags(CU_CTX_SYNC_MEMOPS)");
  require(attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, "only SYNC_MEMOPS is set");
  memory::set_sync_memops(address, *static_cast<const unsigned*>(value));
  sync_memops_was_set = true;
}

// An attachment limits when the host may touch managed memory. Here it always may, so the arguments are looked at and
// nothing changes.
void require_attachable(CUstream handle, uint64_t address, size_t length, unsigned flags) {
  require_not_capturing(named_stream(handle));
  refuse_if_unsafe_in_capture();
  const auto range = memory::find(address);
  require(range && range->kind == Range::managed && range->base == address, "no managed memory begins at this address");
  require(!length || length == range->size, "the length is that of the whole memory, or 0 for it");
  require(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE,
          "flags are one of GLOBAL, HOST and SINGLE");
  const bool is_default = !handle || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
  require(flags != CU_MEM_ATTACH_SINGLE || !is_default, "memory cannot belong to the default stream alone");
}

}  // namespace
}  // namespace driver

using namespace driver;

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  return call(ARGUMENTS(free, total), [&] {
    const memory::Free now = memory::memory_info(current()->device);
    if (free) *free = now.free;
    if (total) *total = now.total;
  });
}
CUresult cuMemAlloc(CUdeviceptr* dptr, size_t bytesize) {
  return call(ARGUMENTS(dptr, bytesize), result_to(dptr, "dptr", [&] { return allocate(bytesize); }));
}
CUresult cuMemAllocPitch(CUdeviceptr* dptr, size_t* pPitch, size_t WidthInBytes, size_t Height,
                         unsigned int ElementSizeBytes) {
  return call(ARGUMENTS(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes), [&] {
    require_non_null(dptr, "dptr");
    require_non_null(pPitch, "pPitch");
    const unsigned element = ElementSizeBytes;
    require(element == 4 || element == 8 || element == 16, "ElementSizeBytes is 4, 8 or 16");
    const size_t pitch = memory::round_up(WidthInBytes, 512);
    *dptr = allocate(pitch * Height);
    *pPitch = pitch;
  });
}
CUresult cuMemFree(CUdeviceptr dptr) {
  return call(ARGUMENTS(dptr), [&] { free_now(dptr, {Range::ordinary, Range::pool, Range::managed}); });
}
CUresult cuMemAllocHost(void** pp, size_t bytesize) {
  return call(ARGUMENTS(pp, bytesize),
              result_to(pp, "pp", [&] { return allocate_host(bytesize, CU_MEMHOSTALLOC_DEVICEMAP, false); }));
}
CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return call(ARGUMENTS(pp, bytesize, Flags),
              result_to(pp, "pp", [&] { return allocate_host(bytesize, Flags, false); }));
}
CUresult cuMemFreeHost(void* p) {
  return call(ARGUMENTS(p), [&] { free_now(bits(p), {Range::host}); });
}
CUresult cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return call(ARGUMENTS(p, bytesize, Flags), [&] { register_host(p, bytesize, Flags); });
}
CUresult cuMemHostUnregister(void* p) {
  return call(ARGUMENTS(p), [&] { unregister_host(p); });
}
CUresult cuMemHostGetDevicePointer(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  return call(ARGUMENTS(pdptr, p, Flags), [&] {
    require_non_null(pdptr, "pdptr");
    require(!Flags, "Flags must be 0");
    host_allocation_at(p);
    *pdptr = bits(p);
  });
}
CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  return call(ARGUMENTS(pFlags, p), result_to(pFlags, "pFlags", [&] {
                const auto found = memory::find(bits(p));
                const bool is_managed = found && found->kind == Range::managed && !found->owner.pool;
                if (is_managed) return unsigned(CU_MEMHOSTALLOC_DEVICEMAP);
                return host_allocation_at(p).owner.flags | CU_MEMHOSTALLOC_DEVICEMAP;
              }));
}
CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return call(ARGUMENTS(dptr, bytesize, flags), result_to(dptr, "dptr", [&] {
                const uint64_t address = bits(allocate_host(bytesize, flags, true));
                forget_advice(address, bytesize);
                return address;
              }));
}
CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags) {
  return call(ARGUMENTS(hStream, dptr, length, flags), [&] { require_attachable(hStream, dptr, length, flags); });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  return call(ARGUMENTS(pHandle, dptr), [&] {
    require_non_null(pHandle, "pHandle");
    const auto found = memory::find(dptr);
    require(found && found->kind == Range::ordinary && found->owner.context,
            "only memory of cuMemAlloc goes this way; export VMM memory with cuMemExportToShareableHandle");
    *pHandle = memory::export_ipc(dptr);
  });
}
CUresult cuIpcOpenMemHandle(CUdeviceptr* pdptr, CUipcMemHandle handle, unsigned int Flags) {
  return call(ARGUMENTS(pdptr, Flags), [&] {
    require_non_null(pdptr, "pdptr");
    require(Flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS, "Flags must enable lazy peer access");
    const CUcontext context = current();
    *pdptr = memory::open_ipc(context->device, handle, {context});
  });
}
CUresult cuIpcCloseMemHandle(CUdeviceptr dptr) {
  return call(ARGUMENTS(dptr), [&] {
    current();
    const Range taken = memory::take_from_owner(dptr, {Range::ordinary}, true);
    synchronize(taken.owner.context);
    memory::close_ipc(dptr);
  });
}

CUresult cuMemGetAddressRange(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  return call(ARGUMENTS(pbase, psize, dptr), [&] {
    current();
    address_range(pbase, psize, dptr);
  });
}
CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return call(ARGUMENTS(data, attribute, ptr), after_fault, [&] {
    require_non_null(data, "data");
    pointer_attribute(data, attribute, ptr);
  });
}
CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr ptr) {
  return call(ARGUMENTS(numAttributes, ptr), after_fault,
              [&] { pointer_attributes(numAttributes, attributes, data, ptr); });
}
CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return call(ARGUMENTS(value, attribute, ptr), [&] {
    refuse_if_unsafe_in_capture();
    set_pointer_attribute(value, attribute, ptr);
  });
}
