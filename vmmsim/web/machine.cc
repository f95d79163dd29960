// SPDX-License-Identifier: MIT-0
// The memory of the simulated machine for a page, and the calls of virtual memory management: one after the other, each
// a line, each answered in JSON with all that there is after it.
#include "../simulator/memory/ledger.h"
#include "../simulator/memory/page_table.h"
#include "../simulator/memory/process.h"
#include "../simulator/memory/records.h"
#include "../simulator/memory/this_machine.h"
#include "../trace/json.h"

void* map_file(void* wished, uint64_t size, int file) {
  static void* const ledger = file == only_file ? std::calloc(1, size) : nullptr;  // the first that is mapped
  if (file == only_file && !ledger) return MAP_FAILED;
  if (file == only_file) return ledger;
  return wished ? wished : reinterpret_cast<void*>(memory::page_size);
}
long read_file(void* to, uint64_t size) {
  std::memcpy(to, map_file(nullptr, 0, only_file), size);
  return long(size);
}
int set_unlocked(int, int command, ...) {
  if (command != F_OFD_GETLK) return 0;
  va_list more;
  va_start(more, command);
  va_arg(more, struct flock*)->l_type = F_UNLCK;  // nobody else has a lock
  va_end(more);
  return 0;
}

namespace {

using memory::Handle;
using Arguments = std::vector<uint64_t>;

constexpr uint64_t host = ~uint64_t(0);  // as a place; a GPU is its number

CUmemLocation location_of(uint64_t place) {
  if (place == host) return {CU_MEM_LOCATION_TYPE_HOST_NUMA, 0};
  return {CU_MEM_LOCATION_TYPE_DEVICE, int(place)};
}
CUmemAllocationProp properties_at(uint64_t place) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location_of(place);
  return properties;
}

bool is_faulted = false;

// What a kernel of a GPU does there.
void touch(uint64_t place, uint64_t address, uint64_t size, bool writing) {
  if (is_faulted) memory::refuse(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel has faulted before: nothing runs any more");
  const int gpu = int(place);
  memory::gpu_of(gpu);
  for (uint64_t at = address; at < address + size; at = (at / memory::page_size + 1) * memory::page_size) {
    if (memory::page_table(gpu).lookup(at) & (writing ? memory::writable : memory::readable)) continue;
    is_faulted = true;
    memory::refuse(CUDA_ERROR_ILLEGAL_ADDRESS, memory::what_lies_at(gpu, at, writing));
  }
}

// What a call answers with, if with anything.
using Answer = std::optional<uint64_t>;
struct Named {
  const char* name;
  unsigned arguments;
  Answer (*call)(const Arguments&);
};
constexpr Named calls[] = {
    {"cuMemAddressReserve", 4, [](const Arguments& a) -> Answer { return memory::reserve(a[0], a[1], a[2], a[3]); }},
    {"cuMemAddressFree", 2,
     [](const Arguments& a) -> Answer { return memory::free_reservation(a[0], a[1]), Answer(); }},
    {"cuMemCreate", 3,
     [](const Arguments& a) -> Answer { return uint64_t(memory::create(a[0], properties_at(a[1]), a[2])); }},
    {"cuMemRelease", 1, [](const Arguments& a) -> Answer { return memory::release(Handle(a[0])), Answer(); }},
    {"cuMemMap", 5,
     [](const Arguments& a) -> Answer { return memory::map(a[0], a[1], a[2], Handle(a[3]), a[4]), Answer(); }},
    {"cuMemUnmap", 2, [](const Arguments& a) -> Answer { return memory::unmap(a[0], a[1]), Answer(); }},
    {"cuMemSetAccess", 4,
     [](const Arguments& a) -> Answer {
       const CUmemAccessDesc descriptor = {location_of(a[2]), CUmemAccess_flags(a[3])};
       return memory::set_access(a[0], a[1], {&descriptor, 1}), Answer();
     }},
    {"cuMemGetAccess", 2, [](const Arguments& a) -> Answer { return memory::get_access(location_of(a[0]), a[1]); }},
    {"cuMemRetainAllocationHandle", 1, [](const Arguments& a) -> Answer { return uint64_t(memory::retain(a[0])); }},
    {"cuMemGetAllocationGranularity", 2,
     [](const Arguments& a) -> Answer {
       return memory::granularity(properties_at(a[0]), CUmemAllocationGranularity_flags(a[1]));
     }},
    {"read", 3, [](const Arguments& a) -> Answer { return touch(a[0], a[1], a[2], false), Answer(); }},
    {"write", 3, [](const Arguments& a) -> Answer { return touch(a[0], a[1], a[2], true), Answer(); }},
};

using trace::Json;
using trace::Member;

// All that there is: what is reserved, mapped, named by handles, and taken of whose memory.
std::vector<Member> everything() {
  const auto guard = memory::lock_process();
  const memory::Process& process = memory::process();
  std::vector<std::string> reservations, mappings, handles, memories;
  for (const auto& [address, each] : process.reservations)
    reservations.push_back(trace::object({{"address", address}, {"size", each.size}}));
  for (const auto& [address, each] : process.mappings) {
    std::vector<std::string> access;
    for (const unsigned char rights : each.access) access.push_back(std::to_string(rights));
    mappings.push_back(trace::object({{"address", address},
                                      {"size", each.size},
                                      {"memory", each.record},
                                      {"access", Json{trace::list(access)}},
                                      {"host_access", each.host_access}}));
  }
  for (const auto& [handle, each] : process.handles)
    handles.push_back(
        trace::object({{"handle", hexadecimal(handle)}, {"memory", each->record}, {"references", each->references}}));
  for (uint32_t i = 0; i < memory::ledger().records; ++i)
    if (const memory::Record& each = memory::ledger().record[i]; each.kind == memory::Record::physical)
      memories.push_back(trace::object({{"memory", i}, {"size", each.size}, {"device", memory::device_of(each.gpu)}}));
  return {{"reservations", Json{trace::list(reservations)}},
          {"mappings", Json{trace::list(mappings)}},
          {"handles", Json{trace::list(handles)}},
          {"memories", Json{trace::list(memories)}}};
}

std::string answer(int error, const std::string& reason, Answer value) {
  std::vector<Member> members = {{"error", error}, {"why", reason}};
  if (value) members.emplace_back("value", hexadecimal(*value));
  for (const Member& each : everything()) members.push_back(each);
  return trace::object(members);
}

std::string answer_to(const std::string& line) {
  std::istringstream words(line);
  std::string name, word;
  Arguments given;
  words >> name;
  while (words >> word) given.push_back(std::strtoull(word.c_str(), nullptr, 0));
  for (const Named& each : calls) {
    if (name != each.name || given.size() != each.arguments) continue;
    static std::map<std::string, unsigned> made;
    memory::caller().call = name + " #" + std::to_string(++made[name]);
    try {
      return answer(0, "", each.call(given));
    } catch (const memory::Refused& refused) {
      return answer(refused.error, refused.reason, {});
    }
  }
  return answer(-1, "no such call, or not with " + std::to_string(given.size()) + " arguments", {});
}

}  // namespace

// Begins the machine, once: GPUs as an H200. Null: all is well, or why not.
extern "C" [[gnu::used]] const char* begin(int gpus) {
  static std::string reason;
  memory::Machine machine;
  machine.gpus = gpus;
  machine.memory = uint64_t(140) << 30;
  setenv("VMMSIM", memory::create_machine(machine, {}, "").c_str(), 1);
  reason = memory::reason_without_machine();
  return reason.empty() ? nullptr : reason.c_str();
}

// Makes a call: its name, and numbers with blanks between. The answer is JSON, and good until the next call.
extern "C" [[gnu::used]] const char* call(const char* line) {
  static std::string last;
  last = answer_to(line);
  return last.c_str();
}
