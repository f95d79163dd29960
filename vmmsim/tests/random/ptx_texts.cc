// SPDX-License-Identifier: MIT-0
#include "ptx_texts.h"

namespace {
// A driver reads the first bytes to find out what an image is, so short ones have zeros behind them.
constexpr char empty[4096] = "";
constexpr char no_code[4096] = "hello";
constexpr char cut_elf[4096] = "\177ELF\2\1\1";
}  // namespace

#define HEAD PTX_HEAD
const std::array<Code, 32> codes = {{
    {"base", base_ptx},
    {"clusters", cluster_ptx},
    {"other", HEAD ".visible .global .u32 table;\n.visible .entry other() { ret; }\n"},
    {"old", ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"two kernels", HEAD ".visible .entry nothing() { ret; }\n.entry other(.param .u32 a, .param .f64 b) { ret; }\n"},
    {"no kernel", HEAD ".visible .global .align 4 .b8 table[64];\n"},
    {"a function alone", HEAD ".visible .func other() { ret; }\n"},
    {"managed", HEAD ".visible .global .attribute(.managed) .align 4 .u32 shared_word = 7;\n"
                     ".visible .entry other() { ret; }\n"},
    {"nothing at all", HEAD},
    {"empty", empty},
    {"no code", no_code},
    {"cut machine code", cut_elf},
    {"brace", HEAD ".visible .entry other() { ret;\n"},
    {"late target", ".version 8.0\n.target sm_999\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"later target", ".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"late version", ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"no version", ".target sm_90\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"label", HEAD ".visible .entry other() { bra nowhere; ret; }\n"},
    {"type", HEAD ".visible .entry other() { .reg .f32 %f<3>; add.s32 %f1, %f2, %f2; ret; }\n"},
    {"width", HEAD ".visible .entry other() { .reg .b64 %rd<3>; .reg .b32 %r<3>; add.s32 %r1, %rd2, %r2; ret; }\n"},
    {"register", HEAD ".visible .entry other() { .reg .b32 %r<3>; add.s32 %r1, %r2, %r7; ret; }\n"},
    {"opcode", HEAD ".visible .entry other() { .reg .b32 %r<3>; frobnicate.s32 %r1, %r2; ret; }\n"},
    {"modifier", HEAD ".visible .entry other() { .reg .f32 %f<3>; mul.lo.f32 %f1, %f2, %f2; ret; }\n"},
    {"operands", HEAD ".visible .entry other() { .reg .b32 %r<3>; add.s32 %r1, %r2; ret; }\n"},
    {"variable", HEAD ".visible .entry other() { .reg .b32 %r<3>; ld.global.u32 %r1, [missing]; ret; }\n"},
    {"unresolved", HEAD ".extern .func missing();\n.visible .entry other() { call missing; ret; }\n"},
    {"twice", HEAD ".visible .entry other() { ret; }\n.visible .entry other() { ret; }\n"},
    {"shared memory", HEAD ".visible .entry other() { .shared .b8 room[60000]; .reg .b32 %r<2>;\n"
                           "mov.u32 %r1, room; st.shared.u32 [room], %r1; ret; }\n"},
    {"block", HEAD ".visible .entry other() .maxntid 2048, 1, 1 { ret; }\n"},
    {"exact block", HEAD ".visible .entry other() .reqntid 128 .maxnreg 32 { ret; }\n"},
    {"immediate", HEAD ".visible .entry other() { .reg .b32 %r<3>; mov.u32 %r1, 1.5; ret; }\n"},
    {"later instruction",
     ".version 7.0\n.target sm_70\n.address_size 64\n"
     ".visible .entry other() { barrier.cluster.arrive; ret; }\n"},
}};
