// SPDX-License-Identifier: MIT-0
// What every call of the driver and of the runtime has around it: --fail, --trace, --explain, the error that stays
// after a fault, and the rule that a call made by another call is not the program's own. A call is written so:
//
//   CUresult cuMemFree(CUdeviceptr dptr) {
//     return call(ARGUMENTS(dptr), [&] { free_now(dptr); });
//   }
//
// The function that is given does the work. It may return a result, and throw Refused (of the runtime: Failed).
#pragma once
#include <cuda.h>

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

// The function that this stands in as a call, with its arguments, which have the names of the header.
#define ARGUMENTS(...) driver::Call(__func__, #__VA_ARGS__ __VA_OPT__(, ) __VA_ARGS__)
#define EXPORT extern "C" __attribute__((visibility("default")))  // of what the toolkit's header does not declare

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
    properties,   // CUmemAllocationProp
    location,     // CUmemLocation
    team,         // CUmulticastObjectProp
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

// An argument of a call as its type tells. Pointers to numbers and to handles are outputs, unless they are const.
template <class T> Argument argument(const T& value) {
  if constexpr (std::is_same_v<T, Extent>) {
    return {Argument::extent, reinterpret_cast<uint64_t>(&value)};
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
                          : std::is_unsigned_v<T>               ? Argument::natural
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

enum CallFlags {
  none = 0,
  before_init = 1,
  after_fault = 2,       // answers even after a fault
  in_host_function = 4,  // and in a host function or callback of a stream, like cuGetErrorName
  after_exit = 8         // and when the driver has shut down because the process exits: of the runtime
};

// Runs `work`, which returns a result or throws memory::Refused, as a call of the program. Returns what the program
// gets: --fail's error instead of calling `work`; the error of an earlier fault; CUDA_ERROR_NOT_INITIALIZED before
// cuInit unless `flags` has before_init; else the result of `work`. Inside another call `work` just runs. `error_name`
// turns a result into its name, for the trace.
__attribute__((visibility("default"))) int run(const Call&, int flags, const char* (*error_name)(int),
                                               const std::function<int()>& work);

// What `work` returns; 0, success, if that is nothing.
template <class Work> int result_of(const Work& work) {
  if constexpr (std::is_void_v<std::invoke_result_t<Work>>) {
    work();
    return 0;
  } else {
    return work();
  }
}

// Says a text on stderr, once in this process.
void say_once(const std::string& text);

// Says on stderr, once for each text, what a call cannot do here: "vmmsim: cuFoo is not simulated".
__attribute__((visibility("default"))) int not_simulated(const char* name);

// What a process does beside its calls, for --trace: before a descriptor is closed, and before the process ends.
void tell_close(int fd);
void tell_exit(int status);

// Says why the call in progress is going to be refused, for --explain.
__attribute__((visibility("default"))) void explain(const std::string& why);

}  // namespace driver
