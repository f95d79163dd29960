// SPDX-License-Identifier: MIT-0
// Functions that lead to others, which are found when the first of them is called: of the runtime the driver's calls
// (runtime/driver.cc), and of a program with a runtime inside those of ours (runtime/hook.cc). A lead passes on all
// arguments. A file that has leads defines `leads`, `target_of_lead`, and in assembly its leads, after LEADS.
#pragma once
#include <cstdint>

constexpr unsigned lead_size = 32;  // bytes of code

extern "C" {
// Where each leads; 0: not yet known.
[[gnu::visibility("hidden")]] extern uintptr_t lead_targets[];
// Called at a first call: finds the target.
[[gnu::visibility("hidden")]] uintptr_t target_of_lead(uint64_t number);
}

#if defined __x86_64__

#define LEADS                                 \
  ".macro lead number\n"                      \
  ".balign 32\n"                              \
  "mov lead_targets+8*\\number(%rip), %r11\n" \
  "test %r11, %r11\n"                         \
  "je 1f\n"                                   \
  "jmp *%r11\n"                               \
  "1: mov $\\number, %r11d\n"                 \
  "jmp lead_on\n"                             \
  ".endm\n"                                   \
  ".text\n"                                   \
  ".type lead_on, @function\n"                \
  "lead_on:\n"                                \
  "push %rax\n"                               \
  "push %rdi\n"                               \
  "push %rsi\n"                               \
  "push %rdx\n"                               \
  "push %rcx\n"                               \
  "push %r8\n"                                \
  "push %r9\n"                                \
  "sub $128, %rsp\n"                          \
  "movups %xmm0, (%rsp)\n"                    \
  "movups %xmm1, 16(%rsp)\n"                  \
  "movups %xmm2, 32(%rsp)\n"                  \
  "movups %xmm3, 48(%rsp)\n"                  \
  "movups %xmm4, 64(%rsp)\n"                  \
  "movups %xmm5, 80(%rsp)\n"                  \
  "movups %xmm6, 96(%rsp)\n"                  \
  "movups %xmm7, 112(%rsp)\n"                 \
  "mov %r11, %rdi\n"                          \
  "call target_of_lead\n"                     \
  "mov %rax, %r11\n"                          \
  "movups (%rsp), %xmm0\n"                    \
  "movups 16(%rsp), %xmm1\n"                  \
  "movups 32(%rsp), %xmm2\n"                  \
  "movups 48(%rsp), %xmm3\n"                  \
  "movups 64(%rsp), %xmm4\n"                  \
  "movups 80(%rsp), %xmm5\n"                  \
  "movups 96(%rsp), %xmm6\n"                  \
  "movups 112(%rsp), %xmm7\n"                 \
  "add $128, %rsp\n"                          \
  "pop %r9\n"                                 \
  "pop %r8\n"                                 \
  "pop %rcx\n"                                \
  "pop %rdx\n"                                \
  "pop %rsi\n"                                \
  "pop %rdi\n"                                \
  "pop %rax\n"                                \
  "jmp *%r11\n"                               \
  ".size lead_on, . - lead_on\n"

#elif defined __aarch64__

#define LEADS                                       \
  ".macro lead number\n"                            \
  ".balign 32\n"                                    \
  "adrp x16, lead_targets+8*\\number\n"             \
  "ldr x16, [x16, :lo12:lead_targets+8*\\number]\n" \
  "cbz x16, 1f\n"                                   \
  "br x16\n"                                        \
  "1: mov w17, \\number\n"                          \
  "b lead_on\n"                                     \
  ".endm\n"                                         \
  ".text\n"                                         \
  ".type lead_on, %function\n"                      \
  "lead_on:\n"                                      \
  "stp x29, x30, [sp, -224]!\n"                     \
  "mov x29, sp\n"                                   \
  "stp x0, x1, [sp, 16]\n"                          \
  "stp x2, x3, [sp, 32]\n"                          \
  "stp x4, x5, [sp, 48]\n"                          \
  "stp x6, x7, [sp, 64]\n"                          \
  "str x8, [sp, 80]\n"                              \
  "stp q0, q1, [sp, 96]\n"                          \
  "stp q2, q3, [sp, 128]\n"                         \
  "stp q4, q5, [sp, 160]\n"                         \
  "stp q6, q7, [sp, 192]\n"                         \
  "mov w0, w17\n"                                   \
  "bl target_of_lead\n"                             \
  "mov x16, x0\n"                                   \
  "ldp x0, x1, [sp, 16]\n"                          \
  "ldp x2, x3, [sp, 32]\n"                          \
  "ldp x4, x5, [sp, 48]\n"                          \
  "ldp x6, x7, [sp, 64]\n"                          \
  "ldr x8, [sp, 80]\n"                              \
  "ldp q0, q1, [sp, 96]\n"                          \
  "ldp q2, q3, [sp, 128]\n"                         \
  "ldp q4, q5, [sp, 160]\n"                         \
  "ldp q6, q7, [sp, 192]\n"                         \
  "ldp x29, x30, [sp], 224\n"                       \
  "br x16\n"                                        \
  ".size lead_on, . - lead_on\n"

#endif
