// SPDX-License-Identifier: MIT-0
// One random call: numbers that are the same on every machine, and the line that tells of the call.
#pragma once
#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <tuple>
#include <vector>

// Each call has numbers of its own (splitmix64), so however many one call draws, the next one is the same.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state(seed) { next(); }
  std::uint64_t next() {
    std::uint64_t mixed = state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  std::size_t below(std::size_t end) { return next() % end; }
  bool percent(unsigned of_a_hundred) { return below(100) < of_a_hundred; }

 private:
  std::uint64_t state;
};

// An argument, and how the line names it: by its place or its kind, never by its address.
template <class Value> struct Argument {
  Value value;
  std::string text;
};
template <class Value> Argument<Value> shown(Value value, std::string text) { return {value, std::move(text)}; }
template <class Value> Argument<Value*> out(Value& place) { return {&place, "&"}; }
template <class Value> Argument<Value> number(Value value) { return {value, std::to_string(value)}; }

// Mostly one of the good values, else one of the bad ones.
template <class Value>
Argument<Value> choose(Random& random, std::initializer_list<Value> good, std::initializer_list<Value> bad = {},
                       unsigned bad_of_a_hundred = 20) {
  const bool wrong = bad.size() != 0 && random.percent(bad_of_a_hundred);
  const auto& from = wrong ? bad : good;
  return number(from.begin()[random.below(from.size())]);
}

inline bool ended_for_good = false;  // a call answered that the context is broken

inline const char* name_of(CUresult result) {
  const char* found = nullptr;
  if (cuGetErrorName(result, &found) != CUDA_SUCCESS || !found) return "unknown";
  return result == CUDA_SUCCESS ? "SUCCESS" : found + sizeof "CUDA_ERROR_" - 1;
}

// What is known of a call is printed before it is made, so a call that ends the process is the last in the output.
inline void tell(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}
inline void tell(const char* format, long long value) {
  std::printf(format, value);
  std::fflush(stdout);
}

inline bool breaks_the_context(CUresult result) {
  return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
         (result >= CUDA_ERROR_ASSERT && result <= CUDA_ERROR_LAUNCH_FAILED && result != CUDA_ERROR_TOO_MANY_PEERS &&
          result != CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED && result != CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED) ||
         result == CUDA_ERROR_ECC_UNCORRECTABLE || result == CUDA_ERROR_DEINITIALIZED;
}

template <class Function, class... Values>
CUresult make_call(const char* name, Function function, const std::tuple<Argument<Values>...>& arguments) {
  return std::apply(
      [&](const auto&... argument) {
        std::string text = std::string(name) + "(";
        ((text += argument.text + ", "), ...);
        if (sizeof...(argument)) text.resize(text.size() - 2);
        tell(text + "): ");
        const CUresult result = function(argument.value...);
        tell(name_of(result));
        ended_for_good = ended_for_good || breaks_the_context(result);
        return result;
      },
      arguments);
}
// Braces, because arguments in braces are drawn from left to right, with every compiler.
#define CALL(function, ...) make_call(#function, function, std::tuple{__VA_ARGS__})
#define FINE(function, ...) (make_call(#function, function, std::tuple{__VA_ARGS__}) == CUDA_SUCCESS)

// A kind of calls, and how to make one.
struct Maker {
  const char* kind;
  unsigned weight;
  void (*make)(Random&);
};
using Makers = std::vector<Maker>;
