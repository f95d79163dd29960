// SPDX-License-Identifier: MIT-0
// Allocation handles: made, counted, exported and imported.
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <numeric>
#include "process.h"

namespace memory {
namespace {

constexpr unsigned known_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
                                 CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;

constexpr uint64_t fabric_magic = 0x636972626166'6d76;  // "vmfabric"
struct FabricHandle {
  uint64_t magic, token, key;
  uint32_t record;
};
static_assert(sizeof(FabricHandle) <= sizeof(CUmemFabricHandle));

CUmemFabricHandle fabric_handle(const FabricHandle& contents) {
  CUmemFabricHandle handle;
  std::iota(std::begin(handle.data), std::end(handle.data), static_cast<unsigned char>(1));  // each byte counts
  std::memcpy(&handle, &contents, offsetof(FabricHandle, record) + sizeof contents.record);
  return handle;
}

uint32_t record_of_descriptor(int fd) {
  const auto guard = lock_process();
  return exported_record(fd);
}

// What an import waits for. Of many each is asked twice: one of them may have let another go on, and then have waited.
Waits others_wait(ProcessIdentity maker) {
  const Waits its = has_ended(maker) ? Waits::yes : is_blocked_on_peer(number_of(maker));
  if (its != Waits::yes || !options().slow_process) return its;
  const Waits first = all_others_wait();
  return first == Waits::yes ? all_others_wait() : first;
}

// For --slow-import. Whoever made the memory goes on meanwhile, so no lock is held.
void wait_for_maker(uint32_t record) {
  const int seconds = options().slow_import;
  if (!seconds || record == invalid_index) return;
  if (options().slow_process && options().slow_process != nth_process()) return;
  const ProcessIdentity maker = ledger().record[record].maker;
  if (maker == this_process()) return;
  ledger().awaited = number_of(maker);
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  while (true) {
    const Waits waits = others_wait(maker);
    const int most = waits == Waits::unknown ? std::min(seconds, 3) : seconds;
    if (waits == Waits::yes || Clock::now() - began > std::chrono::seconds(most)) break;
    const timespec a_while = {0, 10'000'000};  // nanosleep itself may be over at once (--adversarial-timing)
    syscall(SYS_nanosleep, &a_while, nullptr);
  }
  ledger().awaited = 0;
}

void trace_allocation(trace::Kind kind, const AllocationHandle& referent) {
  const Record& record = record_of(referent);
  std::vector<trace::Member> members = {{"handle", hexadecimal(referent.handle)},
                                        {"size", record.size},
                                        {"device", device_of(record.gpu)},
                                        {"record", referent.record},
                                        {"multicast", record.kind == Record::multicast}};
  if (referent.imported) members.emplace_back("identity", hexadecimal(record.key));
  change(kind, members);
}

// Since 13.4 a location may name a part of a GPU, in the bytes of its id: the GPU, and the part. Ours have one part.
CUmemLocation of_whole_gpu(CUmemLocation location) {
  constexpr int locality_domain = 6;
  if (machine().driver < 13040 || int(location.type) != locality_domain) return location;
  uint8_t parts[sizeof location.id];
  std::memcpy(parts, &location.id, sizeof parts);
  if (parts[1])
    refuse("prop: location.localized.localityDomainId is " + std::to_string(parts[1]) +
           ": CU_DEVICE_ATTRIBUTE_LOCALITY_DOMAIN_COUNT is 1");
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = parts[0];
  return location;
}

// Whose memory the properties ask for: a GPU of the machine, or the host of this node. Refuses what they may not be.
int owner_asked_for(const CUmemAllocationProp& properties) {
  const CUmemLocation location = of_whole_gpu(properties.location);
  const bool to_gpu = location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  int owner = host_of_node();
  if (to_gpu) owner = gpu_of(location.id);
  else if (location.type != CU_MEM_LOCATION_TYPE_HOST && location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA)
    refuse("prop: location.type is " + std::to_string(location.type) +
           ": for memory of a GPU make it CU_MEM_LOCATION_TYPE_DEVICE, and location.id its CUdevice");
  else if (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location.id != 0)
    refuse("prop: location.id is " + std::to_string(location.id) + ": the host has NUMA node 0 only");
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED)
    refuse("prop: type is " + std::to_string(properties.type) +
           ": make it CU_MEM_ALLOCATION_TYPE_PINNED, the only one there is");
  const auto& flags = properties.allocFlags;
  if (flags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC)
    refuse("prop: allocFlags.compressionType must be CU_MEM_ALLOCATION_COMP_NONE or _GENERIC, 0 or 1");
  if (flags.reserved[0] || flags.reserved[1] || flags.reserved[2])  // the driver does not look at the fourth
    refuse("prop: allocFlags.reserved is not all 0: begin with CUmemAllocationProp prop = {}");
  if (properties.win32HandleMetaData) refuse("prop: win32HandleMetaData must be null: it is for Windows");
  require_handle_types(properties.requestedHandleTypes);
  if (location.type == CU_MEM_LOCATION_TYPE_HOST && properties.requestedHandleTypes)
    refuse(
        "prop: memory of the host that is on no particular NUMA node cannot be exported: make requestedHandleTypes 0, "
        "or location.type CU_MEM_LOCATION_TYPE_HOST_NUMA");
  if (!to_gpu && (flags.compressionType || flags.gpuDirectRDMACapable))
    refuse(
        "prop: memory of the host has neither compression nor GPUDirect RDMA: make allocFlags.compressionType and "
        "allocFlags.gpuDirectRDMACapable 0");
  if (flags.usage & CU_MEM_CREATE_USAGE_TILE_POOL &&
      (properties.requestedHandleTypes || flags.compressionType || flags.gpuDirectRDMACapable))
    refuse("prop: allocFlags.usage asks for a tile pool, which has no handle type, compression or GPUDirect RDMA");
  if (flags.usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS && flags.compressionType)
    refuse("prop: allocFlags.usage asks for hardware decompression, which compressed memory has not");
  return owner;
}

constexpr char no_vmm[] =
    "this GPU has no virtual memory management: ask for "
    "CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED first";

Handle import(uint32_t record) REQUIRES(process_lock) {
  const auto referent = add_handle(record, true);
  trace_allocation("import", *referent);
  return referent->handle;
}

}  // namespace

void require_fabric_ready() {
  if (!machine().fabric_ready)
    refuse(machine().driver >= 13040 ? fabric_not_ready : CUDA_ERROR_SYSTEM_NOT_READY,
           "the fabric is not ready: try again later; if it stays so, look at Fabric Manager");
}

void require_handle_types(unsigned requested) {  // bits that are no type are let through, as the driver does
  if (requested & (CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT))
    refuse("the handle types ask for handles of Windows, which this system does not have");
  if (requested & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && !machine().fd_handles)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "memory of this GPU cannot be exported as a file descriptor: ask for "
           "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED first");
  if (!(requested & CU_MEM_HANDLE_TYPE_FABRIC)) return;
  if (!machine().fabric_handles)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "this GPU has no fabric handles: ask for CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED first");
  if (!machine().fabric_channel)
    refuse(CUDA_ERROR_NOT_PERMITTED,
           "this process sees no IMEX channel: an administrator makes "
           "/dev/nvidia-caps-imex-channels/channel0");
  require_fabric_ready();
}

const Record& record_of(const AllocationHandle& referent) { return ledger().record[referent.record]; }

CUmemAllocationProp properties_of(const AllocationHandle& referent) {
  const Record& record = record_of(referent);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = static_cast<CUmemLocationType>(record.location);
  properties.location.id = record.location == CU_MEM_LOCATION_TYPE_DEVICE ? device_of(record.gpu) : 0;
  properties.allocFlags.compressionType = record.compression;
  if (referent.imported) return properties;  // the rest is known to the process that made the memory
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(record.handle_types);
  properties.allocFlags.gpuDirectRDMACapable = record.rdma;
  properties.allocFlags.usage = record.usage;
  return properties;
}

std::shared_ptr<AllocationHandle> named(Handle handle) {
  const auto found = process().handles.find(handle);
  if (found == process().handles.end())
    refuse(hexadecimal(handle) + " is not a handle of this process, or it was released");
  return found->second;
}

void refuse_for_lack(int owner, uint64_t wanted) {
  refuse(CUDA_ERROR_OUT_OF_MEMORY, owner_name(owner) + " has " + size_text(ledger().gpu[owner].free * page_size) +
                                       " left for all processes, and " + size_text(wanted) + " are wanted");
}

uint32_t take_memory(int owner, uint64_t size) {
  const LedgerLock locked;
  const uint32_t number = new_record(Record::physical, "an allocation");
  if (take_frames(ledger().record[number], owner, size)) {
    acquire_record(number);
    return number;
  }
  drop_record(number);
  refuse_for_lack(owner, size);
}

std::shared_ptr<AllocationHandle> add_handle(uint32_t record, bool imported) {
  LedgerLock locked;
  const auto added = std::make_shared<AllocationHandle>(AllocationHandle{new_key(), record, imported, maker()});
  process().handles[added->handle] = added;
  return added;
}

void forget_if_unused(const std::shared_ptr<AllocationHandle>& referent) {
  if (referent->references || referent->mappings) return;
  process().handles.erase(referent->handle);
  release_record(referent->record);
}

size_t granularity(const CUmemAllocationProp&, CUmemAllocationGranularity_flags option) {
  const auto guard = lock_process();
  if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    refuse("option must be CU_MEM_ALLOC_GRANULARITY_MINIMUM or _RECOMMENDED, 0 or 1");
  if (!machine().vmm) refuse(CUDA_ERROR_NOT_SUPPORTED, no_vmm);
  return machine().granularity;  // whatever the properties are
}

Handle create(size_t size, const CUmemAllocationProp& properties, unsigned long long flags) {
  const auto guard = lock_process();
  require_no_flags(flags);
  if (size == 0 || size % machine().granularity)
    refuse("size is " + size_text(size) + ": round it up to the granularity, " + size_text(machine().granularity));
  if (!machine().vmm) refuse(CUDA_ERROR_NOT_SUPPORTED, no_vmm);
  const int owner = owner_asked_for(properties);
  if (properties.allocFlags.gpuDirectRDMACapable && !machine().rdma)
    refuse(CUDA_ERROR_INVALID_DEVICE,
           "prop: allocFlags.gpuDirectRDMACapable is set, and the GPU has no GPUDirect RDMA: ask for "
           "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED first");
  const uint32_t number = take_memory(owner, size);
  {
    const LedgerLock locked;
    Record* const record = &ledger().record[number];
    const auto& flags = properties.allocFlags;
    record->handle_types = properties.requestedHandleTypes & known_types;
    record->usage = flags.usage;
    record->rdma = flags.gpuDirectRDMACapable != 0;
    const bool is_compressed = machine().compression && !record->rdma && flags.compressionType;
    record->compression = is_compressed ? CU_MEM_ALLOCATION_COMP_GENERIC : CU_MEM_ALLOCATION_COMP_NONE;
    const bool on_gpu = of_whole_gpu(properties.location).type == CU_MEM_LOCATION_TYPE_DEVICE;
    record->location = on_gpu ? CU_MEM_LOCATION_TYPE_DEVICE : CU_MEM_LOCATION_TYPE_HOST_NUMA;
  }
  const auto referent = add_handle(number, false);
  trace_allocation("create", *referent);
  return referent->handle;
}

void release(Handle handle) {
  const auto guard = lock_process();
  const auto referent = named(handle);
  if (!referent->references) refuse("all references of the handle are released: its memory lives until it is unmapped");
  --referent->references;
  forget_if_unused(referent);
  change("release", {{"handle", hexadecimal(handle)}});
}

CUmemAllocationProp properties(Handle handle) {
  const auto guard = lock_process();
  const auto referent = named(handle);
  const Record& record = record_of(*referent);
  if (record.kind == Record::multicast) refuse("the handle is a multicast object's, not memory's");
  CUmemAllocationProp properties = properties_of(*referent);
  properties.allocFlags.usage = 0;  // the driver does not tell
  return properties;
}

Handle retain(uint64_t address) {
  const auto guard = lock_process();
  const Mapping* const mapping = mapping_at(address);
  if (!mapping || !mapping->referent) refuse("no memory of cuMemCreate is mapped at " + hexadecimal(address));
  if (!is_reserved(address))
    refuse(hexadecimal(address) +
           " is in a mapping, but past the end of the reservation that it begins in: ask with its first address");
  ++mapping->referent->references;
  change("retain", {{"handle", hexadecimal(mapping->referent->handle)}});
  return mapping->referent->handle;
}

// --- Sharing --------------------------------------------------------------------------------------------------------
static std::shared_ptr<AllocationHandle> exportable(Handle handle, unsigned type, const char* type_name,
                                                    unsigned long long flags) REQUIRES(process_lock) {
  require_no_flags(flags);
  const auto referent = named(handle);
  if (referent->imported) refuse("the handle is an import: only the process that made the memory can export it");
  if (!(record_of(*referent).handle_types & type))
    refuse(std::string("the handle was made without ") + type_name +
           ": cuMemCreate needs it in prop's requestedHandleTypes");
  return referent;
}

int export_fd(Handle handle, unsigned long long flags) {
  const auto guard = lock_process();
  const auto referent =
      exportable(handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR", flags);
  const int fd = export_record(referent->record);
  process().exported[fd] = maker();
  change("export", {{"handle", hexadecimal(handle)},
                    {"fd", fd},
                    {"identity", hexadecimal(record_of(*referent).key)},
                    {"followed", true}});
  return fd;
}

CUmemFabricHandle export_fabric(Handle handle, unsigned long long flags) {
  const auto guard = lock_process();
  const auto referent = exportable(handle, CU_MEM_HANDLE_TYPE_FABRIC, "CU_MEM_HANDLE_TYPE_FABRIC", flags);
  ledger().record[referent->record].on_fabric = true;
  const FabricHandle contents = {fabric_magic, ledger().token, record_of(*referent).key, referent->record};
  change("export", {{"handle", hexadecimal(handle)}, {"fabric", true}, {"identity", hexadecimal(contents.key)}});
  return fabric_handle(contents);
}

Handle import_fd(intptr_t number) {
  wait_for_maker(record_of_descriptor(static_cast<int>(number)));
  const auto guard = lock_process();
  if (number == 0) refuse("osHandle is null: descriptor 0 cannot be imported, make another of it (dup)");
  const int fd = static_cast<int>(number);  // the driver, too, looks at 32 bits
  const uint32_t record = exported_record(fd);
  if (record == invalid_index && number != fd)
    refuse(CUDA_ERROR_UNKNOWN,
           "osHandle is no number of a descriptor, but rather an address: pass the descriptor "
           "itself, as in (void*)(intptr_t)fd, and not &fd");
  if (record != invalid_index && ledger().record[record].kind == Record::pool)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "descriptor " + std::to_string(fd) +
                                         " is of a memory pool: import it with cuMemPoolImportFromShareableHandle");
  if (record == invalid_index || ledger().record[record].node != node())
    refuse(CUDA_ERROR_UNKNOWN,
           "descriptor " + std::to_string(fd) + " is not one that cuMemExportToShareableHandle gave" +
               (record == invalid_index
                    ? ": was it closed, or is it the number of another process's, which has to be sent "
                      "with SCM_RIGHTS?"
                    : " on this node"));
  acquire_record(record);  // the descriptor holds it, so it is still there
  return import(record);
}

Handle import_fabric(const CUmemFabricHandle& handle) {
  if (!machine().fabric_handles || !machine().fabric_channel)
    refuse(CUDA_ERROR_NOT_SUPPORTED, "this process sees no IMEX channel, or its GPUs have no fabric handles");
  const auto contents = bytes_as<FabricHandle>(handle);
  const CUmemFabricHandle expected = fabric_handle(contents);
  if (contents.magic != fabric_magic || contents.token != ledger().token || contents.record >= max_records ||
      std::memcmp(&handle, &expected, sizeof expected) != 0)
    refuse("these 64 bytes are not a fabric handle of this machine: have all of them arrived, and in their order?");
  wait_for_maker(contents.record);
  const auto guard = lock_process();
  {
    LedgerLock locked;
    const Record& record = ledger().record[contents.record];
    if (record.kind == Record::unused || record.key != contents.key || !(is_held(contents.record) || record.bindings))
      refuse(
          "the memory of this fabric handle is gone: its last holder let it go. The handle itself holds nothing: "
          "release the memory (cuMemRelease) after the import");
    acquire_record(contents.record);
  }
  return import(contents.record);
}

}  // namespace memory
