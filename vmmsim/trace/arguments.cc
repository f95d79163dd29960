// SPDX-License-Identifier: MIT-0
#include "arguments.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <optional>
#include <string_view>
#include "json.h"
#include "text.h"

namespace trace {

namespace {

// A call that is refused may not have looked where a pointer of the program leads, and that may be nowhere. So the
// system copies what is there, and says so; where that is forbidden, as in an emulator, it is read as it is.
bool copy_from(uint64_t address, void* to, size_t size) {
  auto* const from = reinterpret_cast<void*>(address);
  const int error = errno;  // the program's
  const iovec here = {to, size}, there = {from, size};
  const ssize_t copied = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
  const bool is_forbidden = copied < 0 && (errno == ENOSYS || errno == EPERM);
  errno = error;
  if (is_forbidden) std::memcpy(to, from, size);
  return is_forbidden || copied == ssize_t(size);
}

template <class Value> std::optional<Value> read(uint64_t address) {
  Value value;
  return copy_from(address, &value, sizeof value) ? std::optional(value) : std::nullopt;
}

std::optional<std::string> read_text(uint64_t address) {
  constexpr size_t most = 1 << 20;  // names of kernels can be long
  std::string text;
  char piece[256];
  while (text.size() < most) {
    const size_t size = sizeof piece - (address + text.size()) % sizeof piece;  // no page begins within it
    if (!copy_from(address + text.size(), piece, size)) return std::nullopt;
    const size_t length = strnlen(piece, size);
    text.append(piece, length);
    if (length < size) return text;
  }
  return std::nullopt;
}

Json json(uint64_t address) { return {json_string(hexadecimal(address))}; }

// A value of an enumeration: its name, or its number if it has none.
Json named(const char* prefix, const char* name, unsigned value) {
  return {name ? json_string(std::string(prefix) + name) : std::to_string(value)};
}

Json json(const CUmemLocation& location) {
  constexpr const char* types[] = {"INVALID", "DEVICE", "HOST", "HOST_NUMA", "HOST_NUMA_CURRENT"};
  const auto type = unsigned(location.type);
  return {object({{"type", named("CU_MEM_LOCATION_TYPE_", type < std::size(types) ? types[type] : nullptr, type)},
                  {"id", location.id}})};
}

Json json(const CUmemAllocationProp& all) {
  const char* const type = all.type == CU_MEM_ALLOCATION_TYPE_PINNED ? "PINNED" : nullptr;
  return {object({{"type", named("CU_MEM_ALLOCATION_TYPE_", type, all.type)},
                  {"requestedHandleTypes", int(all.requestedHandleTypes)},
                  {"location", json(all.location)},
                  {"allocFlags", Json{object({{"compressionType", all.allocFlags.compressionType},
                                              {"gpuDirectRDMACapable", all.allocFlags.gpuDirectRDMACapable},
                                              {"usage", all.allocFlags.usage}})}}})};
}

Json json(const CUmulticastObjectProp& all) {
  return {object(
      {{"numDevices", all.numDevices}, {"size", all.size}, {"handleTypes", all.handleTypes}, {"flags", all.flags}})};
}

Json json(const CUlaunchConfig& all) {
  const auto extent = [](auto x, auto y, auto z) {
    return Json{list({std::to_string(x), std::to_string(y), std::to_string(z)})};
  };
  return {object({{"gridDim", extent(all.gridDimX, all.gridDimY, all.gridDimZ)},
                  {"blockDim", extent(all.blockDimX, all.blockDimY, all.blockDimZ)},
                  {"sharedMemBytes", all.sharedMemBytes},
                  {"hStream", json(reinterpret_cast<uint64_t>(all.hStream))}})};
}

Json json(const KernelNames& names) {
  std::vector<std::string> all;
  for (const std::string& name : names.mangled) all.push_back(demangled(name));
  return {list_of_texts(all)};
}

// Descriptors, up to the first that the call refuses: no call has read further.
std::optional<Json> read_descriptors(uint64_t address, uint64_t count) {
  constexpr uint64_t most = 1024;  // a mistake: no machine has so many places
  std::vector<std::string> all;
  for (uint64_t i = 0; i < count; ++i) {
    const auto descriptor = i < most ? read<CUmemAccessDesc>(address + i * sizeof(CUmemAccessDesc)) : std::nullopt;
    if (!descriptor) return std::nullopt;
    const unsigned flags = descriptor->flags;
    const char* const name = flags == 0 ? "NONE" : flags == 1 ? "READ" : flags == 3 ? "READWRITE" : nullptr;
    all.push_back(
        object({{"location", json(descriptor->location)}, {"flags", named("CU_MEM_ACCESS_FLAGS_PROT_", name, flags)}}));
    if (!name || descriptor->location.type < 1 || descriptor->location.type > 4) break;
  }
  return Json{list(all)};
}

// What lies at a pointer, or the pointer itself if that leads nowhere.
template <class Value, class Write> Json at(uint64_t address, Write write) {
  const auto value = read<Value>(address);
  return value ? write(*value) : json(address);
}
template <class Value> Json at(uint64_t address) {
  return at<Value>(address, [](const Value& value) { return json(value); });
}
template <class Value> Json number_at(uint64_t address) {
  return at<Value>(address, [](Value value) { return number(value); });
}
Json text_at(uint64_t address, bool is_mangled) {
  const auto text = read_text(address);
  return text ? Json{json_string(is_mangled ? demangled(*text) : *text)} : json(address);
}

Json json(const Argument& argument, NameOfKernel name_of_kernel) {
  if (argument.kind == Argument::number) return number(int64_t(argument.value));
  if (argument.kind == Argument::unsigned_number) return number(argument.value);
  if (argument.kind == Argument::address) return json(argument.value);
  if (!argument.value) return {"null"};
  switch (argument.kind) {
    case Argument::text:
    case Argument::kernel_name: return text_at(argument.value, argument.kind == Argument::kernel_name);
    case Argument::function: {
      const std::string name = name_of_kernel(reinterpret_cast<const void*>(argument.value));
      return name.empty() ? json(argument.value) : Json{json_string(demangled(name))};
    }
    case Argument::kernel_list: return json(*reinterpret_cast<const KernelNames*>(argument.value));
    case Argument::extent: {
      const auto& [x, y, z] = *reinterpret_cast<const Extent*>(argument.value);
      return {list({std::to_string(x), std::to_string(y), std::to_string(z)})};
    }
    case Argument::properties:
    case Argument::out_properties: return at<CUmemAllocationProp>(argument.value);
    case Argument::location: return at<CUmemLocation>(argument.value);
    case Argument::team: return at<CUmulticastObjectProp>(argument.value);
    case Argument::launch: return at<CUlaunchConfig>(argument.value);
    case Argument::out_number: return number_at<uint64_t>(argument.value);
    case Argument::out_int: return number_at<int32_t>(argument.value);
    case Argument::out_address: return at<uint64_t>(argument.value);
    default: return json(argument.value);
  }
}

}  // namespace

std::vector<std::string> names_of(const Call& call) {
  std::vector<std::string> names;
  const std::string_view all = call.names;
  for (size_t from = 0; from < all.size();) {
    const size_t to = std::min(all.find(',', from), all.size());
    names.emplace_back(all.substr(from, to - from));
    from = all.find_first_not_of(", ", to);
  }
  return names;
}

std::string value_of(const Call& call, size_t i, NameOfKernel name_of_kernel) {
  const Argument& argument = call.arguments[i];
  if (argument.kind != Argument::descriptors || !argument.value) return json(argument, name_of_kernel).text;
  const auto all = read_descriptors(argument.value, call.arguments[i + 1].value);
  return all ? all->text : json(argument.value).text;
}

std::string given(const Call& call, NameOfKernel name_of_kernel) {
  const std::vector<std::string> names = names_of(call);
  std::vector<Member> all;
  for (size_t i = 0; i < names.size(); ++i)
    all.emplace_back(names[i], is_output(call.arguments[i]) ? json(call.arguments[i].value)
                                                            : Json{value_of(call, i, name_of_kernel)});
  return object(all);
}

std::string taken(const Call& call) {
  const std::vector<std::string> names = names_of(call);
  std::vector<Member> all;
  for (size_t i = 0; i < names.size(); ++i)
    if (is_output(call.arguments[i])) all.emplace_back(names[i], json(call.arguments[i], nullptr));
  return object(all);
}

}  // namespace trace
