// SPDX-License-Identifier: MIT-0
// Virtual addresses: which of them the process keeps for CUDA. The kernel is told by a mapping without rights, so that
// no address of a GPU is one of the host, and the host faults there.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include "process.h"

namespace memory {
namespace {

// Where the driver looks first, and the unit in which it takes addresses from the kernel.
constexpr uint64_t first_address = 0x302000000, unit = 32 << 20;
// Without a hint none is taken from here on as long as there is room before it: there are programs and libraries.
constexpr uint64_t end_of_usual = 0x500000000000, end_of_addresses = uint64_t(1) << address_bits;
// What a context leaves of the addresses that it takes for itself, as on an H200: 24 of 32 MiB, above most others.
#ifdef __SANITIZE_THREAD__
constexpr uint64_t of_context = 0x7e8000000000;  // ThreadSanitizer lets nothing be mapped right below
#else                                            // 2^45 bytes find room between programs and it
constexpr uint64_t of_context = 0x770000000000;
#endif
constexpr uint64_t used_by_context = 8 << 20;
constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

bool take(uint64_t address, uint64_t size) REQUIRES(process_lock) {
  void* const wanted = reinterpret_cast<void*>(address);
  void* const got = mmap(wanted, size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == MAP_FAILED) return false;
  if (got != wanted) {  // an old kernel
    munmap(got, size);
    return false;
  }
  process().areas[address] = address + size;
  return true;
}

// Where the first room for a range is from an address on and before another, as far as this process and then its kernel
// know; 0: nowhere.
uint64_t find_room(uint64_t from, uint64_t end, uint64_t size, uint64_t alignment, bool ask_kernel)
    REQUIRES(process_lock) {
  std::map<uint64_t, uint64_t> taken = process().areas;
  if (FILE* const maps = ask_kernel ? std::fopen("/proc/self/maps", "re") : nullptr) {
    unsigned long long begin, behind;
    while (std::fscanf(maps, "%llx-%llx%*[^\n]", &begin, &behind) == 2)
      taken[begin] = std::max<uint64_t>(taken[begin], behind);
    std::fclose(maps);
  }
  uint64_t address = round_up(from ? from : first_address, alignment);
  for (const auto& [begin, behind] : taken) {
    if (behind <= address) continue;
    if (begin > address && begin - address >= size) break;
    address = round_up(behind, alignment);
  }
  return address + size <= end ? address : 0;
}

// The first addresses of a region from one on where nothing is reserved; 0: there are not so many.
uint64_t room_in(const Region& region, uint64_t from, uint64_t size, uint64_t alignment) REQUIRES(process_lock) {
  const auto& reservations = process().reservations;
  uint64_t address = round_up(std::max(region.begin, from), alignment);
  auto next = find_containing(reservations, address);
  if (next == reservations.end()) next = reservations.upper_bound(address);
  for (; next != reservations.end() && next->first < address + size; ++next)
    address = std::max(address, round_up(next->first + next->second.size, alignment));
  return address + size <= region.end ? address : 0;
}

// Where the driver puts a reservation: into the newest of its regions that has room at the hint or above, and else into
// a new one of whole units, at the hint or above. 0: nowhere.
uint64_t place(uint64_t hint, uint64_t size, uint64_t alignment) REQUIRES(process_lock) {
  auto& regions = process().regions;
  for (auto region = regions.rbegin(); region != regions.rend(); ++region)
    if (const uint64_t address = room_in(*region, hint, size, alignment)) return address;
  const uint64_t taken = round_up(size, unit);
  struct Search {
    uint64_t end;
    bool ask_kernel;
  };
  for (const auto [end, ask_kernel] : {Search{hint ? end_of_addresses : end_of_usual, false},
                                       {hint ? end_of_addresses : end_of_usual, true},
                                       {end_of_addresses, true}}) {
    const uint64_t address = find_room(hint, end, taken, std::max(alignment, unit), ask_kernel);
    if (!address || !take(address, taken)) continue;
    regions.push_back({address, address + taken, false});
    return address;
  }
  return 0;
}

// The kernel has a region back when nothing is reserved in it any more.
void give_back_unused(uint64_t address) REQUIRES(process_lock) {
  const Process& p = process();
  const auto region = std::find_if(p.regions.begin(), p.regions.end(), [&](const Region& candidate) {
    return address >= candidate.begin && address < candidate.end;
  });
  const auto next = p.reservations.lower_bound(region->begin);
  if (region->is_of_context || (next != p.reservations.end() && next->first < region->end)) return;
  give_back_addresses(region->begin);
  process().regions.erase(region);
}

}  // namespace

uint64_t take_addresses(uint64_t size, bool with_host_memory) {
  // Wherever the kernel likes, which is not where reservations are.
  char* room = static_cast<char*>(mmap(nullptr, size + page_size, PROT_NONE, flags, -1, 0));
  if (room == MAP_FAILED) refuse(CUDA_ERROR_OUT_OF_MEMORY, "no addresses are left for " + size_text(size));
  const uint64_t address = round_up(reinterpret_cast<uint64_t>(room), page_size);
  char* const begin = reinterpret_cast<char*>(address);
  if (begin > room) munmap(room, static_cast<size_t>(begin - room));
  if (begin < room + page_size) munmap(begin + size, static_cast<size_t>(room + page_size - begin));
  if (with_host_memory && mmap(begin, size, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
    munmap(begin, size);
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "the host has no " + size_text(size) + " left");
  }
  process().areas[address] = address + size;
  return address;
}

void give_back_addresses(uint64_t address) {
  const auto area = process().areas.find(address);
  munmap(reinterpret_cast<void*>(area->first), area->second - area->first);
  process().areas.erase(area);
}

void take_from_host(uint64_t address, uint64_t size) {
  // Where a process has no mapping to spare, the host goes on to see what was there.
  static_cast<void>(mmap(reinterpret_cast<void*>(address), size, PROT_NONE, flags | MAP_FIXED, -1, 0));
}

void take_addresses_of_context(CUdevice device) {
  const auto guard = lock_process();
  try {
    gpu_memory(gpu_of(device));
  } catch (const Refused&) {  // it is refused again where the memory is needed
  }
  auto& regions = process().regions;
  if (!regions.empty() && regions.front().is_of_context) return;
  if (take(of_context, unit)) regions.insert(regions.begin(), {of_context + used_by_context, of_context + unit, true});
}

bool is_of_host(uint64_t address, uint64_t size) {
  const auto area = find_containing(process().areas, address);
  if (area != process().areas.end() && address < area->second) return false;
  const uint64_t page = address & ~uint64_t(sysconf(_SC_PAGESIZE) - 1);
  return msync(reinterpret_cast<void*>(page), address + size - page, MS_ASYNC) == 0;  // not where nothing is mapped
}

// The host may have memory there, too: on some machines programs are where reservations begin.
bool are_ours(uint64_t address) {
  const auto area = find_containing(process().areas, address);
  return (area != process().areas.end() && address < area->second) ||
         (address >= first_address && address < end_of_usual && !is_of_host(address, 1));
}

uint64_t reserve(size_t size, size_t alignment, uint64_t hint, unsigned long long reserved_flags) {
  const auto guard = lock_process();
  require_no_flags(reserved_flags);
  if (size == 0 || size % page_size) refuse("size is " + size_text(size) + ": make it a multiple of 2 MiB, and not 0");
  if (alignment & (alignment - 1) || alignment >> 48)
    refuse("alignment is " + size_text(alignment) + ": make it a power of two, or 0");
  if (hint % page_size || (alignment && hint % alignment))
    refuse("addr, the address wished for, must be a multiple of 2 MiB and of alignment, or 0");
  if (machine().largest_reservation && size > machine().largest_reservation)
    refuse(CUDA_ERROR_OUT_OF_MEMORY,
           "this system gives " + size_text(machine().largest_reservation) + " of addresses at once at most");
  constexpr uint64_t limit = end_of_addresses;
  if (size >= limit || hint >= limit || hint + size > limit || alignment >= limit / 2)
    refuse(CUDA_ERROR_OUT_OF_MEMORY, "a process has 128 TiB of addresses: size, addr or alignment asks for more");

  alignment = std::max<uint64_t>(alignment, machine().granularity);
  const uint64_t address = place(hint, size, alignment);
  if (!address)
    refuse(CUDA_ERROR_OUT_OF_MEMORY,
           "no " + size_text(size) + " of neighbouring addresses are left" + (hint ? " at addr or above it" : ""));
  std::erase_if(process().gone, [&](const FreedRange& freed) {
    return freed.base < address + size && address < freed.base + freed.size;
  });
  process().reservations[address] = {size, maker()};
  change("reserve", {{"address", hexadecimal(address)}, {"size", size}});
  return address;
}

void free_reservation(uint64_t address, size_t size) {
  const auto guard = lock_process();
  Process& p = process();
  const auto found = find_holding(p.reservations, address);
  if (found == p.reservations.end()) refuse(nothing_reserved_at(address) + ", or it was freed");
  if (found->first != address || found->second.size != size)
    refuse("the reservation there has " + size_text(found->second.size) + " from " + hexadecimal(found->first) +
           " on: free all of it, as it was reserved");
  const auto last = find_containing(p.mappings, address + size - 1);
  if (last != p.mappings.end() && last->first + last->second.size > address)
    refuse("memory is mapped there, for instance at " + hexadecimal(last->first) + ": unmap it first (cuMemUnmap)");
  p.reservations.erase(found);
  record_freed(address, size, "given back");
  give_back_unused(address);
  change("free_reservation", {{"address", hexadecimal(address)}, {"size", size}});
}

}  // namespace memory
