// SPDX-License-Identifier: MIT-0
// A call with its arguments and what it gave, and how a line of a trace writes these.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace trace {

struct Argument {
  enum Kind {
    number,
    unsigned_number,
    address,
    text,
    pointer,
    extent,       // Extent
    kernel_name,  // as the compiler writes it
    function,     // CUfunction or CUkernel, shown by its name
    kernel_list,  // KernelNames
    properties,   // CUmemAllocationProp
    location,     // CUmemLocation
    team,         // CUmulticastObjectProp
    launch,       // CUlaunchConfig
    descriptors,  // CUmemAccessDesc[]; how many says the argument that follows
    // Read after the call:
    out_number,      // 64 bits
    out_address,     // 64 bits
    out_int,         // 32 bits
    out_properties,  // CUmemAllocationProp
  } kind;
  uint64_t value;  // the number or address; of what is larger, a pointer to it
};
struct Extent {
  unsigned x, y, z;
};  // a grid or a block
struct KernelName {
  const char* mangled;
};
struct KernelNames {  // of those that a graph launches
  std::vector<std::string> mangled;
};

// An argument of a call as its type tells. Pointers to numbers and to handles are outputs, unless they are const.
template <class T> Argument argument(const T& value) {
  if constexpr (requires { value.z; }) {  // Extent, dim3
    return {Argument::extent, reinterpret_cast<uint64_t>(&value)};
  } else if constexpr (std::is_same_v<T, KernelNames>) {
    return {Argument::kernel_list, reinterpret_cast<uint64_t>(&value)};
  } else if constexpr (std::is_same_v<T, KernelName>) {
    return {Argument::kernel_name, reinterpret_cast<uint64_t>(value.mangled)};
  } else if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    const auto bits = reinterpret_cast<uint64_t>(value);
    if constexpr (std::is_same_v<T, const char*>) return {Argument::text, bits};
    else if constexpr (std::is_same_v<T, CUfunction> || std::is_same_v<T, CUkernel>) return {Argument::function, bits};
    else if constexpr (std::is_same_v<T, const CUmemAllocationProp*>) return {Argument::properties, bits};
    else if constexpr (std::is_same_v<T, CUmemAllocationProp*>) return {Argument::out_properties, bits};
    else if constexpr (std::is_same_v<T, const CUmemLocation*>) return {Argument::location, bits};
    else if constexpr (std::is_same_v<T, const CUmemAccessDesc*>) return {Argument::descriptors, bits};
    else if constexpr (std::is_same_v<T, const CUmulticastObjectProp*>) return {Argument::team, bits};
    else if constexpr (std::is_same_v<T, const CUlaunchConfig*> || requires { value->dynamicSmemBytes; })
      return {Argument::launch, bits};  // the runtime's cudaLaunchConfig_t lies like the driver's
    else if constexpr (std::is_const_v<Target> || std::is_void_v<Target> || std::is_function_v<Target> ||
                       std::is_class_v<Target>)
      return {Argument::pointer, bits};
    else if constexpr (std::is_pointer_v<Target> || std::is_same_v<Target, unsigned long long>)
      return {Argument::out_address, bits};
    else if constexpr (std::is_integral_v<Target> && sizeof(Target) == 8) return {Argument::out_number, bits};
    else if constexpr ((std::is_integral_v<Target> || std::is_enum_v<Target>) && sizeof(Target) == 4)
      return {Argument::out_int, bits};
    else return {Argument::pointer, bits};
  } else if constexpr (std::is_class_v<T>) {  // a location
    return argument(value.id);
  } else {
    constexpr auto kind = std::is_same_v<T, unsigned long long> ? Argument::address
                          : std::is_unsigned_v<T>               ? Argument::unsigned_number
                                                                : Argument::number;
    return {kind, static_cast<uint64_t>(value)};
  }
}

struct Call {
  const char* name;
  const char* names;  // of the arguments: "ptr, size"
  std::vector<Argument> arguments;
  template <class... Values>
  Call(const char* name, const char* names, const Values&... values)
      : name(name), names(names), arguments{argument(values)...} {}
};

// The name of a CUfunction or CUkernel as the compiler writes it; empty: it is neither.
using NameOfKernel = std::string (*)(const void* function_or_kernel);

std::vector<std::string> names_of(const Call&);  // of the arguments, from "ptr, size"
// As JSON. Addresses are texts, for no reader of JSON keeps all 64 bits of a number. Outputs are read.
std::string value_of(const Call&, size_t argument, NameOfKernel);
// {"ptr":"0x7f...","size":2097152}, before or after the call: of an output its address.
std::string given(const Call&, NameOfKernel);
std::string taken(const Call&);  // {"ptr":"0x302000000"}: the outputs, after a call that succeeded

inline bool is_output(const Argument& argument) { return argument.kind >= Argument::out_number; }

}  // namespace trace
