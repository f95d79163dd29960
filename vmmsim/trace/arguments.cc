// SPDX-License-Identifier: MIT-0
#include "arguments.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include "json.h"
#include "text.h"

namespace trace {

namespace {

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

// Up to the first that the call refuses: no call has read further.
Json json(const CUmemAccessDesc* first, uint64_t count) {
  std::vector<std::string> all;
  for (uint64_t i = 0; i < count; ++i) {
    const unsigned flags = first[i].flags;
    const char* const name = flags == 0 ? "NONE" : flags == 1 ? "READ" : flags == 3 ? "READWRITE" : nullptr;
    all.push_back(
        object({{"location", json(first[i].location)}, {"flags", named("CU_MEM_ACCESS_FLAGS_PROT_", name, flags)}}));
    if (!name || first[i].location.type < 1 || first[i].location.type > 4) break;
  }
  return {list(all)};
}

Json json(const KernelNames& names) {
  std::vector<std::string> all;
  for (const std::string& name : names.mangled) all.push_back(demangled(name));
  return {list_of_texts(all)};
}

template <class Value> const Value& at(const Argument& argument) {
  return *reinterpret_cast<const Value*>(argument.value);
}

Json json(const Argument& argument, NameOfKernel name_of_kernel) {
  if (argument.kind == Argument::number) return number(int64_t(argument.value));
  if (argument.kind == Argument::unsigned_number) return number(argument.value);
  if (argument.kind == Argument::address) return json(argument.value);
  if (!argument.value) return {"null"};
  switch (argument.kind) {
    case Argument::text: return {json_string(&at<char>(argument))};
    case Argument::kernel_name: return {json_string(demangled(&at<char>(argument)))};
    case Argument::function: {
      const std::string name = name_of_kernel(&at<char>(argument));
      return name.empty() ? json(argument.value) : Json{json_string(demangled(name))};
    }
    case Argument::kernel_list: return json(at<KernelNames>(argument));
    case Argument::extent: {
      const auto& [x, y, z] = at<Extent>(argument);
      return {list({std::to_string(x), std::to_string(y), std::to_string(z)})};
    }
    case Argument::properties:
    case Argument::out_properties: return json(at<CUmemAllocationProp>(argument));
    case Argument::location: return json(at<CUmemLocation>(argument));
    case Argument::team: return json(at<CUmulticastObjectProp>(argument));
    case Argument::out_number: return number(at<uint64_t>(argument));
    case Argument::out_int: return number(at<int32_t>(argument));
    case Argument::out_address: return json(at<uint64_t>(argument));
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
  return json(&at<CUmemAccessDesc>(argument), call.arguments[i + 1].value).text;
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
