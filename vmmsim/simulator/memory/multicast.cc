// SPDX-License-Identifier: MIT-0
// Multicast objects. An object is not memory: it has offsets, and for each GPU of its team the memory that is bound
// there. A page of addresses that it is mapped at therefore stands for one frame on each GPU. The team and the bindings
// are in the ledger, for they may come from several processes.
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>
#include <filesystem>
#include <utility>
#include "../lasting.h"
#include "../terminal.h"
#include "process.h"

namespace memory {
namespace {

constexpr size_t recommended = 512 << 20;
size_t minimum() { return machine().multicast_granularity; }

bool has(const Record& object, int gpu) { return object.team[gpu / 64] >> gpu % 64 & 1; }
size_t gpus() { return size_t(machine().gpus) * size_t(machine().nodes); }

// --- The pages of this process ---------------------------------------------------------------------------------------
// A table has an entry for each page of a mapped object: how many GPUs are in the team, the object, and for each of the
// GPUs, in the order of the machine, the frame that it has bound there or null. Its addresses are taken at once, and
// its memory as needed.
constexpr uint64_t max_pages = 1 << 20;
struct PageEntry {
  std::atomic<uint64_t> team;
  std::atomic<const Record*> object;
  std::atomic<char*> frames[];
};
struct Pages {
  uint64_t count;
  uint32_t object;
};
#ifdef __SANITIZE_THREAD__  // ThreadSanitizer has a thread of its own
constexpr unsigned foreign_threads = 1;
#else
constexpr unsigned foreign_threads = 0;
#endif
struct OfProcess {
  std::atomic<uint64_t> seen = ~uint64_t(0);                  // Ledger::bound when the entries were filled in
  std::atomic<unsigned> helpers = foreign_threads;            // threads that make no calls
  std::map<uint64_t, Pages> ranges GUARDED_BY(process_lock);  // by the number of the first page
  unsigned waiting GUARDED_BY(process_lock) = 0;              // threads that wait for a team
};
OfProcess& of_process() { return lasting<OfProcess>(); }

PageEntry* page_entry(uint64_t page) {
  static const size_t width = sizeof(PageEntry) + gpus() * sizeof(char*);
  static char* const table = [] {
    void* const room =
        mmap(nullptr, max_pages * width, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room == MAP_FAILED ? nullptr : static_cast<char*>(room);
  }();
  return table ? reinterpret_cast<PageEntry*>(table + page * width) : nullptr;
}

// Other threads may be reading the entry: what stays the same is not written.
template <class T> void put(std::atomic<T>& at, T value) {
  if (at.load(std::memory_order_relaxed) != value) at.store(value, std::memory_order_relaxed);
}

void fill_in(uint64_t first, const Pages& pages) REQUIRES(process_lock) {
  const Record* const records = ledger().record;
  const Record& object = records[pages.object];
  std::vector<char*> bound(pages.count);
  size_t place = 0;
  for (int gpu = 0; gpu < int(gpus()); ++gpu) {
    if (!has(object, gpu)) continue;
    std::fill(bound.begin(), bound.end(), nullptr);
    for (uint32_t b = object.next; b != invalid_index; b = records[b].next) {
      const Record& binding = records[b];
      if (binding.gpu != gpu) continue;
      uint64_t at = 0, to = binding.offset / page_size;
      for_each_frame(records[binding.memory], [&](char* bytes) {
        const bool is_bound = at >= binding.memory_offset && at < binding.memory_offset + binding.size;
        if (is_bound && to < bound.size()) bound[to] = bytes;  // a part of the object may be mapped
        to += is_bound;
        at += page_size;
      });
    }
    for (uint64_t page = 0; page < pages.count; ++page) put(page_entry(first + page)->frames[place], bound[page]);
    ++place;
  }
  for (uint64_t page = 0; page < pages.count; ++page) {
    put(page_entry(first + page)->object, &object);
    put(page_entry(first + page)->team, uint64_t(place));
  }
}

// --- Teams -----------------------------------------------------------------------------------------------------------

// Whether all who could add a device wait for one. Another process or a descriptor on its way to one could.
bool is_hopeless(uint32_t object) REQUIRES(process_lock) {
  if (ledger().record[object].on_fabric || is_held(object, true)) return false;
  const auto threads = std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  return std::cmp_less_equal(threads, of_process().helpers + of_process().waiting);
}

const Record& object_named(Handle handle) REQUIRES(process_lock) {
  const Record& object = record_of(*named(handle));
  if (object.kind != Record::multicast) refuse("the handle is memory's, not a multicast object's");
  return object;
}
uint32_t number_of(const Record& record) { return static_cast<uint32_t>(&record - ledger().record); }

int clique_of_gpu(int gpu) { return gpu % machine().gpus * machine().cliques / machine().gpus; }

void require_properties(const CUmulticastObjectProp& properties) {
  if (!machine().multicast)
    refuse(CUDA_ERROR_NOT_SUPPORTED,
           "this GPU has no multicast: ask for CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED first");
  require_fabric_ready();
  if (properties.flags) refuse("prop: flags must be 0");
  if (properties.numDevices < 2)
    refuse("prop: numDevices is " + std::to_string(properties.numDevices) + ": a team has two GPUs at least");
  if (properties.numDevices > gpus())
    refuse("prop: numDevices is " + std::to_string(properties.numDevices) + ": there are " + std::to_string(gpus()) +
           " GPUs");
  require_handle_types(static_cast<unsigned>(properties.handleTypes));
}

void require_range(const char* kind, uint64_t offset, uint64_t size, uint64_t full_size) {
  if (offset % minimum() || size % minimum() || size == 0)
    refuse("offsets and sizes are multiples of the granularity, " + size_text(minimum()) + ", and the size is not 0");
  if (offset > full_size || size > full_size - offset)
    refuse(std::string("offset and size go past the end of the ") + kind + ", " + size_text(full_size));
}

// Binds memory once the team is complete. What `find` returns may have gone in the meantime, so it is found again.
struct Memory {
  uint32_t record;
  uint64_t offset, end;       // in the record: where to begin, and where the memory ends
  std::vector<Member> named;  // for --trace
};
Memory memory_of(const AllocationHandle& referent, uint64_t offset) {
  return {referent.record,
          offset,
          record_of(referent).size,
          {{"memory", hexadecimal(referent.handle)}, {"memory_offset", offset}}};
}
// The GPU of the team that memory is bound for.
int gpu_to_bind(const Record& object, const Record& memory, TeamGpu named) {
  const int gpu = named ? gpu_of(*named) : memory.gpu;
  if (gpu >= static_cast<int>(gpus()) || !has(object, gpu))
    refuse(CUDA_ERROR_INVALID_DEVICE, named ? "GPU " + std::to_string(*named) + " is not of the team"
                                            : "the memory is on " + owner_name(gpu) + ", which is not of the team");
  const bool is_on_host = memory.gpu >= static_cast<int>(gpus());
  if (gpu != memory.gpu && !(is_on_host && memory.location == CU_MEM_LOCATION_TYPE_HOST_NUMA))
    refuse(CUDA_ERROR_INVALID_DEVICE, "the memory is on " + owner_name(memory.gpu) + ": bind memory of GPU " +
                                          std::to_string(*named) + ", or of its NUMA node");
  return gpu;
}

// A switch has room for so many objects that have memory bound. What it answers to one more was never seen.
void require_slot(const Record& object) {
  const int slots = machine().multicast_slots;
  if (!slots || object.next != invalid_index) return;
  const std::span<const Record> records(ledger().record, max_records);
  const auto taken = std::ranges::count_if(
      records, [](const Record& record) { return record.kind == Record::multicast && record.next != invalid_index; });
  if (taken >= slots)
    refuse(machine().driver >= 13040 ? multicast_resource_full : CUDA_ERROR_OUT_OF_MEMORY,
           "the switch has room for " + std::to_string(slots) +
               " multicast objects: unbind the memory of another, or make one larger object of several");
}

template <class Find>
void bind(Handle handle, TeamGpu named_gpu, uint64_t offset, uint64_t size, unsigned long long flags, Find find) {
  const auto guard = lock_process();
  auto checked_memory = [&]() REQUIRES(process_lock) {
    require_no_flags(flags);
    const Record& object = object_named(handle);
    Memory found = find();
    const Record& memory = ledger().record[found.record];
    if (memory.kind != Record::physical) refuse("a multicast object cannot be bound to another");
    require_range("multicast object", offset, size, object.size);
    require_range("memory", found.offset, size, found.end);
    if (object.handle_types && !memory.handle_types)
      refuse("the object can be shared, so the memory must have been made with a handle type too");
    return found;
  };
  checked_memory();
  wait_for_team(named(handle)->record);
  const Memory found = checked_memory();
  const uint32_t object = named(handle)->record, memory = found.record;
  const int gpu = gpu_to_bind(ledger().record[object], ledger().record[memory], named_gpu);
  {
    LedgerLock locked;
    Record* const records = ledger().record;
    require_slot(records[object]);
    for (uint32_t b = records[object].next; b != invalid_index; b = records[b].next)
      if (records[b].gpu == gpu && offset < records[b].offset + records[b].size && records[b].offset < offset + size)
        refuse("memory of " + owner_name(gpu) + " is bound there already, from offset " + size_text(records[b].offset) +
               " on, " + size_text(records[b].size) + ": unbind it first");
    const uint32_t number = new_record(Record::binding, "a binding");
    Record& binding = records[number];
    binding.gpu = gpu;
    binding.object = object;
    binding.memory = memory;
    binding.offset = offset;
    binding.memory_offset = found.offset;
    binding.size = size;
    binding.next = records[object].next;
    binding.kind = Record::binding;
    records[object].next = number;
    ++records[memory].bindings;
    ++ledger().bound;
  }
  std::vector<Member> members = {
      {"handle", hexadecimal(handle)}, {"offset", offset}, {"size", size}, {"device", device_of(gpu)}};
  members.insert(members.end(), found.named.begin(), found.named.end());
  change("bind", members);
}

}  // namespace

uint64_t take_multicast_pages(uint32_t object, uint64_t pages) {
  uint64_t first = 0;
  for (const auto& [begin, range] : of_process().ranges) {
    if (begin - first >= pages) break;
    first = begin + range.count;
  }
  if (first + pages > max_pages || !page_entry(first))
    refuse(CUDA_ERROR_OUT_OF_MEMORY,
           "a process maps " + size_text(max_pages * page_size) + " of multicast objects at most");
  for (int gpu = 0; gpu < int(gpus()); ++gpu)  // so that replicas() never lacks one
    if (has(ledger().record[object], gpu)) gpu_memory(gpu);
  if (machine().driver >= 13010) gpu_memory(host_of_node());
  of_process().ranges[first] = {pages, object};
  of_process().seen = ~uint64_t(0);
  return first;
}

void give_back_multicast_pages(uint64_t first) { of_process().ranges.erase(first); }

Replicas replicas(uint64_t entry) {
  if (of_process().seen.load(std::memory_order_acquire) != ledger().bound.load(std::memory_order_acquire)) {
    const MutexLock guard(process_lock);
    const LedgerLock locked;
    for (const auto& [first, pages] : of_process().ranges) fill_in(first, pages);
    of_process().seen.store(ledger().bound, std::memory_order_release);
  }
  const PageEntry* const found = page_entry(entry / page_size);
  return {found->frames, found->team};
}

char* own_replica(uint64_t entry, CUdevice device) {
  const Replicas frames = replicas(entry);
  const Record& object = *page_entry(entry / page_size)->object.load(std::memory_order_relaxed);
  size_t place = 0;
  for (int gpu = 0; gpu < gpu_of(device); ++gpu) place += has(object, gpu);
  return place < frames.size() ? frames[place].load(std::memory_order_relaxed) : nullptr;
}

void log_ordinary_access(const std::string& who) {
  static std::atomic<bool> is_told = false;
  if (is_told.exchange(true) && !options().explain) return;
  const std::string line = "vmmsim: " + who +
                           " goes to a multicast address without a multimem instruction, which the PTX manual calls "
                           "for; all else is undefined. Here a write reaches every replica, and a read gives the GPU's "
                           "own; with --strict either is a fault\n";
  log_wrapped(line);
}

void this_thread_makes_no_calls() { ++of_process().helpers; }

// It is said once. An alarm that would end the wait on hardware rings at once; else the wait goes on, as there, unless
// the program is to end where it cannot go on.
static void log_hopeless_wait(const Record& object, unsigned missing) REQUIRES(process_lock) {
  log_line(
      "%s waits for ever: the multicast object's team lacks %u of %u GPUs, and nobody is left to "
      "add one with cuMulticastAddDevice",
      caller().call.c_str(), missing, object.devices);
  process_lock.unlock();
  if (alarm(0)) raise(SIGALRM);
  if (options().unsupported_ends) _exit(125);
  process_lock.lock();
}

void wait_for_team(uint32_t object) {
  const Record& record = ledger().record[object];
  acquire_record(object);
  ++of_process().waiting;
  for (bool is_told = false;;) {
    const uint32_t joined = ledger().joined;  // before looking: who joins after this ends the wait
    uint32_t missing;
    {
      const LedgerLock locked;
      missing = record.devices - record.added;
    }
    if (!missing) break;
    if (!is_told && is_hopeless(object)) {
      is_told = true;
      log_hopeless_wait(record, missing);
      continue;  // the process was unlocked
    }
    process_lock.unlock();
    const timespec look_again = {0, 200'000'000};  // somebody who could have added a device may have died
    syscall(SYS_futex, &ledger().joined, FUTEX_WAIT, joined, &look_again, nullptr, 0);
    process_lock.lock();
  }
  --of_process().waiting;
  release_record(object);
}

size_t multicast_granularity(const CUmulticastObjectProp& properties, CUmulticastGranularity_flags option) {
  const auto guard = lock_process();
  if (option != CU_MULTICAST_GRANULARITY_MINIMUM && option != CU_MULTICAST_GRANULARITY_RECOMMENDED)
    refuse("option must be CU_MULTICAST_GRANULARITY_MINIMUM or _RECOMMENDED, 0 or 1");
  require_properties(properties);
  return option == CU_MULTICAST_GRANULARITY_MINIMUM ? minimum() : std::max(minimum(), recommended);
}

Handle multicast_create(const CUmulticastObjectProp& properties) {
  const auto guard = lock_process();
  require_properties(properties);
  if (properties.size == 0) refuse("prop: size is 0");
  if (properties.size % minimum())
    refuse("prop: size is " + size_text(properties.size) + ": round it up to the granularity, " + size_text(minimum()));
  uint32_t number;
  {
    const LedgerLock locked;
    number = new_record(Record::multicast, "a multicast object");
    Record& object = ledger().record[number];
    object.size = properties.size;
    object.devices = properties.numDevices;
    object.handle_types = static_cast<uint32_t>(properties.handleTypes);
    acquire_record(number);
  }
  const Handle handle = add_handle(number, false)->handle;
  change("multicast_create", {{"handle", hexadecimal(handle)},
                              {"size", properties.size},
                              {"devices", properties.numDevices},
                              {"record", number}});
  return handle;
}

void multicast_add_device(Handle handle, CUdevice device) {
  const auto guard = lock_process();
  const int gpu = gpu_of(device);
  Record& object = ledger().record[number_of(object_named(handle))];
  {
    const LedgerLock locked;
    if (has(object, gpu)) refuse("GPU " + std::to_string(device) + " is of the team already");
    if (object.added == object.devices)
      refuse("the team is complete: " + std::to_string(object.devices) + " GPUs, as it was created");
    for (int member = 0; member < int(gpus()); ++member)
      if (has(object, member) && clique_of_gpu(member) != clique_of_gpu(gpu))
        refuse(CUDA_ERROR_INVALID_DEVICE, "GPU " + std::to_string(device) + " is of another clique than " +
                                              owner_name(member) +
                                              ": ask cuDeviceGetCliqueInfo who can be in one team");
    object.team[gpu / 64] |= uint64_t(1) << gpu % 64;
    ++object.added;
  }
  ++ledger().joined;
  syscall(SYS_futex, &ledger().joined, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  change("add_device", {{"handle", hexadecimal(handle)}, {"device", device}});
}

int clique_of(CUdevice device) {
  const auto guard = lock_process();
  return clique_of_gpu(gpu_of(device));
}

void multicast_bind(Handle handle, TeamGpu gpu, size_t offset, Handle memory, size_t memory_offset, size_t size,
                    unsigned long long flags) {
  bind(handle, gpu, offset, size, flags,
       [&]() REQUIRES(process_lock) { return memory_of(*named(memory), memory_offset); });
}

void multicast_bind_address(Handle handle, TeamGpu gpu, size_t offset, uint64_t address, size_t size,
                            unsigned long long flags) {
  bind(handle, gpu, offset, size, flags, [&]() REQUIRES(process_lock) {
    const Mapping* const mapping = mapping_at(address);
    if (mapping && mapping->kind == Range::vmm) return memory_of(*mapping->referent, address - mapping->base);
    const auto found = allocation_with(address);
    const bool is_own =
        mapping && mapping->kind == Range::ordinary && found != process().allocations.end() && !found->second.opened;
    if (!is_own)
      refuse("no memory of cuMemCreate is mapped at " + hexadecimal(address) + ", nor is it of cuMemAlloc here");
    return Memory{mapping->record,
                  address - mapping->base,
                  found->first + found->second.size - mapping->base,
                  {{"address", hexadecimal(address)}}};
  });
}

// The bindings within the range; none if it cuts a binding.
static std::vector<uint32_t> bound_within(const Record& object, int gpu, size_t offset, size_t size) {
  const Record* const records = ledger().record;
  std::vector<uint32_t> found;
  for (uint32_t b = object.next; b != invalid_index; b = records[b].next) {
    if (records[b].gpu != gpu || records[b].offset >= offset + size || records[b].offset + records[b].size <= offset)
      continue;
    if (records[b].offset < offset || records[b].offset + records[b].size > offset + size) return {};
    found.push_back(b);
  }
  return found;
}

void multicast_unbind(Handle handle, CUdevice device, size_t offset, size_t size) {
  const auto guard = lock_process();
  const int gpu = gpu_of(device);
  const Record& object = object_named(handle);
  require_range("multicast object", offset, size, object.size);
  std::vector<std::pair<size_t, size_t>> unbound;
  {
    const LedgerLock locked;
    for (const uint32_t b : bound_within(object, gpu, offset, size)) {
      unbound.emplace_back(ledger().record[b].offset, ledger().record[b].size);
      remove_binding(b);
    }
  }
  if (unbound.empty())
    refuse("no memory of GPU " + std::to_string(device) +
           " was bound with this offset and this size, and none lies whole within them");
  if (options().explain && unbound != std::vector{std::pair(offset, size)})
    log_wrapped("vmmsim: " + caller().call + " names " + size_text(size) + " of the multicast object, from offset " +
                hexadecimal(offset) + " on, where " + std::to_string(unbound.size()) +
                " smaller binds are; the header wants offset and size of one bind, and calls all else undefined. Here "
                "all that lie within are undone\n");
  for (const auto& [at, bytes] : unbound)
    change("unbind", {{"handle", hexadecimal(handle)}, {"offset", at}, {"size", bytes}, {"device", device}});
}

}  // namespace memory
