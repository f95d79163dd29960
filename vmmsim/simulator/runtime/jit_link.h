// SPDX-License-Identifier: MIT-0
// The calls of nvJitLink that are led to the simulator: what the hook and jit_link.cc share.
#pragma once
#include <string_view>

namespace jit_link {

// Our function for nvJitLinkX is vmmsim_nvJitLinkX; for the last two there is none.
enum { create, destroy, add_data, add_file, get_size, get, get_ptx_size, get_ptx, call_count };
constexpr std::string_view names[call_count] = {"nvJitLinkCreate",
                                                "nvJitLinkDestroy",
                                                "nvJitLinkAddData",
                                                "nvJitLinkAddFile",
                                                "nvJitLinkGetLinkedCubinSize",
                                                "nvJitLinkGetLinkedCubin",
                                                "nvJitLinkGetLinkedPtxSize",
                                                "nvJitLinkGetLinkedPtx"};

}  // namespace jit_link
