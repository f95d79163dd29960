// SPDX-License-Identifier: MIT-0
// What differs between the processors that the simulator runs on, 64-bit x86 and 64-bit Arm: their ELF files, their
// addresses, and the jumps that lead one function to another. Nothing here needs the C++ library (runtime/hook.cc).
#pragma once
#include <elf.h>

#include <cstdint>

namespace processor {

#if defined __x86_64__

constexpr char name[] = "64-bit x86";
constexpr unsigned elf_machine = EM_X86_64;
constexpr unsigned address_bits = 47;      // of a process
constexpr bool has_known_runtimes = true;  // runtime/known_runtimes.py reads code of this processor

// What is written to the head of a function: jmp *(%rip), and where to. It leaves all registers as they are.
struct [[gnu::packed]] Jump {
  unsigned char code[6] = {0xff, 0x25, 0, 0, 0, 0};
  uintptr_t to = 0;
};

// A jump that gives a function another first argument: mov $argument, %rdi.
struct [[gnu::packed]] JumpWith {
  unsigned char code[2] = {0x48, 0xbf};
  const char* argument = nullptr;
  Jump jump;
};

// Functions that are too short for a jump are followed by what fills up.
constexpr bool has_short_jump = false;
inline uint32_t short_jump(int64_t) { return 0; }

// Where a function leads that is no more than a jump, and aligned, so that a Jump has room there; 0 of others.
inline uintptr_t target_of_jump(const char* code) {
  const auto at = reinterpret_cast<uintptr_t>(code);
  int32_t distance = 0;
  __builtin_memcpy(&distance, code + 1, sizeof distance);
  return *code == '\xe9' && at % 16 == 0 ? at + 5 + distance : 0;
}

#elif defined __aarch64__

constexpr char name[] = "64-bit Arm";
constexpr unsigned elf_machine = EM_AARCH64;
constexpr unsigned address_bits = 48;
constexpr bool has_known_runtimes = false;

// ldr x16, to; br x16. That register is for such code, so the function that is called may have bti at its head.
struct [[gnu::packed]] Jump {
  uint32_t code[2] = {0x58000050, 0xd61f0200};
  uintptr_t to = 0;
};

// ldr x0, argument
struct [[gnu::packed]] JumpWith {
  uint32_t code = 0x580000a0;
  Jump jump;
  const char* argument = nullptr;
};

// b, to so many bytes from it: as long as the shortest of functions, and for 128 MiB.
constexpr bool has_short_jump = true;
inline uint32_t short_jump(int64_t distance) { return 0x14000000 | (uint32_t(distance / 4) & 0x3ffffff); }

inline uintptr_t target_of_jump(const char* code) {
  const auto at = reinterpret_cast<uintptr_t>(code);
  int32_t word = 0;
  __builtin_memcpy(&word, code, sizeof word);
  const bool is_jump = (uint32_t(word) & 0xfc000000) == 0x14000000;
  return is_jump && at % 16 == 0 ? at + int64_t(int32_t(uint32_t(word) << 6) >> 6) * 4 : 0;
}

#else
#error "The simulator runs on 64-bit x86 and on 64-bit Arm"
#endif

}  // namespace processor
