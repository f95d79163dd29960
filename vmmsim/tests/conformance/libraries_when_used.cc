// SPDX-License-Identifier: MIT-0
// Libraries, of which code is compiled when it is first used: what each call says of code that is right or wrong. Not
// asked: CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE with null, where the driver crashes.
#include "places.h"

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"

struct Code {
  const char* what;
  const char* text;
};
static const Code codes[] = {
    {"one kernel", HEAD ".visible .global .u32 table[6];\n.visible .entry other(.param .u32 a) { ret; }\n"},
    {"two kernels, one not visible", HEAD ".visible .entry other() { ret; }\n.entry hidden() { ret; }\n"},
    {"no kernel", HEAD ".visible .global .u32 table[6];\n"},
    {"a function alone", HEAD ".visible .func other() { ret; }\n"},
    {"a managed variable",
     HEAD ".visible .global .attribute(.managed) .u32 table = 7;\n.visible .entry other() { ret; }\n"},
    {"nothing", HEAD},
    {"a missing brace", HEAD ".visible .entry other() { ret;\n"},
    {"a late target", ".version 8.0\n.target sm_999\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"a late version", ".version 99.0\n.target sm_90\n.address_size 64\n.visible .entry other() { ret; }\n"},
    {"a missing label", HEAD ".visible .entry other() { bra nowhere; }\n"},
    {"a wrong type", HEAD ".visible .entry other() { .reg .f32 %f<3>; add.s32 %f1, %f2, %f2; ret; }\n"},
    {"a missing function", HEAD ".extern .func missing();\n.visible .entry other() { call missing; ret; }\n"},
    {"the same kernel twice", HEAD ".visible .entry other() { ret; }\n.visible .entry other() { ret; }\n"},
    {"a kernel that is only declared", HEAD ".entry other();\n"},
    {"a kernel that others define, and one", HEAD ".extern .entry other();\n.visible .entry hidden() { ret; }\n"},
    {"a kernel that is declared, then defined", HEAD ".entry other();\n.visible .entry other() { ret; }\n"},
    {"too much shared memory", HEAD ".visible .entry other() { .shared .b8 room[60000]; .reg .b32 %r<2>;\n"
                                    "mov.u32 %r1, room; st.shared.u32 [room], %r1; ret; }\n"}};

static CUlibrary library;
static CUresult load(const Code& code) {
  return cuLibraryLoadData(&library, code.text, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
static CUkernel kernel() {
  CUkernel found = nullptr;
  return cuLibraryGetKernel(&found, library, "other") ? nullptr : found;
}

// Each question is put to a library that was just loaded.
struct Question {
  const char* what;
  bool needs_kernel;
  std::string (*answer)();
};
static const Question questions[] = {
    {"count", false,
     [] {
       unsigned count = 99;
       const CUresult result = cuLibraryGetKernelCount(&count, library);
       return with(result, count);
     }},
    {"enumerate", false,
     [] {
       CUkernel found[4] = {};
       const CUresult result = cuLibraryEnumerateKernels(found, 4, library);
       return with(result, (found[0] != nullptr) + (found[1] != nullptr));
     }},
    {"kernel", false,
     [] {
       CUkernel found = nullptr;
       return plain(cuLibraryGetKernel(&found, library, "other"));
     }},
    {"kernel that is not there", false,
     [] {
       CUkernel found = nullptr;
       return plain(cuLibraryGetKernel(&found, library, "missing"));
     }},
    {"function", true,
     [] {
       CUfunction found = nullptr;
       return plain(cuKernelGetFunction(&found, kernel()));
     }},
    {"module", false,
     [] {
       CUmodule found = nullptr;
       return plain(cuLibraryGetModule(&found, library));
     }},
    {"variable", false,
     [] {
       CUdeviceptr address;
       size_t size = 0;
       const CUresult result = cuLibraryGetGlobal(&address, &size, library, "table");
       return with(result, size);
     }},
    {"managed variable", false,
     [] {
       CUdeviceptr address;
       size_t size = 0;
       const CUresult result = cuLibraryGetManaged(&address, &size, library, "table");
       return with(result, size);
     }},
    {"unified function", false,
     [] {
       void* found = nullptr;
       return plain(cuLibraryGetUnifiedFunction(&found, library, "other"));
     }},
    {"unified function that is not there", false,
     [] {
       void* found = nullptr;
       return plain(cuLibraryGetUnifiedFunction(&found, library, "missing"));
     }},
    {"attribute", true,
     [] {
       int value = 0;
       const CUresult result = cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel(), 0);
       return with(result, value);
     }},
    {"set attribute", true,
     [] { return plain(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel(), 0)); }},
    {"cache config", true, [] { return plain(cuKernelSetCacheConfig(kernel(), CU_FUNC_CACHE_PREFER_L1, 0)); }},
    {"name", true,
     [] {
       const char* name = nullptr;
       const CUresult result = cuKernelGetName(&name, kernel());
       return plain(result) + (result ? "" : std::string(", ") + name);
     }},
    {"parameter 0", true,
     [] {
       size_t offset = 0, size = 0;
       const CUresult result = cuKernelGetParamInfo(kernel(), 0, &offset, &size);
       return with(result, size);
     }},
    {"launch", true,
     [] {
       unsigned value = 0;
       void* arguments[] = {&value};
       return plain(cuLaunchKernel(CUfunction(kernel()), 1, 1, 1, 1, 1, 1, 0, a_stream, arguments, nullptr));
     }},
    {"function, twice", true, [] {
       CUfunction found = nullptr;
       const CUresult first = cuKernelGetFunction(&found, kernel());
       return plain(first) + ", then " + plain(cuKernelGetFunction(&found, kernel()));
     }}};

SECTION("code") {
  begin();
  for (const Code& code : codes) {
    const CUresult result = load(code);
    say(code.what, result);
    if (result) continue;
    CHECK(cuLibraryUnload(library));
    for (const Question& each : questions) {
      CHECK(load(code));
      const bool needs_kernel = each.needs_kernel;
      say(std::string(code.what) + ", " + each.what, needs_kernel && !kernel() ? "no kernel" : each.answer());
      CHECK(cuLibraryUnload(library));
    }
  }
}

SECTION("options") {
  begin();
  static char log[1000];
  for (const Code& code : codes) {
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values[] = {log, reinterpret_cast<void*>(sizeof log)};
    log[0] = 0;
    const CUresult result = cuLibraryLoadData(&library, code.text, option, values, 2, nullptr, nullptr, 0);
    say(std::string(code.what) + ", with a log", plain(result) + (log[0] ? ", a text" : ", no text"));
  }
  // With CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE and a table that is null the driver crashes: not asked.
  CUlibraryOption preserved[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
  void* values[] = {reinterpret_cast<void*>(1)};
  say("preserved", cuLibraryLoadData(&library, codes[0].text, nullptr, nullptr, 0, preserved, values, 1));
}

int main(int argc, char** argv) { return run_sections(argc, argv); }
