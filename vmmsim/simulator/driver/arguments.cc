// SPDX-License-Identifier: MIT-0
#include "arguments.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>
#include "../text.h"

namespace driver {

std::string plain(const char* name) {
  const char* const version = std::strstr(name, "_v");
  return version ? std::string(name, version) : name;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto value = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') result += '\\';
    if (value >= 0x20 && value != 0x7f) {
      result += c;
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", value);
    result += code;
  }
  return result + '"';
}

namespace {

std::string json(uint64_t address) { return quoted(hexadecimal(address).c_str()); }

std::string json(const CUmemLocation& location) {
  constexpr const char* types[] = {"INVALID", "DEVICE", "HOST", "HOST_NUMA", "HOST_NUMA_CURRENT"};
  const auto type = unsigned(location.type);
  return "{\"type\":" +
         (type < std::size(types) ? "\"CU_MEM_LOCATION_TYPE_" + std::string(types[type]) + "\""
                                  : std::to_string(type)) +
         ",\"id\":" + std::to_string(location.id) + "}";
}

std::string json(const CUmemAllocationProp& all) {
  return "{\"type\":" +
         (all.type == CU_MEM_ALLOCATION_TYPE_PINNED ? "\"CU_MEM_ALLOCATION_TYPE_PINNED\"" : std::to_string(all.type)) +
         ",\"requestedHandleTypes\":" + std::to_string(all.requestedHandleTypes) +
         ",\"location\":" + json(all.location) +
         ",\"allocFlags\":{\"compressionType\":" + std::to_string(all.allocFlags.compressionType) +
         ",\"gpuDirectRDMACapable\":" + std::to_string(all.allocFlags.gpuDirectRDMACapable) +
         ",\"usage\":" + std::to_string(all.allocFlags.usage) + "}}";
}

std::string json(const CUmulticastObjectProp& all) {
  return "{\"numDevices\":" + std::to_string(all.numDevices) + ",\"size\":" + std::to_string(all.size) +
         ",\"handleTypes\":" + std::to_string(all.handleTypes) + ",\"flags\":" + std::to_string(all.flags) + "}";
}

// Up to the first that the call refuses: no call has read further.
std::string json(const CUmemAccessDesc* first, uint64_t count) {
  std::string all;
  for (uint64_t i = 0; i < count; ++i) {
    const unsigned flags = first[i].flags;
    const char* const name = flags == 0 ? "NONE" : flags == 1 ? "READ" : flags == 3 ? "READWRITE" : nullptr;
    all += (i ? "," : "") + ("{\"location\":" + json(first[i].location)) +
           ",\"flags\":" + (name ? "\"CU_MEM_ACCESS_FLAGS_PROT_" + std::string(name) + "\"" : std::to_string(flags)) +
           "}";
    if (!name || first[i].location.type < 1 || first[i].location.type > 4) break;
  }
  return "[" + all + "]";
}

std::string json(const Argument& argument) {
  if (argument.kind == Argument::number) return std::to_string(int64_t(argument.value));
  if (argument.kind == Argument::natural) return std::to_string(argument.value);
  if (argument.kind == Argument::address) return json(argument.value);
  if (!argument.value) return "null";
  const void* const at = reinterpret_cast<const void*>(argument.value);
  switch (argument.kind) {
    case Argument::text: return quoted(static_cast<const char*>(at));
    case Argument::kernel_name: return quoted(demangled(static_cast<const char*>(at)).c_str());
    case Argument::function: {
      const std::string name = kernel_name(at);
      return name.empty() ? json(argument.value) : quoted(demangled(name).c_str());
    }
    case Argument::kernel_list: {
      std::string all;
      for (const std::string& name : static_cast<const KernelNames*>(at)->mangled)
        all += (all.empty() ? "" : ",") + quoted(demangled(name).c_str());
      return "[" + all + "]";
    }
    case Argument::extent: {
      const Extent& it = *static_cast<const Extent*>(at);
      return "[" + std::to_string(it.x) + "," + std::to_string(it.y) + "," + std::to_string(it.z) + "]";
    }
    case Argument::properties:
    case Argument::out_properties: return json(*static_cast<const CUmemAllocationProp*>(at));
    case Argument::location: return json(*static_cast<const CUmemLocation*>(at));
    case Argument::team: return json(*static_cast<const CUmulticastObjectProp*>(at));
    case Argument::out_number: return std::to_string(*static_cast<const uint64_t*>(at));
    case Argument::out_int: return std::to_string(*static_cast<const int32_t*>(at));
    case Argument::out_address: return json(*static_cast<const uint64_t*>(at));
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

std::string value_of(const Call& call, size_t i) {
  const Argument& argument = call.arguments[i];
  if (argument.kind != Argument::descriptors || !argument.value) return json(argument);
  return json(reinterpret_cast<const CUmemAccessDesc*>(argument.value), call.arguments[i + 1].value);
}

std::string given(const Call& call) {
  const std::vector<std::string> names = names_of(call);
  std::string all;
  for (size_t i = 0; i < names.size(); ++i)
    all += (all.empty() ? "" : ",") + quoted(names[i].c_str()) + ":" +
           (is_output(call.arguments[i]) ? json(call.arguments[i].value) : value_of(call, i));
  return "{" + all + "}";
}

std::string taken(const Call& call) {
  const std::vector<std::string> names = names_of(call);
  std::string all;
  for (size_t i = 0; i < names.size(); ++i)
    if (is_output(call.arguments[i]))
      all += (all.empty() ? "" : ",") + quoted(names[i].c_str()) + ":" + value_of(call, i);
  return "{" + all + "}";
}

}  // namespace driver
