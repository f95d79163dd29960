// SPDX-License-Identifier: MIT-0
// What every call of the driver and of the runtime has around it: --fail, --trace, --explain, the error that stays
// after a fault, and the rule that a call made by another call is not the program's own.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>

namespace driver {

struct Argument {
  enum Kind {
    number,
    natural,
    address,
    text,
    pointer,
    extent,       // Extent
    kernel_name,  // as the compiler writes it
    function,     // CUfunction or CUkernel, shown by its name
    properties,
    location,
    team,         // CUmemAllocationProp, CUmemLocation, CUmulticastObjectProp
    descriptors,  // CUmemAccessDesc[]; how many says the argument that follows
    out_number,
    out_address,
    out_int,
    out_properties  // read after the call; 64, 64 and 32 bits, and a struct
  } kind;
  const char* name;  // up to its end or a comma or parenthesis
  uint64_t value;    // the number or address; of what is larger, a pointer to it
};
struct Extent {
  unsigned x, y, z;
};  // a grid or a block
struct KernelName {
  const char* mangled;
};

// Runs `work` as the call `name` of the program. `work` returns the result or throws memory::Refused. Returns what the
// program gets: --fail's error instead of calling `work`; the error of an earlier fault; CUDA_ERROR_NOT_INITIALIZED
// before cuInit unless `flags` has before_init; else the result of `work`. Inside another call `work` just runs.
// `error_name` turns a result into its name, for the trace.
enum CallFlags {
  none = 0,
  before_init = 1,
  after_fault = 2,       // answers even after a fault
  in_host_function = 4,  // and in a host function or callback of a stream, like cuGetErrorName
  after_exit = 8         // and when the driver has shut down because the process exits: of the runtime
};
__attribute__((visibility("default"))) int call(const char* name, std::initializer_list<Argument> arguments, int flags,
                                                const char* (*error_name)(int), const std::function<int()>& work);

// Says a text on stderr, once in this process.
void say_once(const std::string& text);

// Says on stderr, once for each text, what a call cannot do here: "vmmsim: cuFoo is not simulated".
__attribute__((visibility("default"))) int not_simulated(const char* name);

// Says why the call in progress is going to be refused, for --explain.
__attribute__((visibility("default"))) void explain(const std::string& why);

// An argument of a call as its type tells. Pointers to numbers and to handles are outputs, unless they are const.
template <class T> Argument argument(const char* name, const T& value) {
  if constexpr (std::is_same_v<T, Extent>) {
    return {Argument::extent, name, reinterpret_cast<uint64_t>(&value)};
  } else if constexpr (std::is_same_v<T, KernelName>) {
    return {Argument::kernel_name, name, reinterpret_cast<uint64_t>(value.mangled)};
  } else if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    const auto bits = reinterpret_cast<uint64_t>(value);
    if constexpr (std::is_same_v<T, const char*>) return {Argument::text, name, bits};
    else if constexpr (std::is_same_v<T, CUfunction> || std::is_same_v<T, CUkernel>)
      return {Argument::function, name, bits};
    else if constexpr (std::is_same_v<T, const CUmemAllocationProp*>) return {Argument::properties, name, bits};
    else if constexpr (std::is_same_v<T, CUmemAllocationProp*>) return {Argument::out_properties, name, bits};
    else if constexpr (std::is_same_v<T, const CUmemLocation*>) return {Argument::location, name, bits};
    else if constexpr (std::is_same_v<T, const CUmemAccessDesc*>) return {Argument::descriptors, name, bits};
    else if constexpr (std::is_same_v<T, const CUmulticastObjectProp*>) return {Argument::team, name, bits};
    else if constexpr (std::is_const_v<Target> || std::is_void_v<Target> || std::is_function_v<Target>)
      return {Argument::pointer, name, bits};
    else if constexpr (std::is_pointer_v<Target> || std::is_same_v<Target, unsigned long long>)
      return {Argument::out_address, name, bits};
    else if constexpr (std::is_integral_v<Target> && sizeof(Target) == 8) return {Argument::out_number, name, bits};
    else if constexpr ((std::is_integral_v<Target> || std::is_enum_v<Target>) && sizeof(Target) == 4)
      return {Argument::out_int, name, bits};
    else return {Argument::pointer, name, bits};
  } else {
    constexpr auto kind = std::is_same_v<T, unsigned long long> ? Argument::address
                          : std::is_unsigned_v<T>               ? Argument::natural
                                                                : Argument::number;
    return {kind, name, static_cast<uint64_t>(value)};
  }
}

// Runs a call whose arguments' names stand in one text, "(ptr, size)", in the order of the arguments.
template <class... Values>
int call(const char* name, int flags, const char* (*error_name)(int), const char* names,
         const std::function<int()>& work, const Values&... values) {
  auto next = [&] {  // the name after this bracket, comma or space
    while (*names == '(' || *names == ',' || *names == ' ') ++names;
    const char* const found = names;
    while (*names && *names != ',' && *names != ')') ++names;
    return found;
  };
  (void)next;  // of a call without arguments
  return call(name, {argument(next(), values)...}, flags, error_name, work);
}

}  // namespace driver
