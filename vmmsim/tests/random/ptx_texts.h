// SPDX-License-Identifier: MIT-0
// Code for random calls: what every process has, and texts of which many are wrong.
#pragma once
#include <array>

#define PTX_HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

inline constexpr char base_ptx[] = PTX_HEAD R"(
.visible .global .align 8 .b8 table[24];
.visible .const .align 4 .u32 constant = 5;
.visible .entry nothing() { ret; }
.visible .entry store(.param .u64 where, .param .u32 value) {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  ld.param.u64 %rd1, [where]; ld.param.u32 %r1, [value]; cvta.to.global.u64 %rd2, %rd1; st.global.u32 [%rd2], %r1; ret;
}
.visible .entry limited() .maxntid 64, 1, 1 { ret; }
.visible .entry sharing() {
  .shared .align 4 .b8 room[40000];
  .reg .b32 %r<2>;
  mov.u32 %r1, 1; st.shared.u32 [room], %r1; ret;
}
.visible .entry exactly() .reqntid 32, 2, 1 { ret; }
.visible .entry bounded() .maxntid 256 .minnctapersm 4 { ret; }
)";
inline constexpr char cluster_ptx[] = PTX_HEAD R"(
.visible .entry two_wide() .reqnctapercluster 2 { ret; }
.visible .entry some_cluster() .explicitcluster .maxclusterrank 4 { ret; }
)";
inline constexpr std::array<const char*, 6> base_names = {"nothing", "store",   "limited",
                                                          "sharing", "exactly", "bounded"};
inline constexpr std::array<const char*, 8> function_names = {"nothing", "store",   "limited",  "sharing",
                                                              "exactly", "bounded", "two_wide", "some_cluster"};

struct Code {
  const char* what;
  const char* text;
};
extern const std::array<Code, 32> codes;
